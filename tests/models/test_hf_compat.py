"""Contracts with transformers and torch: a test fails when a release changes what `hf_compat` relies on."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from transformers import AutoConfig, AutoModelForMultipleChoice, AutoModelForSequenceClassification

from calmix.models import hf_compat
from calmix.models.loading import load_trained

FAMILIES = ("bert", "roberta", "distilbert", "albert")


@pytest.fixture(params=FAMILIES)
def network(request, encoders):
    return load_trained(encoders(request.param))


def test_the_dropouts_of_torch_are_all_known():
    private = nn.modules.dropout._DropoutNd
    kinds = [kind for kind in vars(nn).values() if isinstance(kind, type) and issubclass(kind, private)]
    assert set(kinds) == set(hf_compat.DROPOUTS)


def test_the_norms_with_running_statistics_are_all_known():
    private = nn.modules.batchnorm._NormBase
    kinds = [kind for kind in vars(nn).values() if isinstance(kind, type) and issubclass(kind, private)]
    lazy = [kind for kind in kinds if kind.__name__.startswith("Lazy")]  # they become the others when run
    assert set(kinds) - set(lazy) == set(hf_compat.RUNNING_NORMS)


def test_the_last_linear_layer_gives_the_logits(network):
    seen = []
    hf_compat.last_linear(network).register_forward_hook(lambda module, args, output: seen.append(output))
    logits = network.eval()(input_ids=torch.tensor([[2, 5, 6, 3]])).logits
    assert torch.equal(seen[-1], logits)


def test_the_layers_are_found_and_run_in_their_order(network):
    stack, count = hf_compat.layer_stack(network)
    layers = getattr(network.config, count)
    seen = []
    for place, layer in enumerate(stack):
        layer.register_forward_hook(lambda module, args, output, place=place: seen.append(place))
    network.eval()(input_ids=torch.tensor([[2, 5, 6, 3]]))
    assert seen == (list(range(layers)) if len(stack) == layers else [0] * len(seen)) and seen


@pytest.mark.parametrize("family", ("bert", "gpt2"))
def test_configurations_name_their_depth_and_width(family):
    config = AutoConfig.for_model(family).to_dict()
    assert any(isinstance(config.get(name), int) for name in hf_compat.LAYER_COUNTS)
    assert any(isinstance(config.get(name), int) for name in hf_compat.WIDTHS)


def test_decoders_keep_the_number_of_a_layer_as_layer_idx():
    config = AutoConfig.for_model(
        "llama", vocab_size=32, hidden_size=16, intermediate_size=16, num_hidden_layers=3, pad_token_id=0,
        num_attention_heads=2, num_key_value_heads=2,
    )  # fmt: skip
    stack, _ = hf_compat.layer_stack(AutoModelForSequenceClassification.from_config(config))
    assert [layer.self_attn.layer_idx for layer in stack] == [0, 1, 2]
    kept = [stack[0], stack[2]]
    hf_compat.number_layers(kept)
    assert [layer.self_attn.layer_idx for layer in kept] == [0, 1]


@pytest.mark.parametrize(("family", "tables"), [("bert", 2), ("roberta", 2), ("distilbert", 1)])
def test_word_and_segment_embeddings_are_found_by_name(family, tables, encoders):
    found = hf_compat.token_embeddings(load_trained(encoders(family)))
    assert len(found) == tables and all(isinstance(module, nn.Embedding) for module in found)


@pytest.mark.parametrize(("family", "first"), [("bert", None), ("roberta", 0)])
def test_positions_are_numbered_from_the_padding_index_in_roberta_alone(family, first, encoders):
    assert hf_compat.first_position(load_trained(encoders(family))) == first


def test_classes_say_their_task_in_their_names(encoders):
    config = load_trained(encoders("bert")).config
    choice = AutoModelForMultipleChoice.from_config(config)
    assert hf_compat.is_multiple_choice(choice)
    assert not hf_compat.is_multiple_choice(AutoModelForSequenceClassification.from_config(config))
    resnet = AutoConfig.for_model("resnet", embedding_size=8, hidden_sizes=[8], depths=[1])
    from transformers import AutoModelForImageClassification

    images = AutoModelForImageClassification.from_config(resnet)
    assert hf_compat.is_image_class(type(images).__name__)
    assert hf_compat.reads_images(images) and not hf_compat.reads_images(choice)


def test_the_plain_image_processor_says_what_it_does():
    made = hf_compat.plain_image_processor((12, 10), [0.5] * 3, [0.25] * 3)
    assert hf_compat.plain_image_size(made) == (12, 10)
    made.do_rescale = False
    assert hf_compat.plain_image_size(made) is None


def test_a_file_that_a_model_of_the_hub_lacks_is_no_error(monkeypatch, tmp_path):
    """`_raise_exceptions_for_missing_entries` of `cached_file` is private."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (tmp_path / "config.json").write_text("{}")
    assert hf_compat.has_hub_file(str(tmp_path), "config.json")
    assert not hf_compat.has_hub_file(str(tmp_path), "modules.json")


@pytest.mark.parametrize("family", ["gpt2", "qwen2", "llama"])
def test_the_logits_of_a_decoder_are_those_of_its_last_token(family, encoders):
    network = load_trained(encoders(family)).eval()
    assert hf_compat.pools_last_token(network)
    ids = torch.tensor([[5, 6, 7, 0], [5, 6, 7, 8], [0, 0, 5, 6]])
    seen = []
    hf_compat.last_linear(network).register_forward_hook(lambda module, args, output: seen.append(output))
    logits = network(input_ids=ids, attention_mask=(ids != 0).long()).logits
    places = hf_compat.last_tokens(ids, network.config.pad_token_id)
    assert torch.equal(logits, seen[-1][torch.arange(len(ids)), places])


def test_an_encoder_pools_otherwise(network):
    assert not hf_compat.pools_last_token(network)
