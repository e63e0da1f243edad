"""Every method on multiple-choice heads, text pairs and image networks: a step against an explicit reference.

The reference runs the networks' own parts by hand, layer by layer: one sequence at a time for texts, the
whole batch for images (the normalisation of a ResNet sees all rows). It knows no hooks and no mix points.
"""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
import transformers

from calmix.data.batches.encoding import PaddingCollator, encode_rows
from calmix.data.rows import Rows
from calmix.mixing.pairing import random_involution
from calmix.models.hf_compat import last_linear
from calmix.models.loading import load_classifier, load_tokenizer
from calmix.runtime.randomness import stream
from calmix.training.arguments import MixupArguments
from calmix.training.trainer import MixupTrainer
from tiny import sentences

ROWS, CLASSES, SEED, RATE, ALPHA = 5, 3, 11, 0.1, 0.7
SEP, DEPTH = 3, 2
LABELS = np.array([0, 2, 1, 2, 0])

# Method, its options, and the depth at which it mixes: 0, a layer, or "head".
CASES = {
    "erl": ("erl", {"beta": 0.3}, None),
    "focal": ("focal", {"gamma": 2.0}, None),
    "input": ("input-mixup", {"alpha": ALPHA}, 0),
    "features-only": ("features-only", {"alpha": ALPHA}, 0),
    "layer 1": ("manifold-mixup", {"alpha": ALPHA, "layers": [1]}, 1),
    "layer 2": ("manifold-mixup", {"alpha": ALPHA, "layers": [2]}, 2),
    "cls": ("cls-mixup", {"alpha": ALPHA, "label_smoothing": 0.1}, "head"),
    "regmixup": ("regmixup", {"alpha": ALPHA, "eta": 0.5}, "head"),
    "regmixup at embeddings": ("regmixup", {"alpha": ALPHA, "eta": 0.5, "at": "embeddings"}, 0),
}
every_case = pytest.mark.parametrize("case", CASES)


def trained(model, dataset, tmp_path, name, options, **more):
    """The network after one plain gradient step of ours."""
    trainer = MixupTrainer(
        model=model,
        args=MixupArguments(
            output_dir=str(tmp_path),
            method=name,
            method_options=options,
            seed=SEED,
            max_steps=1,
            per_device_train_batch_size=ROWS,
            length_buckets=False,
            optim="sgd",
            learning_rate=RATE,
            lr_scheduler_type="constant",
            max_grad_norm=0,
            use_cpu=True,
            save_strategy="no",
            disable_tqdm=True,
            logging_strategy="no",
            dataloader_pin_memory=False,
        ),
        train_dataset=dataset,
        **more,
    )
    trainer.train()
    return trainer.model


def livelier(model):
    """Fresh weights are almost 0, and all rows look alike to them: make rows differ and gradients matter."""
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, torch.nn.Linear):
                module.weight.mul_(6)
    return model


@dataclass
class Draws:
    """What the trainer draws for its only batch."""

    def __post_init__(self):
        self.order = stream(SEED, "order", 0).permutation(ROWS)
        self.partner = random_involution(ROWS, stream(SEED, "pairs", 0, 0))
        self.ratio = float(np.float32(stream(SEED, "ratio", 0).beta(ALPHA, ALPHA)))
        assert 0.05 < self.ratio < 0.95, "the rows must really be mixed"

    def mixed(self, values):
        return self.ratio * values + (1 - self.ratio) * values[self.partner]


def cross_entropy(logits, targets):
    return -(targets * torch.log_softmax(logits, 1)).sum(1)


