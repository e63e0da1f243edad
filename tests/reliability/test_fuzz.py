"""The short form of `make fuzz`: some hundred damaged files, and that the fuzzer finds what it should."""

from __future__ import annotations

import os
import shutil
from collections import Counter

import pytest

from reliability import fuzz

pytestmark = [pytest.mark.trains, pytest.mark.processes]  # the world


def run_cases(world, folder, numbers, seed=20):
    shutil.copytree(world, folder / "world")
    counts, findings = Counter(), {}
    number = numbers.start
    while number < numbers.stop:
        number = fuzz.one_worker(folder / "world", seed, range(number, numbers.stop), counts, findings)
    return counts, findings


def test_damaged_files_end_with_a_result_or_one_line(world, tmp_path):
    counts, findings = run_cases(world, tmp_path, range(300))
    assert not findings
    assert sum(counts.values()) == 300
    assert counts["refused"] > 100


def test_a_crash_of_native_code_is_a_finding_and_not_the_end(world, tmp_path, monkeypatch):
    def crash(place, seed, number):
        if number == 3:
            os.abort()
        if number == 5:
            raise MemoryError
        return "a command", fuzz.outcome_of(lambda: None)

    monkeypatch.setattr(fuzz, "run_case", crash)
    counts, findings = run_cases(world, tmp_path, range(8))
    assert counts == {"result": 6, "finding": 2}
    assert set(findings) == {"the process ended: signal SIGABRT", "the process ended: status 256"}


def test_a_case_is_a_function_of_seed_and_number(world, tmp_path):
    shutil.copytree(world, tmp_path / "world")
    reading = [n for n in range(60) if fuzz.target_of(7, n).command[0] == "READ"][:20]
    first, second = ([fuzz.run_case(tmp_path / "world", 7, n) for n in reading] for _ in range(2))
    assert first == second
