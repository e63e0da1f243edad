"""How well the runs of a block separate data they know from other data, row by row.

The scores of every run are kept beside the store, since its model is dropped: `DIR/<run>-<asked>.npz` holds,
for every column and stage, the score that ranks rows as their confidence does, and the confidence itself.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from calmix.data.columns import ColumnNames
from calmix.data.reading import read_rows
from calmix.data.rows import Rows
from calmix.io.run_directory import RunDirectory, replacing
from calmix.reproduction.preset import CALIBRATED, MC_DROPOUT, UNCALIBRATED, Detection

Floats = npt.NDArray[np.float64]
SCORE = {
    UNCALIBRATED: ("msp", UNCALIBRATED),
    CALIBRATED: ("msp", CALIBRATED),
    MC_DROPOUT: ("mc_msp", UNCALIBRATED),
}


class Scores:
    """The scores of one run: `of(column, stage)` and `confidence(column, stage)`."""

    def __init__(self, file: Path) -> None:
        with np.load(file, allow_pickle=False) as arrays:
            self.arrays = dict(arrays)

    def has(self, column: str, stage: str) -> bool:
        return f"score/{column}/{stage}" in self.arrays

    def of(self, column: str, stage: str) -> Floats:
        return np.asarray(self.arrays[f"score/{column}/{stage}"], dtype=np.float64)

    def confidence(self, column: str, stage: str) -> Floats:
        return np.asarray(self.arrays[f"confidence/{column}/{stage}"], dtype=np.float64)


def read_sets(sources: Mapping[str, str], task: str) -> dict[str, Rows]:
    """The rows of every column, without their labels."""
    return {
        column: read_rows(source, "test", ColumnNames(), None, labelled=False, task=task, name=column)  # type: ignore[arg-type]
        for column, source in sources.items()
    }


def score_run(
    run: RunDirectory,
    sets: Mapping[str, Rows],
    inside: str,
    detection: Detection,
    folder: Path,
    *,
    device: str,
    restore: Callable[[], None],
) -> Scores:
    """The scores of a run on its own test rows (`inside`), on the other columns and on noise.

    `restore` makes the model of the run again, where another preset has dropped it.
    """
    contents = sorted((column, rows.fingerprint()) for column, rows in sets.items())
    asked = zlib.crc32(repr((contents, detection)).encode())
    file = folder / f"{run.path.name}-{asked:08x}.npz"
    if not file.is_file():
        if not run.model.is_dir():
            restore()
        from calmix.inference.out_of_distribution import Detector

        detector = Detector(run, passes=detection.passes, device=device)
        found = {column: detector.score(column, rows) for column, rows in sets.items()}
        if detection.noise:
            found[detection.noise_column] = detector.score_noise(detection.noise_column, sets[inside])
        temperature = run.temperature()
        arrays: dict[str, Floats] = {}
        for column, scored in found.items():
            scores, confidences = scored.scores(temperature), scored.confidences(temperature)
            for stage, key in SCORE.items():
                if key in scores and stage in confidences:
                    arrays[f"score/{column}/{stage}"] = scores[key]
                    arrays[f"confidence/{column}/{stage}"] = confidences[stage]
        with replacing(file) as fresh:
            np.savez_compressed(fresh, **arrays)  # type: ignore[arg-type]
    return Scores(file)
