"""Teachers say what they say whoever asks, and what is kept of it is used for nothing else."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from calmix.calibration.files.prediction_files import write_predictions
from calmix.calibration.predictions import Predictions
from calmix.data.columns import ColumnNames
from calmix.data.reading import read_rows
from calmix.data.rows import Rows
from calmix.data.splits import read_splits
from calmix.io.run_directory import RunDirectory
from calmix.models.folding import fold_temperature, note_calibration
from calmix.models.loading import load_classifier, load_tokenizer
from calmix.models.network import load_network
from calmix.training.configuration import TrainConfig
from calmix.training.distillation import teacher_logits
from calmix.training.distillation.teacher_logits import cached_teacher_logits
from calmix.training.distillation.teachers import open_teacher
from calmix.training.distillation.teaching import Teaching
from calmix.user_error import UserError
from pictures import write_npz
from tiny import build_config, build_tokenizer, sentences

NAMES = ("negative", "positive")
TEMPERATURE = 1.7


def make_rows(count=20, label_names=NAMES, seed=5, **changes):
    texts, labels = sentences(count, seed=seed)
    ids = [f"row-{i}" for i in range(count)]
    return Rows.from_columns(
        changes.get("ids", ids), texts, labels=[label_names.index(x) for x in labels], label_names=label_names
    )


def save_classifier(directory, encoder, label_names=NAMES, temperature=None, seed=0, calibration=None):
    model = load_classifier(str(encoder), task="single", label_names=label_names, seed=seed)
    if temperature is not None:
        fold_temperature(model, temperature)
    if calibration is not None:
        note_calibration(model, calibration)
    model.save_pretrained(directory)
    load_tokenizer(str(encoder)).save_pretrained(directory)
    return directory


@pytest.fixture(scope="module")
def checkpoint(encoders, tmp_path_factory):
    return save_classifier(tmp_path_factory.mktemp("teacher"), encoders("bert"), temperature=TEMPERATURE)


def by_hand(directory, rows):
    """Logits of single texts, one at a time, with nothing but transformers."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(directory)
    model = AutoModelForSequenceClassification.from_pretrained(directory).eval()
    with torch.no_grad():
        each = [model(**tokenizer(text, return_tensors="pt")).logits[0].numpy() for text in rows.texts()]
    return np.stack(each)


def test_what_is_kept_is_what_the_teacher_says_to_the_bit(checkpoint, tmp_path):
    rows, teacher = make_rows(), open_teacher(str(checkpoint))
    state = torch.random.get_rng_state()
    fresh = teacher.answers(rows, threads=1)
    kept = cached_teacher_logits(teacher, rows, tmp_path / "place", threads=1)
    again = cached_teacher_logits(teacher, rows, tmp_path / "place", threads=1)
    assert isinstance(again, np.memmap)
    assert np.array_equal(fresh, kept)
    assert np.array_equal(fresh, again)
    assert np.abs(fresh - by_hand(checkpoint, rows)).max() < 1e-5
    assert torch.equal(torch.random.get_rng_state(), state), "asking a teacher draws nothing"


def test_a_teacher_reads_texts_as_long_as_those_it_was_trained_on(tmp_path):
    from transformers import BertForSequenceClassification

    config = build_config("bert")
    config.max_position_embeddings = 1024
    config.id2label = dict(enumerate(NAMES))
    torch.manual_seed(0)
    BertForSequenceClassification(config).save_pretrained(tmp_path)
    build_tokenizer(tmp_path)
    texts = [f"{'film ' * 600}{end}" for end in ("great", "poor")]
    one, other = open_teacher(str(tmp_path)).answers(Rows.from_columns(["a", "b"], texts, label_names=NAMES))
    assert not np.allclose(one, other, atol=1e-7), "they differ in their last word alone"


def test_kept_answers_are_not_computed_again(checkpoint, tmp_path, monkeypatch):
    rows, teacher = make_rows(), open_teacher(str(checkpoint))
    cached_teacher_logits(teacher, rows, tmp_path / "place")
    monkeypatch.setattr(type(teacher), "answers", None)
    turned = Rows.from_columns(
        rows.row_ids.tolist(), rows.texts(), labels=1 - rows.labels, label_names=rows.label_names
    )
    cached_teacher_logits(teacher, turned, tmp_path / "place")


def test_asking_leaves_the_state_of_a_trainer_under_way_alone(checkpoint, make_trainer):
    trainer = make_trainer(bf16=True)
    open_teacher(str(checkpoint)).answers(make_rows())
    assert trainer.accelerator.mixed_precision == "bf16"
    assert trainer.args.use_cpu


