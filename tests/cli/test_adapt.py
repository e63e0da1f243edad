"""`calmix adapt` on a run: labelled rows, perturbed rows, rows to label, and what it doubts or refuses."""

import csv
import json
import shutil

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from calmix.calibration.calibrators.calibrator import load_calibrator
from pictures import write_npz
from tiny import sentences

pytestmark = pytest.mark.trains


@pytest.fixture(scope="module")
def run(reviews, encoders, tmp_path_factory):
    from calmix.training.configuration import TrainConfig
    from calmix.training.pipeline.stages import train_staged

    folder = tmp_path_factory.mktemp("trained")
    trained = write(folder / "train.csv", *sentences(400, seed=0, noise=0.02))
    config = TrainConfig(
        train=str(trained),
        validation=str(reviews / "validation.csv"),
        test=(str(reviews / "test.csv"),),
        model=str(encoders("bert")),
        output=str(tmp_path_factory.mktemp("run") / "run"),
        learning_rate=3e-3,
        epochs=4,
    )
    return train_staged(config).path


def write(path, texts, labels, **columns):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label", *columns])
        writer.writerows(zip(texts, labels, *columns.values(), strict=True))
    return path


def probabilities(directory, texts):
    model = AutoModelForSequenceClassification.from_pretrained(directory).eval()
    tokenizer = AutoTokenizer.from_pretrained(directory)
    with torch.no_grad():
        encoded = tokenizer(texts, padding=True, return_tensors="pt")
        return torch.softmax(model(**encoded).logits.double(), 1).numpy(), model


@pytest.fixture(scope="module")
def noisy(tmp_path_factory):
    """A domain in which four labels in ten are wrong: the run is overconfident there."""
    texts, labels = sentences(120, seed=7, noise=0.4)
    return write(tmp_path_factory.mktemp("noisy") / "noisy.csv", texts, labels)


def test_labelled_rows_recalibrate_and_the_folded_checkpoint_holds_it(calmix, run, noisy, tmp_path):
    output = tmp_path / "adapted"
    code, out, err = calmix("adapt", run, "--labelled", noisy, "--output", output, "--json")
    assert code == 0, err
    found = json.loads(out)
    assert not found["adaptation"]["kept_source"]
    assert found["adaptation"]["nll_gain"] < 0 and found["temperature"] > 1.2
    # The checkpoint, loaded as anybody would, gives what the calibrator says about the run's own logits.
    texts = sentences(30, seed=8)[0]
    source, _ = probabilities(run / "model", texts)
    adapted, model = probabilities(output / "model", texts)
    expected = load_calibrator(output).predict_proba(np.log(source))
    np.testing.assert_allclose(adapted, expected, atol=1e-5)
    assert model.config.calmix_calibration["method"] == "shrunk"
    card = (output / "model" / "README.md").read_text()
    assert "## Adapted" in card and "noisy.csv" in card and "120 labelled rows" in card
    # `predict` and `evaluate` take the directory as it is.
    code, _, err = calmix("predict", output, "--input", noisy, "--output", tmp_path / "p.csv")
    assert code == 0, err
    code, out, err = calmix(
        "predict", output, "--input", noisy, "--output", tmp_path / "q.csv", "--target-accuracy", "0.6"
    )
    assert code == 0, err
    assert "validation rows of the training domain" in (out + err).replace("\n", " ")
    code, out, err = calmix("evaluate", "--model", output, "--data", noisy, "--json")
    assert code == 0, err
    before = json.loads(calmix("evaluate", "--model", run, "--data", noisy, "--json")[1])["files"][0]
    assert json.loads(out)["files"][0]["nll"] < before["nll"]


def test_a_card_in_another_encoding_is_no_reason_to_fail(calmix, run, noisy, tmp_path):
    shutil.copytree(run / "model", tmp_path / "model")
    (tmp_path / "model" / "README.md").write_bytes(b"# Caf\xe9\n")
    code, _, err = calmix("adapt", tmp_path / "model", "--labelled", noisy, "--output", tmp_path / "adapted")
    assert code == 0, err
    assert "# Caf\ufffd" in (tmp_path / "adapted" / "model" / "README.md").read_text(encoding="utf-8")


