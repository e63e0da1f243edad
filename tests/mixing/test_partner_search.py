"""The search for partners against a loop over all pairs."""

import numpy as np
import pytest
import torch

from calmix.mixing.bank import SaliencyBank
from calmix.mixing.partner_search import any_allowed, most_dissimilar, most_similar, opposite
from calmix.mixing.saliency import cosines, saliency_direction


def batch(rows=12, classes=4, seed=0):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(rows, classes, generator=generator) * 3
    labels = torch.randint(0, classes, (rows,), generator=generator)
    groups = torch.arange(rows) % 2
    keys = torch.rand(rows, rows, generator=generator)
    return logits, labels, groups, keys


@pytest.mark.parametrize("seed", range(5))
def test_partners_are_those_that_a_loop_finds(seed):
    logits, labels, groups, keys = batch(seed=seed)
    directions = saliency_direction(logits, labels)
    allowed = opposite(groups, real=10)
    found = (
        most_similar(cosines(directions), allowed, keys),
        most_dissimilar(cosines(directions), allowed, keys),
    )
    for row in range(10):
        others = [j for j in range(10) if groups[j] != groups[row]]
        cosine = {
            j: float(torch.nn.functional.cosine_similarity(directions[row], directions[j], dim=0))
            for j in others
        }
        assert int(found[0].partner[row]) == max(others, key=cosine.__getitem__)
        assert int(found[1].partner[row]) == min(others, key=cosine.__getitem__)
    for row in (10, 11):  # padding meets itself, and nobody meets it
        assert int(found[0].partner[row]) == row
    assert not found[0].tied.any()


def test_two_classes_tie_always_and_chance_is_fair():
    counts = np.zeros(8)
    for seed in range(400):
        logits, labels, groups, keys = batch(rows=8, classes=2, seed=seed)
        allowed = opposite(groups, real=8)
        found = most_similar(cosines(saliency_direction(logits, labels)), allowed, keys)
        assert found.tied.all()
        counts[int(found.partner[0])] += 1
    assert counts[::2].sum() == 0  # its own half
    assert (counts[1::2] > 60).all()  # 100 expected each


def test_without_saliency_any_row_of_the_other_half_is_met():
    _, _, groups, keys = batch()
    found = any_allowed(opposite(groups, real=12), keys)
    assert (groups[found.partner] != groups).all()
    assert not found.tied.any()


def test_a_batch_of_one_half_leaves_every_row_to_itself():
    found = most_similar(torch.zeros(3, 3), opposite(torch.zeros(3), real=3), torch.rand(3, 3))
    assert found.partner.tolist() == [0, 1, 2]
    assert not found.tied.any()


@pytest.mark.parametrize("is_direction", [True, False])
@pytest.mark.parametrize("similar", [True, False])
def test_the_bank_finds_what_comparing_all_rows_finds(is_direction, similar):
    generator = np.random.default_rng(3)
    saliency = generator.random((60, 4))
    logits = generator.normal(size=(60, 4)).astype(np.float32)
    logits[7] = np.nan  # not seen yet: nobody's partner
    halves = (np.arange(0, 60, 2), np.arange(1, 60, 2))
    bank = SaliencyBank(logits, np.zeros(60, np.int64), saliency, halves, is_direction)
    anchors = generator.random((9, 4))
    found, tied = bank.partners(anchors, 1, generator, similar=similar)
    candidates = [j for j in halves[1] if j != 7]
    for anchor, partner in zip(anchors, found, strict=True):

        def score(j, anchor=anchor):
            if is_direction:
                return anchor @ saliency[j] / np.linalg.norm(anchor) / np.linalg.norm(saliency[j])
            return -np.linalg.norm(anchor - saliency[j])

        assert partner == (max if similar else min)(candidates, key=score)
    assert not tied.any()


def test_equal_rows_of_the_bank_tie():
    saliency = np.array([[1.0, 0.2], [1.0, 0.7], [2.0, 1.4], [0.1, 1.0]])
    bank = SaliencyBank(
        np.zeros((4, 2), np.float32), np.zeros(4, np.int64), saliency, (np.array([0]), np.arange(1, 4))
    )
    drawn = [bank.partners(saliency[:1], 1, np.random.default_rng(s), similar=True) for s in range(30)]
    assert {int(partner[0]) for partner, _ in drawn} == {1, 2}
    assert all(tied.all() for _, tied in drawn)
