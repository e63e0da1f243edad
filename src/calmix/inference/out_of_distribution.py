"""How well a run's confidence separates in-domain rows from other data.

Scores of every row (`calibration.ood`) from the saved model, with its temperature (`calibrated`) and without
(`uncalibrated`); on request the same from the mean of several passes with dropout on, which takes as many
times as long.
Confidence is shown at three stages: uncalibrated, temperature-scaled, and under `mc_dropout` that of the mean
of passes without the temperature, since MC dropout is an alternative to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import softmax

from calmix.calibration.files.run_predictions import predictions_of_run
from calmix.calibration.metrics.ood import SCORES
from calmix.calibration.uncertainty.ood_intervals import METRICS, detection_metrics
from calmix.calibration.uncertainty.ood_verdict import RecommendedScore, recommend_score, verdict
from calmix.data.images.pixels import PixelStatistics
from calmix.data.rows import Rows
from calmix.inference.forward_passes import batches_of, best_device, forward_logits
from calmix.inference.mc_dropout import DropoutPasses, NoDropout, dropout_passes
from calmix.inference.noise import NoiseImages, noise_for_words, stack_pixels
from calmix.inference.ood_threshold import KEEP, OodThreshold
from calmix.io.run_directory import RunDirectory
from calmix.models.inputs import ImageInputs
from calmix.models.loading import load_inputs, load_trained
from calmix.runtime.hardware import check_device, prepared_processor
from calmix.runtime.option_values import check_detection
from calmix.runtime.progress import silence_transformers
from calmix.user_error import UserError

STAGES = ("uncalibrated", "calibrated")
# Scores of a mean of probabilities; it has no logits of its own.
DROPOUT_SCORES = ("msp", "entropy")
HISTOGRAM_BINS = 25
# A threshold from ranks holds for rows of one kind, each as likely as any other.
UNWEIGHTED = "every row counts once, in the scores and for the threshold: row weights have no part in them"


@dataclass(frozen=True)
class Scored:
    """What the model says about one set of rows."""

    name: str
    logits: NDArray[np.float32]
    """Of the saved model: its temperature is in them."""
    dropout: DropoutPasses | None

    def scores(self, temperature: float) -> dict[tuple[str, str], NDArray[np.float64]]:
        """Every score under every stage, by (score, stage)."""
        found: dict[tuple[str, str], NDArray[np.float64]] = {}
        for stage, scale in zip(STAGES, (temperature, 1.0), strict=True):
            logits = self.logits.astype(np.float64) * scale
            for score, function in SCORES.items():
                found[score, stage] = function(logits)
            if self.dropout is not None:
                mean = np.log(np.maximum(self.dropout.probabilities(1 / scale), np.finfo(np.float64).tiny))
                for score in DROPOUT_SCORES:
                    found[f"mc_{score}", stage] = SCORES[score](mean)
        return found

    def confidences(self, temperature: float) -> dict[str, NDArray[np.float64]]:
        """The largest probability of every row, by stage; of the uncalibrated mean of passes under
        `mc_dropout`, as in the score `mc_msp` at the stage `uncalibrated`."""
        found = {
            stage: softmax(self.logits.astype(np.float64) * scale, axis=1).max(axis=1)
            for stage, scale in zip(STAGES, (temperature, 1.0), strict=True)
        }
        if self.dropout is not None:
            found["mc_dropout"] = self.dropout.probabilities(1 / temperature).max(axis=1)
        return found


class Detector:
    """The saved network of a run, asked about sets of rows."""

    def __init__(
        self,
        run: RunDirectory,
        *,
        passes: int = 0,
        seed: int = 0,
        batch_size: int = 64,
        device: str = "auto",
        trust_remote_code: bool = False,
    ) -> None:
        silence_transformers()
        check_device(device)
        self.run, self.passes, self.seed, self.batch_size = run, passes, seed, batch_size
        self.device = best_device(device)
        self.metrics = run.metrics()
        run.check_undamaged("model/")
        self.model = load_trained(run.model, trust_remote_code=trust_remote_code)
        self.inputs = load_inputs(
            run.model,
            self.model,
            max_length=run.config()["max_length"],
            trust_remote_code=trust_remote_code,
        )
        self.notes: list[str] = []

    def score(self, name: str, rows: Rows) -> Scored:
        encoded = self.inputs.encode(rows)
        return self._score(name, encoded, self.inputs.collator(is_choice=encoded.is_choice))

    def score_noise(self, name: str, like: Rows) -> Scored:
        """As many rows of noise as `like` has, of the same size or length."""
        encoded = self.inputs.encode(like)
        collator = self.inputs.collator(is_choice=encoded.is_choice)
        if isinstance(self.inputs, ImageInputs):
            batch = next(batches_of(encoded, collator, 1, torch.device("cpu")))
            mean, std = self.inputs.normalisation
            noise = NoiseImages(
                rows=len(like),
                size=(batch["pixel_values"].shape[2], batch["pixel_values"].shape[3]),
                statistics=self.pixels,
                mean=mean,
                std=std,
                seed=self.seed,
            )
            return self._score(name, noise, stack_pixels)
        moved: Any = self.model
        moved.to(self.device)
        with noise_for_words(self.model, self.seed):
            return self._score(name, encoded, collator)

    @cached_property
    def pixels(self) -> PixelStatistics:
        stored = self.metrics.get("pixels")
        if stored is None:
            raise UserError(
                "this run does not say what its training images were like",
                file=self.run.metrics_file,
                remedy="train it again with this version",
            )
        return PixelStatistics(tuple(stored["mean"]), tuple(stored["std"]), stored["gray"])

    def _score(self, name: str, encoded: Any, collator: Any) -> Scored:
        with prepared_processor():
            return self._forward(name, encoded, collator)

    def _forward(self, name: str, encoded: Any, collator: Any) -> Scored:
        settings: dict[str, Any] = {"batch_size": self.batch_size, "device": self.device}
        logits = forward_logits(self.model, encoded, collator, **settings, title=name)
        dropout = None
        if self.passes:
            try:
                dropout = dropout_passes(
                    self.model,
                    encoded,
                    collator,
                    passes=self.passes,
                    seed=self.seed,
                    title=f"{name}, MC dropout",
                    **settings,
                )
            except NoDropout as error:
                self.passes = 0
                self.notes.append(f"no scores by MC dropout: {error}")
        return Scored(name, logits, dropout)


def compare_sets(
    inside: Scored, outside: Sequence[Scored], temperature: float, *, seed: int = 0
) -> list[dict[str, Any]]:
    """AUROC, AUPR and FPR@95 with intervals of every score, stage and out-set."""
    in_domain = inside.scores(temperature)
    found = []
    for other in outside:
        out_of_domain = other.scores(temperature)
        for (score, stage), values in in_domain.items():
            if (score, stage) not in out_of_domain:
                continue
            metrics = detection_metrics(values, out_of_domain[score, stage], seed=seed)
            found.append({"out": other.name, "score": score, "stage": stage, **metrics})
    return found


def recommended_score(inside: Scored, outside: Sequence[Scored]) -> RecommendedScore:
    """Among the scores of the saved model's own logits, which `calmix predict` can take as they come."""
    return recommend_score(
        {name: score(inside.logits) for name, score in SCORES.items()},
        [{name: score(one.logits) for name, score in SCORES.items()} for one in outside],
    )


