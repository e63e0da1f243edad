"""The run report in a real browser: its numbers are Python's, its controls work, its texts stay texts."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from calmix.calibration.files.run_predictions import predictions_of_run
from calmix.calibration.metrics.binning import equal_mass_sums, reliability_bins
from calmix.calibration.metrics.errors import expected_calibration_error
from calmix.calibration.metrics.scores import log_loss_rows
from calmix.calibration.metrics.selective import guaranteed_threshold
from calmix.calibration.uncertainty.noise_band import noise_band
from calmix.io.spreadsheet import safe_cell
from calmix.report.pages.page import Facts, Page, Section, render, shown
from calmix.report.run.explorer import MOST_ROWS, explorer_data
from calmix.report.run.run_report import explorer, write_run_report
from opened_page import OpenedPage

HOSTILE = (
    "<script>window.hacked = 1</script>",
    "</script><img src=x onerror='window.hacked = 2'>",
    "=HYPERLINK(\"http://example.org\", 'click')",
    "right \u202eto left",
    'a "quoted", text\nof two lines',
)
SPLITS = ("validation", "test", "news")


class Driven(OpenedPage):
    """The report of a run as a reader uses it."""

    def set(self, **changes):
        """State that is not a matter of one control, such as an exact temperature."""
        self.script("window.explorer.set(arguments[0])", changes)
        return self.script("return window.explorer.values()")

    def move(self, element, value):
        """A slider or a field, as a hand would: an input event, then the next frame."""
        return self.browser.execute_async_script(
            """const [id, value, done] = arguments, field = document.getElementById(id);
            field.value = value; field.dispatchEvent(new Event("input"));
            requestAnimationFrame(() => requestAnimationFrame(() => done(window.explorer.values())));""",
            element,
            str(value),
        )

    def click(self, selector):
        return self.browser.execute_async_script(
            """const [selector, done] = arguments;
            document.querySelector(selector).dispatchEvent(new MouseEvent("click", { bubbles: true }));
            requestAnimationFrame(() => requestAnimationFrame(() => done(window.explorer.values())));""",
            selector,
        )

    def choose_split(self, name):
        place = SPLITS.index(name)
        self.script("document.querySelectorAll('input[name=split]')[arguments[0]].click()", place)
        return self.script("window.explorer.set({ chosen: null }); return window.explorer.values()")

    def download(self, name, button):
        return self.downloaded(name, lambda: self.click(button)).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(finished, browser):
    sizes = finished.metrics()["sizes"]
    rows = {split: [HOSTILE[row % len(HOSTILE)] for row in range(sizes[split])] for split in SPLITS}
    return Driven(browser, write_run_report(finished, rows=rows))


@pytest.fixture(autouse=True)
def as_opened(request):
    if "page" in request.fixturenames:
        page = request.getfixturevalue("page")
        page.choose_split("test")
        page.set(mass=False, bins=15, target=0.95, threshold=None, temperature=1.75)


def expected_noise(bins):
    """The mean over all outcomes of |right - n p| / N, written from the binomial law."""
    from scipy.stats import binom

    total = 0.0
    for rows, share in zip(bins.count, bins.mean_confidence, strict=True):
        if rows:
            outcomes = np.arange(rows + 1)
            total += float((binom.pmf(outcomes, rows, share) * np.abs(outcomes - rows * share)).sum())
    return total / bins.count.sum()


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize(("temperature", "bins"), [(1.0, 15), (1.75, 15), (0.37, 7), (4.2, 50)])
def test_the_numbers_after_the_slider_are_those_of_python(finished, page, split, temperature, bins):
    page.choose_split(split)
    found = page.set(temperature=temperature, bins=bins, mass=False, threshold=None)
    scaled = predictions_of_run(finished, split).with_temperature(temperature)
    confidence, correct = scaled.confidence(), scaled.correct()
    assert found["nll"] == pytest.approx(float(log_loss_rows(scaled).mean()), abs=1e-12)
    ece = expected_calibration_error(confidence, correct, bins=bins)
    assert found["ece"] == pytest.approx(ece, abs=1e-12)
    assert found["confidence"] == pytest.approx(confidence.mean(), abs=1e-12)
    expected = reliability_bins(confidence, correct, bins=bins)
    filled = expected.count > 0
    low, high = noise_band(expected.count, expected.mean_confidence)
    drawn = page.script("return window.explorer.bins()")
    for key, values in {
        "rows": expected.count, "accuracy": expected.accuracy, "confidence": expected.mean_confidence,
        "accuracyLow": expected.accuracy_low, "accuracyHigh": expected.accuracy_high,
        "noiseLow": low, "noiseHigh": high,
    }.items():  # fmt: skip
        np.testing.assert_allclose([one[key] for one in drawn], values[filled], atol=1e-9)
    assert found["noise"] == pytest.approx(expected_noise(expected), abs=1e-9)
    shown_values = page.text("readouts")
    assert f"NLL{log_loss_rows(scaled).mean():.4f}" in shown_values
    assert f"ECE{100 * ece:.2f} %" in shown_values


@pytest.mark.parametrize("bins", [5, 15])
def test_bins_of_equal_mass_are_those_of_python(finished, page, bins):
    found = page.set(mass=True, bins=bins)
    scaled = predictions_of_run(finished, "test").with_temperature(1.75)
    sums = equal_mass_sums(scaled.confidence(), scaled.correct(), bins=bins)
    drawn = page.script("return window.explorer.bins()")
    np.testing.assert_allclose([one["rows"] for one in drawn], sums.rows[sums.rows > 0])
    expected = np.abs(sums.residual).sum() / sums.total
    assert found["ece"] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("target", [0.95, 0.9, 0.7, 0.55])
def test_the_certified_threshold_is_that_of_predict(finished, page, target):
    found = page.move("target", 100 * target)
    validation = predictions_of_run(finished, "validation").with_temperature(1.75)
    expected = guaranteed_threshold(validation.confidence(), validation.correct(), target)
    assert (found["certified"] is None) == (expected.threshold is None)
    test = predictions_of_run(finished, "test").with_temperature(1.75)
    threshold = 0.0
    if expected.threshold is not None:
        threshold = expected.threshold
        assert found["certified"]["threshold"] == pytest.approx(threshold, abs=1e-14)
        assert found["certified"]["coverage"] == expected.coverage
        assert found["certified"]["bound"] == pytest.approx(expected.accuracy_lower_bound, abs=1e-9)
    accepted = test.confidence() >= threshold
    assert found["accepted"] == {"rows": accepted.sum(), "wrong": (accepted & ~test.correct()).sum()}


def test_sliders_fields_and_buttons_change_what_is_shown(finished, page):
    assert page.move("bins", 30)["ece"] != page.move("bins", 5)["ece"]
    assert page.text("bins-shown") == "5"
    assert page.move("temperature", 0)["temperature"] == 1
    assert page.text("temperature-shown") == "1.000"
    assert page.click("#fitted")["temperature"] == finished.metrics()["temperature"]
    assert page.click("#raw")["temperature"] == 1
    found = page.move("threshold", 0.8)
    test = predictions_of_run(finished, "test")
    assert found["accepted"]["rows"] == (test.confidence() >= 0.8).sum()
    assert page.text("threshold-shown") == "0.8000"
    page.script("document.querySelectorAll('input[name=mass]')[1].click()")
    page.wait(lambda: page.script("return window.explorer.state.mass"))


def test_a_bin_is_found_by_the_keyboard_and_its_rows_are_downloaded(finished, page):
    from selenium.webdriver.common.keys import Keys

    page.script("document.querySelector('.bin').focus()")
    keys = page.browser.switch_to.active_element
    keys.send_keys(Keys.END)
    assert not page.script("return document.querySelector('.tip').hidden")
    page.browser.switch_to.active_element.send_keys(Keys.ENTER)
    text = page.download("rows.csv", "#download")
    scaled = predictions_of_run(finished, "test").with_temperature(1.75)
    confidence = scaled.confidence()
    inside = np.flatnonzero(confidence > 14 / 15)
    lines = list(csv.DictReader(text.splitlines(keepends=True)))
    assert {line["row_id"] for line in lines} == set(scaled.ids[inside].tolist())
    for line in lines:
        row = int(line["row_id"].removeprefix("test-")) - 1
        assert line["text"] == safe_cell(HOSTILE[row % len(HOSTILE)])
        assert float(line["confidence"]) == pytest.approx(confidence[row], abs=1e-15)
        assert line["label"] == scaled.class_names[scaled.labels[row]]
        assert line["predicted_label"] == scaled.class_names[scaled.predicted()[row]]


def test_a_confusion_shows_its_rows_and_the_classes_add_up(finished, page):
    test = predictions_of_run(finished, "test")
    page.click("#confusion tbody tr:nth-child(1) td:nth-child(3) button")
    expected = int(((test.labels == 0) & (test.predicted() == 1)).sum())
    assert page.text("rows-note").startswith(f"{expected} rows")
    table = page.script(
        """return [...document.querySelectorAll('#class-table tbody tr')]
        .map((row) => [...row.cells].map((cell) => cell.textContent))"""
    )
    assert [row[0] for row in table] == list(test.class_names)
    assert [int(row[1]) for row in table] == np.bincount(test.labels).tolist()
    assert [int(row[2]) for row in table] == np.bincount(test.predicted()).tolist()
    page.click("#mistakes")
    assert page.text("rows-title") == "Confident mistakes"


def test_hostile_texts_are_shown_and_run_nowhere(page):
    page.set(chosen=None)
    texts = page.script("return [...document.querySelectorAll('#rows .text')].map((one) => one.textContent)")
    assert set(texts) == {shown(text) for text in HOSTILE}
    assert page.script("return window.hacked") is None
    assert page.script("return document.querySelectorAll('#rows img, #rows script, #rows b').length") == 0
    assert page.errors() == []


def test_a_drawing_is_saved_with_its_style(page):
    text = page.download("reliability-test.svg", ".answer figure .save")
    assert text.startswith("<svg")
    assert "var(--" not in text
    assert "fill:rgb(" in text.replace("fill: rgb", "fill:rgb")


def test_a_large_page_holds_cells_and_answers_at_once(browser, predictions_of, tmp_path):
    predictions = predictions_of(MOST_ROWS + 10_000, seed=5, split="test")
    scaled = predictions.with_temperature(1.75)
    metrics = {
        "temperature": 1.75, "ece_bins": 15, "ece_edges": "right",
        "splits": {"test": {"calibrated": {}}},
    }  # fmt: skip
    held = explorer_data({"test": predictions}, metrics)
    assert held["splits"][0]["kind"] == "cells"
    widget = explorer({"test": predictions}, metrics, None)
    html = render(Page("t", "l", Facts(()), (Section("s", (widget,)),)))
    assert len(html) < 2_500_000
    file = tmp_path / "large.html"
    file.write_text(html, encoding="utf-8")
    page = Driven(browser, file)
    found = page.script("return window.explorer.values()")
    assert found["nll"] == pytest.approx(float(log_loss_rows(scaled).mean()), abs=1e-12)
    assert found["accuracy"] == pytest.approx(scaled.correct().mean(), abs=1e-12)
    assert found["ece"] == pytest.approx(
        expected_calibration_error(scaled.confidence(), scaled.correct()), abs=1e-3
    )
    wrong = ~scaled.correct()
    surest = scaled.ids[wrong][np.argsort(-scaled.confidence()[wrong], kind="stable")[0]]
    first = page.script("return document.querySelector('#rows li .head').textContent")
    assert first.startswith(f"{surest} ·")
