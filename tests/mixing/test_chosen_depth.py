"""Guided methods that mix at the inputs or at a layer: against a slow reference, and against plain.

The reference knows no hooks: it pads every pair by hand, mixes the word embeddings of the two texts and gives
them to the network as `inputs_embeds`, one pair at a time.
"""

import numpy as np
import pytest
import torch
import transformers
from torch.nn.functional import cross_entropy

from calmix.mixing.method import get_method
from calmix.mixing.step import Moment, Step
from calmix.models.mix_points import MixPoints
from calmix.training.forward import Forward
from calmix.user_error import UserError
from tiny import build_config

ROWS, CLASSES, SEP, SEED = 8, 3, 3, 5
MOMENT = Moment(SEED, epoch=1, step=2, batch=3)
LENGTHS = [4, 9, 6, 9, 5, 7, 3, 8]

GUIDED = ("aum-saliency", "tdmixup", "informed-mixup")
ALL = (*GUIDED, "rankmixup", "kernel-warping")


def network(family="bert", layers=2):
    torch.manual_seed(0)
    config = build_config(family, dropout=0.0, layers=layers)
    config.num_labels = CLASSES
    model = transformers.AutoModelForSequenceClassification.from_config(config)
    with torch.no_grad():  # fresh weights are almost 0, and all rows look alike to them
        for module in model.modules():
            if isinstance(module, torch.nn.Linear | torch.nn.Embedding):
                module.weight.mul_(5)
    return model.train()


def batch(model, lengths=LENGTHS, real=None):
    generator = np.random.default_rng(1)
    ids = torch.zeros(ROWS, max(lengths), dtype=torch.long)
    for row, length in enumerate(lengths):
        ids[row, :length] = torch.tensor([2, *generator.integers(6, 40, length - 2), SEP])
    inputs = {"input_ids": ids, "attention_mask": (ids > 0).long()}
    if model.config.model_type == "bert":
        inputs["token_type_ids"] = (torch.arange(ids.shape[1]) > 2).long() * inputs["attention_mask"]
    labels = torch.from_numpy(generator.integers(0, CLASSES, ROWS))
    points = MixPoints(model)
    return Step(
        labels,
        CLASSES,
        Forward(model, points, inputs),
        MOMENT,
        inputs,
        real=real,
        head=points.head,
        fillers={"sep": SEP},
        groups=np.arange(ROWS) % 2,
        positions=np.arange(ROWS),
    )


def words_of(model, step, row, length):
    """A text padded with separators to a length, and its segments, which the separators continue."""
    own = int(step.inputs["attention_mask"][row].sum())
    ids = step.inputs["input_ids"][row, :own].tolist() + [SEP] * (length - own)
    segments = step.inputs["token_type_ids"][row, :own].tolist()
    segments += [segments[-1]] * (length - own)
    embeddings = model.bert.embeddings
    return embeddings.word_embeddings(torch.tensor(ids)) + embeddings.token_type_embeddings(
        torch.tensor(segments)
    )


def slow_mix(model, step, first, second, ratio):
    """Logits of one pair, mixed as words: position and normalisation come after."""
    length = int(step.inputs["attention_mask"][[first, second]].sum(dim=1).max())
    mixed = ratio * words_of(model, step, first, length) + (1 - ratio) * words_of(model, step, second, length)
    # `inputs_embeds` has segment 0 added to it.
    mixed = mixed - model.bert.embeddings.token_type_embeddings(torch.tensor(0))
    return model(inputs_embeds=mixed.unsqueeze(0), attention_mask=torch.ones(1, length)).logits[0]


def slow_loss(model, step, pairs, weights):
    """Σ w CE of the pairs of each kind, and of the originals where they have a weight."""
    hard = torch.eye(CLASSES)[step.labels]
    total = torch.zeros(())
    if weights[0]:
        logits = [
            model(**{n: v[r : r + 1, : LENGTHS[r]] for n, v in step.inputs.items()}).logits[0]
            for r in range(ROWS)
        ]
        total = weights[0] * cross_entropy(torch.stack(logits), step.labels)
    for weight, kind in zip(weights[1:], pairs, strict=True):
        ratios = kind.ratio.expand(len(kind.first)).tolist()
        losses = [
            cross_entropy(slow_mix(model, step, i, j, r), r * hard[i] + (1 - r) * hard[j])
            for i, j, r in zip(kind.first.tolist(), kind.second.tolist(), ratios, strict=True)
        ]
        total = total + weight * torch.stack(losses).mean()
    return total


