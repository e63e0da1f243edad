"""Learning rate and epochs where the user gives none: by the network and the number of training rows.

    network                                          learning rate
    small sentence encoder (the embedded one)        2e-4
    other small transformer, below 40 M weights      1e-4
    base size                                        3e-5
    large, from 200 M weights                        1e-5

Weights are those of the layers, without embeddings. A built-in network has settings of its own
(`model_settings`).

    epochs = least number, from 3 to 20, that gives 200 optimiser steps; 2 where 3 are above 20,000 steps

The rate of the embedded encoder and the epochs come from `benchmarks/default_settings.py`. The others are the
field's usual values:

* small: Turc et al. 2019 choose among 3e-5, 5e-5, 1e-4 and 3e-4 for BERT of 4 to 42 M weights; Clark et al.
  2020 fine-tune ELECTRA-small at 3e-4;
* base: 3e-5 is in the grids of BERT (2e-5, 3e-5, 5e-5; Devlin et al. 2019) and of RoBERTa (1e-5, 2e-5, 3e-5;
  Liu et al. 2019);
* large: the lowest of RoBERTa's grid; larger rates fail in some seeds (Mosbach et al. 2021). The same paper
  asks for many more steps than 3 epochs give on few rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from calmix.models.network_scale import NetworkScale, network_scale
from calmix.training.model_settings import settings_for

SMALL_SENTENCE_ENCODER, SMALL, BASE, LARGE = 2e-4, 1e-4, 3e-5, 1e-5
SMALL_BELOW, LARGE_FROM = 40_000_000, 200_000_000
LEAST_STEPS, MOST_STEPS = 200, 20_000
LEAST_EPOCHS, MOST_EPOCHS = 3, 20
# A data map, which guided methods need, takes two.
EPOCHS_OF_MANY_ROWS = 2


@dataclass(frozen=True)
class DefaultSettings:
    learning_rate: float
    epochs: int


def default_settings(model: str, rows: int, batch_size: int) -> DefaultSettings:
    """The settings that suit a model and a number of training rows."""
    own = settings_for(model)
    if own:
        return DefaultSettings(own["learning_rate"], own["epochs"])
    return DefaultSettings(default_rate(network_scale(model)), default_epochs(rows, batch_size))


def default_rate(scale: NetworkScale) -> float:
    """The learning rate of a checkpoint. One of unknown size counts as of base size.

    >>> default_rate(NetworkScale(10_600_000, is_sentence_encoder=True))
    0.0002
    >>> default_rate(NetworkScale(85_000_000))
    3e-05
    """
    if scale.weights is None or SMALL_BELOW <= scale.weights < LARGE_FROM:
        return BASE
    if scale.weights >= LARGE_FROM:
        return LARGE
    return SMALL_SENTENCE_ENCODER if scale.is_sentence_encoder else SMALL


def default_epochs(rows: int, batch_size: int) -> int:
    """Enough optimiser steps on few rows, not too many on many.

    >>> [default_epochs(rows, 16) for rows in (100, 600, 2_000, 100_000, 1_000_000)]
    [20, 6, 3, 3, 2]
    """
    steps = math.ceil(max(rows, 1) / batch_size)
    if LEAST_EPOCHS * steps > MOST_STEPS:
        return EPOCHS_OF_MANY_ROWS
    return min(max(math.ceil(LEAST_STEPS / steps), LEAST_EPOCHS), MOST_EPOCHS)
