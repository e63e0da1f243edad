"""Stored scores of rows out of distribution belong to the rows they were found for."""

from types import SimpleNamespace

import numpy as np

from calmix.data.rows import Rows
from calmix.inference import out_of_distribution
from calmix.reproduction.detection import score_run
from calmix.reproduction.preset import Detection


class Counting:
    """Scores every row by the length of its text, and counts how often it is asked."""

    asked = 0

    def __init__(self, run, *, passes, device):
        type(self).asked += 1

    def score(self, column, rows):
        lengths = np.array([len(text) for text in rows.texts()], dtype=float)
        return SimpleNamespace(
            scores=lambda temperature: {("msp", "uncalibrated"): lengths},
            confidences=lambda temperature: {"uncalibrated": lengths / 100},
        )


def test_scores_are_found_again_for_the_same_rows_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(out_of_distribution, "Detector", Counting)
    (tmp_path / "model").mkdir()
    run = SimpleNamespace(path=tmp_path, model=tmp_path / "model", temperature=lambda: 1.0)

    def scores(text):
        sets = {"known": Rows.from_columns(["a"], ["four"]), "other": Rows.from_columns(["b"], [text])}
        found = score_run(
            run, sets, "known", Detection(), tmp_path / "scores", device="cpu", restore=lambda: None
        )
        return found.of("other", "uncalibrated").tolist()

    (tmp_path / "scores").mkdir()
    assert scores("sixsix") == [6.0] and scores("sixsix") == [6.0]
    assert Counting.asked == 1
    # A file of the same name with other rows.
    assert scores("sevenxx") == [7.0]
    assert Counting.asked == 2
