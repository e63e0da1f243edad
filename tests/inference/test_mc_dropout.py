"""Passes with dropout on: what is drawn, what is kept, and that the cached form is the same thing."""

import json

import numpy as np
import pytest
import torch
from scipy.special import softmax

from calmix.data.images.pixels import PixelCollator, encode_images
from calmix.data.images.stored import as_pnm
from calmix.data.rows import Rows
from calmix.inference.mc_dropout import DropoutHead, DropoutPasses, NoDropout, _logits, dropout_passes
from calmix.models.inputs import TextInputs
from calmix.models.loading import load_classifier, load_tokenizer
from calmix.models.networks.cifar_resnet import CifarResNetConfig, CifarResNetForImageClassification
from calmix.models.text_cnn_building import build_text_cnn
from pictures import digits, write_npz
from tiny import read_json, sentences


def text_rows(count=11):
    texts, names = sentences(count, seed=6)
    labels = [int(name == "positive") for name in names]
    return Rows.from_columns([str(i) for i in range(count)], texts, labels=labels, label_names=("a", "b"))


def case(kind, encoders, dropout=0.4):
    """(network, encoded rows, collator)"""
    torch.manual_seed(0)
    if kind == "image":
        images, labels = digits(11, classes=3)
        rows = Rows.from_images(
            [str(i) for i in range(11)], [as_pnm(i) for i in images], labels=labels, label_names="abc"
        )
        model = CifarResNetForImageClassification(
            CifarResNetConfig(
                embedding_size=4, hidden_sizes=[4, 8], depths=[1, 1], num_labels=3, dropout=dropout
            )
        )
        return model, encode_images(rows, (8, 8)), PixelCollator((0.3,) * 3, (0.4,) * 3)
    rows = text_rows()
    if kind == "text-cnn":
        options = {"vectors": "random", "dropout": dropout}
        model, inputs = build_text_cnn(rows, rows.label_names, seed=0, max_length=30, options=options)
    else:
        directory = str(encoders(kind, dropout=dropout))
        inputs = TextInputs(load_tokenizer(directory), 30)
        model = load_classifier(directory, task="single", label_names=rows.label_names, seed=0)
    return model, inputs.encode(rows), inputs.collator()


def batches(encoded, collator, size):
    view, _ = encoded.by_length()
    for start in range(0, len(view), size):
        batch = collator([view[i] for i in range(start, min(start + size, len(view)))])
        batch.pop("labels")
        yield batch


@pytest.mark.parametrize("kind", ["image", "text-cnn"])
def test_cached_features_give_the_very_passes_of_the_whole_network(kind, encoders):
    model, encoded, collator = case(kind, encoders)
    found = dropout_passes(model, encoded, collator, passes=3, seed=7, batch_size=4)
    assert found.encoder_passes == 1
    _, order = encoded.by_length()
    with torch.no_grad():
        for number in range(3):
            whole = [_logits(model, b, (7, number, i)) for i, b in enumerate(batches(encoded, collator, 4))]
            assert np.allclose(found.logits[number][order], np.concatenate(whole), atol=1e-6)
    assert not np.allclose(found.logits[0], found.logits[1])


@pytest.mark.parametrize("kind", ["bert", "roberta", "gpt2"])
def test_dropout_in_the_encoder_is_drawn_in_every_pass(kind, encoders):
    model, encoded, collator = case(kind, encoders)
    found = dropout_passes(model, encoded, collator, passes=4, batch_size=5)
    assert found.encoder_passes == 4
    spread = found.logits.std(axis=0)
    assert (spread > 0).all()


def test_the_network_itself_runs_once_where_it_may(encoders):
    model, encoded, collator = case("text-cnn", encoders)
    calls = []
    model.register_forward_pre_hook(lambda *_: calls.append(1))
    dropout_passes(model, encoded, collator, passes=50, batch_size=11)
    # One look for the head, two to see that nothing else drops out, one to check the last layer, one to keep.
    assert len(calls) == 5


def test_batch_normalisation_keeps_what_training_found_and_the_network_ends_in_evaluation_mode(encoders):
    model, encoded, collator = case("image", encoders)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    dropout_passes(model, encoded, collator, passes=3, batch_size=4)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert not any(module.training for module in model.modules())


@pytest.mark.simulates
def test_many_passes_average_to_the_expected_logits(encoders):
    """The last layer is linear: the mean over masks of its logits is that without dropout."""
    model, encoded, collator = case("text-cnn", encoders)
    found = dropout_passes(model, encoded, collator, passes=4000, batch_size=16)
    _, order = encoded.by_length()
    with torch.no_grad():
        plain = np.concatenate([model.eval()(**b).logits.numpy() for b in batches(encoded, collator, 16)])
    error = found.logits.std(axis=0)[order] / np.sqrt(4000)
    assert (np.abs(found.logits.mean(axis=0)[order] - plain) < 5 * error + 1e-6).all()


