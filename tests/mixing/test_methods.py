"""Every method on every family of networks: one optimiser step against a slow, explicit reference.

The reference forwards one row at a time, without padding to a batch, and mixes by hand: words through
`inputs_embeds`, layers by replacing what a layer gives, features by applying the last layer's own weights.
"""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from calmix.mixing.method import get_method
from calmix.mixing.pairing import random_involution
from calmix.mixing.step import Mix
from calmix.models.hf_compat import last_linear
from calmix.models.mix_points import MixPoints
from calmix.runtime.randomness import stream
from calmix.training.arguments import MixupArguments
from calmix.training.trainer import MixupTrainer
from tiny import FAMILIES, sentences

ROWS, CLASSES, SEED, LEARNING_RATE = 5, 3, 11, 0.1
SEP, DEPTH = 3, 2
EMBEDDINGS, HEAD = 0, DEPTH + 1


class Dataset:
    """Tokenised rows without lengths: their order in the only batch does not matter."""

    def __init__(self, tokenizer, equal_lengths=False):
        texts, _ = sentences(ROWS, seed=2)
        if equal_lengths:
            texts = ["the film was " + word for word in ("great", "dull", "warm", "weak", "funny")]
        self.encoded = tokenizer(texts)
        self.labels = np.array([0, 2, 1, 2, 0])

    def __len__(self):
        return ROWS

    def __getitem__(self, row):
        return {
            "input_ids": self.encoded["input_ids"][row],
            "attention_mask": self.encoded["attention_mask"][row],
            "labels": int(self.labels[row]),
        }


def build(family, encoders, dropout=0.0):
    directory = encoders(family, dropout=dropout)
    torch.manual_seed(5)
    model = AutoModelForSequenceClassification.from_pretrained(directory, num_labels=CLASSES)
    with torch.no_grad():  # a fresh head is almost 0: make its gradients matter
        last_linear(model).weight.mul_(20)
    return model, AutoTokenizer.from_pretrained(directory)


def trained(model, tokenizer, dataset, tmp_path, name, seed=SEED, **options):
    from transformers import DataCollatorWithPadding

    trainer = MixupTrainer(
        model=model,
        args=MixupArguments(
            output_dir=str(tmp_path),
            method=name,
            method_options=options,
            seed=seed,
            max_steps=1,
            per_device_train_batch_size=ROWS,
            optim="sgd",
            learning_rate=LEARNING_RATE,
            lr_scheduler_type="constant",
            max_grad_norm=0,
            use_cpu=True,
            save_strategy="no",
            disable_tqdm=True,
            logging_strategy="no",
            dataloader_pin_memory=False,
        ),
        train_dataset=dataset,
        data_collator=DataCollatorWithPadding(tokenizer),
        processing_class=tokenizer,
    )
    trainer.train()
    return trainer


def order_of_rows():
    return stream(SEED, "order", 0).permutation(ROWS)


def draws(alpha):
    partner = random_involution(ROWS, stream(SEED, "pairs", 0, 0))
    return partner, float(np.float32(stream(SEED, "ratio", 0).beta(alpha, alpha)))


