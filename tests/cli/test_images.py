"""Images through the verbs: every network trains, saves, loads, evaluates, predicts and calibrates."""

import csv
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from safetensors.numpy import load_file
from transformers import AutoImageProcessor, AutoModelForImageClassification

from calmix import register_networks
from calmix.calibration.files.prediction_files import read_predictions
from calmix.data.images.stored import UnreadableImage, decode
from calmix.data.reading import read_rows
from calmix.models import built_in
from calmix.models.inputs import TextInputs
from calmix.models.loading import load_inputs, load_tokenizer, load_trained
from calmix.models.networks.vgg import VggConfig
from calmix.runtime.progress import Progress
from calmix.training.checkpoints.resumable import newest_complete
from calmix.user_error import UserError
from pictures import write_folders, write_npz
from tiny import read_json


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """train.npz (60 rows), validation.npz (30), test.npz (30): digits 0 to 2, 8x8."""
    folder = tmp_path_factory.mktemp("digits")
    for name, rows, skip in (("train", 60, 0), ("validation", 30, 60), ("test", 30, 90)):
        write_npz(folder / f"{name}.npz", rows, skip=skip, classes=3)
    return folder


def train(calmix, data, output, model, *more):
    code, out, err = calmix(
        "train", "--train", data / "train.npz", "--validation", data / "validation.npz",
        "--test", data / "test.npz", "--model", model, "--output", output, "--json", *more,
    )  # fmt: skip
    assert code == 0, err
    return json.loads(out)


def assert_loads_calibrated(run, data):
    """Plain transformers, fed with plain images, gives the calibrated probabilities."""
    register_networks()
    model = AutoModelForImageClassification.from_pretrained(run / "model").eval()
    processor = AutoImageProcessor.from_pretrained(run / "model")
    images = [Image.fromarray(decode(image)) for image in read_rows(data / "test.npz").images()]
    with torch.no_grad():
        logits = model(**processor(images, return_tensors="pt")).logits
    stored = read_predictions(run / "predictions" / "test.parquet")
    temperature = read_json(run / "metrics.json")["temperature"]
    expected = stored.with_temperature(temperature).probabilities()
    assert np.allclose(logits.softmax(-1).numpy(), expected, atol=2e-4)


@pytest.mark.parametrize("model", ["vgg16", "resnet18", "resnet34", "resnet50", "resnet-small"])
def test_every_built_in_network(calmix, data, tmp_path, model):
    result = train(calmix, data, tmp_path / "run", model, "--epochs", 1, "--batch-size", 30,
                   "--learning-rate", 0.01, "--method", "input-mixup", "--augment", "crop")  # fmt: skip
    assert result["task"] == "image"
    assert result["pixels"]["gray"]
    assert set(result["history"][0]) >= {"validation_ece", "validation_nll"}
    assert_loads_calibrated(tmp_path / "run", data)
    card = (tmp_path / "run" / "model" / "README.md").read_text()
    assert f"trained from random weights as {model} with" in card
    assert "AutoModelForImageClassification.from_pretrained(directory, trust_remote_code=True)" in card
    code, out, err = calmix(
        "evaluate", "--model", tmp_path / "run", "--data", data / "test.npz", "--no-intervals", "--json"
    )
    assert code == 0, err
    assert json.loads(out)["files"][0]["nll"] == pytest.approx(
        result["splits"]["test"]["calibrated"]["nll"], abs=1e-4
    )


def test_the_resnet_of_transformers_that_larger_images_get(calmix, data, tmp_path, monkeypatch):
    monkeypatch.setitem(built_in.LAYERS, "resnet18", (1, 1, 1, 1))
    train(calmix, data, tmp_path / "run", "resnet18", "--epochs", 1, "--batch-size", 30, "--method",
          "manifold-mixup", "--model-option", "image_size=64", "--model-option", "dropout=0.3",
          "--learning-rate", 0.01)  # fmt: skip
    assert read_json(tmp_path / "run" / "model" / "config.json")["model_type"] == "resnet"
    assert_loads_calibrated(tmp_path / "run", data)
    code, out, err = calmix("evaluate", tmp_path / "run", "--mc-dropout", 2, "--no-intervals", "--json")
    assert code == 0, err
    dropped = {one["file"].rpartition(":")[2]: one for one in json.loads(out)["files"] if "mc_dropout" in one}
    assert dropped["test, MC dropout"]["encoder_passes"] == 1
    in_sample = [name for name, one in dropped.items() if one.get("in_sample")]
    assert in_sample == ["validation, MC dropout"], "the temperature was fitted there"


