"""Comparisons drawn from a model whose truth is known, through the real intervals and the real advice."""

from __future__ import annotations

import numpy as np

from calmix.experiments.bootstrap import METRICS, Resampled, paired_difference
from calmix.experiments.grid import Arm
from calmix.experiments.recommendation import Recommendation, recommend
from calmix.experiments.results import Results
from calmix.experiments.summary import summarise

REPETITIONS = 100
SPLITS = ("validation", "test")


def simulate(
    generator: np.random.Generator,
    seeds: int,
    nll: dict[str, float],
    *,
    accuracy: dict[str, float] | None = None,
    seed_deviation: float = 0.01,
    row_deviation: float = 0.005,
) -> Recommendation:
    """Advice on one drawn comparison: the true NLL (and accuracy) of each arm, plus noise of seeds and rows.

    A seed's luck is the same on all splits, as a network's is; the noise of the rows is the same for all
    seeds of an arm, as the rows are. Metrics other than NLL and accuracy follow the NLL.
    """
    accuracy = accuracy or dict.fromkeys(nll, 0.9)
    truth = {
        arm: np.array([accuracy[arm] if metric == "accuracy" else nll[arm] for metric in METRICS])
        for arm in nll
    }
    luck = {arm: generator.normal(0, seed_deviation, (seeds, 1)) for arm in nll}
    signs = np.array([-0.3 if metric == "accuracy" else 1.0 for metric in METRICS])
    runs, differences = [], []
    for split in SPLITS:
        samples: dict[str, dict[int, Resampled]] = {}
        for arm in nll:
            shift = generator.normal(0, row_deviation, len(METRICS))
            redrawn = generator.normal(0, row_deviation, (len(METRICS), REPETITIONS))
            samples[arm] = {}
            for seed in range(seeds):
                point = truth[arm] + signs * luck[arm][seed] + shift
                samples[arm][seed] = Resampled(point, point[:, None] + redrawn)
                runs.append(
                    {
                        "run": f"{arm}-{seed}", "arm": arm, "method": arm, "options": {}, "seed": seed,
                        "split": split, "stage": "calibrated", "in_sample": False, "n": 1000,
                        **dict(zip(METRICS, point.tolist(), strict=True)),
                    }
                )  # fmt: skip
        for arm in nll:
            if arm == "plain":
                continue
            for metric, found in paired_difference(samples[arm], samples["plain"]).items():
                differences.append(
                    {
                        "split": split, "arm": arm, "stage": "calibrated", "reference": "plain",
                        "reference_stage": "calibrated", "metric": metric, "difference": found.difference,
                        "low": found.low, "high": found.high, "seeds": found.seeds,
                    }
                )  # fmt: skip
    results = Results({}, [Arm(arm, arm) for arm in nll], runs, differences)
    return recommend(results, summarise(results))


def answers(count: int, seeds: int, nll: dict[str, float], **settings) -> dict[str, float]:
    """The shares of the verdicts in `count` drawn comparisons."""
    generator = np.random.default_rng([seeds, len(nll), count])
    verdicts = [simulate(generator, seeds, nll, **settings).verdict for _ in range(count)]
    return {verdict: verdicts.count(verdict) / count for verdict in set(verdicts)}
