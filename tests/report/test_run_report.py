from __future__ import annotations

import base64
import re

import numpy as np
import pytest
import yaml

from calmix.calibration.files.run_predictions import predictions_of_run
from calmix.io.run_directory import write_json
from calmix.report.run.run_report import write_run_report
from calmix.report.run.verdict import sentence, split_verdict

SPLITS = ("validation", "test", "news")


@pytest.fixture(scope="module")
def html(finished) -> str:
    ids = ["<i>train</i>-1", *(f"train-{row}" for row in range(2, 121))]
    texts = {row_id: f"</td><script>alert({row_id!r})</script>" for row_id in ids}
    return write_run_report(finished, texts=texts).read_text()


@pytest.fixture(scope="module")
def page(html, read_page):
    return read_page(html)


def test_it_loads_nothing_from_anywhere(html, page):
    assert page.addresses
    assert [address for address in page.addresses if not address.startswith(("#", "data:"))] == []
    style = re.search(r"<style>(.*?)</style>", html, re.DOTALL).group(1)
    assert "@import" not in style
    assert "url(" not in style


def test_links_lead_to_the_sections(html, page):
    targets = [address[1:] for address in page.addresses if address.startswith("#")]
    assert targets
    assert all(f'id="{target}"' in html for target in targets)


def test_the_table_holds_the_numbers_of_every_split(finished, page):
    rows = page.tables["Metrics before and after temperature scaling"][1:]
    splits = finished.metrics()["splits"]
    for place, split in enumerate(SPLITS):
        before, after = rows[2 * place][1:], rows[2 * place + 1]
        for cells, stage in ((before, "uncalibrated"), (after, "calibrated")):
            values = splits[split][stage]
            assert cells[0].split()[0] == stage
            assert cells[1] == f"{values['n']}"
            assert cells[2] == f"{100 * values['accuracy']:.1f}"
            assert cells[3] == f"{values['nll']:.4f}"
            assert cells[5].startswith(f"{100 * values['ece']:.2f} [")


def test_the_page_holds_the_stored_predictions(finished, page):
    (held,) = page.charts
    assert [split["name"] for split in held["splits"]] == list(SPLITS)
    assert held["temperature"] == finished.metrics()["temperature"]
    for split in held["splits"]:
        stored = predictions_of_run(finished, split["name"])
        kind = {32: "<f4", 64: "<f8"}[split["precision"]]
        logits = np.frombuffer(base64.b64decode(split["logits"]), kind).reshape(-1, 3)
        np.testing.assert_array_equal(logits, stored.values)
        labels = np.frombuffer(base64.b64decode(split["labels"]), "<i4")
        np.testing.assert_array_equal(labels, stored.labels)
        assert split["ids"] == stored.ids.tolist()


def test_captions_state_ece_interval_and_noise_floor(finished, page):
    for split in SPLITS:
        for stage in ("uncalibrated", "calibrated"):
            values = finished.metrics()["splits"][split][stage]
            low, high = (f"{100 * end:.2f}" for end in values["ece_ci"])
            assert f"ECE {100 * values['ece']:.2f} [{low}, {high}] %." in page.text
            assert f"would show {100 * values['ece_noise_floor']:.2f} % on average" in page.text


def test_texts_and_names_from_the_data_cannot_become_html(html, page):
    assert "<script>alert" not in html
    assert "<b>joy</b>" not in html
    assert "<u>3 rows</u>" not in html
    assert "<u>3 rows</u> also train" in page.text
    lowest = page.tables["The rows with the lowest area under the margin (AUM)"][1:]
    assert len(lowest) == 10
    assert {row[1] for row in lowest} <= {"<b>joy</b>", "R&D | sales", "it's"}
    assert all(row[-1] == f"</td><script>alert({row[0]!r})</script>" for row in lowest)


def test_it_says_which_numbers_are_in_sample(page):
    assert "The calibrated numbers of validation are in-sample" in page.text


def test_the_configuration_can_be_copied_from_the_page(finished, page):
    shown = page.text[page.text.index("config.yaml:") + len("config.yaml:") :]
    assert yaml.safe_load(shown) == finished.config()