@pytest.mark.parametrize("family", ["vit", "convnext", "resnet", "vgg"])
def test_checkpoints_of_transformers(calmix, data, tmp_path, family):
    torch.manual_seed(0)
    shape = {"image_size": 16, "num_labels": 7}
    config = {
        "vit": lambda: transformers.ViTConfig(
            hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, patch_size=8,
            **shape,
        ),
        "convnext": lambda: transformers.ConvNextConfig(
            hidden_sizes=[4, 4], depths=[1, 1], num_stages=2, **shape
        ),
        "resnet": lambda: transformers.ResNetConfig(
            embedding_size=4, hidden_sizes=[4, 8], depths=[1, 1], layer_type="basic", num_labels=7
        ),
        "vgg": lambda: VggConfig(  # the published form, small
            hidden_sizes=[4, 8], depths=[1, 1], pooled_size=7, classifier_sizes=[6, 5], dropout=0.1, **shape
        ),
    }[family]()  # fmt: skip
    register_networks()
    AutoModelForImageClassification.from_config(config).save_pretrained(tmp_path / "base")
    if family in ("vit", "vgg"):
        from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

        processor = ViTImageProcessorPil(size={"height": 16, "width": 16})
    else:  # resizes the short edge to 20 and cuts 16 from the middle: not just a resize
        from transformers.models.convnext.image_processing_pil_convnext import ConvNextImageProcessorPil

        processor = ConvNextImageProcessorPil(size={"shortest_edge": 16}, crop_pct=0.8)
    processor.save_pretrained(tmp_path / "base")
    result = train(calmix, data, tmp_path / "run", tmp_path / "base", "--epochs", 1, "--batch-size", 16,
                   "--method", "manifold-mixup", "--augment", "crop,flip,rotation",
                   "--learning-rate", "1e-3")  # fmt: skip
    assert result["splits"]["test"]["calibrated"]["n"] == 30
    assert_loads_calibrated(tmp_path / "run", data)


def test_a_network_learns_digits_and_answers_for_folders(calmix, tmp_path):
    write_folders(tmp_path / "digits" / "train", 150, classes=2)
    write_folders(tmp_path / "digits" / "test", 60, skip=150, classes=2)
    code, out, err = calmix(
        "train", "--train", tmp_path / "digits", "--model", "resnet-small", "--epochs", 4, "--batch-size", 16,
        "--output", tmp_path / "run", "--json",
    )  # fmt: skip
    assert code == 0, err
    result = json.loads(out)
    assert result["splits"]["test"]["calibrated"]["accuracy"] > 0.9
    assert read_json(tmp_path / "run" / "metrics.json")["sizes"] == {
        "train": 135,
        "validation": 15,
        "test": 60,
    }
    answers = tmp_path / "answers.csv"
    flat = tmp_path / "digits" / "test" / "1"
    code, _, err = calmix("predict", tmp_path / "run", "--input", flat, "--output", answers)
    assert code == 0, err
    labels = [row["predicted_label"] for row in csv.DictReader(answers.open())]
    assert labels.count("1") > 0.8 * len(labels)
    code, out, err = calmix(
        "calibrate", tmp_path / "run" / "model", "--fit-on", tmp_path / "digits", "--output",
        tmp_path / "again", "--json",
    )  # fmt: skip
    assert code == 2, "a directory has several splits"
    code, out, err = calmix(
        "calibrate", tmp_path / "run", "--fit-on", tmp_path / "digits" / "test", "--output",
        tmp_path / "fitted", "--json",
    )  # fmt: skip
    assert code == 0, err
    assert json.loads(out)["n"] == 60, "a folder of images is data like any other"
    code, out, err = calmix(
        "calibrate", tmp_path / "run", "--fit-on", "test", "--method", "vector", "--output",
        tmp_path / "again", "--json",
    )  # fmt: skip
    assert code == 0, err
    AutoImageProcessor.from_pretrained(tmp_path / "again" / "model")
    AutoModelForImageClassification.from_pretrained(tmp_path / "again" / "model")


