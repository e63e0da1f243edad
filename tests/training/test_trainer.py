"""One trainer for all methods: its steps against explicit ones."""

import numpy as np
import pytest
import torch
from transformers import DataCollatorWithPadding, Trainer

from calmix.data.batches.epoch_order import epoch_batches
from calmix.mixing.method import get_method
from calmix.training.arguments import MixupArguments
from calmix.training.recording import DynamicsMixin
from calmix.training.trainer import MixupTrainer
from calmix.user_error import UserError


def weights(trainer):
    return {name: tensor.detach().clone() for name, tensor in trainer.model.named_parameters()}


def assert_equal(first, second):
    assert first.keys() == second.keys()
    for name, tensor in first.items():
        assert torch.equal(tensor, second[name]), name


def reference_batches(trainer, epoch):
    rows, args = trainer.train_dataset, trainer.args
    size = args.per_device_train_batch_size
    for batch in epoch_batches(len(rows), size, seed=args.seed, epoch=epoch, lengths=rows.lengths):
        yield batch, trainer.data_collator([rows[int(i)] for i in batch])


def test_plain_training_equals_an_explicit_loop(make_trainer):
    trainer = make_trainer(dropout=0.0, optim="sgd", lr_scheduler_type="constant", max_grad_norm=0)
    model = make_trainer(dropout=0.0).model
    trainer.train()
    optimiser = torch.optim.SGD(model.parameters(), lr=trainer.args.learning_rate)
    model.train()
    for epoch in range(2):
        for _, batch in reference_batches(trainer, epoch):
            labels = batch.pop("labels")
            loss = torch.nn.functional.cross_entropy(model(**batch).logits, labels)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    for name, tensor in model.named_parameters():
        assert torch.allclose(tensor, dict(trainer.model.named_parameters())[name], atol=1e-6), name


def test_dynamics_are_those_of_the_training_passes(make_trainer):
    trainer = make_trainer(
        rows=21, dropout=0.0, learning_rate=1e-12
    )  # weights stay put: logits can be had again
    trainer.train()
    dynamics = trainer.recorder.dynamics()
    trainer.model.eval()
    with torch.no_grad():
        for positions, batch in reference_batches(trainer, 0):
            labels = batch.pop("labels")
            logits = trainer.model(**batch).logits.double()
            gold = torch.softmax(logits, 1).gather(1, labels[:, None])[:, 0]
            margin = logits.gather(1, labels[:, None])[:, 0] - logits.gather(1, 1 - labels[:, None])[:, 0]
            assert dynamics.gold_probability[positions, 0] == pytest.approx(gold.numpy(), abs=1e-5)
            assert dynamics.margin[positions, 1] == pytest.approx(margin.numpy(), abs=1e-5)


def test_dynamics_at_the_end_of_an_epoch_come_from_the_updated_network(make_trainer):
    trainer = make_trainer(rows=20, dynamics="epoch_end", num_train_epochs=1)
    trainer.train()
    recorded = trainer.recorder.dynamics().margin[:, 0]
    logits = trainer.predict(trainer.train_dataset).predictions.astype(np.float64)
    labels = trainer.train_dataset.labels
    rows = np.arange(20)
    assert recorded == pytest.approx(logits[rows, labels] - logits[rows, 1 - labels], abs=1e-6)


def test_accumulated_steps_equal_a_large_batch(make_trainer):
    settings = {"dropout": 0.0, "optim": "sgd", "num_train_epochs": 1, "length_buckets": False, "rows": 44}
    large = make_trainer(per_device_train_batch_size=16, **settings)
    # 44 rows: the last step of either holds 12, in micro-batches of 4.
    small = make_trainer(per_device_train_batch_size=4, gradient_accumulation_steps=4, **settings)
    orders = [
        [int(i) for batch in epoch_batches(44, size, seed=42, epoch=0) for i in batch] for size in (16, 4)
    ]
    for trainer, order in zip((large, small), orders, strict=True):
        # The order of rows depends on the batch size: give both the same one.
        trainer.train_dataset = Reordered(trainer.train_dataset, order)
        trainer.train()
    for (name, first), second in zip(large.model.named_parameters(), small.model.parameters(), strict=True):
        assert torch.allclose(first, second, atol=1e-6), name


class Reordered:
    """Row `order[i]` of the sampler's numbering is row i."""

    def __init__(self, rows, order):
        self.rows, self.place = rows, {position: i for i, position in enumerate(order)}
        self.labels = np.array([rows.labels[self.place[i]] for i in range(len(rows))])

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, position):
        return self.rows[self.place[position]]


