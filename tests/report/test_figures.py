"""Figures by matplotlib: they draw the numbers of Python, and are written as SVG and PDF."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest

from calmix.calibration.files.prediction_files import write_predictions
from calmix.calibration.integrations.reliability_figure import reliability_figure
from calmix.calibration.metrics.binning import reliability_bins
from calmix.cli.app import main
from calmix.dynamics.datamap import DataMap
from calmix.dynamics.dynamics_file import datamap_table
from calmix.report.figures.comparison_figures import comparison_figures, curves_figure, effects_figure
from calmix.report.figures.files import check_figures, write_figures
from calmix.report.figures.map_figures import map_figure
from calmix.report.figures.ood_figures import auroc_figure, confidence_figure, ood_figures
from calmix.report.figures.risk_coverage_figure import risk_coverage_figure
from calmix.user_error import UserError
from calmix.workflows.evaluate import evaluate
from calmix.workflows.run import Run

# Its import lists the fonts of the machine, the first time with another process.
pytest.importorskip("matplotlib.font_manager")


def test_marks_and_histogram_are_the_bins(predictions_of):
    predictions = predictions_of(500, seed=1)
    upper, lower = reliability_figure(predictions, bins=10).axes
    expected = reliability_bins(predictions.confidence(), predictions.correct(), bins=10)
    filled = expected.count > 0
    points = np.concatenate([one.lines[0].get_xydata() for one in upper.containers if hasattr(one, "lines")])
    points = points[np.argsort(points[:, 0])]
    np.testing.assert_allclose(points[:, 0], expected.mean_confidence[filled])
    np.testing.assert_allclose(points[:, 1], expected.accuracy[filled])
    heights = [bar.get_height() for bar in lower.patches]
    np.testing.assert_allclose(heights, expected.count[filled] / 500)


def test_the_curve_ends_at_the_error_rate(predictions_of):
    predictions = predictions_of(200, seed=2)
    curve = risk_coverage_figure(predictions).axes[0].lines[0].get_xydata()
    assert curve[-1].tolist() == [1.0, pytest.approx(1 - predictions.correct().mean())]


def names_of(files):
    assert all(path.read_bytes().startswith((b"<?xml", b"%PDF")) for path in files)
    assert {path.suffix for path in files} == {".svg", ".pdf"}
    return {path.stem for path in files}


def test_a_run_writes_its_figures_and_the_same_bytes_again(finished, tmp_path):
    run = Run.open(finished.path)
    written = run.write_figures(tmp_path / "figures")
    stages = {f"reliability-{split}-{stage}" for split in finished.splits() for stage in ("raw", "scaled")}
    curves = {f"risk-coverage-{split}" for split in finished.splits()}
    assert names_of(written) == stages | curves | {"training"}
    assert run.plot_reliability("news", calibrated=False).axes[0].get_title() == "news, raw"
    again = run.write_figures(tmp_path / "again")
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in written]


def test_a_file_in_the_way_is_refused_before_anything_is_trained(tmp_path):
    (tmp_path / "figures").write_text("")
    with pytest.raises(UserError, match="in the way"):
        check_figures(tmp_path / "figures")


def test_the_effects_are_the_differences_with_their_intervals(compared):
    figure = effects_figure(compared, "test")
    accuracy, nll, _ = figure.axes
    assert accuracy.get_xlabel() == "Δ Accuracy % better →"
    assert [tick.get_text() for tick in accuracy.get_yticklabels()] == [compared["arms"][1]["name"]]
    lines = [line for line in nll.lines if len(line.get_xdata()) == 2 and line.get_linestyle() == "-"]
    drawn = [line.get_xdata() for line in lines]
    wanted = [
        (one["low"], one["high"])
        for one in compared["differences"]
        if (one["split"], one["metric"]) == ("test", "nll") and one["stage"] == one["reference_stage"]
    ]
    np.testing.assert_allclose(drawn, wanted)
    marks = [line.get_markerfacecolor() for line in accuracy.lines if line.get_marker() == "o"]
    assert marks[:2] == ["white", "white"], "their intervals hold 0"
    with pytest.raises(UserError, match="choose among: test, validation"):
        effects_figure(compared, "tset")


def test_curves_of_the_methods_are_those_of_the_page(compared):
    curves = {"plain": {"test": {"calibrated": [[0.5, 0.4, 10], [0.9, 0.8, 30]]}}}
    axes = curves_figure(compared, curves, "test", "calibrated").axes[0]
    assert axes.lines[1].get_xydata().tolist() == [[0.5, 0.4], [0.9, 0.8]]
    assert [one.get_text() for one in axes.get_legend().get_texts()] == ["plain"]
    assert set(comparison_figures(compared)) == {"effects-test", "effects-validation"}, "without the runs"
    with pytest.raises(UserError, match="are not there"):
        curves_figure(compared, curves, "test", "uncalibrated")


def test_an_evaluation_draws_every_set_of_predictions(predictions_of, tmp_path):
    files = [tmp_path / name / "answers.parquet" for name in ("first", "second")]
    drawn = [predictions_of(300, seed=seed) for seed in (1, 2)]
    for file, predictions in zip(files, drawn, strict=True):
        file.parent.mkdir()
        write_predictions(file, predictions)
    found = evaluate(*files, bins=8, intervals=False)
    names = names_of(found.write_figures(tmp_path / "figures"))
    one, two = "answers.parquet", "answers.parquet-2"
    assert names == {f"{kind}-{name}" for kind in ("reliability", "risk-coverage") for name in (one, two)}
    heights = [bar.get_height() for bar in found.plot_reliability(1).axes[1].patches]
    expected = reliability_bins(drawn[1].confidence(), drawn[1].correct(), bins=8).count
    np.testing.assert_allclose(heights, expected[expected > 0] / 300)
    with pytest.raises(UserError, match="place 2"):
        found.plot_reliability(2)
    assert pickle.loads(pickle.dumps(found)).as_dict() == found.as_dict()


def test_the_command_line_writes_them(predictions_of, tmp_path, capsys):
    file = tmp_path / "answers.parquet"
    write_predictions(file, predictions_of(120, seed=3))
    with pytest.raises(SystemExit) as ended:
        main(["evaluate", str(file), "--json", "--figures", str(tmp_path / "figures")])
    assert not ended.value.code
    assert json.loads(capsys.readouterr().out)["files"][0]["n"] == 120
    assert (tmp_path / "figures" / "reliability-answers.parquet.svg").is_file()
    with pytest.raises(SystemExit) as ended:
        main(["evaluate", str(file), "--figures", str(file)])
    assert ended.value.code == 2
    assert "a file is in the way of the figures" in capsys.readouterr().err


def test_the_histograms_are_those_of_the_detection(detected):
    axes = confidence_figure(detected).axes[0]
    for patch, name in zip(axes.patches, ("test", "letters"), strict=True):
        values, edges, _ = patch.get_data()
        assert values.tolist() == detected["histograms"]["shares"][name]["calibrated"]
        assert edges.tolist() == detected["histograms"]["edges"]
    assert set(ood_figures(detected)) == {"confidence-uncalibrated", "confidence-calibrated"}


def test_auroc_of_the_methods_with_their_spread(detected_by_method):
    axes = auroc_figure(detected_by_method, "letters").axes[0]
    points = [one.lines[0].get_xydata() for one in axes.containers]
    assert [point[:, 0].tolist() for point in points] == [[90.0, 90.0]] * 3
    bars = axes.containers[0].lines[2][0].get_segments()
    np.testing.assert_allclose([bar[:, 0] for bar in bars], [[88, 92], [85, 93]])


def test_the_map_draws_every_row_in_its_region(dynamics_of, tmp_path):
    table = datamap_table(DataMap.from_dynamics(dynamics_of(90, seed=1)))
    axes = map_figure(table).axes[0]
    drawn = np.concatenate([one.get_offsets() for one in axes.collections])
    expected = np.column_stack([table["variability"].to_numpy(), table["confidence"].to_numpy()])
    np.testing.assert_allclose(np.sort(drawn, axis=0), np.sort(expected, axis=0))
    sizes = [len(one.get_offsets()) for one in axes.collections]
    regions = table["region"].to_pylist()
    assert sizes == [regions.count(name) for name in ("easy", "ambiguous", "hard")]


@pytest.mark.parametrize("name", ["$\\frac{1}{$", "_hidden", "a\x1b[31m\u202eb", "<b>&"])
def test_hostile_names_are_drawn_as_they_are(predictions_of, compared, name, tmp_path):
    compared["arms"][1]["name"] = name
    for record in (*compared["summary"], *compared["differences"]):
        if record["arm"] != "plain":
            record["arm"] = name
    curves = {name: {"test": {"calibrated": [[0.5, 0.4, 10]]}}}
    figures = {
        "a": reliability_figure(predictions_of(50, seed=1), title=name),
        "b": effects_figure(compared, "test"),
        "c": curves_figure(compared, curves, "test", "calibrated"),
    }
    assert len(figures["c"].axes[0].get_legend().get_texts()) == 1
    written = write_figures(figures, tmp_path)
    assert not any(mark in file.read_bytes() for file in written for mark in (b"\x1b[", b"<b>"))
