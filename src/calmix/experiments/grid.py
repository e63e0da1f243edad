"""Which runs a comparison is made of: arms (a method with its options) times seeds.

`--methods plain,cls-mixup:alpha=1` names the methods, options after a colon; `--vary alpha=0.1,0.4` makes an
arm of every value for each method that has such an option, and of every method if it is a setting of
training. An arm that a varied option does not concern is there once; a varied model brings the settings that
suit it, as it does in `calmix train`, unless another is given. `plain` is always in, and first: nothing
can be concluded about a method without it.
"""

from __future__ import annotations

import dataclasses
import difflib
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from calmix.training.configuration import DEFAULTS, NO_TEACHER, OPTIONS, TAUGHT, TrainConfig
from calmix.training.model_settings import settings_for, trainer_settings_for
from calmix.training.specification import parse_specification, parse_value
from calmix.user_error import UserError, argument

PLAIN = "plain"
TABLES = ("trainer", "model_options")
"""Their entries are options of an arm: `plain:trainer.weight_decay=0.1`."""


@dataclass(frozen=True)
class Arm:
    """A method with its options; its runs differ by the seed alone."""

    name: str
    method: str
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the method, label smoothing among them."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of training in which this arm departs from the others."""

    def config(self, base: TrainConfig, seed: int) -> TrainConfig:
        options = dict(self.options)
        smoothing = options.pop("label_smoothing", base.label_smoothing)
        return dataclasses.replace(
            base,
            method=self.method,
            method_options=options,
            label_smoothing=smoothing,
            seed=seed,
            **self.settings,
        )

    @property
    def is_taught(self) -> bool:
        """Whether a teacher has a part in it."""
        return has_teacher(self.settings)

    @property
    def is_plain(self) -> bool:
        return self.method == PLAIN and not self.options.get("label_smoothing") and not self.is_taught


def expand(base: TrainConfig, methods: Sequence[str], vary: Mapping[str, Sequence[Any]]) -> list[Arm]:
    """The arms of a comparison, `plain` first. Every name and value is checked."""
    from calmix.mixing.method import get_method, method_classes

    specifications = [parse_method(text) for text in methods]
    if not any(method == PLAIN and not has_teacher(spelled) for method, spelled in specifications):
        specifications.insert(0, (PLAIN, {}))
    settings = settable(base)
    known: dict[str, dict[str, Any]] = {}
    for method, _ in specifications:
        get_method(method)  # an unknown name ends here
        known[method] = {
            option.name: option.default for option in dataclasses.fields(method_classes()[method])
        }
    _check_known(filter(is_flat, vary), [*settings, *itertools.chain(*known.values())], argument("vary"))
    taught = [options.get("teacher") for _, options in specifications] + list(vary.get("teacher", ()))
    teachers = itertools.chain(*(names if isinstance(names, list) else [names] for names in taught))
    theirs = [dataclasses.fields(method_classes()[name]) for name in teachers if name in method_classes()]
    reached = [*itertools.chain(*known.values()), *(option.name for fields in theirs for option in fields)]
    _check_known(base.method_options, reached, argument("method_options"))

    arms: list[Arm] = []
    seen: list[Any] = []
    for method, spelled in specifications:
        defaults = {**settings, **known[method]}
        _check_known(filter(is_flat, spelled), list(defaults), argument("methods", method))
        varied = {
            name: values
            for name, values in vary.items()
            if (name in defaults or not is_flat(name)) and name not in spelled
        }
        shared = {name: value for name, value in base.method_options.items() if name in known[method]}
        if base.label_smoothing:
            shared["label_smoothing"] = base.label_smoothing
        for combination in itertools.product(*varied.values()):
            own = {**spelled, **dict(zip(varied, combination, strict=True))}
            own = {
                name: like_default(name, value, defaults[name]) if is_flat(name) else value
                for name, value in own.items()
            }
            if not has_teacher(own) and ("teacher" in own or not set(spelled) & set(TAUGHT)):
                # Taught by nobody: how to teach does not concern it.
                own = {name: value for name, value in own.items() if name not in TAUGHT}
            arm = Arm(
                name=" ".join([method, *(f"{name}={show(value)}" for name, value in own.items())]),
                method=method,
                options={**shared, **{name: value for name, value in own.items() if name in known[method]}},
                settings=own_settings(base, {n: v for n, v in own.items() if n not in known[method]}),
            )
            if arm.is_taught:
                arm = with_teacher_options(arm, base)
            arm.config(base, 0)  # a value that training refuses ends here
            effective = [method, get_method(method, **arm.options).options(), {**settings, **arm.settings}]
            if effective not in seen:
                seen.append(effective)
                arms.append(arm)
    return sorted(arms, key=lambda arm: arm.method != PLAIN or arm.is_taught)


