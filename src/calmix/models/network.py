"""A network to be trained on given rows, with what turns rows into its inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from calmix.data.images.augmentation import parse_steps
from calmix.data.images.pixels import PixelStatistics
from calmix.data.rows import Rows
from calmix.models.built_in import (
    BUILT_IN,
    IMAGE_NETWORKS,
    TEXT_CNN,
    build_image_network,
    check_options,
    image_size_for,
)
from calmix.models.inputs import ImageInputs, Inputs, TextInputs, plain_processor
from calmix.models.linear_head import LINEAR, OPTION, use_linear_head
from calmix.models.loading import (
    EMBEDDED,
    load_classifier,
    load_image_processor,
    load_tokenizer,
    longest_input,
    pad_for,
)
from calmix.user_error import UserError, argument

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True)
class Network:
    model: PreTrainedModel
    inputs: Inputs


def load_network(
    name: str,
    rows: Rows,
    *,
    label_names: Sequence[str] | None = None,
    seed: int,
    max_length: int,
    augment: str | None = None,
    options: Mapping[str, Any] | None = None,
    trust_remote_code: bool = False,
) -> Network:
    """A network with a head for the labels of `rows`, or for `label_names`. A built-in one is made for these
    training rows."""
    options = options or {}
    names = tuple(rows.label_names if label_names is None else label_names)
    check_options(name, options)
    if rows.task == "image":
        return _image_network(
            name, rows, names, seed=seed, augment=augment, options=options, trust=trust_remote_code
        )
    if parse_steps(augment):
        raise UserError(f"{argument('augment')} is for images, and the rows are texts", remedy="leave it out")
    if name in IMAGE_NETWORKS:
        raise UserError(f"{name} reads images, and the rows are texts", file=rows.source)
    if name == TEXT_CNN:
        from calmix.models.text_cnn_building import build_text_cnn

        return Network(*build_text_cnn(rows, names, seed=seed, max_length=max_length, options=options))
    tokenizer = load_tokenizer(name, trust_remote_code=trust_remote_code)
    model = load_classifier(
        name,
        task=rows.task,
        label_names=names,
        seed=seed,
        pad_token_id=tokenizer.pad_token_id,
        trust_remote_code=trust_remote_code,
    )
    if options.get(OPTION) == LINEAR:
        use_linear_head(model)
    pad_for(model, tokenizer)
    limit = longest_input(model, tokenizer)
    return Network(model, TextInputs(tokenizer, min(max_length, limit) if limit else max_length))


def _image_network(
    name: str,
    rows: Rows,
    label_names: tuple[str, ...],
    *,
    seed: int,
    augment: str | None,
    options: Mapping[str, Any],
    trust: bool,
) -> Network:
    if name in (EMBEDDED, TEXT_CNN):
        listed = ", ".join(IMAGE_NETWORKS)
        raise UserError(
            f"the model {name!r} reads texts, and the rows are images",
            file=rows.source,
            remedy=f"choose {argument('model')} of {listed}, or a checkpoint of an image network",
        )
    steps, statistics = parse_steps(augment), PixelStatistics.of(rows)
    if name in BUILT_IN:
        size = image_size_for(name, rows.image_sizes(), options.get("image_size"))
        model = build_image_network(name, size, label_names, seed=seed, dropout=options.get("dropout"))
        return Network(model, ImageInputs(plain_processor(size, statistics), steps, statistics))
    processor = load_image_processor(name, trust_remote_code=trust)
    model = load_classifier(name, task="image", label_names=label_names, seed=seed, trust_remote_code=trust)
    if options.get(OPTION) == LINEAR:
        use_linear_head(model)
    return Network(model, ImageInputs(processor, steps, statistics))


def freeze_embeddings(network: Network) -> None:
    """Leave the word embeddings as they are."""
    if isinstance(network.inputs, ImageInputs):
        raise UserError(
            f"{argument('freeze_embeddings')} is for words, and the rows are images", remedy="leave it out"
        )
    for parameter in network.model.get_input_embeddings().parameters():
        parameter.requires_grad = False
