"""Crops, flips and rotations are what they say, and depend on (seed, epoch, row) alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calmix.data.batches.sampler import EpochBatchSampler, KeyedRows
from calmix.data.images import pixels
from calmix.data.images.augmentation import (
    BORDER,
    Augmentation,
    cropped,
    epoch_draws,
    parse_steps,
    part_draws,
    part_of,
    resized_part,
    rotated,
)
from calmix.data.images.pixels import PixelCollator, PixelStatistics, ProcessorCollator, encode_images
from calmix.data.images.stored import as_pnm
from calmix.data.rows import Rows
from calmix.user_error import UserError
from pictures import digits


def colour(rows, side=16, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (rows, side, side, 3), dtype=np.uint8)


def image_rows(images):
    return Rows.from_images(
        [f"r{i}" for i in range(len(images))],
        [as_pnm(image) for image in images],
        labels=np.arange(len(images)) % 2,
        label_names=("a", "b"),
    )


@given(st.integers(0, 2 * BORDER), st.integers(0, 2 * BORDER))
def test_a_crop_is_a_window_of_the_framed_image(down, right):
    image = colour(1)[0]
    framed = np.pad(image, ((BORDER, BORDER), (BORDER, BORDER), (0, 0)))
    expected = framed[down : down + 16, right : right + 16]
    assert np.array_equal(cropped(image, down, right), expected)


def test_all_crops_half_of_the_flips_and_all_angles_are_drawn_evenly():
    draws = epoch_draws(3, 0, 20_000)
    places = (draws[:, 0] * (2 * BORDER + 1)).astype(int)
    assert np.bincount(places, minlength=9).min() > 0.9 * 20_000 / 9
    assert abs((draws[:, 2] < 0.5).mean() - 0.5) < 0.02
    assert abs(np.corrcoef(draws.T) - np.eye(4)).max() < 0.03


def test_a_row_is_changed_as_its_draws_say():
    image = colour(1)[0]
    augmentation = Augmentation(("crop", "flip"), seed=5, rows=40)
    for position in range(40):
        down, right, flip, _ = epoch_draws(5, 2, 40)[position]
        expected = cropped(image, int(down * 9), int(right * 9))
        if flip < 0.5:
            expected = expected[:, ::-1]
        assert np.array_equal(augmentation(image, position, 2), expected)


@given(st.floats(0, 1), st.floats(0, 1))
def test_a_part_has_the_area_and_the_shape_that_were_drawn(area, shape):
    tall, wide = part_of(400, 400, area, shape)
    assert 1 <= min(tall, wide) <= max(tall, wide) <= 400
    if max(tall, wide) < 400:  # not cut off at the edge
        assert tall * wide / 400**2 == pytest.approx(0.08 + 0.92 * area, rel=0.02)
        assert 0.74 < tall / wide < 1.35


def test_a_resized_part_is_the_image_or_a_window_of_it():
    image = colour(1)[0]
    assert np.array_equal(resized_part(image, 1.0, 0.5, 0.3, 0.7), image)
    halves = np.zeros((16, 16, 3), dtype=np.uint8)
    halves[8:] = 200  # a small part at the top sees nothing of the lower half
    assert resized_part(halves, 0.0, 0.5, 0.0, 0.5).max() == 0
    assert resized_part(halves, 0.0, 0.5, 0.999, 0.5).min() == 200
    draws, parts = epoch_draws(5, 2, 40)[7], part_draws(5, 2, 40)[7]
    expected = resized_part(image, *parts, draws[0], draws[1])
    assert expected.shape == image.shape
    assert np.array_equal(Augmentation(("resized",), seed=5, rows=40)(image, 7, 2), expected)


def test_a_rotation_by_a_right_angle_is_numpys_and_nothing_is_lost_by_none():
    image = colour(1, side=15)[0]
    assert np.array_equal(rotated(image, 90), np.rot90(image))
    assert np.array_equal(rotated(image, 0), image)
    turned = Augmentation(("rotation",), seed=0, rows=3)
    assert not np.array_equal(turned(image, 0, 0), turned(image, 0, 1))


def test_what_training_sees_depends_on_seed_epoch_and_row_but_not_on_the_batches():
    rows = image_rows(colour(12))
    encoded = encode_images(rows, (16, 16), Augmentation(("crop", "flip"), seed=1, rows=12))

    def seen(batch_size, epoch, processes=1):
        sampler = EpochBatchSampler(12, batch_size, seed=1, processes=processes)
        sampler.set_epoch(epoch)
        keyed = KeyedRows(encoded)
        found = [keyed[key] for batch in sampler for key in batch]
        return {key.position: row["pixel_values"] for key, row in found}

    first, second = seen(4, epoch=3), seen(5, epoch=3, processes=2)
    assert all(np.array_equal(first[position], second[position]) for position in range(12))
    other = seen(4, epoch=4)
    assert any(not np.array_equal(first[position], other[position]) for position in range(12))
    plain = encoded[0]["pixel_values"]
    assert np.array_equal(plain, colour(12)[0]), "evaluation sees the image as it is"


def test_pixel_values_are_those_of_the_image_processor():
    from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

    images = colour(5)
    statistics = PixelStatistics.of(image_rows(images))
    assert np.allclose(statistics.mean, images.reshape(-1, 3).mean(axis=0) / 255)
    assert np.allclose(statistics.std, images.reshape(-1, 3).std(axis=0) / 255)
    assert not statistics.gray
    gray, _ = digits(3)
    assert PixelStatistics.of(image_rows(np.repeat(gray[..., None], 3, axis=3))).gray
    processor = ViTImageProcessorPil(
        size={"height": 16, "width": 16}, image_mean=list(statistics.mean), image_std=list(statistics.std)
    )
    features = [encode_images(image_rows(images), (16, 16))[i] for i in range(5)]
    ours = PixelCollator(statistics.mean, statistics.std)(features)
    theirs = ProcessorCollator(processor)(features)
    assert ours["labels"].tolist() == theirs["labels"].tolist() == [0, 1, 0, 1, 0]
    assert np.allclose(ours["pixel_values"], theirs["pixel_values"], atol=1e-6)
    flat = ours["pixel_values"].permute(1, 0, 2, 3).reshape(3, -1)
    assert np.allclose(flat.mean(dim=1), 0, atol=1e-5)
    assert np.allclose(flat.std(dim=1, correction=0), 1, atol=1e-5)


def test_an_unknown_step_is_refused():
    choices = "crop, flip, rotation, resized, or none"
    with pytest.raises(UserError, match=f"no such step 'mirror'; choose of {choices}"):
        parse_steps("crop,mirror")


def test_large_images_are_not_all_looked_at_for_their_statistics(monkeypatch):
    images = colour(6)
    monkeypatch.setattr(pixels, "STATISTICS_PIXELS", 3 * 16 * 16)
    found = PixelStatistics.of(image_rows(images))
    assert np.allclose(found.mean, images[::2].reshape(-1, 3).mean(axis=0) / 255)