def is_flat(name: str) -> bool:
    """Whether an option is not an entry of a table, as `trainer.weight_decay` is.

    >>> is_flat("epochs"), is_flat("trainer.weight_decay"), is_flat("model_options.dropout")
    (True, False, False)
    """
    return name.partition(".")[0] not in TABLES or "." not in name


def own_settings(base: TrainConfig, own: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of an arm; entries of a table stand beside those that the table has for all arms.

    >>> base = TrainConfig(train="a.csv", output="out", trainer={"warmup_steps": 5})
    >>> own_settings(base, {"epochs": 2, "trainer.weight_decay": 0.1})
    {'epochs': 2, 'trainer': {'warmup_steps': 5, 'weight_decay': 0.1}}
    """
    settings = settings_of_model(base, str(own.get("model", base.model)))
    settings |= {name: value for name, value in own.items() if is_flat(name)}
    for table in TABLES:
        entries = {
            name.partition(".")[2]: value for name, value in own.items() if name.startswith(f"{table}.")
        }
        if entries:
            settings[table] = {**settings.get(table, getattr(base, table)), **entries}
    return settings


def has_teacher(settings: Mapping[str, Any]) -> bool:
    """Whether settings name a teacher.

    >>> has_teacher({"teacher": "plain"}), has_teacher({"teacher": "none"}), has_teacher({})
    (True, False, False)
    """
    return settings.get("teacher") not in (None, "", NO_TEACHER, (), [])


def with_teacher_options(arm: Arm, base: TrainConfig) -> Arm:
    """The options that all methods share reach a teacher that is trained first, as they reach an arm of its
    method: the two are one run."""
    from calmix.training.distillation.teaching import is_method, options_of

    teachers = [name for name in arm.config(base, 0).teacher if is_method(name)]
    known = set[str]().union(*map(options_of, teachers))
    shared = {name: value for name, value in base.method_options.items() if name in known}
    return dataclasses.replace(arm, settings={**arm.settings, "teacher_options": shared}) if shared else arm


def settable(base: TrainConfig) -> dict[str, Any]:
    """The settings of training that may differ between arms, with the values they have otherwise."""
    return {name: getattr(base, name) for name, option in OPTIONS.items() if option.vary}


def settings_of_model(base: TrainConfig, model: str) -> dict[str, Any]:
    """What changes with the model: settings that `base` has by default, for its own model.

    >>> encoder = TrainConfig(train="a.csv", output="out", epochs=7)
    >>> found = settings_of_model(encoder, "text-cnn")
    >>> found["learning_rate"], found["trainer"], "epochs" in found
    (1.0, {'max_grad_norm': 0.0}, False)
    """
    before, after = settings_for(base.model), settings_for(model)
    if before == after:
        return {}
    changed = {
        name: after.get(name, DEFAULTS[name])
        for name in {**before, **after}
        if getattr(base, name) == before.get(name, DEFAULTS[name])
    }
    default = trainer_settings_for(base.model)
    given = {
        name: value for name, value in base.trainer.items() if name not in default or default[name] != value
    }
    return {**changed, "trainer": {**trainer_settings_for(model), **given}}


def reference_of(arm: Arm, arms: Sequence[Arm]) -> Arm | None:
    """The arm that `arm` is compared with: `plain` under the same settings, without label smoothing if it is
    there; where no `plain` has the same settings, the one that shares most of them. What a student is taught
    is no setting of its `plain`."""
    plain = [other for other in arms if other.method == PLAIN and not other.is_taught]

    def distance(other: Arm) -> tuple[int, float]:
        names = {*arm.settings, *other.settings} - set(TAUGHT)
        differing = sum(arm.settings.get(name) != other.settings.get(name) for name in names)
        return differing, float(other.options.get("label_smoothing", 0.0))

    return min(plain, key=distance, default=None)


def parse_method(text: str) -> tuple[str, dict[str, Any]]:
    """`name[:option=value...]`.

    >>> parse_method("cls-mixup:alpha=0.4:label-smoothing=0.1")
    ('cls-mixup', {'alpha': 0.4, 'label_smoothing': 0.1})
    """
    return parse_specification(text, argument("methods"))


def parse_vary(texts: Iterable[str]) -> dict[str, list[Any]]:
    """`name=v1,v2,...`, any number of times.

    >>> parse_vary(["alpha=0.1,0.4", "layers=[0, 3],[6]"])
    {'alpha': [0.1, 0.4], 'layers': [[0, 3], [6]]}
    """
    varied: dict[str, list[Any]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or not name or not values.strip():
            raise UserError(
                f"{argument('vary')} {text!r}", remedy=f"write {argument('vary', 'NAME=VALUE,VALUE')}"
            )
        if name in varied:
            raise UserError(f"{argument('vary')} names {name!r} twice", remedy="give all its values at once")
        varied[name] = [parse_value(value, argument("vary", text)) for value in split_list(values)]
    return varied


def parse_seeds(texts: Iterable[str]) -> tuple[int, ...]:
    """
    >>> parse_seeds(["0,1", "5"])
    (0, 1, 5)
    """
    seeds: list[int] = []
    for text in itertools.chain.from_iterable(map(split_list, texts)):
        if not text.isdecimal():
            raise UserError(
                f"{argument('seeds')}: {text!r} is not a seed",
                remedy=f"give whole numbers: {argument('seeds', '0,1,2')}",
            )
        if int(text) not in seeds:
            seeds.append(int(text))
    return tuple(seeds)


def split_list(text: str) -> list[str]:
    """Split at commas that stand outside brackets.

    >>> split_list("a, b:layers=[0,3],c")
    ['a', 'b:layers=[0,3]', 'c']
    """
    parts, depth = [""], 0
    for character in text:
        depth += (character in "[(") - (character in "])")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def like_default(name: str, value: Any, default: Any) -> Any:
    """The value in the type of its option, or one line that says what was expected.

    >>> like_default("alpha", 1, 0.4), like_default("learning_rate", 1, None)
    (1.0, 1.0)
    """
    known = OPTIONS[name].kind if name in OPTIONS else None
    wanted = known if default is None else type(default)
    if wanted is None or default is dataclasses.MISSING or value is None:
        return value
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if wanted is str and not isinstance(value, str | list | dict):
        return str(value)
    if wanted in (bool, int, float, str) and (
        not isinstance(value, wanted) or isinstance(value, bool) != (wanted is bool)
    ):
        kinds = {bool: "true or false", int: "a whole number", float: "a number", str: "a word"}
        such_as = "" if default is None else f", such as {show(default)}"
        raise UserError(f"{name} is {value!r}", remedy=f"give {kinds[wanted]}{such_as}")
    return value


def show(value: Any) -> str:
    """A value as it is written in the name of an arm, with all its digits: two values are never one arm.

    >>> show(0.1), show(2e-5), show([0, 3]), show(True), show(1.0), show(0.12345678)
    ('0.1', '2e-05', '[0,3]', 'true', '1', '0.12345678')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(show, value)) + "]"
    if isinstance(value, float):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    return str(value)


def _check_known(names: Iterable[str], known: Sequence[str], option: str) -> None:
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            listed = ", ".join(dict.fromkeys(known))
            raise UserError(
                f"{option}: no such option {name!r}",
                remedy=f"did you mean {near[0]!r}?" if near else f"there are: {listed}",
            )
