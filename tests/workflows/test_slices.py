"""`calmix evaluate --slice`: each value of a column has the metrics of its own rows."""

import csv
import json

import numpy as np
import pytest

import calmix as library
from calmix.calibration.evaluation import evaluate as measure
from calmix.calibration.predictions import Predictions
from calmix.user_error import UserError


def write_file(path, rows=300):
    """Rows of the source `forum` are predicted at random."""
    generator = np.random.default_rng(0)
    scores = generator.dirichlet([0.5, 0.5], rows)
    labels = (generator.random(rows) < scores[:, 1]).astype(int)
    source = np.array(["web", "shop", "forum"])[np.arange(rows) % 3]
    labels[source == "forum"] = generator.integers(0, 2, (source == "forum").sum())
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["label", "prob_0", "prob_1", "source"])
        writer.writerows(zip(labels, *scores.T, source, strict=True))
    return scores, labels, source


def test_every_slice_has_the_metrics_of_its_rows_and_the_worst_is_named(calmix, tmp_path):
    file = tmp_path / "predictions.csv"
    scores, labels, source = write_file(file)
    code, out, err = calmix("evaluate", file, "--slice", "source", "--json")
    assert code == 0, err
    (found,) = json.loads(out)["slices"]
    assert (found["column"], found["worst"]["accuracy"]) == ("source", "forum")
    for one in found["slices"]:
        chosen = source == one["value"]
        expected = measure(Predictions.from_probabilities(scores[chosen], labels[chosen]))
        assert one["n"] == 100
        assert one["ece"] == pytest.approx(expected["ece"], abs=1e-12)
        assert one["ece_ci"] == pytest.approx(expected["ece_ci"], abs=1e-12)
    code, out, err = calmix("evaluate", file, "--slice", "source")
    assert code == 0, err
    assert "'forum' is predicted worst" in out
    assert all(len(line) <= 80 for line in out.splitlines() if "│" in line)


def test_from_python_the_column_may_come_with_the_rows(tmp_path):
    write_file(tmp_path / "p.csv")
    found = library.evaluate(tmp_path / "p.csv", slice="source", intervals=False)
    assert [one["value"] for one in found.slices[0]["slices"]] == ["forum", "shop", "web"]
    assert "forum" in str(found)


def test_a_column_that_is_not_there_is_named(calmix, tmp_path):
    write_file(tmp_path / "p.csv")
    code, _, err = calmix("evaluate", tmp_path / "p.csv", "--slice", "region")
    assert code == 2
    assert "no column 'region'" in err
    assert "--slice" in err
    with pytest.raises(UserError, match="no column 'region'"):
        calmix_slices(tmp_path / "p.csv", "region")


def test_a_column_of_texts_is_no_slice(calmix, tmp_path):
    write_file(tmp_path / "p.csv")
    code, _, err = calmix("evaluate", tmp_path / "p.csv", "--slice", "prob_1")
    assert code == 2
    assert "'prob_1' has 300 values" in err


def calmix_slices(file, column):
    from calmix.workflows.slices import column_values

    return column_values(file, column)


def test_the_column_is_found_in_rows_of_any_form_and_beside_an_ensemble(run, frames, tmp_path):
    frame = frames("test")
    frame["length"] = ["long" if len(text) > 40 else "short" for text in frame["text"]]
    forms = [frame, frame.to_dict("records"), frame.to_dict("list"), {"train": frame[:9], "test": frame}]
    found = [library.evaluate(model=run, data=form, slice="length", intervals=False) for form in forms]
    for one in found:
        assert one.slices[0]["slices"] == found[0].slices[0]["slices"]
    assert sum(one["n"] for one in found[0].slices[0]["slices"]) == len(frame)

    files = [tmp_path / "a.csv", tmp_path / "b.csv"]
    for file in files:
        library.predict(run, frame, output=file)
    both = library.evaluate(*files, model=run, data=frame, slice="length", ensemble=True, intervals=False)
    assert [one["file"] for one in both.slices] == [str(file) for file in files] + [both.files[-1].file]
    with pytest.raises(UserError, match="predictions in memory have no column 'length'"):
        library.evaluate(run.predictions("test"), slice="length")
