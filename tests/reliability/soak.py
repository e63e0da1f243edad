"""Kill soak: commands are killed at random moments, continued, and compared by bits with an unbroken run.

    make soak KILLS=300 SEED=1       or: PYTHONPATH=tests python -m reliability.soak --kills 300 --seed 1

SIGKILL, SIGTERM and SIGINT, over plain runs, mixup, several labels, guided runs with and without threshold
passes, regions, students, images and comparisons: of one process, of several, and with Ray. After the last
kill of a round the command is repeated to its end: the set of files and their bits are those of the unbroken
run. SIGTERM and SIGINT end with one line that says how to continue and with the exit codes 143 and 130.

One round in twenty starts `python -m calmix`; the others fork a process that has loaded torch, which saves
most of the time of a round. Both must end with the same bits. The counts are written after every round.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

from reliability.artefacts import artefacts, differences
from reliability.forked import Forked
from reliability.world import build_images, build_inputs, build_multi_label, run_calmix, training_options

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
WORDS = {signal.SIGTERM: (143, "terminated"), signal.SIGINT: (130, "interrupted")}
# While the interpreter itself starts, a signal meets nothing of calmix's.
INTERPRETER = {True: 0.05, False: 0.4}  # by whether the command is a fork
FORKED = 0.95  # share of the rounds
RARE = 30  # each of SEVERAL gets one of so many rounds: its processes load torch again
SEVERAL = ("parallel comparison", "Ray comparison")
TIMEOUT = 900


def scenarios(world: Path) -> dict[str, list[str]]:
    """Commands by name; OUTPUT is where they write."""
    common = training_options(world, epochs=2, batch_size=16, checkpoint_steps=2)
    several = training_options(
        world, epochs=2, batch_size=16, checkpoint_steps=2, train=world / "tags.csv",
        validation=world / "tags.csv", test=world / "tags.csv", label_separator=";",
    )  # fmt: skip
    pictures = [
        "--train", str(world / "pictures"), "--model", "resnet-small", "--epochs", "2", "--batch-size", "4",
        "--threads", "1", "--learning-rate", "0.01", "--checkpoint-steps", "1",
    ]  # fmt: skip
    output = ["--output", "OUTPUT"]
    return {
        "plain": ["train", *common, *output],
        "mixup": ["train", *common, "--method", "manifold-mixup", "--dynamics", "epoch_end", *output],
        "several labels": ["train", *several, *output],
        "guided": ["train", *common, "--method", "informed-mixup", *output],
        "threshold passes": ["train", *common, "--method", "tdmixup", *output],
        "region": ["train", *common, "--train-region", "easy", "--aum-filter", *output],
        "student": ["distill", "--teacher", "plain", *common, *output],
        "images": ["train", *pictures, *output],
        "comparison": ["compare", "--methods", "plain,informed-mixup", "--seeds", "0", "--executor", "inline",
                       *common, *output],
        "parallel comparison": ["compare", "--methods", "plain,cls-mixup,informed-mixup", "--seeds", "0,1",
                                "--workers", "2", *common, *output],
        "Ray comparison": ["compare", "--methods", "plain,cls-mixup,informed-mixup", "--seeds", "0,1",
                           "--executor", "ray", "--workers", "2", *common, *output],
    }  # fmt: skip


class Soak:
    """Rounds of kills over the scenarios, and what came of them."""

    def __init__(self, folder: Path, seed: int, names: list[str] | None = None) -> None:
        self.folder = folder
        self.seed, self.random = seed, Random(seed)
        world = build_inputs(folder / "world")
        build_images(world)
        build_multi_label(world)
        self.make_pictures(world)
        known = scenarios(world)
        self.commands = {name: known[name] for name in names or known}
        self.unbroken: dict[tuple[str, bool], tuple[dict[str, str], float]] = {}
        self.counts: Counter[str] = Counter()
        self.by_scenario: Counter[str] = Counter()
        self.by_start: Counter[str] = Counter()
        self.findings: list[str] = []
        self.started = time.monotonic()
        self.load(world)

    def load(self, world: Path) -> None:
        """Train once in this process, so that its forks find everything loaded."""
        os.environ["CALMIX_CACHE"] = str(self.folder / "cache")
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            assert run_calmix("train", *training_options(world, epochs=1), "--output", world / "run") == 0

    def make_pictures(self, world: Path) -> None:
        """Enough of them for a training and a validation set of both classes."""
        for name in ("cat", "dog"):
            (world / "pictures" / name).mkdir(parents=True)
            for number in range(16):
                source = world / "images" / name / f"{number % 4}.{('png', 'jpg', 'bmp', 'gif')[number % 4]}"
                shutil.copy(source, world / "pictures" / name / f"{number}{source.suffix}")

    def start(self, name: str, place: Path, *, again: bool, forked: bool) -> subprocess.Popen[str] | Forked:
        words = [word.replace("OUTPUT", str(place / "output")) for word in self.commands[name]]
        if again and words[0] != "compare":
            words.append("--resume")
        environment = {**os.environ, "CALMIX_CACHE": str(place / "cache"), "OMP_NUM_THREADS": "1"}
        if forked:
            return Forked(words, environment)
        return subprocess.Popen(
            [sys.executable, "-m", "calmix", *words],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )

    def reference(self, name: str, *, forked: bool) -> tuple[dict[str, str], float]:
        """The files of an unbroken run, and the seconds it took. A command must leave what a fork leaves."""
        if (name, forked) not in self.unbroken:
            expected = None if forked else self.reference(name, forked=True)[0]
            place = self.folder / "unbroken" / name.replace(" ", "-")
            shutil.rmtree(place, ignore_errors=True)
            started = time.monotonic()
            process = self.start(name, place, again=False, forked=forked)
            _, err = process.communicate(timeout=TIMEOUT)
            seconds = time.monotonic() - started
            assert process.returncode == 0, err[-3000:]
            found = artefacts(place)
            assert expected is None or not differences(expected, found), differences(expected, found)
            self.unbroken[name, forked] = (found, seconds)
        return self.unbroken[name, forked]

    def round(self, name: str, kills: int) -> None:
        """Kill a command up to so many times, let it end, compare."""
        forked = self.random.random() < FORKED
        expected, seconds = self.reference(name, forked=forked)
        place = self.folder / "broken"
        shutil.rmtree(place, ignore_errors=True)
        moments = []
        for number in range(kills):
            number_of_signal = self.random.choice(SIGNALS)
            moment = self.random.uniform(0, seconds * (1 - 0.5 * number / kills))
            moments.append(f"{number_of_signal.name} after {moment:.2f} s")
            if not self.kill(name, place, number_of_signal, moment, again=number > 0, forked=forked):
                break  # it was finished before
        process = self.start(name, place, again=True, forked=forked)
        _, err = process.communicate(timeout=TIMEOUT)
        label = f"{name}: {', '.join(moments)}"
        if process.returncode != 0:
            self.find(f"{label}: then exit code {process.returncode}: {err.strip()[-600:]}")
            return
        lines = differences(expected, artefacts(place))
        for line in lines:
            self.find(f"{label}: {line}")
        self.counts["equal"] += not lines

    def kill(
        self, name: str, place: Path, which: signal.Signals, moment: float, *, again: bool, forked: bool
    ) -> bool:
        """Whether the command was still at work when the signal came."""
        started = time.monotonic()
        process = self.start(name, place, again=again, forked=forked)
        try:
            process.wait(timeout=moment)
            process.communicate(timeout=TIMEOUT)
            return False
        except subprocess.TimeoutExpired:
            pass
        process.send_signal(which)
        late = time.monotonic() - started
        _, err = process.communicate(timeout=TIMEOUT)
        if process.returncode == 0:
            return False  # it was just leaving
        self.counts[which.name] += 1
        self.counts["kills"] += 1
        self.by_scenario[name] += 1
        self.by_start["fork" if forked else "python -m calmix"] += 1
        if which in WORDS and late > INTERPRETER[forked]:
            code, word = WORDS[which]
            last = (err.strip().splitlines() or [""])[-1]
            # Python may end by the signal itself, which a shell shows as 130, too.
            if (
                process.returncode not in (code, -which)
                or not last.startswith(f"calmix: {word}; ")
                or "Traceback" in err
            ):
                self.find(
                    f"{name}: {which.name} after {late:.2f} s: exit code {process.returncode}, {err[-600:]!r}"
                )
        return True

    def find(self, line: str) -> None:
        self.findings.append(line.replace(str(self.folder), "FOLDER"))
        print(f"FINDING {self.findings[-1]}", flush=True)

    def soak(self, kills: int, minutes: float = 1e9, output: Path | None = None) -> dict[str, Any]:
        """Rounds until so many kills were made, or the time is over."""
        self.started = time.monotonic()
        while self.counts["kills"] < kills and time.monotonic() - self.started < minutes * 60:
            name = self.next_scenario()
            self.round(name, min(self.random.choice((1, 2, 3, 4)), kills - self.counts["kills"]))
            self.counts["rounds"] += 1
            print(f"{self.counts['kills']} kills, {self.counts['rounds']} rounds", flush=True)
            if output is not None:
                output.write_text(json.dumps(self.result(), indent=2) + "\n")
        return self.result()

    def next_scenario(self) -> str:
        """In turn, but for the comparisons of several processes, which are rare."""
        number = self.counts["rounds"]
        often = [name for name in self.commands if name not in SEVERAL]
        rare = [name for name in self.commands if name in SEVERAL]
        if not often:
            return rare[number % len(rare)]
        place = RARE - 1 - number % RARE  # the last rounds of thirty
        return rare[place] if place < len(rare) else often[number % len(often)]

    def result(self) -> dict[str, Any]:
        """The counts of the rounds so far."""
        return {
            "seed": self.seed,
            "kills": self.counts["kills"],
            "by_signal": {which.name: self.counts[which.name] for which in SIGNALS},
            "by_scenario": dict(sorted(self.by_scenario.items())),
            "by_start": dict(sorted(self.by_start.items())),
            "rounds": self.counts["rounds"],
            "rounds_with_equal_files_and_bits": self.counts["equal"],
            "minutes": round((time.monotonic() - self.started) / 60, 1),
            "findings": self.findings,
        }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no round after this")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scenarios", help="names, separated by commas; default: all")
    parser.add_argument("--output", type=Path, help="a JSON file for the counts")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="calmix-soak-") as folder:
        names = given.scenarios.split(",") if given.scenarios else None
        soak = Soak(Path(folder), given.seed, names)
        result = soak.soak(given.kills, given.minutes, given.output)
    print(json.dumps(result, indent=2))
    sys.exit(1 if result["findings"] else 0)


if __name__ == "__main__":
    main()