def expected_losses(name, options, draws, originals, mixed):
    """The loss of every row by the method's formula; `originals` and `mixed` give the logits."""
    hard = torch.eye(CLASSES)[LABELS[draws.order]]
    smoothing = options.get("label_smoothing", 0.0)
    targets = (1 - smoothing) * hard + smoothing / (CLASSES - 1) * (1 - hard)
    if name == "erl":
        p = torch.softmax(originals(), 1)
        return cross_entropy(originals(), targets) + options["beta"] * (p * torch.log(p)).sum(1)
    if name == "focal":
        p = (torch.softmax(originals(), 1) * hard).sum(1)
        return -((1 - p) ** options["gamma"]) * torch.log(p)
    if name == "features-only":
        return cross_entropy(mixed(), hard if draws.ratio >= 0.5 else hard[draws.partner])
    if name == "regmixup":
        return cross_entropy(originals(), targets) + options["eta"] * cross_entropy(
            mixed(), draws.mixed(targets)
        )
    return cross_entropy(mixed(), draws.mixed(targets))


def assert_same_step(ours, reference, losses):
    """`reference`, moved by the gradient of the mean loss, is where our step ended."""
    losses.mean().backward()
    largest = 0.0
    for (name, given), start in zip(ours.named_parameters(), reference.parameters(), strict=True):
        step = torch.zeros_like(start) if start.grad is None else RATE * start.grad
        assert torch.allclose(given, start - step, atol=2e-6, rtol=1e-4), name
        largest = max(largest, step.abs().max().item())
    assert largest > 1e-2, "the step must move weights for the comparison to mean anything"


# Texts: pairs with a classification head, and choices with one logit each.


def text_rows(task):
    ids = [str(i) for i in range(ROWS)]
    texts, _ = sentences(ROWS, seed=2)
    others, _ = sentences(ROWS * CLASSES, seed=3)
    names = tuple("abc")
    if task == "pair":
        return Rows.from_columns(ids, texts, pairs=others[:ROWS], labels=LABELS, label_names=names)
    choices = [others[CLASSES * i : CLASSES * (i + 1)] for i in range(ROWS)]
    return Rows.from_columns(ids, texts, choices=choices, labels=LABELS, label_names=names)


class TextReference:
    """A BERT by hand, one sequence at a time, without padding to a batch."""

    def __init__(self, model, encoded, draws):
        self.model, self.bert, self.encoded, self.draws = model.train(), model.bert, encoded, draws

    def sequence(self, row, choice):
        features = self.encoded[int(self.draws.order[row])]
        return [list(features[name][choice]) for name in ("input_ids", "token_type_ids")]

    def padded_pair(self, row, partner, choice):
        pair = [self.sequence(one, choice) for one in (row, partner)]
        length = max(len(ids) for ids, _ in pair)
        for ids, segments in pair:
            missing = length - len(ids)
            ids += [SEP] * missing
            segments += segments[-1:] * missing
        return pair

    def logits(self, row, partner=None, depth=None):
        choices = self.encoded.sequences_per_row
        return torch.cat([self.one(row, partner, choice, depth) for choice in range(choices)])

    def one(self, row, partner, choice, depth):
        if depth is None:
            together, meet = [self.sequence(row, choice)], lambda hidden: hidden
        elif depth == "head":
            together, meet = [self.sequence(one, choice) for one in (row, partner)], self.meet
        else:
            together, meet = self.padded_pair(row, partner, choice), self.meet
        at = len(self.bert.encoder.layer) + 1 if depth == "head" else depth
        # Words and segments are mixed, positions are the same on both sides.
        hidden = [self.words(ids) + self.segments(kinds) for ids, kinds in together]
        hidden = meet(hidden) if at == 0 else hidden
        hidden = [self.with_positions(one) for one in hidden]
        for depth_here, layer in enumerate(self.bert.encoder.layer, start=1):
            outputs = [layer(one) for one in hidden]
            hidden = [one[0] if isinstance(one, tuple) else one for one in outputs]
            hidden = meet(hidden) if at == depth_here else hidden
        features = [self.bert.pooler(one) for one in hidden]
        features = meet(features) if depth == "head" else features
        return self.model.classifier(features[0])[0]

    def meet(self, pair):
        return [self.draws.ratio * pair[0] + (1 - self.draws.ratio) * pair[1]]

    def words(self, ids):
        return self.bert.embeddings.word_embeddings(torch.tensor([ids]))

    def segments(self, kinds):
        return self.bert.embeddings.token_type_embeddings(torch.tensor([kinds]))

    def with_positions(self, words):
        positions = self.bert.embeddings.position_embeddings(torch.arange(words.shape[1]))
        return self.bert.embeddings.LayerNorm(words + positions)


