"""Frozen first layers: cached activations give the logits of the whole network, in every family."""

import pytest
import torch
from transformers import AutoModelForMultipleChoice, AutoModelForSequenceClassification

from calmix.models.frozen_prefix import STATES, FrozenPrefix
from calmix.models.mix_points import MixPoints
from calmix.user_error import UserError
from tiny import FAMILIES, build_config

FROZEN = [family for family in (*FAMILIES, "gpt2") if family != "albert"]


def make_batch(rows=5, longest=9, choices=None):
    generator = torch.Generator().manual_seed(1)
    shape = (rows, longest) if choices is None else (rows, choices, longest)
    ids = torch.randint(6, 60, shape, generator=generator)
    lengths = torch.randint(3, longest + 1, shape[:-1], generator=generator)
    mask = (torch.arange(longest) < lengths.unsqueeze(-1)).long()
    return {"input_ids": ids * mask, "attention_mask": mask}


def make_model(family, family_class=AutoModelForSequenceClassification, layers=3):
    torch.manual_seed(0)
    return family_class.from_config(build_config(family, layers=layers)).eval()


def cached(prefix, batch):
    """The states of every sequence by itself, padded with what must not matter."""
    ids, mask = batch["input_ids"], batch["attention_mask"].bool()
    flat, kept = ids.reshape(-1, ids.shape[-1]), mask.reshape(-1, ids.shape[-1])
    states = torch.full((*flat.shape, prefix.width), 7.0)
    for row in range(len(flat)):
        states[row, kept[row]] = prefix.run({"input_ids": flat[row][kept[row]]})
    return states.reshape(*ids.shape, prefix.width)


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("family", FROZEN)
def test_cached_states_give_the_logits_of_the_whole_network(family, layers):
    model, batch = make_model(family), make_batch()
    with torch.no_grad():
        expected = model(**batch).logits
    prefix = FrozenPrefix(model, layers, make_batch(rows=2))
    states = cached(prefix, batch)
    with torch.no_grad():
        given = model(**batch, **{STATES: states}).logits
        live = model(**batch).logits  # without states the whole network runs, as before
    torch.testing.assert_close(given, expected, atol=1e-5, rtol=1e-5)
    assert torch.equal(live, expected)


@pytest.mark.parametrize("family", FROZEN)
def test_no_frozen_parameter_is_used_above_with_a_gradient_and_no_trained_one_below(family):
    model, batch = make_model(family), make_batch()
    prefix = FrozenPrefix(model, 2, batch)
    before = cached(prefix, batch)
    model.train()
    model(**batch).logits.square().sum().backward()
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    assert trained and any(parameter.grad is not None for parameter in trained)
    with torch.no_grad():
        for parameter in trained:
            parameter.add_(0.5)
    assert torch.equal(cached(prefix, batch), before)


@pytest.mark.parametrize("family", ["bert", "mpnet", "deberta-v2"])
def test_the_frozen_layers_stay_in_evaluation_mode_and_the_others_do_not(family):
    model, batch = make_model(family), make_batch()
    prefix = FrozenPrefix(model, 2, batch)
    states = cached(prefix, batch)
    model.train()
    torch.manual_seed(3)
    from_cache = model(**batch, **{STATES: states}).logits
    torch.manual_seed(3)
    live = model(**batch).logits
    torch.manual_seed(4)
    other = model(**batch).logits
    # The same dropout above, none below: the same numbers but for the last bits.
    torch.testing.assert_close(from_cache, live, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(live, other, atol=1e-3)


def test_choices_are_sequences_of_their_own():
    model, batch = make_model("bert", AutoModelForMultipleChoice), make_batch(choices=3)
    prefix = FrozenPrefix(model, 2, batch)
    with torch.no_grad():
        given = model(**batch, **{STATES: cached(prefix, batch)}).logits
        torch.testing.assert_close(given, model(**batch).logits, atol=1e-5, rtol=1e-5)


def test_removed_the_network_is_what_it_was():
    model, batch = make_model("bert"), make_batch()
    names, trainable = list(model.state_dict()), [p.requires_grad for p in model.parameters()]
    prefix = FrozenPrefix(model, 2, batch)
    assert list(model.state_dict()) == names
    prefix.remove()
    model.train()
    assert all(module.training for module in model.modules())
    assert [p.requires_grad for p in model.parameters()] == trainable
    with pytest.raises(ValueError, match="inputs_embeds"):
        model(**batch, **{STATES: torch.zeros(5, 9, 32)})


def test_states_are_found_by_the_first_layers_alone():
    batch = make_batch()
    first = FrozenPrefix(make_model("bert"), 2, batch).fingerprint()
    changed = make_model("bert")
    with torch.no_grad():
        changed.classifier.weight.add_(1)
        MixPoints(changed).layers[2].output.dense.weight.add_(1)
    assert FrozenPrefix(changed, 2, batch).fingerprint() == first
    with torch.no_grad():
        MixPoints(changed).layers[1].output.dense.weight[0, 0] += 1
    assert FrozenPrefix(changed, 2, batch).fingerprint() != first
    assert FrozenPrefix(make_model("bert"), 1, batch).fingerprint() != first


@pytest.mark.parametrize(
    ("family", "layers", "reason"),
    [("albert", 1, "share their weights"), ("bert", 4, "has 3 layers"), ("bert", 0, "from 1 to 3")],
)
def test_what_cannot_be_frozen_is_refused(family, layers, reason):
    model = make_model(family)
    with pytest.raises(UserError, match=reason):
        FrozenPrefix(model, layers, make_batch())
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_a_network_that_looks_past_the_cached_states_is_refused():
    model, batch = make_model("bert"), make_batch()
    encoder = model.bert.encoder
    run = encoder.forward

    def forward(*args, **kwargs):  # something of the first layer goes past all others
        output = run(*args, **kwargs)
        output.last_hidden_state = output.last_hidden_state + 10 * encoder.layer[0].seen
        return output

    def keep(module, args, output):
        module.seen = output

    encoder.layer[0].register_forward_hook(keep)
    encoder.forward = forward
    with pytest.raises(UserError, match="its logits are off by"):
        FrozenPrefix(model, 2, batch)
    assert all(parameter.requires_grad for parameter in model.parameters())
