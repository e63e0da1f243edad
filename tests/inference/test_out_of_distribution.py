"""Out-of-distribution detection of a run: scores, noise, report and command."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from scipy.special import softmax

from calmix.calibration.files.run_predictions import predictions_of_run
from calmix.calibration.metrics import ood
from calmix.data.images.pixels import PixelStatistics
from calmix.data.reading import read_rows
from calmix.data.rows import Rows
from calmix.inference.mc_dropout import dropout_with_checkpoint
from calmix.inference.noise import NoiseImages, noise_for_words, stack_pixels
from calmix.inference.out_of_distribution import Detector, Scored, detect, histograms
from calmix.models.loading import load_inputs, load_trained
from calmix.models.text_cnn_building import build_text_cnn
from pictures import digits, write_npz
from tiny import sentences


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("ood")


@pytest.fixture(scope="module")
def run(folder):
    """A small network of the digits 0 to 2, with dropout; the other digits are strange to it."""
    from calmix.training.configuration import TrainConfig
    from calmix.training.pipeline.stages import train_staged

    write_npz(folder / "train.npz", 120, classes=3)
    write_npz(folder / "test.npz", 60, skip=120, classes=3)
    images, labels = digits(400)
    np.savez(folder / "other.npz", images=images[labels > 4][:50])  # no labels: none are needed
    return train_staged(
        TrainConfig(
            train=str(folder / "train.npz"), test=(str(folder / "test.npz"),), output=str(folder / "run"),
            model="resnet-small", model_options={"dropout": 0.3}, epochs=3, batch_size=30, learning_rate=0.05,
            optimizer="sgd", schedule="constant", trainer={"max_grad_norm": 0.0}, threads=1,
        )
    )  # fmt: skip


def test_scores_are_those_of_the_stored_logits_before_and_after_the_temperature(run, folder):
    detector = Detector(run, passes=4, seed=5)
    scored = detector.score("in", read_rows(folder / "test.npz", "test", labelled=False))
    temperature = run.metrics()["temperature"]
    found = scored.scores(temperature)
    raw = predictions_of_run(run, "test").values.astype(np.float64)
    for name, function in ood.SCORES.items():
        assert np.allclose(found[name, "uncalibrated"], function(raw), atol=1e-3)
        assert np.allclose(found[name, "calibrated"], function(raw / temperature), atol=1e-3)
    passes = dropout_with_checkpoint(run.model, read_rows(folder / "test.npz", "test"), passes=4, seed=5)
    mean = passes.probabilities(1 / temperature)
    largest = mean.max(axis=1)
    assert np.allclose(found["mc_msp", "uncalibrated"], np.log(largest / (1 - largest)), atol=1e-6)
    assert np.allclose(found["mc_entropy", "uncalibrated"], (mean * np.log(mean)).sum(axis=1), atol=1e-6)


def test_the_confidence_shown_for_mc_dropout_is_the_one_it_is_scored_by(run, folder):
    scored = Detector(run, passes=4).score("in", read_rows(folder / "test.npz", "test", labelled=False))
    temperature = 2.5  # far from 1, so that the stages differ
    confidence = scored.confidences(temperature)["mc_dropout"]
    score = scored.scores(temperature)["mc_msp", "uncalibrated"]
    assert np.allclose(np.log(confidence / (1 - confidence)), score, atol=1e-6)


def test_the_command(calmix, run, folder):
    code, out, err = calmix(
        "ood", run.path, "--in", folder / "test.npz", "--out", f"others={folder / 'other.npz'}", "--noise",
        "gaussian", "--mc-dropout", 3, "--json",
    )  # fmt: skip
    assert code == 0, err
    result = json.loads(out)
    assert [one["name"] for one in result["sets"]] == ["in-domain rows", "others", "gaussian noise"]
    assert [one["rows"] for one in result["sets"]] == [60, 50, 60]
    stages = {(found["out"], found["stage"]) for found in result["scores"]}
    assert len(stages) == 4
    assert {found["score"] for found in result["scores"]} == {*ood.SCORES, "mc_msp", "mc_entropy"}
    by = {(found["out"], found["score"], found["stage"]): found for found in result["scores"]}
    for found in result["scores"]:
        for metric in result["metrics"]:
            assert 0 <= found[metric] <= 1
            assert found[f"{metric}_ci"][0] <= found[f"{metric}_ci"][1]
    # The largest logit is only stretched by a temperature.
    before, after = (by["others", "max_logit", stage] for stage in ("uncalibrated", "calibrated"))
    assert before["auroc"] == pytest.approx(after["auroc"])
    shares = result["histograms"]["shares"]
    assert all(sum(heights) == pytest.approx(1) for one in shares.values() for heights in one.values())
    page = (run.path / "ood.html").read_text()
    assert result["report"] == str(run.path / "ood.html")
    for said in ("Does the model detect", "gaussian noise", "confidence, MC", "FPR@95"):
        assert said in page


def test_the_saved_threshold_is_the_one_that_predict_rejects_by(calmix, run, folder, tmp_path):
    code, out, err = calmix("ood", run.path, "--out", f"others={folder / 'other.npz'}", "--keep-rate", 0.8)
    assert code == 0, err
    saved = json.loads((run.path / "ood.json").read_text())
    rule = saved["rejection"]
    assert f"threshold: {run.path / 'ood.json'}" in out
    assert "AUROC" in saved["verdicts"][0]
    for line in saved["verdicts"]:
        assert line in out
    assert saved["recommended"]["reason"] in out
    # From the validation rows alone: the conformal quantile of their scores.
    logits = predictions_of_run(run, "validation", calibrated=True).values
    scores = np.sort(ood.SCORES[rule["score"]](logits))
    place = int((len(scores) + 1) * 0.2 + 1e-9)
    assert (rule["rows"], rule["keep"]) == (len(scores), 0.8)
    assert rule["threshold"] == (scores[place - 1] if place else None)
    answers = tmp_path / "a.jsonl"
    code, out, err = calmix(
        "predict", run.path, "--input", folder / "other.npz", "--output", answers, "--reject-ood",
        "--accept-above", 0.01, "--json",
    )  # fmt: skip
    assert code == 0, err
    rows = [json.loads(line) for line in answers.read_text().splitlines()]
    rejected = [row["reject_ood"] for row in rows]
    assert np.mean(rejected) == pytest.approx(rule["rejected"]["others"])
    assert [row["accept"] for row in rows] == [not value for value in rejected]
    assert json.loads(out)["rejected_ood"] == sum(rejected)


def test_without_in_the_run_s_own_test_is_the_familiar_set(calmix, run, folder):
    code, out, err = calmix("ood", run.path, "--out", folder / "other.npz", "--mc-dropout", 0, "--json")
    assert code == 0, err
    result = json.loads(out)
    assert [one["name"] for one in result["sets"]] == ["test", "other"]
    assert {found["score"] for found in result["scores"]} == set(ood.SCORES)
    code, out, err = calmix("ood", run.path, "--out", folder / "other.npz")
    assert code == 0, err
    assert "largest logit" in out


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ([], "nothing to compare; give --out NAME=FILE or --noise gaussian"),
        (["--noise", "pink"], "--noise is 'pink'; there is gaussian"),
        (["--out", "gone.npz"], "gone.npz: no such file"),
        (["--out", "a=x.npz", "--out", "A=y.npz"], "two sets are named 'A'"),
        (["--out", "test=x.npz"], "two sets are named 'test'"),
        (["--out", "in=gone.npz"], "gone.npz: no such file"),
        (["--noise", "gaussian", "--mc-dropout", "-1"], "--mc-dropout is -1"),
        (["--noise", "gaussian", "--seed", "-1"], "--seed is -1; give a whole number of at least 0"),
        (
            ["--noise", "gaussian", "--batch-size", "0"],
            "--batch-size is 0; give a whole number of at least 1",
        ),
        (["--noise", "gaussian", "--output", "."], "the output is a directory; name a file"),
        (["--noise", "gaussian", "--output", f"{__file__}/ood.html"], "a file is in the way"),
    ],
)
def test_bad_input_is_one_line(calmix, run, more, said):
    code, _, err = calmix("ood", run.path, *more)
    assert code == 2
    assert said in err
    assert len(err.strip().splitlines()) == 1


def test_a_test_with_a_name_is_not_taken_for_familiar(calmix, run, folder, tmp_path):
    code, _, err = calmix(
        "train", "--train", folder / "train.npz", "--test", f"books={folder / 'test.npz'}", "--model",
        "resnet-small", "--epochs", 1, "--batch-size", 60, "--output", tmp_path / "run",
    )  # fmt: skip
    assert code == 0, err
    code, _, err = calmix("ood", tmp_path / "run", "--out", folder / "other.npz", "--mc-dropout", 0)
    assert code == 2
    assert "this run was tested only on books, which may be other data; give --in FILE" in err
    given = ["--in", folder / "test.npz", "--out", folder / "other.npz", "--mc-dropout", 0]
    code, _, err = calmix("ood", tmp_path / "run", *given)
    assert code == 0, err


def test_rows_that_have_changed_can_be_given_with_in(calmix, run, folder, tmp_path):
    shutil.copytree(run.path, tmp_path / "run")
    config = {**run.config(), "test": [str(folder / "train.npz")]}
    (tmp_path / "run" / "config.yaml").write_text(yaml.safe_dump(config))
    code, _, err = calmix("ood", tmp_path / "run", "--out", folder / "other.npz")
    assert code == 2
    assert "the rows of 'test' have changed since the run; give the rows with --in FILE" in err


def test_the_familiar_rows_can_stand_in_a_configuration_file(calmix, run, folder, tmp_path):
    options = {"in": str(folder / "test.npz"), "out": str(folder / "other.npz"), "mc-dropout": 0}
    (tmp_path / "ood.yaml").write_text(yaml.safe_dump(options))
    code, out, err = calmix("ood", run.path, "--config", tmp_path / "ood.yaml", "--json")
    assert code == 0, err
    assert [one["name"] for one in json.loads(out)["sets"]] == ["in-domain rows", "other"]


@pytest.mark.parametrize(("more", "said"), [([], "largest logit"), (["--json"], '"auroc"')])
def test_the_result_is_printed_before_the_page_is_written(run, folder, more, said, monkeypatch, capsys):
    from calmix.cli.app import main

    def fail(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr("calmix.report.ood.ood_report.write_page", fail)
    arguments = ["ood", run.path, "--out", folder / "other.npz", "--mc-dropout", 0, *more]
    with pytest.raises(OSError, match="No space"):
        main([str(argument) for argument in arguments])
    out = capsys.readouterr().out
    assert said in out
    assert "report: " not in out


def test_pixel_noise_has_the_mean_and_variance_of_training():
    statistics = PixelStatistics((0.2, 0.5, 0.7), (0.1, 0.2, 0.3), gray=False)
    noise = NoiseImages(200, (16, 16), statistics, mean=(0.4, 0.4, 0.4), std=(0.5, 0.5, 0.5))
    values = stack_pixels([noise[i] for i in range(200)])["pixel_values"]
    pixels = values * 0.5 + 0.4  # as they were before they were normalised
    assert np.allclose(pixels.mean(dim=(0, 2, 3)), statistics.mean, atol=0.005)
    assert np.allclose(pixels.std(dim=(0, 2, 3)), statistics.std, atol=0.005)
    assert torch.equal(values[7], torch.from_numpy(noise[7]["pixel_values"])), "a row is always the same"
    gray = NoiseImages(2, (4, 4), PixelStatistics((0.2,) * 3, (0.1,) * 3, gray=True), (0.2,) * 3, (0.1,) * 3)
    assert np.array_equal(gray[0]["pixel_values"][0], gray[0]["pixel_values"][2])


def test_normalised_by_the_training_images_noise_is_standard_normal(run):
    stored = run.metrics()["pixels"]
    processor = load_inputs(run.model, load_trained(run.model)).processor
    statistics = PixelStatistics(tuple(stored["mean"]), tuple(stored["std"]), stored["gray"])
    noise = NoiseImages(300, (8, 8), statistics, processor.image_mean, processor.image_std)
    values = stack_pixels([noise[i] for i in range(300)])["pixel_values"]
    assert abs(values.mean().item()) < 0.02
    assert abs(values.std().item() - 1) < 0.02


@pytest.mark.parametrize("kind", ["text-cnn", "bert", "roberta"])
def test_words_become_noise_of_the_embedding_table(kind, encoders):
    texts, names = sentences(30, seed=2)
    rows = Rows.from_columns(
        [str(i) for i in range(30)], texts, labels=[int(n == "positive") for n in names], label_names="ab"
    )
    if kind == "text-cnn":
        options = {"vectors": "random"}
        model, inputs = build_text_cnn(rows, rows.label_names, seed=0, max_length=30, options=options)
    else:
        from calmix.models.inputs import TextInputs
        from calmix.models.loading import load_classifier, load_tokenizer

        directory = str(encoders(kind))
        inputs = TextInputs(load_tokenizer(directory), 30)
        model = load_classifier(directory, task="single", label_names=rows.label_names, seed=0)
    model.eval()
    encoded = inputs.encode(rows)
    batch = inputs.collator()([encoded[i] for i in range(30)])
    batch.pop("labels")
    seen = []
    embeddings = model.get_input_embeddings()
    with torch.no_grad():
        plain = model(**batch).logits
        with noise_for_words(model, seed=1):
            handle = embeddings.register_forward_hook(lambda module, args, output: seen.append(output))
            first, again = model(**batch).logits, model(**batch).logits
            handle.remove()
        assert torch.equal(model(**batch).logits, plain), "outside, words are words again"
        with noise_for_words(model, seed=2):
            other = model(**batch).logits
    assert torch.equal(first, again)
    assert not torch.allclose(first, plain)
    assert not torch.allclose(first, other)
    drawn = seen[0].flatten(0, 1)
    table = embeddings.weight.detach()
    kept = torch.arange(len(table)) != (embeddings.padding_idx if embeddings.padding_idx is not None else -1)
    deviation = table[kept].std(dim=0, correction=0)
    error = deviation / len(drawn) ** 0.5
    assert ((drawn.mean(dim=0) - table[kept].mean(dim=0)).abs() < 5 * error).all()
    assert torch.allclose(drawn.std(dim=0), deviation, rtol=0.2)


def test_a_text_run_against_other_texts_and_noise(calmix, reviews, tmp_path):
    code, _, err = calmix(
        "train", "--train", reviews / "train.csv", "--test", reviews / "test.csv", "--model", "text-cnn",
        "--model-option", "vectors=random", "--epochs", 2, "--output", tmp_path / "run",
    )  # fmt: skip
    assert code == 0, err
    code, out, err = calmix(
        "ood", tmp_path / "run", "--out", f"other={reviews / 'other.csv'}", "--noise", "gaussian", "--json"
    )
    assert code == 0, err
    result = json.loads(out)
    assert [one["name"] for one in result["sets"]] == ["test", "other", "gaussian noise"]
    assert result["mc_dropout"] == 0  # ten passes would take ten times as long
    assert {found["score"] for found in result["scores"]} == set(ood.SCORES)


def test_a_network_without_dropout_says_so_and_gives_the_other_scores(calmix, folder, run, tmp_path):
    code, _, err = calmix(
        "train", "--train", folder / "train.npz", "--test", folder / "test.npz", "--model", "resnet-small",
        "--epochs", 1, "--batch-size", 60, "--output", tmp_path / "run",
    )  # fmt: skip
    assert code == 0, err
    code, out, err = calmix(
        "ood", tmp_path / "run", "--out", folder / "other.npz", "--mc-dropout", 2, "--json"
    )
    assert code == 0, err
    result = json.loads(out)
    assert result["mc_dropout"] == 0
    assert "has no dropout" in result["notes"][0]


def test_a_comparison_shows_its_methods_side_by_side(calmix, folder, run, tmp_path):
    shared = ["--train", folder / "train.npz", "--test", folder / "test.npz", "--model", "resnet-small",
              "--model-option", "dropout=0.3", "--epochs", 1, "--batch-size", 60, "--threads", 1]  # fmt: skip
    code, _, err = calmix(
        "compare", *shared, "--methods", "plain,input-mixup", "--seeds", "0,1", "--keep-models", "all",
        "--output", tmp_path / "comparison",
    )  # fmt: skip
    assert code == 0, err
    question = ["--out", f"others={folder / 'other.npz'}", "--mc-dropout", 2]
    code, out, err = calmix("ood", tmp_path / "comparison", *question, "--noise", "gaussian", "--json")
    assert code == 0, err
    assert "[4/4] input-mixup, seed 1" in err
    result = json.loads(out)
    assert [(one["arm"], one["seed"]) for one in result["runs"]] == [
        ("plain", 0), ("plain", 1), ("input-mixup", 0), ("input-mixup", 1),
    ]  # fmt: skip
    # The numbers are those of the command on each run.
    alone = []
    for one in result["runs"][2:]:
        code, out, err = calmix("ood", one["run"], *question, "--json")
        assert code == 0, err
        alone.append(
            next(s for s in json.loads(out)["scores"] if (s["score"], s["stage"]) == ("energy", "calibrated"))
        )
    wanted = {"out": "others", "arm": "input-mixup", "score": "energy", "stage": "calibrated"}
    (record,) = [one for one in result["summary"] if wanted.items() <= one.items()]
    assert record["seeds"] == 2
    assert record["auroc_mean"] == pytest.approx(np.mean([one["auroc"] for one in alone]))
    assert record["fpr95_std"] == pytest.approx(np.std([one["fpr95"] for one in alone], ddof=1))
    page = (tmp_path / "comparison" / "ood.html").read_text()
    for said in ("Which method detects", "gaussian noise", "MC dropout", "input-mixup"):
        assert said in page
    code, out, err = calmix("ood", tmp_path / "comparison", *question)
    assert code == 0, err
    assert "mean ± standard deviation over 2 seeds" in " ".join(out.split())
    assert "has the highest AUROC" in out
    for one in result["runs"]:
        saved = json.loads((Path(one["run"]) / "ood.json").read_text())["rejection"]
        assert [saved[key] for key in ("threshold", "rows")] == [
            one["rejection"][key] for key in ("threshold", "rows")
        ]
    dropped = Path(result["runs"][3]["run"]) / "model"
    dropped.rename(dropped.with_name("gone"))
    code, out, err = calmix("ood", tmp_path / "comparison", *question)
    assert code == 0, err
    page = (tmp_path / "comparison" / "ood.html").read_text()
    for said in (
        "1 of 4 runs has no saved model and is left out: input-mixup (seed 1)",
        "input-mixup: the number is of one model and has no spread over seeds",
    ):
        assert f"note: {said}" in " ".join(out.split())
        assert said in page
    for kept in (tmp_path / "comparison" / "runs").glob("*/model"):
        kept.rename(kept.with_name("gone"))
    code, _, err = calmix("ood", tmp_path / "comparison", *question)
    assert code == 2
    assert "no model of this comparison was kept" in err


def test_histograms_count_every_row_once():
    logits = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    one = Scored("in", logits, None)
    heights = histograms([one], 2.0)["shares"]["in"]
    expected = softmax(logits.astype(float) * 2.0, axis=1).max(axis=1)
    counted = np.histogram(expected, np.linspace(0, 1, 26))[0] / 40
    assert heights["uncalibrated"] == pytest.approx(counted.tolist())


def test_it_is_said_that_row_weights_do_not_count(run, folder, monkeypatch):
    def weighted(*arguments, **options):
        found = predictions_of_run(*arguments, **options)
        return found.with_rows(weights=np.arange(1.0, len(found) + 1))

    rows = [read_rows(folder / name, "test", labelled=False) for name in ("test.npz", "other.npz")]
    plain = detect(run, rows[0], {"others": rows[1]})
    monkeypatch.setattr("calmix.inference.out_of_distribution.predictions_of_run", weighted)
    found = detect(run, rows[0], {"others": rows[1]})
    assert found["rejection"] == plain["rejection"]
    assert plain["notes"] == [] and "row weights have no part" in found["notes"][0]
