"""One forward pass of a training step: the rows of a micro-batch, mixed at a depth or unmixed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from calmix.mixing.step import HiddenTransform, Mix
from calmix.models.frozen_prefix import STATES
from calmix.models.hf_compat import last_linear
from calmix.models.mix_points import MixHooks, MixPoints
from calmix.user_error import UserError


class Forward:
    """Runs the network on the rows of a micro-batch, mixed at a depth or as they are."""

    def __init__(
        self, model: nn.Module, mix_points: MixPoints, inputs: dict[str, Any], *, is_compiled: bool = False
    ) -> None:
        self.model, self.mix_points, self.inputs, self.is_compiled = model, mix_points, inputs, is_compiled
        self.layer_hooks: MixHooks | None = None
        self.runs = 0

    def __call__(
        self,
        cut: HiddenTransform | Sequence[HiddenTransform] | None = None,
        inputs: Mapping[str, Any] | None = None,
    ) -> Tensor:
        batch = self.inputs if inputs is None else self.without_stale_states(inputs)
        self.runs += 1
        cuts = [] if cut is None else list(cut) if isinstance(cut, Sequence) else [cut]
        if cuts and self.is_compiled:  # a compiled graph does not see hooks: nothing would be mixed
            raise UserError("rows cannot be mixed in a compiled network", remedy="leave torch_compile out")
        if cuts and isinstance(self.model, nn.DataParallel):
            raise UserError("mixing needs whole batches", remedy="start one process per GPU with torchrun")
        is_layer_mixed = self.layer_hooks is not None or any(self.is_layer_mix(each) for each in cuts)
        if self.is_checkpointed and is_layer_mixed and self.runs > 1:
            raise UserError(
                "gradient checkpointing runs layers again, and this method runs the network more than once "
                "in a step that mixes at a layer",
                remedy="leave gradient_checkpointing out, or mix at=head or at=input",
            )
        made = [(each, self.mix_points.hook(each.depth, each, batch)) for each in cuts]
        try:
            return self.model(**batch).logits  # type: ignore[no-any-return]
        finally:
            for each, hooks in made:
                if self.is_checkpointed and self.is_layer_mix(each):
                    # Layers run again in backward and must be mixed again.
                    self.layer_hooks = hooks
                else:
                    hooks.remove()

    @property
    def is_checkpointed(self) -> bool:
        return bool(getattr(self.mix_points.model, "is_gradient_checkpointing", False))

    def is_layer_mix(self, cut: HiddenTransform) -> bool:
        return isinstance(cut, Mix) and 0 < cut.depth < self.mix_points.head

    def without_stale_states(self, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Cached activations are those of the rows as they are: where a method has padded or changed them,
        the frozen layers run again."""
        changed = any(inputs.get(name) is not value for name, value in self.inputs.items())
        return {name: value for name, value in inputs.items() if name != STATES} if changed else inputs

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        model, was_training = self.model, self.model.training
        # The bare network: what wraps it for several processes counts forward passes.
        self.model = self.mix_points.model
        self.model.eval()
        try:
            yield
        finally:
            self.model = model
            self.model.train(was_training)

    @property
    def last_weight(self) -> Tensor:
        weight = last_linear(self.mix_points.model).weight
        assert isinstance(weight, Tensor)
        return weight

    def restore(self) -> None:
        if self.layer_hooks is not None:
            self.layer_hooks.remove()
