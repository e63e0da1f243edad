from __future__ import annotations

import re

import pytest
import yaml
from huggingface_hub import ModelCard

from calmix.io.run_directory import write_json, write_yaml
from calmix.report.model_card import front_matter, write_model_card
from calmix.report.tables import metrics_table

CITATION = "Somebody, Something <2022>"


@pytest.fixture(scope="module")
def card(finished) -> str:
    return write_model_card(finished, citation=CITATION).read_text()


def front_of(card: str) -> dict:
    return yaml.safe_load(re.match(r"---\n(.*?)\n---\n", card, re.DOTALL).group(1))


def test_the_front_matter_is_what_the_hub_reads(finished, card):
    data = ModelCard(card).data
    assert data.library_name == "transformers"
    assert data.pipeline_tag == "text-classification"
    assert data.base_model == "owner/tiny-bert"
    splits = finished.metrics()["splits"]
    found = {(result.dataset_name, result.metric_type): result.metric_value for result in data.eval_results}
    assert found == {
        (split, key): splits[split]["calibrated"][key]
        for split in ("test", "news")
        for key in ("accuracy", "nll", "brier", "ece", "aurc")
    }


def test_the_in_sample_split_is_no_result(card):
    names = [result["dataset"]["name"] for result in front_of(card)["model-index"][0]["results"]]
    assert names == ["test", "news"]


def test_without_a_test_split_there_is_no_index(finished):
    metrics = finished.metrics()
    metrics["splits"] = {"validation": metrics["splits"]["validation"]}
    assert "model-index" not in front_matter("name", metrics)


def test_a_directory_or_built_in_name_is_no_base_model(finished, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models" / "mine").mkdir(parents=True)
    for name in ("default", "/models/bert", "models/mine", "../bert"):
        assert "base_model" not in front_matter("name", finished.metrics() | {"model": name})


def test_a_model_from_a_directory_is_named_without_its_place(own_run):
    metrics = own_run.metrics() | {"model": "/home/someone/bert-tiny"}
    card = write_model_card(own_run, metrics=metrics).read_text()
    assert "fine-tuned from bert-tiny with" in card
    assert "/home/someone" not in card


def test_the_table_is_the_metrics_table(finished, card):
    assert metrics_table(finished.metrics()).to_markdown() in card


def test_the_card_says_how_it_was_calibrated(own_run):
    assert "T = 1.7500" in write_model_card(own_run).read_text()
    assert "on validation (300 rows)" in own_run.model_card_file.read_text()
    assert "bound" not in own_run.model_card_file.read_text()
    write_json(
        own_run.calibration_file, {"temperature": 0.01, "at_bound": "lower", "fitted_on": "validation"}
    )
    assert "ended at its lower bound" in write_model_card(own_run).read_text()


def test_names_are_shown_as_they_are_and_files_of_the_machine_are_not(card):
    assert r"- 0: \<b\>joy\</b\>" in card
    assert r"- test: \<u\>3 rows\</u\> also train" in card
    assert r"Somebody, Something \<2022\>" in card
    assert "/home/someone" not in card
    assert yaml.safe_load(re.search(r"```yaml\n(.*?)```", card, re.DOTALL).group(1)) == {
        "method": "plain",
        "epochs": 3,
    }


@pytest.mark.parametrize("task", ["single", "pair", "choice"])
def test_the_code_on_the_card_gives_probabilities(own_run, encoders, task):
    import transformers

    source = encoders("bert")
    loader = "AutoModelForMultipleChoice" if task == "choice" else "AutoModelForSequenceClassification"
    labels = {} if task == "choice" else {"num_labels": 3}
    getattr(transformers, loader).from_pretrained(source, **labels).save_pretrained(own_run.model)
    transformers.AutoTokenizer.from_pretrained(source).save_pretrained(own_run.model)
    card = write_model_card(own_run, metrics=own_run.metrics() | {"task": task}).read_text()
    code = re.search(r"```python\n(.*?)```", card, re.DOTALL).group(1)
    names: dict = {}
    exec(code.replace("path/to/this/directory", str(own_run.model)), names)
    probabilities = names["probabilities"]
    assert tuple(probabilities.shape) == (1, 2 if task == "choice" else 3)
    assert probabilities.sum().item() == pytest.approx(1, abs=1e-6)


def test_settings_with_odd_values_stay_yaml(own_run):
    write_yaml(own_run.config_file, {"method": "plain", "note": "a: b\n```", "trainer": {"x": None}})
    assert "method: plain" in write_model_card(own_run).read_text()
