"""`MixupTrainer`: a `transformers.Trainer` that trains with any method.

    from calmix import MixupArguments, MixupTrainer

    trainer = MixupTrainer(
        model=model,
        args=MixupArguments(output_dir="run", method="plain", method_options={"label_smoothing": 0.1}),
        train_dataset=train,
        eval_dataset=validation,
        processing_class=tokenizer,
    )
    trainer.train()
    trainer.save_calibrated("model", validation)

Mixed precision, accumulation, checkpoints, trackers and several processes are the Trainer's own.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate.utils import gather_object
from numpy.typing import ArrayLike
from torch import Tensor, nn
from transformers import Trainer

from calmix.calibration.multi_label.label_scaling import LabelScaling
from calmix.data.batches.grouped import RowGroups
from calmix.data.batches.sampler import BatchKeys, EpochBatchSampler, KeyedCollator
from calmix.data.batches.unlabelled import labelled_count
from calmix.dynamics.datamap import DataMap
from calmix.mixing.bank import SaliencyBank
from calmix.mixing.known_rows import KnownRows
from calmix.mixing.losses import binary_cross_entropy, cross_entropy
from calmix.mixing.method import Method
from calmix.mixing.needs import PREVIOUS_EPOCH, plain_run_epochs
from calmix.mixing.step import Moment, RowLosses, Step
from calmix.models.hf_compat import first_position, has_independent_labels, pools_last_token
from calmix.models.inputs import refusing_rows
from calmix.models.mix_points import MixPoints
from calmix.runtime.double_precision import in_double
from calmix.training.arguments import MixupArguments
from calmix.training.checkpoints.calibrated import save_calibrated
from calmix.training.checkpoints.callback import Checkpointing
from calmix.training.checkpoints.resumable import check_whole, newest_complete
from calmix.training.distillation.mixin import DistillationMixin, check_learns_unlabelled, check_teachable
from calmix.training.distillation.teacher_logits import TeacherLogits
from calmix.training.fast_layers import FastLayersMixin
from calmix.training.forward import Forward
from calmix.training.hf_compat import StepRowsMixin, TrainOutput, prepare_inputs, train_batch_size
from calmix.training.journal import JOURNAL_FILE, Journal
from calmix.training.optimization.mixin import OptimizerMixin
from calmix.training.recording import DynamicsMixin, count_classes, diverged, label_column
from calmix.training.targets.mixin import TargetsMixin
from calmix.user_error import UserError, argument

UNUSED_TOKENS = ("[unused0]", "<unused0>", "[unused1]")
PREFLIGHT_ROWS = 4


class MixupTrainer(
    FastLayersMixin,
    DistillationMixin,
    OptimizerMixin,
    TargetsMixin,
    DynamicsMixin,
    StepRowsMixin,
    Trainer,
):
    """Trains with the method that `args.method` names, or with a `method` of your own."""

    args: MixupArguments
    checkpoints_kept: int | None = None
    """Older checkpoints are removed once a newer one is whole; None leaves that to `save_total_limit`."""
    groups: RowGroups | None = None
    """Groups of training rows that stand side by side in every batch."""

    def __init__(
        self,
        *args: Any,
        method: Method | None = None,
        data_map: KnownRows | DataMap | RowGroups | None = None,
        teacher: TeacherLogits | ArrayLike | None = None,
        row_weights: ArrayLike | None = None,
        soft_labels: ArrayLike | None = None,
        **kwargs: Any,
    ) -> None:
        """`data_map`: what a guided method must know first, such as `read_data_map("plain-run")`;
        `filtered_data_map(plain_trainer, make_model)` where it filters labels; or the groups of rows.
        `teacher`: logits [rows, classes] that the network shall learn beside the labels, by position.
        `row_weights` [rows]: how much each training row counts. `soft_labels` [rows, classes]: probabilities
        in place of the labels, which stay those that dynamics are recorded for."""
        self.row_weights, self.soft_labels = row_weights, soft_labels
        super().__init__(*args, **kwargs)
        self.method = method if method is not None else self.args.build_method()
        self.journal = Journal()
        self.bank: SaliencyBank | None = None
        self.forwards: list[Forward] = []
        self.add_callback(Checkpointing(self))
        if self.train_dataset is not None:
            self.groups = self.choose_groups(data_map)
            self.check_balance(self.groups)
            self.batches = self.make_batches()
        if teacher is not None:
            self.learn_from(teacher)

    def learn_from(self, teacher: TeacherLogits | ArrayLike) -> None:
        self.check_balance(self.groups, is_taught=True)
        super().learn_from(teacher)

    def make_batches(self) -> EpochBatchSampler:
        batches = super().make_batches()
        if self.groups is None:
            return batches
        return replace(batches, groups=self.groups, rows=self.groups.rows_per_epoch)

    def choose_groups(self, known: KnownRows | DataMap | RowGroups | None) -> RowGroups | None:
        """The groups of rows that the method wants side by side in every batch."""
        if PREVIOUS_EPOCH in self.method.needed and (
            self.recorder is None or self.when_recording != "training"
        ):
            raise UserError(
                f"{self.method.name} with scope=global needs the dynamics of training",
                remedy=f"use {argument('dynamics', 'training')}",
            )
        rows: Any = self.train_dataset
        labelled = self.labelled_rows
        if labelled < len(rows):
            check_learns_unlabelled(self.method)
        if isinstance(known, RowGroups):
            self.check_groups(known)
            return known
        if known is None:
            if plain_run_epochs(self.method.needed):
                raise UserError(
                    f"{self.method.name} needs the data map of a plain run",
                    remedy='give data_map=read_data_map("RUN") of a run on the same rows',
                )
            known = KnownRows(DataMap.unknown(labelled), self.args.seed)
        if isinstance(known, DataMap):
            ids = getattr(rows, "row_ids", None)
            known = KnownRows(known if ids is None else known.of_rows(ids[:labelled]), self.args.seed)
        if len(known.datamap) != labelled:
            raise UserError(
                f"the data map holds {len(known.datamap)} rows, the training set {labelled}",
                remedy="give the map of a plain run on the same rows",
            )
        groups = self.method.groups(known)
        if groups is not None:
            self.check_groups(groups)
        return groups

    def check_groups(self, groups: RowGroups) -> None:
        for name, size in groups.sizes.items():
            if not size:
                raise UserError(
                    f"{self.method.name}: no training row is {name}", remedy="train on more rows or epochs"
                )
        batch_size = train_batch_size(self)
        if batch_size < len(groups.names):
            raise UserError(
                f"{self.method.name}: a batch of {batch_size} has no place for a row of each of "
                f"the {len(groups.names)} groups that meet in it",
                remedy=f"give {argument('batch_size', len(groups.names))} or more",
            )

    def train(
        self,
        resume_from_checkpoint: str | bool | None = None,
        trial: Any | dict[str, Any] | None = None,
        ignore_keys_for_eval: list[str] | None = None,
    ) -> TrainOutput:
        self.journal, self.bank = Journal(), None
        if self.labelled_rows < len(self.train_dataset):  # type: ignore[arg-type]
            self.check_teaches_unlabelled()
        if resume_from_checkpoint and resume_from_checkpoint is not True:
            check_whole(Path(resume_from_checkpoint))
        return super().train(resume_from_checkpoint, trial, ignore_keys_for_eval)

    def save_calibrated(
        self, directory: str | Path, validation: Any = None, *, trust_remote_code: bool = False
    ) -> float | LabelScaling:
        """Fit the temperature on validation rows, by default `eval_dataset`, and save a standard checkpoint
        whose plain softmax is calibrated, with its tokenizer; returns the temperature.

        Of rows with several labels (`problem_type="multi_label_classification"`, labels of 0 and 1 as
        floats), the scaling of every label is fitted, folded and returned, and plain sigmoid is calibrated.

        What is saved is loaded again and proven on rows. The trainer's own model stays as it is.
        """
        rows = self.eval_dataset if validation is None else validation
        if rows is None:
            raise UserError("no validation rows", remedy="give validation, or eval_dataset to the trainer")
        return save_calibrated(self, Path(directory), rows, trust_remote_code=trust_remote_code)

    def newest_checkpoint(self) -> str | None:
        newest = newest_complete(
            Path(str(self.args.output_dir)), needs_best=bool(self.args.load_best_model_at_end)
        )
        return str(newest) if newest is not None else None

    @property
    def labelled_rows(self) -> int:
        """Rows without a label (−1) stand last: only a teacher says anything about them."""
        labels = label_column(self.train_dataset)
        return len(self.train_dataset) if labels is None else labelled_count(labels)  # type: ignore[arg-type]

    def preflight(self, *, is_taught: bool = False) -> None:
        """One step on a few rows that changes nothing: what a method cannot do with this network or tokenizer
        is refused before anything is written."""
        self.check_balance(self.groups, is_taught=is_taught)
        for depth in self.method.depths(self.mix_points.head):
            self.mix_points.check(depth)
        dataset: Any = self.train_dataset
        keyed = [(key, dataset[key.position]) for key in next(iter(self.batches))[:PREFLIGHT_ROWS]]
        inputs = KeyedCollator(self.data_collator, self._accepted_features())(keyed)
        self.keys = inputs.pop(BatchKeys.NAME)
        model: Any = self.model
        # Batch normalisation keeps running means, which a step in training mode moves.
        buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]
        with torch.random.fork_rng(), torch.no_grad():
            model.train()
            batch = prepare_inputs(self, inputs)
            labels = batch.pop("labels")
            forward = Forward(model, self.mix_points, batch, is_compiled=self.args.torch_compile)
            try:
                result = self.method.losses(self.make_step(labels, batch, forward))
            except UserError:
                raise
            except Exception:
                with refusing_rows(model):  # where the network itself fails, its checkpoint is at fault
                    model(**batch)
                raise
            finally:
                forward.restore()
                for buffer, before in buffers:
                    buffer.copy_(before)
        if is_taught:
            check_teachable(result)

    def load_recorded(self, directory: Path) -> None:
        super().load_recorded(directory)
        if (directory / JOURNAL_FILE).is_file() and self.is_world_process_zero():
            self.journal.load_state(json.loads((directory / JOURNAL_FILE).read_text()))

    def merged_journal(self) -> Journal:
        """What all processes wrote down."""
        if self.args.world_size == 1:
            return self.journal
        whole = Journal()
        whole.merge(gather_object([self.journal.state()]))
        return whole

    def rows_of(self, batch: Any) -> int:
        return int(batch[BatchKeys.NAME].real)

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Tensor | Any],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:
        # The model never sees labels: it would take floating ones for a multi-label task.
        labels = inputs.pop("labels")
        if not model.training:
            outputs = model(**inputs)
            row_losses = binary_cross_entropy if self.has_label_sets(labels) else cross_entropy
            loss = row_losses(outputs.logits, labels).mean()
            return (loss, outputs) if return_outputs else loss

        forward = Forward(model, self.mix_points, inputs, is_compiled=self.args.torch_compile)
        self.forwards.append(forward)
        result = self.method.losses(self.make_step(labels, inputs, forward))
        self.record(result.logits)
        # Padding rows stand last. They are forwarded, since all processes must, and have no weight.
        losses = self.taught(result, labels)[: self.keys.real]
        if not torch.isfinite(losses).all():
            raise diverged(self.current_epoch, self.state.global_step + 1, "the loss is not finite")
        self.write_journal(result, losses)
        rows = num_items_in_batch if num_items_in_batch is not None else len(losses)
        # Gradients are averaged over processes; the sum of all rows is divided by all rows.
        loss = losses.sum() / rows * self.args.world_size
        return (loss, {"logits": result.logits}) if return_outputs else loss

    def training_step(
        self,
        model: nn.Module,
        inputs: dict[str, Tensor | Any],
        num_items_in_batch: Tensor | int | None = None,
    ) -> Tensor:
        try:
            return super().training_step(model, inputs, num_items_in_batch)
        finally:
            # Backward has ended: nothing is run again, the network is whole once more.
            while self.forwards:
                self.forwards.pop().restore()

    def write_journal(self, result: RowLosses, losses: Tensor) -> None:
        epoch = self.current_epoch
        self.journal.add(epoch, {"loss": in_double(losses).sum(), "rows": len(losses), **result.tally})
        if result.pairs and self.keys.number == 0:  # a few pairs of every epoch's first batch
            rows: Any = self.train_dataset
            ids = getattr(rows, "row_ids", None)
            for pairs in result.pairs:
                self.journal.keep_pairs(epoch, pairs, self.keys, ids)

    @property
    def keeps_logits(self) -> bool:
        return hasattr(self, "method") and PREVIOUS_EPOCH in self.method.needed

    def begin_epoch(self) -> None:
        """Fill the bank with the logits of the rows in the epoch before."""
        super().begin_epoch()
        if PREVIOUS_EPOCH not in self.method.needed:
            return
        recorder = self.merged_recorder()
        if self.groups is not None and recorder is not None:
            # A run that is resumed in mid-epoch has recorded a part of this one.
            logits = recorder.latest_logits(before=self.current_epoch)
            known = not np.isnan(logits).all()
            positions = self.groups.positions
            self.bank = self.method.make_bank(logits, recorder.labels, positions) if known else None

    def make_step(self, labels: Tensor, inputs: dict[str, Any], forward: Forward) -> Step:
        """The micro-batch under way, as a method sees it."""
        return Step(
            labels=labels.clamp(min=0),  # of a row without a label the loss is left out
            num_classes=self.num_classes,
            forward=forward,
            moment=Moment(self.args.seed, self.current_epoch, self.state.global_step, self.keys.number),
            inputs=inputs,
            real=self.keys.real,
            head=self.mix_points.head,
            fillers=self.fillers,
            longest=None if self.batches.lengths is None else int(self.batches.lengths.max()),
            first_position=self.first_position,
            groups=None if self.groups is None else self.keys.groups,
            positions=self.keys.positions,
            bank=self.bank,
            mass=self.target_mass,
            is_multi_label=self.has_label_sets(labels),
        )

    def has_label_sets(self, labels: Tensor) -> bool:
        """Whether rows have several labels, or none: 0 and 1 of every label, as the network expects them."""
        return labels.is_floating_point() and has_independent_labels(self.model)

    @cached_property
    def mix_points(self) -> MixPoints:
        return MixPoints(self.accelerator.unwrap_model(self.model))

    @cached_property
    def first_position(self) -> int | None:
        return first_position(self.mix_points.model)

    @cached_property
    def num_classes(self) -> int:
        return count_classes(self.model, self.train_dataset)

    @cached_property
    def fillers(self) -> dict[str, int]:
        """The tokens that pairs can be padded with."""
        tokenizer: Any = self.processing_class
        if tokenizer is None or not hasattr(tokenizer, "convert_tokens_to_ids"):
            return {}
        vocabulary = tokenizer.get_vocab()
        ends = (tokenizer.sep_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id)
        candidates = {
            # A text CNN has no separator: its pairs are padded with zero vectors.
            "sep": next((token for token in ends if token is not None), None),
            "pad": tokenizer.pad_token_id,
            "unused": next((vocabulary[name] for name in UNUSED_TOKENS if name in vocabulary), None),
        }
        # A network that reads its answer at the last token that is no padding must not take a filler for it.
        pools = pools_last_token(self.mix_points.model)
        left_out = (
            {"pad", "sep" if candidates["sep"] == tokenizer.pad_token_id else "pad"} if pools else set()
        )
        return {
            name: token for name, token in candidates.items() if token is not None and name not in left_out
        }
