"""The image networks are the published ones, save and load, and are cut where their stages meet."""

import subprocess
import sys

import pytest
import torch
from torch.nn import functional
from transformers import AutoModelForImageClassification

from calmix import register_networks
from calmix.models import built_in
from calmix.models.built_in import build_image_network, image_config, image_size_for
from calmix.models.folding import fold_temperature, folded_temperature
from calmix.models.hf_compat import last_linear
from calmix.models.loading import load_trained
from calmix.models.mix_points import MixPoints, find_head
from calmix.models.networks.cifar_resnet import CifarResNetConfig, CifarResNetForImageClassification
from calmix.models.networks.vgg import VggConfig, VggForImageClassification
from calmix.user_error import UserError

SMALL = {
    "cifar_resnet": lambda **more: CifarResNetForImageClassification(
        CifarResNetConfig(embedding_size=4, hidden_sizes=[4, 8], depths=[1, 2], num_labels=3, **more)
    ),
    "bottleneck": lambda **more: CifarResNetForImageClassification(
        CifarResNetConfig(
            embedding_size=4,
            hidden_sizes=[8, 16],
            depths=[1, 1],
            layer_type="bottleneck",
            num_labels=3,
            **more,
        )
    ),
    "vgg": lambda **more: VggForImageClassification(
        VggConfig(hidden_sizes=[4, 8], depths=[1, 2], num_labels=3, **more)
    ),
    "vgg as published": lambda **more: VggForImageClassification(
        VggConfig(
            hidden_sizes=[4, 8], depths=[1, 2], pooled_size=7, classifier_sizes=[6, 5], num_labels=3, **more
        )
    ),
}


def parameters(name, side, classes):
    register_networks()
    with torch.device("meta"):
        model = AutoModelForImageClassification.from_config(
            image_config(name, (side, side), num_labels=classes)
        )
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize(
    ("name", "side", "classes", "published"),
    [
        # torchvision's table of ImageNet networks (vgg16_bn, resnet18, resnet34, resnet50).
        ("vgg16", 224, 1000, 138_365_992),
        ("resnet18", 224, 1000, 11_689_512),
        ("resnet34", 224, 1000, 21_797_672),
        ("resnet50", 224, 1000, 25_557_032),
        # The CIFAR forms with 10 classes, as in the widely used pytorch-cifar.
        ("vgg16", 32, 10, 14_728_266),
        ("resnet18", 32, 10, 11_173_962),
        ("resnet34", 32, 10, 21_282_122),
        ("resnet50", 32, 10, 23_520_842),
        # He et al. 2016, table 6: ResNet-20 has 0.27 M (269,722 there; 2,752 more for two learnt shortcuts).
        ("resnet-small", 32, 10, 272_474),
    ],
)
def test_parameter_counts_are_the_published_ones(name, side, classes, published):
    assert parameters(name, side, classes) == published


def test_vgg16_without_batch_normalisation_has_the_138_million_of_the_paper():
    config = VggConfig(batch_norm=False, pooled_size=7, classifier_sizes=[4096, 4096], num_labels=1000)
    with torch.device("meta"):
        model = VggForImageClassification(config)
    assert sum(parameter.numel() for parameter in model.parameters()) == 138_357_544


def normalised(weights, name, hidden):
    return functional.batch_norm(
        hidden, weights[f"{name}.running_mean"], weights[f"{name}.running_var"],
        weights[f"{name}.weight"], weights[f"{name}.bias"],
    )  # fmt: skip


