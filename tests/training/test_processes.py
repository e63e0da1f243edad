"""Two processes against one with two accumulation steps: the same bits, and each row once."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load_file

from calmix.calibration.files.prediction_files import read_predictions, write_predictions
from calmix.calibration.predictions import Predictions
from calmix.models.loading import load_classifier, load_tokenizer

SCRIPT = Path(__file__).parent / "two_processes.py"
NAMES = ("negative", "positive")


TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]


def run(launch, arguments):
    """Start a program that finds the tests' own modules, and what this process finds."""
    found = os.pathsep.join([str(SCRIPT.parent.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [*launch, *(str(argument) for argument in arguments)],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": found, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done


MIXED = [
    ("plain", {}),
    ("cls-mixup", {"alpha": 1.0}),
    ("input-mixup", {"alpha": 1.0}),
    ("manifold-mixup", {"alpha": 1.0, "layers": [1, 2]}),
    ("aum-saliency", {}),
    ("aum-saliency", {"scope": "global", "metric": "l2_raw"}),
    ("tdmixup", {"aum_filter": False}),
    ("informed-mixup", {}),
    ("on-off-manifold", {}),
    ("rankmixup", {}),
    ("kernel-warping", {}),
]
# Steps in proportion to the gradient: a row too many, or another partner, would show at once.
PADDED = [
    ("plain", {}),
    ("cls-mixup", {"alpha": 1.0, "ratio_scope": "sample"}),
    ("input-mixup", {"alpha": 1.0}),
    ("regmixup", {"at": "embeddings"}),
    ("aum-saliency", {}),
    ("tdmixup", {"aum_filter": False}),
    ("informed-mixup", {}),
]
# Students of a checkpoint, which all processes ask together, and of a file, which each reads by itself.
TAUGHT = {"checkpoint": ("cls-mixup", 96), "file": ("plain", 48), "both": ("plain", 80)}
SGD = {"optim": "sgd", "learning_rate": 0.1}


def make_teachers(folder, encoder):
    """A saved classifier, and a file of predictions for 96 rows."""
    model = load_classifier(str(encoder), task="single", label_names=NAMES, seed=5)
    model.save_pretrained(folder / "checkpoint")
    load_tokenizer(str(encoder)).save_pretrained(folder / "checkpoint")
    logits = np.random.default_rng(0).normal(size=(96, 2))
    ids = [f"row-{i}" for i in range(96)]
    made = Predictions.from_logits(logits, [0] * 96, ids=ids, class_names=NAMES)
    write_predictions(folder / "file.parquet", made)
    return folder / "checkpoint", folder / "file.parquet"


@pytest.fixture(scope="module")
def trained(encoders, tmp_path_factory):
    """All cases, trained by two processes and by one: (directory of the two, directory of the one)."""
    encoder = encoders("bert", dropout=0.0)
    cases = [(f"mixed-{i}", *case, 48, {}) for i, case in enumerate(MIXED)]
    cases += [(f"padded-{i}", *case, 50, SGD) for i, case in enumerate(PADDED)]
    checkpoint, file = make_teachers(tmp_path_factory.mktemp("teachers"), encoder)
    teachers = {"checkpoint": [checkpoint], "file": [file], "both": [checkpoint, file]}
    cases += [
        (f"taught-{who}", method, {}, rows, {"teachers": [str(one) for one in teachers[who]]})
        for who, (method, rows) in TAUGHT.items()
    ]
    outputs = tmp_path_factory.mktemp("two"), tmp_path_factory.mktemp("one")
    for output, launch, accumulation in zip(outputs, (TORCHRUN, [sys.executable]), (1, 2), strict=True):
        run(launch, [SCRIPT, encoder, output, accumulation, json.dumps(cases)])
    return outputs


def assert_same_bits(first, second):
    weights = [load_file(run / "weights.safetensors") for run in (first, second)]
    for name, tensor in weights[0].items():
        assert np.array_equal(tensor, weights[1][name]), name
    dynamics = [np.load(run / "dynamics.npz") for run in (first, second)]
    for name in dynamics[0].files:
        assert np.array_equal(
            dynamics[0][name], dynamics[1][name], equal_nan=dynamics[0][name].dtype.kind == "f"
        )


@pytest.mark.parametrize("case", range(len(MIXED)), ids=[name for name, _ in MIXED])
def test_two_processes_equal_two_accumulation_steps_bit_for_bit(trained, case):
    assert_same_bits(*(output / f"mixed-{case}" for output in trained))


@pytest.mark.parametrize("case", range(len(PADDED)), ids=[name for name, _ in PADDED])
def test_no_repeated_tail_row_is_trained_on_mixed_or_recorded(trained, case):
    """50 rows (34 of tdmixup) on two processes: the last batches are filled up with repeated rows of weight
    0, and the very last one has no other rows."""
    method = PADDED[case][0]
    together, alone = (output / f"padded-{case}" for output in trained)
    losses = [json.loads((run / "losses.json").read_text()) for run in (together, alone)]
    rows = 34 if method == "tdmixup" else 50
    for epoch in ("0", "1"):
        assert losses[0][epoch]["rows"] == losses[1][epoch]["rows"] == rows
        assert losses[0][epoch]["loss"] == pytest.approx(losses[1][epoch]["loss"], abs=1e-4)
    # A step divides by the rows that count (wider batches change last bits).
    weights = [load_file(run / "weights.safetensors") for run in (together, alone)]
    for name, tensor in weights[0].items():
        assert np.allclose(tensor, weights[1][name], atol=2e-6), name
    times = [np.load(run / "dynamics.npz")["times"] for run in (together, alone)]
    assert np.array_equal(*times)
    if method == "tdmixup":  # a row may be easy and ambiguous
        assert (times[0].sum(axis=0) == rows).all()
    else:
        assert (times[0] == (0 if method in ("cls-mixup", "input-mixup") else 1)).all()


def test_the_processes_of_a_run_take_a_lock_together(trained):
    for output, processes in zip(trained, (2, 1), strict=True):
        found = [json.loads((output / f"lock-{rank}.json").read_text()) for rank in range(processes)]
        assert found == [{"was_freed": True, "is_free": False}] * processes


@pytest.mark.parametrize("who", TAUGHT)
def test_a_student_of_two_processes_is_that_of_one_bit_for_bit(trained, who):
    together, alone = (output / f"taught-{who}" for output in trained)
    for file in sorted((alone / "teaching").glob("*.npy")):
        assert np.array_equal(np.load(together / "teaching" / file.name), np.load(file))
    assert_same_bits(together, alone)


@pytest.mark.parametrize(
    "verb", [["train", "--method", "regmixup"], ["distill", "--teacher", "plain"]], ids=["train", "distill"]
)
def test_a_command_under_torchrun_ends_like_one_process(
    calmix, reviews, encoders, tmp_path, monkeypatch, verb
):
    two, one, settings = tmp_path / "two", tmp_path / "one", tmp_path / "settings.yaml"
    settings.write_text("trainer:\n  gradient_accumulation_steps: 2\n")
    arguments = [
        *verb, "--train", reviews / "train.csv", "--validation", reviews / "validation.csv",
        "--test", reviews / "test.csv", "--model", encoders("bert", dropout=0.0),
        "--epochs", 2, "--batch-size", 8, "--learning-rate", "1e-3", "--threads", 1, "--json",
    ]  # fmt: skip
    # A cache each: the teacher, too, is trained by two processes and by one.
    monkeypatch.setenv("CALMIX_CACHE", str(tmp_path / "cache-two"))
    done = run([*TORCHRUN, "-m", "calmix"], [*arguments, "--output", two])
    monkeypatch.setenv("CALMIX_CACHE", str(tmp_path / "cache-one"))
    code, out, err = calmix(*arguments, "--output", one, "--config", settings)
    assert code == 0, err
    # One object, printed by one process.
    results = [json.loads(done.stdout), json.loads(out)]
    assert pq.read_table(two / "dynamics.parquet").equals(pq.read_table(one / "dynamics.parquet"))
    weights = [load_file(path / "model" / "model.safetensors") for path in (two, one)]
    for name, tensor in weights[0].items():
        if name.startswith("classifier"):  # holds the temperature, fitted on logits of other batches
            assert np.allclose(tensor, weights[1][name], rtol=1e-4), name
        else:
            assert np.array_equal(tensor, weights[1][name]), name
    for split in ("validation", "test"):
        first, second = (read_predictions(path / "predictions" / f"{split}.parquet") for path in (two, one))
        assert first.ids.tolist() == second.ids.tolist()
        assert first.values == pytest.approx(second.values, abs=1e-5)
        for stage in ("uncalibrated", "calibrated"):
            nll = [result["splits"][split][stage]["nll"] for result in results]
            assert nll[0] == pytest.approx(nll[1], abs=1e-6)
    epochs = [[(epoch["epoch"], epoch["chosen"]) for epoch in result["history"]] for result in results]
    assert epochs[0] == epochs[1]
    assert (two / "report.html").is_file()
    assert not (two / "checkpoints").exists()
