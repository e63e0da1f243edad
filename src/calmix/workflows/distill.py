"""Train a small student on the labels and a teacher's predictions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from calmix.io.run_directory import RunDirectory
from calmix.mixing.catalogue import method_cards
from calmix.user_error import UserError, argument
from calmix.workflows.options import plain_value
from calmix.workflows.run import Run
from calmix.workflows.train import rows_or_lists, train_run


def distill(
    train: Any = None,
    *,
    teacher: Any = None,
    output: str | Path,
    validation: Any = None,
    test: Any = None,
    unlabelled: Any = None,
    texts: Any = None,
    labels: Any = None,
    resume: bool = False,
    **options: Any,
) -> Run:
    """Train a student on labels and on a teacher's logits for the same rows.

        small = calmix.distill(frame, teacher=run, student_layers=3, distill_temperature=2, output="small")

    teacher: a `Run`, a run or checkpoint directory, a predictions file, the name of a method by which a
    teacher is trained first, or several of them. Without `model`, the student starts from the network that
    the first teacher's run started from. unlabelled: rows that are learned from the teacher alone.

    Data and options are those of `calmix.train`, and those of `calmix distill --help` by the same names.
    """
    data = {"train": rows_or_lists(train, texts, labels), "validation": validation, "test": test}
    given = {**options, **data, "unlabelled": unlabelled, "teacher": teacher, "output": output}
    return distill_run(given, resume=resume)


def distill_run(options: Mapping[str, Any], *, resume: bool) -> Run:
    """`distill` with all options in one mapping; those that are None are not given."""
    if resume and options.get("train") is None:  # a run to resume knows its own options
        return train_run(options, resume=True)
    teacher = options.get("teacher")
    named = plain_value("teacher", teacher if isinstance(teacher, list | tuple) else (teacher,))
    if not named or named == (None,):
        raise UserError(
            "no teacher",
            remedy=f"give {argument('teacher', 'RUN')}, or {argument('teacher', 'METHOD')} to train one",
        )
    given = {name: value for name, value in options.items() if value is not None}
    return train_run({**with_network_of(str(named[0]), given), "teacher": named}, resume=resume)


def with_network_of(teacher: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Without a model, the student's network is of the kind that the first teacher's run started from."""
    if "model" in given:
        return dict(given)
    network = network_of(teacher)
    options = {**network.get("model_options", {}), **(given.get("model_options") or {})}
    return {**network, **given, **({"model_options": options} if options else {})}


def network_of(teacher: str) -> dict[str, Any]:
    """What a teacher's run says about the network it started from: its student is then of the same kind."""
    run = RunDirectory(Path(teacher))
    if teacher in method_cards() or not run.config_file.is_file():
        return {"model": "default"}
    config = run.config()
    return {name: config[name] for name in ("model", "model_options", "student_layers") if config.get(name)}
