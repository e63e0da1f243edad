"""A method is a composition: one small class that answers five questions.

Which rows may meet (pairing), where the network is mixed (mix point), what the target of a mixed row is,
how the losses are weighed, and what must be known about the rows first (needs). `losses` composes the
answers for one micro-batch; `MixupTrainer` runs any method.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pkgutil import iter_modules
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from calmix.data.batches.grouped import RowGroups
from calmix.mixing.bank import SaliencyBank
from calmix.mixing.catalogue import ENTRY_POINT_GROUP, check_option_names, unknown_method
from calmix.mixing.known_rows import KnownRows
from calmix.mixing.needs import NEEDS
from calmix.mixing.step import RowLosses, Step
from calmix.mixing.targets import one_hot, smoothed
from calmix.user_error import UserError


@dataclasses.dataclass(frozen=True)
class Method(ABC):
    """The base of every method; options are dataclass fields."""

    name: ClassVar[str]
    summary: ClassVar[str]
    """One line for `calmix methods`."""
    citation: ClassVar[str]
    pairs: ClassVar[str] = "none"
    mix_point: ClassVar[str] = "–"
    needs: ClassVar[tuple[str, ...]] = ()
    """What must be known about the rows before training, by default: names of `calmix.mixing.needs`."""
    multi_label: ClassVar[bool] = False
    """Whether it is defined for rows of several labels: it takes its losses from `step.losses_of`."""
    numerics: ClassVar[int] = 1
    """Raised by one when a change to the method alters what a run of equal options gives."""

    later_options: ClassVar[tuple[str, ...]] = ()
    """Options that runs were stored without: at their defaults they do not rename a run."""

    label_smoothing: float = 0.0
    """ε: the true class keeps 1 − ε, every other class gets ε/(C − 1)."""

    def __post_init__(self) -> None:
        if not 0 <= self.label_smoothing < 1:
            raise UserError(f"label smoothing must be in [0, 1), not {self.label_smoothing}")

    def check_choices(self, choices: Mapping[str, Sequence[str]]) -> None:
        """Refuse an option that is none of its values."""
        for option, allowed in choices.items():
            value = getattr(self, option)
            if value not in allowed:
                raise UserError(f"{option} is {value!r}", remedy=f"choose one of {', '.join(allowed)}")

    def targets(self, step: Step) -> Tensor:
        """What the rows themselves are asked to predict: one-hot, or smoothed; times their weights."""
        return self.targets_of(step, step.labels, step.positions)

    def targets_of(self, step: Step, labels: Tensor, positions: NDArray[np.int64] | None) -> Tensor:
        """The targets of training rows with these labels and positions, in the batch or not."""
        if step.is_multi_label:
            return labels
        if step.mass is not None:
            return step.mass.of(labels, positions, self.label_smoothing)
        return smoothed(one_hot(labels, step.num_classes), self.label_smoothing)

    def __init_subclass__(cls) -> None:
        unknown = [need for need in cls.needs if need not in NEEDS]
        if unknown:
            raise TypeError(f"{cls.__name__} needs {unknown[0]!r}; there are {', '.join(NEEDS)}")

    @property
    def needed(self) -> tuple[str, ...]:
        """What these options need; a method whose options change that says how."""
        return self.needs

    def depths(self, head: int) -> Sequence[int]:
        """The depths of which one is drawn for every step, in a network with its head at this depth: what
        cannot be mixed there is refused before training."""
        return ()

    def make_bank(
        self, logits: NDArray[np.float32], labels: NDArray[np.int64], groups: Sequence[NDArray[np.int64]]
    ) -> SaliencyBank | None:
        """The bank of an epoch: the latest logits of all training rows, NaN where there are none."""
        return None

    def groups(self, known: KnownRows) -> RowGroups | None:
        """The groups of rows that stand side by side in every batch, with what is known about the rows."""
        return None

    @abstractmethod
    def losses(self, step: Step) -> RowLosses:
        """The loss of every row of a micro-batch."""

    def options(self) -> dict[str, Any]:
        """The options and their values, as they are saved with a run."""
        return dataclasses.asdict(self)

    def hashed_options(self) -> dict[str, Any]:
        """The options that name a stored run."""
        defaults = {option.name: option.default for option in dataclasses.fields(self)}
        return {
            name: value
            for name, value in self.options().items()
            if name not in self.later_options or value != defaults[name]
        }

    def effective_options(self, num_classes: int) -> dict[str, Any]:
        """The options with what "auto" becomes for a task of this many classes."""
        return self.options()


@cache
def method_classes() -> dict[str, type[Method]]:
    """All methods by name: those in `calmix.mixing.methods`, then those registered by other packages."""
    package = import_module("calmix.mixing.methods")
    classes: dict[str, type[Method]] = {}
    for info in iter_modules(package.__path__):
        module = import_module(f"{package.__name__}.{info.name}")
        for value in vars(module).values():
            # The classes that a file defines, not those it imports.
            if isinstance(value, type) and issubclass(value, Method) and value.__module__ == module.__name__:
                classes[value.name] = value
    for entry_point in entry_points(group=ENTRY_POINT_GROUP):
        cls = entry_point.load()
        classes[cls.name] = cls
    return dict(sorted(classes.items(), key=lambda item: (item[0] != "plain", item[0])))


def list_methods() -> list[str]:
    """The names of all methods, `plain` first."""
    return list(method_classes())


def get_method(name: str, **options: Any) -> Method:
    """A method by name, with its options.

    >>> get_method("plain", label_smoothing=0.1)
    Plain(label_smoothing=0.1)
    """
    classes = method_classes()
    if name not in classes:
        raise unknown_method(name, classes)
    cls = classes[name]
    check_option_names(name, options, [option.name for option in dataclasses.fields(cls)])
    kinds = {option.name: str(option.type) for option in dataclasses.fields(cls)}
    return cls(**{option: _as_kind(option, value, kinds[option]) for option, value in options.items()})


def _as_kind(option: str, value: Any, kind: str) -> Any:
    """A value of the option's kind. YAML reads 1e-1 as text and 1 as a whole number."""
    try:
        if kind == "float" and not isinstance(value, bool):
            return float(value)
        if kind.startswith("tuple[int") and value is not None:
            return tuple(int(each) for each in (value if isinstance(value, (list, tuple)) else [value]))
    except (TypeError, ValueError):
        raise UserError(f"{option} is {value!r}", remedy="give a number") from None
    if kind in ("str", "bool") and not isinstance(value, str if kind == "str" else bool):
        raise UserError(
            f"{option} is {value!r}", remedy="give " + ("a name" if kind == "str" else "true or false")
        )
    return value
