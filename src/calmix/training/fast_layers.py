"""Layers that cost less in training: the last one for the position that the head reads, all in bfloat16.

Both change the last bits of what is trained, and nothing of what is saved: after `train` the network is the
ordinary one. Encoders narrower than 256 features are left alone; they would gain nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import nn

from calmix.data.batches.sampler import BatchKeys, KeyedCollator, RowKey
from calmix.models.hf_compat import base_model, reads_images
from calmix.models.layer_precision import BfloatLayers, device_multiplies_bfloat16, is_wide
from calmix.models.mix_points import MixPoints
from calmix.models.pooled_layer import pooled_last_layer
from calmix.training.hf_compat import TrainerBase, TrainOutput, prepare_inputs
from calmix.user_error import UserError, argument

FLOAT32, BFLOAT16 = "float32", "bfloat16"
PROBE_ROWS = 4


def layer_precision(named: str, model: nn.Module, device: str) -> str:
    """The precision of the layers in training that `--precision` means for a network on a device."""
    if named == BFLOAT16 and (reads_images(base_model(model)) or not MixPoints(model).layers):
        raise UserError(
            f"{argument('precision', named)} is for encoders of texts, and {type(model).__name__} is none",
            remedy="leave it out",
        )
    if named != "auto":
        return named
    return BFLOAT16 if is_wide(model) and device_multiplies_bfloat16(device) else FLOAT32


class FastLayersMixin(TrainerBase):
    """Mixin for a Trainer of `MixupArguments`: layers are fast while `train` runs."""

    def train(
        self,
        resume_from_checkpoint: str | bool | None = None,
        trial: Any | dict[str, Any] | None = None,
        ignore_keys_for_eval: list[str] | None = None,
    ) -> TrainOutput:
        with self.fast_layers():
            return super().train(resume_from_checkpoint, trial, ignore_keys_for_eval)

    @property
    def layer_precision(self) -> str:
        """float32 also where the Trainer's own mixed precision (`bf16`, `fp16`) takes care of everything."""
        args: Any = self.args
        if args.bf16 or args.fp16 or not self._can_change_layers():
            return FLOAT32
        model = self.accelerator.unwrap_model(self.model)
        return layer_precision(args.precision, model, args.device.type)

    @property
    def shortens_last_layer(self) -> bool:
        return self._can_change_layers() and is_wide(self.accelerator.unwrap_model(self.model))

    def _can_change_layers(self) -> bool:
        # What copies or compiles modules would not see, or not understand, a forward pass of ours.
        args: Any = self.args
        return not (args.torch_compile or args.deepspeed or args.fsdp or args.n_gpu > 1)

    @contextmanager
    def fast_layers(self) -> Iterator[None]:
        model = self.accelerator.unwrap_model(self.model)
        with ExitStack() as changes:
            if self.shortens_last_layer and (probe := self._probe()) is not None:
                changes.enter_context(pooled_last_layer(model, probe))
            if self.layer_precision == BFLOAT16:
                changes.callback(BfloatLayers(model).remove)
            yield

    def _probe(self) -> dict[str, Any] | None:
        """A batch of a few rows without labels."""
        rows: Any = self.train_dataset
        if rows is None:
            return None
        chosen = [(RowKey(place, 0), rows[place]) for place in range(min(PROBE_ROWS, len(rows)))]
        accepted = self._accepted_features()  # type: ignore[attr-defined]
        batch = KeyedCollator(self.data_collator, accepted)(chosen)
        inputs = {name: value for name, value in batch.items() if name not in ("labels", BatchKeys.NAME)}
        return prepare_inputs(self, inputs)
