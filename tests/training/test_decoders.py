"""Decoders as classifiers: the answer is read at the last token, wherever padding stands."""

import json

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from tiny import build_encoder

DECODERS = ("gpt2", "qwen2", "llama")


@pytest.fixture
def train(calmix, reviews, tmp_path):
    def run(model, *options, name="run"):
        output = tmp_path / name
        code, _, err = calmix(
            "train", "--train", reviews / "train.csv", "--validation", reviews / "validation.csv", "--test",
            reviews / "test.csv", "--model", model, "--epochs", "2", "--batch-size", "16", "--learning-rate",
            "3e-3", "--device", "cpu", "--threads", "1", "--output", output, *options,
        )  # fmt: skip
        return code, err, output

    return run


def alone_and_together(directory, texts):
    """Probabilities of each text by itself, and of all in one padded batch."""
    tokenizer = AutoTokenizer.from_pretrained(directory)
    model = AutoModelForSequenceClassification.from_pretrained(directory).eval()
    with torch.no_grad():
        alone = [model(**tokenizer(text, return_tensors="pt")).logits.softmax(-1)[0] for text in texts]
        together = model(**tokenizer(texts, padding=True, return_tensors="pt")).logits.softmax(-1)
    return torch.stack(alone).numpy(), together.numpy()


@pytest.mark.parametrize("family", DECODERS)
@pytest.mark.parametrize("method", ["cls-mixup", "manifold-mixup"])
def test_a_trained_decoder_is_a_standard_checkpoint_that_padding_does_not_move(
    train, calmix, encoders, tmp_path, family, method
):
    code, err, run = train(encoders(family), "--method", method)
    assert code == 0, err
    texts = ["a warm film", "the plot is quite dull and very long and slow and boring", "joy"]
    alone, together = alone_and_together(run / "model", texts)
    np.testing.assert_allclose(together, alone, atol=1e-5)
    (tmp_path / "new.csv").write_text("text\n" + "\n".join(texts) + "\n")
    code, out, err = calmix(
        "predict", run, "--input", tmp_path / "new.csv", "--output", tmp_path / "a.csv", "--json"
    )
    assert code == 0, err
    written = (tmp_path / "a.csv").read_text().splitlines()
    confidence = [float(line.split(",")[-1]) for line in written[1:]]
    np.testing.assert_allclose(confidence, alone.max(axis=1), atol=1e-5)
    code, out, err = calmix("calibrate", run, "--fit-on", "validation", "--output", tmp_path / "c", "--json")
    assert code == 0, err
    assert json.loads(out)["folded"]


def test_left_padding_of_a_tokenizer_is_turned_round(train, tmp_path):
    """Absolute positions would be those of the padding."""
    place = build_encoder(tmp_path / "decoder", "gpt2")
    tokenizer = AutoTokenizer.from_pretrained(place)
    tokenizer.padding_side = "left"
    tokenizer.save_pretrained(place)
    code, err, run = train(place)
    assert code == 0, err
    assert AutoTokenizer.from_pretrained(run / "model").padding_side == "right"


def test_a_filler_that_is_the_padding_token_is_refused(train, tmp_path):
    """As of GPT-2, whose one special token is both: the answer would be read before the filler."""
    place = build_encoder(tmp_path / "decoder", "gpt2")
    tokenizer = AutoTokenizer.from_pretrained(place)
    tokenizer.sep_token, tokenizer.cls_token, tokenizer.eos_token = None, None, "[PAD]"
    tokenizer.save_pretrained(place)
    code, err, run = train(place, "--method", "input-mixup")
    assert code == 2
    assert "padding=none" in err
    assert not run.exists()
    code, err, _ = train(place, "--method", "input-mixup", "--method-option", "padding=none")
    assert code == 0, err


def test_low_rank_updates_of_a_decoder_are_merged(train, encoders):
    pytest.importorskip("peft")
    code, err, run = train(
        encoders("qwen2"), "--lora", "rank=2:alpha=4:targets=q_proj,v_proj", "--method", "cls-mixup"
    )
    assert code == 0, err
    alone, together = alone_and_together(run / "model", ["a warm film", "dull and very slow and long"])
    np.testing.assert_allclose(together, alone, atol=1e-5)
