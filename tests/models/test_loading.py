import json

import pytest
import torch

from calmix.models.built_in import check_options
from calmix.models.loading import (
    LONGEST_BY_DEFAULT,
    load_classifier,
    load_inputs,
    load_tokenizer,
    load_trained,
    longest_input,
)
from calmix.user_error import UserError

LABELS = ("negative", "positive")


def load(directory, seed=0, task="single"):
    return load_classifier(str(directory), task=task, label_names=LABELS, seed=seed)


def test_the_new_head_is_drawn_from_the_seed(encoders):
    first, again, other = (load(encoders("bert"), seed).classifier.weight for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_a_checkpoint_in_half_precision_is_loaded_in_single_precision(encoders, tmp_path):
    load(encoders("bert")).to(torch.bfloat16).save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["dtype"] == "bfloat16"
    assert load(tmp_path).dtype == torch.float32
    assert load_trained(tmp_path).dtype == torch.float32


def test_label_names_are_saved_with_the_network(encoders):
    assert load(encoders("roberta")).config.id2label == {0: "negative", 1: "positive"}


def test_a_trained_multiple_choice_network_comes_back_as_one(encoders, tmp_path):
    load(encoders("bert"), task="choice").save_pretrained(tmp_path)
    assert "MultipleChoice" in type(load_trained(tmp_path)).__name__


def test_roberta_takes_fewer_tokens_than_it_has_positions(encoders):
    for family, expected in {"bert": 64, "roberta": 63}.items():
        # RoBERTa numbers positions from the padding index (here 0) + 1.
        model, tokenizer = load(encoders(family)), load_tokenizer(str(encoders(family)))
        assert longest_input(model, tokenizer) == expected


@pytest.mark.parametrize(
    ("tokenizer_says", "network_says", "asked", "expected"),
    [
        (1000, 2048, None, 1000),
        (1000, 0, None, 1000),
        (None, 2048, None, 2048),
        (100, 2048, None, 100),
        (None, 0, None, LONGEST_BY_DEFAULT),  # 10^30 says nothing
        (None, 0, 700, 700),
        (1000, 2048, 64, 64),
        (1000, 2048, 4000, 1000),
    ],
)
def test_texts_are_cut_as_the_checkpoint_says(
    encoders, tmp_path, tokenizer_says, network_says, asked, expected
):
    tokenizer, model = load_tokenizer(str(encoders("bert"))), load(encoders("bert"))
    if tokenizer_says is not None:
        tokenizer.model_max_length = tokenizer_says
    tokenizer.save_pretrained(tmp_path)
    model.config.max_position_embeddings = network_says
    assert load_inputs(tmp_path, model, max_length=asked).max_length == expected


@pytest.mark.parametrize("length", ["many", {"a": 1}, [3], True, 0, -5])
def test_a_tokenizer_whose_longest_text_is_no_number_is_refused(encoders, length):
    tokenizer, model = load_tokenizer(str(encoders("bert"))), load(encoders("bert"))
    tokenizer.model_max_length = length
    with pytest.raises(UserError, match=r"tokenizer_config\.json: model_max_length is .*; give a number of"):
        longest_input(model, tokenizer)


@pytest.mark.parametrize("kind", ["missing", "empty directory", "file"])
def test_what_is_not_a_model_is_said_in_one_line(kind, tmp_path):
    path = tmp_path / "thing"
    if kind == "empty directory":
        path.mkdir()
    elif kind == "file":
        path.write_text("not a model")
    with pytest.raises(UserError) as error:
        load_tokenizer(str(path))
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)
    assert "name a checkpoint directory, a hub model, or 'default'" in str(error.value)


def test_a_checkpoint_has_no_option_but_that_of_its_head():
    with pytest.raises(UserError, match="has no option 'dropout'; it has: head"):
        check_options("bert-base-uncased", {"dropout": 0.3})
    with pytest.raises(UserError, match=r"pooled.*; give linear: one layer on"):
        check_options("bert-base-uncased", {"head": "pooled"})
