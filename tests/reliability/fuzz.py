"""Fuzzing: whatever is in a file, a command ends with a result or with one line for the user.

    make fuzz MINUTES=60 SEED=1        or: PYTHONPATH=tests python -m reliability.fuzz --minutes 60 --seed 1
    PYTHONPATH=tests python -m reliability.fuzz --seed 1 --case 4711      one case again, with its traceback

Every case is a function of (seed, number): a file of a good world is damaged, and a command reads it.
Workers are forks, so that a crash of native code, a hang or a loss of memory is a finding and not the end.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from calmix.user_error import UserError
from reliability.mutations import mutate
from reliability.world import build_newer, build_world, training_options

SECONDS = 60  # for one case; they take some hundredths
MEMORY = 8 << 30
BATCH = 200  # cases of one worker
SHOW_TRACEBACK = "--case" in sys.argv


class TrainingBegins(BaseException):
    """Raised where a network would be trained: all that was read was taken.

    Not an `Exception`: a comparison goes on after those of a run.
    """


class Target(NamedTuple):
    """A place of the world, the files in it to damage, and the command that reads them."""

    place: str
    pattern: str
    command: tuple[str, ...]
    weight: int = 2


TRAIN = ("train", "--output", "OUT")
PREDICT = ("--input", "other.csv", "--output", "OUT.csv")
PLAIN = ("--no-intervals",)
PICTURES = ("--model", "resnet-small", "--threads", "1")
FIT = ("--fit-on", "validation", "--output", "OUT")
SEVERAL = ("--label-separator", ";")
TAGS = ("OPTIONS", "--train", "tags.csv", "--validation", "tags.csv", "--test", "tags.csv", *SEVERAL)
ROWS = ("--model", "encoder", "--threads", "1", "--epochs", "1", "--train")
TARGETS = (
    Target("scores.csv", "", ("evaluate", "scores.csv", *PLAIN), 4),
    Target("scores.csv", "", ("calibrate", "scores.csv", "--fit-on", "scores.csv", "--output", "OUT")),
    Target("run", "predictions/test.parquet", ("evaluate", "run/predictions/test.parquet", *PLAIN), 4),
    Target("train.csv", "", (*TRAIN, "OPTIONS"), 4),
    Target("test.csv", "", (*TRAIN, "OPTIONS")),
    Target("test.csv", "", ("predict", "run", "--input", "test.csv", "--output", "OUT.csv")),
    Target("scores.npz", "", ("evaluate", "scores.npz", *PLAIN), 4),
    Target("rows.jsonl", "", (*TRAIN, "OPTIONS", "--train", "rows.jsonl"), 4),
    Target("rows.json", "", (*TRAIN, "OPTIONS", "--train", "rows.json"), 4),
    Target("rows.parquet", "", (*TRAIN, "OPTIONS", "--train", "rows.parquet"), 4),
    Target("images", "*/*", (*TRAIN, "--train", "images", *PICTURES), 4),
    Target("images.npz", "", (*TRAIN, "--train", "images.npz", *PICTURES), 4),
    Target("cartography", "*", ("map", "cartography", "--output", "OUT"), 4),
    Target("aum_values.csv", "", ("map", "aum_values.csv", "--output", "OUT"), 4),
    Target("run", "dynamics.parquet", ("map", "run/dynamics.parquet", "--output", "OUT"), 4),
    Target("run", "**/*", ("map", "run", "--output", "OUT")),
    Target("run", "**/*", ("evaluate", "run", *PLAIN)),
    Target("run", "**/*", ("predict", "run", *PREDICT)),
    Target("run", "**/*", ("predict", "run", *PREDICT, "--target-accuracy", "0.7")),
    Target("run", "**/*", ("ood", "run", "--in", "test.csv", "--out", "other=other.csv")),
    Target("run", "**/*", ("calibrate", "run", *FIT)),
    Target("run", "**/*", ("train", "--resume", "--output", "run")),
    Target("run", "**/*", (*TRAIN, "OPTIONS", "--method", "informed-mixup", "--plain-run", "run")),
    Target("run", "**/*", ("distill", "--output", "OUT", "OPTIONS", "--teacher", "run")),
    Target("run", "model/*", ("evaluate", "--model", "run/model", "--data", "other.csv", *PLAIN)),
    Target("run", "model/*", ("calibrate", "run/model", "--fit-on", "validation.csv", "--output", "OUT")),
    Target("encoder", "*", (*TRAIN, "OPTIONS")),
    Target("student", "**/*", ("evaluate", "student", *PLAIN), 1),
    Target("calibrated", "**/*", ("predict", "calibrated", *PREDICT)),
    Target("isotonic", "**/*", ("predict", "isotonic", *PREDICT)),
    Target("comparison", "*", ("compare", "--from", "comparison")),
    Target("comparison", "*", ("predict", "comparison", *PREDICT)),
    Target("comparison", "*", ("ood", "comparison", "--out", "other=other.csv"), 1),
    Target("settings.yaml", "", (*TRAIN, "OPTIONS", "--config", "settings.yaml"), 6),
    Target("trainer.yaml", "", (*TRAIN, "OPTIONS", "--config", "trainer.yaml"), 6),
    # Several labels, soft labels, weights, other domains, presets.
    Target("tags.csv", "", (*TRAIN, *TAGS), 4),
    Target("several.csv", "", ("evaluate", "several.csv", *SEVERAL, *PLAIN), 4),
    Target("several.csv", "", ("calibrate", "several.csv", "--fit-on", "several.csv", *SEVERAL, "--output",
                               "OUT"), 4),
    Target("tagged", "**/*", ("evaluate", "tagged", *PLAIN)),
    Target("tagged", "**/*", ("predict", "tagged", *PREDICT)),
    Target("tagged", "**/*", ("calibrate", "tagged", *FIT)),
    Target("votes.jsonl", "", (*TRAIN, *ROWS, "votes.jsonl", "--annotations-column", "votes"), 4),
    Target("votes.jsonl", "", (*TRAIN, *ROWS, "votes.jsonl", "--label-prob-columns", "p_*"), 4),
    Target("votes.jsonl", "", (*TRAIN, *ROWS, "votes.jsonl", "--weight-column", "weight"), 4),
    Target("weighed.csv", "", ("evaluate", "weighed.csv", "--weight-column", "weight", "--slice", "group",
                               *PLAIN), 4),
    Target("test.csv", "", ("adapt", "run", "--labelled", "test.csv", "--output", "OUT"), 4),
    Target("test.csv", "", ("adapt", "run", "--suggest", "5", "--from", "test.csv", "--output", "OUT.csv")),
    Target("run", "**/*", ("adapt", "run", "--labelled", "test.csv", "--output", "OUT")),
    Target("run", "**/*", ("predict", "run", *PREDICT, "--coverage", "0.8")),
    Target("run", "**/*", ("push", "run", "me/model"), 1),
    Target("run", "**/*", ("export", "run", "--output", "OUT"), 1),
    Target("adapted", "**/*", ("predict", "adapted", *PREDICT)),
    Target("preset.yaml", "", ("reproduce", "preset.yaml", "--scale", "smoke", "--executor", "inline",
                               "--output", "OUT"), 4),
    # Readers alone, without a command around them: hundreds a second.
    *(Target(place, pattern, ("READ", reader), 60) for place, pattern, reader in (
        ("scores.csv", "", "predictions"), ("scores.npz", "", "predictions"),
        ("run", "predictions/test.parquet", "predictions"), ("rows.jsonl", "", "rows"),
        ("rows.json", "", "rows"), ("rows.parquet", "", "rows"), ("train.csv", "", "rows"),
        ("images", "*/*", "rows"), ("images.npz", "", "rows"), ("cartography", "*", "map"),
        ("aum_values.csv", "", "map"), ("run", "dynamics.parquet", "map"),
        ("isotonic", "calibrator*", "calibrator"), ("run", "*.*", "run"),
        ("comparison", "*.*", "comparison"), ("several.csv", "", "labels"),
        ("tagged", "predictions/test.parquet", "labels"), ("tags.csv", "", "tags"),
        ("votes.jsonl", "", "votes"), ("preset.yaml", "", "preset"),
    )),
)  # fmt: skip


def read(place: Path, reader: str) -> None:
    """Read a file or directory with the functions that the commands use, and look at every value."""
    from calmix.calibration.calibrators.calibrator import load_calibrator
    from calmix.calibration.files.column_mapping import ColumnMapping
    from calmix.calibration.files.prediction_files import read_predictions
    from calmix.calibration.multi_label.multi_label_files import read_multi_label_predictions
    from calmix.data.columns import ColumnNames
    from calmix.data.images.stored import decode
    from calmix.data.reading import read_rows
    from calmix.dynamics.importers import read_data_map
    from calmix.experiments.comparison_plan import Plan
    from calmix.experiments.results import Results
    from calmix.io.run_directory import RunDirectory
    from calmix.io.tables import read_table, table_batches
    from calmix.reproduction.loading import load_preset

    several = {"several.csv": SEVERAL[1]}.get(place.name)
    if reader == "labels":
        read_multi_label_predictions(
            place, ColumnMapping.from_options(multi_label=True, label_separator=several)
        )
    elif reader == "tags":
        read_rows(str(place), "train", ColumnNames(label_separator=SEVERAL[1]))
    elif reader == "votes":
        for columns in (ColumnNames(annotations="votes"), ColumnNames(label_probs=("p_*",), weight="weight")):
            read_rows(str(place), "train", columns)
    elif reader == "preset":
        load_preset(place)
    if reader in ("predictions", "rows") and place.is_file():
        table = read_table(place)
        for name in table.names:
            list(table.read_column(name))
        for batch in table_batches(place, batch_rows=7, text_columns=("row_id",)):
            batch.validate(full=True)
    if reader == "predictions":
        read_predictions(place, note=lambda line: None)
    elif reader == "rows":
        rows = read_rows(str(place), "train", ColumnNames())
        for image in rows.images() if rows.task == "image" else ():
            decode(image)
    elif reader == "map":
        read_data_map(place)
    elif reader == "calibrator":
        load_calibrator(place)
    elif reader == "run":
        run = RunDirectory.open(place)
        run.config(), run.metrics(), run.calibration(), run.splits(), run.damage()
    elif reader == "comparison":
        Plan.read(place)
        Results.read(place)


def complete_world(world: Path) -> Path:
    """The world and the files that only a fuzzer needs."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq
    import yaml

    from tiny import sentences

    build_world(world)
    build_newer(world)
    texts, labels = sentences(24)
    records = [{"text": text, "label": label} for text, label in zip(texts, labels, strict=True)]
    (world / "rows.json").write_text(json.dumps(records))
    (world / "rows.jsonl").write_text("\n".join(map(json.dumps, records)) + "\n")
    pq.write_table(pa.table({"text": texts, "label": labels}), world / "rows.parquet")
    np.savez(world / "scores.npz", label=np.arange(24) % 2, logits=np.arange(48).reshape(24, 2) / 9.0)
    settings = yaml.safe_load((world / "run" / "config.yaml").read_text())
    own = ("train", "validation", "test", "output", "model", "trainer")
    chosen = {name: value for name, value in settings.items() if name not in own and value is not None}
    (world / "settings.yaml").write_text(yaml.safe_dump(chosen, sort_keys=False))
    (world / "trainer.yaml").write_text(yaml.safe_dump({"trainer": trainer_fields()}, sort_keys=False))
    return world


