"""PseudoCal: a temperature fitted on mixed rows of the target with pseudo-labels.

Two rows of the target with different predicted classes are mixed at the input, 0.65 of one and 0.35 of the
other, and get the predicted class of the first. The model is as often wrong about such rows, the authors
argue, as about real ones of the target: rows between the classes are taken for the other. The temperature
minimises the NLL of the mixed rows.

Reference: Hu, Liang, Wang & Foo, ICML 2024. For texts, which the authors do not treat, word embeddings are
mixed (`inference.adaptation.target_passes`).
"""

from __future__ import annotations

import numpy as np

from calmix.calibration.calibrators.shrunk import ShrunkScaling
from calmix.calibration.calibrators.temperature import TemperatureScaling
from calmix.calibration.input_checks import Floats, Integers
from calmix.runtime.randomness import stream

RATIO = 0.65


def different_pairs(predicted: Integers, *, seed: int = 0) -> tuple[Integers, Integers]:
    """Rows and partners of another predicted class: a random order and its shift by one, where they differ.

    >>> first, second = different_pairs(np.array([0, 0, 1, 1, 2]))
    >>> bool((np.array([0, 0, 1, 1, 2])[first] != np.array([0, 0, 1, 1, 2])[second]).all())
    True
    """
    order = stream(seed, "pseudo-target").permutation(len(predicted))
    partner = np.roll(order, 1)
    differ = predicted[order] != predicted[partner]
    return order[differ], partner[differ]


def pseudo_target(mixed_logits: Floats, pseudo_labels: Integers) -> ShrunkScaling:
    """The temperature by the logits of mixed rows and the predicted classes of their larger parts."""
    fitted = TemperatureScaling().fit(mixed_logits, pseudo_labels)
    return ShrunkScaling.of(fitted.temperature_, np.zeros(mixed_logits.shape[1]))
