"""What the columns of a predictions file are: by their names, or as the user says; never by guess.

Labels          label, labels, label_ids, target, targets, y_true or true_label
Scores          logits, probs, probabilities            one list per row
                logit_X, prob_X, proba_X                one column per class X
                prob, proba, probability, logit         of one of two classes; so is a single prob_X
                predictions beside label_ids            logits, as transformers' `Trainer.predict` has them
                columns named like the labels           one probability per class
Row ids         row_id

Columns that are numbered 0..C-1 hold the classes of these indices. All other names are the classes' names,
and labels are found among them by name. What could mean two things is refused with the option that settles
it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from calmix.calibration.class_names import (
    ClassLookup,
    DifferentClasses,
    are_numbered,
    class_order,
    is_number_name,
    listed,
    spelling,
)
from calmix.calibration.files.column_mapping import ColumnMapping
from calmix.calibration.files.prediction_columns import ScoreColumns, is_number
from calmix.calibration.predictions import ScoreKind
from calmix.user_error import UserError, argument

LABELS = ("label", "labels", "label_ids", "target", "targets", "y_true", "true_label")
PREDICTED = ("predicted_label", "prediction", "predictions", "predicted", "predicted_class", "pred", "y_pred")
LISTS: dict[str, ScoreKind] = {
    "logits": "logits",
    "probs": "probabilities",
    "probabilities": "probabilities",
}
PREFIXES: dict[str, ScoreKind] = {
    "logit_": "logits",
    "prob_": "probabilities",
    "proba_": "probabilities",
}
SINGLES: dict[str, ScoreKind] = {
    "logit": "logits",
    "prob": "probabilities",
    "proba": "probabilities",
    "probability": "probabilities",
}
OPTIONS: dict[ScoreKind, str] = {"logits": "logit_columns", "probabilities": "prob_columns"}
# Two classes of which everybody takes the second for the positive one.
PAIRS = (("0", "1"), ("false", "true"), ("-1", "1"))


@dataclass(frozen=True)
class PredictionLayout:
    """Finds the columns of one file."""

    file: Path
    schema: pa.Schema
    mapping: ColumnMapping
    label_values: Callable[[str], list[str]]
    """The different labels of a column, as texts; asked where the columns alone do not name the classes."""
    stored_names: tuple[str, ...] | None = None
    """Class names that the file holds beside its columns."""
    known_names: tuple[str, ...] = ()
    """The classes that a reader expects: where columns are numbered by them, their numbers are names."""
    labelled: bool = True
    stores_indices: bool = False
    """Whether the file is our own, whose labels are class indices whatever the classes are called."""

    @property
    def names(self) -> list[str]:
        return list(self.schema.names)

    def find(self) -> ScoreColumns:
        label = self._label() if self.labelled else None
        row_id = self._row_id()
        self._refuse_doubles(*(name for name in (label, row_id) if name is not None))
        found = self._named_by_user(label) or self._by_name(label)
        if found is None and label is not None:
            found = self._named_like_labels(label, row_id)
        if found is None:
            raise self._problem(
                "no scores: expected logits, logit_0.., probs or prob_0..",
                f"name them with {argument('prob_columns')} or {argument('logit_columns')}; the columns are: "
                f"{listed(self.names)}",
            )
        return found.with_columns(label, row_id)

    def _refuse_doubles(self, *names: str) -> None:
        for name in names:
            if self.names.count(name) > 1:
                raise UserError(
                    "two columns of this name", file=self.file, column=name, remedy="rename one of them"
                )

    def _problem(self, problem: str, remedy: str) -> UserError:
        return UserError(problem, file=self.file, remedy=remedy)

    def _label(self) -> str:
        wanted = self.mapping.label_column
        if wanted is not None:
            return self._present(wanted, argument("label_column"))
        present = [name for name in LABELS if name in self.names]
        if len(present) == 1:
            return present[0]
        if present:
            options = " or ".join(argument("label_column", name) for name in present)
            raise self._problem(f"several columns of labels: {', '.join(present)}", f"give {options}")
        predicted = next((name for name in PREDICTED if name in self.names), None)
        but = "" if predicted is None else f" ({predicted!r} holds what the model says)"
        raise self._problem(
            f"no column 'label' with the true classes{but}",
            f"name it with {argument('label_column')}; the columns are: {listed(self.names)}",
        )

    def _row_id(self) -> str | None:
        wanted = self.mapping.id_column
        if wanted is not None:
            return self._present(wanted, argument("id_column"))
        return "row_id" if "row_id" in self.names else None

    def _present(self, name: str, option: str) -> str:
        if name not in self.names:
            raise self._problem(f"no column {name!r}", f"{option} names one of: {listed(self.names)}")
        return name

    def _named_by_user(self, label: str | None) -> ScoreColumns | None:
        kind: ScoreKind = "logits" if self.mapping.logit_columns else "probabilities"
        names = self.mapping.logit_columns or self.mapping.prob_columns
        if not names:
            return None
        for name in names:
            self._present(name, argument(OPTIONS[kind]))
        self._refuse_doubles(*names)
        if len(names) == 1:
            if is_number(self.schema.field(names[0]).type):
                return self._single(kind, names[0], None, label)
            return self._list(kind, names[0])
        own = self._suffixes(names)
        # In the order that the user gives: an index is then a place in it, unless the classes are numbers.
        return self._columns(kind, names, self._class_names(own), indices=not all(map(is_number_name, own)))

    def _by_name(self, label: str | None) -> ScoreColumns | None:
        found: dict[str, Callable[[], ScoreColumns]] = {}
        for name, kind in LISTS.items():
            if name in self.names:
                found[argument(OPTIONS[kind], name)] = lambda kind=kind, name=name: self._list(kind, name)  # type: ignore[misc]
        for prefix, kind in PREFIXES.items():
            names = [name for name in self.names if name.startswith(prefix) and len(name) > len(prefix)]
            if names:
                found[argument(OPTIONS[kind], ",".join(names))] = (
                    lambda kind=kind, names=names, prefix=prefix: (  # type: ignore[misc]
                        self._prefixed(kind, names, prefix, label)
                    )
                )
        if not found:
            for name, kind in SINGLES.items():
                if name in self.names:
                    found[argument(OPTIONS[kind], name)] = lambda kind=kind, name=name: self._single(  # type: ignore[misc]
                        kind, name, None, label
                    )
        if not found and "predictions" in self.names and not is_number(self.schema.field("predictions").type):
            return self._of_trainer(label)
        if len(found) > 1:
            raise self._problem("several kinds of scores", f"give {' or '.join(found)}")
        return next(iter(found.values()))() if found else None

    def _of_trainer(self, label: str | None) -> ScoreColumns | None:
        if "label_ids" not in self.names and label is not None:
            raise self._problem(
                "'predictions' may be logits or probabilities",
                f"give {argument('logit_columns', 'predictions')} or "
                f"{argument('prob_columns', 'predictions')}",
            )
        found = self._list("logits", "predictions")
        return ScoreColumns(
            found.kind, found.names, True, found.class_names, found.has_indices, is_told=False
        )

    def _list(self, kind: ScoreKind, name: str) -> ScoreColumns:
        self._refuse_doubles(name)
        names = self._class_names(None)
        by_name = names is not None and not self.stores_indices and all(map(is_number_name, names))
        return ScoreColumns(kind, (name,), True, names, not by_name)

    def _prefixed(self, kind: ScoreKind, names: list[str], prefix: str, label: str | None) -> ScoreColumns:
        self._refuse_doubles(*names)
        suffixes = tuple(name.removeprefix(prefix) for name in names)
        if len(names) == 1:
            return self._single(kind, names[0], suffixes[0], label)
        if sorted(suffixes) == sorted(self.known_names) or not all(map(is_whole, suffixes)):
            return self._columns(kind, names, self._class_names(suffixes), indices=False)
        ordered = sorted(names, key=lambda name: int(name.removeprefix(prefix)))
        numbers = [int(name.removeprefix(prefix)) for name in ordered]
        if numbers not in (list(range(numbers[0], numbers[0] + len(numbers))), [-1, 1]):
            raise self._problem(
                f"class columns are numbered with gaps: {', '.join(ordered)}",
                "add what is missing; if these are all classes, give "
                f"{argument(OPTIONS[kind], ','.join(ordered))}",
            )
        own = tuple(name.removeprefix(prefix) for name in ordered)
        if numbers[0] == 0:
            return self._columns(kind, ordered, self._class_names(None), indices=True)
        return self._columns(kind, ordered, self._class_names(own), indices=False)

    def _named_like_labels(self, label: str, row_id: str | None) -> ScoreColumns | None:
        candidates = [
            name
            for name in self.names
            if name not in (label, row_id)
            and self.names.count(name) == 1
            and is_number(self.schema.field(name).type)
        ]
        numbered = [name for name in candidates if name.isdecimal()]
        if len(numbered) > 1 and are_numbered(sorted(numbered, key=int)):
            return self._columns(
                "probabilities", sorted(numbered, key=int), self._class_names(None), indices=True
            )
        if len(candidates) < 2:
            return None
        lookup = ClassLookup(candidates)
        places = {lookup.find(value) for value in self.label_values(label)}
        if None in places or len(places) < 2:
            return None
        names = [candidates[place] for place in sorted(place for place in places if place is not None)]
        found = self._columns("probabilities", names, self._class_names(tuple(names)), indices=False)
        others = tuple(name for name in candidates if name not in names)
        return ScoreColumns(
            found.kind, found.names, False, found.class_names, False, is_told=False, others=others
        )

    def _single(self, kind: ScoreKind, name: str, suffix: str | None, label: str | None) -> ScoreColumns:
        """One column for two classes: the score of the positive one."""
        self._refuse_doubles(name)
        negative, positive = self._pair(name, suffix, label)
        return ScoreColumns(kind, (name,), False, (negative, positive), False, is_single=True)

    def _pair(self, name: str, suffix: str | None, label: str | None) -> tuple[str, str]:
        names = self.mapping.class_names or self.stored_names or self.known_names
        if not names and label is not None:
            names = tuple(self.label_values(label))
        if len(names) > 2:
            raise self._problem(
                f"one column of scores, {name!r}, for {len(names)} classes: {listed(names)}",
                "give one column per class",
            )
        spelled = {spelling(value) for value in names}
        pair = next((pair for pair in PAIRS if spelled and spelled <= set(pair)), None)
        if len(names) < 2 and pair is not None:
            names = pair
        if len(names) < 2:
            raise self._problem(
                f"one column of scores, {name!r}, and only one class to be seen: {listed(names)}",
                f"give one column per class, or {argument('class_names', 'A,B')} and "
                f"{argument('positive_class', 'B')}",
            )
        lookup = ClassLookup(names)
        place: int | None
        if self.mapping.positive_class is not None:
            place = lookup.find(self.mapping.positive_class)
            if place is None:
                raise self._problem(
                    argument("positive_class", self.mapping.positive_class),
                    f"the classes are {listed(names)}",
                )
        elif suffix is not None:
            place = lookup.find(suffix)
        else:
            place = None if pair is None else lookup.find(pair[1])
        if place is None:
            options = " or ".join(argument("positive_class", value) for value in names)
            raise self._problem(
                f"which of the classes {listed(names)} does {name!r} speak of?", f"give {options}"
            )
        return names[1 - place], names[place]

    def _columns(
        self, kind: ScoreKind, names: Sequence[str], class_names: tuple[str, ...] | None, *, indices: bool
    ) -> ScoreColumns:
        if class_names is not None and len(class_names) != len(names):
            raise self._problem(
                f"{len(class_names)} class names ({listed(class_names)}) for {len(names)} columns "
                f"({listed(names)})",
                "name every class once",
            )
        if indices and class_names is not None and not self.stores_indices:
            indices = not all(map(is_number_name, class_names))
        return ScoreColumns(kind, tuple(names), False, class_names, indices)

    def _class_names(self, own: tuple[str, ...] | None) -> tuple[str, ...] | None:
        """The classes of columns that carry the names `own`, or none."""
        given = self.mapping.class_names or self.stored_names
        if own is None or not given:
            return own or given or None
        if self.mapping.prob_columns or self.mapping.logit_columns:
            return given  # both lists are in the user's order
        try:
            class_order(own, given)
        except DifferentClasses:
            raise self._problem(
                f"the columns are those of {listed(own)}, the class names {listed(given)}",
                "name the same classes",
            ) from None
        return own

    @staticmethod
    def _suffixes(names: Sequence[str]) -> tuple[str, ...]:
        """The classes' names without a prefix that all columns share."""
        for prefix in PREFIXES:
            if all(name.startswith(prefix) and len(name) > len(prefix) for name in names):
                return tuple(name.removeprefix(prefix) for name in names)
        return tuple(names)


def is_whole(text: str) -> bool:
    """
    >>> [is_whole(text) for text in ("2", "-1", "1.0", "x")]
    [True, True, False, False]
    """
    return text.removeprefix("-").isdecimal()


def distinct_labels(values: Sequence[Any]) -> list[str]:
    """The different labels, numbers by size and texts by the alphabet.

    >>> distinct_labels([2, 1, 1]), distinct_labels(["b", "a", None]), distinct_labels([True, False])
    (['1', '2'], ['a', 'b'], ['False', 'True'])
    """
    different = {value for value in values if value is not None}
    try:
        ordered = sorted(different)
    except TypeError:
        ordered = sorted(different, key=str)
    return [
        str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
        for value in ordered
    ]
