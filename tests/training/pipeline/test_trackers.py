"""`--report-to`: what trackers get is what the run found, and a tracker never costs a run."""

from __future__ import annotations

import json
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from calmix.io.run_directory import RunDirectory
from calmix.runtime.optional_packages import check_trackers
from calmix.training.configuration import TrainConfig
from calmix.training.pipeline.fingerprint import Fingerprints
from calmix.training.pipeline.stages import train_staged
from calmix.training.pipeline.trackers import final_metrics
from calmix.user_error import UserError

DIAGRAMS = {
    f"reliability/{split}/{stage}"
    for split in ("validation", "test", "other")
    for stage in ("uncalibrated", "calibrated")
}


@pytest.fixture(scope="module")
def tracked(tiny, tmp_path_factory) -> RunDirectory:
    """A run that was reported to TensorBoard."""
    return train_staged(tiny(tmp_path_factory.mktemp("tracked") / "run", report_to="tensorboard"))


def events_of(directory):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = accumulator.EventAccumulator(str(directory), size_guidance={"images": 0, "scalars": 0})
    return events.Reload()


def as_written(name: str) -> str:
    """As the callbacks but MLflow's write the name of a metric."""
    return name.replace("_", "/", 1)


def test_tensorboard_holds_the_metrics_of_every_split_and_the_diagrams(tracked):
    events = events_of(tracked.tensorboard)
    expected = final_metrics(tracked.metrics())
    splits = tracked.metrics()["splits"]
    assert expected["test_other/calibrated/ece"] == splits["other"]["calibrated"]["ece"]
    assert expected["test_test/uncalibrated/nll_ci_high"] == splits["test"]["uncalibrated"]["nll_ci"][1]
    for name, value in expected.items():
        (found,) = events.Scalars(as_written(name))
        assert (found.step, found.value) == (12, pytest.approx(value, rel=1e-6)), name
    assert set(events.Tags()["images"]) == DIAGRAMS
    (picture,) = events.Images("reliability/other/calibrated")
    assert picture.encoded_image_string.startswith(b"\x89PNG") and picture.width > 300


def test_tensorboard_holds_the_losses_and_the_metrics_of_every_epoch(tracked):
    events = events_of(tracked.tensorboard)
    assert [found.step for found in events.Scalars("train/loss")] == list(range(1, 13))
    nll = [epoch["validation_nll_calibrated"] for epoch in tracked.metrics()["history"]]
    np.testing.assert_allclose([found.value for found in events.Scalars("eval/nll_calibrated")], nll)


def test_reporting_changes_neither_the_result_nor_the_name_of_a_run(tracked, tiny, tmp_path):
    plain = train_staged(tiny(tmp_path / "run"))
    for name in ("validation", "test", "other"):
        assert plain.predictions_file(name).read_bytes() == tracked.predictions_file(name).read_bytes()
    weights = [run.model / "model.safetensors" for run in (plain, tracked)]
    assert weights[0].read_bytes() == weights[1].read_bytes()
    assert not plain.tensorboard.exists() and not tracked.checkpoints.exists()
    configs = [
        tiny(tmp_path / "run", **settings)
        for settings in ({}, {"report_to": ("mlflow",)}, {"trainer": {"run_name": "a", "logging_steps": 5}})
    ]
    assert len({Fingerprints().of(config) for config in configs}) == 1


def test_several_runs_in_one_directory_of_tensorboard_have_their_own_names(tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "board"))
    train_staged(tiny(tmp_path / "a", report_to="tensorboard", epochs=1))
    trainer = {"run_name": "reviews", "logging_strategy": "no"}
    train_staged(tiny(tmp_path / "b", report_to="tensorboard", epochs=1, seed=3, trainer=trainer))
    assert {path.name for path in (tmp_path / "board").iterdir()} == {
        "a-plain-seed0",
        "reviews-b-plain-seed3",
    }
    scalars = events_of(tmp_path / "board" / "reviews-b-plain-seed3").Tags()["scalars"]
    assert "test/other/calibrated/ece" in scalars and "train/loss" not in scalars


