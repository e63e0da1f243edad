"""Which runs a comparison is made of."""

from pathlib import Path

import pytest

from calmix.experiments.grid import Arm, expand, parse_seeds, parse_vary, reference_of
from calmix.training.configuration import TrainConfig
from calmix.training.label_noise.threshold_passes import pass_arguments
from calmix.training.model_settings import settings_for
from calmix.training.pipeline.first_stage import plain_config
from calmix.user_error import UserError

BASE = TrainConfig(train="train.csv", output="out")


def names(arms):
    return [arm.name for arm in arms]


def test_plain_is_always_in_and_first():
    assert names(expand(BASE, ["focal"], {})) == ["plain", "focal"]
    assert names(expand(BASE, ["focal", "plain"], {})) == ["plain", "focal"]


def test_a_method_without_a_varied_option_runs_once():
    arms = expand(BASE, ["plain", "cls-mixup"], {"alpha": [0.1, 1]})
    assert names(arms) == ["plain", "cls-mixup alpha=0.1", "cls-mixup alpha=1"]
    configs = [arm.config(BASE, seed=3) for arm in arms]
    assert [config.method_options for config in configs] == [{}, {"alpha": 0.1}, {"alpha": 1.0}]
    assert {config.seed for config in configs} == {3}


def test_a_setting_of_training_concerns_every_method():
    arms = expand(BASE, ["plain", "cls-mixup:alpha=0.2"], {"learning_rate": [1e-5, 1e-4], "epochs": [2]})
    assert names(arms) == [
        "plain learning_rate=1e-05 epochs=2",
        "plain learning_rate=0.0001 epochs=2",
        "cls-mixup alpha=0.2 learning_rate=1e-05 epochs=2",
        "cls-mixup alpha=0.2 learning_rate=0.0001 epochs=2",
    ]
    config = arms[3].config(BASE, seed=0)
    assert (config.learning_rate, config.epochs, config.method_options) == (1e-4, 2, {"alpha": 0.2})


def test_a_varied_model_brings_the_settings_that_suit_it():
    cnn = {**settings_for("text-cnn"), "epochs": 4}
    base = TrainConfig(
        train="train.csv", output="out", model="text-cnn", **cnn, trainer={"max_grad_norm": 0.0, "bf16": True}
    )
    arms = expand(base, ["plain", "cls-mixup"], {"model": ["text-cnn", "default"]})
    assert [arm.name for arm in arms] == [
        "plain model=text-cnn", "plain model=default", "cls-mixup model=text-cnn", "cls-mixup model=default"
    ]  # fmt: skip
    same, encoder = (arm.config(base, 0) for arm in arms[:2])
    assert (same.optimizer, same.trainer) == (base.optimizer, base.trainer)
    assert (encoder.optimizer, encoder.schedule, encoder.learning_rate, encoder.batch_size) == (
        None, None, BASE.learning_rate, BASE.batch_size
    )  # fmt: skip
    assert (encoder.epochs, encoder.trainer) == (4, {"bf16": True}), "what was asked for stays"
    assert reference_of(arms[3], arms) is arms[1]
    (back,) = expand(BASE, ["plain:model=text-cnn:learning_rate=0.5"], {})
    made = back.config(BASE, 0)
    assert (made.optimizer, made.learning_rate) == (cnn["optimizer"], 0.5)


def test_values_that_differ_late_are_two_arms():
    arms = expand(BASE, ["cls-mixup"], {"alpha": [0.3333333, 0.33333331]})
    assert names(arms) == ["plain", "cls-mixup alpha=0.3333333", "cls-mixup alpha=0.33333331"]


def test_label_smoothing_is_an_option_of_every_method():
    arms = expand(BASE, ["plain", "cls-mixup"], {"label_smoothing": [0, 0.1]})
    assert [arm.config(BASE, 0).label_smoothing for arm in arms] == [0.0, 0.1, 0.0, 0.1]
    assert [arm.is_plain for arm in arms] == [True, False, False, False]


def test_a_shared_option_reaches_only_the_methods_that_have_it():
    base = TrainConfig(train="train.csv", output="out", method_options={"alpha": 0.7}, label_smoothing=0.05)
    plain, mixup = expand(base, ["plain", "cls-mixup"], {})
    assert plain.config(base, 0).method_options == {}
    assert mixup.config(base, 0).method_options == {"alpha": 0.7}
    assert {arm.config(base, 0).label_smoothing for arm in (plain, mixup)} == {0.05}
    assert names([plain, mixup]) == ["plain", "cls-mixup"], "what all share is not part of a name"


