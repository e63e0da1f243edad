"""An exported network that predicts like the checkpoint it came from."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from calmix.inference.onnx.exporting import OUTPUT
from calmix.inference.saved_classifier import ONNX_FILE
from calmix.models.hf_compat import is_image_class
from calmix.models.inputs import ImageInputs, Inputs, TextInputs
from calmix.models.loading import LONGEST_BY_DEFAULT, checkpoint_config, load_image_processor, load_tokenizer
from calmix.user_error import UserError


class OnnxNetwork(nn.Module):
    """ONNX Runtime behind the call of a network of transformers: keywords in, an object with `logits` out."""

    def __init__(self, file: Path, *, threads: int | None = None) -> None:
        super().__init__()
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads or int(os.environ.get("OMP_NUM_THREADS") or 0)
        try:
            self.session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # of ONNX Runtime's own kinds, which have no common base
            reason = str(error).strip().splitlines() or [type(error).__name__]
            raise UserError(f"not an ONNX file that can be run: {reason[0]}", file=file) from error
        self.input_names = tuple(one.name for one in self.session.get_inputs())

    def forward(self, **inputs: Tensor) -> Any:
        given = {name: inputs[name].numpy() for name in self.input_names}
        return SimpleNamespace(logits=torch.from_numpy(self.session.run([OUTPUT], given)[0]))


def load_exported(directory: Path, *, max_length: int | None = None) -> tuple[OnnxNetwork, Inputs]:
    """The network that `calmix export` wrote, and what turns rows into its inputs."""
    network = OnnxNetwork(directory / ONNX_FILE)
    if is_image_class(str((checkpoint_config(directory).get("architectures") or [""])[0])):
        return network, ImageInputs(load_image_processor(str(directory)))
    tokenizer = load_tokenizer(str(directory))
    limits = [length for length in (max_length, tokenizer.model_max_length) if length and length < 1_000_000]
    return network, TextInputs(tokenizer, min(limits, default=LONGEST_BY_DEFAULT))
