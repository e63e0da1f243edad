"""`calmix distill` from files to a finished student."""

from __future__ import annotations

import dataclasses
import json
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml
from safetensors.numpy import load_file

from calmix.cli import distill
from calmix.io.manifest import make_manifest
from calmix.runtime.progress import Progress
from calmix.training.configuration import TrainConfig
from calmix.training.distillation.teacher_logits import inputs_fingerprint
from calmix.training.model_settings import TEXT_CNN, with_model_settings
from tiny import read_json


def settings(reviews, output):
    return [
        "--train", reviews / "train.csv", "--validation", reviews / "validation.csv",
        "--test", reviews / "test.csv", "--output", output, "--learning-rate", "2e-3", "--epochs", "2",
        "--threads", "1",
    ]  # fmt: skip


@pytest.fixture(scope="module")
def teacher(reviews, encoders, tmp_path_factory):
    from calmix.cli.app import main

    run = tmp_path_factory.mktemp("teacher") / "run"
    arguments = ["train", *settings(reviews, run), "--model", encoders("bert", layers=3)]
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    assert not ended.value.code
    return run


def test_a_comparison_does_not_teach_but_its_runs_do(calmix, reviews, encoders, tmp_path):
    comparison = tmp_path / "comparison"
    comparison.mkdir()
    (comparison / "config.yaml").write_text(yaml.safe_dump({"model": str(encoders("bert"))}))
    (comparison / "cells.json").write_text("{}")
    code, _, err = calmix("distill", *settings(reviews, tmp_path / "student"), "--teacher", comparison)
    assert code == 2
    assert f"this is a comparison, not a run; name one of its runs, in {comparison / 'runs'}" in err


@pytest.fixture
def student(calmix, reviews, teacher, tmp_path):
    """A student of fewer layers, and the arguments that made it."""
    arguments = [
        "distill", *settings(reviews, tmp_path / "student"), "--teacher", teacher, "--student-layers", 2,
        "--distill-temperature", 2, "--label-weight", 0.3, "--unlabelled", reviews / "other.csv",
        "--checkpoint-steps", 2,
    ]  # fmt: skip
    code, out, err = calmix(*arguments, "--json")
    assert code == 0, err
    return tmp_path / "student", arguments, json.loads(out)


def test_a_student_of_fewer_layers_learns_labels_and_answers(student, teacher, reviews, calmix, tmp_path):
    run, _, metrics = student
    taught = metrics["distillation"]
    assert [one["name"] for one in taught["teachers"]] == [str(teacher)]
    assert (taught["distill_temperature"], taught["label_weight"], taught["unlabelled"]) == (2.0, 0.3, 40)
    assert taught["teachers"][0]["temperature"] == read_json(teacher / "metrics.json")["temperature"]
    model = read_json(run / "model" / "config.json")
    assert model["num_hidden_layers"] == 2, "the teacher's own network, cut"
    kept = np.load(run / "teaching" / "teacher-1.npy")
    assert kept.shape == (96 + 40, 2)
    code, _, err = calmix(
        "predict", teacher, "--input", reviews / "train.csv", "--output", tmp_path / "answers.parquet"
    )
    assert code == 0, err
    said = pq.read_table(tmp_path / "answers.parquet")["prob_positive"].to_numpy()
    assert said == pytest.approx(1 / (1 + np.exp(kept[:96, 0] - kept[:96, 1])), abs=1e-5), "calibrated"
    assert pq.read_table(run / "dynamics.parquet").num_rows == 96
    report, card = (run / "report.html").read_text(), (run / "model" / "README.md").read_text()
    assert "τ = 2, α = 0.3" in report
    assert "its calibrated predictions" in report
    assert "calmix distill --config config.yaml" in report
    assert "distilled from run (temperature τ = 2, weight of the labels α = 0.3)" in card
    assert str(teacher) not in card, "a card goes round, paths stay here"