def trainer_fields() -> dict[str, Any]:
    """Every field of `transformers.TrainingArguments` whose default is a plain value."""
    import dataclasses

    from transformers import TrainingArguments

    plain = (bool, int, float, str)
    return {
        field.name: field.default
        for field in dataclasses.fields(TrainingArguments)
        if isinstance(field.default, plain) and type(field.default) in plain and field.init
    }


class Outcome(NamedTuple):
    kind: str  # result, refused, or a finding
    detail: str = ""


def target_of(seed: int, number: int) -> Target:
    return Random(f"target {seed} {number}").choices(TARGETS, [target.weight for target in TARGETS])[0]


def run_case(world: Path, seed: int, number: int) -> tuple[str, Outcome]:
    """Damage a file of the world, run the command, put the file back."""
    target = target_of(seed, number)
    random = Random(f"{seed} {number}")
    place = world / target.place
    files = (
        sorted(file for file in place.glob(target.pattern) if file.is_file()) if target.pattern else [place]
    )
    file = random.choice(files)
    content = file.read_bytes()
    if target.place == "trainer.yaml":
        damaged = trainer_case(content, random)
    else:
        damaged = mutate(content, file.suffix, random)
    name = f"{' '.join(target.command)} [{file.relative_to(world)}]"
    if target.command[0] == "READ":
        is_part = len(files) > 1 or target.command[1] in ("run", "comparison", "calibrator")
        try:
            file.write_bytes(damaged)
            return name, outcome_of(lambda: read(place if is_part else file, target.command[1]))
        finally:
            file.write_bytes(content)
    before = stamps(world)
    try:
        file.write_bytes(damaged)
        outcome = call(world, target.command)
    finally:
        file.write_bytes(content)
    left = {path for path in stamps(world) ^ before if path[0] != str(file)}
    written = {path for path in left if not Path(path[0]).name.startswith("OUT")}
    for path in world.glob("OUT*"):
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    if outcome.kind == "refused" and any(Path(path[0]).name.startswith("OUT") for path in left):
        outcome = Outcome("finding", "refused, and an output was left behind")
    if outcome.kind == "refused" and written:
        outcome = Outcome("finding", f"refused, and {min(written)[0]} was changed")
    return name, outcome


