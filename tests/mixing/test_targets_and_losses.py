import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from calmix.mixing.losses import cross_entropy
from calmix.mixing.targets import mixed, one_hot, smoothed

LOGITS = torch.tensor(
    [[2.0, 1.0, 0.0], [0.0, 3.0, 1.0], [1.0, 1.0, 4.0], [0.5, 0.0, -0.5]], dtype=torch.float64
)
LABELS = torch.tensor([0, 2, 2, 1])


@given(st.floats(0, 0.9), st.integers(2, 7))
def test_label_smoothing_takes_from_the_true_class_and_gives_to_the_others(epsilon, classes):
    target = smoothed(one_hot(torch.tensor([1]), classes, dtype=torch.float64), epsilon)[0]
    assert target[1] == pytest.approx(1 - epsilon, abs=1e-12)
    assert target[0] == pytest.approx(epsilon / (classes - 1), abs=1e-12)
    assert target.sum() == pytest.approx(1, abs=1e-12)


def test_label_smoothing_equals_torchs_at_the_converted_argument():
    epsilon, classes = 0.1, 3
    ours = cross_entropy(LOGITS.float(), smoothed(one_hot(LABELS, classes), epsilon)).mean()
    torchs = torch.nn.functional.cross_entropy(
        LOGITS.float(), LABELS, label_smoothing=epsilon * classes / (classes - 1)
    )
    assert ours.item() == pytest.approx(torchs.item(), abs=1e-6)


@given(st.floats(0, 1), st.floats(0, 0.9))
def test_smoothing_and_mixing_commute(ratio, epsilon):
    targets, partner = one_hot(LABELS, 3, dtype=torch.float64), torch.tensor([3, 0, 1, 2])
    lam = torch.tensor(ratio, dtype=torch.float64)
    first = smoothed(mixed(targets, partner, lam), epsilon)
    last = mixed(smoothed(targets, epsilon), partner, lam)
    assert torch.allclose(first, last, atol=1e-12)


def test_cross_entropy_sums_over_classes_and_leaves_the_mean_to_the_caller():
    targets = torch.softmax(torch.randn(4, 3, generator=torch.Generator().manual_seed(0)), dim=1)
    slow = [
        -sum(targets[i, k] * (LOGITS[i, k] - LOGITS[i].logsumexp(0)) for k in range(3)).item()
        for i in range(4)
    ]
    assert cross_entropy(LOGITS, targets).tolist() == pytest.approx(slow, abs=1e-6)
    hard = torch.nn.functional.cross_entropy(LOGITS.float(), LABELS, reduction="none")
    assert torch.allclose(cross_entropy(LOGITS, LABELS), hard)


def test_gradient_in_the_logits_is_probability_minus_target():
    logits = LOGITS.float().requires_grad_()
    targets = smoothed(one_hot(LABELS, 3), 0.2)
    cross_entropy(logits, targets).sum().backward()
    assert torch.allclose(logits.grad, torch.softmax(LOGITS.float(), 1) - targets, atol=1e-6)


def test_mixed_target_loss_is_the_mix_of_the_losses():
    partner, lam = torch.tensor([2, 3, 0, 1]), torch.tensor(0.3)
    soft = cross_entropy(LOGITS, mixed(one_hot(LABELS, 3), partner, lam))
    two = lam * cross_entropy(LOGITS, LABELS) + (1 - lam) * cross_entropy(LOGITS, LABELS[partner])
    assert torch.allclose(soft, two, atol=1e-6)


def test_half_precision_logits_are_summed_in_single_precision():
    logits = torch.tensor([[40.0, 0.0]], dtype=torch.bfloat16)
    assert cross_entropy(logits, torch.tensor([1])).dtype == torch.float32
    assert cross_entropy(logits, torch.tensor([1])).item() == pytest.approx(40.0)


def test_mixing_keeps_the_precision_of_the_values_and_takes_a_ratio_per_row():
    values = torch.eye(2, dtype=torch.bfloat16)
    assert mixed(values, torch.tensor([1, 0]), torch.tensor(0.25)).dtype == torch.bfloat16
    per_row = mixed(torch.eye(2), torch.tensor([1, 0]), torch.tensor([1.0, 0.25]))
    assert per_row.tolist() == [[1.0, 0.0], [0.75, 0.25]]