class Reference:
    """Forwards one row at a time."""

    def __init__(self, model, dataset):
        self.model, self.dataset = model.train(), dataset
        self.order = order_of_rows()

    def ids(self, row):
        return self.dataset.encoded["input_ids"][int(self.order[row])]

    def label(self, row):
        return int(self.dataset.labels[self.order[row]])

    def forward(self, ids, **more):
        return self.model(input_ids=torch.tensor([ids]), attention_mask=torch.ones(1, len(ids)), **more)

    def padded(self, row, partner):
        ids = self.ids(row)
        return ids + [SEP] * max(0, len(self.ids(partner)) - len(ids))

    def mixed_logits(self, row, partner, ratio, depth):
        if depth == HEAD:
            linear = last_linear(self.model)
            features = [self.captured(self.ids(i), linear, "input") for i in (row, partner)]
            mix = ratio * features[0] + (1 - ratio) * features[1]
            return torch.nn.functional.linear(mix, linear.weight, linear.bias)[0]
        pair = self.padded(row, partner), self.padded(partner, row)
        if depth == EMBEDDINGS:
            words = [self.model.get_input_embeddings()(torch.tensor([ids])) for ids in pair]
            mix = ratio * words[0] + (1 - ratio) * words[1]
            return self.model(inputs_embeds=mix, attention_mask=torch.ones(mix.shape[:2])).logits[0]
        return self.continued(pair, ratio, depth)

    def captured(self, ids, module, what, call=1):
        caught, calls = {}, SimpleNamespace(n=0)

        def keep(_, args, output):
            calls.n += 1
            if calls.n == call:
                value = args[0] if what == "input" else output
                caught["value"] = value[0] if isinstance(value, tuple) else value

        handle = module.register_forward_hook(keep)
        self.forward(ids)
        handle.remove()
        return caught["value"]

    def continued(self, pair, ratio, depth):
        """Replace what layer `depth` gives by the mix of what it gave for either text."""
        mix_points = MixPoints(self.model)
        module = mix_points.layers[0 if mix_points.is_shared else depth - 1]
        call = depth if mix_points.is_shared else 1
        outputs = [self.captured(ids, module, "output", call) for ids in pair]
        mix, calls = ratio * outputs[0] + (1 - ratio) * outputs[1], SimpleNamespace(n=0)

        def replace(_, args, output):
            calls.n += 1
            if calls.n != call:
                return output
            return (mix, *output[1:]) if isinstance(output, tuple) else mix

        handle = module.register_forward_hook(replace)
        logits = self.forward(pair[0]).logits[0]
        handle.remove()
        return logits

    def target(self, row):
        return torch.nn.functional.one_hot(torch.tensor(self.label(row)), CLASSES).float()

    def step(self, row_loss):
        """One plain gradient step on the mean of the row losses; the new weights."""
        self.model.zero_grad()
        (sum(row_loss(row) for row in range(ROWS)) / ROWS).backward()
        return {
            name: parameter.detach() - LEARNING_RATE * parameter.grad
            if parameter.grad is not None
            else parameter.detach()
            for name, parameter in self.model.named_parameters()
        }


def soft_loss(logits, target):
    return -(target * torch.log_softmax(logits, 0)).sum()


def assert_step(trainer, expected):
    for name, parameter in trainer.model.named_parameters():
        assert torch.allclose(parameter, expected[name], atol=2e-6, rtol=1e-4), name


def check(family, encoders, tmp_path, name, row_loss_of, **options):
    model, tokenizer = build(family, encoders)
    dataset = Dataset(tokenizer)
    trainer = trained(model, tokenizer, dataset, tmp_path, name, **options)
    reference = Reference(build(family, encoders)[0], dataset)
    before = {n: p.detach().clone() for n, p in reference.model.named_parameters()}
    expected = reference.step(row_loss_of(reference))
    assert_step(trainer, expected)
    moved = max((expected[n] - before[n]).abs().max().item() for n in before)
    assert moved > 1e-3, "the step must move weights for the comparison to mean anything"


def mixed_loss(depth, alpha, smoothing=0.0):
    def of(reference):
        partner, ratio = draws(alpha)

        def smooth(target):
            return (1 - smoothing) * target + smoothing / (CLASSES - 1) * (1 - target)

        def row_loss(row):
            other = int(partner[row])
            logits = reference.mixed_logits(row, other, ratio, depth)
            target = ratio * smooth(reference.target(row)) + (1 - ratio) * smooth(reference.target(other))
            return soft_loss(logits, target)

        return row_loss

    return of


@pytest.mark.parametrize("family", FAMILIES)
def test_cls_mixup(family, encoders, tmp_path):
    check(family, encoders, tmp_path, "cls-mixup", mixed_loss(HEAD, 0.7), alpha=0.7)


