"""What is measured after every epoch, against the metrics of the same rows at the end of a run."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.metrics import matthews_corrcoef

from calmix.calibration.evaluation import evaluate
from calmix.calibration.predictions import Predictions
from calmix.training.epochs.measures import epoch_metrics


def draw(rows=200, classes=3, seed=0):
    generator = np.random.default_rng(seed)
    labels = generator.choice(classes, rows, p=[0.6, 0.3, 0.1])
    logits = generator.normal(size=(rows, classes)) + 1.5 * np.eye(classes)[labels]
    return logits, labels, generator.exponential(size=rows) ** 2, generator.dirichlet([0.4] * classes, rows)


@pytest.mark.parametrize("soft", [False, True])
def test_every_value_that_may_choose_the_epoch_counts_weights_and_soft_labels(soft):
    logits, labels, weights, targets = draw()
    targets = targets if soft else None
    output = SimpleNamespace(predictions=logits, label_ids=labels)
    found = epoch_metrics(output, weights=weights, targets=targets)
    rows = Predictions.from_logits(logits, labels).with_rows(weights=weights, targets=targets)
    expected = evaluate(rows, intervals=False)
    for name in ("accuracy", "nll", "ece"):
        assert found[name] == pytest.approx(expected[name], rel=1e-9), name
    shares = rows.soft_targets() * weights[:, None]
    places, classes = np.nonzero(shares)
    reference = matthews_corrcoef(
        classes, logits.argmax(axis=1)[places], sample_weight=shares[places, classes]
    )
    assert found["mcc"] == pytest.approx(reference, rel=1e-9)


def test_of_two_epochs_the_mcc_prefers_the_one_that_is_right_where_it_counts():
    labels = np.arange(40) % 2
    counts = np.where(np.arange(40) < 10, 10.0, 1.0)
    # Right on the 10 rows that count most, and on the 30 others.
    few, many = (np.eye(2)[np.where(chosen, labels, 1 - labels)] for chosen in (counts > 1, counts == 1))
    epochs = [SimpleNamespace(predictions=scores, label_ids=labels) for scores in (few, many)]
    by_weight, alike = (
        [epoch_metrics(epoch, weights=weights)["mcc"] for epoch in epochs] for weights in (counts, None)
    )
    assert by_weight[0] > 0 > by_weight[1]
    assert alike[0] < 0 < alike[1]