def test_the_first_screen_judges_every_split_that_calibration_did_not_see(finished, page):
    splits = finished.metrics()["splits"]
    assert sentence(finished.metrics()).replace("`", "") in page.text
    for split in ("test", "news"):
        values = splits[split]["calibrated"]
        assert f"accuracy {100 * values['accuracy']:.1f} %" in page.text


@pytest.mark.parametrize("bound", ["lower", "upper"])
def test_a_temperature_at_its_bound_is_said_so(own_run, read_page, bound):
    write_json(own_run.calibration_file, {"temperature": 1.75, "at_bound": bound})
    assert f"at its {bound} bound" in read_page(write_run_report(own_run).read_text()).text


def test_a_run_without_dynamics_and_history_has_no_such_sections(own_run, read_page):
    own_run.dynamics_file.unlink()
    metrics = own_run.metrics() | {"history": [], "data_checks": []}
    write_run_report(own_run, metrics=metrics)
    page = read_page(own_run.report_file.read_text())
    assert "Training dynamics" not in page.text
    assert "Loss by epoch" not in page.text
    assert "checked before training and nothing was found" in page.text


def test_checks_that_never_ran_are_not_called_clean(own_run, read_page):
    metrics = own_run.metrics()
    del metrics["data_checks"]
    text = read_page(write_run_report(own_run, metrics=metrics).read_text()).text
    assert "The run recorded no data checks." in text
    assert "nothing was found" not in text


def test_confidence_is_trusted_within_the_noise_and_not_beyond(finished):
    metrics = finished.metrics()
    metrics["splits"] = {"test": metrics["splits"]["test"]}
    values = metrics["splits"]["test"]["calibrated"]
    values |= {"ece": 0.02, "ece_noise_floor": 0.015, "ece_noise_floor_p95": 0.02, "ece_corrected": 0.01}
    values["ece_ci"] = [0.0, 0.1]
    assert sentence(metrics) == "Confidence can be trusted in domain."
    values["ece_ci"] = [0.0, 0.101]
    assert sentence(metrics) == "Confidence cannot be judged in domain: too few rows."
    assert "do not exclude an ECE of 10.1 % either" in split_verdict(metrics, "test").text
    values["ece"] = 0.021
    assert sentence(metrics) == "Confidence is roughly right in domain."
    values |= {"ece": 0.2, "ece_corrected": 0.19, "confidence_gap_ci": [0.1, 0.3]}
    values["mean_confidence"] = values["accuracy"] + 0.2
    assert sentence(metrics) == "Confidence cannot be trusted in domain: overconfident by 20.0 points."


def test_a_run_that_has_not_learned_says_so_first(own_run, read_page):
    learning = {"learned": False, "reasons": [], "messages": ["the loss hardly moved"], "advice": "Train on."}
    html = write_run_report(own_run, metrics=own_run.metrics() | {"learning": learning}).read_text()
    text = read_page(html).text
    assert text.index("This model has not learned") < text.index("Train on.") < text.index("Explore the")


def test_the_report_can_come_before_the_metrics_file(own_run):
    metrics = own_run.metrics()
    with_file = write_run_report(own_run).read_text()
    own_run.metrics_file.unlink()
    assert write_run_report(own_run, metrics=metrics).read_text() == with_file


@pytest.mark.parametrize(
    ("rule", "words"), [("last", "the last epoch"), ("accuracy", "by validation accuracy")]
)
def test_the_training_section_says_by_what_the_epoch_was_kept(own_run, read_page, rule, words):
    write_json(own_run.metrics_file, {**own_run.metrics(), "select_by": rule})
    page = read_page(write_run_report(own_run).read_text())
    assert f"Epoch kept: {words}; test rows are not used for it." in page.text
    assert "lowest validation NLL after temperature scaling" not in page.text


def test_captions_of_weighted_rows_state_the_weighted_confidence(own_run, read_page):
    metrics = own_run.metrics()
    metrics["splits"]["test"]["calibrated"] |= {"accuracy": 0.123, "mean_confidence": 0.456}
    write_json(own_run.metrics_file, metrics)
    page = read_page(write_run_report(own_run).read_text())
    assert "Mean confidence 45.6 %, accuracy 12.3 %." in page.text