def test_a_comparison_reports_every_run(calmix, reviews, encoders, tmp_path):
    data = ("--train", reviews / "train.csv", "--validation", reviews / "validation.csv")
    model = ("--model", encoders("bert", layers=1), "--epochs", 2, "--learning-rate", 5e-3)
    grid = ("--methods", "plain,informed-mixup", "--seeds", "0", "--workers", 1, "--threads", 1)
    place = ("--test", reviews / "test.csv", "--output", tmp_path / "cmp", "--json")
    code, out, err = calmix("compare", *data, *model, *grid, *place, "--report-to", "tensorboard")
    assert code == 0, err
    json.loads(out)
    runs = [RunDirectory(path.parent) for path in (tmp_path / "cmp" / "runs").glob("*/metrics.json")]
    assert len(runs) == 2
    for run in runs:
        (found,) = events_of(run.tensorboard).Scalars("test/test/calibrated/ece")
        assert found.value == pytest.approx(run.metrics()["splits"]["test"]["calibrated"]["ece"], rel=1e-6)


class Wandb(ModuleType):
    """What the callback of transformers and calmix call in wandb, written down."""

    def __init__(self) -> None:
        super().__init__("wandb")
        self.run, self.config = None, SimpleNamespace(update=lambda *_, **__: None)
        self.begun, self.logged, self.ended = [], [], []
        self.fails_at = None

    def init(self, **settings):
        print("a line that must not reach standard output")
        if self.fails_at == "init":
            raise RuntimeError("api_key not configured")
        self.begun.append(settings["name"])
        self.run = SimpleNamespace(summary={}, _label=lambda **_: None)
        self.config = Settings()

    def log(self, values):
        if self.fails_at == "log":
            raise ConnectionError("no route\nto host")
        self.logged.append(values)

    def finish(self, exit_code=None):
        self.ended.append(exit_code)
        self.run = None

    class Image:
        def __init__(self, data):
            self.data = data


class Settings(dict):
    def update(self, values, **_):
        super().update(values)


@pytest.fixture
def wandb(monkeypatch):
    module = Wandb()
    names = ("wandb.sdk", "wandb.sdk.lib", "wandb.sdk.lib.config_util")
    for name in names:
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    sys.modules[names[-1]].ConfigError = RuntimeError
    monkeypatch.setitem(sys.modules, "wandb", module)
    monkeypatch.setattr("transformers.integrations.integration_utils.is_wandb_available", lambda: True)
    return module


def test_every_run_is_one_of_wandb_with_metrics_and_pictures(wandb, tiny, tmp_path, capsys):
    for seed in (0, 1):
        run = train_staged(tiny(tmp_path / f"run{seed}", report_to="wandb", seed=seed))
    assert wandb.begun == ["run0-plain-seed0", "run1-plain-seed1"] and wandb.ended == [0, 0]
    assert capsys.readouterr().out == ""
    logged: dict[str, list] = {}
    for values in wandb.logged:
        for name, value in values.items():
            logged.setdefault(name, []).append(value)
    for name, value in final_metrics(run.metrics()).items():
        assert logged[as_written(name)][-1] == value
    assert all(len(logged[name]) == 2 for name in DIAGRAMS)
    assert logged["reliability/test/calibrated"][0].data.dtype == np.uint8


def test_a_run_that_the_caller_began_is_left_open(wandb, tiny, tmp_path):
    wandb.init(name="mine")
    train_staged(tiny(tmp_path / "run", report_to="wandb", epochs=1))
    assert wandb.begun == ["mine"] and wandb.ended == [] and wandb.run is not None


def test_a_failed_run_is_marked_as_failed(wandb, tiny, tmp_path, monkeypatch):
    def finish(*_):
        raise MemoryError

    monkeypatch.setattr("calmix.training.pipeline.recipe.finish", finish)
    with pytest.raises(MemoryError):
        train_staged(tiny(tmp_path / "run", report_to="wandb", epochs=1))
    assert wandb.ended == [1]


