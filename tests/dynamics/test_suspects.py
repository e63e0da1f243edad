from dataclasses import replace

import numpy as np
import pytest

from calmix.dynamics.datamap import DataMap
from calmix.dynamics.label_noise import threshold_filter
from calmix.dynamics.suspects import list_suspects, relative_aum, suspect_rows, verdict_table
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


def test_without_a_verdict_they_are_negative_margins_lowest_within_their_class_first(datamap):
    # The medians of the classes are 3 and −1: −1 lies 4 below its own, −2 only 1.
    assert suspect_rows(datamap).tolist() == [1, 2]
    assert list_suspects(datamap, texts=list("VWXYZ")).to_pydict() == {
        "row_id": ["b", "c"],
        "label": ["neg", "pos"],
        "predicted_label": ["pos", "neg"],
        "aum": [-1.0, -2.0],
        "relative_aum": relative_aum(datamap.aum, datamap.labels)[[1, 2]].tolist(),
        "confidence": pytest.approx([1 / (1 + np.exp(1)), 1 / (1 + np.exp(2))]),
        "text": ["W", "X"],
    }


def test_a_small_hard_class_is_not_listed_as_a_whole():
    """2,000 rows, 34 of them in a class that the network never learned: all their margins are negative."""
    generator = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], [1000, 966, 34])
    aum = np.where(labels == 2, generator.normal(-2.0, 0.5, 2000), generator.normal(3.0, 1.5, 2000))
    wrong = generator.choice(1966, 60, replace=False)
    aum[wrong] = generator.normal(-2.0, 0.5, 60)
    unknown = DataMap.unknown(2000)
    datamap = replace(unknown, labels=labels, aum=aum)
    listed = suspect_rows(datamap)
    assert (labels[listed] == 2).sum() <= 5
    assert np.isin(listed[:50], wrong).mean() >= 0.9
    assert len(listed) <= 100, "a twentieth of the rows, what a person can read"


def test_relative_aum_survives_constant_margins_unseen_rows_and_unknown_labels():
    aum = np.array([1.0] * 12 + [np.nan, -1.0])
    found = relative_aum(aum, np.array([0] * 13 + [-1]))
    assert np.isnan(found[12])
    assert np.isfinite(np.delete(found, 12)).all()
    assert np.isnan(relative_aum(np.full(3, np.nan), np.zeros(3, dtype=np.int64))).all()


def test_with_a_verdict_they_are_its_flagged_rows_and_keep_the_scores_of_the_map(datamap):
    # Row e is the threshold sample, at 1: rows below or at it are flagged.
    verdict = threshold_filter([[3.0, 0.5, 2.0, -4.0, 1.0]], [[False] * 4 + [True]], k=1.0)
    table = list_suspects(datamap, verdict).to_pydict()
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
