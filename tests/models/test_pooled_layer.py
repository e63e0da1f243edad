"""The last layer for one position: logits and gradients stay; a network that reads more is left alone."""

import pytest
import torch
from transformers import AutoModelForMultipleChoice, AutoModelForSequenceClassification

from calmix.models.frozen_prefix import STATES, FrozenPrefix
from calmix.models.pooled_layer import pool_last_layer
from tiny import FAMILIES, build_config

POOLED = ("bert", "roberta", "electra", "distilbert")
OTHERS = tuple(family for family in (*FAMILIES, "gpt2") if family not in POOLED)


def make_batch(rows=5, longest=9, choices=None):
    generator = torch.Generator().manual_seed(1)
    shape = (rows, longest) if choices is None else (rows, choices, longest)
    ids = torch.randint(6, 60, shape, generator=generator)
    lengths = torch.randint(3, longest + 1, shape[:-1], generator=generator)
    mask = (torch.arange(longest) < lengths.unsqueeze(-1)).long()
    return {"input_ids": ids * mask, "attention_mask": mask}


def make_model(family, family_class=AutoModelForSequenceClassification, **settings):
    torch.manual_seed(0)
    config = build_config(family, layers=3, dropout=0.0)
    return family_class.from_config(config, **settings)


def gradients(model, batch):
    model.zero_grad()
    model(**batch).logits.square().sum().backward()
    return {name: parameter.grad.clone() for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("family", POOLED)
def test_logits_and_gradients_are_those_of_the_whole_layer(family, attention):
    model, batch = make_model(family, attn_implementation=attention).train(), make_batch()
    expected, slopes = model(**batch).logits.detach(), gradients(model, batch)
    widths = []
    model.base_model.get_submodule("transformer" if family == "distilbert" else "encoder").layer[
        -1
    ].register_forward_hook(lambda module, args, output: widths.append(output.shape[1]))
    pooled = pool_last_layer(model, make_batch(rows=2))
    assert pooled is not None
    assert model.training
    torch.testing.assert_close(model(**batch).logits, expected, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(gradients(model, batch), slopes, atol=1e-5, rtol=1e-4)
    assert widths[-1] == 1
    pooled.remove()
    assert torch.equal(model(**batch).logits, expected)
    assert widths[-1] == batch["input_ids"].shape[1]


@pytest.mark.parametrize("family", OTHERS)
def test_other_networks_are_left_as_they_are(family):
    model, batch = make_model(family).eval(), make_batch()
    with torch.no_grad():
        expected = model(**batch).logits
        assert pool_last_layer(model, batch) is None
        assert torch.equal(model(**batch).logits, expected)


def test_a_head_that_reads_all_positions_is_noticed():
    model, batch = make_model("bert").eval(), make_batch()

    def mean_pooling(hidden):
        return hidden.mean(dim=1) @ torch.eye(hidden.shape[-1])

    model.bert.pooler.forward = mean_pooling
    with torch.no_grad():
        expected = model(**batch).logits
        assert pool_last_layer(model, batch) is None
        assert torch.equal(model(**batch).logits, expected)


def test_choices_and_cached_states():
    model, batch = make_model("bert", AutoModelForMultipleChoice).eval(), make_batch(choices=3)
    with torch.no_grad():
        expected = model(**batch).logits
        assert pool_last_layer(model, batch) is not None
        torch.testing.assert_close(model(**batch).logits, expected, atol=1e-6, rtol=1e-5)

    model, batch = make_model("bert").eval(), make_batch(rows=1, longest=6)
    prefix = FrozenPrefix(model, 2, batch)
    kept = batch["attention_mask"][0].bool()
    states = torch.zeros(1, 6, prefix.width)
    states[0, kept] = prefix.run({"input_ids": batch["input_ids"][0][kept]})
    with torch.no_grad():
        expected = model(**batch).logits
        assert pool_last_layer(model, {**batch, STATES: states}) is not None
        torch.testing.assert_close(model(**batch, **{STATES: states}).logits, expected, atol=1e-6, rtol=1e-5)


def test_a_network_that_is_frozen_to_its_last_layer_is_left_alone():
    model, batch = make_model("bert").eval(), make_batch()
    FrozenPrefix(model, 3, batch)
    assert pool_last_layer(model, batch) is None
