import io

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from calmix.dynamics.margins import observe
from calmix.dynamics.recorder import DynamicsRecorder
from calmix.dynamics.training_dynamics import TrainingDynamics

ROWS, EPOCHS, CLASSES = 23, 3, 4


@pytest.fixture
def ids():
    return [f"train-{number}" for number in range(1, ROWS + 1)]


@pytest.fixture
def logits():
    return np.random.default_rng(0).normal(size=(ROWS, EPOCHS, CLASSES)).astype(np.float32)


@pytest.fixture
def labels():
    return np.random.default_rng(1).integers(0, CLASSES, ROWS)


def batches(epoch, size=8):
    """A new order every epoch; the last batch has 7 rows."""
    order = np.random.default_rng([7, epoch]).permutation(ROWS)
    return [order[start : start + size] for start in range(0, ROWS, size)]


def trained(recorder, logits, labels=None, epochs=range(EPOCHS), size=8):
    for epoch in epochs:
        for rows in batches(epoch, size):
            given = None if labels is None else labels[rows]
            recorder.record_positions(rows, logits[rows, epoch], given, epoch=epoch)
    return recorder


def same(one, other):
    for name in ("labels", "gold_probability", "margin", "predicted_correctly", "predicted_label"):
        assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


def recorder_for(ids, labels, **more):
    return DynamicsRecorder(ids, labels, epochs=EPOCHS, num_classes=CLASSES, **more)


@pytest.mark.parametrize("size", [1, 8, 11, ROWS])
def test_whatever_the_batches_the_dynamics_are_those_of_the_logits(ids, logits, labels, size):
    # Size 11 leaves a last batch of one row.
    recorded = trained(recorder_for(ids, labels), logits, size=size).dynamics()
    same(recorded, TrainingDynamics.from_logits(logits, labels, row_ids=ids))


def test_by_id_and_epoch_by_epoch_like_by_position(ids, logits, labels):
    recorder = recorder_for(ids, None)
    for epoch in range(EPOCHS):
        for rows in batches(epoch):
            recorder.record([ids[row] for row in rows], logits[rows, epoch], labels[rows])
        recorder.next_epoch()
    same(recorder.dynamics(), trained(recorder_for(ids, labels), logits).dynamics())


def test_a_row_seen_more_than_once_in_an_epoch_is_averaged_and_its_last_prediction_counts():
    recorder = DynamicsRecorder(["a", "b"], [0, 0], epochs=1, num_classes=2)
    first, second, third = [[3.0, 0.0]], [[0.0, 1.0]], [[0.0, 5.0]]
    recorder.record(["a"], first)
    recorder.record(["a", "b", "a"], np.concatenate([second, [[1.0, 0.0]], third]))
    dynamics = recorder.dynamics()
    alone = observe(np.concatenate([first, second, third]), [0, 0, 0])
    assert dynamics.margin[0, 0] == np.mean([3, -1, -5])
    assert dynamics.gold_probability[0, 0] == pytest.approx(alone.gold_probability.mean(), rel=1e-15)
    assert dynamics.predicted_label[0, 0] == 1
    assert not dynamics.predicted_correctly[0, 0]
    assert dynamics.margin[1, 0] == 1


def test_unseen_rows_and_epochs_have_no_value(ids, logits, labels):
    recorder = recorder_for(ids, labels)
    recorder.record_positions([0, 1], logits[:2, 0], epoch=0)
    recorder.record_positions([0], logits[:1, 1], epoch=1)
    dynamics = recorder.dynamics()
    assert dynamics.epochs == 2  # the third epoch never began
    assert dynamics.seen.sum() == 3
    assert np.isnan(dynamics.margin[1, 1])
    assert dynamics.predicted_label[1, 1] == -1
    assert not dynamics.predicted_correctly[2:].any()


def test_a_run_resumed_from_a_saved_state_holds_the_same_bits(ids, logits, labels):
    unbroken = trained(recorder_for(ids, labels, keep_logits=True), logits)
    killed = trained(recorder_for(ids, labels, keep_logits=True), logits, epochs=[0])
    for rows in batches(1)[:1]:
        killed.record_positions(rows, logits[rows, 1], epoch=1)
    file = io.BytesIO()
    np.savez(file, **killed.state())
    file.seek(0)
    resumed = recorder_for(ids, labels, keep_logits=True)
    resumed.load_state(np.load(file))
    for rows in batches(1)[1:]:
        resumed.record_positions(rows, logits[rows, 1], epoch=1)
    trained(resumed, logits, epochs=[2])
    same(resumed.dynamics(), unbroken.dynamics())
    assert_array_equal(resumed.dynamics().logits, unbroken.dynamics().logits)
    for name, array in resumed.state().items():
        assert array.tobytes() == unbroken.state()[name].tobytes(), name


def test_a_state_is_a_copy_and_knows_the_current_epoch(ids, logits, labels):
    recorder = recorder_for(ids, labels)
    recorder.next_epoch()
    state = recorder.state()
    recorder.record_positions([0], logits[:1, 1])
    assert not state["times"].any()
    fresh = recorder_for(ids, labels)
    fresh.load_state(state)
    assert fresh.epoch == 1


@pytest.mark.parametrize("as_state", [False, True])
def test_two_processes_merged_equal_one(ids, logits, labels, as_state):
    ranks = [recorder_for(ids, None, keep_logits=True) for _ in range(2)]
    for epoch in range(EPOCHS):
        for rows in batches(epoch, size=8):
            for rank in range(2):
                part = rows[rank::2]
                ranks[rank].record_positions(part, logits[part, epoch], labels[part], epoch=epoch)
    ranks[0].merge([ranks[1].state() if as_state else ranks[1]])
    same(ranks[0].dynamics(), trained(recorder_for(ids, labels), logits).dynamics())
    assert_array_equal(ranks[0].dynamics().logits, logits)