def test_wrong_labels_and_rows_of_the_own_domain(calmix, run, reviews, tmp_path):
    texts, labels = sentences(20, seed=11, noise=0.0)
    swapped = ["positive" if label == "negative" else "negative" for label in labels]
    wrong = write(tmp_path / "wrong.csv", texts, swapped)
    code, out, err = calmix("adapt", run, "--labelled", wrong, "--output", tmp_path / "a", "--json")
    assert code == 0, err
    found = json.loads(out)
    said = [*found["warnings"], found["adaptation"]["sentence"]]
    reasons = ("or the labels are wrong", "the labels contradict the logits", "which is kept")
    known = [reason for reason in reasons if any(reason in line for line in said)]
    assert known and found["adaptation"]["kept_source"] == ("which is kept" in known)
    code, out, err = calmix("adapt", run, "--labelled", wrong, "--output", tmp_path / "c")
    assert code == 0 and all(reason in " ".join((out + err).split()) for reason in known)
    code, out, err = calmix(
        "adapt", run, "--labelled", reviews / "test.csv", "--output", tmp_path / "b", "--json"
    )
    assert code == 0, err
    found = json.loads(out)
    if found["adaptation"]["kept_source"]:
        assert found["temperature"] == 1.0 and "which is kept" in found["adaptation"]["sentence"]


def test_one_class_missing_rows_and_unknown_labels(calmix, run, tmp_path):
    texts, labels = sentences(120, seed=12)
    only = [(text, label) for text, label in zip(texts, labels, strict=True) if label == "positive"][:20]
    one = write(tmp_path / "one.csv", *zip(*only, strict=True))
    code, out, err = calmix("adapt", run, "--labelled", one, "--output", tmp_path / "a", "--json")
    assert code == 0, err
    assert any("all rows have the class 'positive'" in line for line in json.loads(out)["warnings"])
    unknown = write(tmp_path / "unknown.csv", texts[:20], ["good", *labels[1:20]])
    code, _, err = calmix("adapt", run, "--labelled", unknown, "--output", tmp_path / "b")
    assert code == 2 and "'good'" in err and not (tmp_path / "b").exists()
    few = write(tmp_path / "few.csv", texts[:5], labels[:5])
    code, _, err = calmix("adapt", run, "--labelled", few, "--output", tmp_path / "b")
    assert code == 2 and "5 rows are too few" in err and not (tmp_path / "b").exists()


def test_missing_classes_are_named(calmix, encoders, tmp_path):
    names = {0: "bad", 1: "fair", 2: "good"}
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_pretrained(
        encoders("bert"),
        num_labels=3,
        id2label=names,
        label2id={name: place for place, name in names.items()},
    )
    model.save_pretrained(tmp_path / "three")
    AutoTokenizer.from_pretrained(encoders("bert")).save_pretrained(tmp_path / "three")
    texts = sentences(20, seed=3)[0]
    rows = write(tmp_path / "rows.csv", texts, ["bad", "good"] * 10)
    asked = ("adapt", tmp_path / "three", "--labelled", rows, "--output", tmp_path / "a", "--json")
    code, out, err = calmix(*asked)
    assert code == 0, err
    found = json.loads(out)
    assert any("no row has the class 'fair'" in line for line in found["warnings"])
    # What no row shows is not ruled out.
    chances, _ = probabilities(tmp_path / "a" / "model", texts)
    assert chances[:, 1].min() > 0.01


def test_rows_of_the_training_set_are_left_out(calmix, run, tmp_path):
    texts, labels = sentences(400, seed=0, noise=0.02)  # as in training
    known = write(tmp_path / "known.csv", texts[:20], labels[:20])
    code, _, err = calmix("adapt", run, "--labelled", known, "--output", tmp_path / "a")
    assert code == 2 and "all 20 rows also appear in the training set" in err
    trained = list(csv.DictReader(known.open()))[:6]
    texts, labels = sentences(30, seed=13)
    mixed = write(
        tmp_path / "mixed.csv",
        texts + [row["text"] for row in trained],
        labels + [row["label"] for row in trained],
    )
    code, out, err = calmix("adapt", run, "--labelled", mixed, "--output", tmp_path / "b", "--json")
    assert code == 0, err
    assert json.loads(out)["n"] == 30
    assert "6 rows that also appear in the training set" in json.loads(out)["warnings"][0]


