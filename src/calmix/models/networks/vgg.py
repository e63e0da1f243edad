"""VGG: blocks of 3x3 convolutions, each block ending in a max pooling that halves the image.

    blocks -> pool to `pooled_size` x `pooled_size` -> hidden linear layers -> dropout -> linear

With `pooled_size=7` and two hidden layers of 4096 it is the published network (configuration D for VGG-16);
with `pooled_size=1` and none it is the compact form for small images, 9 times smaller.

Reference: Simonyan & Zisserman, ICLR 2015.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers import initialization as init
from transformers.modeling_outputs import ImageClassifierOutputWithNoAttention


class VggConfig(PreTrainedConfig):
    """`hidden_sizes` and `depths`: channels and convolutions of every block; `classifier_sizes`: the hidden
    layers of the classifier, each followed by a ReLU and, as the last features are, by dropout."""

    model_type = "vgg"

    num_channels: int = 3
    image_size: int | list[int] = 32
    hidden_sizes: list[int] | tuple[int, ...] = (64, 128, 256, 512, 512)
    depths: list[int] | tuple[int, ...] = (2, 2, 3, 3, 3)
    batch_norm: bool = True
    pooled_size: int = 1
    classifier_sizes: list[int] | tuple[int, ...] = ()
    dropout: float = 0.0


class VggForImageClassification(PreTrainedModel):
    """Logits from `pixel_values` [rows, channels, height, width], at least 2^blocks pixels wide."""

    config_class = VggConfig
    base_model_prefix = "vgg"
    main_input_name = "pixel_values"
    input_modalities = ("image",)  # type: ignore[assignment]

    def __init__(self, config: VggConfig) -> None:
        super().__init__(config)
        self.blocks = nn.ModuleList()
        inputs = config.num_channels
        for outputs, depth in zip(config.hidden_sizes, config.depths, strict=True):
            block = nn.Sequential()
            for _ in range(depth):
                block.append(nn.Conv2d(inputs, outputs, 3, padding=1))
                if config.batch_norm:
                    block.append(nn.BatchNorm2d(outputs))
                block.append(nn.ReLU(inplace=True))
                inputs = outputs
            self.blocks.append(block.append(nn.MaxPool2d(2)))
        self.pool = nn.AdaptiveAvgPool2d(config.pooled_size)
        width = inputs * config.pooled_size**2
        self.hidden = nn.Sequential()
        for size in config.classifier_sizes:
            if len(self.hidden):
                self.hidden.append(nn.Dropout(config.dropout))
            self.hidden.extend([nn.Linear(width, size), nn.ReLU(inplace=True)])
            width = size
        self.dropout = nn.Dropout(config.dropout)
        self.classifier = nn.Linear(width, int(config.num_labels or 0))
        self.post_init()  # type: ignore[no-untyped-call]

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)  # type: ignore[no-untyped-call]
        if isinstance(module, nn.Conv2d):
            init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            init.zeros_(module.bias)  # type: ignore[arg-type]
        elif isinstance(module, nn.Linear):
            init.normal_(module.weight, 0.0, 0.01)
            init.zeros_(module.bias)

    def forward(
        self, pixel_values: Tensor, labels: Tensor | None = None, **kwargs: Any
    ) -> ImageClassifierOutputWithNoAttention:
        hidden = pixel_values
        if hidden.device.type == "cpu":  # a third faster there
            hidden = hidden.contiguous(memory_format=torch.channels_last)
        for block in self.blocks:
            hidden = block(hidden)
        features = self.hidden(self.pool(hidden).flatten(1))
        logits = self.classifier(self.dropout(features))
        loss: Any = None
        if labels is not None:
            is_multi_label = self.config.problem_type == "multi_label_classification"
            loss_of = nn.BCEWithLogitsLoss() if is_multi_label else nn.CrossEntropyLoss()
            loss = loss_of(logits, labels)
        return ImageClassifierOutputWithNoAttention(loss=loss, logits=logits)
