"""Checkpoints that a killed run can be continued from.

A checkpoint counts only once its marker stands in it, and only while it is whole. The marker is written last,
after the weights, the optimiser, the generators, the recorded dynamics and the journal are on disk; it lists
all of them with sizes and hashes. A directory without it was cut off; one that is not as it says is damaged.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

from calmix.io.manifest import find_damage, make_manifest, sync
from calmix.io.run_directory import replacing
from calmix.training.checkpoints.trainer_files import best_checkpoint, checkpoint_step
from calmix.user_error import UserError

MARKER = "complete"
KEPT = 2
"""Checkpoints to continue from; the best one of each comes on top."""


def checkpoints_in(directory: Path) -> list[Path]:
    """The directories of checkpoints, the newest first, whole or not."""
    found = [path for path in directory.glob("*") if checkpoint_step(path) >= 0 and path.is_dir()]
    return sorted(found, key=checkpoint_step, reverse=True)


def mark_complete(checkpoint: Path) -> None:
    """List the files of a checkpoint in its marker, once all of them are on disk."""
    files = [path for path in checkpoint.rglob("*") if path.is_file() and path.name != MARKER]
    manifest = make_manifest(checkpoint, files)
    for path in (*files, *{file.parent for file in files}):
        sync(path)
    with replacing(checkpoint / MARKER) as fresh:
        fresh.write_text(json.dumps({"files": manifest}, indent=1), encoding="utf-8")
        sync(fresh)
    sync(checkpoint)
    sync(checkpoint.parent)


def damage_of(checkpoint: Path) -> str | None:
    """What is wrong with a checkpoint, or None if it is whole."""
    try:
        manifest = json.loads((checkpoint / MARKER).read_text(encoding="utf-8"))["files"]
        return find_damage(checkpoint, manifest)
    except FileNotFoundError:
        return "it was cut off" if checkpoint.is_dir() else "it is missing"
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return "its marker cannot be read"


def newest_complete(
    directory: Path, *, needs_best: bool = True, warn: Callable[[str], object] | None = None
) -> Path | None:
    """The whole checkpoint with the most steps whose best one so far is whole too, or None.

    `warn` gets a line for each newer one that is damaged.
    """
    damage = cache(damage_of)
    for checkpoint in checkpoints_in(directory):
        problem = damage(checkpoint)
        try:
            best = best_checkpoint(checkpoint) if problem is None and needs_best else None
        except (OSError, ValueError):  # removed while it was looked at
            problem, best = "its state cannot be read", None
        if best is not None and (lost := damage(best)) is not None:
            problem = f"the best epoch before it is lost, {best.name}: {lost}"
        if problem is None:
            return checkpoint
        if warn is not None:
            warn(f"{checkpoint} cannot be continued ({problem})")
    return None


def check_whole(checkpoint: Path) -> None:
    """Refuse a checkpoint that is not as its marker says; one of another program has no marker."""
    if (checkpoint / MARKER).exists() and (problem := damage_of(checkpoint)) is not None:
        raise UserError(
            f"the checkpoint is damaged ({problem})", file=checkpoint, remedy="resume from another one"
        )


def remove_newer(directory: Path, checkpoint: Path | None) -> None:
    """Remove what a run that continues from `checkpoint`, or from scratch, will make again."""
    for path in checkpoints_in(directory):
        if checkpoint is None or checkpoint_step(path) > checkpoint_step(checkpoint):
            shutil.rmtree(path)


def remove_not_finite(directory: Path) -> None:
    """Remove checkpoints of a run that diverged whose weights are not numbers any more."""
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    for path in checkpoints_in(directory):
        try:
            weights = [tensor for file in path.glob("*.safetensors") for tensor in load_file(file).values()]
        except (OSError, SafetensorError):
            continue  # whether it is whole is asked elsewhere
        if not all(torch.isfinite(tensor).all() for tensor in weights if tensor.is_floating_point()):
            shutil.rmtree(path, ignore_errors=True)


def remove_older(directory: Path, kept: int) -> None:
    """Keep the newest whole checkpoints, and the best one of each.

    The Trainer's own rotation comes before the marker: a run that is killed in between has then lost the best
    checkpoint of all that it could continue from.
    """
    marked = [path for path in checkpoints_in(directory) if (path / MARKER).is_file()]
    wanted = set(marked[:kept])
    wanted |= {best for path in marked[:kept] if (best := best_checkpoint(path)) is not None}
    for path in checkpoints_in(directory):
        if path not in wanted and checkpoint_step(path) < checkpoint_step(marked[0]):
            shutil.rmtree(path, ignore_errors=True)
