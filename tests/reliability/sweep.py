"""Every verb meets a fault at its n-th file-system event, for every n or for some.

    make sweep       or: PYTHONPATH=tests python -m reliability.sweep --every 1 --output sweep.json

After a kill the command is repeated (`--resume` where there is one): it ends with the files and the bits of
an unbroken run, and nothing else is left. No space and no permission end with one line and exit code 2; once
there is space again, the command ends as if nothing had been.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from reliability.artefacts import artefacts, differences
from reliability.faults import Ended, run_forked
from reliability.world import build_world, training_options

KINDS = ("kill", "nospace", "denied")


class Verb(NamedTuple):
    name: str
    arguments: list[str]
    resumes: bool = False


def verbs(world: Path) -> list[Verb]:
    """A command of every verb that writes; OUT is where it does."""
    run = str(world / "run")
    common = training_options(world, epochs=2, batch_size=24, checkpoint_steps=2)
    out = ["--output", "OUT/output"]
    return [
        Verb("train", ["train", *common, *out], resumes=True),
        Verb("guided", ["train", *common, "--method", "informed-mixup", *out], resumes=True),
        Verb("distill", ["distill", "--teacher", run, *common, *out], resumes=True),
        Verb("compare", ["compare", "--methods", "plain,cls-mixup", "--seeds", "0", "--executor", "inline",
                         *common, *out]),
        Verb("calibrate", ["calibrate", run, "--fit-on", "validation", *out]),
        Verb("adapt", ["adapt", run, "--labelled", str(world / "other.csv"), *out]),
        Verb("map", ["map", run, *out]),
        Verb("predict", ["predict", run, "--input", str(world / "other.csv"), "--output", "OUT/output.csv"]),
        Verb("ood", ["ood", run, "--in", str(world / "test.csv"), "--out", f"o={world / 'other.csv'}",
                     "--output", "OUT/output.html"]),
    ]  # fmt: skip


class Sweep:
    """Commands in a directory that is made again for each."""

    def __init__(self, world: Path, place: Path) -> None:
        self.place = place
        self.verbs = {verb.name: verb for verb in verbs(world)}
        self.unbroken: dict[str, tuple[dict[str, str], int]] = {}

    def run(self, verb: Verb, kind: str = "count", number: int = 0, *, again: bool = False) -> Ended:
        words = [word.replace("OUT/", f"{self.place}/out/") for word in verb.arguments]
        os.environ["CALMIX_CACHE"] = str(self.place / "out" / "cache")
        more = ["--resume"] if again and verb.resumes else []
        return run_forked([*words, *more], self.place / "out", kind, number)

    def clear(self) -> None:
        shutil.rmtree(self.place, ignore_errors=True)
        (self.place / "out").mkdir(parents=True)

    def reference(self, name: str) -> tuple[dict[str, str], int]:
        """What an unbroken command leaves, and how many events it takes."""
        if name not in self.unbroken:
            self.clear()
            ended = self.run(self.verbs[name])
            assert ended.code == 0, ended.err[-2000:]
            self.unbroken[name] = (artefacts(self.place / "out"), ended.events)
        return self.unbroken[name]

    def problem(self, name: str, kind: str, number: int) -> str | None:
        """What is wrong with a verb that meets a fault at an event; None if nothing is."""
        expected, _ = self.reference(name)
        verb = self.verbs[name]
        self.clear()
        ended = self.run(verb, kind, number)
        label = f"{name}, {kind} at event {number}"
        if kind != "kill" and ended.code != 0:
            lines = ended.err.strip().splitlines() or [""]
            is_said = ended.code == 2 and "Traceback" not in ended.err and lines[-1].startswith("calmix: ")
            if not is_said:
                return f"{label}: exit code {ended.code}: {ended.err.strip()[-700:]}"
        again = self.run(verb, again=True)
        # A verb that was through but for tidying up refuses to write over its own output.
        if again.code == 2 and not verb.resumes and "exists already" in again.err:
            again = again._replace(code=0)
        if again.code != 0:
            return f"{label}, then again: exit code {again.code}: {again.err.strip()[-700:]}"
        found = differences(expected, artefacts(self.place / "out"))
        return f"{label}: {'; '.join(found[:6])}" if found else None


def numbers_of(events: int, every: int, random: Random, first: int = 1) -> list[int]:
    """Every so-manieth event, from a random one on."""
    return list(range(first + random.randrange(every), events + 1, every))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--every", type=int, default=1, help="one of so many events")
    parser.add_argument("--first", type=int, default=1, help="the first event, to continue an earlier sweep")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--verbs", help="names, separated by commas; default: all")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--minutes", type=float, default=1e9, help="stop after this")
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="calmix-sweep-") as folder:
        sweep = Sweep(quiet_world(Path(folder) / "world"), Path(folder) / "place")
        chosen = given.verbs.split(",") if given.verbs else list(sweep.verbs)
        tally = Tally(given.seed, given.every, given.output, given.first)
        for name, kind, number in planned(
            sweep, chosen, given.kinds.split(","), given.every, given.seed, given.first
        ):
            if tally.minutes > given.minutes:
                break
            problem = sweep.problem(name, kind, number)
            tally.add(name, kind, None if problem is None else problem.replace(folder, "FOLDER"))
    print(json.dumps(tally.result(), indent=2))
    sys.exit(1 if tally.findings else 0)


def planned(
    sweep: Sweep, names: list[str], kinds: list[str], every: int, seed: int, first: int = 1
) -> Iterator[tuple[str, str, int]]:
    """Faults in turn over verbs and kinds, so that all have had some whenever the time is over."""
    waiting = {
        (name, kind): numbers_of(sweep.reference(name)[1], every, Random(f"{seed} {name} {kind}"), first)
        for name in names
        for kind in kinds
    }
    while any(waiting.values()):
        for (name, kind), numbers in waiting.items():
            if numbers:
                yield name, kind, numbers.pop(0)


class Tally:
    """The counts so far; written after every fault, so that an interruption loses none."""

    def __init__(self, seed: int, every: int, output: Path | None, first: int = 1) -> None:
        self.facts = {"seed": seed, "every": every, "first": first}
        self.output, self.started = output, time.monotonic()
        self.faults: dict[str, Counter[str]] = {}
        self.findings: list[str] = []

    @property
    def minutes(self) -> float:
        return (time.monotonic() - self.started) / 60

    def add(self, name: str, kind: str, problem: str | None) -> None:
        self.faults.setdefault(name, Counter())[kind] += 1
        if problem is not None:
            self.findings.append(problem)
            print(f"FINDING {problem}", flush=True)
        if self.output is not None:
            self.output.write_text(json.dumps(self.result(), indent=2) + "\n")

    def result(self) -> dict[str, Any]:
        return {
            **self.facts,
            "minutes": round(self.minutes, 1),
            "faults": sum(count.total() for count in self.faults.values()),
            "by_verb": self.faults,
            "findings": self.findings,
        }


def quiet_world(world: Path) -> Path:
    import contextlib
    import io

    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return build_world(world)


if __name__ == "__main__":
    main()
