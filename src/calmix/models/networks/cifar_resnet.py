"""ResNets for small images: the stem is one 3x3 convolution, and nothing is pooled before the stages.

The form that papers train on CIFAR and MNIST. The ResNet of transformers (and torchvision) begins with a 7x7
convolution of stride 2 and a max pooling, which leaves 8x8 of a 32x32 image before the first layer.

    stem -> stages -> mean over all places -> dropout -> linear

Reference: He et al., CVPR 2016 (section 4.2 for CIFAR).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers import initialization as init
from transformers.modeling_outputs import ImageClassifierOutputWithNoAttention


class CifarResNetConfig(PreTrainedConfig):
    """`hidden_sizes` and `depths`: channels and layers of every stage; from the second on, a stage halves the
    image. A layer is `basic` (two 3x3 convolutions) or a `bottleneck` (1x1, 3x3, 1x1)."""

    model_type = "cifar_resnet"

    num_channels: int = 3
    image_size: int | list[int] = 32
    embedding_size: int = 64
    hidden_sizes: list[int] | tuple[int, ...] = (64, 128, 256, 512)
    depths: list[int] | tuple[int, ...] = (2, 2, 2, 2)
    layer_type: str = "basic"
    dropout: float = 0.0


class Convolution(nn.Module):
    """Convolution and batch normalisation, without an activation."""

    def __init__(self, inputs: int, outputs: int, size: int, stride: int = 1) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(inputs, outputs, size, stride=stride, padding=size // 2, bias=False)
        self.normalization = nn.BatchNorm2d(outputs)

    def forward(self, hidden: Tensor) -> Tensor:
        normalised: Tensor = self.normalization(self.convolution(hidden))
        return normalised


class ResidualLayer(nn.Module):
    """relu(f(x) + x), x through a 1x1 convolution where its shape changes."""

    def __init__(self, inputs: int, outputs: int, stride: int, layer_type: str) -> None:
        super().__init__()
        if layer_type == "bottleneck":
            inner = outputs // 4
            shapes = [(inputs, inner, 1, 1), (inner, inner, 3, stride), (inner, outputs, 1, 1)]
        else:
            shapes = [(inputs, outputs, 3, stride), (outputs, outputs, 3, 1)]
        self.steps = nn.Sequential()
        for place, shape in enumerate(shapes):
            if place:
                self.steps.append(nn.ReLU(inplace=True))
            self.steps.append(Convolution(*shape))
        is_same = inputs == outputs and stride == 1
        self.shortcut = nn.Identity() if is_same else Convolution(inputs, outputs, 1, stride)

    def forward(self, hidden: Tensor) -> Tensor:
        return torch.relu(self.steps(hidden) + self.shortcut(hidden))


class CifarResNetForImageClassification(PreTrainedModel):
    """Logits from `pixel_values` [rows, channels, height, width]."""

    config_class = CifarResNetConfig
    base_model_prefix = "resnet"
    main_input_name = "pixel_values"
    input_modalities = ("image",)  # type: ignore[assignment]

    def __init__(self, config: CifarResNetConfig) -> None:
        super().__init__(config)
        self.stem = Convolution(config.num_channels, config.embedding_size, 3)
        self.stages = nn.ModuleList()
        inputs = config.embedding_size
        for number, (outputs, depth) in enumerate(zip(config.hidden_sizes, config.depths, strict=True)):
            stage = nn.Sequential()
            for place in range(depth):
                stride = 2 if number > 0 and place == 0 else 1
                stage.append(ResidualLayer(inputs, outputs, stride, config.layer_type))
                inputs = outputs
            self.stages.append(stage)
        self.dropout = nn.Dropout(config.dropout)
        self.classifier = nn.Linear(inputs, int(config.num_labels or 0))
        self.post_init()  # type: ignore[no-untyped-call]

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)  # type: ignore[no-untyped-call]
        if isinstance(module, nn.Conv2d):
            init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        elif isinstance(module, nn.Linear):
            bound = module.in_features**-0.5
            init.uniform_(module.weight, -bound, bound)
            init.zeros_(module.bias)

    def forward(
        self, pixel_values: Tensor, labels: Tensor | None = None, **kwargs: Any
    ) -> ImageClassifierOutputWithNoAttention:
        if pixel_values.device.type == "cpu":  # a third faster there
            pixel_values = pixel_values.contiguous(memory_format=torch.channels_last)
        hidden = torch.relu(self.stem(pixel_values))
        for stage in self.stages:
            hidden = stage(hidden)
        logits = self.classifier(self.dropout(hidden.mean(dim=(2, 3))))
        loss: Any = None
        if labels is not None:
            is_multi_label = self.config.problem_type == "multi_label_classification"
            loss_of = nn.BCEWithLogitsLoss() if is_multi_label else nn.CrossEntropyLoss()
            loss = loss_of(logits, labels)
        return ImageClassifierOutputWithNoAttention(loss=loss, logits=logits)
