"""What may be loaded when: the light parts stay light."""

import subprocess
import sys

import numpy as np
import pytest

import calmix
from calmix.calibration.files.prediction_files import write_predictions
from calmix.calibration.predictions import Predictions

HEAVY = ("torch", "transformers", "datasets", "matplotlib")
# Each takes longer to load than the metrics of a file take to compute.
SLOW = ("pandas", "pyarrow.dataset", "scipy.signal", "scipy.stats", "scipy.optimize", "sklearn", "matplotlib")


def loaded_after(code, modules=HEAVY):
    check = f"import sys; print(sorted(set({modules}) & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{check}"], capture_output=True, text=True, check=True
    )
    return done.stdout.strip().splitlines()[-1]


# The rooms whose names need torch.
TORCH_ROOMS = ("calmix.training.", "calmix.mixing.")


def test_names_of_calibration_and_dynamics_load_no_torch():
    light = [name for name in calmix.__all__ if not calmix._HOME[name].startswith(TORCH_ROOMS)]
    assert {"Predictions", "evaluate", "CalibrationMetrics", "train", "Run", "CalibrationScorer"} < set(light)
    assert loaded_after("import calmix") == "[]"
    assert loaded_after(f"from calmix import {', '.join(light)}") == "[]"


def run_command(*arguments):
    listed = ", ".join(repr(str(argument)) for argument in arguments)
    return f"from calmix.cli.app import main\ntry:\n    main([{listed}])\nexcept SystemExit:\n    pass"


def test_help_loads_no_torch():
    assert loaded_after(run_command("--help")) == "[]"
    assert loaded_after(run_command("train", "--help")) == "[]"


@pytest.mark.parametrize("name", ["predictions.parquet", "predictions.csv"])
def test_evaluate_loads_no_torch_and_nothing_slow(tmp_path, name):
    generator = np.random.default_rng(0)
    file = tmp_path / name
    logits, labels = generator.normal(size=(50, 2)), generator.integers(0, 2, 50)
    if name.endswith(".csv"):
        rows = [f"{label},{a},{b}" for label, (a, b) in zip(labels, logits, strict=True)]
        file.write_text("\n".join(["label,logit_0,logit_1", *rows]))
    else:
        write_predictions(file, Predictions.from_logits(logits, labels))
    assert loaded_after(run_command("evaluate", file, "--json"), HEAVY + SLOW) == "[]"


def test_help_loads_nothing_slow():
    assert loaded_after(run_command("evaluate", "--help"), (*SLOW, "numpy", "pyarrow", "scipy")) == "[]"


def test_every_public_name_can_be_had_and_is_documented():
    for name in calmix.__all__:
        assert getattr(calmix, name).__doc__, name
    with pytest.raises(AttributeError, match="no attribute 'mixup'"):
        _ = calmix.mixup
