"""How large a checkpoint is, from its configuration alone: no weights are loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calmix.io.records import read_json_record
from calmix.models.hf_compat import LAYER_COUNTS, WIDTHS, has_hub_file
from calmix.models.loading import resolve_model
from calmix.runtime.hub import offline_if_unreachable

# What sentence-transformers writes beside the weights.
SENTENCE_ENCODER_FILES = ("modules.json", "config_sentence_transformers.json")


@dataclass(frozen=True)
class NetworkScale:
    """`weights`: of the layers, without embeddings; None where the configuration gives no depth and width."""

    weights: int | None
    is_sentence_encoder: bool = False


def network_scale(name: str) -> NetworkScale:
    """The scale of a checkpoint by its directory, its hub name, or `default`."""
    directory = Path(resolve_model(name))
    if directory.is_dir():
        file = directory / "config.json"
        config = read_json_record(file) if file.is_file() else {}
        is_sentence_encoder = any((directory / each).is_file() for each in SENTENCE_ENCODER_FILES)
        return NetworkScale(layer_weights(config), is_sentence_encoder)
    from transformers import AutoConfig

    try:
        with offline_if_unreachable():
            config = AutoConfig.from_pretrained(name, trust_remote_code=False).to_dict()
            is_sentence_encoder = has_hub_file(name, SENTENCE_ENCODER_FILES[0])
    except (OSError, ValueError):
        return NetworkScale(None)  # loading it says what is wrong with it
    return NetworkScale(layer_weights(config), is_sentence_encoder)


def layer_weights(config: Mapping[str, Any]) -> int | None:
    """About how many weights the layers of a transformer have: 12 · depth · width².

    Four matrices of attention and two of four times the width each; Kaplan et al. 2020, Table 1. Layers that
    share weights (ALBERT) count as if they did not: what matters here is how deep and wide the network is.

    >>> layer_weights({"num_hidden_layers": 12, "hidden_size": 768})  # BERT-base: 85 of its 110 million
    84934656
    >>> layer_weights({"depths": [2, 2, 6, 2]}) is None
    True
    """
    depth = next((config[name] for name in LAYER_COUNTS if isinstance(config.get(name), int)), None)
    width = next((config[name] for name in WIDTHS if isinstance(config.get(name), int)), None)
    return None if depth is None or width is None else 12 * depth * width**2