@pytest.mark.parametrize("family", FAMILIES)
def test_input_mixup_with_label_smoothing(family, encoders, tmp_path):
    loss = mixed_loss(EMBEDDINGS, 0.7, smoothing=0.1)
    check(family, encoders, tmp_path, "input-mixup", loss, alpha=0.7, label_smoothing=0.1)


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("family", FAMILIES)
def test_manifold_mixup_at_a_layer(family, depth, encoders, tmp_path):
    check(family, encoders, tmp_path, "manifold-mixup", mixed_loss(depth, 1.0), alpha=1.0, layers=[depth])


@pytest.mark.parametrize("family", FAMILIES)
def test_features_only(family, encoders, tmp_path):
    def of(reference):
        partner, ratio = draws(0.7)

        def row_loss(row):
            other = int(partner[row])
            logits = reference.mixed_logits(row, other, ratio, EMBEDDINGS)
            return soft_loss(logits, reference.target(row if ratio >= 0.5 else other))

        return row_loss

    check(family, encoders, tmp_path, "features-only", of, alpha=0.7)


@pytest.mark.parametrize("at", ["head", "embeddings"])
@pytest.mark.parametrize("family", FAMILIES)
def test_regmixup(family, at, encoders, tmp_path):
    def of(reference):
        mixed = mixed_loss(HEAD if at == "head" else EMBEDDINGS, 10.0)(reference)

        def row_loss(row):
            original = reference.forward(reference.ids(row)).logits[0]
            return soft_loss(original, reference.target(row)) + 0.5 * mixed(row)

        return row_loss

    check(family, encoders, tmp_path, "regmixup", of, at=at, eta=0.5)


@pytest.mark.parametrize("family", FAMILIES)
def test_erl(family, encoders, tmp_path):
    def of(reference):
        def row_loss(row):
            logits = reference.forward(reference.ids(row)).logits[0]
            p = torch.softmax(logits, 0)
            return soft_loss(logits, reference.target(row)) + 0.3 * sum(q * torch.log(q) for q in p)

        return row_loss

    check(family, encoders, tmp_path, "erl", of, beta=0.3)


@pytest.mark.parametrize("family", FAMILIES)
def test_focal(family, encoders, tmp_path):
    def of(reference):
        def row_loss(row):
            p = torch.softmax(reference.forward(reference.ids(row)).logits[0], 0)[reference.label(row)]
            return -((1 - p) ** 2) * torch.log(p)

        return row_loss

    check(family, encoders, tmp_path, "focal", of, gamma=2.0)


MIXED_ONLY = ("cls-mixup", "input-mixup", "manifold-mixup", "features-only")


@pytest.mark.parametrize("name", MIXED_ONLY)
def test_a_ratio_of_one_is_plain_bit_for_bit(name, encoders, tmp_path):
    runs = []
    for method, options in (("plain", {}), (name, {"alpha": 0})):
        model, tokenizer = build("bert", encoders, dropout=0.1)
        runs.append(trained(model, tokenizer, Dataset(tokenizer), tmp_path, method, **options))
    plain, mixed = runs
    for (parameter, value), other in zip(
        plain.model.named_parameters(), mixed.model.parameters(), strict=True
    ):
        assert torch.equal(value, other), parameter
    assert plain.journal.losses() == mixed.journal.losses()


@pytest.mark.parametrize(
    ("name", "depth"), [("input-mixup", EMBEDDINGS), ("cls-mixup", HEAD)], ids=["input", "cls"]
)
def test_manifold_mixup_of_one_depth_is_the_named_method_bit_for_bit(name, depth, encoders, tmp_path):
    weights = []
    for method, options in ((name, {}), ("manifold-mixup", {"layers": [depth]})):
        model, tokenizer = build("roberta", encoders, dropout=0.1)
        trainer = trained(model, tokenizer, Dataset(tokenizer), tmp_path, method, alpha=1.0, **options)
        weights.append(trainer.model.state_dict())
    for parameter, value in weights[0].items():
        assert torch.equal(value, weights[1][parameter]), parameter