def trainer_case(content: bytes, random: Random) -> bytes:
    """One field of the Trainer at a time: the defaults of the others are not all compatible."""
    import yaml

    from reliability.mutations import ODD

    fields = yaml.safe_load(content)["trainer"]
    name = random.choice(sorted(fields))
    text = yaml.safe_dump({"trainer": {name: random.choice(ODD)}}, allow_unicode=False)
    return text.encode(errors="surrogatepass")


def stamps(world: Path) -> set[tuple[str, int, int]]:
    """What is in the world: names, sizes and times; of directories the names alone."""
    found = set()
    for path in world.rglob("*"):
        facts = path.lstat()
        is_file = path.is_file()
        found.add((str(path), facts.st_size if is_file else 0, facts.st_mtime_ns if is_file else 0))
    return found


def call(world: Path, command: tuple[str, ...]) -> Outcome:
    from calmix.cli.app import main

    arguments: list[str] = []
    for word in command:
        arguments += training_options(Path()) if word == "OPTIONS" else [word]
    out, err = io.StringIO(), io.StringIO()
    os.chdir(world)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main(arguments)
    except SystemExit as ended:
        code = ended.code or 0
    except TrainingBegins:
        return Outcome("result")
    except BaseException as error:  # whatever it is, it is a finding
        return Outcome("finding", signature(error))
    if code == 0:
        return Outcome("result")
    lines = err.getvalue().strip().splitlines() or [""]
    if code != 2 or "Traceback" in err.getvalue() or not lines[-1].startswith("calmix: "):
        return Outcome("finding", f"exit code {code}, last line {lines[-1][:100]!r}")
    if len(lines[-1]) > 1500:
        return Outcome("finding", f"a line of {len(lines[-1]):,} characters, from {lines[-1][:80]!r}")
    return Outcome("refused", lines[-1])


