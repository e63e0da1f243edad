"""A trainer with a teacher: the loss of every step against the formula, with and without mixing."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, softmax

from calmix.data.batches.encoding import PaddingCollator, encode_rows
from calmix.data.batches.unlabelled import WithUnlabelled
from calmix.data.rows import Rows
from calmix.mixing.methods.plain import Plain
from calmix.mixing.step import RowLosses
from calmix.models.loading import load_classifier, load_tokenizer
from calmix.runtime.progress import quiet
from calmix.training.arguments import MixupArguments
from calmix.training.distillation.teacher_logits import TeacherLogits
from calmix.training.trainer import MixupTrainer
from calmix.user_error import UserError
from tiny import sentences

ROWS = 12


def answers(rows=ROWS, seed=0):
    return np.random.default_rng(seed).normal(scale=2.0, size=(rows, 2)).astype(np.float32)


def weights(trainer):
    return {name: value.clone() for name, value in trainer.model.state_dict().items()}


def first_step(trainer):
    """The loss of the first step of training, the keys of its rows, and what its method found."""
    found = {}
    inner = trainer.taught

    def watch(result, labels):
        losses = inner(result, labels)
        found.setdefault("step", (losses.detach(), labels, trainer.keys.positions, result))
        return losses

    trainer.taught = watch
    trainer.args.max_steps = 1
    trainer.train()
    return found["step"]


@pytest.fixture
def make_trainer(encoders, tmp_path):
    def make(rows=ROWS, method_name="plain", extra=0, dropout=0.0, method=None, teacher=None, **settings):
        texts, names = sentences(rows + extra, seed=3)
        labels = [int(name == "positive") for name in names]
        label_names = ("negative", "positive")
        ids = [f"row-{i}" for i in range(rows + extra)]
        known = Rows.from_columns(ids[:rows], texts[:rows], labels=labels[:rows], label_names=label_names)
        directory = str(encoders("bert", dropout=dropout))
        tokenizer = load_tokenizer(directory)
        data = encode_rows(known, tokenizer, max_length=64)
        if extra:
            unknown = Rows.from_columns(ids[rows:], texts[rows:], label_names=label_names)
            data = WithUnlabelled(data, encode_rows(unknown, tokenizer, max_length=64))
        made = MixupTrainer(
            model=load_classifier(directory, task="single", label_names=label_names, seed=0),
            args=MixupArguments(
                output_dir=str(tmp_path / "out"), num_train_epochs=1, per_device_train_batch_size=6,
                save_strategy="no", disable_tqdm=True, logging_strategy="no", use_cpu=True,
                dataloader_pin_memory=False, method=method_name, **{"learning_rate": 1e-3, **settings},
            ),
            train_dataset=data,
            processing_class=tokenizer,
            data_collator=PaddingCollator.for_tokenizer(tokenizer, is_choice=False),
            method=method,
            teacher=teacher,
        )  # fmt: skip
        quiet(made)
        return made

    return make


@pytest.mark.parametrize("method", ["plain", "cls-mixup"])
def test_with_all_weight_on_the_labels_the_teacher_changes_no_bit(make_trainer, method):
    plain, taught = (make_trainer(rows=ROWS, method_name=method) for _ in range(2))
    taught.args.label_weight, taught.args.distill_temperature = 1.0, 3.0
    taught.learn_from(answers())
    plain.train()
    taught.train()
    for name, value in weights(plain).items():
        assert torch.equal(weights(taught)[name], value), name


def divergence(teacher, student, tau):
    """τ² KL from the formula, row by row, in numpy."""
    teacher, student = np.float64(teacher) / tau, np.float64(student) / tau
    return tau**2 * (softmax(teacher, 1) * (log_softmax(teacher, 1) - log_softmax(student, 1))).sum(1)


@pytest.mark.parametrize("method", ["plain", "focal", "regmixup"])
def test_a_row_as_it_is_learns_its_own_answer(make_trainer, method):
    teacher = answers()
    trainer = make_trainer(method_name=method, teacher=teacher, distill_temperature=2.0, label_weight=0.3)
    losses, _, positions, result = first_step(trainer)
    soft = divergence(teacher[positions], result.logits.detach().numpy(), 2.0)
    expected = 0.3 * result.losses.detach().numpy() + 0.7 * soft
    assert losses.numpy() == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("cls-mixup", {}), ("cls-mixup", {"ratio_scope": "sample"}), ("input-mixup", {}),
        ("manifold-mixup", {}), ("kernel-warping", {}),
    ],
)  # fmt: skip
def test_a_mixed_row_learns_the_mixed_answers_of_its_two(make_trainer, method, options):
    trainer = make_trainer(
        method_name=method, method_options=options, distill_temperature=2.0, label_weight=0.3
    )
    teacher = answers()
    trainer.learn_from(teacher)
    losses, _, positions, result = first_step(trainer)
    assert result.logits is None
    partner, ratio = result.mixed.partner.numpy(), result.mixed.ratio.numpy().reshape(-1, 1)
    tempered = softmax(np.float64(teacher[positions]) / 2, 1)
    target = ratio * tempered + (1 - ratio) * tempered[partner]
    student = log_softmax(np.float64(result.mixed.logits.detach().numpy()) / 2, 1)
    soft = 4 * (target * (np.log(target) - student)).sum(1)
    assert (partner != np.arange(len(partner))).any()
    assert losses.numpy() == pytest.approx(0.3 * result.losses.detach().numpy() + 0.7 * soft, abs=1e-5)


def test_a_row_that_keeps_the_nearer_label_learns_the_nearer_answer(make_trainer):
    trainer = make_trainer(method_name="features-only", label_weight=0.0)
    teacher = answers()
    trainer.learn_from(teacher)
    losses, _, positions, result = first_step(trainer)
    partner, keeps = result.mixed.partner.numpy(), bool(result.mixed.ratio)
    nearer = positions if keeps else positions[partner]
    expected = divergence(teacher[nearer], result.mixed.logits.detach().numpy(), 1.0)
    assert losses.numpy() == pytest.approx(expected, abs=1e-5)


def test_a_teacher_that_says_what_the_student_says_moves_nothing(make_trainer):
    moved = {}
    for who in ("itself", "another"):
        trainer = make_trainer(
            label_weight=0.0, distill_temperature=2.0, optim="sgd", learning_rate=0.1, dynamics="off"
        )
        own = trainer.predict(trainer.train_dataset).predictions
        trainer.learn_from(own if who == "itself" else answers())
        before = weights(trainer)
        trainer.train()
        after = weights(trainer)
        moved[who] = max(float((after[name] - value).abs().max()) for name, value in before.items())
    assert moved["itself"] < 1e-6
    assert moved["another"] > 1e-3


def test_several_teachers_are_averaged_as_probabilities_each_at_its_own_scale():
    first, second = answers(seed=1), answers(seed=2)
    together = TeacherLogits.of_arrays([first, second], [1.0, 2.5])
    chosen = [3, 0, 3]
    expected = (softmax(np.float64(first), 1) + softmax(2.5 * np.float64(second), 1))[chosen] / 2
    assert softmax(np.float64(together.of(chosen)), 1) == pytest.approx(expected, abs=1e-6)
    alone = TeacherLogits.of_arrays([first], [0.5])
    assert np.array_equal(alone.of(chosen), first[chosen] * np.float32(0.5))


def test_rows_without_a_label_learn_from_the_teacher_alone(make_trainer):
    trainer = make_trainer(extra=6, label_weight=0.4, distill_temperature=2.0)
    trainer.learn_from(answers(rows=ROWS + 6))
    losses, labels, positions, result = first_step(trainer)
    soft = divergence(answers(rows=ROWS + 6)[positions], result.logits.detach().numpy(), 2.0)
    known = positions < ROWS
    assert 0 < known.sum() < len(known), "a batch with both kinds of rows"
    assert np.array_equal(known, labels.numpy() >= 0)
    expected = 0.6 * soft + np.where(known, 0.4 * result.losses.detach().numpy(), 0.0)
    assert losses.numpy() == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("dynamics", ["training", "epoch_end"])
def test_the_dynamics_are_those_of_labelled_rows(make_trainer, dynamics):
    trainer = make_trainer(extra=6, dynamics=dynamics)
    trainer.learn_from(answers(rows=ROWS + 6))
    trainer.train()
    recorded = trainer.recorder.dynamics()
    assert recorded.row_ids.tolist() == [f"row-{i}" for i in range(ROWS)]
    assert recorded.seen.all()


def test_what_cannot_be_taught_is_refused(make_trainer):
    with pytest.raises(
        UserError, match="the teacher knows 3 rows of 2 classes, the training set has 12 of 2"
    ):
        make_trainer().learn_from(answers(rows=3))
    unknown = answers()
    unknown[5] = np.nan
    with pytest.raises(UserError, match=r"training row 5 \(counted from 0\) are not finite"):
        make_trainer().learn_from(unknown)
    with pytest.raises(UserError, match="cls-mixup mixes labels, and some rows have none"):
        make_trainer(extra=2, method_name="cls-mixup")
    with pytest.raises(UserError, match="rows without a label need a teacher"):
        make_trainer(extra=2).train()
    with pytest.raises(
        UserError, match="rows without a label are learned from the teacher, and label_weight"
    ):
        make_trainer(extra=2, teacher=answers(rows=ROWS + 2), label_weight=1.0).train()
    with pytest.raises(UserError, match="distill_temperature is 0"):
        make_trainer(distill_temperature=0.0)
    with pytest.raises(UserError, match=r"label_weight is 1\.5"):
        make_trainer(label_weight=1.5)

    class Silent(Plain):
        def losses(self, step):
            return RowLosses(super().losses(step).losses, logits=None)

    trainer = make_trainer(method=Silent())
    trainer.learn_from(answers())
    with pytest.raises(UserError, match="it cannot train a student"):
        trainer.preflight(is_taught=True)
    with pytest.raises(UserError, match="it cannot train a student"):
        trainer.train()