def test_a_saved_configuration_repeats_the_student(student, calmix, tmp_path):
    run, _, _ = student
    code, _, err = calmix("distill", "--config", run / "config.yaml", "--output", tmp_path / "again")
    assert code == 0, err
    first, again = (load_file(r / "model" / "model.safetensors") for r in (run, tmp_path / "again"))
    assert all(np.array_equal(first[name], again[name]) for name in first)


def test_a_student_that_was_cut_off_ends_with_the_same_bits(student, calmix, tmp_path, monkeypatch):
    run, arguments, _ = student
    arguments = [tmp_path / "broken" if argument == run else argument for argument in arguments]

    def stop(self, args, state, control, **kwargs):
        if state.global_step == 7:
            raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(Progress, "on_step_end", stop)
        with pytest.raises(MemoryError):
            calmix(*arguments)
    answers = tmp_path / "broken" / "teaching" / "teacher-1.npy"
    written = answers.stat().st_mtime_ns
    code, _, err = calmix("distill", "--resume", "--output", tmp_path / "broken")
    assert code == 0, err
    assert answers.stat().st_mtime_ns == written, "the teacher was not asked again"
    first, again = (load_file(r / "model" / "model.safetensors") for r in (run, tmp_path / "broken"))
    assert all(np.array_equal(first[name], again[name]) for name in first)
    metrics = [read_json(r / "metrics.json") for r in (run, tmp_path / "broken")]
    for one in metrics:
        del one["seconds"]
    assert metrics[0] == metrics[1]


def cut_off(calmix, reviews, teacher, tmp_path, monkeypatch, *more, step):
    """A student of a teacher of its own and of unlabelled rows, stopped after a step."""
    own, extra = tmp_path / "own-teacher", tmp_path / "extra.csv"
    shutil.copytree(teacher, own)
    shutil.copy(reviews / "other.csv", extra)
    call = ["distill", *settings(reviews, tmp_path / "run"), "--teacher", own, "--unlabelled", extra, *more]

    def stop(self, args, state, control, **kwargs):
        if state.global_step == step:
            raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(Progress, "on_step_end", stop)
        with pytest.raises(MemoryError):
            calmix(*call)
    return own, extra, call


def become_another(run):
    """Another finished run at the same place."""
    config, metrics = run / "model" / "config.json", read_json(run / "metrics.json")
    config.write_text(json.dumps({**read_json(config), "hidden_dropout_prob": 0.2}))
    metrics["files"].update(make_manifest(run, [config]))
    (run / "metrics.json").write_text(json.dumps(metrics))


def test_answers_of_another_time_are_refused_on_resume(calmix, reviews, teacher, tmp_path, monkeypatch):
    own, extra, arguments = cut_off(calmix, reviews, teacher, tmp_path, monkeypatch, step=1)
    extra.write_text(extra.read_text() + "one more film,positive\n")
    code, _, err = calmix(*arguments, "--resume")
    assert code == 2
    assert "the teacher's logits were made for other data (136 rows)" in err
    shutil.copy(reviews / "other.csv", extra)
    become_another(own)
    code, _, err = calmix(*arguments, "--resume")
    assert code == 2
    assert "the teacher's logits were made by another teacher" in err
    file = tmp_path / "run" / "teaching" / "teacher-1.json"
    file.write_text(json.dumps({**read_json(file), "label_names": ["positive", "negative"]}))
    code, _, err = calmix(*arguments, "--resume")
    assert code == 2
    assert "were made for the labels positive, negative, in this order" in err


def test_a_student_goes_on_with_the_same_unlabelled_rows_and_teacher_only(
    calmix, reviews, teacher, tmp_path, monkeypatch
):
    own, extra, arguments = cut_off(
        calmix, reviews, teacher, tmp_path, monkeypatch, "--checkpoint-steps", 1, step=2
    )
    shutil.rmtree(tmp_path / "run" / "teaching")  # as if nothing had been asked yet
    extra.write_text(extra.read_text() + "one more film,positive\n")
    code, _, err = calmix(*arguments, "--resume")
    assert code == 2
    assert "the data files have changed since the run began (unlabelled rows); start a new run" in err
    shutil.copy(reviews / "other.csv", extra)
    become_another(own)
    code, _, err = calmix(*arguments, "--resume")
    assert code == 2
    assert "the teacher has changed since the run began (teacher 1); start a new run" in err


