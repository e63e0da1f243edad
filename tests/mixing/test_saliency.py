"""Saliency in closed form against autograd, finite precision, and worked numbers."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from calmix.mixing.saliency import (
    cosines,
    gradient_times_input,
    nearness,
    saliency_direction,
    saliency_map,
)

LOGITS = torch.tensor([[2.0, 1.0, 0.0], [0.0, 3.0, 1.0], [1.0, 1.0, 4.0], [0.5, 0.0, -0.5]])
LABELS = torch.tensor([0, 2, 2, 1])


def test_worked_numbers():
    expected = [
        [0.33475904, 0.24472847, 0.09003057],
        [0.04201007, 0.84379473, 0.8858048],
        [0.0452785, 0.0452785, 0.090557],
        [0.50648039, 0.69280411, 0.18632372],
    ]
    np.testing.assert_allclose(saliency_map(LOGITS, LABELS), expected, atol=5e-8)
    directions = [
        [1, 0.73105858, 0.26894142],
        [0.04742587, 0.95257413, 1],
        [0.5, 0.5, 1],
        [0.73105858, 1, 0.26894142],
    ]
    np.testing.assert_allclose(saliency_direction(LOGITS, LABELS), directions, atol=5e-9)
    found = cosines(saliency_direction(LOGITS, LABELS)).numpy()
    pairs = {(0, 1): 0.57816275, (0, 2): 0.73075193, (0, 3): 0.95498471, (1, 2): 0.88627626,
             (1, 3): 0.71713344, (2, 3): 0.73075193}  # fmt: skip
    for pair, cosine in pairs.items():
        assert found[pair] == pytest.approx(cosine, abs=5e-9)


@given(
    arrays(np.float64, (4, 3), elements=st.floats(-6, 6)), st.lists(st.integers(0, 2), min_size=4, max_size=4)
)
def test_the_map_is_the_gradient_that_autograd_finds(logits, labels):
    z = torch.from_numpy(logits).requires_grad_()
    y = torch.tensor(labels)
    torch.nn.functional.cross_entropy(z, y, reduction="sum").backward()
    np.testing.assert_allclose(saliency_map(z, y), z.grad.abs(), atol=1e-12)
    direction = saliency_direction(z, y)
    np.testing.assert_allclose(direction * (1 - torch.softmax(z, 1)[range(4), labels])[:, None].detach(),
                               z.grad.abs(), atol=1e-12)  # fmt: skip


def test_directions_stay_exact_where_the_map_underflows():
    confident = LOGITS.double() + 60 * torch.nn.functional.one_hot(LABELS, 3)
    assert (saliency_map(confident, LABELS)[range(4), LABELS] == 0).all()  # 1 − p_y is lost
    np.testing.assert_allclose(
        saliency_direction(confident, LABELS), saliency_direction(LOGITS, LABELS), atol=1e-14
    )


def test_two_classes_have_one_direction():
    logits = torch.randn(6, 2, generator=torch.Generator().manual_seed(0))
    directions = saliency_direction(logits, torch.tensor([0, 1, 1, 0, 1, 0]))
    np.testing.assert_array_equal(directions, np.ones((6, 2)))


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_gradient_times_input_is_what_autograd_finds_at_the_head(classes):
    generator = torch.Generator().manual_seed(classes)
    features = torch.randn(6, 4, generator=generator, dtype=torch.float64).requires_grad_()
    weight = torch.randn(classes, 4, generator=generator, dtype=torch.float64)
    labels = torch.arange(6) % classes
    logits = features @ weight.T
    torch.nn.functional.cross_entropy(logits, labels, reduction="sum").backward()
    slow = features.grad * features.detach()
    fast = gradient_times_input(logits, labels, features, weight)
    scale = 1 - torch.softmax(logits, 1)[range(6), labels]
    np.testing.assert_allclose(fast * scale[:, None].detach(), slow, atol=1e-12)


def test_gradient_times_input_of_a_choice_head():
    generator = torch.Generator().manual_seed(1)
    features = torch.randn(3 * 4, 5, generator=generator, dtype=torch.float64).requires_grad_()
    weight = torch.randn(1, 5, generator=generator, dtype=torch.float64)
    labels = torch.tensor([0, 3, 1])
    logits = (features @ weight.T).reshape(3, 4)
    torch.nn.functional.cross_entropy(logits, labels, reduction="sum").backward()
    slow = (features.grad * features.detach()).reshape(3, -1)
    scale = 1 - torch.softmax(logits, 1)[range(3), labels]
    fast = gradient_times_input(logits, labels, features, weight)
    np.testing.assert_allclose(fast * scale[:, None].detach(), slow, atol=1e-12)


def test_nearness_is_minus_the_distance():
    maps = saliency_map(LOGITS, LABELS).numpy()
    slow = [[-np.linalg.norm(a - b) for b in maps] for a in maps]
    np.testing.assert_allclose(nearness(torch.from_numpy(maps)), slow, atol=1e-15)
