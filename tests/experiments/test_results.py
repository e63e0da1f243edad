"""The two files of a comparison hold all that is needed to show it again."""

import shutil

import pytest

from calmix.calibration.calibrators.temperature import TemperatureScaling
from calmix.calibration.evaluation import evaluate
from calmix.calibration.files.prediction_files import read_predictions
from calmix.calibration.files.run_predictions import predictions_of_run
from calmix.calibration.fit_uncertainty import FitUncertainty
from calmix.experiments.cell import Cell
from calmix.experiments.comparison import gather, load, report_data
from calmix.experiments.comparison_plan import Plan
from calmix.experiments.grid import Arm
from calmix.experiments.results import Results, collect
from calmix.training.pipeline.run_store import RunStore
from calmix.user_error import UserError
from experiments.drawn_runs import noisy, write_comparison


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    directory = tmp_path_factory.mktemp("comparison")
    write_comparison(directory, {"plain": noisy(1.0), "mix": noisy(0.5)}, seeds=(0, 1, 2))
    plan = Plan.read(directory)
    lost = Arm("lost", "lost", options={"alpha": 0.4})
    Plan(plan.config, [*plan.arms, lost], [*plan.cells, Cell(lost, 0, "lost-0")]).write(directory)
    RunStore(directory / "runs").record_failure("lost-0", ValueError("out of\nluck"))
    return directory


def test_the_files_alone_give_the_same_results(directory, tmp_path):
    results = gather(directory)
    results.write(tmp_path)
    again = load(tmp_path)
    assert again == results
    assert (tmp_path / "runs.parquet").stat().st_size + (
        tmp_path / "differences.parquet"
    ).stat().st_size < 200_000
    first, second = (report_data(results, directory), report_data(again, tmp_path))
    assert first["summary"] == second["summary"]
    assert first["recommendation"]["sentence"] == second["recommendation"]["sentence"]
    assert second["recommendation"]["model"] is None, "a model that is not there has no path"


def test_stored_results_outlive_their_runs(tmp_path):
    """Runs are large, and may be deleted: showing a comparison again does not shorten what it has found."""
    made = write_comparison(tmp_path / "made", {"plain": noisy(1.0), "mix": noisy(0.5)}, seeds=(0, 1))
    before = load(made)
    shutil.rmtree(made / "runs" / "mix-1")
    assert load(made) == before
    assert Results.read(made) == before
    shutil.rmtree(made / "runs")
    assert load(made) == before


def test_a_metric_that_only_some_runs_have_is_kept(directory, tmp_path):
    results = gather(directory)
    results.runs[-1]["rare"] = 0.25
    results.write(tmp_path)
    assert Results.read(tmp_path) == results


def test_a_failed_cell_is_kept_with_its_reason(directory):
    assert gather(directory).failures == [
        {
            "arm": "lost",
            "seed": 0,
            "run": "lost-0",
            "reason": "ValueError: out of luck",
            "is_user_error": False,
        }
    ]


def test_other_bins_are_measured_anew_from_the_predictions(directory):
    cells = [cell for cell in Plan.read(directory).cells if cell.fingerprint == "mix-1"]
    records = collect(RunStore(directory / "runs"), cells, bins=5, closed="left")
    wanted = next(
        r for r in records if (r["run"], r["split"], r["stage"]) == ("mix-1", "test", "uncalibrated")
    )
    predictions = read_predictions(directory / "runs" / "mix-1" / "predictions" / "test.parquet")
    assert wanted["ece"] == evaluate(predictions, bins=5, closed="left", intervals=False)["ece"]
    assert wanted["ece"] != evaluate(predictions, intervals=False)["ece"]


def test_intervals_with_other_bins_include_the_fit_as_those_of_the_run_do(directory):
    cells = [cell for cell in Plan.read(directory).cells if cell.fingerprint == "mix-1"]
    store = RunStore(directory / "runs")
    records = {(r["split"], r["stage"]): r for r in collect(store, cells, bins=(15, 5), closed="right")}
    raw = {split: predictions_of_run(store.run("mix-1"), split) for split in ("validation", "test")}
    scaling = TemperatureScaling().fit(raw["validation"])
    alone = evaluate(raw["test"].with_temperature(scaling.temperature_), bins=(15, 5))
    wider = FitUncertainty.of(scaling, raw["validation"]).widened(alone, raw["test"], bins=(15, 5))
    found = records["test", "calibrated"]
    assert [found["ece_5_bins_low"], found["ece_5_bins_high"]] == pytest.approx(
        wider["ece_5_bins_ci"], rel=1e-6
    )
    assert [found["nll_low"], found["nll_high"]] == pytest.approx(wider["nll_ci"], rel=1e-6)
    assert found["nll_high"] > alone["nll_ci"][1]
    in_sample = evaluate(raw["validation"].with_temperature(scaling.temperature_), bins=(15, 5))
    assert records["validation", "calibrated"]["nll_high"] == pytest.approx(in_sample["nll_ci"][1])


def test_a_directory_without_a_comparison_is_refused(tmp_path, directory):
    with pytest.raises(UserError, match="no comparison in this directory"):
        Results.read(tmp_path)
    gather(directory).write(tmp_path)
    (tmp_path / "differences.parquet").unlink()
    with pytest.raises(UserError, match=r"differences\.parquet is missing"):
        Results.read(tmp_path)