def outcome_of(action: Callable[[], None]) -> Outcome:
    """What a reader made of a file."""
    try:
        action()
    except UserError as error:
        line = str(error)
        is_fine = "\n" not in line and len(line) < 1500 and line.isprintable()
        return Outcome("refused", line) if is_fine else Outcome("finding", f"the line is {line[:200]!r}")
    except BaseException as error:
        return Outcome("finding", signature(error))
    return Outcome("result")


def signature(error: BaseException) -> str:
    """What two findings of one cause have in common: the exception and the innermost line of calmix."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "/calmix/" in frame.filename] or list(frames)
    place = f"{Path(own[-1].filename).name}:{own[-1].lineno} {own[-1].name}"
    if SHOW_TRACEBACK:
        traceback.print_exception(error, file=sys.__stderr__)
    return f"{type(error).__name__} at {place}: {' '.join(str(error).split())[:120]}"


def stop_before_training() -> None:
    from transformers import Trainer

    def begin(*_: Any, **__: Any) -> None:
        raise TrainingBegins

    Trainer.train = begin


def work(world: Path, seed: int, numbers: range, report: Any) -> None:
    """The cases of one worker; a line before and a line after each."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    stop_before_training()
    for number in numbers:
        print(json.dumps({"begins": number}), file=report, flush=True)
        signal.alarm(SECONDS)
        name, outcome = run_case(world, seed, number)
        signal.alarm(0)
        print(json.dumps({"number": number, "name": name, **outcome._asdict()}), file=report, flush=True)


