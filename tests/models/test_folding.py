import json

import numpy as np
import pytest
import torch
import transformers

from calmix.models.folding import fold, fold_temperature, folded_temperature, merged
from calmix.models.hf_compat import last_linear
from calmix.user_error import UserError
from tiny import FAMILIES, build_config


def inputs(choices: int | None = None):
    generator = torch.Generator().manual_seed(0)
    shape = (3, 9) if choices is None else (3, choices, 9)
    ids = torch.randint(6, 40, shape, generator=generator)
    ids[..., 0], ids[..., -1] = 2, 1  # T5 pools at the end-of-sequence token
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def network(family: str, *, choice: bool = False):
    torch.manual_seed(0)
    config = build_config(family)
    config.num_labels = 3
    auto = (
        transformers.AutoModelForMultipleChoice if choice else transformers.AutoModelForSequenceClassification
    )
    return auto.from_config(config).eval()


def decoder(family: str):
    torch.manual_seed(0)
    if family in ("qwen2", "llama"):
        shape = {
            "vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
            "num_key_value_heads": 2, "intermediate_size": 48, "max_position_embeddings": 64,
            "pad_token_id": 0, "num_labels": 3,
        }  # fmt: skip
        make = {"qwen2": transformers.Qwen2Config, "llama": transformers.LlamaConfig}[family]
        config = make(**shape)
    elif family == "gpt2":
        config = transformers.GPT2Config(
            vocab_size=64, n_positions=64, n_embd=32, n_layer=2, n_head=2, pad_token_id=0, num_labels=3
        )
    else:
        config = transformers.T5Config(
            vocab_size=64, d_model=32, d_kv=16, d_ff=48, num_layers=2, num_heads=2, num_labels=3,
            pad_token_id=0, eos_token_id=1, decoder_start_token_id=0,
        )  # fmt: skip
    return transformers.AutoModelForSequenceClassification.from_config(config).eval()


def check_scaled(model, batch, temperature=1.7):
    with torch.no_grad():
        before = model(**batch).logits
        fold_temperature(model, temperature)
        after = model(**batch).logits
    assert torch.allclose(after, before / temperature, atol=1e-6)
    assert not torch.allclose(after, before, atol=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_folded_logits_are_divided_by_the_temperature(family):
    check_scaled(network(family), inputs())


@pytest.mark.parametrize("family", ["gpt2", "qwen2", "llama", "t5"])
def test_decoders_fold_too(family):
    check_scaled(decoder(family), inputs())


@pytest.mark.parametrize("family", FAMILIES)
def test_multiple_choice_heads_fold(family):
    check_scaled(network(family, choice=True), inputs(choices=4))


def test_vector_scaling_folds_class_by_class():
    model, batch = network("roberta"), inputs()
    scale, bias = np.array([0.5, 2.0, 1.0]), np.array([0.1, -0.2, 0.0])
    with torch.no_grad():
        before = model(**batch).logits
        fold(model, scale, bias)
        after = model(**batch).logits
    assert torch.allclose(after, before * torch.tensor(scale).float() + torch.tensor(bias).float(), atol=1e-6)


def test_the_configuration_remembers_what_was_folded(tmp_path):
    model = network("bert")
    assert folded_temperature(model) == 1.0
    fold_temperature(model, 2.0)
    fold_temperature(model, 1.5)
    model.save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["calmix_calibration"]["temperature"] == 3.0
    again = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path)
    assert folded_temperature(again) == 3.0


def test_adapters_are_merged_before_folding():
    peft = pytest.importorskip("peft")
    settings = peft.LoraConfig(
        task_type="SEQ_CLS", r=4, target_modules=["query", "value"], init_lora_weights=False
    )
    model, batch = peft.get_peft_model(network("bert"), settings).eval(), inputs()
    with torch.no_grad():
        before = model(**batch).logits
        whole = merged(model)
        fold_temperature(whole, 2.0)
        after = whole(**batch).logits
    assert not isinstance(whole, peft.PeftModel)
    assert torch.allclose(after, before / 2, atol=1e-5)


def test_a_network_without_a_linear_head_is_refused():
    class Odd(torch.nn.Module):
        config = transformers.BertConfig(num_labels=3)

    with pytest.raises(UserError, match="no linear layer with 3 outputs"):
        last_linear(Odd())


def test_matrix_scaling_folds():
    model, batch = network("distilbert"), inputs()
    matrix, bias = np.array([[1.0, 0.2, 0.0], [0.0, 0.5, -0.1], [0.3, 0.0, 2.0]]), np.array([0.1, -0.2, 0.3])
    with torch.no_grad():
        before = model(**batch).logits.double()
        fold(model, matrix, bias)
        after = model(**batch).logits.double()
    assert torch.allclose(after, before @ torch.tensor(matrix).T + torch.tensor(bias), atol=1e-6)


def test_a_scale_per_class_does_not_fold_into_a_one_logit_choice_head():
    with pytest.raises(UserError, match="one set of weights for all choices"):
        fold(network("bert", choice=True), np.array([1.0, 2.0, 3.0, 4.0]))


SCALE, BIAS = np.array([0.5, 2.0, 1.0]), np.array([0.1, -0.2, 0.0])


def reloaded_logits(model, directory, batch):
    model.save_pretrained(directory)
    again = type(model).from_pretrained(directory).eval()
    with torch.no_grad():
        return again(**batch).logits


@pytest.mark.parametrize("family", [*FAMILIES, "t5"])
def test_a_scale_and_a_bias_of_every_class_are_still_there_after_saving_and_loading(family, tmp_path):
    model, batch = decoder("t5") if family == "t5" else network(family), inputs()
    with torch.no_grad():
        before = model(**batch).logits
    fold(model, SCALE, BIAS)
    after = reloaded_logits(model, tmp_path, batch)
    expected = before * torch.tensor(SCALE).float() + torch.tensor(BIAS).float()
    assert torch.allclose(after, expected, atol=1e-6)


@pytest.mark.parametrize("family", ["gpt2", "qwen2", "llama"])
def test_a_head_without_a_bias_takes_scales_and_refuses_biases(family, tmp_path):
    model, batch = decoder(family), inputs()
    with torch.no_grad():
        before = model(**batch).logits
    with pytest.raises(UserError, match="has no bias"):
        fold(model, SCALE, BIAS)
    with torch.no_grad():
        assert torch.equal(model(**batch).logits, before)  # nothing was changed by the refusal
    fold(model, SCALE)
    after = reloaded_logits(model, tmp_path, batch)
    assert torch.allclose(after, before * torch.tensor(SCALE).float(), atol=1e-6)


@pytest.mark.parametrize(
    "carried", [{"temperature": [1]}, {"temperature": "2"}, {"scale": "all"}, {"bias": [None]}]
)
def test_a_configuration_that_was_edited_is_refused(carried):
    model = transformers.AutoModelForSequenceClassification.from_config(build_config("bert"))
    model.config.calmix_calibration = carried
    with pytest.raises(UserError, match=r"config\.json: damaged: calmix_calibration\.\w+"):
        fold_temperature(model, 2.0)
