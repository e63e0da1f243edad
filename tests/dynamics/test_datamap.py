import importlib.util
import statistics
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calmix.dynamics.datamap import DataMap, forgetting_events, most_predicted
from calmix.dynamics.recorder import DynamicsRecorder
from calmix.dynamics.training_dynamics import TrainingDynamics

REFERENCE = Path(__file__).parents[2] / "benchmarks" / "cartography_reference.py"


def random_dynamics(rows=200, epochs=6, classes=3, seed=0):
    generator = np.random.default_rng(seed)
    logits = generator.normal(scale=3, size=(rows, epochs, classes))
    return logits, generator.integers(0, classes, rows)


def with_gaps(dynamics, seen):
    """The same dynamics, with values only where `seen`."""
    return TrainingDynamics(
        dynamics.row_ids,
        dynamics.labels,
        np.where(seen, dynamics.gold_probability, np.nan),
        np.where(seen, dynamics.margin, np.nan),
        dynamics.predicted_correctly & seen,
        np.where(seen, dynamics.predicted_label, -1),
    )


def slow_forgetting(trend):
    return sum(1 for before, after in pairwise(trend) if before and not after)


def test_agrees_with_a_loop_over_the_definitions():
    logits, labels = random_dynamics()
    dynamics = TrainingDynamics.from_logits(logits, labels)
    datamap = DataMap.from_dynamics(dynamics)
    for row in range(len(labels)):
        gold = dynamics.gold_probability[row].tolist()
        trend = [int(np.argmax(z)) == labels[row] for z in logits[row]]
        assert datamap.confidence[row] == pytest.approx(statistics.fmean(gold), abs=1e-12)
        assert datamap.variability[row] == pytest.approx(statistics.pstdev(gold), abs=1e-12)
        assert datamap.correctness[row] == sum(trend)
        assert datamap.forgetting[row] == slow_forgetting(trend)
        assert datamap.aum[row] == pytest.approx(statistics.fmean(dynamics.margin[row]), abs=1e-12)


def test_agrees_with_a_cartography_style_computation():
    torch = pytest.importorskip("torch")
    pytest.importorskip("pandas")
    spec = importlib.util.spec_from_file_location("cartography_reference", REFERENCE)
    reference = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reference)
    logits, labels = random_dynamics(seed=1)
    ids = [f"train-{row}" for row in range(len(labels))]
    expected = reference.cartography_map(reference.records_from_logits(logits, labels, ids), torch.float64)
    datamap = DataMap.from_dynamics(TrainingDynamics.from_logits(logits, labels, row_ids=ids))
    assert expected["guid"].tolist() == datamap.row_ids.tolist()
    for name in ("confidence", "variability", "correctness", "aum"):
        np.testing.assert_allclose(getattr(datamap, name), expected[name], rtol=0, atol=1e-12)
    learnt = datamap.correctness > 0  # cartography writes 1000 for the others
    np.testing.assert_array_equal(datamap.forgetting[learnt], expected["forgetfulness"][learnt])
    assert (datamap.forgetting[~learnt] == 0).all()


def test_agrees_with_the_aum_package(tmp_path):
    torch = pytest.importorskip("torch")
    aum = pytest.importorskip("aum")
    logits, labels = random_dynamics(seed=2)
    calculator = aum.AUMCalculator(str(tmp_path))
    recorder = DynamicsRecorder(range(len(labels)), labels, epochs=logits.shape[1], num_classes=3)
    for epoch in range(logits.shape[1]):
        for rows in np.array_split(np.random.default_rng(epoch).permutation(len(labels)), 7):
            batch = torch.tensor(logits[rows, epoch], dtype=torch.float64)
            calculator.update(batch, torch.tensor(labels[rows]), rows.tolist())
            recorder.record(rows, logits[rows, epoch])
        recorder.next_epoch()
    ours = DataMap.from_recorder(recorder).aum
    theirs = [calculator.sums[row] / calculator.counts[row] for row in range(len(labels))]
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12)