def test_rows_to_label_carry_weights_that_the_fit_understands(calmix, run, noisy, tmp_path):
    texts, labels = sentences(200, seed=14, noise=0.4)
    pool = tmp_path / "pool.csv"
    with pool.open("w", newline="") as file:
        csv.writer(file).writerows([["text", "number"], *zip(texts, range(200), strict=True)])
    chosen = tmp_path / "chosen.csv"
    code, out, err = calmix("adapt", run, "--suggest", 40, "--from", pool, "--output", chosen)
    assert code == 0, err
    rows = list(csv.DictReader(chosen.open()))
    assert len(rows) == 40 and all(row["label"] == "" for row in rows)
    assert sum(float(row["design_weight"]) for row in rows) == pytest.approx(200)
    filled = [{**row, "label": labels[int(row["number"])]} for row in rows]
    labelled = write(
        tmp_path / "labelled.csv",
        [row["text"] for row in filled],
        [row["label"] for row in filled],
        design_weight=[row["design_weight"] for row in filled],
    )
    code, out, err = calmix("adapt", run, "--labelled", labelled, "--output", tmp_path / "a", "--json")
    assert code == 0, err
    weighted = json.loads(out)["adaptation"]["weighted"]
    assert 10 < weighted["effective_rows"] <= 40
    broken = write(tmp_path / "broken.csv", ["a"] * 12, ["positive"] * 12, design_weight=[*["1"] * 11, "x"])
    code, _, err = calmix("adapt", run, "--labelled", broken, "--output", tmp_path / "b")
    assert code == 2 and "design_weight" in err and "row 12" in err


