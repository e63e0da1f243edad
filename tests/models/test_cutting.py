"""A network with fewer layers is a network of its own: it keeps the layers it should, and reloads."""

import pytest
import torch

from calmix.models.cutting import cut_layers
from calmix.models.loading import load_classifier, load_trained
from calmix.user_error import UserError
from tiny import FAMILIES

INPUTS = {
    "input_ids": torch.tensor([[2, 9, 10, 11, 3]]),
    "attention_mask": torch.ones(1, 5, dtype=torch.long),
}


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
        logits = cut(**INPUTS).logits
        assert torch.equal(load_trained(tmp_path).eval()(**INPUTS).logits, logits)
        assert not torch.allclose(whole(**INPUTS).logits, logits)


def test_as_many_layers_as_there_are_change_nothing_and_more_are_refused(encoders):
    whole, cut = load(encoders("bert", layers=2)), load(encoders("bert", layers=2))
    cut_layers(cut, 2)
    with torch.no_grad():
        assert torch.equal(whole(**INPUTS).logits, cut(**INPUTS).logits)
    with pytest.raises(UserError, match="has 2 layers, fewer than 3"):
        cut_layers(cut, 3)
