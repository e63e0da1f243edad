"""Batches give what all rows at once give, and leave a fingerprint of the rows."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calmix.calibration.evaluation import evaluate
from calmix.calibration.files.prediction_files import iterate_predictions
from calmix.calibration.integrations.streaming import RowFingerprint, evaluate_batches
from calmix.calibration.predictions import Predictions


def drawn(rows, classes, seed=0, ids=False):
    generator = np.random.default_rng(seed)
    logits = generator.normal(scale=2, size=(rows, classes))
    labels = generator.integers(0, classes, rows)
    return Predictions.from_logits(logits, labels, ids=[f"r{i}" for i in range(rows)] if ids else None)


def cut(predictions, places):
    places = [0, *sorted(places), len(predictions)]
    return [predictions.rows(a, b) for a, b in pairwise(places) if b > a]


@pytest.mark.parametrize("notion", ["top_label", "classwise", "positive"])
@pytest.mark.parametrize("places", [[1], [400, 1100], [7, 8, 9, 1000]])
def test_every_metric_and_interval_is_that_of_all_rows_at_once(notion, places):
    predictions = drawn(1500, 2 if notion == "positive" else 3)
    whole = evaluate(predictions, notion=notion)
    streamed = evaluate_batches(cut(predictions, places), notion=notion).result()
    assert streamed.keys() == whole.keys()
    for name, value in whole.items():
        assert streamed[name] == pytest.approx(value, abs=1e-12), name


def test_a_parquet_file_is_read_in_batches_that_give_the_same(tmp_path):
    predictions = drawn(3000, 4)
    table = pa.table({"label": predictions.labels, "logits": predictions.values.tolist()})
    pq.write_table(table, tmp_path / "p.parquet", row_group_size=700)
    batches = list(iterate_predictions(tmp_path / "p.parquet", batch_rows=500))
    assert max(len(batch) for batch in batches) <= 500
    streamed = evaluate_batches(batches).result()
    whole = evaluate(predictions)
    for name in ("nll", "ece", "ece_ci", "adaptive_ece", "classwise_ece", "aurc", "aurc_ci"):
        assert streamed[name] == pytest.approx(whole[name], abs=1e-12), name


def test_measuring_again_after_more_rows_sees_them():
    predictions = drawn(600, 3)
    first, rest = cut(predictions, [200])
    evaluation = evaluate_batches([first])
    assert evaluation.result()["n"] == 200
    evaluation.update(rest)
    assert evaluation.result()["ece"] == pytest.approx(evaluate(predictions)["ece"], abs=1e-12)


def test_no_rows_and_a_change_of_classes_are_refused():
    with pytest.raises(ValueError, match="no rows"):
        evaluate_batches([]).result()
    with pytest.raises(ValueError, match="3 classes after 2"):
        evaluate_batches([drawn(5, 2), drawn(5, 3)])


@given(places=st.lists(st.integers(0, 40), max_size=6))
@settings(max_examples=40, deadline=None)
def test_a_fingerprint_does_not_depend_on_where_batches_end(places):
    predictions = drawn(40, 3, ids=True)
    whole, parts = RowFingerprint(), RowFingerprint()
    whole.update(predictions)
    for part in cut(predictions, places):
        parts.update(part)
    assert (parts.rows, parts.labels, parts.ids) == (whole.rows, whole.labels, whole.ids)


def test_a_fingerprint_tells_order_labels_and_ids_apart():
    predictions = drawn(40, 3, ids=True)
    original, reversed_rows, joined = RowFingerprint(), RowFingerprint(), RowFingerprint()
    original.update(predictions)
    reversed_rows.update(predictions.select(np.arange(40)[::-1]))
    assert reversed_rows.ids != original.ids
    assert reversed_rows.labels != original.labels
    apart = RowFingerprint()
    apart.update(Predictions.from_logits(np.zeros((2, 2)), [0, 1], ids=["ab", "c"]))
    joined.update(Predictions.from_logits(np.zeros((2, 2)), [0, 1], ids=["a", "bc"]))
    assert apart.ids != joined.ids
    without = RowFingerprint()
    without.update(drawn(40, 3))
    assert without.ids is None
