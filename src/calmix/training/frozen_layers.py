"""`--freeze-layers`: the first layers of a run's network are frozen, and their activations cached.

Activations are kept in CALMIX_CACHE under the network they come from, and found by the tokens of a text: all
epochs, seeds and methods share them, and so do threshold passes and students with the same first layers.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch.utils.data import Dataset

from calmix.data.batches.encoding import EncodedRows
from calmix.data.batches.state_cache import GIB, NoRoom, StateCache, make_room, size_in_words
from calmix.data.batches.unlabelled import WithUnlabelled
from calmix.models.cached_states import CachedRows, StateCollator
from calmix.models.frozen_prefix import STATES, FrozenPrefix
from calmix.models.inputs import Encoded
from calmix.models.network import Network
from calmix.printable import say
from calmix.runtime.cache_directory import cache_directory
from calmix.runtime.hardware import broadcast_from_rank0
from calmix.runtime.lock import locked
from calmix.runtime.processes import is_first_process
from calmix.training.configuration import TrainConfig
from calmix.training.trainer import MixupTrainer
from calmix.user_error import UserError, argument

PROBE_ROWS = 4
SECONDS_BETWEEN_LINES = 15.0


def freeze_layers(config: TrainConfig, network: Network, rows: Encoded) -> FrozenPrefix | None:
    """Freeze the layers that the configuration says, tried on a few of the rows."""
    if config.freeze_layers is None:
        return None
    if not isinstance(rows, EncodedRows):
        raise UserError(
            f"{argument('freeze_layers')} is for texts, and the rows are images", remedy="leave it out"
        )
    collator = network.inputs.collator(is_choice=rows.is_choice)
    # Of different length, so that padding is part of what is tried.
    order = rows.lengths.argsort(kind="stable")
    chosen = {int(order[round(place * (len(order) - 1) / (PROBE_ROWS - 1))]) for place in range(PROBE_ROWS)}
    probe = collator([rows[position] for position in sorted(chosen)])
    probe.pop("labels", None)
    return FrozenPrefix(network.model, config.freeze_layers, probe, is_cached=config.freeze_cache != "off")


def train_from_cache(
    config: TrainConfig, trainer: MixupTrainer, prefix: FrozenPrefix | None, splits: Mapping[str, Encoded]
) -> dict[str, CachedRows]:
    """Let a trainer read the activations of the frozen layers from the cache, filled where it is not."""
    if prefix is None or not prefix.is_cached:
        return {}
    cached = cached_rows(config, prefix, splits)
    rows: Any = cached["train"]
    trainer.train_dataset = WithUnlabelled(rows, cached["unlabelled"]) if "unlabelled" in cached else rows
    if "validation" in cached:
        view: Dataset[Any] | Any = cached["validation"].by_length()[0]
        trainer.eval_dataset = view
    collator: Any = trainer.data_collator
    trainer.data_collator = StateCollator(collator, STATES)
    return cached


def predict_from_cache(
    config: TrainConfig, prefix: FrozenPrefix | None, splits: Mapping[str, Encoded]
) -> dict[str, CachedRows]:
    """The splits that the finished network predicts from the cache: all, or none of them.

    The seeds and methods that follow compute what lies above the frozen layers alone. Rows pass through the
    whole network where the limit leaves no room, where activations are rounded to half precision, and where
    LoRA is merged before they are predicted.
    """
    if prefix is None or config.freeze_cache != "float32" or config.lora is not None:
        return {}
    try:
        return cached_rows(config, prefix, splits)
    except NoRoom:
        return {}


def cached_rows(
    config: TrainConfig, prefix: FrozenPrefix, splits: Mapping[str, Encoded]
) -> dict[str, CachedRows]:
    given = {name: rows for name, rows in splits.items() if isinstance(rows, EncodedRows)}
    cache = fill_cache(config, prefix, list(given.values()))
    return {name: CachedRows.of(rows, cache, STATES) for name, rows in given.items()}


def fill_cache(config: TrainConfig, prefix: FrozenPrefix, splits: Sequence[EncodedRows]) -> StateCache:
    """The cache with the activations of all rows; what is missing is computed by one process for all."""
    root = cache_directory() / "activations"
    place = root / f"{prefix.fingerprint()}-{config.freeze_cache}"
    limit = int(config.freeze_cache_limit * GIB)
    with locked(root / f"{place.name}.lock"):
        problem = _fill(prefix, splits, place, config.freeze_cache, limit) if is_first_process() else None
        if broadcast_from_rank0(problem is not None):
            raise problem or NoRoom("the activations could not be cached", remedy="see the first process")
    return StateCache(place, prefix.width, config.freeze_cache)


def _fill(
    prefix: FrozenPrefix, splits: Sequence[EncodedRows], place: Path, precision: str, limit: int
) -> UserError | None:
    """Compute what is missing. A reason not to is given back: all processes must stop together."""
    cache = StateCache(place, prefix.width, precision)
    missing = cache.missing(splits)
    count, needed = len(missing.sequences), cache.bytes_for(missing.tokens)
    if not count:
        return None
    try:
        make_room(place.parent, needed, limit, place)
        say(
            f"the first {prefix.layers} layers are frozen: the activations of {count:,} texts are cached "
            f"({size_in_words(needed)} in {place})"
        )
        cache.fill(missing, prefix.states_of, _Announced(count))
    except UserError as error:
        return error
    return None


class _Announced:
    """Says now and then how far it is."""

    def __init__(self, count: int) -> None:
        self.count, self.said_at = count, time.monotonic()

    def __call__(self, done: int) -> None:
        if time.monotonic() - self.said_at > SECONDS_BETWEEN_LINES:
            self.said_at = time.monotonic()
            say(f"cached activations: {done:,} of {self.count:,} texts")
