"""Fixtures that all packages share."""

from __future__ import annotations

import csv
import multiprocessing.process
import os
import subprocess
import sys
import tempfile
from functools import wraps
from pathlib import Path

import hypothesis
import pytest

from tiny import build_encoder, sentences

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ["CALMIX_CACHE"] = tempfile.mkdtemp(prefix="calmix-")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# An example takes as long as it takes: the machine may be busy.
hypothesis.settings.register_profile("calmix", deadline=None)
hypothesis.settings.load_profile("calmix")

# Modules that train in most of their tests. Elsewhere single tests carry their mark, and a fixture that
# trains marks its tests (`marking`).
TRAINING = (
    "training/",
    "cli/test_calibrate.py",
    "cli/test_compare.py",
    "cli/test_distill.py",
    "cli/test_images.py",
    "cli/test_map.py",
    "cli/test_predict.py",
    "cli/test_remote_code.py",
    "cli/test_train.py",
    "experiments/test_comparison.py",
    "experiments/test_students.py",
    "inference/test_out_of_distribution.py",
    "mixing/test_choices_pairs_and_images.py",
    "mixing/test_methods.py",
    "mixing/test_own_method_page.py",
)
NOT_TRAINING = (
    "training/label_noise/test_mapped_rows.py",
    "training/pipeline/test_fingerprint.py",
    "training/test_learning.py",
    "training/test_options.py",
)
PROCESSES = (
    "cli/test_first_answer.py",
    "data/test_imports.py",
    "experiments/test_executors.py",
    "test_imports.py",
    "training/test_processes.py",
)
# Coverage and error rates over many simulated samples: seconds each.
SIMULATIONS = ("experiments/test_advice_simulation.py", "experiments/test_bootstrap.py")
# Many figures, whole comparisons or pages: half a second and more for most of their tests.
SLOW = (
    "data/test_embedded.py",
    "experiments/test_recommendation.py",
    "experiments/test_results.py",
    "experiments/test_seed_ensemble.py",
    "experiments/test_summary.py",
    "report/test_figures.py",
    "report/test_hub_upload.py",
    "report/test_model_card.py",
    "report/test_run_report.py",
)

current: list[pytest.Item] = []
"""The test that runs, where `make quick` leaves out those with a mark."""


def pytest_collection_modifyitems(items):
    tests = Path(__file__).parent
    for item in items:
        place = item.path.relative_to(tests).as_posix() if item.path.is_relative_to(tests) else ""
        if place.startswith(TRAINING) and place not in NOT_TRAINING:
            item.add_marker(pytest.mark.trains)
        if place in SIMULATIONS:
            item.add_marker(pytest.mark.simulates)
        if place in SLOW:
            item.add_marker(pytest.mark.slow)
        if place in PROCESSES:
            item.add_marker(pytest.mark.processes)
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.browser)
            item.add_marker(pytest.mark.processes)
        for definitions in getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", {}).values():
            for mark in getattr(definitions[-1].func, "marks", ()):  # see `marking`
                item.add_marker(mark)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    if "not trains" in item.config.option.markexpr:
        current[:] = [item]
        guard_calls()


def guard_calls() -> None:
    """A test that lost its mark fails in `make quick` where it trains or starts a process."""
    guard(subprocess.Popen, "__init__", "processes", "starts a process")
    guard(multiprocessing.process.BaseProcess, "start", "processes", "starts a process")
    trainer = getattr(sys.modules.get("transformers.trainer"), "Trainer", None)
    if trainer is not None:
        guard(trainer, "train", "trains", "trains a network")


def guard(owner, name, mark, what) -> None:
    call = getattr(owner, name)
    if hasattr(call, "is_guarded"):
        return

    @wraps(call)
    def guarded(*args, **kwargs):
        if current and current[0].get_closest_marker(mark) is None:
            pytest.fail(f"this test {what}: give it @pytest.mark.{mark}", pytrace=False)
        return call(*args, **kwargs)

    guarded.is_guarded = True
    setattr(owner, name, guarded)


@pytest.fixture(scope="session")
def encoders(tmp_path_factory):
    """`encoders("bert")` is the directory of a tiny network of that family."""
    root = tmp_path_factory.mktemp("encoders")
    made: dict[str, Path] = {}

    def get(family: str, **settings) -> Path:
        key = family + "".join(f"-{name}{value}" for name, value in sorted(settings.items()))
        if key not in made:
            made[key] = build_encoder(root / key, family, **settings)
        return made[key]

    return get


@pytest.fixture(scope="session")
def reviews(tmp_path_factory) -> Path:
    """A folder with train.csv (96 rows), validation.csv (48), test.csv (48) and other.csv (40)."""
    folder = tmp_path_factory.mktemp("reviews")
    for seed, (name, rows) in enumerate({"train": 96, "validation": 48, "test": 48, "other": 40}.items()):
        texts, labels = sentences(rows, seed=seed)
        with (folder / f"{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["text", "label"])
            writer.writerows(zip(texts, labels, strict=True))
    return folder


@pytest.fixture(scope="session")
def tiny(reviews, encoders):
    """`tiny(output, method="focal")` is the configuration of a run of about a second."""
    from calmix.training.configuration import TrainConfig

    def make(output, **changes):
        settings = {
            "train": str(reviews / "train.csv"),
            "validation": str(reviews / "validation.csv"),
            "test": (str(reviews / "test.csv"), f"other={reviews / 'other.csv'}"),
            "model": str(encoders("bert", layers=1)),
            "output": str(output),
            "learning_rate": 5e-3,
            "epochs": 2,
            "threads": 1,
        }
        return TrainConfig(**{**settings, **changes})

    return make


@pytest.fixture
def calmix(capsys):
    """Run the command line in this process: `calmix("train", ...)` gives (exit code, out, err)."""
    from calmix.cli.app import main

    def run(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return run
