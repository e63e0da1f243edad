"""Rows with several labels from files to predictions: train, evaluate, calibrate, predict."""

import csv
import json

import numpy as np
import pandas
import pytest
import torch
from sklearn.metrics import f1_score
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import calmix as library
from calmix import LabelScaling, MixupArguments, MixupTrainer, UserError
from calmix.inference.fold_proof import scaled_tolerance
from calmix.io.tables import read_table
from marking import marking
from tiny import NEGATIVE, POSITIVE, WORDS

TELLING = {"film": ("film", "plot", "actor"), "gloom": NEGATIVE, "joy": POSITIVE}
NAMES = tuple(TELLING)


def tagged(rows, seed):
    """Texts whose words tell their labels, a tenth of them wrongly."""
    generator = np.random.default_rng(seed)
    made = []
    for _ in range(rows):
        words = generator.choice(WORDS, size=int(generator.integers(3, 10))).tolist()
        labels = [
            name
            for name, telling in TELLING.items()
            if bool(set(words) & set(telling)) != (generator.random() < 0.1)
        ]
        made.append({"text": " ".join(words), "label": labels})
    return made


@pytest.fixture(scope="session")
def tags(tmp_path_factory):
    """A folder with train, validation and test in three forms: lists, a separator, columns of 0 and 1."""
    folder = tmp_path_factory.mktemp("tags")
    for seed, (name, rows) in enumerate({"train": 160, "validation": 120, "test": 90}.items()):
        made = tagged(rows, seed)
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, made)) + "\n")
        with (folder / f"{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["text", "label", *NAMES])
            for row in made:
                hot = [int(one in row["label"]) for one in NAMES]
                writer.writerow([row["text"], ";".join(row["label"]), *hot])
    return folder


@pytest.fixture(scope="session")
def settings(encoders):
    return {"model": str(encoders("bert", layers=1)), "epochs": 10, "learning_rate": 1e-2, "threads": 1}


@pytest.fixture(scope="session")
@marking("trains")
def tagger(tags, settings, tmp_path_factory):
    """A run on lists of labels."""
    return library.train(
        str(tags / "train.jsonl"),
        validation=str(tags / "validation.jsonl"),
        test=str(tags / "test.jsonl"),
        multi_label=True,
        output=tmp_path_factory.mktemp("taggers") / "run",
        **settings,
    )


def plain_probabilities(directory, texts):
    """As anybody would load it."""
    tokenizer = AutoTokenizer.from_pretrained(directory)
    model = AutoModelForSequenceClassification.from_pretrained(directory).eval()
    with torch.no_grad():
        inputs = tokenizer(texts, truncation=True, padding=True, return_tensors="pt")
        return model(**inputs).logits.sigmoid().double().numpy(), model.config


def texts_and_labels(file):
    table = read_table(file)
    return list(table.read_column("text")), table.read_column("label")


def test_the_checkpoint_is_standard_and_its_sigmoid_is_calibrated(tagger, tags):
    texts, _ = texts_and_labels(tags / "test.jsonl")
    found, config = plain_probabilities(tagger.model_path, texts)
    assert config.problem_type == "multi_label_classification"
    assert tuple(config.id2label.values()) == NAMES
    stored = tagger.predictions("test")
    np.testing.assert_allclose(found, stored.probabilities(), atol=1e-4)
    raw = tagger.predictions("test", calibrated=False)
    scaling = tagger.metrics.facts.label_scaling
    scale, bias = ([scaling[part][name] for name in NAMES] for part in ("scale", "bias"))
    np.testing.assert_allclose(stored.log_odds(), raw.log_odds() * scale + bias, atol=1e-9)
    assert scale != [1.0] * 3 and config.calmix_calibration["thresholds"] == tagger.thresholds


def test_scaling_and_thresholds_are_those_of_the_validation_rows(tagger):
    raw = tagger.predictions("validation", calibrated=False)
    fitted = LabelScaling().fit(raw)
    scaling = tagger.metrics.facts.label_scaling
    assert scaling["scale"] == dict(zip(NAMES, fitted.scale_.tolist(), strict=True))
    scaled = fitted.calibrate(raw).probabilities()
    for place, name in enumerate(NAMES):
        best = max(f1_score(raw.targets[:, place], scaled[:, place] >= cut) for cut in scaled[:, place])
        chosen = f1_score(raw.targets[:, place], scaled[:, place] >= tagger.thresholds[name])
        assert chosen == pytest.approx(best)
    facts = tagger.metrics
    assert facts["validation"].calibrated.in_sample and facts["validation"].calibrated.macro["nll"] == (
        pytest.approx(fitted.nll_after_)
    )


def test_metrics_of_a_run_are_those_of_its_predictions(tagger):
    found = library.evaluate(tagger)
    by_stage = {(one.file.partition(":")[2].split(" ")[0], one.stage): one for one in found.files}
    for split in ("validation", "test"):
        for stage in ("calibrated", "uncalibrated"):
            stored = getattr(tagger.metrics[split], stage)
            for part in ("macro", "micro", "per_label"):
                assert by_stage[split, stage][part] == stored[part]
            assert by_stage[split, stage].subset_accuracy == stored.subset_accuracy
    saved = library.evaluate(tagger.path / "predictions" / "test.parquet")
    assert saved.macro["nll"] == tagger.metrics["test"].uncalibrated.macro["nll"]


def test_the_network_on_labelled_rows_in_any_form(tagger, tags, calmix):
    stored = tagger.metrics["test"].calibrated
    lists = library.evaluate(model=tagger, data=str(tags / "test.jsonl"))
    assert lists.macro["nll"] == pytest.approx(stored.macro["nll"], abs=1e-4)
    assert lists.macro["f1"] == pytest.approx(stored.macro["f1"])
    arguments = ("evaluate", "--model", tagger.path, "--data", tags / "test.csv", "--json")
    code, out, _ = calmix(*arguments, "--label-separator", ";")
    assert code == 0 and json.loads(out)["files"][0]["macro"]["nll"] == pytest.approx(lists.macro["nll"])
    code, out, _ = calmix(*arguments, "--label-columns", "joy,film,gloom")
    assert code == 0 and json.loads(out)["files"][0]["macro"]["nll"] == pytest.approx(lists.macro["nll"])


def test_predict_writes_labels_and_a_probability_of_each(tagger, tags, tmp_path, calmix):
    texts, _ = texts_and_labels(tags / "test.jsonl")
    expected, _ = plain_probabilities(tagger.model_path, texts)
    output = tmp_path / "answers.csv"
    code, out, _ = calmix("predict", tagger.path, "--input", tags / "test.jsonl", "--output", output)
    assert code == 0 and "rows (from" in out
    with output.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert "predicted_label" not in rows[0] and "confidence" not in rows[0]
    for row, probabilities in zip(rows, expected, strict=True):
        stated = [float(row[f"prob_{name}"]) for name in NAMES]
        assert stated == pytest.approx(probabilities.tolist(), abs=1e-4)
        wanted = [name for name, p in zip(NAMES, stated, strict=True) if p >= tagger.thresholds[name]]
        assert json.loads(row["predicted_labels"]) == wanted
    answers = library.predict(tagger, texts[:5])
    assert answers.labels == [json.loads(row["predicted_labels"]) for row in rows[:5]]
    code, out, _ = calmix("predict", tagger.path, "--text", texts[0], "--json")
    assert json.loads(out)["predicted_labels"] == answers.labels[0]
    for option in (
        ("--target-accuracy", "0.9"),
        ("--accept-above", "0.9"),
        ("--coverage", "0.9"),
        ("--reject-ood",),
    ):
        code, _, err = calmix(
            "predict", tagger.path, "--input", tags / "test.jsonl", "--output", tmp_path / "no.csv", *option
        )
        assert (
            code == 2
            and f"{option[0]} is for rows of one label" in err
            and not (tmp_path / "no.csv").exists()
        )


def test_what_predict_writes_can_be_evaluated(tagger, tags, tmp_path):
    output = tmp_path / "answers.parquet"
    library.predict(tagger, str(tags / "test.jsonl"), output=output)
    found = library.evaluate(output)
    assert found.macro["nll"] == pytest.approx(tagger.metrics["test"].calibrated.macro["nll"], abs=1e-4)


@pytest.mark.trains
@pytest.mark.parametrize("method", ["temperature", "platt"])
def test_a_run_is_calibrated_again_and_folded(tagger, tags, tmp_path, method):
    fit_on = str(tags / "train.jsonl")
    found = library.calibrate(tagger, fit_on=fit_on, method=method, output=tmp_path / "again")
    texts, _ = texts_and_labels(tags / "test.jsonl")
    before, _ = plain_probabilities(tagger.model_path, texts)
    after, config = plain_probabilities(found.model_path, texts)
    fitted = found.calibrator()
    expected = fitted.predict_proba(np.log(before) - np.log1p(-before))
    np.testing.assert_allclose(after, expected, atol=1e-4)
    assert config.calmix_calibration["thresholds"] == found.content["thresholds"]
    assert bool(fitted.bias_.any()) == (method == "platt")
    np.testing.assert_allclose(found.predictions("test").probabilities(), after, atol=1e-4)
    assert found.held_out["validation"].before.in_sample
    assert library.predict(tmp_path / "again", texts[:3]).labels == [
        [name for name, p in zip(NAMES, row, strict=True) if p >= found.content["thresholds"][name]]
        for row in after[:3]
    ]


def test_a_split_of_the_run_to_fit_on(tagger, tmp_path, calmix):
    code, out, _ = calmix(
        "calibrate",
        tagger.path,
        "--fit-on",
        "test",
        "--method",
        "platt",
        "--output",
        tmp_path / "out",
        "--json",
    )
    content = json.loads(out)
    assert code == 0 and content["held_out"]["test"]["measured"] == "cross-validated"
    assert content["held_out"]["validation"]["before"]["in_sample"]
    code, _, err = calmix(
        "calibrate", tagger.path, "--fit-on", "test", "--method", "vector", "--output", tmp_path / "no"
    )
    assert code == 2 and "use platt" in err and not (tmp_path / "no").exists()


def test_report_and_card_say_what_is_true_of_several_labels(tagger):
    page = tagger.report.read_text()
    for name in NAMES:
        assert name in page and f"{tagger.thresholds[name]:.3f}" in page
    for wrong in ("softmax", "emperature scaling", "predicted class", "Data map", "onfidence is accuracy"):
        assert wrong not in page
    card = (tagger.model_path / "README.md").read_text()
    assert ".sigmoid()" in card and "softmax" not in card and "Macro F1" in card
    code = (
        card.split("```python\n")[1].split("```")[0].replace("path/to/this/directory", str(tagger.model_path))
    )
    scope = {}
    exec(code, scope)  # the card's own words
    assert isinstance(scope["labels"][0], list)
    shown = str(tagger)
    assert "platt scaling of every label" in shown and "All labels" in shown
    assert [entry["chosen"] for entry in tagger.metrics.facts.history].count(True) == 1
    assert not (tagger.path / "dynamics.parquet").exists()


@pytest.mark.parametrize(
    ("verb", "options"),
    [
        ("ood", ("--in", "x.csv", "--out", "y=y.csv")),
        ("export", ("--output", "o")),
        ("adapt", ("--labelled", "x.csv", "--output", "o")),
    ],
)
def test_verbs_for_rows_of_one_label_refuse_the_run(tagger, calmix, verb, options, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, err = calmix(verb, tagger.path, *options)
    assert code == 2 and "rows of one label" in err and err.count("\n") == 1


def test_what_python_offers_for_one_label_refuses_the_run(tagger):
    for ask in (lambda: tagger.temperature, tagger.plot_reliability, tagger.plot_risk_coverage):
        with pytest.raises(UserError, match="rows of one label"):
            ask()
    for options in ({"mc_dropout": 3}, {"slice": "label"}):
        with pytest.raises(UserError, match="is for rows of one label"):
            library.evaluate(tagger, **options)


REFUSED = [
    (
        {"method": "aum-saliency"},
        "aum-saliency is not defined for rows of several labels; choose one of plain",
    ),
    ({"method": "focal"}, "focal is not defined for rows of several labels"),
    ({"label_smoothing": 0.1}, "label_smoothing is not defined for rows of several labels"),
    ({"class_weights": "balanced"}, "class_weights is not defined"),
    ({"sampling": "balanced"}, "sampling is not defined"),
    ({"teacher": "plain"}, "teacher is not defined"),
    ({"train_region": "easy"}, "train_region is not defined"),
    ({"label_map": {"joy": "x"}}, "label_map is not defined"),
    ({"drop_unlabelled": True}, "drop_unlabelled is not defined"),
    ({"slice": "text"}, "slice is not defined"),
    ({"dynamics": "epoch_end"}, "dynamics is not defined"),
    ({"select_by": "mcc"}, "select_by=mcc is not defined"),
    ({"label_columns": "joy"}, "the only label is 'joy'"),
    ({"label_columns": "joy,nothing"}, "no column 'nothing'"),
]


@pytest.mark.parametrize(("options", "problem"), REFUSED, ids=[case[1] for case in REFUSED])
def test_what_several_labels_rule_out_is_refused_before_training(tags, settings, tmp_path, options, problem):
    given = {"multi_label": True} if "label_columns" not in options else {}
    with pytest.raises(UserError) as caught:
        library.train(str(tags / "train.csv"), output=tmp_path / "run", **settings, **given, **options)
    assert problem in str(caught.value) and not (tmp_path / "run").exists()


def test_a_comparison_refuses_several_labels(tags, settings, tmp_path):
    with pytest.raises(UserError, match="are not compared"):
        library.compare(
            str(tags / "train.jsonl"),
            multi_label=True,
            methods=["cls-mixup"],
            output=tmp_path / "c",
            **settings,
        )


@pytest.mark.trains
@pytest.mark.parametrize("method", ["input-mixup", "cls-mixup", "manifold-mixup"])
def test_mixups_train_from_the_command_line(tags, settings, tmp_path, calmix, method):
    options = [part for name, value in settings.items() for part in (f"--{name.replace('_', '-')}", value)]
    code, out, err = calmix(
        "train", "--train", tags / "train.csv", "--test", tags / "test.csv",
        "--label-columns", ",".join(NAMES), "--method", method, "--output", tmp_path / "run",
        "--json", *options,
    )  # fmt: skip
    assert code == 0, err
    found = json.loads(out)
    assert found["multi_label"] and found["sizes"] == {"train": 144, "validation": 16, "test": 90}
    assert found["label_names"] == list(NAMES)
    run = library.Run.open(tmp_path / "run")
    texts, _ = texts_and_labels(tags / "test.csv")
    probabilities, _ = plain_probabilities(run.model_path, texts)
    tolerance = scaled_tolerance(np.array(list(run.metrics.facts.label_scaling["scale"].values())))
    np.testing.assert_allclose(probabilities, run.predictions("test").probabilities(), atol=tolerance)


@pytest.mark.trains
def test_labels_that_were_not_scaled_are_named_at_the_end_of_training(tags, settings, tmp_path):
    rows = [json.loads(line) for line in (tags / "train.jsonl").read_text().splitlines()]
    held = rows[:40]
    for row in (rows[50], rows[51], held[0], held[1]):
        row["label"] = [*row["label"], "rare"]
    given = {**settings, "epochs": 1}
    frames = {name: pandas.DataFrame(part) for name, part in {"train": rows[40:], "held": held}.items()}
    run = library.train(
        frames["train"], validation=frames["held"], multi_label=True, output=tmp_path / "run", **given
    )
    (line,) = [line for line in str(run).splitlines() if "fewer than 5 of the fitting rows" in line]
    assert line.startswith("WARNING") and "rare" in line


@pytest.mark.trains
def test_a_head_without_a_bias_holds_scales_alone(tags, settings, tmp_path, encoders):
    given = {**settings, "model": str(encoders("qwen2", layers=1)), "epochs": 1}
    run = library.train(
        str(tags / "train.csv"),
        validation=str(tags / "validation.csv"),
        label_separator=";",
        output=tmp_path / "run",
        **given,
    )
    assert run.metrics.facts.label_scaling["method"] == "temperature"
    texts, _ = texts_and_labels(tags / "validation.csv")
    found, _ = plain_probabilities(run.model_path, texts[:1])
    np.testing.assert_allclose(found, run.predictions("validation").probabilities()[:1], atol=1e-4)
    with pytest.raises(UserError, match="has no bias"):
        library.calibrate(run, fit_on="validation", method="platt", output=tmp_path / "no")


def test_a_network_of_one_label_is_refused(tags, tmp_path, encoders):
    directory = tmp_path / "one"
    tokenizer = AutoTokenizer.from_pretrained(encoders("bert", layers=1))
    tokenizer.save_pretrained(directory)
    AutoModelForSequenceClassification.from_pretrained(encoders("bert", layers=1)).save_pretrained(directory)
    rows = str(tags / "test.jsonl")
    with pytest.raises(UserError, match="gives every row one label"):
        library.calibrate(directory, fit_on=rows, multi_label=True, output=tmp_path / "no")
    with pytest.raises(UserError, match="gives every row one label"):
        library.evaluate(model=directory, data=rows, multi_label=True)


@pytest.mark.trains
def test_the_trainer_takes_a_dataset_of_floats(tags, encoders, tmp_path):
    directory = encoders("bert", layers=1, dropout=0.0)
    tokenizer = AutoTokenizer.from_pretrained(directory)
    made = tagged(40, 7)
    rows = [
        {**tokenizer(row["text"]), "labels": [float(name in row["label"]) for name in NAMES]} for row in made
    ]
    model = AutoModelForSequenceClassification.from_pretrained(
        directory,
        num_labels=3,
        id2label=dict(enumerate(NAMES)),
        problem_type="multi_label_classification",
    )
    arguments = MixupArguments(
        output_dir=str(tmp_path / "out"), method="cls-mixup", num_train_epochs=1, use_cpu=True,
        per_device_eval_batch_size=40, save_strategy="no",
    )  # fmt: skip
    trainer = MixupTrainer(
        model=model, args=arguments, train_dataset=rows, eval_dataset=rows, processing_class=tokenizer
    )
    batch = trainer.data_collator([dict(row) for row in rows])
    with torch.no_grad():
        expected = float(model.eval()(**batch).loss)  # transformers' own
    assert trainer.evaluate()["eval_loss"] == pytest.approx(expected, rel=1e-5)
    trainer.train()
    scaling = trainer.save_calibrated(tmp_path / "saved")
    assert isinstance(scaling, LabelScaling)
    found, config = plain_probabilities(tmp_path / "saved", [row["text"] for row in made])
    logits = trainer.predict(rows).predictions
    np.testing.assert_allclose(found, scaling.predict_proba(logits), atol=1e-4)
    assert set(config.calmix_calibration["thresholds"]) == set(NAMES)
