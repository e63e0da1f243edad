"""A threshold on a score below which a row counts as out of domain: found by `calmix ood`, used by `predict`.

It rests on in-domain validation rows alone: of n scores the k-th smallest, k = floor((n + 1)(1 - keep)). A
new row of the same kind falls below it with probability at most k / (n + 1) <= 1 - keep (the argument of
split conformal prediction), whatever the out-of-domain data are.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calmix.calibration.metrics.ood import SCORES
from calmix.io.run_directory import RunDirectory, write_json
from calmix.user_error import UserError, argument

OOD_FILE = "ood.json"
KEEP = 0.95
NAMES = {
    "msp": "confidence",
    "max_logit": "largest logit",
    "energy": "energy",
    "entropy": "negative entropy",
}


@dataclass(frozen=True)
class OodThreshold:
    """Keep a row where `score` of its calibrated logits is at least `threshold`."""

    score: str
    threshold: float | None
    """None: too few rows for this share; then every row is kept."""
    keep: float
    rows: int

    @classmethod
    def fit(cls, score: str, logits: ArrayLike, keep: float = KEEP) -> OodThreshold:
        """
        >>> OodThreshold.fit("max_logit", [[float(n), 0.0] for n in range(1, 40)], keep=0.95)
        OodThreshold(score='max_logit', threshold=2.0, keep=0.95, rows=39)
        >>> OodThreshold.fit("max_logit", [[1.0, 0.0]] * 10, keep=0.95).threshold is None
        True
        """
        if not 0 < keep < 1:
            raise UserError(f"the share to keep is {keep:g}", remedy="give a fraction such as 0.95")
        scores = np.sort(SCORES[score](logits))
        # A hair more, so that rounding in (n + 1)(1 - keep) never costs a row.
        place = math.floor((len(scores) + 1) * (1 - keep) + 1e-9)
        threshold = float(scores[place - 1]) if place else None
        return cls(score, threshold, keep, len(scores))

    def rejects(self, logits: ArrayLike) -> NDArray[np.bool_]:
        """The rows that count as out of domain."""
        scores = SCORES[self.score](logits)
        return np.asarray(scores < (-np.inf if self.threshold is None else self.threshold))

    def explain(self) -> str:
        """
        >>> print(OodThreshold("energy", 1.25, 0.95, 400).explain())
        energy below 1.25 is out of domain: keeps 95 % of in-domain rows (from 400 validation rows)
        >>> print(OodThreshold("msp", 0.0, 0.95, 400).explain())
        confidence below 0.5 is out of domain: keeps 95 % of in-domain rows (from 400 validation rows)
        """
        share = f"{100 * self.keep:g} %"
        if self.threshold is None:
            needed = math.ceil(1 / (1 - self.keep) - 1e-9) - 1
            return f"{self.rows} validation rows give no threshold that keeps {share}: it takes {needed}"
        # The score of confidence is its log-odds, which a reader need not know.
        value = 1 / (1 + math.exp(-self.threshold)) if self.score == "msp" else self.threshold
        return (
            f"{NAMES[self.score]} below {value:.4g} is out of domain: keeps {share} of in-domain rows "
            f"(from {self.rows} validation rows)"
        )


def ood_file(run: RunDirectory) -> Path:
    return run.path / OOD_FILE


def save_ood_threshold(run: RunDirectory, result: Mapping[str, Any]) -> Path:
    """What `detect` found, as far as `calmix predict` and a reader of the file need it."""
    kept = ("in", "sets", "verdicts", "recommended", "rejection", "notes")
    write_json(ood_file(run), {name: result[name] for name in kept})
    return ood_file(run)


def read_ood_threshold(run: RunDirectory | None, source: Path) -> OodThreshold:
    """What `calmix ood` saved with a run."""
    remedy = f"run 'calmix ood {source} --out FILE' first"
    if run is None:
        raise UserError(
            f"{argument('reject_ood')} takes the threshold of a run, and this is none",
            file=source,
            remedy="name the run",
        )
    file = ood_file(run)
    if not file.is_file():
        raise UserError("no out-of-domain threshold was saved with this run", file=run.path, remedy=remedy)
    try:
        stored = json.loads(file.read_text(encoding="utf-8"))["rejection"]
        threshold = OodThreshold(**{name: stored[name] for name in asdict(_EXAMPLE)})
    except (ValueError, KeyError, TypeError):
        raise UserError("not what 'calmix ood' writes", file=file, remedy=remedy) from None
    if threshold.score not in SCORES:
        raise UserError(f"an unknown score {threshold.score!r}", file=file, remedy=remedy)
    return threshold


_EXAMPLE = OodThreshold("msp", None, KEEP, 0)