def test_rows_seen_in_some_epochs_use_those_epochs():
    logits, labels = random_dynamics(rows=50)
    seen = np.random.default_rng(3).random((50, 6)) < 0.5
    seen[0] = False
    full = TrainingDynamics.from_logits(logits, labels)
    datamap = DataMap.from_dynamics(with_gaps(full, seen))
    for row in range(1, 50):
        here = np.flatnonzero(seen[row])
        if not len(here):
            continue
        alone = DataMap.from_dynamics(TrainingDynamics.from_logits(logits[[row]][:, here], labels[[row]]))
        for name in ("confidence", "variability", "correctness", "forgetting", "aum", "predicted_label"):
            assert getattr(datamap, name)[row] == pytest.approx(getattr(alone, name)[0], abs=1e-15), name
        assert datamap.epochs_seen[row] == len(here)


def test_rows_never_seen_have_no_value():
    logits, labels = random_dynamics(rows=3)
    seen = np.ones((3, 6), dtype=bool)
    seen[1] = False
    datamap = DataMap.from_dynamics(with_gaps(TrainingDynamics.from_logits(logits, labels), seen))
    for name in ("confidence", "variability", "correctness", "forgetting", "aum"):
        assert np.isnan(getattr(datamap, name)).tolist() == [False, True, False], name
    assert datamap.predicted_label[1] == -1


def test_constant_logits_give_their_margin_as_aum_and_no_variability():
    logits = np.broadcast_to([2.0, 1.0, 0.0], (1, 5, 3))
    datamap = DataMap.from_dynamics(TrainingDynamics.from_logits(logits, [0]))
    assert datamap.aum.tolist() == [1.0]
    assert datamap.variability.tolist() == [0.0]


def test_a_tiny_variability_does_not_cancel():
    # E[p²] − μ² is a hundred times too large here; two passes keep six digits.
    dynamics = TrainingDynamics(
        np.array(["a"]),
        np.array([0]),
        np.array([[0.9, 0.9 + 2e-9]]),
        np.zeros((1, 2)),
        np.ones((1, 2), dtype=bool),
    )
    assert DataMap.from_dynamics(dynamics).variability[0] == pytest.approx(1e-9, rel=1e-6, abs=0)
    p = dynamics.gold_probability[0]
    assert np.mean(p**2) - np.mean(p) ** 2 != pytest.approx(1e-18, rel=0.1, abs=0)


@given(st.lists(st.booleans(), min_size=1, max_size=12))
def test_forgetting_counts_every_turn_from_right_to_wrong(trend):
    assert forgetting_events(np.array([trend])).tolist() == [slow_forgetting(trend)]


def test_the_label_predicted_most_wins_and_the_earlier_one_on_ties():
    predicted = np.array([[0, 1, 1, 2], [2, 1, 1, 2], [-1, -1, 0, -1], [-1, -1, -1, -1]], dtype=np.int32)
    assert most_predicted(predicted).tolist() == [1, 2, 0, -1]


def test_regions_are_refused_where_variability_means_nothing():
    logits, labels = random_dynamics(epochs=1)
    datamap = DataMap.from_dynamics(TrainingDynamics.from_logits(logits, labels))
    assert (datamap.variability == 0).all()
    with pytest.raises(ValueError, match="at least two epochs"):
        datamap.regions()
    with pytest.raises(ValueError, match="at least two epochs"):
        datamap.partition()


def test_the_map_does_not_depend_on_the_order_of_the_rows():
    logits, labels = random_dynamics(rows=60)
    ids = np.array([f"train-{row}" for row in range(60)])
    order = np.random.default_rng(5).permutation(60)
    here = DataMap.from_dynamics(TrainingDynamics.from_logits(logits, labels, row_ids=ids))
    there = DataMap.from_dynamics(
        TrainingDynamics.from_logits(logits[order], labels[order], row_ids=ids[order])
    )
    for name in ("confidence", "variability", "correctness", "forgetting", "aum", "predicted_label"):
        np.testing.assert_array_equal(getattr(here, name)[order], getattr(there, name))
    np.testing.assert_array_equal(here.regions().easy[order], there.regions().easy)
    np.testing.assert_array_equal(here.partition().hard[order], there.partition().hard)
