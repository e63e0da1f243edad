"""Class weights: the options, the weights and the shift against scikit-learn and torch."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.utils.class_weight import compute_class_weight

from calmix.mixing.losses import cross_entropy
from calmix.mixing.target_mass import TargetMass
from calmix.mixing.targets import mixed
from calmix.runtime.option_values import parse_class_weights
from calmix.training.targets.class_weights import ClassBalance
from calmix.user_error import UserError

NAMES = ("a", "b", "c")


def test_balanced_weights_are_those_of_scikit_learn():
    counts = np.array([70, 25, 5])
    labels = np.repeat(np.arange(3), counts)
    expected = compute_class_weight("balanced", classes=np.arange(3), y=labels)
    assert ClassBalance.of("balanced", "natural", counts, NAMES).class_weights == pytest.approx(expected)


def test_mean_loss_is_that_of_torch_over_all_rows():
    generator = torch.Generator().manual_seed(0)
    logits, labels = torch.randn(50, 3, generator=generator), torch.randint(3, (50,), generator=generator)
    counts = np.bincount(labels.numpy(), minlength=3)
    balance = ClassBalance.of("a=3,c=0.5", "natural", counts, NAMES)
    ours = cross_entropy(logits, TargetMass(3, balance.class_weights).of(labels)).mean()
    theirs = torch.nn.CrossEntropyLoss(weight=torch.tensor([3.0, 1.0, 0.5]))(logits, labels)
    assert float(ours) == pytest.approx(float(theirs), rel=1e-6)


def test_weights_of_mixed_targets_are_those_of_the_formula():
    weights = np.array([0.5, 2.0, 4.0])
    labels, partner = torch.tensor([0, 1, 2]), torch.tensor([1, 2, 0])
    logits, ratio = torch.randn(3, 3), torch.tensor(0.3)
    mass = TargetMass(3, weights).of(labels, smoothing=0.1)
    found = cross_entropy(logits, mixed(mass, partner, ratio))
    plain = torch.full((3, 3), 0.05).scatter(1, labels[:, None], 0.9)
    for row in range(3):
        target = 0.3 * plain[row] + 0.7 * plain[partner[row]]
        log_p = torch.log_softmax(logits[row], 0)
        expected = -sum(weights[k] * target[k] * log_p[k] for k in range(3))
        assert float(found[row]) == pytest.approx(float(expected), rel=1e-5)


def test_shift_turns_a_weighted_fit_into_the_unweighted_one():
    # One informative feature per bin: the model is saturated, so that the correction is exact.
    generator = np.random.default_rng(0)
    cells = generator.integers(4, size=4000)
    labels = (generator.random(4000) < np.array([0.01, 0.03, 0.1, 0.2])[cells]).astype(int)
    features = np.eye(4)[cells]
    settings = {"C": 1e6, "tol": 1e-10, "max_iter": 5000}
    plain = LogisticRegression(**settings).fit(features, labels)
    weighted = LogisticRegression(class_weight={0: 1, 1: 20}, **settings).fit(features, labels)
    balance = ClassBalance.of("pos=20", "natural", np.bincount(labels), ("neg", "pos"))
    shift = balance.shift()
    corrected = weighted.decision_function(features) - (shift[1] - shift[0])
    assert shift[1] - shift[0] == pytest.approx(np.log(20))
    assert corrected == pytest.approx(plain.decision_function(features), abs=2e-3)


def test_balanced_sampling_has_the_ratios_of_its_prior():
    balance = ClassBalance.of("none", "balanced", np.array([90, 10]), ("no", "yes"))
    assert balance.sampling_ratios == pytest.approx([0.5 / 0.9, 0.5 / 0.1])
    assert balance.class_weights is None


def test_weights_under_balanced_sampling_have_mean_one_over_drawn_rows():
    balance = ClassBalance.of("yes=3", "balanced", np.array([90, 10]), ("no", "yes"))
    assert balance.class_weights == pytest.approx([0.5, 1.5])
    assert np.diff(balance.shift()) == pytest.approx(np.log(3) + np.log(9))


def test_a_class_without_rows_is_left_alone_and_named():
    balance = ClassBalance.of("balanced", "natural", np.array([6, 0, 2]), NAMES)
    assert balance.absent == ("b",)
    assert np.isfinite(balance.shift()).all()
    assert balance.class_weights[[0, 2]] == pytest.approx([8 / 12, 2])


def test_nothing_asked_is_nothing_done():
    assert ClassBalance.of("none", "natural", np.array([1, 2]), ("a", "b")) is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("rare", "class_weights is 'rare'; give balanced, none or NAME=WEIGHT"),
        ("a=0", "the weight of 'a' is 0; give a finite number above 0"),
        ("a=-1", "the weight of 'a' is -1"),
        ("a=nan", "the weight of 'a' is nan"),
        ("a=inf,b=1", "the weight of 'a' is inf"),
        ("a=x", "the weight of 'a' is x"),
        ("a=1,a=2", "names the class 'a' twice"),
        ("=3", "class_weights is '=3'"),
        (3, "class_weights is 3"),
        ({"a": True}, "the weight of 'a' is True"),
        ({"a,b": 2}, "a class name holds a comma"),
    ],
)
def test_weights_that_make_no_sense_are_refused(given, message):
    with pytest.raises(UserError) as caught:
        parse_class_weights(given)
    assert message in str(caught.value)


def test_a_name_with_an_equals_sign_is_a_name():
    assert parse_class_weights("x=y=2") == "x=y=2"
    balance = ClassBalance.of("x=y=2", "natural", np.array([1, 1]), ("x=y", "z"))
    assert balance.class_weights == pytest.approx([4 / 3, 2 / 3])


def test_an_unknown_class_is_named_with_the_classes():
    with pytest.raises(UserError, match="names 'd', which is no class; the classes are: a, b, c"):
        ClassBalance.of("d=2", "natural", np.array([1, 1, 1]), NAMES)


def test_balancing_twice_is_refused():
    with pytest.raises(UserError, match="balance the classes twice"):
        ClassBalance.of("balanced", "balanced", np.array([1, 1]), ("a", "b"))
