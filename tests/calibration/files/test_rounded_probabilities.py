"""Files of rounded probabilities measure like the probabilities before rounding, and say what was done."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calmix.calibration.calibrators.temperature import TemperatureScaling
from calmix.calibration.files.prediction_files import iterate_predictions, read_predictions
from calmix.calibration.files.rounded_probabilities import decimal_digits, restore_rounded, rounded_digits
from calmix.calibration.predictions import Predictions
from calmix.user_error import UserError
from evaluated_files import evaluate_files


def drawn(classes, seed, rows=2000, scale=3.0, sharpness=2.0):
    """The probabilities of an overconfident model, and labels."""
    generator = np.random.default_rng([classes, seed])
    honest = generator.normal(size=(rows, classes)) * scale
    shares = np.exp(honest) / np.exp(honest).sum(1, keepdims=True)
    labels = (shares.cumsum(1) > generator.random((rows, 1))).argmax(1)
    sharp = np.exp(sharpness * (honest - honest.max(1, keepdims=True)))
    return sharp / sharp.sum(1, keepdims=True), labels


def write(file, probabilities, labels, digits):
    lines = ["label," + ",".join(f"prob_{k}" for k in range(probabilities.shape[1]))]
    for label, row in zip(labels, probabilities, strict=True):
        lines.append(",".join([str(label), *(f"{p:.{digits}f}" for p in row)]))
    file.write_text("\n".join(lines) + "\n")
    return file


def temperature(predictions):
    return TemperatureScaling().fit(predictions.log_probabilities(), predictions.labels).temperature_


LIMITS = {2: (0.03, 0.3), 3: (0.01, 0.2), 4: (0.005, 0.1), 6: (0.001, 0.02)}


@pytest.mark.parametrize("digits", LIMITS)
@pytest.mark.parametrize("classes", [2, 4])
def test_rounding_moves_neither_the_log_loss_nor_the_temperature_far(tmp_path, classes, digits):
    of_nll, of_temperature = LIMITS[digits]
    probabilities, labels = drawn(classes, digits)
    exact = Predictions.from_probabilities(probabilities, labels)
    notes = []
    found = read_predictions(write(tmp_path / "p.csv", probabilities, labels, digits), note=notes.append)
    nll, expected = -found.gold_log_probability().mean(), -exact.gold_log_probability().mean()
    assert nll == pytest.approx(expected, abs=of_nll)
    assert np.log(temperature(found) / temperature(exact)) == pytest.approx(0, abs=of_temperature)
    assert any(f"rounded to {digits} digits" in note for note in notes)


def test_one_zero_for_a_true_class_does_not_decide_the_temperature(tmp_path):
    """One row in 2,000 moved T from 1.9 to 3.0 where a 0 counted as the smallest number there is."""
    probabilities, labels = drawn(2, 1, scale=2.0)
    probabilities = np.clip(probabilities, 0.0004, 0.9996)
    probabilities /= probabilities.sum(1, keepdims=True)
    exact = temperature(Predictions.from_probabilities(probabilities, labels))
    wrong = probabilities[np.arange(2000), labels].argmin()
    probabilities[wrong, labels[wrong]] = 0.0004
    found = temperature(read_predictions(write(tmp_path / "p.csv", probabilities, labels, 3), note=str))
    assert found == pytest.approx(exact, rel=0.1)


def test_every_batch_of_a_file_is_read_by_the_digits_of_the_whole(tmp_path):
    probabilities, labels = drawn(4, 3, rows=400)
    probabilities[:200] = np.where(
        probabilities[:200] > 0.5, 1.0, 0.0
    )  # the first rows alone look like votes
    probabilities[:200, 0] += 1 - probabilities[:200].sum(1)
    file = write(tmp_path / "p.csv", probabilities, labels, 3)
    whole = read_predictions(file, note=str)
    notes = []
    parts = list(iterate_predictions(file, batch_rows=100, note=notes.append))
    assert np.array_equal(np.concatenate([part.values for part in parts]), whole.values)
    assert len(notes) == len(set(notes))
    assert (whole.values > 0).all()


def test_rows_that_rounding_explains_are_normalised_and_others_refused(tmp_path):
    file = tmp_path / "p.csv"
    file.write_text("label,prob_a,prob_b,prob_c\na,0.33,0.33,0.33\nb,0.17,0.67,0.17\n")
    notes = []
    found = read_predictions(file, note=notes.append)
    assert found.values.sum(1) == pytest.approx([1, 1])
    assert notes == [
        f"{file}: probabilities are rounded to 2 digits; rows that therefore do not sum to 1 are divided by "
        "their sum"
    ]
    for row in ("0.33,0.33,0.31", "0.333,0.333,0.33", "0.3,0.3,0.3", "0.34,0.34,0.35"):
        file.write_text(f"label,prob_a,prob_b,prob_c\na,{row}\n")
        with pytest.raises(UserError, match=r"row 1, column .*: probabilities must sum to 1"):
            read_predictions(file)


def test_one_rounded_column_for_two_classes(tmp_path):
    probabilities, labels = drawn(2, 5)
    lines = [f"{label},{p:.3f}" for label, p in zip(labels, probabilities[:, 1], strict=True)]
    (tmp_path / "one.csv").write_text("\n".join(["label,prob_1", *lines]) + "\n")
    notes = []
    one = read_predictions(tmp_path / "one.csv", note=notes.append)
    two = read_predictions(write(tmp_path / "two.csv", probabilities, labels, 3), note=str)
    assert one.values == pytest.approx(two.values, abs=1e-12)
    assert "rounded to 3 digits" in notes[0]


def test_the_note_is_part_of_what_evaluate_gives(tmp_path):
    probabilities, labels = drawn(3, 3, rows=200)
    found = evaluate_files([write(tmp_path / "p.csv", probabilities, labels, 2)], intervals=False)
    assert any("a 0 is taken for less than half of the last digit" in note for note in found["notes"])
    exact = evaluate_files([write(tmp_path / "q.csv", probabilities, labels, 17)], intervals=False)
    assert "notes" not in exact


@pytest.mark.parametrize(
    "values", [[[1.0, 0.0], [0.0, 1.0]], [[0.25, 0.75], [1.0, 0.0]], [[0.2, 0.8], [1.0, 0.0]]]
)
def test_votes_and_hard_answers_are_not_rounded(values):
    assert rounded_digits([np.array(values)]) is None


@given(
    st.integers(2, 5),
    st.lists(st.floats(0, 1), min_size=8, max_size=30).map(np.array),
    st.sampled_from([np.float32, np.float64]),
)
def test_digits_are_found_in_either_precision(digits, values, dtype):
    rounded = np.round(values, digits)
    assert decimal_digits(rounded.astype(dtype)) <= digits


@given(st.integers(2, 6), st.integers(2, 8), st.integers(0, 1000))
def test_restored_rows_are_distributions_close_to_what_was_written(digits, classes, seed):
    generator = np.random.default_rng(seed)
    probabilities = generator.dirichlet(np.full(classes, 0.2), 20)
    written = np.round(probabilities, digits)
    restored, _, _ = restore_rounded(written, digits)
    fits = np.abs(written.sum(1) - 1) <= 0.02 + 1e-6
    assert restored[fits].sum(1) == pytest.approx(1, abs=1e-3 + 1e-9)
    assert (restored[fits] > 0).all()
    assert np.abs(restored - written)[fits].max(initial=0) <= 10.0**-digits * (1 + classes / 2)
    assert np.array_equal(restored[~fits], written[~fits])