def test_a_mixed_student_of_another_family_learns_from_several(calmix, reviews, teacher, encoders, tmp_path):
    from calmix.data.reading import read_rows

    code, out, err = calmix(
        "distill", *settings(reviews, tmp_path / "student"), "--teacher", teacher, "--teacher", "plain",
        "--teacher-model", encoders("bert", layers=1), "--model", encoders("distilbert"), "--method",
        "cls-mixup", "--no-teacher-temperature", "--json",
    )  # fmt: skip
    assert code == 0, err
    metrics = json.loads(out)
    assert [one["name"] for one in metrics["distillation"]["teachers"]] == [str(teacher), "plain"]
    assert metrics["method"] == "cls-mixup"
    facts = read_json(tmp_path / "student" / "teaching" / "teacher-1.json")
    assert facts["inputs"] == inputs_fingerprint(read_rows(reviews / "train.csv", "train"))
    report = (tmp_path / "student" / "report.html").read_text()
    assert "the mean of their uncalibrated predictions" in report
    saved = yaml.safe_load((tmp_path / "student" / "config.yaml").read_text())
    assert saved["teacher"] == [str(teacher), "plain"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "no teacher; give --teacher RUN"),
        (["--teacher", "nobody"], "nobody: no such teacher"),
        (["--teacher", "plain", "--distill-temperature", "0"], "--distill-temperature is 0.0"),
        (["--teacher", "plain", "--label-weight", "2"], "--label-weight is 2.0"),
        (
            ["--teacher", "RUN", "--label-weight", "1", "--unlabelled", "x.csv"],
            "--label-weight 1 leaves it out",
        ),
        (["--teacher", "RUN", "--teacher-model", "default"], "the teacher is trained already"),
        (["--teacher", "RUN", "--student-layers", "9"], "has 3 layers, fewer than 9"),
        (["--teacher", "RUN", "--unlabelled", "x.csv"], "x.csv: no such file"),
        (
            ["--teacher", "RUN", "--unlabelled", "TRAIN", "--method", "cls-mixup"],
            "mixes labels, and some rows",
        ),
    ],
)
def test_bad_input_ends_with_one_line_and_leaves_nothing(
    calmix, reviews, teacher, tmp_path, arguments, expected
):
    known = {"RUN": teacher, "TRAIN": reviews / "train.csv"}
    code, _, err = calmix(
        "distill", *settings(reviews, tmp_path / "run"), *(known.get(a, a) for a in arguments)
    )
    assert code == 2
    assert expected in err
    assert len(err.strip().splitlines()) == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--unlabelled", "missing.csv"], "missing.csv: no such file"),
        (["--student-layers", "9"], "has 1 layers, fewer than 9"),
        (["--teacher", "TRAIN"], "train.csv: no scores"),
        (["--unlabelled", "OTHER", "--method", "cls-mixup"], "cls-mixup mixes labels, and some rows have"),
        (["--model", "nowhere", "--teacher-model", "MODEL"], "nowhere"),
        (["--model", "text-cnn", "--teacher-model", "MODEL"], "train it with calmix train, then give --teac"),
    ],
)
def test_what_is_wrong_with_a_student_is_said_before_its_teacher_is_trained(
    calmix, reviews, encoders, tmp_path, monkeypatch, arguments, expected
):
    monkeypatch.setenv("CALMIX_CACHE", str(tmp_path / "cache"))
    known = {
        "TRAIN": reviews / "train.csv", "OTHER": reviews / "other.csv", "MODEL": encoders("bert", layers=1),
    }  # fmt: skip
    arguments = [known.get(argument, argument) for argument in arguments]
    if "--model" not in arguments:
        arguments += ["--model", known["MODEL"]]
    code, _, err = calmix("distill", *settings(reviews, tmp_path / "run"), "--teacher", "erl", *arguments)
    assert code == 2
    assert expected in err
    assert not (tmp_path / "cache").exists()
    assert not (tmp_path / "run").exists()


