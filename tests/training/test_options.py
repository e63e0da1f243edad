"""Every option is declared once, and what follows from the declaration is what it says."""

import dataclasses
import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from calmix.training.configuration import DEFAULTS, OPTIONS, TrainConfig
from calmix.training.option_checks import owned_fields
from calmix.training.options import GROUPS, reference
from calmix.user_error import UserError

NEEDED = {"train": "train.csv", "output": "run"}
# What else an option needs to be given.
BESIDE = {"aum_filter": {"train_region": "easy"}}
SPELLED = {
    "optimizer": "sgd:momentum=0.5", "schedule": "constant", "augment": "flip", "method": "focal",
    "lora": "rank=2", "bins": (10, 100), "label_map": {"0": "no"}, "class_weights": "a=2",
    "label_prob_columns": ("p_*",), "report_to": ("mlflow", "wandb"),
    "trainer": {"weight_decay": 0.1},
}  # fmt: skip


def make(**given):
    return TrainConfig(**{**NEEDED, **given})


@pytest.mark.parametrize("option", OPTIONS.values(), ids=list(OPTIONS))
def test_every_option_says_what_it_is(option):
    assert option.help.endswith("."), "help is a sentence"
    assert option.group in GROUPS
    assert option.affects in ("result", "content", "record", "nothing")
    assert option.kind in (bool, int, float, str, tuple, dict)
    assert option.needs is None or option.needs in OPTIONS
    assert not option.vary or option.affects in ("result", "content")
    if not option.is_required:
        assert option.check(option.default) == option.default, "its default is one of its values"


def values_of(option):
    """Values that an option takes, other than its default."""
    if option.name in SPELLED:
        found = st.just(SPELLED[option.name])
    elif option.choices:
        found = st.sampled_from(option.choices)
    elif option.kind is bool:
        found = st.booleans()
    elif option.kind is int:
        found = st.integers(int(option.least or 0), min(int(option.most or 10**6), 10**6))
    elif option.kind is float:
        low = option.least if option.least is not None else option.above
        high = option.most if option.most is not None else option.below
        found = st.floats(
            low,
            100.0 if high is None else high,
            exclude_min=option.least is None,
            exclude_max=option.below is not None,
        )
    elif option.kind is tuple:
        found = st.lists(st.sampled_from(["a.csv", "b=b.csv"]), min_size=1, unique=True).map(tuple)
    elif option.kind is dict:
        found = st.dictionaries(st.sampled_from(["a", "b"]), st.integers(), min_size=1)
    else:
        found = st.text("abc", min_size=1)
    return found.filter(lambda value: value != option.default)


@st.composite
def changes(draw):
    option = draw(st.sampled_from([option for option in OPTIONS.values() if option.name not in NEEDED]))
    beside = dict(BESIDE.get(option.name, {}))
    if option.needs:
        beside[option.needs] = {"teacher": ("plain",), "freeze_layers": 2, "train_rows": 9}[option.needs]
    if option.name == "unlabelled":
        beside["label_weight"] = 0.5
    return option, beside, draw(values_of(option))


@given(changes())
def test_what_is_hashed_is_what_changes_the_result_and_is_not_the_default(change):
    option, beside, value = change
    before, after = make(**beside), make(**beside, **{option.name: value})

    def hashed(config):
        return hashlib.sha256(json.dumps(config.that_change_the_result(), sort_keys=True).encode()).digest()

    assert (hashed(before) != hashed(after)) == (option.affects == "result")
    assert hashed(make(**beside, **{option.name: option.default})) == hashed(before)
    assert make().that_change_the_result() == {}, "an option that is added tomorrow renames no run"


@given(changes())
def test_a_configuration_comes_back_from_its_file(change):
    option, beside, value = change
    config = make(**beside, **{option.name: value})
    saved = yaml.safe_load(yaml.safe_dump(config.as_dict()))
    trusted = config.trust_remote_code
    assert TrainConfig.from_dict(saved, trust_remote_code=trusted) == config
    assert "trust_remote_code" not in saved
    if option.affects != "nothing":
        assert option.name in config.differences(make(**beside))
    else:
        assert config.differences(make(**beside)) == []