def verdicts(inside: str, scores: Sequence[Mapping[str, Any]], recommended: str) -> list[str]:
    """For every out-set a sentence on calibrated confidence, and on the recommended score if that differs."""
    told = [
        found for found in scores if found["stage"] == "calibrated" and found["score"] in ("msp", recommended)
    ]
    return [verdict(found["score"], inside, found["out"], found) for found in told]


def histograms(sets: Sequence[Scored], temperature: float) -> dict[str, Any]:
    """The share of rows by confidence, for every set and stage."""
    edges = np.linspace(0.0, 1.0, HISTOGRAM_BINS + 1)
    shares: dict[str, dict[str, list[float]]] = {}
    for one in sets:
        shares[one.name] = {
            stage: (np.histogram(values, edges)[0] / len(values)).tolist()
            for stage, values in one.confidences(temperature).items()
        }
    return {"edges": edges.tolist(), "shares": shares}


def detect(
    run: RunDirectory,
    inside: Rows,
    outside: Mapping[str, Rows],
    *,
    in_name: str = "in",
    noise: str | None = None,
    passes: int = 0,
    seed: int = 0,
    batch_size: int = 64,
    device: str = "auto",
    trust_remote_code: bool = False,
    keep: float = KEEP,
) -> dict[str, Any]:
    """All of it as plain values, ready for JSON and the report.

    `rejection` is the rule by which `calmix predict --reject-ood` would reject rows: the recommended score,
    with a threshold that keeps the share `keep` of in-domain rows, from the run's validation rows alone.
    """
    check_detection(outside, noise)
    temperature = run.temperature()
    detector = Detector(
        run,
        passes=passes,
        seed=seed,
        batch_size=batch_size,
        device=device,
        trust_remote_code=trust_remote_code,
    )
    in_domain = detector.score(in_name, inside)
    out_of_domain = [detector.score(name, rows) for name, rows in outside.items()]
    if noise is not None:
        out_of_domain.append(detector.score_noise(f"{noise} noise", inside))
    every = [in_domain, *out_of_domain]
    scores = compare_sets(in_domain, out_of_domain, temperature, seed=seed)
    recommended = recommended_score(in_domain, out_of_domain[: len(outside)] or out_of_domain)
    validation = predictions_of_run(run, "validation", calibrated=True)
    rejection = OodThreshold.fit(recommended.score, validation.values, keep)
    if validation.is_weighted:
        detector.notes.append(UNWEIGHTED)
    return {
        "run": str(run.path),
        "method": detector.metrics["method"],
        "model": detector.metrics["model"],
        "temperature": temperature,
        "mc_dropout": detector.passes,
        "in": in_domain.name,
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
        "metrics": list(METRICS),
        "scores": scores,
        "verdicts": verdicts(in_domain.name, scores, recommended.score),
        "recommended": asdict(recommended),
        "rejection": {
            **asdict(rejection),
            "rule": rejection.explain(),
            "rejected": {one.name: float(rejection.rejects(one.logits).mean()) for one in every},
        },
        "histograms": histograms(every, temperature),
        "notes": list(dict.fromkeys(detector.notes)),
    }
