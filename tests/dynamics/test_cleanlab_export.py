import numpy as np
import pytest
from pyarrow import csv

from calmix.dynamics.cleanlab_export import cleanlab_issues, write_cleanlab_issues
from calmix.dynamics.datamap import DataMap
from calmix.dynamics.label_noise import threshold_filter
from calmix.dynamics.recorder import DynamicsRecorder
from calmix.dynamics.training_dynamics import TrainingDynamics

NAMES = ("neg", "pos")
#                  right       wrong        undecided
LOGITS = np.array([[[4.0, 0.0]], [[3.0, 0.0]], [[0.0, 1.0]]]).repeat(2, axis=1)
LABELS = np.array([0, 1, 1])


@pytest.fixture
def datamap():
    return DataMap.from_dynamics(TrainingDynamics.from_logits(LOGITS, LABELS, class_names=NAMES))


def test_without_a_threshold_run_nothing_is_called_an_issue(datamap):
    table = cleanlab_issues(datamap).to_pydict()
    assert table["is_label_issue"] == [None, None, None]
    assert table["given_label"] == [0, 1, 1]
    assert table["predicted_label"] == [0, 0, 1]
    # Two classes and constant logits: the quality is the probability of the given label.
    np.testing.assert_allclose(table["label_quality"], datamap.confidence, atol=1e-12)


def test_a_verdict_decides_what_is_an_issue(datamap):
    verdict = threshold_filter([[4.0, -3.0, 1.0]], [[False, True, False]], k=1.0)
    assert cleanlab_issues(datamap, verdict)["is_label_issue"].to_pylist() == [False, None, False]
    verdict = threshold_filter([[4.0, 2.0, 1.0]], [[False, True, False]], k=1.0)
    table = cleanlab_issues(datamap, verdict)
    assert table["is_label_issue"].to_pylist() == [False, None, True]
    assert table["label_quality"].to_pylist()[1] is None  # a threshold sample was never judged


def test_rows_never_seen_are_no_issue():
    recorder = DynamicsRecorder(["a", "b"], [0, 1], epochs=1, num_classes=2)
    recorder.record(["a"], [[0.0, 1.0]])
    table = cleanlab_issues(DataMap.from_recorder(recorder)).to_pydict()
    assert table["is_label_issue"] == [None, None]
    assert table["label_quality"][1] is None
    assert table["predicted_label"] == [1, None]


def test_the_csv_holds_the_same_table(tmp_path, datamap):
    write_cleanlab_issues(tmp_path / "issues.csv", datamap)
    assert csv.read_csv(tmp_path / "issues.csv").to_pydict()["given_label"] == [0, 1, 1]


@pytest.mark.processes
def test_the_columns_are_those_of_cleanlearning_and_it_takes_them():
    cleanlab = pytest.importorskip("cleanlab.classification")
    generator = np.random.default_rng(0)
    x = generator.normal(size=(120, 2))
    y = (x[:, 0] > 0).astype(int)
    y[:6] = 1 - y[:6]
    theirs = cleanlab.CleanLearning().find_label_issues(x, y)
    # The margin of a perfect classifier against the given labels.
    logits = np.repeat(np.stack([-x[:, 0], x[:, 0]], axis=1)[:, None] * 5, 2, axis=1)
    datamap = DataMap.from_dynamics(TrainingDynamics.from_logits(logits, y))
    # Two passes, each with one threshold sample of AUM 0 that is an original in the other.
    passes = [np.where(np.arange(120) == sample, 0.0, datamap.aum) for sample in (118, 119)]
    verdict = threshold_filter(passes, [np.arange(120) == sample for sample in (118, 119)], k=1.0)
    ours = cleanlab_issues(datamap, verdict).to_pandas()
    assert ours.columns.tolist() == ["row_id", *theirs.columns]
    assert np.flatnonzero(ours["is_label_issue"]).tolist() == list(range(6))
    fitted = cleanlab.CleanLearning().fit(x, y, label_issues=ours)
    assert fitted.get_label_issues()["is_label_issue"].sum() == 6
