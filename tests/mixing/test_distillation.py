"""The distillation loss against torch, its own formulas and their limits."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from calmix.mixing.distillation import distillation_loss, mixed_targets, tempered

TAUS = (0.5, 1.0, 2.0, 7.0)


def drawn(rows=6, classes=5, seed=0, scale=3.0):
    generator = np.random.default_rng(seed)
    return [torch.tensor(generator.normal(scale=scale, size=(rows, classes))) for _ in range(2)]


@pytest.mark.parametrize("tau", TAUS)
def test_it_is_torchs_divergence_of_the_tempered_softmaxes(tau):
    teacher, student = drawn()
    ours = distillation_loss(student, tempered(teacher, tau), tau)
    theirs = torch.nn.functional.kl_div(
        torch.log_softmax(student / tau, 1), torch.softmax(teacher / tau, 1), reduction="none"
    ).sum(1)
    assert torch.allclose(ours, tau**2 * theirs, atol=1e-12)
    assert (ours > 0).all()


@pytest.mark.parametrize("tau", TAUS)
def test_its_gradient_is_that_of_the_formula(tau):
    teacher, student = drawn(seed=1)
    student.requires_grad_()
    alpha, labels = 0.3, torch.tensor([0, 1, 2, 3, 4, 0])
    hard = torch.nn.functional.cross_entropy(student, labels, reduction="none")
    loss = (alpha * hard + (1 - alpha) * distillation_loss(student, tempered(teacher, tau), tau)).mean()
    (gradient,) = torch.autograd.grad(loss, student)
    with torch.no_grad():
        one_hot = torch.nn.functional.one_hot(labels, 5)
        soft = torch.softmax(student / tau, 1) - torch.softmax(teacher / tau, 1)
        expected = (alpha * (torch.softmax(student, 1) - one_hot) + (1 - alpha) * tau * soft) / len(labels)
    assert torch.allclose(gradient, expected, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_student_that_says_what_its_teacher_says_has_nothing_to_learn(dtype):
    logits = drawn(seed=2)[0].to(dtype).requires_grad_()
    for tau in TAUS:
        loss = distillation_loss(logits, tempered(logits.detach(), tau), tau)
        assert torch.equal(loss, torch.zeros_like(loss))
        (gradient,) = torch.autograd.grad(loss.sum(), logits)
        assert gradient.abs().max() < 1e-6


def test_a_high_temperature_compares_centred_logits():
    teacher, student = drawn(seed=3)
    difference = teacher - student
    limit = (difference - difference.mean(1, keepdim=True)).square().sum(1) / (2 * teacher.shape[1])
    errors = [
        (distillation_loss(student, tempered(teacher, tau), tau) - limit).abs().max()
        for tau in (1e2, 1e3, 1e4)
    ]
    assert errors[0] > 5 * errors[1] > 25 * errors[2]
    assert errors[2] < 1e-3 * limit.max()


@pytest.mark.parametrize("per_row", [False, True])
def test_mixed_targets_are_mixed_probabilities(per_row):
    teacher, _ = drawn(seed=4)
    partner = torch.tensor([1, 0, 3, 2, 4, 5])
    ratio = (
        torch.linspace(0, 1, 6, dtype=torch.float64) if per_row else torch.tensor(0.3, dtype=torch.float64)
    )
    ours = mixed_targets(tempered(teacher, 2.0), partner, ratio)
    probabilities = torch.softmax(teacher / 2, 1)
    for row in range(6):
        share = ratio[row] if per_row else ratio
        expected = share * probabilities[row] + (1 - share) * probabilities[partner[row]]
        assert torch.allclose(ours[row].exp(), expected, atol=1e-12)


def test_a_ratio_of_one_is_the_row_itself_and_of_zero_its_partner_to_the_bit():
    targets = tempered(drawn(seed=5)[0].float(), 3.0)
    partner = torch.tensor([2, 1, 0, 5, 4, 3])
    assert torch.equal(mixed_targets(targets, partner, torch.tensor(1.0)), targets)
    assert torch.equal(mixed_targets(targets, partner, torch.tensor(0.0)), targets[partner])


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(-300, 300, width=32), min_size=4, max_size=4),
    st.floats(0.1, 20),
    st.floats(0, 1, width=32),
)
def test_it_is_finite_and_not_negative_whatever_the_logits(values, tau, ratio):
    teacher, student = torch.tensor([values[:2], values[2:]]), torch.tensor([values[::-1][:2], values[1:3]])
    targets = mixed_targets(tempered(teacher, tau), torch.tensor([1, 0]), torch.tensor(ratio))
    losses = distillation_loss(student, targets, tau)
    assert torch.isfinite(losses).all()
    assert (losses >= -1e-5 * tau**2).all()
    shifted = distillation_loss(student + 7, targets, tau)
    assert torch.allclose(losses, shifted, rtol=1e-3, atol=1e-4 * tau**2)