def text_network(encoder, rows):
    model = load_classifier(encoder, task=rows.task, label_names=rows.label_names, seed=0)
    return livelier(model)


@every_case
@pytest.mark.parametrize("task", ["pair", "choice"])
def test_text_pairs_and_choices(encoders, tmp_path, task, case):
    name, options, depth = CASES[case]
    encoder, rows = str(encoders("bert", dropout=0.0)), text_rows(task)
    tokenizer = load_tokenizer(encoder)
    encoded = encode_rows(rows, tokenizer, max_length=64)
    collator = PaddingCollator.for_tokenizer(tokenizer, is_choice=task == "choice")
    ours = trained(
        text_network(encoder, rows), encoded, tmp_path, name, options, data_collator=collator,
        processing_class=tokenizer,
    )  # fmt: skip
    draws, model = Draws(), text_network(encoder, rows)
    reference = TextReference(model, encoded, draws)

    def originals():
        return torch.stack([reference.logits(row) for row in range(ROWS)])

    def mixed():
        return torch.stack([reference.logits(row, int(draws.partner[row]), depth) for row in range(ROWS)])

    assert_same_step(ours, model, expected_losses(name, options, draws, originals, mixed))


# Images.


class Pictures:
    def __init__(self):
        self.pixels = np.random.default_rng(0).normal(size=(ROWS, 3, 32, 32)).astype(np.float32)

    def __len__(self):
        return ROWS

    def __getitem__(self, row):
        return {"pixel_values": torch.from_numpy(self.pixels[row]), "labels": int(LABELS[row])}


def image_network(family):
    torch.manual_seed(0)
    configs = {
        "vit": lambda: transformers.ViTConfig(
            hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48, image_size=32,
            patch_size=8, num_labels=CLASSES, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        ),
        "convnext": lambda: transformers.ConvNextConfig(
            hidden_sizes=[8, 16], depths=[1, 2], num_stages=2, image_size=32, num_labels=CLASSES
        ),
        "resnet": lambda: transformers.ResNetConfig(
            embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", num_labels=CLASSES
        ),
    }  # fmt: skip
    return livelier(transformers.AutoModelForImageClassification.from_config(configs[family]()))


def image_logits(model, pixels, depth=None, meet=None):
    """The network's parts by hand: what comes before the stages, the stages, what comes after them."""
    if hasattr(model, "vit"):
        first, stages = model.vit.embeddings, model.vit.layers
        last = lambda hidden: model.vit.layernorm(hidden)[:, 0]  # noqa: E731
    elif hasattr(model, "convnext"):
        first, stages = model.convnext.embeddings, model.convnext.encoder.stages
        last = lambda hidden: model.convnext.layernorm(hidden.mean([-2, -1]))  # noqa: E731
    else:
        first, stages = model.resnet.embedder, model.resnet.encoder.stages
        last = lambda hidden: model.resnet.pooler(hidden).flatten(1)  # noqa: E731
    hidden = first(meet(pixels) if depth == 0 else pixels)
    for number, stage in enumerate(stages, start=1):
        hidden = stage(hidden)
        hidden = meet(hidden) if depth == number else hidden
    features = last(hidden)
    return last_linear(model)(meet(features) if depth == "head" else features)


@every_case
@pytest.mark.parametrize("family", ["vit", "convnext", "resnet"])
def test_images(tmp_path, family, case):
    name, options, depth = CASES[case]
    pictures, draws = Pictures(), Draws()
    ours = trained(image_network(family), pictures, tmp_path, name, options)
    model = image_network(family).train()
    pixels = torch.from_numpy(pictures.pixels[draws.order])

    def originals():
        return image_logits(model, pixels)

    def mixed():
        return image_logits(model, pixels, depth, draws.mixed)

    assert_same_step(ours, model, expected_losses(name, options, draws, originals, mixed))