def resnet_reference(weights, config, pixels):
    """Written out from the paper: no module of ours is called."""

    def convolved(name, hidden, stride=1):
        kernel = weights[f"{name}.convolution.weight"]
        hidden = functional.conv2d(hidden, kernel, stride=stride, padding=kernel.shape[-1] // 2)
        return normalised(weights, f"{name}.normalization", hidden)

    hidden = convolved("stem", pixels).relu()
    count = 3 if config.layer_type == "bottleneck" else 2
    for stage, depth in enumerate(config.depths):
        for layer in range(depth):
            stride = 2 if stage and not layer else 1
            place = f"stages.{stage}.{layer}"
            residual = hidden
            for number in range(count):
                is_strided = number == (1 if count == 3 else 0)
                residual = convolved(f"{place}.steps.{2 * number}", residual, stride if is_strided else 1)
                residual = residual.relu() if number < count - 1 else residual
            if f"{place}.shortcut.convolution.weight" in weights:
                hidden = convolved(f"{place}.shortcut", hidden, stride)
            hidden = (hidden + residual).relu()
    features = hidden.flatten(2).mean(dim=2)
    return features @ weights["classifier.weight"].T + weights["classifier.bias"]


def vgg_reference(weights, config, pixels):
    hidden = pixels
    for block, depth in enumerate(config.depths):
        for layer in range(depth):
            kernel, bias = (weights[f"blocks.{block}.{3 * layer}.{kind}"] for kind in ("weight", "bias"))
            hidden = functional.conv2d(hidden, kernel, bias, padding=1)
            hidden = normalised(weights, f"blocks.{block}.{3 * layer + 1}", hidden).relu()
        rows, channels, height, width = hidden.shape
        hidden = hidden.reshape(rows, channels, height // 2, 2, width // 2, 2).amax(dim=(3, 5))
    features = functional.adaptive_avg_pool2d(hidden, config.pooled_size).flatten(1)
    for layer in range(len(config.classifier_sizes)):  # linear, ReLU, dropout
        kernel, bias = (weights[f"hidden.{3 * layer}.{kind}"] for kind in ("weight", "bias"))
        features = (features @ kernel.T + bias).relu()
    return features @ weights["classifier.weight"].T + weights["classifier.bias"]


@pytest.mark.parametrize("kind", SMALL)
def test_the_forward_pass_is_the_one_written_out(kind):
    torch.manual_seed(0)
    model = SMALL[kind]().eval()
    for module in model.modules():  # normalisation that does something
        if isinstance(module, torch.nn.BatchNorm2d):
            torch.nn.init.uniform_(module.running_mean, -1, 1)
            torch.nn.init.uniform_(module.running_var, 0.5, 2)
            torch.nn.init.uniform_(module.weight, 0.5, 2)
    pixels = torch.randn(3, 3, 12, 12)
    reference = vgg_reference if "vgg" in kind else resnet_reference
    with torch.no_grad():
        given = model(pixel_values=pixels).logits
        expected = reference(model.state_dict(), model.config, pixels)
    assert torch.allclose(given, expected, atol=1e-4)


@pytest.mark.parametrize("kind", SMALL)
def test_every_stage_is_a_seam_and_the_head_is_before_its_dropout(kind):
    torch.manual_seed(0)
    model = SMALL[kind](dropout=0.3).eval()
    batch = {"pixel_values": torch.randn(4, 3, 16, 16)}
    mix_points, partner = MixPoints(model), torch.tensor([1, 0, 3, 2])
    assert mix_points.describe() == "0 (pixels), 1-2 (layers), 3 (head)"
    with torch.no_grad():
        untouched = model(**batch).logits
        for depth in range(mix_points.head + 1):
            cut = mix_points.hook(depth, lambda hidden: hidden[partner], batch)
            swapped = model(**batch).logits
            cut.remove()
            assert torch.allclose(swapped, untouched[partner], atol=1e-5)
    assert find_head(model, batch)[0] is model.dropout


@pytest.mark.parametrize("kind", SMALL)
def test_a_saved_network_loads_by_its_auto_class_with_its_temperature(kind, tmp_path):
    register_networks()
    torch.manual_seed(0)
    model = SMALL[kind](dropout=0.2).eval()
    pixels = torch.randn(2, 3, 16, 16)
    with torch.no_grad():
        logits = model(pixel_values=pixels).logits
    fold_temperature(model, 2.5)
    model.save_pretrained(tmp_path / "model")
    again = AutoModelForImageClassification.from_pretrained(tmp_path / "model").eval()
    assert type(again) is type(model)
    assert again.config.dropout == 0.2
    assert folded_temperature(again) == 2.5
    with torch.no_grad():
        assert torch.allclose(again(pixel_values=pixels).logits, logits / 2.5, atol=1e-6)


@pytest.mark.processes
def test_a_checkpoint_loads_where_calmix_is_not_installed(tmp_path):
    """It holds the code of its network; transformers runs it when it is trusted."""
    register_networks()
    torch.manual_seed(0)
    model = SMALL["cifar_resnet"]().eval()
    model.save_pretrained(tmp_path / "model")
    torch.save(torch.randn(2, 3, 16, 16), tmp_path / "pixels.pt")
    code = (
        "import sys, torch\n"
        "sys.modules['calmix'] = None\n"  # an import of it would fail
        "from transformers import AutoModelForImageClassification as Auto\n"
        "model = Auto.from_pretrained('model', trust_remote_code=True).eval()\n"
        "torch.save(model(pixel_values=torch.load('pixels.pt')).logits.detach(), 'logits.pt')\n"
    )
    subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"HF_HOME": str(tmp_path / "cache"), "HF_HUB_OFFLINE": "1", "PATH": ""},
        check=True,
        capture_output=True,
    )
    with torch.no_grad():
        expected = model(pixel_values=torch.load(tmp_path / "pixels.pt")).logits
    assert torch.equal(torch.load(tmp_path / "logits.pt"), expected)


