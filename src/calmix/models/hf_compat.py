"""What calmix relies on in networks of transformers and torch beyond their documented interface.

Where the head is, and what layers, embeddings and classes are called: conventions that all architectures
follow today and that a release may change. They are used in this module alone, and each has a test in
`tests/models/test_hf_compat.py`. `calmix.training.hf_compat` does the same for the Trainer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from calmix.runtime.option_values import MULTI_LABEL
from calmix.user_error import UserError

# Depth and width in the configurations of transformers.
LAYER_COUNTS = ("num_hidden_layers", "n_layers", "num_layers", "n_layer")
WIDTHS = ("hidden_size", "dim", "n_embd", "d_model")
# What torch keeps together as `_DropoutNd` and `_NormBase`, by public names.
DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout)
RUNNING_NORMS = (
    *(nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm),
    *(nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d),
)


def base_model(model: nn.Module) -> nn.Module:
    """The network inside a PEFT model; any other network itself."""
    inner: nn.Module = model.get_base_model() if hasattr(model, "get_base_model") else model  # type: ignore[operator]
    return inner


def is_choice_class(name: str) -> bool:
    """Whether a class of transformers, by its name in `config.json`, is a multiple-choice network."""
    return "MultipleChoice" in name


def is_image_class(name: str) -> bool:
    return "ImageClassification" in name


def is_multiple_choice(model: Any) -> bool:
    return is_choice_class(type(base_model(model)).__name__)


def reads_images(model: nn.Module) -> bool:
    return str(getattr(model, "main_input_name", "")) == "pixel_values"


def last_linear(model: nn.Module) -> nn.Linear:
    """The layer that gives the logits: the last linear layer with one output per logit.

    Classification heads are registered after the encoder, in all architectures of transformers; the number
    of outputs (1 for a multiple-choice head) keeps the search from taking anything else.
    """
    model = base_model(model)
    config: Any = getattr(model, "config", None)
    outputs = 1 if is_multiple_choice(model) else int(getattr(config, "num_labels", 0))
    for module in reversed(list(model.modules())):
        if isinstance(module, nn.Linear) and module.out_features == outputs:
            return module
    raise UserError(
        f"{type(model).__name__} has no linear layer with {outputs} outputs",
        remedy="the calibrator cannot be folded into this network; apply it to the logits instead",
    )


def pools_last_token(model: nn.Module) -> bool:
    """Whether the network is a decoder whose head sees every position, and whose logits are those of the last
    token that is not padding (GPT-2, Llama, Qwen2, ...)."""
    # Under PEFT the layer is wrapped.
    return isinstance(getattr(base_model(model), "score", None), nn.Module)


def last_tokens(input_ids: Tensor, pad_token_id: int | None) -> Tensor:
    """The place of the last token of each row that is not padding, as those networks find it.

    >>> last_tokens(torch.tensor([[5, 6, 0], [5, 6, 7], [0, 5, 6]]), pad_token_id=0)
    tensor([1, 2, 2])
    """
    places = torch.arange(input_ids.shape[-1], device=input_ids.device)
    is_word = torch.ones_like(input_ids) if pad_token_id is None else (input_ids != pad_token_id).long()
    return (places * is_word).argmax(dim=-1)


def layer_stack(model: nn.Module) -> tuple[nn.ModuleList | None, str | None]:
    """The outermost list of layers, and the name in the configuration that says how many layers there are.

    The list is shorter than that number where one module stands for several layers (ALBERT).
    """
    config: Any = getattr(model, "config", None)
    stack = next((m for m in model.modules() if isinstance(m, nn.ModuleList) and len(m) > 0), None)
    return stack, next((name for name in LAYER_COUNTS if isinstance(getattr(config, name, None), int)), None)


def number_layers(layers: list[nn.Module]) -> None:
    """Number the layers of a network from 0: decoders find their caches by `layer_idx`."""
    for place, layer in enumerate(layers):
        for module in layer.modules():
            if isinstance(getattr(module, "layer_idx", None), int):
                setattr(module, "layer_idx", place)  # noqa: B010 (for mypy, modules hold tensors)


@dataclass(frozen=True)
class SelfAttention:
    """The parts of an encoder layer that attends to its own input."""

    query: nn.Module
    key: nn.Module
    value: nn.Module
    head_size: int
    dropout: float
    finish: Callable[[Tensor, Tensor], Any]
    """What comes after the attention: (attended values, input of the layer) -> output of the layer."""

    def by_head(self, states: Tensor) -> Tensor:
        """[rows, tokens, features] -> [rows, heads, tokens, features of a head]."""
        return states.view(*states.shape[:-1], -1, self.head_size).transpose(1, 2)


def self_attention(layer: nn.Module, model: nn.Module) -> SelfAttention | None:
    """The parts of a layer of BERT, RoBERTa, ELECTRA and others of their make, or of DistilBERT; None for
    other layers, decoders, and attention that is not torch's own."""
    config: Any = getattr(model, "config", None)
    found: Any = layer
    is_usual = getattr(config, "_attn_implementation", None) in ("sdpa", "eager")
    if not is_usual or getattr(config, "is_decoder", False):
        return None
    inner: Any = getattr(getattr(found, "attention", None), "self", None)
    if hasattr(found, "feed_forward_chunk") and hasattr(inner, "attention_head_size"):
        # Relative positions (old BERT) and anything else that attention adds is found by the caller's probe.
        return SelfAttention(
            inner.query, inner.key, inner.value, int(inner.attention_head_size), float(inner.dropout.p),
            lambda seen, first: found.feed_forward_chunk(found.attention.output(seen, first)),
        )  # fmt: skip
    inner = getattr(found, "attention", None)
    if hasattr(inner, "q_lin") and hasattr(found, "sa_layer_norm"):

        def finish(seen: Tensor, first: Tensor) -> Tensor:
            attended = found.sa_layer_norm(inner.out_lin(seen) + first)
            output: Tensor = found.output_layer_norm(found.ffn(attended) + attended)
            return output

        size = int(inner.attention_head_size)
        return SelfAttention(inner.q_lin, inner.k_lin, inner.v_lin, size, float(inner.dropout.p), finish)
    return None


