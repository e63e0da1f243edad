import numpy as np
import pytest

from calmix.dynamics.datamap import DataMap
from calmix.dynamics.label_noise import threshold_filter
from calmix.dynamics.suspects import suspect_rows, suspect_table, verdict_table
from calmix.dynamics.training_dynamics import TrainingDynamics

NAMES = ("neg", "pos")


@pytest.fixture
def datamap():
    """Margins 3, −1, −2, 0 and 5 against the labels 0, 0, 1, 1 and 0."""
    logits = np.array([[3.0, 0.0], [0.0, 1.0], [2.0, 0.0], [0.0, 0.0], [5.0, 0.0]])[:, None].repeat(2, axis=1)
    return DataMap.from_dynamics(
        TrainingDynamics.from_logits(
            logits, [0, 0, 1, 1, 0], row_ids=["a", "b", "c", "d", "e"], class_names=NAMES
        )
    )


def test_without_a_verdict_they_are_the_negative_margins_lowest_first(datamap):
    assert suspect_rows(datamap).tolist() == [2, 1]
    assert suspect_table(datamap, texts=list("VWXYZ")).to_pydict() == {
        "row_id": ["c", "b"],
        "label": ["pos", "neg"],
        "predicted_label": ["neg", "pos"],
        "aum": [-2.0, -1.0],
        "confidence": pytest.approx([1 / (1 + np.exp(2)), 1 / (1 + np.exp(1))]),
        "text": ["X", "W"],
    }


def test_with_a_verdict_they_are_its_flagged_rows_and_keep_the_scores_of_the_map(datamap):
    # Row e is the threshold sample, at 1: rows below or at it are flagged.
    verdict = threshold_filter([[3.0, 0.5, 2.0, -4.0, 1.0]], [[False] * 4 + [True]], k=1.0)
    table = suspect_table(datamap, verdict).to_pydict()
    assert table["row_id"] == ["d", "b"]
    assert table["aum"] == [0.0, -1.0]
    assert table["pass_aum"] == [-4.0, 0.5]
    assert table["score"] == [0.0, 0.0]


def test_a_row_that_was_never_judged_has_no_flag_and_no_score(datamap):
    verdict = threshold_filter([[3.0, 0.5, 2.0, -4.0, 1.0]], [[False] * 4 + [True]], k=1.0)
    table = verdict_table(datamap, verdict).to_pydict()
    assert table["flagged"] == [False, True, False, True, None]
    assert table["score"] == [1.0, 0.0, 1.0, 0.0, None]
    assert table["pass_aum"] == [3.0, 0.5, 2.0, -4.0, None]


def test_verdicts_of_other_rows_are_refused(datamap):
    verdict = threshold_filter([[3.0, 0.5]], [[False, True]], k=1.0)
    with pytest.raises(ValueError, match="2 verdicts for 5 rows"):
        verdict_table(datamap, verdict)
