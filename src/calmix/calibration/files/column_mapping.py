"""What a user says about the columns of a predictions file, where their names do not say it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
    """

    label_column: str | None = None
    id_column: str | None = None
    prob_columns: tuple[str, ...] = ()
    logit_columns: tuple[str, ...] = ()
    class_names: tuple[str, ...] = ()
    positive_class: str | None = None
    weight_column: str | None = None

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
        ):
            if len(set(names)) != len(names) or "" in names:
                raise UserError(
                    argument(option, ",".join(names)), remedy="give every name once, with commas between"
                )

    @classmethod
    def from_options(
        cls,
        *,
        label_column: str | None = None,
        id_column: str | None = None,
        prob_columns: str | Sequence[str] | None = None,
        logit_columns: str | Sequence[str] | None = None,
        class_names: str | Sequence[str] | None = None,
        positive_class: str | None = None,
        weight_column: str | None = None,
    ) -> ColumnMapping:
        """Lists as a command line gives them.

        >>> ColumnMapping.from_options(prob_columns="p_cat, p_dog").prob_columns
        ('p_cat', 'p_dog')
        """
        return cls(
            label_column,
            id_column,
            split_names(prob_columns),
            split_names(logit_columns),
            split_names(class_names),
            positive_class,
            weight_column,
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