def test_equal_arms_are_one():
    again = ["plain", "cls-mixup", "cls-mixup:alpha=0.4", "plain:label_smoothing=0", "plain:batch_size=16"]
    assert names(expand(BASE, again, {})) == ["plain", "cls-mixup"]


@pytest.mark.parametrize(
    ("methods", "vary", "expected"),
    [
        (["mixup-cls"], {}, "unknown method 'mixup-cls'"),
        (["plain"], {"alpha": [0.1]}, "vary: no such option 'alpha'"),
        (["cls-mixup"], {"alhpa": [0.1]}, "did you mean 'alpha'?"),
        (["cls-mixup:beta=1"], {}, "methods=cls-mixup: no such option 'beta'"),
        (["plain"], {"learning_rate": ["fast"]}, "learning_rate is 'fast'; give a number"),
        (["plain"], {"epochs": [1.5]}, "epochs is 1.5; give a whole number"),
        (["plain"], {"epochs": [0]}, "epochs is 0"),
        (["cls-mixup:alpha=-1"], {}, "alpha is -1"),
        (["plain"], {"seed": [1, 2]}, "vary: no such option 'seed'"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_runs(methods, vary, expected):
    with pytest.raises(UserError) as error:
        expand(BASE, methods, vary)
    assert expected in str(error.value)


def test_the_reference_is_plain_under_the_same_settings_and_unsmoothed():
    arms = expand(BASE, ["plain", "focal"], {"learning_rate": [1e-5, 1e-4], "label_smoothing": [0.1, 0]})
    for arm in arms:
        reference = reference_of(arm, arms)
        assert reference.is_plain
        assert reference.settings == arm.settings
    lonely = Arm("focal epochs=9", "focal", settings={"epochs": 9})
    assert reference_of(lonely, arms).is_plain
    assert reference_of(lonely, [lonely]) is None


@pytest.mark.parametrize("text", ["alpha", "=1", "alpha=", ""])
def test_a_malformed_vary_is_refused(text):
    with pytest.raises(UserError, match="write vary=NAME=VALUE,VALUE"):
        parse_vary([text])
    with pytest.raises(UserError, match="names 'alpha' twice"):
        parse_vary(["alpha=1", "alpha=2"])


def test_seeds_are_whole_numbers_each_once():
    assert parse_seeds(["2,0", "2", "1"]) == (2, 0, 1)
    for text in ("a", "-1", "1.5"):
        with pytest.raises(UserError, match="is not a seed"):
            parse_seeds([text])


def test_an_arm_has_a_plain_run_trainer_fields_model_options_and_a_batch_size_of_its_own():
    base = TrainConfig(train="train.csv", output="out", trainer={"max_grad_norm": 0.5})
    own = "tdmixup:plain_run=old:batch_size=8:first_stage_batch_size=4:trainer.weight_decay=0.1"
    plain, guided = expand(base, ["plain", own], {})
    config = guided.config(base, 0)
    assert (config.plain_run, config.batch_size, config.first_stage_batch_size) == ("old", 8, 4)
    assert config.trainer == {"max_grad_norm": 0.5, "weight_decay": 0.1}
    assert plain.config(base, 0).trainer == {"max_grad_norm": 0.5}
    small = TrainConfig(train="train.csv", output="out", model="text-cnn")
    arms = expand(small, ["plain"], parse_vary(["model_options.dropout=0.2,0.4"]))
    assert [arm.config(small, 0).model_options for arm in arms] == [{"dropout": 0.2}, {"dropout": 0.4}]
    assert names(arms) == ["plain model_options.dropout=0.2", "plain model_options.dropout=0.4"]
    with pytest.raises(UserError, match=r"calmix's own"):
        expand(base, ["plain:trainer.learning_rate=1e-3"], {})


def test_the_first_stage_has_its_own_batch_size():
    config = TrainConfig(
        train="a.csv", output="out", method="tdmixup", batch_size=32, first_stage_batch_size=8
    )
    assert plain_config(config).batch_size == 8
    assert plain_config(config).first_stage_batch_size is None
    assert pass_arguments(config, Path("checkpoints")).per_device_train_batch_size == 8
