"""The Trainer side of distillation: a mixin that adds the distillation loss to that of a method."""

from __future__ import annotations

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from calmix.data.batches.sampler import BatchKeys
from calmix.mixing.distillation import distillation_loss, mixed_targets, tempered
from calmix.mixing.method import Method
from calmix.mixing.step import RowLosses
from calmix.training.arguments import MixupArguments
from calmix.training.distillation.teacher_logits import TeacherLogits, first_not_finite
from calmix.training.hf_compat import TrainerBase
from calmix.training.recording import count_classes
from calmix.user_error import UserError


class DistillationMixin(TrainerBase):
    """Mixin: the loss of a row is α times the method's own plus (1 − α) τ² KL(teacher ‖ student).

    A row without a label (−1) has the second term only. With α = 1 the teacher is not asked.
    """

    args: MixupArguments
    keys: BatchKeys
    teacher: TeacherLogits | None = None

    def learn_from(self, teacher: TeacherLogits | ArrayLike) -> None:
        """`teacher`: logits [rows, classes] of the training rows, by position."""
        known = teacher if isinstance(teacher, TeacherLogits) else TeacherLogits.of_arrays([teacher])
        rows, classes = len(self.train_dataset), count_classes(self.model, self.train_dataset)  # type: ignore[arg-type]
        if (known.rows, known.classes) != (rows, classes):
            raise UserError(
                f"the teacher knows {known.rows} rows of {known.classes} classes, "
                f"the training set has {rows} of {classes}",
                remedy="give its logits for all training rows, in their order",
            )
        for member in known.members:
            wrong = first_not_finite(member)
            if wrong is not None:
                raise UserError(
                    f"the teacher's logits of training row {wrong} (counted from 0) are not finite numbers",
                    remedy="teach with another one, or leave the row out",
                )
        self.teacher = known

    def check_teaches_unlabelled(self) -> None:
        """Refuse to train on rows without a label that nobody would say anything about."""
        if self.teacher is None:
            raise UserError("rows without a label need a teacher", remedy="give teacher=LOGITS")
        if self.args.label_weight == 1:
            raise UserError(
                "rows without a label are learned from the teacher, and label_weight=1 leaves it out",
                remedy="give a label_weight below 1, or leave the unlabelled rows out",
            )

    def taught(self, result: RowLosses, labels: Tensor) -> Tensor:
        """The loss of every row of the micro-batch under way."""
        alpha, distill_temperature = self.args.label_weight, self.args.distill_temperature
        if self.teacher is None or alpha == 1:
            return result.losses
        answers = torch.from_numpy(self.teacher.of(self.keys.positions)).to(result.losses.device)
        targets = tempered(answers, distill_temperature)
        if result.logits is not None:
            soft = distillation_loss(result.logits, targets, distill_temperature)
        else:
            check_teachable(result)
            assert result.mixed is not None
            both = mixed_targets(targets, result.mixed.partner, result.mixed.ratio)
            soft = distillation_loss(result.mixed.logits, both, distill_temperature)
        return alpha * torch.where(labels >= 0, result.losses, 0.0) + (1 - alpha) * soft


def check_learns_unlabelled(method: Method) -> None:
    """Refuse a method that could do nothing with rows without a label."""
    if method.pairs != "none":
        raise UserError(
            f"{method.name} mixes labels, and some rows have none",
            remedy="leave the unlabelled rows out, or use a method that mixes nothing, such as plain",
        )


def check_teachable(result: RowLosses) -> None:
    if result.logits is None and result.mixed is None:
        raise UserError(
            "this method returns no logits with their rows: it cannot train a student",
            remedy="give its RowLosses logits, or mixed=MixedRows(...)",
        )