def gradients(model):
    return {name: value.grad.clone() for name, value in model.named_parameters() if value.grad is not None}


@pytest.mark.parametrize(
    ("name", "options", "weights"),
    [
        ("aum-saliency", {}, (0.8, 0.1, 0.1)),
        ("aum-saliency", {"originals": "none"}, (0, 0.5, 0.5)),
        ("tdmixup", {}, (2 / 3, 1 / 3)),
        ("tdmixup", {"originals": "none"}, (0, 1)),
        ("informed-mixup", {"originals": "subset"}, (0.5, 0.5)),
        ("informed-mixup", {"originals": "none"}, (0, 1)),
    ],
)
def test_at_the_inputs_it_is_the_slow_formula(name, options, weights):
    model = network()
    step = batch(model)
    result = get_method(name, at="input", alpha=1.0, **options).losses(step)
    result.losses.mean().backward()
    got = gradients(model)
    model.zero_grad()
    expected = slow_loss(model, step, result.pairs, weights)
    expected.backward()
    assert 0.05 < float(result.pairs[0].ratio.reshape(-1)[0]) < 0.95  # really mixed
    assert result.losses.mean().item() == pytest.approx(expected.item(), rel=1e-5)
    for parameter, value in gradients(model).items():
        np.testing.assert_allclose(got[parameter], value, atol=2e-5, rtol=1e-3, err_msg=parameter)


def test_partners_at_the_inputs_are_those_of_the_head():
    """Where rows are mixed does not change which rows meet."""
    met = [
        [pairs.second.tolist() for pairs in get_method("aum-saliency", at=at).losses(batch(network())).pairs]
        for at in ("head", "input", "layer")
    ]
    assert met[0] == met[1] == met[2]


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert"])
@pytest.mark.parametrize("name", GUIDED)
@pytest.mark.parametrize("at", ["input", "layer"])
def test_without_mixing_it_is_what_it_is_at_the_head(name, at, family):
    """α = 0 is λ = 1: the mixed rows are the rows themselves, of their own length."""
    model = network(family)
    losses = [get_method(name, alpha=0.0, at=place).losses(batch(model)).losses for place in ("head", at)]
    np.testing.assert_allclose(losses[1].detach(), losses[0].detach(), atol=1e-5)
    if name == "aum-saliency":
        plain = get_method("plain").losses(batch(model)).losses
        np.testing.assert_allclose(losses[1].detach(), plain.detach(), atol=1e-5)


def test_without_mixing_kernel_warping_is_plain():
    model = network()
    plain = get_method("plain").losses(batch(model)).losses.detach()
    for at in ("head", "input", "layer"):
        for originals in ("keep", "none"):
            method = get_method("kernel-warping", alpha=0.0, at=at, originals=originals)
            np.testing.assert_allclose(method.losses(batch(model)).losses.detach(), plain, atol=1e-5)


