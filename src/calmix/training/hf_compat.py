"""What calmix relies on in the Trainer of transformers beyond its documented interface.

Private attributes, undocumented hooks and the files of a checkpoint are used in this module alone, and each
has a test in `tests/training/test_hf_compat.py`. `calmix.models.hf_compat` does the same for networks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.optim.lr_scheduler import LRScheduler
from transformers import Trainer
from transformers.trainer_utils import TrainOutput, get_last_checkpoint

from calmix.training.checkpoints.trainer_files import checkpoint_path

__all__ = ["TrainOutput", "get_last_checkpoint"]  # of a module that the documentation calls internal

if TYPE_CHECKING:
    TrainerBase = Trainer
else:
    TrainerBase = object
"""What a mixin for a Trainer inherits from: for mypy the Trainer, at run time nothing."""


def train_batch_size(trainer: Trainer) -> int:
    """Rows of a micro-batch on one process. `auto_find_batch_size` lowers it while training."""
    return int(trainer._train_batch_size)


def prepare_inputs(trainer: Trainer, inputs: dict[str, Any]) -> dict[str, Any]:
    """A batch on the device of the Trainer."""
    return trainer._prepare_inputs(inputs)


def set_own_scheduler(trainer: Trainer, scheduler: LRScheduler) -> LRScheduler:
    """Give the Trainer a scheduler that it drops after training, like one that it made itself."""
    holder: Any = trainer  # which types its attribute as the one kind that it makes
    holder.lr_scheduler = scheduler
    holder._created_lr_scheduler = True
    return scheduler


class StepRowsMixin(TrainerBase):
    """Mixin: `num_items_in_batch` of `compute_loss` counts the rows of the whole optimiser step."""

    # The loss is divided by those rows: the Trainer must not divide it by the micro-batches again.
    loss_is_scaled_for_ga = True

    def rows_of(self, batch: Any) -> int:
        """The rows of a micro-batch."""
        return len(batch["labels"])

    def get_batch_samples(
        self, epoch_iterator: Iterator[Any], num_batches: int, device: torch.device
    ) -> tuple[list[Any], int]:
        """The micro-batches of one optimiser step, and how many rows they hold over all processes."""
        batches, _ = super().get_batch_samples(epoch_iterator, num_batches, device)
        rows = sum(self.rows_of(batch) for batch in batches)
        if self.args.world_size > 1:
            rows = int(self.accelerator.reduce(torch.tensor(rows, device=device)).item())
        return batches, max(rows, 1)


class ClippingMixin(TrainerBase):
    """Mixin: the parameters whose gradients the Trainer clips can be chosen."""

    @staticmethod
    def clips_chosen_parameters() -> bool:
        """Whether this version of the Trainer has the method that is replaced here."""
        return hasattr(Trainer, "_clip_grad_norm")

    def clipped_parameters(self, model: nn.Module) -> Iterable[nn.Parameter] | None:
        """None: all parameters of the network."""
        return None

    def _clip_grad_norm(self, model: nn.Module) -> Any:
        chosen = self.clipped_parameters(model)
        if chosen is None:
            own: Any = super()
            return own._clip_grad_norm(model)
        return self.accelerator.clip_grad_norm_(chosen, self.args.max_grad_norm)


def find_moved_best(state: Any, output: Path | str) -> None:
    """Correct the path of the best checkpoint: after a run directory was moved, the Trainer would silently
    ignore it."""
    if state.best_global_step and (best := checkpoint_path(output, state.best_global_step)).is_dir():
        state.best_model_checkpoint = str(best)


def evaluations(trainer: Trainer, metric: str) -> list[dict[str, Any]]:
    """The log entries of the evaluations that measured a metric, in order."""
    return [entry for entry in trainer.state.log_history if f"eval_{metric}" in entry]
