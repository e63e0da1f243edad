"""Kong's on- and off-manifold rows, RankMixup and kernel warping against references from their formulas."""

from contextlib import contextmanager

import numpy as np
import pytest
import scipy.stats
import torch
from torch.nn.functional import cosine_similarity, cross_entropy, one_hot

from calmix.mixing.method import get_method
from calmix.mixing.pairing import random_involution
from calmix.mixing.step import Moment, Step
from calmix.runtime.randomness import stream
from linear_head import LinearHead, make_step

SEED, ROWS, WORDS, CLASSES = 4, 6, 5, 3
MOMENT = Moment(SEED, epoch=0, step=2, batch=2)


class OneLayer:
    """Words -> a layer -> their mean -> a linear head; dropout in training."""

    def __init__(self, seed=0):
        generator = torch.Generator().manual_seed(seed)
        self.words = torch.randn(ROWS, WORDS, 4, generator=generator)
        self.mask = (torch.arange(WORDS) < torch.tensor([[5], [3], [4], [5], [2], [5]])).long()
        self.inner = torch.randn(4, 4, generator=generator).requires_grad_()
        self.weight = torch.randn(CLASSES, 4, generator=generator).requires_grad_()
        self.is_training, self.modes = True, []

    def layer(self, words):
        return torch.tanh(words @ self.inner)

    def pooled(self, hidden):
        share = self.mask.unsqueeze(-1).float()
        return (hidden * share).sum(1) / share.sum(1)

    def logits(self, words):
        return self.pooled(self.layer(words)) @ self.weight.T

    def __call__(self, cut=None, inputs=None):
        self.modes.append(self.is_training)
        cuts = [] if cut is None else list(cut) if isinstance(cut, list) else [cut]

        def passing(depth, hidden):
            for each in cuts:
                hidden = each(hidden) if each.depth == depth else hidden
            return hidden

        hidden = passing(1, self.layer(passing(0, self.words)))
        return passing(2, self.pooled(hidden)) @ self.weight.T

    @contextmanager
    def evaluating(self):
        self.is_training = False
        yield
        self.is_training = True

    @property
    def last_weight(self):
        return self.weight


def kong_step(network):
    labels = torch.tensor([0, 2, 1, 1, 0, 2])
    return Step(labels, CLASSES, network, MOMENT, {"attention_mask": network.mask}, head=2)


def test_on_and_off_manifold_rows_are_found_and_weighed_as_published():
    network = OneLayer()
    step = kong_step(network)
    method = get_method("on-off-manifold", delta_on=0.01, delta_off=0.05, delta_label=0.1)
    loss = method.losses(step).losses.mean()
    assert network.modes == [False] * 3 + [True] * 3  # six passes; the moves are found without dropout

    slow = OneLayer()
    reverse = list(range(ROWS))[::-1]
    noise = stream(SEED, "noise", 0, 2).uniform(-0.01, 0.01, (ROWS, WORDS, 4)).astype(np.float32)
    start = torch.from_numpy(noise).requires_grad_()
    goal = slow.pooled(slow.layer(slow.words))[reverse].detach()
    distance = 1 - cosine_similarity(slow.pooled(slow.layer(slow.words + start)), goal)
    (gradient,) = torch.autograd.grad(distance.sum(), start)
    on = (start - 0.01 * gradient.sign()).clamp(-0.01, 0.01).detach()
    moved = 1 - cosine_similarity(slow.pooled(slow.layer(slow.words + on)), goal)
    assert moved.sum() < distance.sum()  # closer to the partner

    words = slow.words.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(cross_entropy(slow.logits(words), step.labels, reduction="sum"), words)
    off = slow.words + 0.05 * gradient.sign()
    assert cross_entropy(slow.logits(off), step.labels) > cross_entropy(slow.logits(slow.words), step.labels)

    hard = one_hot(step.labels, CLASSES).float()
    between = 0.9 * hard + 0.1 * hard[reverse]
    unsure = torch.softmax(slow.logits(off), 1)
    expected = (
        cross_entropy(slow.logits(slow.words), step.labels)
        + cross_entropy(slow.logits(slow.words + on), between)
        + (unsure * unsure.log()).sum(1).mean()
    )
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    loss.backward()
    expected.backward()
    np.testing.assert_allclose(network.inner.grad, slow.inner.grad, atol=1e-6)


def linear_batch(seed=0, rows=8):
    generator = torch.Generator().manual_seed(seed)
    network = LinearHead(
        torch.randn(rows, 6, generator=generator), torch.randn(CLASSES, 6, generator=generator)
    )
    return network, make_step(network, torch.arange(rows) % CLASSES, moment=MOMENT)


def drawn(rows):
    return random_involution(rows, stream(SEED, "pairs", MOMENT.epoch, MOMENT.batch))


