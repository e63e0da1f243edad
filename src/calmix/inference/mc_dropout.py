"""Dropout at test time: the mean prediction of several passes with dropout on.

    p = (1/S) Σ_s softmax(z_s / T),   z_s the logits of pass s

Everything is as in evaluation but for what draws random numbers: batch normalisation keeps the statistics of
training. Where the only dropout is the one before the last layer, the network runs once up to there and S
times only through that layer; whether that is so is seen from two passes over the first batch.

Reference: Gal & Ghahramani, ICML 2016; Thulasidasan et al., NeurIPS 2019 (10 passes).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import softmax
from torch import Tensor, nn

from calmix.calibration.predictions import Predictions
from calmix.data.rows import Rows
from calmix.inference.forward_passes import Batch, batches_of, best_device
from calmix.models.hf_compat import evaluate_running_norms, last_linear
from calmix.models.loading import load_inputs, load_trained
from calmix.models.mix_points import MixPoints
from calmix.runtime.hardware import check_device, prepared_processor
from calmix.runtime.progress import RowProgress, counting_rows, silence_transformers
from calmix.runtime.randomness import stream
from calmix.user_error import UserError, argument


class NoDropout(UserError):
    """A network whose passes would all be the same."""


@dataclass(frozen=True)
class DropoutPasses:
    """The logits of every pass, [passes, rows, classes], and how often the whole network saw the rows."""

    logits: NDArray[np.float32]
    encoder_passes: int

    def probabilities(self, temperature: float = 1.0) -> NDArray[np.float64]:
        """The mean over the passes of softmax(z / T)."""
        total = np.zeros(self.logits.shape[1:])
        for logits in self.logits:
            total += softmax(logits.astype(np.float64) / temperature, axis=1)
        return total / len(self.logits)

    def predictions(self, rows: Rows, temperature: float = 1.0) -> Predictions:
        made = Predictions.from_probabilities(
            self.probabilities(temperature), rows.labels, ids=rows.row_ids, class_names=rows.label_names
        )
        return made.with_rows(weights=rows.weights, targets=rows.soft_labels)


def dropout_with_checkpoint(
    directory: Path,
    rows: Rows,
    *,
    passes: int,
    seed: int = 0,
    max_length: int | None = None,
    batch_size: int = 64,
    device: str = "auto",
    trust_remote_code: bool = False,
) -> DropoutPasses:
    """Passes of a saved classifier over rows."""
    silence_transformers()
    check_device(device)
    model = load_trained(directory, trust_remote_code=trust_remote_code)
    inputs = load_inputs(directory, model, max_length=max_length, trust_remote_code=trust_remote_code)
    encoded = inputs.encode(rows)
    collator = inputs.collator(is_choice=encoded.is_choice)
    with prepared_processor():
        return dropout_passes(
            model,
            encoded,
            collator,
            passes=passes,
            seed=seed,
            batch_size=batch_size,
            device=best_device(device),
        )


@torch.no_grad()
def dropout_passes(
    model: nn.Module,
    encoded: Any,
    collator: Any,
    *,
    passes: int,
    seed: int = 0,
    batch_size: int = 64,
    device: torch.device | None = None,
    title: str | None = None,
) -> DropoutPasses:
    """`passes` passes over all rows. What is dropped depends on (seed, pass, batch) alone. With a `title`,
    shows how many rows all passes have seen."""
    if passes < 1:
        raise UserError(
            f"{passes} passes with dropout", remedy="give a whole number of at least 1, such as 10"
        )
    device = device or torch.device("cpu")
    model.to(device).eval()
    view, order = encoded.by_length()

    def batches() -> Iterator[Batch]:
        return batches_of(view, collator, batch_size, device)

    head = DropoutHead.find(model, next(batches()))
    shown: AbstractContextManager[RowProgress | None] = nullcontext()
    if title is not None and head is None:
        shown = counting_rows(title, passes * len(view))
    with torch.random.fork_rng(), shown as progress:
        if head is None:
            parts = [
                [
                    _counted(_logits(model, batch, (seed, number, place)), progress)
                    for place, batch in enumerate(batches())
                ]
                for number in range(passes)
            ]
            encoder_passes = passes
        else:
            cached = [head.features(model, batch) for batch in batches()]
            parts = [
                [head.logits(features, (seed, number, place)) for place, features in enumerate(cached)]
                for number in range(passes)
            ]
            encoder_passes = 1
    model.eval()
    by_length = np.stack([np.concatenate(part) for part in parts])
    logits = np.empty_like(by_length)
    logits[:, order] = by_length
    return DropoutPasses(logits, encoder_passes)


def _counted(logits: NDArray[np.float32], progress: RowProgress | None) -> NDArray[np.float32]:
    if progress is not None:
        progress.advance(len(logits))
    return logits


@dataclass(frozen=True)
class DropoutHead:
    """The end of a network whose only dropout is the one before its last layer."""

    mix_points: MixPoints
    dropout: nn.Module
    linear: nn.Linear

    @classmethod
    def find(cls, model: nn.Module, batch: Batch) -> DropoutHead | None:
        """The head, or None if the network drops out elsewhere too. `NoDropout` if it never does."""
        mix_points = MixPoints(model)
        try:
            module, _ = mix_points.head_module(batch)
        except UserError:  # its last layer sees positions: nothing to cut
            check_passes_differ(model, batch)
            return None
        head = cls(mix_points, module, last_linear(model))
        with torch.random.fork_rng():
            first, again = (_stochastic_features(head, model, batch, number) for number in range(2))
        if not torch.equal(first, again):
            return None
        if module is head.linear or getattr(module, "p", 0.0) == 0.0:
            raise _no_dropout(model)
        # Nothing may come after the last layer that is not known here.
        expected = model(**batch).logits
        given = head.linear(first).reshape(expected.shape)
        return head if torch.allclose(given, expected, atol=1e-5, rtol=1e-4) else None

    def features(self, model: nn.Module, batch: Batch) -> Tensor:
        """What goes into the dropout, in evaluation mode."""
        seen: list[Tensor] = []

        def look(hidden: Tensor) -> Tensor:
            seen.append(hidden)
            return hidden

        cut = self.mix_points.hook(self.mix_points.head, look, batch)
        rows = len(model(**batch).logits)
        cut.remove()
        return seen[-1].reshape(rows, -1, seen[-1].shape[-1])

    def logits(self, features: Tensor, moment: Sequence[int]) -> NDArray[np.float32]:
        """One pass of the last layer over features [rows, choices, width] (or [rows, 1, width])."""
        _seed_for(moment)
        self.dropout.train()
        dropped = self.dropout(features)
        self.dropout.eval()
        answers: Tensor = self.linear(dropped)
        return answers.reshape(len(features), -1).float().cpu().numpy()


def check_passes_differ(model: nn.Module, batch: Batch) -> None:
    """`NoDropout` if two passes over the batch give the same logits, as those of most decoders do."""
    with torch.random.fork_rng():
        first, again = (_logits(model, batch, (0, number, 0)) for number in range(2))
    if np.array_equal(first, again):
        raise _no_dropout(model)


def _no_dropout(model: nn.Module) -> NoDropout:
    return NoDropout(
        f"{type(model).__name__} has no dropout: all passes would be the same",
        remedy=f"train one with dropout; built-in networks take {argument('model_options', 'dropout=0.3')}",
    )


def _stochastic_features(head: DropoutHead, model: nn.Module, batch: Batch, number: int) -> Tensor:
    _seed_for((0, number, 0))
    turn_dropout_on(model)
    try:
        return head.features(model, batch).flatten(0, 1)
    finally:
        model.eval()


def _logits(model: nn.Module, batch: Batch, moment: Sequence[int]) -> NDArray[np.float32]:
    _seed_for(moment)
    turn_dropout_on(model)
    logits: Tensor = model(**batch).logits
    model.eval()
    return logits.float().cpu().numpy()


def turn_dropout_on(model: nn.Module) -> None:
    """As in training, but for batch normalisation, which keeps what training found."""
    model.train()
    evaluate_running_norms(model)


def _seed_for(moment: Sequence[int]) -> None:
    seed, *counters = moment
    torch.manual_seed(int(stream(seed, "dropout passes", *counters).integers(2**62)))