def test_a_pair_at_a_layer_is_mixed_where_the_layer_ends():
    model = network()
    step = batch(model, lengths=[6] * ROWS)
    result = get_method("tdmixup", at="layer", layers=(1,), alpha=1.0, originals="none").losses(step)
    pairs = result.pairs[0]
    first, second, ratio = pairs.first, pairs.second, pairs.ratio.reshape(-1, 1, 1)
    states = model.bert(**step.inputs, output_hidden_states=True).hidden_states[1]
    mask = torch.zeros(len(first), 1, 6, 6)
    mixed = ratio * states[first] + (1 - ratio) * states[second]
    hidden = model.bert.encoder.layer[1](mixed, mask)
    hidden = hidden[0] if isinstance(hidden, tuple) else hidden
    logits = model.classifier(model.bert.pooler(hidden))
    expected = cross_entropy(logits, pairs.targets)
    assert result.losses.mean().item() == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize(
    ("name", "at", "originals", "encoded"),
    [
        ("aum-saliency", "input", "keep", [8, 16]),
        ("aum-saliency", "input", "none", [8, 16]),
        ("aum-saliency", "layer", "keep", [8, 32]),
        ("tdmixup", "input", "keep", [8, 4]),
        ("tdmixup", "input", "none", [4]),
        ("tdmixup", "layer", "keep", [8, 8]),
        ("tdmixup", "head", "none", [8]),
        ("kernel-warping", "input", "none", [8, 8]),
        ("kernel-warping", "head", "keep", [8]),
        ("rankmixup", "input", "none", [8, 8, 8, 8]),
    ],
)
def test_rows_that_are_encoded(name, at, originals, encoded):
    """What a mix point costs, as the pages of the methods say."""
    model, seen = network(), []
    model.bert.encoder.register_forward_hook(lambda module, args, output: seen.append(len(args[0])))
    step = batch(model)
    step.forward.mix_points.head_module(step.inputs)  # the look for the head is made once
    seen.clear()
    get_method(name, at=at, originals=originals).losses(step)
    assert seen == encoded


@pytest.mark.parametrize("name", GUIDED)
@pytest.mark.parametrize("at", ["input", "layer"])
@pytest.mark.parametrize("originals", ["keep", "none"])
def test_padding_rows_count_for_nothing_and_a_batch_of_them_has_a_gradient(name, at, originals):
    method = get_method(name, at=at, originals=originals)
    model = network()
    losses = method.losses(batch(model, real=6)).losses
    losses[:6].sum().backward()
    assert np.isfinite(losses.detach()).all()
    model.zero_grad()
    method.losses(batch(model, real=0)).losses[:0].sum().backward()
    assert all((value == 0).all() for value in gradients(model).values())


def test_every_padding_of_a_pair_is_the_same_for_texts_of_one_length():
    losses = [
        get_method("tdmixup", at="input", padding=padding, alpha=1.0)
        .losses(batch(network(), lengths=[7] * ROWS))
        .losses.detach()
        for padding in ("sep-pair", "none")
    ]
    np.testing.assert_allclose(losses[0], losses[1], atol=1e-6)


@pytest.mark.parametrize(
    ("name", "options", "reason"),
    [
        ("aum-saliency", {"at": "top"}, "at is 'top'"),
        ("tdmixup", {"originals": "some"}, "originals is 'some'"),
        ("aum-saliency", {"at": "input", "scope": "global"}, "the bank holds logits"),
        ("tdmixup", {"layers": [1]}, "layers with at=head"),
        ("tdmixup", {"at": "layer", "layers": [0]}, "counted from 1"),
    ],
)
def test_options_that_mean_nothing_are_refused(name, options, reason):
    with pytest.raises(UserError, match=reason):
        get_method(name, **options)


def test_a_layer_that_is_not_there_is_refused():
    with pytest.raises(UserError, match="has no layer 7; it has 1 to 2"):
        get_method("tdmixup", at="layer", layers=[7]).depths(3)
    with pytest.raises(UserError, match="no layers to mix at"):
        get_method("tdmixup", at="layer").depths(1)


def test_gradient_checkpointing_with_two_passes_and_a_layer_is_refused():
    model = network()
    model.gradient_checkpointing_enable()
    with pytest.raises(UserError, match="gradient checkpointing runs layers again"):
        get_method("tdmixup", at="layer").losses(batch(model))
    step = batch(model)
    get_method("tdmixup", at="layer", originals="none").losses(step).losses.mean().backward()  # one pass
    step.forward.restore()
    get_method("tdmixup", at="input").losses(batch(model)).losses.mean().backward()


def test_a_stored_run_keeps_its_name_where_the_new_options_are_at_their_defaults():
    for name in ALL:
        method = get_method(name)
        new = set(method.options()) - set(method.hashed_options())
        assert new and new == set(method.later_options)
    assert get_method("tdmixup", at="input").hashed_options()["at"] == "input"