def test_a_temperature_from_perturbed_validation_rows(calmix, run, tmp_path):
    output = tmp_path / "robust"
    code, out, err = calmix("adapt", run, "--perturbed", "--output", output, "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["method"] == "perturbed" and set(found["held_out"]) == {"validation", "test"}
    before, after = (found["held_out"]["test"][stage] for stage in ("before", "after"))
    assert before["accuracy"] == after["accuracy"]
    texts = sentences(30, seed=8)[0]
    source, _ = probabilities(run / "model", texts)
    robust, _ = probabilities(output / "model", texts)
    scaled = source ** (1 / found["temperature"])
    np.testing.assert_allclose(robust, scaled / scaled.sum(axis=1, keepdims=True), atol=1e-5)
    again = json.loads(calmix("adapt", run, "--perturbed", "--output", tmp_path / "again", "--json")[1])
    assert again["temperature"] == found["temperature"]


@pytest.mark.parametrize("method", ["pseudocal", "transcal", "em-label-shift", "lascal", "density"])
def test_unlabelled_rows_need_a_named_method_and_it_says_what_it_is_worth(
    calmix, run, noisy, tmp_path, method
):
    output = tmp_path / "adapted"
    asked = ("adapt", run, "--unlabelled", noisy, "--output", output, "--json")
    code, out, err = calmix(*asked, "--method", method)
    assert code == 0, err
    found = json.loads(out)
    assert found["method"] == method and "nothing was measured" in found["warnings"][0]
    texts = sentences(30, seed=8)[0]
    source, _ = probabilities(run / "model", texts)
    adapted, _ = probabilities(output / "model", texts)
    np.testing.assert_allclose(adapted, load_calibrator(output).predict_proba(np.log(source)), atol=1e-5)
    assert method in (output / "model" / "README.md").read_text()


def test_mixing_at_inference_with_the_whole_of_one_row_is_that_row(run):
    from calmix.data.rows import Rows
    from calmix.inference.adaptation.target_passes import TargetNetwork

    texts = ["a dull film and weak plot", "the bright scene was very moving", "it is a great short story"]
    rows = Rows.from_columns(list("abc"), texts)
    network = TargetNetwork(run / "model")
    places = np.arange(3)
    plain, mixed = network.logits(rows), network.mixed_logits(rows, places, np.roll(places, 1), 1.0)
    assert len({len(text.split()) for text in texts}) == 1
    np.testing.assert_allclose(mixed, plain, atol=1e-5)
    half = network.mixed_logits(rows, places, np.roll(places, 1), 0.5)
    other = network.mixed_logits(rows, np.roll(places, 1), places, 0.5)
    np.testing.assert_allclose(half, other, atol=1e-5)


def test_features_and_logits_keep_the_order_of_rows_of_different_lengths(run):
    from calmix.data.rows import Rows
    from calmix.inference.adaptation.target_passes import TargetNetwork

    texts = ["the bright scene was very moving and great", "dull", "it is a great short story", "weak plot"]
    rows = Rows.from_columns(list("abcd"), texts)
    network = TargetNetwork(run / "model")
    features, logits = network.features_and_logits(rows)
    np.testing.assert_allclose(logits, network.logits(rows), atol=1e-5)
    alone = [network.features(rows.select(np.array([place])))[0] for place in range(4)]
    np.testing.assert_allclose(features, alone, atol=1e-5)
    assert not np.allclose(features[0], features[1], atol=1e-3)


def test_what_does_not_go_together_is_refused(calmix, run, noisy, tmp_path):
    for arguments, message in (
        (("adapt", run, "--output", tmp_path / "a"), "nothing to adapt to"),
        (("adapt", run, "--labelled", noisy, "--perturbed", "--output", tmp_path / "a"), "several kinds"),
        (("adapt", run, "--unlabelled", noisy, "--output", tmp_path / "a"), "no method is known to work"),
        (("adapt", run, "--perturbed", "--method", "transcal", "--output", tmp_path / "a"), "--unlabelled"),
        (("adapt", run, "--suggest", 5, "--output", tmp_path / "a.csv"), "--suggest and --from"),
        (("adapt", run, "--suggest", 500, "--from", noisy, "--output", tmp_path / "a.csv"), "120 rows"),
        (("adapt", run / "model", "--perturbed", "--output", tmp_path / "a"), "validation rows of a run"),
        (("adapt", tmp_path / "none", "--labelled", noisy, "--output", tmp_path / "a"), "no such run"),
    ):
        code, _, err = calmix(*arguments)
        assert code == 2 and message in err, err
    assert not list(tmp_path.iterdir())


def test_choices_get_a_temperature_and_pairs_get_biases(calmix, encoders, tmp_path):
    from transformers import AutoModelForMultipleChoice

    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(encoders("bert"))
    AutoModelForMultipleChoice.from_pretrained(encoders("bert")).save_pretrained(tmp_path / "choice")
    tokenizer.save_pretrained(tmp_path / "choice")
    rows = [{"text": text, "choices": ["great", "dull", "warm"], "label": place % 3}
            for place, text in enumerate(sentences(30, seed=1)[0])]  # fmt: skip
    (tmp_path / "choice.jsonl").write_text("\n".join(map(json.dumps, rows)))
    asked = ("adapt", tmp_path / "choice", "--labelled", tmp_path / "choice.jsonl", "--json")
    code, out, err = calmix(*asked, "--output", tmp_path / "a")
    assert code == 0, err
    found = json.loads(out)
    assert found["folded"] and not any(found["adaptation"]["bias"])
    assert any("choices have no classes" in note for note in found["notes"])

    model = AutoModelForSequenceClassification.from_pretrained(
        encoders("bert"), num_labels=2, id2label={0: "no", 1: "yes"}, label2id={"no": 0, "yes": 1}
    )
    model.save_pretrained(tmp_path / "pair")
    tokenizer.save_pretrained(tmp_path / "pair")
    texts = sentences(40, seed=2)[0]
    rows = [{"text": text, "text_pair": other, "label": "yes" if place % 5 else "no"}
            for place, (text, other) in enumerate(zip(texts, texts[::-1], strict=True))]  # fmt: skip
    (tmp_path / "pair.jsonl").write_text("\n".join(map(json.dumps, rows)))
    asked = ("adapt", tmp_path / "pair", "--labelled", tmp_path / "pair.jsonl", "--json")
    code, out, err = calmix(*asked, "--output", tmp_path / "b")
    assert code == 0, err
    found = json.loads(out)
    # Four rows in five are "yes", which random weights do not know.
    assert found["folded"] and not found["adaptation"]["kept_source"] and found["adaptation"]["bias"][1] > 0.1


def test_images(calmix, tmp_path):
    for name, rows, skip in (("train", 60, 0), ("validation", 30, 60), ("test", 60, 90)):
        write_npz(tmp_path / f"{name}.npz", rows, skip=skip, classes=3)
    run = tmp_path / "run"
    code, _, err = calmix(
        "train", "--train", tmp_path / "train.npz", "--validation", tmp_path / "validation.npz",
        "--test", tmp_path / "test.npz", "--model", "resnet-small", "--epochs", 1, "--output", run,
    )  # fmt: skip
    assert code == 0, err
    for asked in (
        ("--perturbed",),
        ("--labelled", tmp_path / "test.npz"),
        ("--unlabelled", tmp_path / "test.npz", "--method", "em-label-shift"),
        ("--unlabelled", tmp_path / "test.npz", "--method", "transcal"),
        ("--unlabelled", tmp_path / "test.npz", "--method", "density"),
    ):
        output = tmp_path / asked[-1] if asked[0] == "--unlabelled" else tmp_path / asked[0].strip("-")
        code, out, err = calmix("adapt", run, *asked, "--output", output, "--json")
        assert code == 0, err
        assert json.loads(out)["folded"] and (output / "model" / "config.json").is_file()


def test_weights_of_a_design_may_have_any_scale(tmp_path):
    from calmix.inference.adaptation.labelled import design_weights

    for scale in (1.0, 1e307):
        write(tmp_path / "rows.csv", ["a", "b"], ["x", "y"], design_weight=[scale, 3 * scale])
        weights = design_weights(str(tmp_path / "rows.csv"))
        assert weights.sum() ** 2 / (weights**2).sum() == pytest.approx(1.6)
