import json

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer

from calmix.data.batches.encoding import PaddingCollator, encode_rows
from calmix.data.rows import Rows
from calmix.user_error import UserError

TEXTS = ["the film is great", "dull", "a very long and quite boring plot it was not a great film"]


def rows_of(task):
    ids, labels = ["a", "b", "c"], [0, 1, 0]
    if task == "single":
        return Rows.from_columns(ids, TEXTS, labels=labels, label_names=("n", "p"))
    if task == "pair":
        pairs = ["the story", "it was slow and long", "warm"]
        return Rows.from_columns(ids, TEXTS, pairs=pairs, labels=labels, label_names=("n", "p"))
    choices = [["joy", "a dull scene"], ["flat", "the plot was weak"], ["it is funny", "poor"]]
    return Rows.from_columns(ids, TEXTS, choices=choices, labels=labels, label_names=("0", "1"))


@pytest.fixture(scope="module")
def tokenizer(encoders):
    return AutoTokenizer.from_pretrained(encoders("bert"))


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("task", ["single", "pair"])
def test_padded_batch_equals_the_tokenizers_own(tokenizer, task, side):
    rows = rows_of(task)
    encoded = encode_rows(rows, tokenizer, max_length=64)
    collator = PaddingCollator({"input_ids": tokenizer.pad_token_id, "token_type_ids": 0}, side)
    batch = collator([encoded[i] for i in range(3)])
    pairs = rows.pairs() if task == "pair" else None
    expected = tokenizer(TEXTS, pairs, padding=True, padding_side=side, return_tensors="pt")
    for name, tensor in expected.items():
        assert torch.equal(batch[name], tensor), name
    assert batch["labels"].tolist() == [0, 1, 0]


def test_choices_are_encoded_as_one_pair_each(tokenizer):
    rows = rows_of("choice")
    encoded = encode_rows(rows, tokenizer, max_length=64)
    batch = PaddingCollator.for_tokenizer(tokenizer, is_choice=True)([encoded[i] for i in range(3)])
    first = [text for text in TEXTS for _ in range(2)]
    second = [choice for choices in rows.choices() for choice in choices]
    expected = tokenizer(first, second, padding=True, return_tensors="pt")
    assert batch["input_ids"].shape == (3, 2, expected["input_ids"].shape[1])
    assert torch.equal(batch["input_ids"].flatten(0, 1), expected["input_ids"])


def test_truncation_is_reported_exactly(tokenizer):
    rows = rows_of("single")
    lengths = [len(tokenizer(text)["input_ids"]) for text in TEXTS]
    encoded = encode_rows(rows, tokenizer, max_length=lengths[0])
    # The first text just fits, the second is shorter, the third is cut.
    assert encoded.truncated.tolist() == [False, False, True]
    assert encoded.lengths.tolist() == [lengths[0], lengths[1], lengths[0]]


def test_view_by_length_returns_to_the_original_order(tokenizer):
    encoded = encode_rows(rows_of("single"), tokenizer, max_length=64)
    view, order = encoded.by_length()
    assert np.all(np.diff(encoded.lengths[order]) <= 0)
    for place, position in enumerate(order):
        assert view[place]["labels"] == encoded[int(position)]["labels"]
        assert np.array_equal(view[place]["input_ids"][0], encoded[int(position)]["input_ids"][0])


def test_rows_without_labels_give_batches_without_labels(tokenizer):
    encoded = encode_rows(rows_of("single").without_labels(), tokenizer, max_length=64)
    batch = PaddingCollator.for_tokenizer(tokenizer, is_choice=False)([encoded[0]])
    assert "labels" not in batch


def test_a_tokenizer_that_fails_at_a_text_is_named(tokenizer, tmp_path):
    """Edited: a word piece has the number of no word. The native code panics, which is no Exception."""
    tokenizer.save_pretrained(tmp_path)
    file = tmp_path / "tokenizer.json"
    content = json.loads(file.read_text())
    content["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "[GONE]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
        "special_tokens": {},
    }
    file.write_text(json.dumps(content))
    edited = AutoTokenizer.from_pretrained(tmp_path)
    with pytest.raises(UserError, match=r"the tokenizer cannot take these texts .*; restore tokenizer\.json"):
        encode_rows(rows_of("single"), edited, max_length=64)