def test_weights_are_drawn_from_the_seed():
    first, again, other = (
        build_image_network("resnet-small", (8, 8), ["a", "b"], seed=seed).state_dict() for seed in (1, 1, 2)
    )
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["stem.convolution.weight"], other["stem.convolution.weight"])


def test_a_resnet_of_transformers_with_dropout_saves_and_loads_as_one_without(tmp_path, monkeypatch):
    monkeypatch.setitem(built_in.LAYERS, "resnet18", (1, 1, 1, 1))
    plain = build_image_network("resnet18", (64, 64), ["a", "b"], seed=1).eval()
    dropping = build_image_network("resnet18", (64, 64), ["a", "b"], seed=1, dropout=0.3).eval()
    assert all(torch.equal(dropping.state_dict()[name], value) for name, value in plain.state_dict().items())
    pixels = {"pixel_values": torch.randn(2, 3, 64, 64)}
    assert isinstance(find_head(dropping, pixels)[0], torch.nn.Dropout)
    dropping.save_pretrained(tmp_path)
    ours = load_trained(tmp_path).eval()
    theirs = AutoModelForImageClassification.from_pretrained(tmp_path).eval()
    assert find_head(ours, pixels)[0].p == 0.3
    with torch.no_grad():
        expected = plain(**pixels).logits
        assert torch.allclose(ours(**pixels).logits, expected, atol=1e-6)
        assert torch.allclose(theirs(**pixels).logits, expected, atol=1e-6)


def test_images_of_one_size_are_capped_too_unless_a_size_is_asked_for():
    assert image_size_for("resnet18", [(3000, 4000)] * 2) == (224, 299)
    assert image_size_for("vgg16", [(224, 500)]) == (224, 500)
    assert image_size_for("resnet18", [(3000, 4000)], asked=[300, 400]) == (300, 400)


def test_sizes_and_options_that_cannot_be():
    assert image_size_for("resnet18", [(20, 30)], asked=[16, 24]) == (16, 24)
    with pytest.raises(UserError, match="'image_size': 10}; give pixels, at least 32"):
        image_size_for("vgg16", [(64, 64)], asked=10)
    assert last_linear(SMALL["vgg"]()).out_features == 3
