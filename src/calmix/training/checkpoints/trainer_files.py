"""The files of a checkpoint as the Trainer of transformers writes them.

Their names and contents are no documented interface: like `hf_compat`, which needs torch, this is the one
place that knows them, with a test each in `tests/training/test_hf_compat.py`.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

STATE_FILE = "trainer_state.json"
CHECKPOINT_NAME = re.compile(r"checkpoint-(\d+)")


def checkpoint_path(output: Path | str, step: int) -> Path:
    """Where the Trainer writes the checkpoint of a step."""
    return Path(output) / f"checkpoint-{step}"


def checkpoint_step(checkpoint: Path) -> int:
    """The step of a checkpoint by its name; -1 for other names."""
    match = CHECKPOINT_NAME.fullmatch(checkpoint.name)
    return int(match[1]) if match else -1


def best_checkpoint(checkpoint: Path) -> Path | None:
    """The best checkpoint so far, by the state in a checkpoint. The Trainer's own path is not used: it is
    absolute, and the run directory may have been moved."""
    step = json.loads((checkpoint / STATE_FILE).read_text(encoding="utf-8")).get("best_global_step")
    return checkpoint_path(checkpoint.parent, step) if step else None
