"""Checkpoints that a killed run can be continued from.

A checkpoint counts only once its marker stands in it. The marker is written last, after the weights, the
optimiser, the generators, the recorded dynamics and the journal; a directory without it was cut off.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback

from calmix.run import write_json
from calmix.training.journal import JOURNAL_FILE

if TYPE_CHECKING:
    from calmix.training.trainer import MixupTrainer

MARKER = "complete"
STEPS_BETWEEN_DISTRIBUTED = 500


def newest_complete(directory: Path) -> Path | None:
    """The marked checkpoint with the most steps, or None."""
    marked = [path for path in directory.glob("checkpoint-*") if (path / MARKER).is_file()]
    return max(marked, key=lambda path: int(path.name.rpartition("-")[2]), default=None)


def relocate_best(checkpoint: Path) -> None:
    """Let a checkpoint point at the best one beside it. The Trainer keeps an absolute path, and forgets the
    best checkpoint without a word if the run directory was moved."""
    file = checkpoint / "trainer_state.json"
    state = json.loads(file.read_text())
    if state.get("best_global_step"):
        best = checkpoint.parent / f"checkpoint-{state['best_global_step']}"
        state["best_model_checkpoint"] = str(best.absolute())
        write_json(file, state)


class Checkpointing(TrainerCallback):
    """Asks for a checkpoint every so often, also in mid-epoch, and marks it once it is whole."""

    def __init__(self, trainer: MixupTrainer) -> None:
        self.trainer = trainer
        self.saved_at = time.monotonic()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        # Not on an epoch's last step: the epoch would look finished, but was not evaluated yet.
        if state.global_step % self.trainer.steps_per_epoch != 0 and self._is_due(args, state):
            control.should_save = True

    def _is_due(self, args: Any, state: Any) -> bool:
        steps = args.checkpoint_steps
        if args.checkpoint_minutes is not None:
            if args.world_size == 1:
                if time.monotonic() - self.saved_at >= 60 * args.checkpoint_minutes:
                    return True
            else:  # clocks differ between processes, and all must save together
                steps = steps or STEPS_BETWEEN_DISTRIBUTED
        return steps is not None and state.global_step % steps == 0

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        directory = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        journal = self.trainer.merged_journal().state()
        if self.trainer.is_world_process_zero():
            (directory / JOURNAL_FILE).write_text(json.dumps(journal))
            (directory / MARKER).touch()
        self.saved_at = time.monotonic()
