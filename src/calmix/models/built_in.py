"""The networks that `--model` knows by name, made for the data that they are to be trained on.

vgg16            below 128 pixels compact: one linear layer, 14.7 M parameters; above, the published network
                 with batch normalisation, 138 M
resnet18/34/50   below 64 pixels the form of CIFAR papers (3x3 stem); above, the ResNet of transformers, which
                 is torchvision's
resnet-small     ResNet-20 of He et al. for CIFAR, 16 to 64 channels, 0.27 M: for 28x28 and 32x32 on a CPU

All take RGB images and begin with random weights; parameter counts are the published ones, less or more what
the number of classes makes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from calmix.user_error import UserError, argument

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

TEXT_CNN = "text-cnn"
IMAGE_NETWORKS = ("vgg16", "resnet18", "resnet34", "resnet50", "resnet-small")
BUILT_IN = (TEXT_CNN, *IMAGE_NETWORKS)
OPTIONS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(IMAGE_NETWORKS, ("dropout", "image_size")),
    TEXT_CNN: ("dropout", "maps", "row_norm_cap", "vectors", "widths"),
}

# A ResNet of transformers quarters the image before its first layer; below this, too little would be left.
SMALL_RESNET = 64
# The published VGG-16 leaves 1/32 of the image, which its classifier takes as 7x7.
SMALL_VGG = 128
LEAST_VGG = 32
LAYERS = {"resnet18": (2, 2, 2, 2), "resnet34": (3, 4, 6, 3), "resnet50": (3, 4, 6, 3)}
LARGEST_SIDE = 224
# How `row_norm_cap` is switched off.
NO_CAP = (None, "none")


# Of a checkpoint: everything else about it is what it is.
CHECKPOINT_OPTIONS = ("head",)


def check_options(name: str, options: Mapping[str, Any]) -> None:
    """A built-in network has options of its own, a checkpoint only that of its head."""
    known = OPTIONS.get(name, CHECKPOINT_OPTIONS)
    for option, value in options.items():
        if option not in known:
            raise UserError(
                f"{argument('model_options')}: {name!r} has no option {option!r}",
                remedy=f"it has: {', '.join(known)}",
            )
        if option in CHECKED and not CHECKED[option][0](value):
            raise UserError(
                argument("model_options", f"{option}={value}"), remedy=f"give {CHECKED[option][1]}"
            )


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


# What a value must be, and the words for it.
CHECKED: dict[str, tuple[Callable[[Any], bool], str]] = {
    "head": (lambda value: value == "linear", "linear: one layer on [CLS], without pooler and dropout"),
    "dropout": (lambda value: _is_number(value) and 0 <= value < 1, "a number from 0 to below 1"),
    "maps": (_is_whole, "a whole number of at least 1"),
    "widths": (
        lambda value: isinstance(value, list | tuple) and len(value) > 0 and all(map(_is_whole, value)),
        "a list of whole numbers, such as [3,4,5]",
    ),
    "row_norm_cap": (
        lambda value: value in NO_CAP or (_is_number(value) and value > 0),
        "a number above 0, or none for no cap",
    ),
}


def image_size_for(name: str, sizes: Sequence[tuple[int, int]], asked: Any = None) -> tuple[int, int]:
    """(height, width) that all images are brought to: their own if they share one, else a square of the
    median short side; the short side at most 224.

    >>> image_size_for("resnet18", [(28, 28), (28, 28)]), image_size_for("vgg16", [(28, 28)])
    ((28, 28), (32, 32))
    >>> image_size_for("resnet18", [(300, 400), (640, 480), (100, 90)])
    (224, 224)
    >>> image_size_for("resnet18", [(3000, 4000), (3000, 4000)])
    (224, 299)
    """
    least = LEAST_VGG if name == "vgg16" else 8
    if asked is not None:
        size = tuple(asked) if isinstance(asked, list | tuple) else (asked, asked)
        if len(size) != 2 or not all(isinstance(side, int) and side >= least for side in size):
            raise UserError(
                argument("model_options", f"image_size={asked}"), remedy=f"give pixels, at least {least}"
            )
        return int(size[0]), int(size[1])
    if len(set(sizes)) == 1:
        height, width = sizes[0]
        scale = min(1.0, LARGEST_SIDE / min(height, width))
        height, width = round(scale * height), round(scale * width)
    else:
        sides = sorted(min(size) for size in sizes)
        height = width = min(sides[len(sides) // 2], LARGEST_SIDE)
    return max(height, least), max(width, least)


def image_config(
    name: str, size: tuple[int, int], *, dropout: float | None = None, **labels: Any
) -> PreTrainedConfig:
    """The configuration of a built-in image network for images of this size."""
    from transformers import ResNetConfig

    from calmix.models.head_dropout import CONFIG_KEY
    from calmix.models.networks.cifar_resnet import CifarResNetConfig
    from calmix.models.networks.vgg import VggConfig

    shared: dict[str, Any] = {"image_size": list(size), **labels}
    if name == "vgg16":
        if min(size) < SMALL_VGG:
            return VggConfig(dropout=dropout or 0.0, **shared)
        dropout = 0.5 if dropout is None else dropout
        return VggConfig(dropout=dropout, pooled_size=7, classifier_sizes=[4096, 4096], **shared)
    if name == "resnet-small":
        return CifarResNetConfig(
            embedding_size=16, hidden_sizes=[16, 32, 64], depths=[3, 3, 3], dropout=dropout or 0.0, **shared
        )
    is_deep = name == "resnet50"
    form: dict[str, Any] = {
        "hidden_sizes": [256, 512, 1024, 2048] if is_deep else [64, 128, 256, 512],
        "depths": list(LAYERS[name]),
        "layer_type": "bottleneck" if is_deep else "basic",
    }
    if min(size) < SMALL_RESNET:
        return CifarResNetConfig(dropout=dropout or 0.0, **form, **shared)
    config = ResNetConfig(**form, **labels)
    if dropout:
        setattr(config, CONFIG_KEY, dropout)
    return config


def label_settings(label_names: Sequence[str]) -> dict[str, Any]:
    """What a configuration says about the classes."""
    return {
        "num_labels": len(label_names),
        "id2label": dict(enumerate(label_names)),
        "label2id": {label: index for index, label in enumerate(label_names)},
        "problem_type": "single_label_classification",
    }


def build_image_network(
    name: str, size: tuple[int, int], label_names: Sequence[str], *, seed: int, dropout: float | None = None
) -> PreTrainedModel:
    """A network with random weights, drawn from the seed."""
    from transformers import AutoModelForImageClassification, set_seed

    from calmix.models.head_dropout import add_head_dropout
    from calmix.models.registration import register_networks

    register_networks()
    config = image_config(
        name,
        size,
        dropout=dropout,
        **label_settings(label_names),
    )
    set_seed(seed)
    model: PreTrainedModel = AutoModelForImageClassification.from_config(config)
    add_head_dropout(model)
    return model