def test_a_row_seen_by_two_processes_in_one_epoch_is_averaged():
    one, two = (DynamicsRecorder(["a"], [0], epochs=1, num_classes=2) for _ in range(2))
    one.record(["a"], [[1.0, 0.0]])
    two.record(["a"], [[3.0, 0.0]])
    one.merge([two])
    assert one.dynamics().margin.tolist() == [[2.0]]


def test_the_assigned_label_counts_and_a_second_one_is_refused():
    recorder = DynamicsRecorder(["a", "b"], [1, 0], epochs=1, num_classes=2)
    recorder.record(["a"], [[5.0, 0.0]])
    assert recorder.dynamics().margin[0, 0] == -5
    with pytest.raises(ValueError, match="row 'a' has label 1, 0 was given"):
        recorder.record(["a"], [[5.0, 0.0]], [0])
    with pytest.raises(ValueError, match="row 'c' has label 1, 0 was given"):
        DynamicsRecorder(["c"], epochs=1, num_classes=2).record(["c", "c"], np.zeros((2, 2)), [0, 1])


def test_kept_logits_come_back_as_they_were(ids, logits, labels):
    assert_array_equal(trained(recorder_for(ids, labels, keep_logits=True), logits).dynamics().logits, logits)
    assert trained(recorder_for(ids, labels), logits).dynamics().logits is None


def test_an_empty_batch_records_nothing(ids, labels):
    recorder = recorder_for(ids, labels)
    recorder.record([], np.empty((0, CLASSES)))
    assert recorder.dynamics().epochs == 0


def test_memory_is_24_bytes_for_each_row_and_epoch():
    recorder = DynamicsRecorder(range(1000), np.zeros(1000, dtype=int), epochs=5, num_classes=50)
    arrays = recorder.state()
    grown = sum(arrays[name].nbytes for name in ("gold_sum", "margin_sum", "times", "predicted"))
    assert grown == 24 * 1000 * 5


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda r: r.record(["a"], [[1.0, float("nan")]]), "logits are not finite"),
        (lambda r: r.record(["b"], [[1.0, float("nan")]], [1]), "logits are not finite"),
        (lambda r: r.record(["b", "b"], np.zeros((2, 2)), [1, 0]), "row 'b' has label 0, 1 was given"),
        (lambda r: r.record(["a"], [1.0, 2.0]), r"logits must be \[1, 2\] \(rows, classes\), got \[2\]"),
        (lambda r: r.record(["a"], [[1.0, 2.0, 3.0]]), r"must be \[1, 2\] .* got \[1, 3\]"),
        (lambda r: r.record(["x"], [[1.0, 2.0]]), "unknown row id 'x'"),
        (lambda r: r.record(["a"], [[1.0, 2.0]], epoch=2), "epoch 2 is outside the 2 epochs"),
        (lambda r: r.record(["b"], [[1.0, 2.0]]), "the label of row 'b' is not known"),
        (lambda r: r.record(["b"], [[1.0, 2.0]], [2]), "labels must lie in 0..1, got 2..2"),
        (lambda r: r.record(["b"], [[1.0, 2.0]], [0.5]), "labels must be 1 integers"),
        (lambda r: r.record_positions([2], [[1.0, 2.0]]), "positions must lie in 0..1, got 2..2"),
        (lambda r: r.record_positions([True], [[1.0, 2.0]]), "positions must be a flat array of integers"),
    ],
)
def test_bad_input_is_refused_and_leaves_no_trace(call, message):
    recorder = DynamicsRecorder(["a", "b"], epochs=2, num_classes=2)
    recorder.record(["a"], [[1.0, 0.0]], [0])
    before = recorder.dynamics()
    with pytest.raises(ValueError, match=message):
        call(recorder)
    same(recorder.dynamics(), before)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (DynamicsRecorder(["a", "x"], epochs=2, num_classes=2), "on other rows"),
        (DynamicsRecorder(["a", "b"], epochs=3, num_classes=2), "for 3 epochs, this recorder has 2"),
        (DynamicsRecorder(["a", "b"], epochs=2, num_classes=3), "with 3 classes, here are 2"),
        (DynamicsRecorder(["a", "b"], epochs=2, num_classes=2, keep_logits=True), "keep_logits"),
    ],
)
def test_the_state_of_another_run_is_refused(other, message):
    # A head widened by a fake class (3 outputs) must not pass for the plain one (2).
    recorder = DynamicsRecorder(["a", "b"], epochs=2, num_classes=2)
    with pytest.raises(ValueError, match=message):
        recorder.load_state(other.state())
    with pytest.raises(ValueError, match=message):
        recorder.merge([other])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epochs": 0, "num_classes": 2}, "epochs must be at least 1"),
        ({"epochs": 1, "num_classes": 1}, "num_classes must be at least 2"),
        ({"epochs": 1, "num_classes": 2, "class_names": ["no"]}, "2 classes, 1 class names"),
        ({"epochs": 1, "num_classes": 2, "labels": [0]}, "labels must be 2 integers"),
        ({"epochs": 1, "num_classes": 2, "labels": [0, 2]}, "labels must lie in 0..1"),
    ],
)
def test_a_recorder_that_cannot_work_is_refused_at_once(arguments, message):
    with pytest.raises(ValueError, match=message):
        DynamicsRecorder(["a", "b"], **arguments)
