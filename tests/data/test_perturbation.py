"""Damaged copies of rows: seeded, of every kind of row, with ids and labels that stay."""

import numpy as np
import pytest

from calmix.data.images.corruption import CORRUPTIONS, corrupted
from calmix.data.images.stored import as_pnm, decode
from calmix.data.perturbation import COPIES, KINDS, damaged, perturbed
from calmix.data.rows import Rows

TEXTS = ["a warm and clever film with a moving plot", "dull and flat from the first scene on"] * 6


def test_every_row_is_damaged_in_every_way_once_and_the_same_for_one_seed():
    rows = Rows.from_columns([f"r{i}" for i in range(12)], TEXTS, labels=[0, 1] * 6, label_names=("a", "b"))
    copies = [perturbed(rows, copy) for copy in range(COPIES)]
    assert len(KINDS) == COPIES
    for one in copies:
        np.testing.assert_array_equal(one.labels, rows.labels)
        assert one.label_names == rows.label_names and one.texts() != rows.texts()
    assert perturbed(rows, 0).texts() == copies[0].texts() != perturbed(rows, 0, seed=1).texts()
    assert len({tuple(one.texts()) for one in copies}) == COPIES


def test_pairs_and_choices_are_damaged_too():
    ids = [f"r{i}" for i in range(12)]
    pairs = Rows.from_columns(ids, TEXTS, pairs=TEXTS[::-1])
    assert perturbed(pairs, 1).pairs() != pairs.pairs() and perturbed(pairs, 1).task == "pair"
    choices = Rows.from_columns(ids, TEXTS, choices=[["a great long story", "a poor short plot"]] * 12)
    found = perturbed(choices, 0)
    assert found.task == "choice" and found.choices() != choices.choices()
    assert all(len(row) == 2 for row in found.choices())


@pytest.mark.parametrize("kind", KINDS)
def test_the_strength_is_the_share_of_words(kind):
    words = [f"w{number}" for number in range(400)]
    text = damaged(" ".join(words), kind, 0.3, np.random.default_rng(0), ["new"]).split()
    if kind == "drop":
        assert 0.6 < len(text) / len(words) < 0.8
    else:
        changed = np.mean([one != other for one, other in zip(text, words, strict=True)])
        # A swap moves two words.
        assert (0.4 if kind == "swap" else 0.22) < changed < (0.65 if kind == "swap" else 0.4)


@pytest.mark.parametrize("turn", range(len(CORRUPTIONS)), ids=CORRUPTIONS)
def test_images_keep_their_size_and_change(turn):
    pixels = np.random.default_rng(0).integers(0, 200, (12, 16, 1), dtype=np.uint8).repeat(3, axis=2)
    found = corrupted(pixels, turn, np.random.default_rng(1))
    assert found.shape == pixels.shape and found.dtype == np.uint8
    assert not np.array_equal(found, pixels)
    assert (found == found[..., :1]).all()  # a gray image stays gray


def test_rows_of_images():
    images = [as_pnm(np.full((6, 6), 40 * number, dtype=np.uint8)) for number in range(5)]
    rows = Rows.from_images(list("abcde"), images, labels=[0, 1, 0, 1, 0], label_names=("a", "b"))
    found = perturbed(rows, 0)
    assert found.task == "image" and found.labels.tolist() == [0, 1, 0, 1, 0]
    assert any(not np.array_equal(decode(a), decode(b)) for a, b in zip(images, found.images(), strict=True))
