"""Teachers and students in one recipe: which arms there are, and that a teacher is made once."""

from __future__ import annotations

import dataclasses
import json
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file

from calmix.experiments.comparison import compare, drop_teachers
from calmix.experiments.comparison_plan import CompareConfig
from calmix.experiments.grid import expand, reference_of
from calmix.training.configuration import TAUGHT, TrainConfig
from calmix.training.distillation import teaching
from calmix.training.distillation.teaching import teacher_config
from calmix.training.pipeline.fingerprint import Fingerprints
from calmix.training.pipeline.run_store import RunStore
from calmix.training.pipeline.stages import run_for
from calmix.user_error import UserError

BASE = TrainConfig(train="train.csv", output="out")


def names(arms):
    return [arm.name for arm in arms]


def test_a_student_is_an_arm_and_plain_stands_beside_it():
    arms = expand(
        BASE,
        ["plain:teacher=informed-mixup:distill_temperature=2", "cls-mixup:teacher=[plain,input-mixup]"],
        {},
    )
    assert names(arms) == [
        "plain",
        "plain teacher=informed-mixup distill_temperature=2",
        "cls-mixup teacher=[plain,input-mixup]",
    ]
    assert [arm.is_plain for arm in arms] == [True, False, False]
    configs = [arm.config(BASE, 3) for arm in arms]
    assert [config.teacher for config in configs] == [(), ("informed-mixup",), ("plain", "input-mixup")]
    assert (configs[1].distill_temperature, configs[1].label_weight) == (2.0, 0.5)


def test_how_to_teach_concerns_students_only():
    vary = {"distill_temperature": [1, 2], "teacher": ["none", "plain"]}
    assert names(expand(BASE, ["plain"], vary)) == [
        "plain", "plain distill_temperature=1 teacher=plain", "plain distill_temperature=2 teacher=plain",
    ]  # fmt: skip
    arms = expand(BASE, ["plain", "plain:teacher=plain", "focal"], {"label_weight": [0.1, 0.9]})
    assert names(arms) == [
        "plain", "plain teacher=plain label_weight=0.1", "plain teacher=plain label_weight=0.9", "focal",
    ]  # fmt: skip
    with pytest.raises(UserError, match="distill_temperature without a teacher"):
        expand(BASE, ["plain:distill_temperature=2"], {})
    with pytest.raises(UserError, match="distill_temperature is 0"):
        expand(BASE, ["plain:teacher=plain:distill_temperature=0"], {})


def test_the_reference_of_a_cut_student_is_the_cut_network_taught_by_nobody():
    methods = [
        "plain",
        "plain:student_layers=3",
        "plain:teacher=plain",
        "plain:teacher=plain:student_layers=3",
    ]
    arms = expand(BASE, methods, {})
    references = {arm.name: reference_of(arm, arms).name for arm in arms}
    assert references["plain teacher=plain"] == "plain"
    assert references["plain teacher=plain student_layers=3"] == "plain student_layers=3"


def test_a_teacher_is_the_run_of_its_own_arm():
    base = dataclasses.replace(BASE, method_options={"alpha": 0.7})
    arms = {
        arm.name: arm.config(base, 1)
        for arm in expand(
            base,
            [
                "input-mixup", "plain:teacher=input-mixup:student_layers=2", "plain:label_smoothing=0.1",
                "plain:teacher=plain:teacher_label_smoothing=0.1:distill_temperature=4",
            ],
            {},
        )
    }  # fmt: skip
    student = arms["plain teacher=input-mixup student_layers=2"]
    assert teacher_config(student, "input-mixup") == arms["input-mixup"]
    (_, alone) = expand(base, ["plain:teacher=input-mixup:student_layers=2"], {})
    assert alone.config(base, 1) == student, "though no arm has such an option"
    smoothed = arms["plain teacher=plain teacher_label_smoothing=0.1 distill_temperature=4"]
    assert teacher_config(smoothed, "plain") == arms["plain label_smoothing=0.1"]


def test_a_teacher_of_another_network_is_trained_by_settings_that_suit_it():
    cnn = dataclasses.replace(BASE, model="text-cnn", teacher="plain", teacher_model="default")
    with pytest.raises(UserError, match=r"teacher_model=default .* train it with calmix train, then give"):
        teacher_config(cnn, "plain")
    images = dataclasses.replace(
        BASE, model="vgg16", model_options={"dropout": 0.3}, teacher="plain", teacher_model="resnet18"
    )
    assert teacher_config(images, "plain").model_options == {}, "those are the student's"
    same = dataclasses.replace(images, teacher_model=None)
    assert teacher_config(same, "plain").model_options == {"dropout": 0.3}


