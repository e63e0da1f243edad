"""Teacher logits of the training rows: computed once, cached in a file, memory-mapped.

    PLACE.npy    logits [rows, classes], float32, in the order of the rows and of their label names
    PLACE.json   what they were made from: rows, label names, teacher; written last, it marks a whole file

A file that was made for other rows, for another order of the labels or by another teacher is refused.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_softmax, logsumexp

from calmix.data.rows import Rows
from calmix.io.manifest import find_damage, make_manifest, sync
from calmix.io.run_directory import replacing, write_json
from calmix.runtime.hardware import broadcast_from_rank0, wait_for_all_processes
from calmix.runtime.processes import is_first_process
from calmix.training.distillation.teachers import Teacher
from calmix.user_error import UserError, argument

Logits = NDArray[np.float32]
RECOMPUTE = "delete it: the logits are then computed again"


@dataclass(frozen=True, eq=False)
class TeacherLogits:
    """The logits of one teacher, or of several together, on the training rows by position.

    Several teachers are averaged as probabilities: z = log mean_m softmax(z_m). `scales` multiply the logits
    of each: a teacher whose temperature T was folded into its logits is as it was before with a scale of T.

    >>> teacher = TeacherLogits.of_arrays([[[0.0, 0.0]], [[np.log(3.0), 0.0]]])
    >>> np.exp(teacher.of([0])).round(4).tolist()  # the mean of 1/2 and 3/4
    [[0.625, 0.375]]
    """

    members: tuple[Logits, ...]
    scales: tuple[float, ...]

    @classmethod
    def of_arrays(cls, members: Sequence[ArrayLike], scales: Sequence[float] = ()) -> TeacherLogits:
        """Logits [rows, classes] of each teacher; arrays that are mapped from files stay there."""
        arrays = tuple(np.asanyarray(member, dtype=np.float32) for member in members)
        if not arrays or any(array.ndim != 2 or array.shape != arrays[0].shape for array in arrays):
            shapes = ", ".join(str(list(array.shape)) for array in arrays)
            raise UserError(f"a teacher's logits are [rows, classes], the same for all, not {shapes}")
        return cls(arrays, tuple(scales) or (1.0,) * len(arrays))

    @property
    def rows(self) -> int:
        return len(self.members[0])

    @property
    def classes(self) -> int:
        return int(self.members[0].shape[1])

    def of(self, positions: ArrayLike) -> Logits:
        """Logits [positions, classes] of the teachers together."""
        chosen = np.asarray(positions, dtype=np.int64)
        each = [member[chosen] for member in self.members]
        if len(each) == 1:
            own = np.asarray(each[0])
            return own if self.scales[0] == 1 else own * np.float32(self.scales[0])
        scaled = [z.astype(np.float64) * scale for z, scale in zip(each, self.scales, strict=True)]
        together = logsumexp([log_softmax(z, axis=1) for z in scaled], axis=0) - np.log(len(each))
        return np.asarray(together, dtype=np.float32)


def cached_teacher_logits(
    teacher: Teacher, rows: Rows, place: Path, *, device: str = "auto", threads: int | None = None
) -> Logits:
    """The teacher's logits on the rows: found at `place`, or computed and cached there.

    `rows.label_names` give the order of the classes. All processes of a run take part.
    """
    logits_file, facts_file = place.with_suffix(".npy"), place.with_suffix(".json")
    facts = facts_of(teacher, rows)
    # One process looks for all: to compute them is work that they share, and one may look late.
    if broadcast_from_rank0(are_kept(place)):
        check_facts(facts_file, facts)
    else:
        answers = teacher.answers(rows, device=device, threads=threads)
        wrong = first_not_finite(answers)
        if wrong is not None:
            raise UserError(
                f"what this teacher says about row {str(rows.row_ids[wrong])!r} is not a finite number",
                file=teacher.name,
                remedy="teach with another one, or leave the row out",
            )
        if is_first_process():
            with replacing(logits_file) as fresh:
                np.save(fresh, answers)
                sync(fresh)
            write_json(facts_file, {**facts, "files": make_manifest(place.parent, [logits_file])})
        wait_for_all_processes()
    try:
        kept: Logits = np.load(logits_file, mmap_mode="r")
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise UserError(
            f"the teacher's logits cannot be read ({reason})", file=logits_file, remedy=RECOMPUTE
        ) from error
    if (problem := find_damage(place.parent, files_of(facts_file))) is not None:
        raise UserError(f"the teacher's logits are damaged: {problem}", file=logits_file, remedy=RECOMPUTE)
    if kept.dtype != np.float32 or kept.shape != (len(rows), rows.class_count):
        expected = f"{len(rows)} rows of {rows.class_count} classes"
        found = " x ".join(map(str, kept.shape))
        raise UserError(
            f"the teacher's logits are {found}, not {expected}", file=logits_file, remedy=RECOMPUTE
        )
    return kept


def are_kept(place: Path) -> bool:
    """Whether logits are cached at a place; where one of the files is deleted, they are computed again."""
    return place.with_suffix(".npy").is_file() and place.with_suffix(".json").is_file()


def files_of(facts_file: Path) -> dict[str, Any]:
    """Size and hash of the logits, as they were when they were written."""
    return dict(json.loads(facts_file.read_text(encoding="utf-8")).get("files", {}))


def first_not_finite(logits: ArrayLike) -> int | None:
    """The first row that holds NaN or infinity: all that is learned from it would be NaN too.

    >>> first_not_finite([[0.0, 1.0], [0.0, np.nan]]), first_not_finite([[0.0, 1.0]])
    (1, None)
    """
    wrong = np.flatnonzero(~np.isfinite(logits).all(axis=1))
    return int(wrong[0]) if len(wrong) else None


def facts_of(teacher: Teacher, rows: Rows) -> dict[str, Any]:
    """What the logits are made from. Device and threads are not in it: they decide the last bits only."""
    return {
        "teacher": teacher.identity,
        "name": teacher.name,
        "rows": len(rows),
        "inputs": inputs_fingerprint(rows),
        "label_names": list(rows.label_names),
    }


def inputs_fingerprint(rows: Rows) -> str:
    """A hash of ids and texts alone: what the labels are makes no difference to a teacher."""
    return Rows(rows.without_labels().table, (), rows.source).fingerprint()


def check_facts(file: Path, wanted: dict[str, Any]) -> None:
    """Refuse logits that are not those asked for, and say why."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(
            "what its logits were made from cannot be read", file=file, remedy=RECOMPUTE
        ) from error
    remedy = f"name another {argument('output')}, or delete the directory to compute them again"
    if found["label_names"] != wanted["label_names"]:
        had, have = ", ".join(found["label_names"]), ", ".join(wanted["label_names"])
        raise UserError(
            f"the teacher's logits were made for the labels {had}, in this order; the training data have "
            f"{have}",
            file=file,
            remedy=remedy,
        )
    if (found["rows"], found["inputs"]) != (wanted["rows"], wanted["inputs"]):
        raise UserError(
            f"the teacher's logits were made for other data ({found['rows']} rows)", file=file, remedy=remedy
        )
    if found["teacher"] != wanted["teacher"]:
        raise UserError(
            f"the teacher's logits were made by another teacher ({found['name']}, as it was then)",
            file=file,
            remedy=remedy,
        )
