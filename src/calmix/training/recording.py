"""The Trainer side of the dynamics recorder: a mixin for any `transformers.Trainer`.

    class MyTrainer(DynamicsMixin, Trainer): ...

    trainer = MyTrainer(model=..., args=..., train_dataset=...)
    trainer.train()
    trainer.recorder.dynamics()

The mixin makes the training batches itself, so that every row carries its position in the dataset:
batches of similar length in an order fixed by (seed, epoch), which resumes exactly. It records the logits of
the training forward passes, saves what it recorded with every checkpoint, and takes it up again on resume.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate.utils import gather_object
from safetensors.numpy import load_file, save_file
from torch import Tensor, nn
from torch.utils.data import DataLoader, Subset
from transformers import TrainerCallback

from calmix.data.batches.sampler import BatchKeys, EpochBatchSampler, KeyedCollator, KeyedRows, row_lengths
from calmix.data.batches.unlabelled import labelled_count
from calmix.dynamics.recorder import DynamicsRecorder
from calmix.models.hf_compat import base_model, is_multiple_choice
from calmix.training.checkpoints.trainer_files import checkpoint_path
from calmix.training.hf_compat import (
    TrainerBase,
    TrainOutput,
    get_last_checkpoint,
    train_batch_size,
)
from calmix.user_error import UserError, argument

DYNAMICS_FILE = "dynamics.safetensors"


class DynamicsMixin(TrainerBase):
    """Mixin: rows keep their identity through training, and what the network says about them is kept."""

    recorder: DynamicsRecorder | None = None
    batches: EpochBatchSampler
    keys: BatchKeys
    """The keys of the micro-batch under way."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.add_callback(_Bookkeeping(self))
        self.when_recording = getattr(self.args, "dynamics", "training")
        if self.train_dataset is not None:
            self.batches = self.make_batches()
            self.recorder = self.make_recorder()

    @property
    def keeps_logits(self) -> bool:
        """Whether the recorder keeps whole logits, not only what they say about the label."""
        return False

    def make_batches(self) -> EpochBatchSampler:
        rows: Any = self.train_dataset
        return EpochBatchSampler(
            rows=len(rows),
            batch_size=train_batch_size(self),
            seed=self.args.data_seed if self.args.data_seed is not None else self.args.seed,
            lengths=row_lengths(rows) if getattr(self.args, "length_buckets", True) else None,
            processes=self.args.world_size,
            drop_last=self.args.dataloader_drop_last,
        )

    def make_recorder(self) -> DynamicsRecorder | None:
        """A recorder for the rows of the training set; None where it has no integer labels."""
        rows: Any = self.train_dataset
        labels = label_column(rows)
        if labels is None or self.when_recording == "off":
            return None
        labelled = labelled_count(labels)  # what has no label has no margin
        epochs = self.args.num_train_epochs
        if self.args.max_steps > 0:
            epochs = self.args.max_steps / self.steps_per_epoch
        ids = getattr(rows, "row_ids", None)
        classes = count_classes(self.model, rows)
        config: Any = getattr(self.model, "config", None)
        names = tuple(str(name) for name in (getattr(config, "id2label", None) or {}).values())
        return DynamicsRecorder(
            range(labelled) if ids is None else ids[:labelled],
            labels[:labelled],
            epochs=max(int(np.ceil(epochs)), 1),
            num_classes=classes,
            keep_logits=self.keeps_logits,
            # The choices of a multiple-choice row have no names.
            class_names=names if len(names) == classes and not is_multiple_choice(self.model) else (),
        )

    def train(
        self,
        resume_from_checkpoint: str | bool | None = None,
        trial: Any | dict[str, Any] | None = None,
        ignore_keys_for_eval: list[str] | None = None,
    ) -> TrainOutput:
        if resume_from_checkpoint is True:
            resume_from_checkpoint = self.newest_checkpoint()
        self.recorder = self.make_recorder()
        if resume_from_checkpoint:
            self.load_recorded(Path(str(resume_from_checkpoint)))
        return super().train(resume_from_checkpoint, trial, ignore_keys_for_eval)

    def newest_checkpoint(self) -> str | None:
        """The checkpoint that `resume_from_checkpoint=True` means."""
        newest: str | None = get_last_checkpoint(str(self.args.output_dir))
        return newest

    def get_train_dataloader(self) -> DataLoader[Any]:
        rows: Any = self.train_dataset
        if rows is None:
            raise ValueError("training requires a train_dataset")
        self.batches = self.make_batches()
        loader: DataLoader[Any] = DataLoader(
            KeyedRows(rows),  # type: ignore[arg-type]
            batch_sampler=self.batches,
            collate_fn=KeyedCollator(self.data_collator, self._accepted_features()),
            num_workers=self.args.dataloader_num_workers,
            pin_memory=self.args.dataloader_pin_memory and self.args.device.type != "cpu",
            persistent_workers=self.args.dataloader_persistent_workers,
            # A loader without its own generator draws from the global one, which dropout uses too.
            generator=torch.Generator(),
        )
        return self.accelerator.prepare(loader)  # type: ignore[no-any-return]

    def _accepted_features(self) -> frozenset[str] | None:
        if not self.args.remove_unused_columns:
            return None
        # PEFT's own forward takes anything.
        model = base_model(self.accelerator.unwrap_model(self.model))
        return frozenset(inspect.signature(model.forward).parameters) | {"label", "label_ids", "labels"}

    def training_step(
        self,
        model: nn.Module,
        inputs: dict[str, Tensor | Any],
        num_items_in_batch: Tensor | int | None = None,
    ) -> Tensor:
        keys: Any = inputs.pop(BatchKeys.NAME)
        self.keys = keys
        return super().training_step(model, inputs, num_items_in_batch)

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Tensor | Any],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:
        loss, outputs = super().compute_loss(
            model, inputs, return_outputs=True, num_items_in_batch=num_items_in_batch
        )
        if model.training:
            self.record(outputs["logits"] if isinstance(outputs, dict) else outputs[1])
        return (loss, outputs) if return_outputs else loss

    def record(self, logits: Tensor | None) -> None:
        """The logits of the micro-batch under way; padding rows are left out."""
        if self.recorder is None or self.when_recording != "training" or logits is None:
            return
        real = self.keys.real
        if real:
            seen = logits[:real].detach().to("cpu", torch.float32).numpy()
            if not np.isfinite(seen).all():
                raise diverged(self.current_epoch, self.state.global_step + 1, "the logits are not finite")
            positions = self.keys.positions[:real]
            known = positions < len(self.recorder)
            self.recorder.record_positions(positions[known], seen[known], epoch=self.current_epoch)

    def begin_epoch(self) -> None:
        # Set here, and not through `set_epoch` of the loader, which does not reach a sampler that is wrapped
        # twice (several processes, resumed in mid-epoch).
        self.batches.set_epoch(self.current_epoch)

    def record_epoch_end(self) -> None:
        """One pass over the training rows in evaluation mode."""
        if self.recorder is None or self.when_recording != "epoch_end":
            return
        epoch = (self.state.global_step - 1) // self.steps_per_epoch  # the epoch that has just ended
        rows: Any = Subset(self.train_dataset, range(len(self.recorder)))  # type: ignore[arg-type]
        given: Any = self.predict(rows, metric_key_prefix="dynamics").predictions
        logits = given[0] if isinstance(given, tuple) else given
        if self.is_world_process_zero():  # every process holds all predictions: one of them counts
            self.recorder.record_positions(np.arange(len(logits)), logits, epoch=epoch)

    @property
    def current_epoch(self) -> int:
        """Epochs completed, by whole steps: the fraction in `state.epoch` may round across an epoch's end."""
        return int(self.state.global_step // self.steps_per_epoch)

    @property
    def steps_per_epoch(self) -> int:
        batches = len(self.batches) // max(self.args.world_size, 1)
        return int(max(-(-batches // self.args.gradient_accumulation_steps), 1))

    def merged_recorder(self) -> DynamicsRecorder | None:
        """What all processes recorded, on every process."""
        if self.recorder is None or self.args.world_size == 1:
            return self.recorder
        states = gather_object([self.recorder.state()])
        whole = self.make_recorder()
        assert whole is not None
        whole.merge(states)
        return whole

    def save_recorded(self, directory: Path) -> None:
        whole = self.merged_recorder()
        if whole is not None and self.is_world_process_zero():
            save_file(whole.state(), directory / DYNAMICS_FILE)

    def load_recorded(self, directory: Path) -> None:
        # The file holds what all processes recorded: one of them goes on from it, the others from nothing.
        file = directory / DYNAMICS_FILE
        if self.recorder is not None and file.is_file() and self.is_world_process_zero():
            self.recorder.load_state(load_file(file))


class Diverged(UserError):
    """Training that cannot go on: there are no numbers any more."""


def diverged(epoch: int, step: int, problem: str) -> Diverged:
    """
    >>> print(diverged(1, 17, "the loss is not finite"))
    training diverged in epoch 2, step 17: the loss is not finite; lower learning_rate
    """
    place = f"training diverged in epoch {epoch + 1}, step {step}"
    return Diverged(f"{place}: {problem}", remedy=f"lower {argument('learning_rate')}")


class _Bookkeeping(TrainerCallback):
    """Calls the mixin at the Trainer's own moments."""

    def __init__(self, trainer: DynamicsMixin) -> None:
        self.trainer = trainer

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.trainer.begin_epoch()

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.trainer.record_epoch_end()

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.trainer.save_recorded(checkpoint_path(args.output_dir, state.global_step))


def count_classes(model: Any, rows: Any) -> int:
    """Logits per row: the head's labels, or the choices of a multiple-choice row."""
    if is_multiple_choice(model):
        per_row = getattr(rows, "sequences_per_row", None)
        return int(per_row) if per_row else len(rows[0]["input_ids"])
    return int(model.config.num_labels)


def label_column(rows: Any) -> np.ndarray[Any, np.dtype[np.int64]] | None:
    """The labels of a dataset, whether ours or Hugging Face's."""
    labels = getattr(rows, "labels", None)
    if labels is None:
        for name in ("labels", "label", "label_ids"):
            if name in (getattr(rows, "column_names", None) or ()):
                labels = rows[name]
                break
    if labels is None:
        return None
    array = np.asarray(labels)
    return array.astype(np.int64) if array.ndim == 1 and array.dtype.kind in "iu" else None