def test_all_processes_do_what_the_first_one_sees(checkpoint, tmp_path, monkeypatch):
    """One that looks late would find the file there, and leave the others alone in the work they share."""
    rows, teacher = make_rows(), open_teacher(str(checkpoint))
    cached_teacher_logits(teacher, rows, tmp_path / "place")
    asked = []
    monkeypatch.setattr(teacher_logits, "broadcast_from_rank0", lambda found: asked.append(found))
    monkeypatch.setattr(teacher_logits, "wait_for_all_processes", lambda: asked.append("waited"))
    cached_teacher_logits(teacher, rows, tmp_path / "place")
    assert asked == [True, "waited"]


def test_an_answer_that_is_no_number_is_refused_and_not_kept(checkpoint, tmp_path, monkeypatch):
    rows, teacher = make_rows(), open_teacher(str(checkpoint))
    wrong = np.zeros((20, 2), np.float32)
    wrong[7, 1] = np.nan
    monkeypatch.setattr(type(teacher), "answers", lambda *_, **__: wrong)
    with pytest.raises(UserError, match="about row 'row-7' is not a finite number"):
        cached_teacher_logits(teacher, rows, tmp_path / "place")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("damaged", [".npy", ".json"])
def test_damaged_answers_are_made_anew_once_the_named_file_is_gone(checkpoint, tmp_path, damaged):
    rows, teacher, place = make_rows(), open_teacher(str(checkpoint)), tmp_path / "place"
    whole = np.array(cached_teacher_logits(teacher, rows, place))
    file = place.with_suffix(damaged)
    file.write_bytes(file.read_bytes()[:70])
    with pytest.raises(UserError, match=rf"place\{damaged}: .*cannot be read.*; delete it: .* again"):
        cached_teacher_logits(teacher, rows, place)
    file.unlink()
    assert np.array_equal(cached_teacher_logits(teacher, rows, place), whole)


def test_answers_for_other_data_labels_or_by_another_teacher_are_refused(checkpoint, encoders, tmp_path):
    rows, teacher, place = make_rows(), open_teacher(str(checkpoint)), tmp_path / "place"
    cached_teacher_logits(teacher, rows, place)
    with pytest.raises(UserError, match="were made for other data"):
        cached_teacher_logits(teacher, make_rows(seed=6), place)
    with pytest.raises(UserError, match="were made for other data"):
        cached_teacher_logits(teacher, rows.select(np.arange(19, -1, -1)), place)
    turned = make_rows(label_names=NAMES[::-1])
    with pytest.raises(UserError, match=r"for the labels negative, positive.*data have positive, negative"):
        cached_teacher_logits(teacher, turned, place)
    other = open_teacher(str(save_classifier(tmp_path / "other", encoders("bert"), seed=1)))
    with pytest.raises(UserError, match="were made by another teacher"):
        cached_teacher_logits(other, rows, place)


def test_classes_are_matched_by_name(encoders, checkpoint, tmp_path):
    rows, turned = make_rows(), make_rows(label_names=NAMES[::-1])
    teacher = open_teacher(str(checkpoint))
    assert np.array_equal(teacher.answers(rows), teacher.answers(turned)[:, ::-1])
    unnamed = open_teacher(str(save_classifier(tmp_path / "x", encoders("bert"), label_names=("0", "1"))))
    with pytest.raises(UserError, match="labels are 0, 1, those of the training data negative, positive"):
        unnamed.check(rows)
    questions = Rows.from_columns(
        ["a"], ["Why?"], choices=[["So.", "No."]], labels=[1], label_names=("0", "1")
    )
    with pytest.raises(UserError, match="not trained for multiple choice"):
        teacher.check(questions)


def test_a_temperature_is_left_out_or_kept_but_never_applied_twice(checkpoint, encoders, tmp_path):
    raw = save_classifier(tmp_path / "raw", encoders("bert"))
    rows, run = make_rows(), RunDirectory(tmp_path / "run")
    expected = by_hand(raw, rows)
    config = TrainConfig(train="x", output=str(run.path), teacher=(str(checkpoint),))
    calibrated = Teaching.prepare(config, rows, None).logits(run).of(np.arange(20))
    as_trained = dataclasses.replace(config, teacher_temperature=False)
    uncalibrated = Teaching.prepare(as_trained, rows, None).logits(run).of(np.arange(20))
    assert np.abs(calibrated - expected / TEMPERATURE).max() < 1e-5
    assert np.abs(uncalibrated - expected).max() < 1e-5
    vector = save_classifier(
        tmp_path / "vector", encoders("bert"), calibration={"method": "vector", "temperature": 1.0}
    )
    with pytest.raises(UserError, match="vector scaling is part of this checkpoint"):
        open_teacher(str(vector), keeps_temperature=False)