def test_the_mean_is_over_probabilities_at_a_temperature():
    logits = np.random.default_rng(0).normal(size=(3, 5, 4)).astype(np.float32)
    found = DropoutPasses(logits, 3)
    expected = np.mean([softmax(one.astype(float) / 2.5, axis=1) for one in logits], axis=0)
    assert np.allclose(found.probabilities(2.5), expected, atol=1e-12)


def test_the_same_seed_draws_the_same_and_leaves_the_global_generator_alone(encoders):
    model, encoded, collator = case("image", encoders)
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    first, again, other = (
        dropout_passes(model, encoded, collator, passes=2, seed=seed).logits for seed in (1, 1, 2)
    )
    assert torch.equal(torch.rand(1), expected)
    assert np.array_equal(first, again)
    assert not np.allclose(first, other)


@pytest.mark.parametrize("kind", ["image", "bert", "gpt2"])
def test_a_network_without_dropout_is_refused(kind, encoders):
    model, encoded, collator = case(kind, encoders, dropout=0.0)
    with pytest.raises(NoDropout, match="has no dropout: all passes would be the same"):
        dropout_passes(model, encoded, collator, passes=2)


def test_multiple_choice_heads_are_cached_too(encoders):
    from calmix.data.batches.encoding import PaddingCollator, encode_rows

    texts, _ = sentences(6, seed=1)
    rows = Rows.from_columns(
        [str(i) for i in range(6)], texts, choices=[["a film", "the plot", "it"]] * 6, labels=[0, 1, 2] * 2,
        label_names="012",
    )  # fmt: skip
    directory = str(encoders("bert", dropout=0.0))
    tokenizer = load_tokenizer(directory)
    model = load_classifier(directory, task="choice", label_names=rows.label_names, seed=0)
    model.dropout.p = 0.5  # the only one: before the last layer
    encoded = encode_rows(rows, tokenizer, max_length=30)
    collator = PaddingCollator.for_tokenizer(tokenizer, is_choice=True)
    found = dropout_passes(model, encoded, collator, passes=2, seed=3, batch_size=6)
    assert found.encoder_passes == 1
    (batch,) = batches(encoded, collator, 6)
    _, order = encoded.by_length()
    with torch.no_grad():
        assert np.allclose(found.logits[1][order], _logits(model, batch, (3, 1, 0)), atol=1e-6)
    assert DropoutHead.find(model.eval(), batch) is not None


@pytest.mark.trains
def test_runs_and_checkpoints_through_the_command(calmix, tmp_path):
    for name, rows, skip in (("train", 60, 0), ("test", 30, 60)):
        write_npz(tmp_path / f"{name}.npz", rows, skip=skip, classes=3)
    run = tmp_path / "run"
    code, _, err = calmix(
        "train", "--train", tmp_path / "train.npz", "--test", tmp_path / "test.npz", "--model",
        "resnet-small", "--model-option", "dropout=0.3", "--epochs", 2, "--batch-size", 20, "--output", run,
    )  # fmt: skip
    assert code == 0, err
    code, out, err = calmix("evaluate", run, "--mc-dropout", 10, "--no-intervals", "--json")
    assert code == 0, err
    files = {one["file"]: one for one in json.loads(out)["files"]}
    name = f"{run}:test, MC dropout"
    assert set(files) >= {f"{run}:test", f"{run}:validation", name, f"{name} (uncalibrated)"}
    assert (files[name]["mc_dropout"], files[name]["encoder_passes"]) == (10, 1)
    code, out, err = calmix(
        "evaluate", "--model", run, "--data", tmp_path / "test.npz", "--mc-dropout", 10, "--no-intervals",
        "--json",
    )  # fmt: skip
    assert code == 0, err
    plain, dropped = json.loads(out)["files"]
    assert dropped["nll"] == pytest.approx(files[name]["nll"], abs=1e-9)
    assert plain["nll"] == pytest.approx(files[f"{run}:test"]["nll"], abs=1e-4)
    temperature = read_json(run / "metrics.json")["temperature"]
    if abs(temperature - 1) > 0.01:
        assert files[name]["nll"] != files[f"{name} (uncalibrated)"]["nll"]
    (tmp_path / "test.npz").unlink()
    write_npz(tmp_path / "test.npz", 29, skip=60, classes=3)
    code, _, err = calmix("evaluate", run, "--mc-dropout", 10)
    assert code == 2
    assert "the rows of 'test' have changed since the run" in err