def test_rankmixup_orders_confidences_by_how_little_was_mixed():
    network, step = linear_batch()
    loss = get_method("rankmixup", mixes=3).losses(step).losses
    assert network.calls == 1
    partner = drawn(8)
    generator = stream(SEED, "ratio", MOMENT.step)
    ratios = [np.float32(generator.beta(1.0, 1.0)) for _ in range(3)]
    logits = network.features @ network.weight.T
    for row in range(8):
        hard = one_hot(step.labels, CLASSES).float()
        entries = []
        for ratio in ratios:
            mixed = ratio * logits[row] + (1 - ratio) * logits[partner[row]]
            share = (ratio * hard[row] + (1 - ratio) * hard[partner[row]]).max()
            entries.append((float(share), torch.softmax(mixed, 0).max().item()))
        entries = [(1.0, torch.softmax(logits[row], 0).max().item()), *sorted(entries, key=lambda e: -e[0])]
        dcg = sum(confidence / np.log2(place + 2) for place, (_, confidence) in enumerate(entries))
        idcg = sum(share / np.log2(place + 2) for place, (share, _) in enumerate(entries))
        expected = cross_entropy(logits[row], step.labels[row]).item() + 0.1 * (
            1 - min(dcg / idcg, idcg / dcg)
        )
        assert loss[row].item() == pytest.approx(expected, rel=1e-5)


def test_rankmixup_with_a_margin_leaves_pairs_of_one_label_alone():
    network, step = linear_batch(rows=9)
    loss = get_method("rankmixup", rank_loss="mrl", margin=2.0).losses(step).losses
    partner = drawn(9)
    ratio = float(np.float32(stream(SEED, "ratio", MOMENT.step).beta(1.0, 1.0)))
    logits = network.features @ network.weight.T
    same = 0
    for row in range(9):
        mixed = ratio * logits[row] + (1 - ratio) * logits[partner[row]]
        rank = max(0.0, (mixed.max() - logits[row].max()).item() + 2.0)
        if step.labels[row] == step.labels[partner[row]]:
            rank, same = 0.0, same + 1
        expected = cross_entropy(logits[row], step.labels[row]).item() + 0.1 * rank
        assert loss[row].item() == pytest.approx(expected, rel=1e-5)
    assert 0 < same < 9


def test_rankmixup_at_the_embeddings_mixes_what_goes_in():
    network = OneLayer()
    words = torch.zeros(ROWS, WORDS, dtype=torch.long)
    inputs = {"input_ids": words, "attention_mask": torch.ones_like(words)}
    labels = kong_step(network).labels
    step = Step(labels, CLASSES, network, MOMENT, inputs, head=2, fillers={"sep": 3})
    network.mask = torch.ones(ROWS, WORDS)
    get_method("rankmixup", at="embeddings", mixes=2).losses(step)
    assert len(network.modes) == 3  # the rows, and each of two mixes


def test_kernel_warping_draws_from_a_beta_that_depends_on_the_distance():
    network, step = linear_batch()
    loss = get_method("kernel-warping", tau_max=0.8, tau_std=0.4).losses(step).losses
    partner = drawn(8)
    first = float(np.float32(stream(SEED, "ratio", MOMENT.step).beta(1.0, 1.0)))
    unit = torch.nn.functional.normalize(network.features, dim=1).detach().double()
    distance = ((unit - unit[partner]) ** 2).sum(1).numpy()
    distill_temperature = 0.8 * np.exp(-(distance / distance.mean() - 1) / (2 * 0.4**2))
    ratio = scipy.stats.beta.ppf(first, distill_temperature, distill_temperature)
    assert np.ptp(ratio) > 0.01
    hard = one_hot(step.labels, CLASSES).float()
    for row in range(8):
        share = float(ratio[row])
        mixed = share * network.features[row] + (1 - share) * network.features[partner[row]]
        goal = share * hard[row] + (1 - share) * hard[partner[row]]
        assert loss[row].item() == pytest.approx(cross_entropy(network.weight @ mixed, goal).item(), rel=1e-4)


def test_the_more_similar_the_closer_to_one_half():
    from calmix.mixing.methods.kernel_warping import warped

    ratio = warped(np.array(0.1), np.linspace(0.2, 1.8, 9), tau_max=1.0, tau_std=0.5)
    assert (np.diff(ratio) < 0).all()


@pytest.mark.parametrize("name", ["rankmixup", "kernel-warping"])
def test_padding_rows_change_nothing(name):
    network, step = linear_batch()
    whole = get_method(name).losses(step).losses
    padded = LinearHead(
        torch.cat([network.features.detach(), torch.full((2, 6), 9.0)]), network.weight.detach()
    )
    more = make_step(padded, torch.cat([step.labels, torch.tensor([0, 1])]), moment=MOMENT, real=8)
    np.testing.assert_allclose(get_method(name).losses(more).losses[:8].detach(), whole.detach(), rtol=1e-5)
