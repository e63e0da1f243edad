"""A fault at the n-th file-system event of every verb: a few events here, all of them in `make sweep`."""

from __future__ import annotations

import os
from random import Random

import pytest

from reliability.faults import run_forked
from reliability.sweep import Sweep

pytestmark = [pytest.mark.trains, pytest.mark.processes]
# (verb, fault, how many events): a run takes a second, the other verbs a tenth.
CASES = [
    ("train", "kill", 1), ("distill", "kill", 1), ("compare", "kill", 1), ("calibrate", "kill", 2),
    ("map", "kill", 2), ("predict", "kill", 2), ("ood", "kill", 1), ("train", "nospace", 1),
    ("calibrate", "nospace", 1), ("map", "nospace", 1), ("predict", "nospace", 1), ("ood", "nospace", 1),
    ("compare", "denied", 1), ("map", "denied", 1), ("predict", "denied", 1),
]  # fmt: skip


@pytest.fixture(scope="module")
def sweep(world, tmp_path_factory):
    cache = os.environ["CALMIX_CACHE"]
    yield Sweep(world, tmp_path_factory.mktemp("sweep") / "place")
    os.environ["CALMIX_CACHE"] = cache


@pytest.mark.parametrize(("verb", "fault", "times"), CASES, ids=lambda value: str(value))
def test_a_fault_at_any_event_loses_nothing_and_leaves_nothing(sweep, verb, fault, times):
    _, events = sweep.reference(verb)
    assert events >= 3
    random = Random(f"{verb} {fault}")
    for number in sorted(random.sample(range(1, events + 1), times)):
        assert sweep.problem(verb, fault, number) is None


@pytest.mark.parametrize("verb", ["calibrate", "adapt"])
def test_a_report_that_cannot_be_written_leaves_no_output_without_one(sweep, verb):
    # The last events: everything but the report is there.
    _, events = sweep.reference(verb)
    assert [sweep.problem(verb, "nospace", events - last) for last in (2, 4)] == [None, None]


def test_the_weights_of_a_first_stage_do_not_stay_in_the_cache_after_a_kill(sweep):
    # The last events of a guided run: it is finished, and the weights of its plain run are not dropped yet.
    _, events = sweep.reference("guided")
    assert sweep.problem("guided", "kill", events - 12) is None


def test_a_killed_command_leaves_what_is_not_its_own(sweep, world):
    sweep.clear()
    notes = [sweep.place / "out" / name for name in ("notes.txt", ".5.output", ".71.0123456789abcdef.output")]
    for file in notes:
        file.write_text("mine")
    verb = sweep.verbs["calibrate"]
    assert sweep.run(verb, "kill", 20).code == -9
    assert sweep.run(verb).code == 0
    assert [file.read_text() for file in notes] == ["mine"] * 3


def test_the_harness_sees_the_fault(world, tmp_path):
    ended = run_forked(["map", str(world / "run"), "--output", str(tmp_path / "map")], tmp_path, "nospace", 1)
    assert ended.code == 2
    assert "no space left on the disk" in ended.err
    assert list(tmp_path.iterdir()) == []
