"""Methods on the text CNN: one step against a reference that pads and mixes word vectors by hand."""

import json

import numpy as np
import pytest
import torch

from calmix.data.rows import Rows
from calmix.mixing.pairing import random_involution
from calmix.models.text_cnn_building import build_text_cnn
from calmix.runtime.randomness import stream
from calmix.training.arguments import MixupArguments
from calmix.training.trainer import MixupTrainer
from tiny import read_json, sentences

ROWS, SEED, RATE = 6, 4, 0.1


def data():
    texts, names = sentences(ROWS, seed=8)
    return Rows.from_columns(
        [str(i) for i in range(ROWS)], texts, labels=[int(n == "positive") for n in names],
        label_names=("negative", "positive"),
    )  # fmt: skip


def build(**options):
    settings = {"vectors": "random", "dropout": 0.0, "maps": 5, "row_norm_cap": None, **options}
    rows = data()
    return build_text_cnn(rows, rows.label_names, seed=1, max_length=50, options=settings)


def features(model, words):
    """The head's input for one text of word vectors."""
    seen = []
    handle = model.classifier.register_forward_pre_hook(lambda module, args: seen.append(args[0][0]))
    model(inputs_embeds=words[None])
    handle.remove()
    return seen[0]


def reference_loss(model, encoded, order, name, options):
    partner = random_involution(ROWS, stream(SEED, "pairs", 0, 0))
    ratio = float(np.float32(stream(SEED, "ratio", 0).beta(options["alpha"], options["alpha"])))
    words = [model.embeddings(torch.tensor(encoded[int(row)]["input_ids"][0]).long()) for row in order]
    labels = torch.tensor([int(encoded.labels[row]) for row in order])
    targets = torch.nn.functional.one_hot(labels, 2).float()
    logits = []
    for row in range(ROWS):
        other = int(partner[row])
        if name == "cls-mixup":
            mixed = ratio * features(model, words[row]) + (1 - ratio) * features(model, words[other])
            logits.append(model.classifier(mixed))
            continue
        length = max(len(words[row]), len(words[other]))
        pair = [
            torch.cat([words[i], torch.zeros(length - len(words[i]), words[i].shape[1])])
            for i in (row, other)
        ]
        logits.append(model.classifier(features(model, ratio * pair[0] + (1 - ratio) * pair[1])))
    if name == "features-only":
        mixed_targets = targets if ratio >= 0.5 else targets[partner]
    else:
        mixed_targets = ratio * targets + (1 - ratio) * targets[partner]
    return -(mixed_targets * torch.log_softmax(torch.stack(logits), dim=1)).sum(dim=1).mean()


def train_once(model, inputs, encoded, tmp_path, name, options):
    trainer = MixupTrainer(
        model=model,
        args=MixupArguments(
            output_dir=str(tmp_path), method=name, method_options=options, seed=SEED, max_steps=1,
            per_device_train_batch_size=ROWS, optimizer="sgd:momentum=0:nesterov=false", schedule="constant",
            learning_rate=RATE, max_grad_norm=0, use_cpu=True, save_strategy="no", disable_tqdm=True,
            logging_strategy="no", dataloader_pin_memory=False, length_buckets=False,
        ),
        train_dataset=encoded,
        data_collator=inputs.collator(),
        processing_class=inputs.processing_class,
    )  # fmt: skip
    trainer.train()
    return trainer


@pytest.mark.parametrize("name", ["input-mixup", "features-only", "cls-mixup", "manifold-mixup"])
def test_one_step_is_that_of_the_formula(name, tmp_path):
    options = {"alpha": 0.8} | ({"layers": [0]} if name == "manifold-mixup" else {})
    model, inputs = build()
    reference = build()[0].train()
    encoded = inputs.encode(data())
    trainer = train_once(model, inputs, encoded, tmp_path, name, options)
    order = stream(SEED, "order", 0).permutation(ROWS)
    loss = reference_loss(reference, encoded, order, name, options)
    loss.backward()
    for parameter, moved in zip(reference.parameters(), model.parameters(), strict=True):
        assert torch.allclose(parameter - RATE * parameter.grad, moved, atol=1e-6)
    assert trainer.journal.losses()[0] == pytest.approx(loss.item(), abs=1e-6)
    assert not model.embeddings.weight[0].any(), "padding stays zero"


def test_the_cap_holds_after_a_step_that_goes_beyond_it(tmp_path):
    model, inputs = build(row_norm_cap=0.2)
    train_once(model, inputs, inputs.encode(data()), tmp_path, "plain", {})
    assert torch.allclose(model.classifier.weight.norm(dim=1), torch.tensor([0.2, 0.2]), atol=1e-6)


def test_the_text_cnn_through_the_verbs(calmix, reviews, tmp_path):
    code, out, err = calmix(
        "train", "--train", reviews / "train.csv", "--validation", reviews / "validation.csv", "--test",
        reviews / "test.csv", "--model", "text-cnn", "--method", "input-mixup", "--epochs", 8,
        "--batch-size", 16, "--dynamics", "epoch_end", "--output", tmp_path / "run", "--json",
    )  # fmt: skip
    assert code == 0, err
    result = json.loads(out)
    assert result["splits"]["test"]["calibrated"]["accuracy"] > 0.6
    config = read_json(tmp_path / "run" / "model" / "config.json")
    assert (config["embedding_size"], config["maps"], config["widths"]) == (50, 100, [3, 4, 5])
    code, out, err = calmix(
        "evaluate", "--model", tmp_path / "run", "--data", reviews / "test.csv", "--no-intervals", "--json"
    )
    assert code == 0, err
    assert json.loads(out)["files"][0]["nll"] == pytest.approx(
        result["splits"]["test"]["calibrated"]["nll"], abs=1e-4
    )
    code, _, err = calmix(
        "predict", tmp_path / "run", "--input", reviews / "other.csv", "--output", tmp_path / "answers.csv"
    )
    assert code == 0, err


def test_pairs_of_texts(calmix, tmp_path):
    texts, labels = sentences(60, seed=1)
    records = [
        {"text": t, "text_pair": u, "label": y} for t, u, y in zip(texts, texts[::-1], labels, strict=True)
    ]
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, records)))
    code, out, err = calmix(
        "train", "--train", tmp_path / "pairs.jsonl", "--model", "text-cnn", "--model-option",
        "vectors=random", "--epochs", 1, "--output", tmp_path / "run", "--json",
    )  # fmt: skip
    assert code == 0, err
    assert json.loads(out)["task"] == "pair"
