"""Means, deviations and marks of a comparison with known winners."""

import csv

import numpy as np
import pytest

from calmix.calibration.files.prediction_files import read_predictions
from calmix.calibration.metrics.scores import log_loss_rows
from calmix.experiments.comparison import gather
from calmix.experiments.significance import with_significance
from calmix.experiments.summary import mark_better, summarise, write_summary
from experiments.drawn_runs import noisy, write_comparison


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    draws = {"plain": noisy(1.0), "same": noisy(1.0), "better": noisy(1.0, other=0.3), "bad": noisy(3.0)}
    return gather(write_comparison(tmp_path_factory.mktemp("comparison"), draws))


def test_mean_and_deviation_are_those_of_the_stored_predictions(results):
    directory = results.config["output"]
    nll = [
        log_loss_rows(read_predictions(f"{directory}/runs/bad-{seed}/predictions/test.parquet")).mean()
        for seed in range(5)
    ]
    record = next(
        r for r in summarise(results) if (r["split"], r["arm"], r["stage"]) == ("test", "bad", "uncalibrated")
    )
    assert record["nll_mean"] == pytest.approx(np.mean(nll), abs=1e-12)
    assert record["nll_std"] == pytest.approx(np.std(nll, ddof=1), abs=1e-12)
    assert record["seeds"] == 5


def marked(results):
    summary = summarise(results)
    mark_better(summary, with_significance(results))
    return summary


def test_only_what_is_significantly_better_than_plain_and_temperature_is_marked(results):
    found = {(r["split"], r["arm"], r["stage"]) for r in marked(results) if "nll" in r["better"]}
    assert found == {("other", "better", "calibrated")}
    assert not any(r["better"] for r in marked(results) if r["arm"] == "bad"), "wide is not good"


def test_where_nothing_differs_nothing_is_marked(tmp_path):
    # Logits of a perfect network: temperature scaling has nothing to do either.
    def perfect(logits, generator, split):
        return logits

    found = marked(gather(write_comparison(tmp_path, {"plain": perfect, "twin": perfect})))
    assert [record["better"] for record in found if record["split"] == "test"] == [[]] * 4


def test_the_csv_holds_fractions_and_one_line_per_split_arm_and_stage(results, tmp_path):
    summary = marked(results)
    lines = list(csv.DictReader(write_summary(summary, results.metrics(), tmp_path / "summary.csv").open()))
    assert len(lines) == 3 * 4 * 2
    for line, record in zip(lines, summary, strict=True):
        assert float(line["accuracy_mean"]) == record["accuracy_mean"] <= 1
        assert line["nll_better"] == str("nll" in record["better"])
    assert not [name for name in lines[0] if "_low" in name or "seconds" in name]