def token_embeddings(model: nn.Module) -> list[nn.Module]:
    """The word embeddings, and the segment embeddings that are added to them next."""
    segments = [m for name, m in model.named_modules() if name.endswith("token_type_embeddings")]
    return [model.get_input_embeddings(), *segments]  # type: ignore[operator]


def first_position(model: nn.Module) -> int | None:
    """The padding index that RoBERTa and its kin number positions from, skipping padding tokens; None for
    networks that number all tokens from 0."""
    for name, module in model.named_modules():
        if name.endswith("embeddings.position_embeddings"):
            padding = getattr(module, "padding_idx", None)
            return None if padding is None else int(padding)
    return None


def evaluate_running_norms(model: nn.Module) -> None:
    """Let batch normalisation use what training found, whatever mode the rest is in."""
    for module in model.modules():
        if isinstance(module, RUNNING_NORMS):
            module.eval()


def plain_image_processor(size: tuple[int, int], mean: list[float], deviation: list[float]) -> Any:
    """Converts to RGB, resizes, rescales and normalises, without torchvision."""
    from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

    return ViTImageProcessorPil(
        do_convert_rgb=True,
        size={"height": size[0], "width": size[1]},
        image_mean=mean,
        image_std=deviation,
    )


def plain_image_size(processor: Any) -> tuple[int, int] | None:
    """(height, width), if all that an image processor does is to resize, rescale and normalise."""
    height, width = (getattr(processor.size, side, None) for side in ("height", "width"))
    is_plain = (
        type(processor).__name__.startswith("ViTImageProcessor")
        and processor.do_resize
        and processor.do_rescale
        and processor.do_normalize
        and abs(255 * processor.rescale_factor - 1) < 1e-9
        and int(processor.resample) == 2  # bilinear
    )
    return (int(height), int(width)) if is_plain and height and width else None


def has_hub_file(name: str, file: str) -> bool:
    """Whether a model of the hub has a file, from the cache or the hub."""
    from transformers.utils.hub import cached_file

    return cached_file(name, file, _raise_exceptions_for_missing_entries=False) is not None


def has_independent_labels(model: Any) -> bool:
    """Whether a network gives every label a probability of its own: the sigmoid of its logit."""
    return getattr(getattr(model, "config", None), "problem_type", None) == MULTI_LABEL