def test_equal_lengths_make_padding_a_no_op(encoders, tmp_path):
    weights = []
    for padding in ("sep-pair", "pad-pair", "unused-pair", "none"):
        model, tokenizer = build("bert", encoders, dropout=0.1)
        dataset = Dataset(tokenizer, equal_lengths=True)
        trainer = trained(model, tokenizer, dataset, tmp_path, "input-mixup", alpha=1.0, padding=padding)
        weights.append(trainer.model.state_dict())
    for other in weights[1:]:
        for parameter, value in weights[0].items():
            assert torch.allclose(value, other[parameter], atol=1e-7), parameter


@pytest.mark.parametrize("family", FAMILIES)
def test_mixing_at_the_head_is_mixing_logits(family, encoders):
    """The last layer is affine, and nothing but dropout stands between the mix point and it."""
    model, tokenizer = build(family, encoders)
    model = model.double().eval()
    batch = tokenizer(sentences(ROWS, seed=2)[0], padding=True, return_tensors="pt")
    batch = {name: batch[name] for name in ("input_ids", "attention_mask")}
    partner, ratio = torch.tensor([1, 0, 3, 2, 4]), torch.tensor([0.3, 0.9, 0.5, 0.0, 1.0]).double()
    mix_points = MixPoints(model)
    with torch.no_grad():
        logits = model(**batch).logits
        cut = mix_points.hook(mix_points.head, Mix(mix_points.head, partner, ratio), batch)
        mixed = model(**batch).logits
        cut.remove()
    expected = ratio[:, None] * logits + (1 - ratio[:, None]) * logits[partner]
    assert torch.allclose(mixed, expected, atol=1e-12)
    assert (mixed - logits).abs().max() > 1e-5


def test_the_depth_is_drawn_uniformly_and_is_the_same_for_all_micro_batches_of_a_step():
    from calmix.mixing.step import Moment, Step

    method = get_method("manifold-mixup")

    def depth(step, batch):
        labels = torch.zeros(4, dtype=torch.long)
        return method.draw_depth(Step(labels, 2, None, moment=Moment(0, 0, step, batch), head=7))

    drawn = [depth(step, 0) for step in range(4000)]
    assert [depth(step, 9) for step in range(50)] == drawn[:50]
    assert np.abs(np.bincount(drawn, minlength=8) / 4000 - 1 / 8).max() < 0.02


def test_ratio_scopes():
    from calmix.mixing.step import Moment, Step

    def ratios(scope, moments):
        method = get_method("cls-mixup", alpha=1.0, ratio_scope=scope)
        labels = torch.zeros(6, dtype=torch.long)
        return [method.draw_ratio(Step(labels, 2, None, moment=Moment(0, *moment))) for moment in moments]

    first, same_step, next_step = ratios("batch", [(0, 3, 6), (0, 3, 7), (0, 4, 8)])
    assert first == same_step != next_step
    first, later, next_epoch = ratios("epoch", [(0, 3, 6), (0, 9, 8), (1, 10, 0)])
    assert first == later != next_epoch
    (per_row,) = ratios("sample", [(0, 3, 6)])
    assert per_row.shape == (6,)
    assert len(set(per_row.tolist())) == 6


def test_the_dynamics_of_mixed_rows_are_not_taken_for_those_of_rows(encoders, tmp_path):
    model, tokenizer = build("bert", encoders)
    trainer = trained(model, tokenizer, Dataset(tokenizer), tmp_path, "cls-mixup")
    assert not trainer.recorder.dynamics().seen.any()
    model, tokenizer = build("bert", encoders)
    trainer = trained(model, tokenizer, Dataset(tokenizer), tmp_path, "regmixup")
    assert trainer.recorder.dynamics().seen.all()