def test_unlabelled_rows_are_read_once_for_all_fingerprints(tiny, monkeypatch):
    prints, base = Fingerprints(), tiny("x", teacher="plain")
    base = dataclasses.replace(base, unlabelled=base.test[0])
    first = prints.of(base)
    monkeypatch.setattr(teaching, "read_rows", None)
    assert prints.of(dataclasses.replace(base, seed=1)) != first


def test_what_is_not_a_student_keeps_its_saved_form():
    saved = BASE.as_dict()
    assert not set(saved) & {*TAUGHT, "student_layers"}, "older runs keep their fingerprints"
    student = dataclasses.replace(BASE, teacher="plain", distill_temperature=2.0, student_layers=3)
    assert TrainConfig.from_dict(json.loads(json.dumps(student.as_dict()))) == student
    assert student.differences(BASE)[:3] == ["student_layers", "teacher", "distill_temperature"]
    assert set(BASE.differences(student)) == set(student.differences(BASE))
    assert not student.differences(dataclasses.replace(student, output="elsewhere"))
    assert student.without_teacher() == dataclasses.replace(BASE, student_layers=3)


def test_everything_about_a_teacher_decides_the_fingerprint(tiny, tmp_path):
    prints = Fingerprints()
    base = tiny("x")
    run = tmp_path / "teacher"
    shutil.copytree(base.model, run)
    others = [
        {"teacher": "plain"},
        {"teacher": "plain", "distill_temperature": 2.0},
        {"teacher": "plain", "label_weight": 0.1},
        {"teacher": "plain", "teacher_temperature": False},
        {"teacher": "plain", "teacher_label_smoothing": 0.1},
        {"teacher": "input-mixup"},
        {"teacher": str(run)},
        {"teacher": "plain", "unlabelled": base.test[0]},
        {"student_layers": 1},
    ]
    found = {prints.of(dataclasses.replace(base, **changes)) for changes in [{}, *others]}
    assert len(found) == len(others) + 1
    moved = tmp_path / "moved"
    shutil.copytree(run, moved)
    assert prints.of(tiny("x", teacher=str(run))) == prints.of(tiny("x", teacher=str(moved)))
    (moved / "config.json").write_text((moved / "config.json").read_text().replace("0.1", "0.2"))
    assert prints.of(tiny("x", teacher=str(run))) != Fingerprints().of(tiny("x", teacher=str(moved)))


def test_a_teacher_is_trained_once_and_its_answers_outlive_its_weights(tiny, tmp_path):
    store = RunStore(tmp_path / "runs")
    first = run_for(store, tiny("x", epochs=1, teacher="plain"))
    teacher = store.run(store.fingerprints.of(tiny("x", epochs=1)))
    assert teacher.is_finished
    before = teacher.metrics_file.stat().st_mtime_ns
    weights = load_file(teacher.model / "model.safetensors")
    assert len(list(teacher.teaching.glob("*.npy"))) == 1
    assert not first.teaching.exists(), "what a first stage says is kept with it"
    store.drop_model(teacher.path.name)
    second = run_for(store, tiny("x", epochs=1, teacher="plain", distill_temperature=2.0))
    assert second != first
    assert not teacher.model.exists()
    assert teacher.metrics_file.stat().st_mtime_ns == before
    # Rows that it was never asked about: it is randomly initialised, and is what it was.
    wider = tiny("x", epochs=1, teacher="plain", unlabelled=tiny("x").test[0])
    student = run_for(store, wider)
    elsewhere = run_for(RunStore(tmp_path / "others"), wider)
    assert student.metrics()["splits"] == elsewhere.metrics()["splits"], "to the bit, whoever was made when"
    again = load_file(teacher.model / "model.safetensors")
    assert all(np.array_equal(weights[name], again[name]) for name in weights)
    assert len(list(teacher.teaching.glob("*.npy"))) == 2


def test_a_comparison_of_teacher_and_student(tiny, tmp_path):
    base = tiny(tmp_path / "comparison", epochs=1)
    methods = ("plain:teacher=plain:teacher_label_smoothing=0.2:teacher_temperature=false",)
    results = compare(CompareConfig(base, methods=methods, seeds=(0,)))
    assert not results.failures
    assert len({record["run"] for record in results.runs}) == 2
    arm = results.arms[1]
    assert reference_of(arm, results.arms).name == "plain"
    assert {d["reference"] for d in results.differences if d["arm"] == arm.name} >= {"plain"}
    store = RunStore(tmp_path / "comparison" / "runs")
    made = arm.config(dataclasses.replace(base, threads=1), 0)
    teacher = store.run(store.fingerprints.of(teacher_config(made, "plain")))
    assert teacher.is_finished
    assert not teacher.model.exists(), "no arm of its own: only what it said is kept"
    assert list(teacher.teaching.glob("*.npy"))
    drop_teachers(store, [], [made])  # again, and nothing happens