def test_same_seed_same_bits_other_seed_other_bits(make_trainer):
    trainers = [make_trainer(seed=seed) for seed in (1, 1, 2)]
    for trainer in trainers:
        torch.manual_seed(trainer.args.seed)
        trainer.train()
    first, again, other = (weights(trainer) for trainer in trainers)
    assert_equal(first, again)
    assert any(not torch.equal(first[name], other[name]) for name in first)
    assert np.array_equal(trainers[0].recorder.dynamics().margin, trainers[1].recorder.dynamics().margin)


def test_epoch_losses_are_means_over_rows(make_trainer):
    trainer = make_trainer(rows=21, dropout=0.0, learning_rate=1e-12)
    trainer.train()
    losses = []
    trainer.model.eval()
    with torch.no_grad():
        for _, batch in reference_batches(trainer, 0):
            labels = batch.pop("labels")
            losses += torch.nn.functional.cross_entropy(
                trainer.model(**batch).logits, labels, reduction="none"
            ).tolist()
    assert trainer.journal.losses() == {
        0: pytest.approx(np.mean(losses), abs=1e-6),
        1: pytest.approx(np.mean(losses), abs=1e-6),
    }


def test_works_with_a_hugging_face_dataset_and_its_collator(make_trainer, encoders, tmp_path):
    import datasets
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(encoders("bert"))
    texts = ["great film", "a dull plot", "warm and funny", "the story was weak and slow"] * 4
    table = datasets.Dataset.from_dict({"text": texts, "label": [1, 0, 1, 0] * 4})
    table = table.map(lambda row: tokenizer(row["text"]))
    trainer = MixupTrainer(
        model=AutoModelForSequenceClassification.from_pretrained(encoders("bert"), num_labels=2),
        args=MixupArguments(
            output_dir=str(tmp_path),
            num_train_epochs=2,
            per_device_train_batch_size=4,
            use_cpu=True,
            save_strategy="no",
            eval_strategy="epoch",
            disable_tqdm=True,
        ),
        train_dataset=table,
        eval_dataset=table,
        data_collator=DataCollatorWithPadding(tokenizer),
    )
    trainer.train()
    assert np.isfinite(trainer.recorder.dynamics().margin).all()
    assert trainer.recorder.dynamics().margin.shape == (16, 2)
    assert trainer.evaluate()["eval_loss"] > 0


def test_the_mixin_records_for_any_trainer(make_trainer):
    class Recording(DynamicsMixin, Trainer):
        pass

    recording, ours = make_trainer(trainer=Recording, rows=24), make_trainer(rows=24)
    for trainer in (recording, ours):
        torch.manual_seed(0)
        trainer.train()
    assert np.array_equal(recording.recorder.dynamics().margin, ours.recorder.dynamics().margin)


def test_mixed_precision_trains_with_finite_dynamics(make_trainer):
    trainer = make_trainer(bf16=True, num_train_epochs=1)
    trainer.train()
    assert np.isfinite(trainer.recorder.dynamics().margin).all()
    assert np.isfinite(trainer.journal.losses()[0])


def test_a_method_object_is_taken_as_it_is(make_trainer):
    method = get_method("plain", label_smoothing=0.2)
    assert make_trainer(method=method).method is method


def test_torchs_label_smoothing_is_refused_with_the_remedy(tmp_path):
    with pytest.raises(UserError, match="use the method option label_smoothing"):
        MixupArguments(output_dir=str(tmp_path), label_smoothing_factor=0.1)


def test_unknown_dynamics_are_refused(tmp_path):
    with pytest.raises(UserError, match="choose one of training, epoch_end, off"):
        MixupArguments(output_dir=str(tmp_path), dynamics="sometimes")


def test_steps_instead_of_epochs_are_recorded(make_trainer):
    trainer = make_trainer(rows=24, max_steps=7, num_train_epochs=1)  # three steps an epoch
    trainer.train()
    assert trainer.recorder.dynamics().margin.shape == (24, 3)
    trainer = make_trainer(rows=24, max_steps=2, dynamics="epoch_end")
    trainer.train()
    assert trainer.recorder.dynamics().seen.all()


def test_a_second_training_starts_a_new_record(make_trainer):
    trainer = make_trainer(rows=16, num_train_epochs=1)
    trainer.train()
    trainer.train()
    assert (trainer.recorder.state()["times"] == 1).all()


def test_looking_ahead_changes_nothing(make_trainer):
    first, second = make_trainer(rows=16), make_trainer(rows=16)
    torch.manual_seed(0)
    first.train()
    torch.manual_seed(0)
    second.preflight()
    second.train()
    assert_equal(weights(first), weights(second))


def test_rows_cannot_be_mixed_in_a_compiled_network(make_trainer):
    trainer = make_trainer(rows=16, method=get_method("cls-mixup"))
    trainer.args.torch_compile = True
    with pytest.raises(UserError, match="leave torch_compile out"):
        trainer.preflight()
