"""Write a network as ONNX, in float32 or with 8-bit weights."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from calmix.user_error import UserError

OUTPUT = "logits"
# The newest set of operators that ONNX Runtime's quantisation knows whole.
OPERATORS = 18


class LogitsOf(nn.Module):
    """A network of transformers as a function of tensors: ONNX knows no keyword and no output object."""

    def __init__(self, model: nn.Module, names: tuple[str, ...]) -> None:
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *inputs: Tensor) -> Tensor:
        logits: Tensor = self.model(**dict(zip(self.names, inputs, strict=True))).logits
        return logits


def export_network(model: nn.Module, batch: dict[str, Tensor], file: Path) -> None:
    """Write the logits of a network as a function of inputs like those of `batch`: at least two rows, of any
    number and length later. Weights are inside the one file."""
    names = tuple(batch)
    # The number of rows, and of texts the number of tokens; images have one size.
    free = [0, *range(1, batch[names[0]].ndim)] if "pixel_values" not in batch else [0]
    dynamic = dict.fromkeys(free, torch.export.Dim.DYNAMIC)
    model.cpu().eval()
    with _quietly(), torch.no_grad():
        try:
            torch.onnx.export(
                LogitsOf(model, names),
                tuple(batch.values()),
                file,
                dynamo=True,
                input_names=list(names),
                output_names=[OUTPUT],
                opset_version=OPERATORS,
                dynamic_shapes=((dynamic,) * len(names),),
                external_data=False,
                verbose=False,
            )
        except ModuleNotFoundError:
            raise
        except Exception as error:  # of many kinds: whatever the network does that ONNX cannot say
            reason = str(error).strip().splitlines() or [type(error).__name__]
            raise UserError(
                f"{type(model).__name__} cannot be exported to ONNX: {reason[0]}",
                remedy="use the checkpoint itself",
            ) from error


def quantise(file: Path, output: Path) -> None:
    """8-bit weights, one scale for each output channel; activations are quantised as they come."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    graph = onnx.load(file)
    # The exporter notes shapes of before the weights were transposed; quantisation infers them by itself.
    del graph.graph.value_info[:]
    with _quietly():
        quantize_dynamic(graph, output, weight_type=QuantType.QInt8, per_channel=True)


def divide_logits(file: Path, temperature: float) -> None:
    """Divide what the graph in `file` returns by a temperature."""
    import onnx

    model = onnx.load(file)
    last = next(node for node in model.graph.node if OUTPUT in node.output)
    last.output[list(last.output).index(OUTPUT)] = f"{OUTPUT}_before_temperature"
    divisor = onnx.helper.make_tensor("temperature", onnx.TensorProto.FLOAT, [], [temperature])
    model.graph.initializer.append(divisor)
    model.graph.node.append(
        onnx.helper.make_node("Div", [f"{OUTPUT}_before_temperature", "temperature"], [OUTPUT])
    )
    onnx.save(model, file)


@contextmanager
def _quietly() -> Iterator[Any]:
    """Exporters talk on the root logger about how they work."""
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)