@pytest.mark.parametrize("kind", ["logits", "probabilities"])
def test_a_predictions_file_is_asked_by_row_id(tmp_path, kind):
    rows = make_rows()
    logits = np.random.default_rng(0).normal(size=(25, 2)).astype(np.float32)
    made = Predictions.from_logits(
        logits, [0] * 25, ids=[f"row-{i}" for i in range(24, -1, -1)], class_names=NAMES[::-1]
    )
    if kind == "probabilities":
        made = Predictions.from_probabilities(
            made.probabilities(), made.labels, ids=made.ids, class_names=made.class_names
        )
    write_predictions(tmp_path / "file.parquet", made)
    teacher = open_teacher(str(tmp_path / "file.parquet"))
    given = teacher.answers(rows)
    for position in range(20):
        expected = logits[24 - position, ::-1]
        difference = np.float64(given[position]) - expected
        assert np.ptp(difference) < 1e-5, "logits count up to a constant"


def file_teacher(folder, **columns):
    pq.write_table(pa.table(columns), folder / "file.parquet")
    return open_teacher(str(folder / "file.parquet"))


def test_a_predictions_file_that_does_not_fit_is_refused(tmp_path):
    rows = make_rows()
    scores = {"logit_negative": [0.0, 1.0], "logit_positive": [1.0, 0.0]}
    with pytest.raises(UserError, match="no column 'row_id'"):
        file_teacher(tmp_path, **scores).check(rows)
    with pytest.raises(UserError, match="18 of 20 training rows are not in this file, for example 'row-2'"):
        file_teacher(tmp_path, row_id=["row-0", "row-1"], **scores).check(rows)
    twice = r"row 2, column 'row_id': the row id 'row-0' occurs twice, first in row 1; leave one of the two"
    with pytest.raises(UserError, match=twice):
        file_teacher(tmp_path, row_id=["row-0", "row-0"], **scores).check(rows.select([0]))
    file_teacher(tmp_path, row_id=["row-0", "row-1"], **scores).check(rows.select([1, 0]))


@pytest.mark.parametrize("columns", ["numbered", "list"])
def test_scores_are_never_taken_for_classes_by_their_place(tmp_path, columns):
    scores = {"prob_0": [0.9], "prob_1": [0.1]} if columns == "numbered" else {"probs": [[0.9, 0.1]]}
    remedy = "labels are 0, 1, .* name its columns by the classes: prob_negative, prob_positive"
    with pytest.raises(UserError, match=remedy):
        file_teacher(tmp_path, row_id=["row-0"], label=[0], **scores).check(make_rows().select([0]))


def test_classes_that_are_numbers_are_found_by_them_and_labels_are_not_read(tmp_path):
    rows = Rows.from_columns(["a", "b"], ["x", "y"], labels=[0, 2], label_names=("1", "2", "3"))
    probabilities = {"prob_3": [0.7, 0.2], "prob_1": [0.1, 0.5], "prob_2": [0.2, 0.3]}
    for labels in ({}, {"label": [3, 1]}, {"label": ["who", "knows"]}):
        teacher = file_teacher(tmp_path, row_id=["b", "a"], **labels, **probabilities)
        teacher.check(rows)
        expected = [[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]]
        assert np.exp(teacher.answers(rows)) == pytest.approx(np.array(expected), abs=1e-6)


def test_no_temperature_can_be_taken_out_of_a_predictions_file(tmp_path):
    file_teacher(tmp_path, row_id=["row-0"], logit_negative=[0.0], logit_positive=[1.0])
    with pytest.raises(UserError, match=r"file\.parquet: .* which temperature its predictions carry"):
        open_teacher(str(tmp_path / "file.parquet"), keeps_temperature=False)


def test_how_right_a_teacher_is_counts_the_annotators_that_agree_with_it(tmp_path):
    rows = make_rows(3)
    teacher = file_teacher(
        tmp_path,
        row_id=["row-2", "row-0", "row-1"],
        prob_positive=[0.9, 0.9, 0.2],
        prob_negative=[0.1, 0.1, 0.8],
    )
    config = TrainConfig(train="x", output=str(tmp_path / "run"), teacher=(teacher.name,))
    soft = rows.with_column("label_probs", [[0.4, 0.6], [0.75, 0.25], [1.0, 0.0]])
    for given, expected in ((soft, (0.6 + 0.75 + 0.0) / 3), (rows, np.mean(rows.labels == [1, 0, 1]))):
        teaching = Teaching.prepare(config, given, None)
        facts = teaching.facts(teaching.logits(RunDirectory(tmp_path / "run")))
        assert facts["teacher_train_accuracy"] == pytest.approx(expected)
        assert facts["teacher_train_confidence"] == pytest.approx((0.9 + 0.9 + 0.8) / 3)


