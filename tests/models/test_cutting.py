"""A network with fewer layers is a network of its own: it keeps the layers it should, and reloads."""

import pytest
import torch
import transformers

from calmix.models.cutting import cut_layers
from calmix.models.loading import load_classifier, load_trained
from calmix.user_error import UserError
from tiny import FAMILIES

INPUTS = {
    "input_ids": torch.tensor([[2, 9, 10, 11, 3]]),
    "attention_mask": torch.ones(1, 5, dtype=torch.long),
}


def assert_same_network(one, other):
    """Bit-equal weights and equal logits. The logits are equal to rounding only: a matrix product adds in an
    order that depends on where in memory the weights are aligned, and a file that was read is elsewhere."""
    ours, theirs = one.state_dict(), other.state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    torch.testing.assert_close(one(**INPUTS).logits, other(**INPUTS).logits, rtol=0, atol=1e-7)


def load(directory):
    return load_classifier(str(directory), task="single", label_names=("a", "b"), seed=0).eval()


@pytest.mark.parametrize("family", FAMILIES)
def test_it_keeps_first_and_last_layer_and_is_the_same_after_loading(encoders, family, tmp_path):
    whole, cut = load(encoders(family, layers=4)), load(encoders(family, layers=4))
    cut_layers(cut, 3)
    assert cut.config.num_hidden_layers == 3
    layers = [
        next(m for m in model.modules() if isinstance(m, torch.nn.ModuleList) and len(m))
        for model in (whole, cut)
    ]
    if family != "albert":  # whose layers are one module, run several times
        for ours, theirs in zip(layers[1], (0, 1, 3), strict=True):
            for name, value in layers[0][theirs].state_dict().items():
                assert torch.equal(ours.state_dict()[name], value)
    cut.save_pretrained(tmp_path)
    with torch.no_grad():
        assert_same_network(load_trained(tmp_path).eval(), cut)
        assert not torch.allclose(whole(**INPUTS).logits, cut(**INPUTS).logits)


def test_what_the_configuration_says_of_each_layer_is_cut_whatever_its_name(tmp_path):
    shape = {"vocab_size": 64, "hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 48}
    config = transformers.LongformerConfig(**shape, num_hidden_layers=4, attention_window=[4, 8, 8, 8])
    cut = transformers.LongformerForSequenceClassification(config).eval()
    cut_layers(cut, 2)
    assert (cut.config.num_hidden_layers, cut.config.attention_window) == (2, [4, 8])
    cut.save_pretrained(tmp_path)
    with torch.no_grad():
        assert_same_network(load_trained(tmp_path).eval(), cut)


def test_a_list_that_is_as_long_by_chance_stays(encoders):
    cut = load(encoders("deberta-v2", layers=2))
    cut_layers(cut, 1)
    assert cut.config.pos_att_type == ["p2c", "c2p"]


@pytest.mark.parametrize("family", ["Swin", "Funnel"])
def test_a_network_that_would_not_load_again_is_refused(family):
    settings = {
        "Swin": {"image_size": 32, "patch_size": 2, "embed_dim": 8, "depths": [1] * 4, "num_heads": [1] * 4},
        "Funnel": {"vocab_size": 64, "block_sizes": [2, 2], "d_model": 32, "n_head": 2, "d_head": 8},
    }[family]
    head = "ForImageClassification" if family == "Swin" else "ForSequenceClassification"
    config = getattr(transformers, f"{family}Config")(**settings)
    model = getattr(transformers, family + head)(config)
    with pytest.raises(UserError, match=f"{family}{head} cannot be cut"):
        cut_layers(model, 2)


def test_as_many_layers_as_there_are_change_nothing_and_more_are_refused(encoders):
    whole, cut = load(encoders("bert", layers=2)), load(encoders("bert", layers=2))
    cut_layers(cut, 2)
    with torch.no_grad():
        assert torch.equal(whole(**INPUTS).logits, cut(**INPUTS).logits)
    with pytest.raises(UserError, match="has 2 layers, fewer than 3"):
        cut_layers(cut, 3)
