"""Kill soak: commands are killed at random moments, continued, and compared by bits with an unbroken run.

    make soak KILLS=300 SEED=1       or: PYTHONPATH=tests python -m reliability.soak --kills 300 --seed 1

SIGKILL, SIGTERM and SIGINT, over plain runs, mixup, guided runs with and without threshold passes, regions,
students, images and comparisons of several processes. After the last kill of a round the command is repeated
to its end: the set of files and their bits are those of the unbroken run. SIGTERM and SIGINT end with one
line that says how to continue and with the exit codes 143 and 130.
"""

from __future__ import annotations

import argparse
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
from reliability.world import build_images, build_inputs, training_options

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
WORDS = {signal.SIGTERM: (143, "terminated"), signal.SIGINT: (130, "interrupted")}
# While the interpreter itself starts, a signal meets nothing of calmix's.
INTERPRETER = 0.4
TIMEOUT = 900


def scenarios(world: Path) -> dict[str, list[str]]:
    """Commands by name; OUTPUT is where they write."""
    common = training_options(world, epochs=3, batch_size=8, checkpoint_steps=2)
    pictures = [
        "--train", str(world / "pictures"), "--model", "resnet-small", "--epochs", "2", "--batch-size", "4",
        "--threads", "1", "--learning-rate", "0.01", "--checkpoint-steps", "1",
    ]  # fmt: skip
    output = ["--output", "OUTPUT"]
    return {
        "plain": ["train", *common, *output],
        "mixup": ["train", *common, "--method", "manifold-mixup", "--dynamics", "epoch_end", *output],
        "guided": ["train", *common, "--method", "informed-mixup", *output],
        "threshold passes": ["train", *common, "--method", "tdmixup", *output],
        "region": ["train", *common, "--train-region", "easy", "--aum-filter", *output],
        "student": ["distill", "--teacher", "plain", *common, *output],
        "images": ["train", *pictures, *output],
        "comparison": [
            "compare", "--methods", "plain,cls-mixup,informed-mixup", "--seeds", "0,1", "--workers", "2",
            *training_options(world, epochs=2, checkpoint_steps=2), *output,
        ],
    }  # fmt: skip


class Soak:
    """Rounds of kills over the scenarios, and what came of them."""

    def __init__(self, folder: Path, seed: int, names: list[str] | None = None) -> None:
        self.folder = folder
        self.random = Random(seed)
        world = build_inputs(folder / "world")
        build_images(world)
        self.make_pictures(world)
        known = scenarios(world)
        self.commands = {name: known[name] for name in names or known}
        self.unbroken: dict[str, tuple[dict[str, str], float]] = {}
        self.counts: Counter[str] = Counter()
        self.by_scenario: Counter[str] = Counter()
        self.findings: list[str] = []

    def make_pictures(self, world: Path) -> None:
        """Enough of them for a training and a validation set of both classes."""
        for name in ("cat", "dog"):
            (world / "pictures" / name).mkdir(parents=True)
            for number in range(16):
                source = world / "images" / name / f"{number % 4}.{('png', 'jpg', 'bmp', 'gif')[number % 4]}"
                shutil.copy(source, world / "pictures" / name / f"{number}{source.suffix}")

    def start(self, name: str, place: Path, *, again: bool) -> subprocess.Popen[str]:
        words = [word.replace("OUTPUT", str(place / "output")) for word in self.commands[name]]
        if again and words[0] != "compare":
            words.append("--resume")
        return subprocess.Popen(
            [sys.executable, "-m", "calmix", *words],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "CALMIX_CACHE": str(place / "cache"), "OMP_NUM_THREADS": "1"},
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )

    def reference(self, name: str) -> tuple[dict[str, str], float]:
        """The files of an unbroken run, and the seconds it took."""
        if name not in self.unbroken:
            place = self.folder / "unbroken" / name.replace(" ", "-")
            started = time.monotonic()
            process = self.start(name, place, again=False)
            _, err = process.communicate(timeout=TIMEOUT)
            assert process.returncode == 0, err[-3000:]
            self.unbroken[name] = (artefacts(place), time.monotonic() - started)
        return self.unbroken[name]

    def round(self, name: str, kills: int) -> None:
        """Kill a command up to so many times, let it end, compare."""
        expected, seconds = self.reference(name)
        place = self.folder / "broken"
        shutil.rmtree(place, ignore_errors=True)
        moments = []
        for number in range(kills):
            number_of_signal = self.random.choice(SIGNALS)
            moment = self.random.uniform(0, seconds * (1 - 0.5 * number / kills))
            moments.append(f"{number_of_signal.name} after {moment:.2f} s")
            if not self.kill(name, place, number_of_signal, moment, again=number > 0):
                break  # it was finished before
        process = self.start(name, place, again=True)
        _, err = process.communicate(timeout=TIMEOUT)
        label = f"{name}: {', '.join(moments)}"
        if process.returncode != 0:
            self.find(f"{label}: then exit code {process.returncode}: {err.strip()[-600:]}")
            return
        lines = differences(expected, artefacts(place))
        for line in lines:
            self.find(f"{label}: {line}")
        self.counts["equal"] += not lines

    def kill(self, name: str, place: Path, which: signal.Signals, moment: float, *, again: bool) -> bool:
        """Whether the command was still at work when the signal came."""
        started = time.monotonic()
        process = self.start(name, place, again=again)
        try:
            process.wait(timeout=moment)
            process.communicate()
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
        if which in WORDS and late > INTERPRETER:
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

    def soak(self, kills: int, minutes: float = 1e9) -> dict[str, Any]:
        """Rounds until so many kills were made, or the time is over."""
        started = time.monotonic()
        names = list(self.commands)
        while self.counts["kills"] < kills and time.monotonic() - started < minutes * 60:
            name = names[self.counts["begun"] % len(names)]
            self.counts["begun"] += 1
            self.round(name, min(self.random.choice((1, 2, 3)), kills - self.counts["kills"]))
            print(f"{self.counts['kills']} kills, {self.counts['begun']} rounds", flush=True)
        return {
            "kills": self.counts["kills"],
            "by_signal": {which.name: self.counts[which.name] for which in SIGNALS},
            "by_scenario": dict(sorted(self.by_scenario.items())),
            "rounds": self.counts["begun"],
            "rounds_with_equal_files_and_bits": self.counts["begun"]
            - len({f.split(": ")[1] for f in self.findings}),
            "minutes": round((time.monotonic() - started) / 60, 1),
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
        result = {
            "seed": given.seed,
            **Soak(Path(folder), given.seed, names).soak(given.kills, given.minutes),
        }
    print(json.dumps(result, indent=2))
    if given.output is not None:
        given.output.write_text(json.dumps(result, indent=2) + "\n")
    sys.exit(1 if result["findings"] else 0)


if __name__ == "__main__":
    main()