def test_the_configuration_of_an_older_run_is_read():
    old = {**NEEDED, "edges": "left", "tau": 2.0, "hard_weight": 0.1, "aum_percentile": 0.7, "teacher": ["a"]}
    config = TrainConfig.from_dict(old)
    assert (config.closed, config.aum_quantile) == ("left", 0.7)
    assert (config.distill_temperature, config.label_weight) == (2.0, 0.1)
    with pytest.raises(UserError, match="no such option 'epoch'; did you mean 'epochs'"):
        TrainConfig.from_dict({**NEEDED, "epoch": 3})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"seed": 2**32}, "seed is 4294967296; give a whole number of at least 0 and of at most 4294967295"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": True}, "seed is True; give a whole number"),
        ({"seed": 1.0}, "seed is 1.0; give a whole number"),
        ({"epochs": "3"}, "epochs is '3'; give a whole number of at least 1"),
        ({"batch_size": None}, "batch_size is None; give a whole number of at least 1"),
        ({"learning_rate": float("nan")}, "learning_rate is nan; give a number above 0 and below 10"),
        ({"learning_rate": "2e-4"}, "learning_rate is '2e-4'; give a number"),
        ({"checkpoint_minutes": float("inf")}, "checkpoint_minutes is inf; give a number of at least 0"),
        ({"label_smoothing": 1}, "label_smoothing is 1.0; give a number of at least 0 and below 1"),
        ({"aum_filter": 1, "train_region": "easy"}, "aum_filter is 1; give true or false"),
        ({"model": ["bert"]}, "model is a list; give text"),
        ({"model": {"name": "bert"}}, "model is a table; give text"),
        ({"test": [1]}, "test is a list; give a list of texts"),
        ({"trainer": [1]}, "trainer is a list; give a table of names and values"),
        ({"trainer": {1: 2}}, "trainer is a table; give a table of names and values"),
        ({"closed": "up"}, "closed is 'up'; choose one of right, left"),
        ({"train": b"a.csv"}, "train is a bytes; give text"),
        ({"label_weight": 0.1}, "label_weight without a teacher; give teacher"),
    ],
)
def test_a_value_that_is_none_is_one_clear_line(given, said):
    with pytest.raises(UserError) as error:
        make(**given)
    assert str(error.value).startswith(said)


def test_paths_and_numbers_of_numpy_are_plain_values_afterwards():
    config = make(train=Path("a") / "b.csv", test="t.csv", seed=np.int64(3), learning_rate=np.float32(0.5))
    assert (config.train, config.test, config.seed, config.learning_rate) == ("a/b.csv", ("t.csv",), 3, 0.5)
    assert [type(value) for value in (config.train, config.seed, config.learning_rate)] == [str, int, float]
    json.dumps(config.as_dict())


def test_what_the_trainer_gets_is_declared_and_cannot_be_set_behind_it():
    from calmix.training.arguments import MixupArguments

    fields = {field.name: field for field in dataclasses.fields(MixupArguments)}
    for name in make().trainer_arguments():
        assert name in fields
        with pytest.raises(UserError, match=f"trainer: {name} is calmix's own"):
            make(trainer={name: 1})
    assert set(owned_fields(OPTIONS)) <= set(fields)
    # What a user of `MixupTrainer` gets is what a run gets.
    for name in ("method", "dynamics", "distill_temperature", "label_weight", "optimizer", "schedule"):
        assert fields[name].default == DEFAULTS[name]


def test_the_reference_lists_every_option_with_its_default():
    text = reference(OPTIONS)
    for option in OPTIONS.values():
        assert (
            f"`{option.name}:`" in text
            if not option.flag
            else f"| `--{option.parameter.replace('_', '-')}`" in text
        )
        assert option.help.replace("|", "\\|") in text
    assert "| `--batch-size` | `16` |" in text
    assert "| `--train` | required |" in text
