"""The places where the hidden states of a network can be mixed.

A depth names a mix point. For a network of n encoder layers:

    0       the word embeddings (with the segment embeddings, where the network has them), or the pixels
    k       the output of encoder layer k, 1 <= k <= n; of a stage, for a convolutional network
    n + 1   the features that go into the last linear layer, before the last dropout; of a decoder, those of
            the last token, which its logits are made of

The mix points are found by structure: the input embeddings that every network can name, the outermost list of
layers, and the last linear layer. Only the last dropout is found by watching one forward pass, since some
heads call one dropout module twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from calmix.models.hf_compat import (
    DROPOUTS,
    base_model,
    last_linear,
    last_tokens,
    layer_stack,
    pools_last_token,
    reads_images,
    token_embeddings,
)
from calmix.user_error import UserError, argument

Transform = Callable[[Tensor], Tensor]


@dataclass
class MixHooks:
    """Hooks that are in place. They stay until backward has ended: with gradient checkpointing, layers are
    run again in backward, and must then be mixed again."""

    handles: list[RemovableHandle] = field(default_factory=list)

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()
        self.handles.clear()


class MixPoints:
    """The mix points of one network."""

    def __init__(self, model: nn.Module) -> None:
        self.model = base_model(model)
        self.reads_images = reads_images(self.model)
        self.layers, self.is_shared, self.depth = _find_layers(self.model)
        prefix: Any = getattr(self.model, "frozen_prefix", None)
        self.lowest = prefix.layers if prefix is not None and prefix.is_cached else 0
        """What is cached below this depth cannot be mixed."""
        self._head: tuple[nn.Module, int] | None = None

    @property
    def head(self) -> int:
        """The depth of the head's mix point."""
        return self.depth + 1

    def describe(self) -> str:
        """What there is, for a person."""
        place = "pixels" if self.reads_images else "embeddings"
        layers = f"1-{self.depth} (layers), " if self.depth else ""
        return f"0 ({place}), {layers}{self.head} (head)"

    def check(self, depth: int) -> None:
        if not 0 <= depth <= self.head:
            raise UserError(
                f"{type(self.model).__name__} has no mix point {depth}", remedy=f"it has {self.describe()}"
            )
        if depth < self.lowest:
            place = "the embeddings" if depth == 0 else f"layer {depth}"
            raise UserError(
                f"rows cannot be mixed at {place}: the activations of the first {self.lowest} layers are "
                f"cached ({argument('freeze_layers', self.lowest)})",
                remedy="choose a method that mixes above them, such as cls-mixup, or use "
                f"{argument('freeze_cache', 'off')}, which runs the frozen layers in every step",
            )

    def hook(self, depth: int, transform: Transform, inputs: Mapping[str, Any]) -> MixHooks:
        """Let `transform` change the hidden states at a depth, until the hooks are removed.

        `inputs` is a batch like the one to come: the first hook at the head looks at one forward pass of it.
        """
        self.check(depth)
        if depth == 0:
            others: Mapping[str, Any] | None = getattr(transform, "others", None)
            return self._hook_embeddings(transform) if others is None else self._join(transform, others)
        if depth == self.head:
            return self._hook_head(transform, inputs)
        return self._hook_layer(depth, transform)

    def _hook_embeddings(self, transform: Transform) -> MixHooks:
        if self.reads_images:

            def mix_pixels(
                module: nn.Module, args: Any, kwargs: dict[str, Any]
            ) -> tuple[Any, dict[str, Any]]:
                return args, {**kwargs, "pixel_values": transform(kwargs["pixel_values"])}

            return MixHooks([self.model.register_forward_pre_hook(mix_pixels, with_kwargs=True)])

        def mix_output(module: nn.Module, args: Any, output: Tensor) -> Tensor:
            return transform(output)

        # Word and segment embeddings are added next, so mixing both is mixing their sum.
        return MixHooks([module.register_forward_hook(mix_output) for module in token_embeddings(self.model)])

    def _join(self, transform: Transform, others: Mapping[str, Any]) -> MixHooks:
        """Embed the partners of the rows behind them; `transform` makes one row of the two."""
        if self.reads_images:

            def mix_pixels(
                module: nn.Module, args: Any, kwargs: dict[str, Any]
            ) -> tuple[Any, dict[str, Any]]:
                both = torch.cat([kwargs["pixel_values"], others["pixel_values"]])
                return args, {**kwargs, "pixel_values": transform(both)}

            return MixHooks([self.model.register_forward_pre_hook(mix_pixels, with_kwargs=True)])
        words, *segments = token_embeddings(self.model)
        named = [(words, "input_ids"), *((module, "token_type_ids") for module in segments)]
        # Segments that no input names are the same for both.
        return MixHooks(
            [
                handle
                for module, name in named
                if name in others
                for handle in _joined(module, others[name], transform)
            ]
        )

    def _hook_layer(self, depth: int, transform: Transform) -> MixHooks:
        def mix_output(module: nn.Module, args: Any, output: Any) -> Any:
            if isinstance(output, tuple):
                return (transform(output[0]), *output[1:])
            return transform(output)

        if not self.is_shared:
            return MixHooks([self.layers[depth - 1].register_forward_hook(mix_output)])

        calls = 0

        def count(module: nn.Module, args: Any) -> None:
            nonlocal calls
            calls += 1

        def mix_shared(module: nn.Module, args: Any, output: Any) -> Any:
            # One module stands for several layers. A run again in backward comes from last to first, and is
            # broken off once it has what it needs: hence the count before the layer, not after it.
            layer = calls if calls <= self.depth else 2 * self.depth + 1 - calls
            return mix_output(module, args, output) if layer == depth else output

        return MixHooks(
            [layer.register_forward_pre_hook(count) for layer in self.layers]
            + [layer.register_forward_hook(mix_shared) for layer in self.layers]
        )

    def head_module(self, inputs: Mapping[str, Any]) -> tuple[nn.Module, int]:
        """The module whose input is the head's mix point, and which of its calls; looked for once."""
        if self._head is None:
            self._head = find_head(self.model, inputs)
        return self._head

    def _hook_head(self, transform: Transform, inputs: Mapping[str, Any]) -> MixHooks:
        module, wanted = self.head_module(inputs)
        calls = 0

        def mix_input(module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
            nonlocal calls
            calls += 1
            return (transform(args[0]), *args[1:]) if calls == wanted else None

        if not pools_last_token(self.model):
            return MixHooks([module.register_forward_pre_hook(mix_input)])
        config: Any = self.model.config
        places = last_tokens(inputs["input_ids"], config.pad_token_id)

        def mix_last_token(module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            rows = torch.arange(len(places), device=places.device)
            states = args[0].clone()
            # Each row gives the features of its own last token, wherever that stands.
            states[rows, places] = transform(args[0][rows, places])
            return (states, *args[1:])

        return MixHooks([module.register_forward_pre_hook(mix_last_token)])


def _joined(module: nn.Module, theirs: Tensor, transform: Transform) -> list[RemovableHandle]:
    """An embedding that reads `theirs` behind what it is given, and gives one of each two."""

    def read_both(module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return (torch.cat([args[0], theirs.reshape(-1, theirs.shape[-1])]), *args[1:])

    def mix_output(module: nn.Module, args: Any, output: Tensor) -> Tensor:
        return transform(output)

    # Before the other hooks: an optimiser that moves the rows of absent words late must see all words.
    return [
        module.register_forward_pre_hook(read_both, prepend=True),
        module.register_forward_hook(mix_output),
    ]


def _find_layers(model: nn.Module) -> tuple[list[nn.Module], bool, int]:
    """The layers in order, whether modules are shared between layers, and how many layers there are."""
    stack, count = layer_stack(model)
    if stack is None:
        return [], False, 0
    layers = list(stack)
    depth = int(getattr(model.config, count)) if count else len(layers)
    is_shared = len(layers) < depth
    return layers, is_shared, depth if is_shared else len(layers)


def find_head(model: nn.Module, inputs: Mapping[str, Any]) -> tuple[nn.Module, int]:
    """The module whose input is the head's mix point, and which of its calls: the last dropout if its output
    is what the last linear layer takes, else that layer itself.

    Looks at one forward pass in evaluation mode, which draws no random number.
    """
    linear = last_linear(model)
    if pools_last_token(model) and "input_ids" in inputs:
        return linear, 1
    counts: dict[nn.Module, int] = {}
    last: dict[str, Any] = {}

    def watch_dropout(module: nn.Module, args: Any, output: Tensor) -> None:
        counts[module] = counts.get(module, 0) + 1
        last["dropout"] = (module, counts[module], output.data_ptr(), output.shape)

    def watch_linear(module: nn.Module, args: tuple[Tensor, ...]) -> None:
        last["input"] = (args[0].data_ptr(), args[0].shape)
        last["before"] = last.get("dropout")

    handles = [
        module.register_forward_hook(watch_dropout)
        for module in model.modules()
        if isinstance(module, DROPOUTS)
    ]
    handles.append(linear.register_forward_pre_hook(watch_linear))
    modes = [(module, module.training) for module in model.modules()]
    try:
        model.eval()
        with torch.no_grad():
            model(**inputs)
    finally:
        for each, mode in modes:  # one by one: batch normalisation may be in another mode than the rest
            each.training = mode
        for handle in handles:
            handle.remove()
    pointer, shape = last["input"]
    if len(shape) != 2:
        raise UserError(
            f"{type(model).__name__} has no mix point at its head: its last layer sees {len(shape) - 1} "
            "positions",
            remedy="mix at the embeddings (input-mixup) or at a layer (manifold-mixup); "
            "aum-saliency needs no such mix point with metric=l2_raw",
        )
    if last["before"] is not None and last["before"][2:] == (pointer, shape):
        return last["before"][:2]  # type: ignore[no-any-return]
    return linear, 1