def test_a_teacher_of_a_file_whose_rows_without_a_label_are_dropped_is_found_by_the_rows_of_that_file(
    tmp_path,
):
    """The predictions are of every row of the file, numbered as they stand there."""
    file = tmp_path / "train.csv"
    file.write_text("text,label\na,negative\nb,\nc,positive\nd,negative\n")
    columns = ColumnNames().with_labels({}, drop_unlabelled=True)
    rows = read_rows(file, "train", columns)
    chances = [0.1, 0.2, 0.3, 0.4]
    teacher = file_teacher(
        tmp_path,
        row_id=[f"train-{n}" for n in range(1, 5)],
        prob_positive=chances,
        prob_negative=[1 - chance for chance in chances],
    )
    assert rows.texts() == ["a", "c", "d"]
    assert np.exp(teacher.answers(rows))[:, 1] == pytest.approx([0.1, 0.3, 0.4], abs=1e-6)


def test_pairs_and_multiple_choice_are_taught(encoders, tmp_path):
    ids, texts, more = ["a", "b", "c"], ["good film", "bad", "a dull plot"], ["fine", "a bad film", "good"]
    pairs = Rows.from_columns(ids, texts, pairs=more, labels=[0, 1, 0], label_names=NAMES)
    choices = [[one, other] for one, other in zip(more, more[::-1], strict=True)]
    questions = Rows.from_columns(ids, texts, choices=choices, labels=[0, 1, 0], label_names=("0", "1"))
    tokenizer = load_tokenizer(str(encoders("bert")))
    for rows in (pairs, questions):
        model = load_classifier(str(encoders("bert")), task=rows.task, label_names=rows.label_names, seed=0)
        directory = tmp_path / rows.task
        model.eval().save_pretrained(directory)
        tokenizer.save_pretrained(directory)
        config = TrainConfig(train="x", output=str(tmp_path / f"{rows.task}-run"), teacher=str(directory))
        given = (
            Teaching.prepare(config, rows, None)
            .logits(RunDirectory(tmp_path / f"{rows.task}-run"))
            .of([2, 0, 1])
        )
        for answer, place in zip(given, [2, 0, 1], strict=True):
            seconds = [more[place]] if rows is pairs else choices[place]
            inputs = tokenizer([texts[place]] * len(seconds), seconds, padding=True, return_tensors="pt")
            if rows is questions:
                inputs = {name: value[None] for name, value in inputs.items()}
            with torch.no_grad():
                assert answer == pytest.approx(model(**inputs).logits[0].numpy(), abs=1e-5)


def test_images_are_taught(tmp_path):
    rows = read_rows(write_npz(tmp_path / "train.npz", 12, classes=3), "train")
    settings = {"seed": 0, "max_length": 8}
    network = load_network("resnet-small", rows, **settings)
    network.model.eval().save_pretrained(tmp_path / "teacher")
    network.inputs.save(tmp_path / "teacher")
    config = TrainConfig(train="x", output=str(tmp_path / "run"), teacher=str(tmp_path / "teacher"))
    given = Teaching.prepare(config, rows, None).logits(RunDirectory(tmp_path / "run")).of(np.arange(12))
    encoded = network.inputs.encode(rows)
    pixels = network.inputs.collator()([encoded[place] for place in range(12)])["pixel_values"]
    with torch.no_grad():
        assert given == pytest.approx(network.model(pixel_values=pixels).logits.numpy(), abs=1e-4)


@pytest.mark.parametrize(("augment", "expected"), [(None, 0), ("none", 0), ("crop,flip", 1)])
def test_a_student_that_sees_other_images_than_its_teacher_is_noted(tmp_path, augment, expected):
    splits = read_splits(write_npz(tmp_path / "train.npz", 40, classes=3))
    config = TrainConfig(train="x", output="y", teacher="plain", augment=augment)
    findings = Teaching.checked(config, splits.train, []).findings(splits)
    assert len(findings) == expected
    for finding in findings:
        assert str(finding).startswith("warning: train: --augment crop,flip changes what the student sees")


def test_teachers_that_are_not_there_are_refused(tmp_path, checkpoint):
    rows = make_rows()
    with pytest.raises(UserError, match="no such teacher"):
        open_teacher(str(tmp_path / "nobody"))
    config = TrainConfig(train="x", output="y", teacher="plain")
    with pytest.raises(UserError, match="the teacher 'plain' is not trained yet"):
        Teaching.prepare(config, rows, None)
    trained = TrainConfig(train="x", output="y", teacher=(str(checkpoint),), teacher_label_smoothing=0.1)
    with pytest.raises(UserError, match="teacher_label_smoothing: the teacher is trained already"):
        Teaching.prepare(trained, rows, None)
    with pytest.raises(UserError, match="teacher_options: no such option 'beta'"):
        Teaching.prepare(dataclasses.replace(config, teacher_options={"beta": 1}), rows, None)
