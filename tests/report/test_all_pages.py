"""Every page that calmix writes, in a real browser: accessible, no wider than a phone, self-contained.

The controls of the run's page are driven in `test_explorer`, those of the map in `test_datamap`, those of the
comparison here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from calmix.calibration.files.run_predictions import predictions_of_run
from calmix.calibration.metrics.binning import reliability_bins
from calmix.dynamics.datamap import DataMap
from calmix.dynamics.dynamics_file import datamap_table
from calmix.experiments.cell import Cell
from calmix.experiments.comparison_plan import Plan
from calmix.experiments.grid import Arm
from calmix.report.comparison.comparison_report import write_comparison_report
from calmix.report.maps.datamap import write_datamap_html
from calmix.report.ood.ood_comparison import write_ood_comparison
from calmix.report.ood.ood_report import write_ood_report
from calmix.report.reproductions.outcome_report import write_reproduction_report
from calmix.report.run.run_report import write_run_report
from calmix.reproduction.outcome import find_outcomes, preset_of
from calmix.training.pipeline.run_store import RunStore
from calmix.workflows.calibrate import calibrate
from experiments.drawn_runs import noisy, write_run
from opened_page import OpenedPage
from recorded_results import NASTY, comparison_record, detection_record, ood_comparison_record

REPRODUCTIONS = Path(__file__).parents[2] / "results" / "reproduction"
HOSTILE = "<img src=x onerror='window.hacked = 1'>\u202e=1+1\x1b[31m"
ARMS = {"plain": "circle", NASTY: "square"}


@dataclass(frozen=True)
class Written:
    """The pages, each made once and when it is asked for."""

    directory: Path
    finished: object
    predictions_of: Callable
    dynamics_of: Callable

    def page(self, name: str) -> Path:
        file = self.directory / f"{name}.html"
        return file if file.is_file() else getattr(self, name)(file)

    def run(self, file):
        rows = {
            split: [HOSTILE] * self.finished.metrics()["sizes"][split] for split in ("validation", "test")
        }
        write_run_report(self.finished, rows=rows).rename(file)
        return file

    def compared(self) -> Path:
        """A comparison of two methods and two seeds, with the predictions of its runs."""
        directory = self.directory / "compared"
        if not directory.is_dir():
            cells = [
                Cell(Arm(name, "erl"), seed, f"run-{place}-{seed}")
                for place, name in enumerate(ARMS)
                for seed in (0, 1)
            ]
            for cell in cells:
                write_run(RunStore(directory / "runs"), cell, noisy(0.3 * len(cell.arm.name) / 10))
            Plan({}, [cells[0].arm, cells[2].arm], cells).write(directory)
        return directory

    def comparison(self, file):
        return write_comparison_report({**comparison_record(), "directory": str(self.compared())}, file)

    def datamap(self, file):
        table = datamap_table(DataMap.from_dynamics(self.dynamics_of(120, seed=3)))
        write_datamap_html(file, table, [HOSTILE] * 120, title=HOSTILE)
        return file

    def ood(self, file):
        return write_ood_report(detection_record("test", "<b>letters</b>"), file)

    def ood_comparison(self, file):
        return write_ood_comparison(ood_comparison_record(), file)

    def calibration(self, file):
        given = [self.predictions_of(400, seed=seed) for seed in (1, 2)]
        found = calibrate(given[0], fit_on=given[1], output=self.directory / "calibrated")
        return (found.path / "report.html").rename(file)

    def reproduction(self, file):
        outcome = find_outcomes(REPRODUCTIONS)[0]
        return write_reproduction_report(preset_of(outcome, REPRODUCTIONS), outcome, file)


PAGES = ("run", "comparison", "datamap", "ood", "ood_comparison", "calibration", "reproduction")


@pytest.fixture(scope="module")
def written(finished, predictions_of, dynamics_of, tmp_path_factory):
    return Written(tmp_path_factory.mktemp("pages"), finished, predictions_of, dynamics_of)


@pytest.fixture(scope="module")
def opened(written, browser):
    return lambda name: OpenedPage(browser, written.page(name))


@pytest.fixture(scope="module", params=PAGES)
def page(request, opened):
    return opened(request.param)


class TestEveryPage:
    @pytest.mark.parametrize("theme", ["light", "dark"])
    @pytest.mark.parametrize("width", [390, 1400])
    def test_it_is_accessible_and_never_wider_than_the_window(self, page, width, theme):
        with page.seen(width=width, theme=theme):
            page.script("for (const one of document.querySelectorAll('details')) one.open = true")
            assert page.script("return document.documentElement.scrollWidth - innerWidth") <= 0
            assert page.barriers() == []

    def test_it_asks_no_host_runs_no_text_and_complains_about_nothing(self, page):
        assert page.script("return performance.getEntriesByType('resource').map((one) => one.name)") == []
        assert page.script("return window.hacked ?? null") is None
        strange = "return document.querySelectorAll('main img, main iframe').length"
        assert page.script(strange) == 0
        assert page.errors() == []

    def test_every_drawing_is_saved_as_a_picture_of_its_own(self, page):
        names = page.script(
            "return [...document.querySelectorAll('figure.chart')].map((one) => one.dataset.name)"
        )
        for place in range(min(len(names), 2)):
            press = "document.querySelectorAll('figure.chart > .save')[arguments[0]].click()"
            file = page.downloaded(
                f"{names[place]}.svg", lambda press=press, place=place: page.script(press, place)
            )
            text = file.read_text(encoding="utf-8")
            assert ElementTree.fromstring(text).tag.endswith("svg")
            assert "var(--" not in text


class TestComparison:
    @pytest.fixture(scope="class")
    def page(self, opened):
        return opened("comparison")

    def points(self, written, arm, split, *, calibrated):
        """Confidence, accuracy and rows of the bins of all seeds of a method, by Python."""
        runs = [RunStore(written.compared() / "runs").run(f"run-{list(ARMS).index(arm)}-{s}") for s in (0, 1)]
        given = [predictions_of_run(run, split, calibrated=calibrated) for run in runs]
        confidence = np.concatenate([one.confidence() for one in given])
        correct = np.concatenate([one.correct() for one in given])
        bins = reliability_bins(confidence, correct, bins=10)
        filled = bins.count > 0
        return np.column_stack([bins.mean_confidence, bins.accuracy, bins.count])[filled]

    def drawn(self, page):
        """By method: the places of its marks, as shares of the drawing area, and what they say."""
        found = page.script(
            """return [...document.querySelectorAll("#overlay svg > svg")].map((one) =>
            [one.getAttribute("x"), one.getAttribute("y"), one.querySelector("title").textContent])"""
        )
        marks: dict[str, list[tuple[float, float, str]]] = {}
        for x, y, words in found:
            name, said = words.rsplit(": ", 1)
            marks.setdefault(name, []).append((float(x[:-1]) / 100, 1 - float(y[:-1]) / 100, said))
        return marks

    @pytest.mark.parametrize("split", ["test", "validation"])
    @pytest.mark.parametrize("stage", ["calibrated", "uncalibrated"])
    def test_the_curves_are_those_of_python(self, page, written, split, stage):
        for name, value in (("overlay-split", split), ("overlay-stage", stage)):
            page.script("document.querySelector(arguments[0]).click()", f"input[name={name}][value={value}]")
        marks = self.drawn(page)
        expected = {arm: self.points(written, arm, split, calibrated=stage == "calibrated") for arm in ARMS}
        assert list(marks) == list(ARMS)
        least = min(points[:, :2].min() for points in expected.values())
        start = np.floor(10 * min(least, 0.95)) / 10
        for arm, points in expected.items():
            places = start + (1 - start) * np.array([mark[:2] for mark in marks[arm]])
            np.testing.assert_allclose(places, points[:, :2], atol=1e-4)  # percentages of four digits
            assert [mark[2] for mark in marks[arm]] == [
                f"confidence {100 * sure:.1f} %, accuracy {100 * right:.1f} %, {rows:,.0f} rows"
                for sure, right, rows in points
            ]

    def test_methods_are_switched_off_and_on(self, page):
        boxes = "document.querySelectorAll('#overlay-arms input')"
        page.script(f"{boxes}[0].click()")
        assert list(self.drawn(page)) == [NASTY]
        label = page.script("return document.querySelector('#overlay svg').getAttribute('aria-label')")
        assert "plain" not in label
        page.script(f"{boxes}[0].click()")
        assert list(self.drawn(page)) == list(ARMS)

    def test_a_heading_sorts_its_table_up_then_down(self, page):
        table = "document.querySelector('table.sortable')"
        names = f"return [...{table}.tBodies].map((body) => body.rows[0].cells[0].textContent.trim())"
        heads = page.script(f"return [...{table}.tHead.rows[0].cells].map((one) => one.textContent)")
        place = heads.index("NLL + TS")  # 0.4 of plain, 0.2 of the other
        for expected, direction in (([NASTY, "plain"], "ascending"), (["plain", NASTY], "descending")):
            page.script(f"{table}.tHead.rows[0].cells[{place}].querySelector('button').click()")
            assert page.script(names) == expected
            assert page.script(f"return {table}.tHead.rows[0].cells[{place}].ariaSort") == direction
        page.script(f"{table}.tHead.rows[0].cells[0].querySelector('button').click()")
        assert page.script(names) == sorted(ARMS)

    def test_the_first_screen_is_an_answer_a_picture_and_a_step(self, page):
        words = page.script("return document.querySelector('.answer .lead').textContent")
        assert words == "mix lowers NLL by 0.2."
        first = ".answer .forest tbody tr:first-child .effect"
        cells = page.script(
            "return [...document.querySelectorAll(arguments[0])].map((one) => one.textContent)", first
        )
        assert cells[2:4] == ["−0.0300 [−0.0500, −0.0100]*"] * 2, "NLL, raw and temperature-scaled"
        assert "--seeds 0,1" in page.script("return document.querySelector('.steps').textContent")