def test_a_tracker_that_cannot_begin_ends_the_run_before_anything_is_written(wandb, tiny, tmp_path):
    wandb.fails_at = "init"
    with pytest.raises(UserError, match="wandb cannot be reported to: api_key not configured; fix it, or"):
        train_staged(tiny(tmp_path / "run", report_to=("tensorboard", "wandb")))
    assert not (tmp_path / "run").exists()


def test_a_tracker_that_fails_later_costs_its_log_alone(wandb, tiny, tmp_path, capsys):
    wandb.fails_at = "log"
    run = train_staged(tiny(tmp_path / "run", report_to="wandb"))
    assert run.is_finished
    lines = [line for line in capsys.readouterr().err.splitlines() if "wandb" in line]
    assert lines == ["wandb failed, and nothing more is reported to it: no route to host"]


def test_a_tracker_that_is_not_installed_is_refused_in_one_line(calmix, reviews, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "trackio").mkdir()  # logs of earlier runs: not the package
    monkeypatch.setattr("calmix.runtime.optional_packages.find_spec", only_directories)
    for verb in (("train",), ("compare", "--methods", "plain", "--seeds", "0")):
        code, out, err = calmix(
            *verb, "--train", reviews / "train.csv", "--output", "out", "--report-to", "trackio"
        )
        assert (code, out) == (2, "")
        assert err == "calmix: --report-to: trackio is not installed; pip install trackio\n"
    with pytest.raises(UserError, match=r"pip install 'calmix\[tensorboard\]'"):
        check_trackers(["tensorboard"])
    assert not (tmp_path / "out").exists()


def only_directories(name):
    return SimpleNamespace(origin=None) if name == "trackio" else None


@pytest.mark.parametrize("value", ["paper", ["tensorboard", "tensorboard"], 3, [1], {"a": 1}])
def test_names_that_are_no_trackers_are_refused(value):
    with pytest.raises(UserError):
        TrainConfig(train="a", output="b", report_to=value)


def test_the_field_of_the_trainer_has_an_option_of_its_own():
    with pytest.raises(UserError, match="report_to is calmix's own; use report_to"):
        TrainConfig(train="a", output="b", trainer={"report_to": "tensorboard"})


def test_mlflow_holds_metrics_and_pictures(tiny, tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "reviews")
    monkeypatch.chdir(tmp_path)
    made = [train_staged(tiny(tmp_path / f"run{seed}", report_to="mlflow", seed=seed)) for seed in (0, 1)]
    assert mlflow.active_run() is None
    runs = mlflow.search_runs(experiment_names=["reviews"], output_format="list")
    named = {run.info.run_name: run for run in runs}
    assert set(named) == {"run0-plain-seed0", "run1-plain-seed1"}
    for seed, run in enumerate(made):
        found = named[f"run{seed}-plain-seed{seed}"]
        assert found.info.status == "FINISHED"
        expected = final_metrics(run.metrics())
        assert {name: found.data.metrics[name] for name in expected} == expected
        files = mlflow.artifacts.list_artifacts(run_id=found.info.run_id, artifact_path="reliability/other")
        assert {file.path for file in files} == {
            f"reliability/other/{stage}.png" for stage in ("calibrated", "uncalibrated")
        }


def test_trackio_holds_metrics_and_pictures(tiny, tmp_path):
    storage = pytest.importorskip("trackio.sqlite_storage").SQLiteStorage
    project = f"calmix-{tmp_path.name}"
    settings = {"report_to": "trackio", "trainer": {"project": project}}
    made = [train_staged(tiny(tmp_path / f"run{seed}", seed=seed, **settings)) for seed in (0, 1)]
    assert set(storage.get_runs(project)) == {"run0-plain-seed0", "run1-plain-seed1"}
    for seed, run in enumerate(made):
        logged = {}
        for values in storage.get_logs(project, f"run{seed}-plain-seed{seed}"):
            logged |= values
        expected = {as_written(name): value for name, value in final_metrics(run.metrics()).items()}
        assert {name: logged[name] for name in expected} == expected
        assert logged.keys() >= DIAGRAMS