def test_settings_of_the_papers_unless_something_else_is_said(calmix, data, tmp_path):
    train(calmix, data, tmp_path / "run", "resnet-small", "--epochs", 1, "--batch-size", 30)
    config = read_json_or_yaml(tmp_path / "run" / "config.yaml")
    assert (config["learning_rate"], config["batch_size"], config["epochs"]) == (0.1, 30, 1)
    assert config["optimizer"] == "sgd:momentum=0.9:nesterov=true:weight_decay=5e-4"
    assert config["schedule"] == "step"
    assert config["trainer"] == {"max_grad_norm": 0.0}
    code, _, err = calmix(
        "train", "--config", tmp_path / "run" / "config.yaml", "--output", tmp_path / "same"
    )
    assert code == 0, err
    first, second = (load_file(tmp_path / run / "model" / "model.safetensors") for run in ("run", "same"))
    assert all(np.array_equal(first[name], second[name]) for name in first)


def read_json_or_yaml(path):
    import yaml

    return yaml.safe_load(path.read_text())


def test_killed_and_resumed_with_augmentation_and_momentum(data, tmp_path):
    def command(output):
        return [str(part) for part in (
            sys.executable, "-m", "calmix", "train", "--train", data / "train.npz", "--validation",
            data / "validation.npz", "--test", data / "test.npz", "--model", "resnet-small", "--method",
            "input-mixup", "--augment", "crop,flip,rotation", "--epochs", 4, "--batch-size", 12,
            "--threads", 1, "--schedule", "step:epochs=[2]:factor=0.1", "--model-option", "dropout=0.2",
            "--checkpoint-steps", 2, "--output", output,
        )]  # fmt: skip

    subprocess.run(command(tmp_path / "whole"), check=True, capture_output=True)
    process = subprocess.Popen(
        command(tmp_path / "cut"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while True:
        newest = newest_complete(tmp_path / "cut" / "checkpoints")
        if newest is not None and int(newest.name.rpartition("-")[2]) > 5:
            break
        assert process.poll() is None
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    subprocess.run([*command(tmp_path / "cut"), "--resume"], check=True, capture_output=True)
    first, second = (load_file(tmp_path / run / "model" / "model.safetensors") for run in ("whole", "cut"))
    assert all(np.array_equal(first[name], second[name]) for name in first)


def test_a_data_map_of_images(calmix, data, tmp_path):
    train(calmix, data, tmp_path / "run", "resnet-small", "--epochs", 2, "--batch-size", 30)
    code, out, err = calmix(
        "map", tmp_path / "run", "--output", tmp_path / "map", "--retrain", "--runs", 1, "--json"
    )
    assert code == 0, err
    assert json.loads(out)["rows"] == 60


def test_a_comparison_on_images(calmix, data, tmp_path):
    code, out, err = calmix(
        "compare", "--methods", "plain,input-mixup", "--vary", "alpha=0.2,1", "--seeds", 0, "--train",
        data / "train.npz", "--validation", data / "validation.npz", "--test", data / "test.npz", "--model",
        "resnet-small", "--epochs", 1, "--batch-size", 30, "--model-option", "dropout=0.1", "--output",
        tmp_path / "comparison", "--json",
    )  # fmt: skip
    assert code == 0, err
    assert [arm["name"] for arm in json.loads(out)["arms"]] == [
        "plain", "input-mixup alpha=0.2", "input-mixup alpha=1"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--model", "default"], "the model 'default' reads texts, and the rows are images; choose"),
        (["--model", "resnet-small", "--augment", "mirror"], "--augment: no such step 'mirror'"),
        (["--model", "resnet-small", "--model-option", "depth=3"], "'resnet-small' has no option 'depth'"),
        (["--model", "resnet-small", "--model-option", "dropout=2"], "give a number from 0 to below 1"),
        (["--model", "resnet-small", "--optimizer", "lion"], "no such optimiser 'lion'"),
        (["--model", "resnet-small", "--optimizer", "adamw"],
         "--optimizer adamw: resnet-small has a learning rate for sgd only; give --learning-rate too"),
        (["--model", "resnet-small", "--freeze-embeddings"], "--freeze-embeddings is for words"),
        (["--model", "nowhere"], "no model of this name"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line_and_leaves_nothing(calmix, data, tmp_path, more, said):
    code, _, err = calmix("train", "--train", data / "train.npz", "--output", tmp_path / "run", *more)
    assert code == 2
    assert said in err
    assert len(err.strip().splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_images_for_a_text_checkpoint_and_texts_for_an_image_run(calmix, data, encoders, reviews, tmp_path):
    with pytest.raises(UserError, match="the model reads texts, and these rows are images"):
        TextInputs(load_tokenizer(str(encoders("bert"))), 10).encode(read_rows(data / "test.npz"))
    train(calmix, data, tmp_path / "run", "resnet-small", "--epochs", 1, "--batch-size", 60)
    inputs = load_inputs(tmp_path / "run" / "model", load_trained(tmp_path / "run" / "model"))
    with pytest.raises(UserError, match="the model reads images, and these rows are texts"):
        inputs.encode(read_rows(reviews / "test.csv"))
    code, _, err = calmix(
        "predict", tmp_path / "run", "--input", reviews / "test.csv", "--output", tmp_path / "a.csv"
    )
    assert (code, "no column 'image'" in err) == (2, True)
    code, _, err = calmix("evaluate", tmp_path / "run" / "predictions" / "test.parquet", "--mc-dropout", 3)
    assert (code, "--mc-dropout needs a network" in err) == (2, True)


def test_images_of_another_size_are_brought_to_that_of_training(calmix, data, tmp_path):
    train(calmix, data, tmp_path / "run", "resnet-small", "--epochs", 1, "--batch-size", 30)
    write_npz(tmp_path / "large.npz", 30, skip=90, classes=3, side=24)
    results = []
    for file in (data / "test.npz", tmp_path / "large.npz"):
        code, out, err = calmix("evaluate", "--model", tmp_path / "run", "--data", file, "--no-intervals",
                                "--json")  # fmt: skip
        assert code == 0, err
        results.append(json.loads(out)["files"][0]["nll"])
    # Every pixel three times as wide, and shrunk again: the same image but for the filter.
    assert results[0] == pytest.approx(results[1], abs=0.05)
    # The embedded data stands wherever a file may.
    code, _, err = calmix("evaluate", "--model", tmp_path / "run", "--data", "embedded:digits")
    assert code == 2
    assert "embedded:digits, row 4, column 'label'" in err, "it was read: the run does not know a 3"
    code, out, err = calmix("predict", tmp_path / "run", "--input", "embedded:digits", "--output",
                            tmp_path / "answers.csv", "--json")  # fmt: skip
    assert code == 0, err
    assert json.loads(out)["rows"] == 1797


def test_texts_for_an_image_network(calmix, reviews, tmp_path):
    code, _, err = calmix(
        "train", "--train", reviews / "train.csv", "--model", "vgg16", "--output", tmp_path / "r"
    )
    assert code == 2
    assert "vgg16 reads images, and the rows are texts" in err


def test_an_image_that_goes_away_in_mid_training_costs_no_finished_work(calmix, tmp_path, monkeypatch):
    write_folders(tmp_path / "digits", 60, classes=2)
    call = ["train", "--train", tmp_path / "digits", "--model", "resnet-small", "--epochs", 2, "--batch-size",
            16, "--checkpoint-steps", 1, "--threads", 1, "--output"]  # fmt: skip
    code, _, err = calmix(*call, tmp_path / "whole")
    assert code == 0, err

    def stop(self, args, state, control, **kwargs):
        if state.global_step == 5:
            raise UnreadableImage("the image cannot be read (gone)", file="digits/0/7.png")

    with monkeypatch.context() as patched:
        patched.setattr(Progress, "on_step_end", stop)
        code, _, err = calmix(*call, tmp_path / "run")
    assert code == 2
    assert err.strip().splitlines()[-1].endswith("digits/0/7.png: the image cannot be read (gone)")
    assert newest_complete(tmp_path / "run" / "checkpoints") is not None
    code, _, err = calmix("train", "--resume", "--output", tmp_path / "run")
    assert code == 0, err
    weights = [load_file(tmp_path / name / "model" / "model.safetensors") for name in ("whole", "run")]
    assert all(np.array_equal(weights[0][name], weights[1][name]) for name in weights[0])
