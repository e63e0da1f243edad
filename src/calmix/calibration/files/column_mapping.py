"""What a user says about the columns of a predictions file, where their names do not say it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from calmix.user_error import UserError, argument


@dataclass(frozen=True)
class ColumnMapping:
    """Column names of a predictions file; what is left out is recognised by name.

    label_column     the true classes
    id_column        the row ids
    prob_columns     the probabilities: one column per class in class order, one column of lists, or one
                     column with the probability of one of two classes
    logit_columns    the logits, likewise
    class_names      the classes in the order of the columns or of the lists
    positive_class   the class whose probability a single column holds
    weight_column    how much each row counts
    multi_label      rows have several labels, or none: lists of names in the label column
    label_separator  what stands between the names of a row where they are one text
    label_columns    columns of 0 and 1, one of each label, in place of the label column
    """

    label_column: str | None = None
    id_column: str | None = None
    prob_columns: tuple[str, ...] = ()
    logit_columns: tuple[str, ...] = ()
    class_names: tuple[str, ...] = ()
    positive_class: str | None = None
    weight_column: str | None = None
    multi_label: bool = False
    label_separator: str | None = None
    label_columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.prob_columns and self.logit_columns:
            raise UserError(
                f"both {argument('prob_columns')} and {argument('logit_columns')}",
                remedy="name the scores that are to be measured",
            )
        for option, names in (
            ("prob_columns", self.prob_columns),
            ("logit_columns", self.logit_columns),
            ("class_names", self.class_names),
            ("label_columns", self.label_columns),
        ):
            if len(set(names)) != len(names) or "" in names:
                raise UserError(
                    argument(option, ",".join(names)), remedy="give every name once, with commas between"
                )
        if self.label_columns and (self.label_column or self.label_separator is not None):
            raise UserError(
                f"{argument('label_columns')} beside {argument('label_column')} or "
                f"{argument('label_separator')}",
                remedy="say in one way which labels a row has",
            )
        if self.label_separator == "":
            raise UserError(f"{argument('label_separator')} is empty", remedy="give a text such as ;")

    @property
    def has_label_lists(self) -> bool:
        """Whether the user says that rows have several labels, or none."""
        return self.multi_label or self.label_separator is not None or bool(self.label_columns)

    @classmethod
    def from_options(
        cls,
        *,
        prob_columns: str | Sequence[str] | None = None,
        logit_columns: str | Sequence[str] | None = None,
        class_names: str | Sequence[str] | None = None,
        label_columns: str | Sequence[str] | None = None,
        **others: Any,
    ) -> ColumnMapping:
        """Lists as a command line gives them.

        >>> ColumnMapping.from_options(prob_columns="p_cat, p_dog").prob_columns
        ('p_cat', 'p_dog')
        """
        return cls(
            prob_columns=split_names(prob_columns),
            logit_columns=split_names(logit_columns),
            class_names=split_names(class_names),
            label_columns=split_names(label_columns),
            **others,
        )

    def __bool__(self) -> bool:
        return self != ColumnMapping()


def split_names(names: str | Sequence[str] | None) -> tuple[str, ...]:
    """
    >>> split_names("cat, dog"), split_names(["cat"]), split_names(None)
    (('cat', 'dog'), ('cat',), ())
    """
    if names is None:
        return ()
    listed = names.split(",") if isinstance(names, str) else names
    return tuple(str(name).strip() for name in listed)
