"""When checkpoints are written in training, and how each of them is closed."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback

from calmix.training.checkpoints.resumable import mark_complete, remove_older
from calmix.training.checkpoints.trainer_files import checkpoint_path
from calmix.training.hf_compat import find_moved_best
from calmix.training.journal import JOURNAL_FILE

if TYPE_CHECKING:
    from calmix.training.trainer import MixupTrainer

STEPS_BETWEEN_DISTRIBUTED = 500


class Checkpointing(TrainerCallback):
    """Asks for a checkpoint every so often, also in mid-epoch, and marks it once it is whole."""

    def __init__(self, trainer: MixupTrainer) -> None:
        self.trainer = trainer
        self.saved_at = time.monotonic()

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        find_moved_best(state, args.output_dir)

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
        directory = checkpoint_path(args.output_dir, state.global_step)
        journal = self.trainer.merged_journal().state()
        if self.trainer.is_world_process_zero():
            (directory / JOURNAL_FILE).write_text(json.dumps(journal))
            mark_complete(directory)
            if self.trainer.checkpoints_kept is not None:
                remove_older(Path(args.output_dir), self.trainer.checkpoints_kept)
        self.saved_at = time.monotonic()