def test_a_student_without_a_model_is_like_its_teacher_in_all_that_makes_the_network(
    calmix, tmp_path, monkeypatch
):
    made = []

    def configured(values):
        return dataclasses.asdict(TrainConfig.from_dict(with_model_settings(values)))

    monkeypatch.setattr(distill, "run_training", lambda values, **_: made.append(configured(values)))
    config = {"model": "text-cnn", "model_options": {"dropout": 0.3, "filters": 7}, "epochs": 2}
    for name, more in {
        "cnn": {},
        "cut": {"model": "default", "model_options": {}, "student_layers": 3},
    }.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.yaml").write_text(yaml.safe_dump({**config, **more}))
    always = ["distill", "--train", "train.csv", "--output", "out", "--teacher"]
    calmix(*always, tmp_path / "cnn")
    calmix(*always, tmp_path / "cnn", "--model-option", "filters=9", "--epochs", 4)
    calmix(*always, tmp_path / "cut")
    calmix(*always, tmp_path / "cut", "--student-layers", 2)
    calmix(*always, tmp_path / "cut", "--model", "some/checkpoint")
    calmix(*always, "plain")
    cnn, changed, cut, shorter, other, method = made
    wanted = {**TEXT_CNN, "model": "text-cnn", "model_options": {"dropout": 0.3, "filters": 7}}
    assert {name: cnn[name] for name in wanted} == wanted
    assert cnn["trainer"] == {"max_grad_norm": 0.0}
    assert (changed["epochs"], changed["model_options"]) == (4, {"dropout": 0.3, "filters": 9})
    assert (cut["model"], cut["student_layers"], cut["learning_rate"]) == ("default", 3, None)
    assert shorter["student_layers"] == 2
    assert (other["model"], other["student_layers"]) == ("some/checkpoint", None)
    assert (method["model"], method["student_layers"]) == ("default", None)


def test_anybodys_predictions_teach_by_row_id(calmix, reviews, teacher, encoders, tmp_path):
    files = {name: tmp_path / f"{name}.csv" for name in ("train", "validation")}
    for name, file in files.items():
        head, *lines = (reviews / file.name).read_text().splitlines()
        file.write_text("\n".join([f"id,{head}", *(f"{name[0]}{n},{line}" for n, line in enumerate(lines))]))
    answers = tmp_path / "answers.csv"
    code, _, err = calmix(
        "predict", teacher, "--input", files["train"], "--output", answers, "--id-column", "id"
    )
    assert code == 0, err
    head, *lines = answers.read_text().splitlines()
    answers.write_text("\n".join([head, *reversed(lines)]))  # the order of its rows means nothing
    arguments = [
        "--train", files["train"], "--validation", files["validation"], "--id-column", "id", "--epochs", 1,
        "--threads", 1, "--model", encoders("bert", layers=1), "--train-rows", 40,
    ]  # fmt: skip
    kept = []
    for name, who in {"file": answers, "run": teacher}.items():
        code, _, err = calmix("distill", *arguments, "--teacher", who, "--output", tmp_path / name)
        assert code == 0, err
        kept.append(np.load(tmp_path / name / "teaching" / "teacher-1.npy"))
    margins = [logits[:, 1] - logits[:, 0] for logits in kept]
    assert margins[0].shape == (40,)
    assert margins[0] == pytest.approx(margins[1], abs=1e-4)
    code, _, err = calmix(
        "distill", *settings(reviews, tmp_path / "other"), "--teacher", answers, "--model", encoders("bert")
    )
    assert code == 2
    assert "96 of 96 training rows are not in this file, for example 'train-1'" in err
    assert not (tmp_path / "other").exists()
