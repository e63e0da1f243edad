"""Results as the verbs print them with `--json`, for the pages and figures that show them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

NASTY = "mix <b>a|b</b>"
METRICS = ("accuracy", "nll", "brier", "ece")


def summary_record(split, arm, stage, value, *, seeds=3, better=()):
    means = {f"{metric}_mean": value for metric in METRICS}
    deviations = {f"{metric}_std": 0.01 if seeds > 1 else None for metric in METRICS}
    return {
        "split": split, "arm": arm, "stage": stage, "method": arm, "options": {}, "n": 1234, "seeds": seeds,
        "in_sample": split == "validation" and stage == "calibrated", "better": list(better),
        **means, **deviations,
    }  # fmt: skip


def difference_record(split, arm, stage, reference_stage, metric, low, high, *, seeds=3):
    return {
        "split": split, "arm": arm, "stage": stage, "reference": "plain", "reference_stage": reference_stage,
        "metric": metric, "difference": (low + high) / 2, "low": low, "high": high, "seeds": seeds,
        "p": 0.01, "p_holm": 0.02, "significant": low > 0 or high < 0,
    }  # fmt: skip


def comparison_record(name: str = NASTY) -> dict[str, Any]:
    """What `calmix compare --json` prints, of plain and one other method."""
    arms = [
        {"name": arm, "method": arm, "options": {}, "settings": {}, "reference": "plain",
         "seeds": [0, 1, 2], "seconds": 75.0}
        for arm in ("plain", name)
    ]  # fmt: skip
    stages = ("uncalibrated", "calibrated")
    values = {("plain", "uncalibrated"): 0.5, ("plain", "calibrated"): 0.4, (name, "uncalibrated"): 0.3,
              (name, "calibrated"): 0.2}  # fmt: skip
    return {
        "output": "runs/compared",
        "directory": "runs/compared",
        "recommendation": {
            "verdict": "better", "sentence": "`mix` lowers NLL by 0.2.", "choice": "Chosen: `mix`.",
            "chosen": name, "seed": 1, "run": "abc", "model": "compared/runs/abc/model",
            "alternative": "plain", "alternative_model": "compared/runs/def/model",
            "lines": ("in domain: NLL −0.2: better",), "next_step": "About 6 seeds would tell.",
            "next_seeds": (0, 1), "command": "calmix compare --seeds 0,1",
            "notes": ("`mix`: 1 of 3 runs has not learned",),
        },
        "arms": arms,
        "summary": [
            summary_record(split, arm, stage, value, better=["nll"] if value == 0.2 else [])
            for split in ("validation", "test")
            for (arm, stage), value in values.items()
        ],
        "differences": [
            difference_record(split, name, stage, reference, metric, -0.05, high)
            for metric, high in zip(METRICS, (0.02, -0.01, 0.02, 0.02), strict=True)
            for split in ("validation", "test")
            for stage in stages
            for reference in stages
        ],
        "failures": [{"arm": name, "seed": 2, "reason": "out of <memory>", "run": "x"}],
        "config": {"model": "some/model", "methods": ["plain", name]},
    }  # fmt: skip


OOD_METRICS = ("auroc", "aupr_in", "aupr_out", "fpr95")


def ood_record(arm, score, stage, *, seeds):
    found = {"out": "letters", "arm": arm, "score": score, "stage": stage, "seeds": seeds}
    for metric in OOD_METRICS:
        found |= {
            f"{metric}_mean": 0.9,
            f"{metric}_std": 0.02 if seeds > 1 else None,
            f"{metric}_ci": [0.85, 0.93] if seeds == 1 else None,
        }
    return found


def ood_comparison_record() -> dict[str, Any]:
    """What `calmix ood COMPARISON --json` prints: the first method with two seeds, the second with one."""
    ways = (("msp", "uncalibrated"), ("msp", "calibrated"), ("mc_msp", "uncalibrated"))
    seeds = {"plain": 2, "erl": 1}
    return {
        "comparison": "runs/compared",
        "in": "test",
        "sets": [{"name": "test", "rows": 60}, {"name": "letters", "rows": 50}],
        "summary": [ood_record(arm, *way, seeds=number) for arm, number in seeds.items() for way in ways],
        "confidence": [
            {"set": "letters", "arm": arm, "stage": "mc_dropout", "confidence_mean": 0.7,
             "confidence_std": 0.01 if number > 1 else None}
            for arm, number in seeds.items()
        ],
        "runs": [{}] * 3,
        "notes": ["2 of 5 runs have no saved model and are left out"],
    }  # fmt: skip


def detection_record(
    inside: str = "test", outside: str = "letters", *, spread: float = 1.0
) -> dict[str, Any]:
    """What `calmix ood RUN --json` prints, measured on drawn logits; `spread` scales those of `outside`."""
    from calmix.inference.ood_threshold import OodThreshold
    from calmix.inference.out_of_distribution import (
        Scored,
        compare_sets,
        histograms,
        recommended_score,
        verdicts,
    )

    generator = np.random.default_rng(0)
    every = [
        Scored(name, generator.normal(scale=scale, size=(rows, 3)).astype(np.float32), None)
        for name, rows, scale in ((inside, 400, 3.0), (outside, 300, spread))
    ]
    temperature = 1.5
    scores = compare_sets(every[0], every[1:], temperature)
    recommended = recommended_score(every[0], every[1:])
    rejection = OodThreshold.fit(recommended.score, every[0].logits, 0.95)
    return {
        "run": "runs/<i>one</i>",
        "method": "plain",
        "model": "default",
        "temperature": temperature,
        "mc_dropout": 0,
        "in": inside,
        "sets": [
            {
                "name": one.name,
                "rows": len(one.logits),
                "mean_confidence": {
                    stage: float(values.mean()) for stage, values in one.confidences(temperature).items()
                },
            }
            for one in every
        ],
        "scores": scores,
        "verdicts": verdicts(inside, scores, recommended.score),
        "recommended": asdict(recommended),
        "rejection": {
            **asdict(rejection),
            "rule": rejection.explain(),
            "rejected": {one.name: float(rejection.rejects(one.logits).mean()) for one in every},
        },
        "histograms": histograms(every, temperature),
        "notes": [],
    }
