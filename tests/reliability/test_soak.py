"""The short form of `make soak`: a kill, and that a lost bit would be seen."""

from __future__ import annotations

import pytest

from reliability.artefacts import artefacts, differences
from reliability.soak import Soak

pytestmark = [pytest.mark.trains, pytest.mark.processes]


def test_a_kill_at_a_random_moment_ends_with_the_bits_of_an_unbroken_run(tmp_path):
    result = Soak(tmp_path, seed=5, names=["plain"]).soak(kills=1)
    assert result["kills"] == 1
    assert result["findings"] == []
    assert result["rounds"] == result["rounds_with_equal_files_and_bits"]


def test_a_changed_bit_a_missing_and_a_further_file_are_seen(world, tmp_path):
    import shutil

    shutil.copytree(world / "run", tmp_path / "run")
    expected = artefacts(tmp_path / "run")
    weights = tmp_path / "run" / "model" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-5] ^= 1
    weights.write_bytes(content)
    (tmp_path / "run" / "dynamics.parquet").unlink()
    (tmp_path / "run" / ".71.metrics.json").write_text("")
    assert differences(expected, artefacts(tmp_path / "run")) == [
        "left behind: .71.metrics.json",
        "missing: dynamics.parquet",
        "other bits: model/model.safetensors",
    ]
