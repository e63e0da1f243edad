"""Two processes against one with two accumulation steps: the same bits, and each row once."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

SCRIPT = Path(__file__).parent / "two_processes.py"


def train(encoder, output, *, processes, rows=48, method="plain", **options):
    output.mkdir()
    launch = [sys.executable]
    if processes > 1:
        launch = [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--standalone",
            f"--nproc_per_node={processes}",
        ]
    accumulation = 1 if processes > 1 else 2
    arguments = [SCRIPT, encoder, output, rows, accumulation, method, json.dumps(options)]
    subprocess.run(
        [*launch, *(str(argument) for argument in arguments)],
        check=True,
        capture_output=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": str(SCRIPT.parent.parent), "OMP_NUM_THREADS": "1"},
    )
    return output


def assert_same_bits(first, second):
    weights = [load_file(run / "weights.safetensors") for run in (first, second)]
    for name, tensor in weights[0].items():
        assert np.array_equal(tensor, weights[1][name]), name
    dynamics = [np.load(run / "dynamics.npz") for run in (first, second)]
    for name in dynamics[0].files:
        assert np.array_equal(
            dynamics[0][name], dynamics[1][name], equal_nan=dynamics[0][name].dtype.kind == "f"
        )


@pytest.mark.parametrize(
    ("method", "options"),
    [
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
    ],
    ids=[
        "plain",
        "head",
        "embeddings",
        "layer",
        "aum-saliency",
        "global",
        "tdmixup",
        "informed",
        "on-off",
        "rank",
        "warping",
    ],
)
def test_two_processes_equal_two_accumulation_steps_bit_for_bit(encoders, tmp_path, method, options):
    encoder = encoders("bert", dropout=0.0)
    together = train(encoder, tmp_path / "two", processes=2, method=method, **options)
    alone = train(encoder, tmp_path / "one", processes=1, method=method, **options)
    assert_same_bits(together, alone)


def test_no_repeated_tail_row_is_trained_on_or_recorded(encoders, tmp_path):
    """50 rows on two processes: the last batches are filled up with repeated rows of weight 0."""
    encoder = encoders("bert", dropout=0.0)
    together = train(encoder, tmp_path / "two", processes=2, rows=50)
    alone = train(encoder, tmp_path / "one", processes=1, rows=50)
    times = np.load(together / "dynamics.npz")["times"]
    assert (times == 1).all()
    losses = [json.loads((run / "losses.json").read_text()) for run in (together, alone)]
    for epoch in ("0", "1"):
        assert losses[0][epoch]["rows"] == losses[1][epoch]["rows"] == 50
        assert losses[0][epoch]["loss"] == pytest.approx(losses[1][epoch]["loss"], abs=1e-4)
    # A step divides by the rows that count, so the weights follow the same path (padding changes last bits).
    weights = [load_file(run / "weights.safetensors") for run in (together, alone)]
    for name, tensor in weights[0].items():
        assert np.allclose(tensor, weights[1][name], atol=2e-4), name
