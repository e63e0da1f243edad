"""Time of a student's step over a plain step: with the teacher's logits kept in a file, and without.

    python -m benchmarks.distillation

Student and teacher are the embedded encoder, on rows of one length as in `benchmarks.steps`. Kept logits are
read through a memory map, as in a run. Without them the teacher is asked in every step: one forward pass
more, 4 instead of 3 by the usual count.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.steps import PAIRS, EqualRows, Stepper, ratio_of
from calmix.data.batches.sampler import BatchKeys

RESULTS = Path(__file__).parent / "results" / "distillation.json"
LIMIT = 1.05


class KeptAnswers(Stepper):
    """The teacher was asked once."""

    def __init__(self, directory: str) -> None:
        super().__init__("plain", directory)
        file = Path(directory) / "answers.npy"
        logits = np.random.default_rng(0).normal(size=(len(EqualRows()), 2)).astype(np.float32)
        np.save(file, logits)
        self.trainer.args.distill_temperature = 2.0
        self.trainer.learn_from(np.load(file, mmap_mode="r"))


class FreshAnswers(KeptAnswers):
    """The teacher is asked in every step."""

    def __init__(self, directory: str) -> None:
        from calmix.models.loading import load_classifier

        super().__init__(directory)
        self.network = load_classifier("default", task="single", label_names=("a", "b"), seed=1).eval()
        self.trainer.teacher = self
        self.answers: Any = None

    def before(self, batch: dict[str, Any]) -> None:
        import torch

        inputs = {name: value for name, value in batch.items() if name not in (BatchKeys.NAME, "labels")}
        with torch.no_grad():
            self.answers = self.network(**inputs).logits.numpy()

    def of(self, positions: Any) -> Any:
        return self.answers


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        cases = {
            "kept over plain": (KeptAnswers(directory), Stepper("plain", directory), LIMIT),
            "fresh over plain": (FreshAnswers(directory), Stepper("plain", directory), None),
            "fresh over kept": (FreshAnswers(directory), KeptAnswers(directory), None),
        }
        results: dict[str, Any] = {"pairs": PAIRS}
        for name, (one, other, limit) in cases.items():
            measured = ratio_of(one, other)
            # It falls short only if even the lower end of the interval is beyond the limit.
            holds = limit is None or measured["low"] <= limit
            results[name] = {**measured, "limit": limit, "holds": holds}
            said = "reported only" if limit is None else f"limit {limit}: {'holds' if holds else 'MISSED'}"
            interval = f"{measured['ratio']:.3f} [{measured['low']:.3f}, {measured['high']:.3f}]"
            print(f"teacher's answers {name:18s} step {interval} ({said})", flush=True)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
