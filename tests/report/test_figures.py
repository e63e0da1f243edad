"""Figures by matplotlib: they draw the bins of Python, and are written as SVG and PDF."""

from __future__ import annotations

import numpy as np
import pytest

from calmix.calibration.integrations.reliability_figure import reliability_figure
from calmix.calibration.metrics.binning import reliability_bins
from calmix.report.figures import check_figures, risk_coverage_figure
from calmix.user_error import UserError
from calmix.workflows.run import Run

pytest.importorskip("matplotlib")


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


def test_a_run_writes_its_figures(finished, tmp_path):
    run = Run.open(finished.path)
    written = run.write_figures(tmp_path / "figures")
    stages = {f"reliability-{split}-{stage}" for split in finished.splits() for stage in ("raw", "scaled")}
    curves = {f"risk-coverage-{split}" for split in finished.splits()}
    assert {path.name for path in written} == {
        f"{name}.{suffix}" for name in stages | curves | {"training"} for suffix in ("svg", "pdf")
    }
    assert all(path.read_bytes().startswith((b"<?xml", b"%PDF")) for path in written)
    assert run.plot_reliability("news", calibrated=False).axes[0].get_title() == "news, raw"


def test_a_file_in_the_way_is_refused_before_anything_is_trained(tmp_path):
    (tmp_path / "figures").write_text("")
    with pytest.raises(UserError, match="in the way"):
        check_figures(tmp_path / "figures")
