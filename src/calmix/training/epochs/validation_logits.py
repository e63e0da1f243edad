"""The validation logits of every epoch, kept in its checkpoint.

    CHECKPOINT/validation.safetensors    logits [rows, classes], in the order of `eval_dataset`

The finished run takes those of its chosen epoch, in place of forwarding the validation rows once more.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file
from transformers import Trainer, TrainerCallback

from calmix.training.checkpoints.trainer_files import checkpoint_path
from calmix.training.epochs.measures import finite_logits_of

LOGITS_FILE, NAME = "validation.safetensors", "logits"


class ValidationLogits(TrainerCallback):
    """Remembers what was measured last; stands before the callback that marks a checkpoint as complete."""

    def __init__(self) -> None:
        self.latest: NDArray[np.float32] | None = None
        self.measured: NDArray[np.float32] | None = None
        self.step = -1

    def remembering(self, measure: Callable[[Any], dict[str, float]]) -> Callable[[Any], dict[str, float]]:
        """A `compute_metrics` that looks at the logits first."""

        def remember(output: Any) -> dict[str, float]:
            self.latest = np.ascontiguousarray(finite_logits_of(output), dtype=np.float32)
            return measure(output)

        return remember

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        # Not when they are measured: predictions on other rows are measured too.
        self.measured, self.step = self.latest, state.global_step

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        # A checkpoint in mid-epoch has weights that were not measured.
        if self.measured is not None and self.step == state.global_step and state.is_world_process_zero:
            save_file({NAME: self.measured}, checkpoint_path(args.output_dir, self.step) / LOGITS_FILE)


def logits_in(checkpoint: Path) -> NDArray[np.float32] | None:
    """None where the checkpoint was not measured, or is gone."""
    file = checkpoint / LOGITS_FILE
    return np.asarray(load_file(file)[NAME], dtype=np.float32) if file.is_file() else None


def chosen_checkpoint(trainer: Trainer) -> Path:
    """Of the epoch whose weights the trainer has after training."""
    state: Any = trainer.state
    step = state.best_global_step if trainer.args.load_best_model_at_end else state.global_step
    return checkpoint_path(str(trainer.args.output_dir), step or state.global_step)