def fuzz(
    seed: int, minutes: float, first: int = 0, most: int | None = None, output: Path | None = None
) -> dict[str, Any]:
    """Cases until the time is over, or `most` of them; what was found. The counts are written after every
    batch, so that an interruption loses none but its own."""
    counts: Counter[str] = Counter()
    findings: dict[str, dict[str, Any]] = {}
    started = time.monotonic()

    def result() -> dict[str, Any]:
        return {
            "seed": seed,
            "minutes": round((time.monotonic() - started) / 60, 1),
            "cases": sum(counts.values()),
            "targets": len(TARGETS),
            **{kind: counts[kind] for kind in ("result", "refused", "finding")},
            "findings": sorted(findings.values(), key=lambda found: -found["times"]),
        }

    with tempfile.TemporaryDirectory(prefix="calmix-fuzz-") as folder:
        os.environ["CALMIX_CACHE"] = str(Path(folder) / "cache")
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            whole = complete_world(Path(folder) / "world")
        number = first
        while time.monotonic() - started < minutes * 60 and (most is None or number < first + most):
            last = number + BATCH if most is None else min(number + BATCH, first + most)
            number = one_worker(whole, seed, range(number, last), counts, findings)
            if output is not None:
                output.write_text(json.dumps(result(), indent=2) + "\n")
    return result()


def one_worker(
    whole: Path, seed: int, numbers: range, counts: Counter[str], findings: dict[str, dict[str, Any]]
) -> int:
    """Fork a worker for some cases; the number of the next one."""
    world = whole.with_name("copy")
    shutil.rmtree(world, ignore_errors=True)
    shutil.copytree(whole, world)
    record = whole.with_name("record.jsonl")
    child = os.fork()
    if child == 0:
        with record.open("w") as report, Path(os.devnull).open("w") as nowhere:
            os.dup2(nowhere.fileno(), 2)  # native code writes there
            try:
                work(world, seed, numbers, report)
            except BaseException:
                traceback.print_exc(file=sys.__stdout__)
                os._exit(1)
            os._exit(0)
    _, status = os.waitpid(child, 0)
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    done = [line for line in lines if "kind" in line]
    for line in done:
        counts[line["kind"]] += 1
        if line["kind"] == "finding":
            note(findings, line["detail"], line["number"], line["name"])
    if status == 0:
        return numbers.stop
    began = max((line["begins"] for line in lines if "begins" in line), default=numbers.start)
    ended = (
        f"signal {signal.Signals(os.WTERMSIG(status)).name}" if os.WIFSIGNALED(status) else f"status {status}"
    )
    counts["finding"] += 1
    note(findings, f"the process ended: {ended}", began, "")
    return began + 1


def note(findings: dict[str, dict[str, Any]], detail: str, number: int, name: str) -> None:
    found = findings.setdefault(detail, {"detail": detail, "case": number, "command": name, "times": 0})
    found["times"] += 1
    if found["times"] == 1:
        print(f"case {number}: {detail}   {name}", flush=True)


def repeat(seed: int, number: int) -> None:
    """One case in this process, with what it prints."""
    with tempfile.TemporaryDirectory(prefix="calmix-fuzz-") as folder:
        os.environ["CALMIX_CACHE"] = str(Path(folder) / "cache")
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            world = complete_world(Path(folder) / "world")
        stop_before_training()
        name, outcome = run_case(world, seed, number)
        print(name, outcome.kind, outcome.detail, sep="\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", type=int, help="repeat one case")
    parser.add_argument("--output", type=Path, help="a JSON file for the counts")
    given = parser.parse_args()
    if given.case is not None:
        repeat(given.seed, given.case)
        return
    result = fuzz(given.seed, given.minutes, output=given.output)
    print(json.dumps({key: value for key, value in result.items() if key != "findings"}))
    sys.exit(1 if result["finding"] else 0)


if __name__ == "__main__":
    main()
