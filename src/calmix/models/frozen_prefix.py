"""The first layers of an encoder, frozen: their output is a fixed function of a text, and can be cached.

    prefix = FrozenPrefix(model, layers=4, probe=batch)
    states = prefix.states_of(tokens)                     # the output of layer 4 for one sequence
    model(**batch, inputs_embeds=padded states)           # layers 1-4 are skipped, the rest runs as ever

Everything that the output of layer N depends on gets no gradient and stays in evaluation mode: embeddings,
layers 1..N, and what layers share (the relative positions of MPNet and DeBERTa). The network stays whole. It
is saved as it always is, and rows that come without cached states run through all layers.

Which parameters and modules these are is read off one forward and backward pass of a few rows, the probe, not
off a list of architectures. A network that gives other logits with cached states is refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from calmix.models.hf_compat import DROPOUTS, base_model, reads_images
from calmix.models.mix_points import MixPoints
from calmix.user_error import UserError, argument

STATES = "inputs_embeds"
"""Cached states come under this name. Every text network has an argument of this name, so that the Trainer
passes it on; beside `input_ids` it has no other meaning."""
ATTRIBUTE = "frozen_prefix"
"""Of a network whose first layers are frozen: mix points look for it."""
OPTION = argument("freeze_layers")
LARGEST_DIFFERENCE = 1e-4
"""Of the logits of the probe, relative to the largest: float32 stays well below it, another result above."""
# Say nothing about what the first layers compute.
OF_THE_HEAD = {
    "id2label", "label2id", "num_labels", "problem_type", "architectures", "transformers_version", "dtype",
    "num_hidden_layers", "n_layers", "num_layers", "layer_types", "pad_token_id", "calmix_calibration",
    "finetuning_task", "use_cache", "calmix_prior_correction",
}  # fmt: skip


class _LayerReached(Exception):
    """The rest of the network need not run."""


class FrozenPrefix:
    """Freezes the first `layers` layers of a network, in place, and lets cached states take their place."""

    def __init__(
        self, model: nn.Module, layers: int, probe: Mapping[str, Tensor], *, is_cached: bool = True
    ) -> None:
        """`probe`: a batch of a few texts, without labels. `is_cached`: states are given in training, so
        that nothing can be mixed below layer N."""
        self.model: Any = base_model(model)
        self.layers, self.is_cached = layers, is_cached
        self.states: Tensor | None = None
        points = MixPoints(self.model)
        self._check(points)
        self.skipped = points.layers[:layers]
        self.cut = self.skipped[-1]
        self._extras: dict[nn.Module, tuple[Any, ...] | None] = {}
        self._handles: list[Any] = []
        was_training = self.model.training
        self.model.eval()
        try:
            self._freeze(probe)
            self._install()
            self._prove(probe)
        except BaseException:
            self.remove()
            raise
        finally:
            self.model.train(was_training)
        setattr(self.model, ATTRIBUTE, self)

    def _check(self, points: MixPoints) -> None:
        name = type(self.model).__name__
        if reads_images(self.model):
            raise UserError(f"{OPTION} is for texts, and {name} reads images", remedy="leave it out")
        if not points.depth:
            raise UserError(f"{OPTION}: {name} has no layers to freeze", remedy="leave it out")
        if points.is_shared:
            raise UserError(
                f"{OPTION}: the layers of {name} share their weights: none can be frozen alone",
                remedy="leave it out",
            )
        if not 1 <= self.layers <= points.depth:
            raise UserError(
                f"{OPTION} is {self.layers}, and {name} has {points.depth} layers",
                remedy=f"give a number from 1 to {points.depth}",
            )

    def _freeze(self, probe: Mapping[str, Tensor]) -> None:
        """Find what the output of layer N depends on: parameters by gradient, modules by their calls."""
        parameters = list(self.model.parameters())
        self._trainable = [(parameter, parameter.requires_grad) for parameter in parameters]
        open_modules: list[nn.Module] = []
        before: list[nn.Module] = []  # complete before layer N is, outermost only
        after: set[nn.Module] = set()
        reached: dict[str, Tensor] = {}

        def enter(module: nn.Module, args: Any) -> None:
            open_modules.append(module)
            if reached:
                after.add(module)

        def leave(module: nn.Module, args: Any, output: Any) -> None:
            open_modules.pop()
            if reached:
                return
            inner = set(module.modules())
            before[:] = [each for each in before if each not in inner] + [module]
            if module in self.skipped:
                self._extras[module] = output[1:] if isinstance(output, tuple) else None
            if module is self.cut:
                reached["states"] = output[0] if isinstance(output, tuple) else output

        # A container, such as the list of layers, is not called and needs no hook.
        modules = list(self.model.modules())
        handles = [module.register_forward_pre_hook(enter) for module in modules]
        handles += [module.register_forward_hook(leave) for module in modules]
        gradients = [(parameter, parameter.grad) for parameter in parameters]
        try:
            for parameter in parameters:
                parameter.requires_grad_(True)
                parameter.grad = None
            with torch.enable_grad():
                self.model(**probe)
                torch.autograd.backward(reached["states"].sum())
            used = [parameter for parameter in parameters if parameter.grad is not None]
        finally:
            for handle in handles:
                handle.remove()
            for (parameter, gradient), (_, trainable) in zip(gradients, self._trainable, strict=True):
                parameter.grad = gradient
                parameter.requires_grad_(trainable)
        self.width = int(reached["states"].shape[-1])
        inside = {inner for module in before for inner in module.modules()}
        random = [each for each in after & inside if isinstance(each, DROPOUTS)]
        if random:
            raise self._refusal("it uses one dropout module below and above the frozen layers")
        for parameter in used:
            parameter.requires_grad_(False)
        self.parameters = used
        self._in_evaluation = before

    def _install(self) -> None:
        for module in self._in_evaluation:
            module.eval()
            module.train = _stays(module)  # type: ignore[method-assign]
        for layer in self.skipped:
            layer.forward = self._skipping(layer, layer.forward)
        self._handles = [
            self.model.register_forward_pre_hook(self._take_states, with_kwargs=True),
            self.model.register_forward_hook(self._drop_states, always_call=True),
        ]

    def _take_states(
        self, module: nn.Module, args: Any, kwargs: dict[str, Any]
    ) -> tuple[Any, dict[str, Any]] | None:
        if kwargs.get(STATES) is None or kwargs.get("input_ids") is None:
            return None
        states = kwargs[STATES]
        self.states = states.reshape(
            -1, *states.shape[-2:]
        )  # the choices of a row are sequences of their own
        return args, {name: value for name, value in kwargs.items() if name != STATES}

    def _drop_states(self, module: nn.Module, args: Any, output: Any) -> None:
        self.states = None

    def _skipping(self, layer: nn.Module, run: Callable[..., Any]) -> Callable[..., Any]:
        def forward(*args: Any, **kwargs: Any) -> Any:
            if self.states is None:
                return run(*args, **kwargs)
            hidden = args[0] if args else kwargs["hidden_states"]
            output = self.states.to(hidden.dtype) if layer is self.cut else hidden
            extras = self._extras[layer]
            return output if extras is None else (output, *extras)

        return forward

    @torch.no_grad()
    def _prove(self, probe: Mapping[str, Tensor]) -> None:
        """Cached states, each sequence by itself, must give the logits that the whole network gives."""
        mask = probe["attention_mask"]
        width = mask.shape[-1]
        flat = {name: value.reshape(-1, width) for name, value in probe.items() if value.shape == mask.shape}
        states = torch.zeros(*flat["attention_mask"].shape, self.width, device=mask.device)
        try:
            for row, kept in enumerate(flat["attention_mask"].bool()):
                tokens = {n: v[row][kept] for n, v in flat.items() if n != "attention_mask"}
                states[row, kept] = self.run(tokens)
            expected = self.model(**probe).logits
            given = self.model(**probe, **{STATES: states.reshape(*mask.shape, self.width)}).logits
        except (TypeError, ValueError, RuntimeError, AttributeError, IndexError) as error:
            raise self._refusal("it does not run from cached activations") from error
        difference = float((given - expected).abs().max() / expected.abs().max().clamp(min=1))
        if not difference <= LARGEST_DIFFERENCE:
            raise self._refusal(f"from cached activations its logits are off by {difference:.1g}")

    def _refusal(self, reason: str) -> UserError:
        return UserError(f"{OPTION} does not work with {type(self.model).__name__}: {reason}")

    @torch.no_grad()
    def run(self, tokens: Mapping[str, Tensor]) -> Tensor:
        """The output of layer N for one sequence, [tokens, features].

        One sequence at a time and without padding: the bits depend on the sequence alone, not on the batch
        that it happens to be in, so that states can be shared by all runs.
        """
        reached: list[Tensor] = []

        def stop(module: nn.Module, args: Any, output: Any) -> None:
            reached.append(output[0] if isinstance(output, tuple) else output)
            raise _LayerReached

        handle = self.cut.register_forward_hook(stop)
        inputs = {name: value.unsqueeze(0) for name, value in tokens.items()}
        try:
            self.model.base_model(**inputs, attention_mask=torch.ones_like(inputs["input_ids"]))
        except _LayerReached:
            pass
        finally:
            handle.remove()
        return reached[0][0].float()

    def states_of(self, tokens: Mapping[str, NDArray[np.integer[Any]]]) -> NDArray[np.float32]:
        """`run` on arrays of token ids."""
        device = next(iter(self.model.parameters())).device
        given = {n: torch.from_numpy(np.asarray(v, dtype=np.int64)).to(device) for n, v in tokens.items()}
        return self.run(given).cpu().numpy()

    def fingerprint(self) -> str:
        """A hash of what decides the states of a text. Threads and the version of torch decide the last bits,
        and are in it."""
        config = {
            n: v for n, v in self.model.config.to_dict().items() if n not in OF_THE_HEAD and n[0] != "_"
        }
        device = next(iter(self.model.parameters())).device.type
        facts = {
            "network": type(self.model.base_model).__name__,
            "attention": getattr(self.model.config, "_attn_implementation", None),
            "config": config,
            "layers": self.layers,
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
            "device": device,
        }
        digest = hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode())
        for parameter in self.parameters:
            digest.update(str(list(parameter.shape)).encode())
            digest.update(parameter.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
        return digest.hexdigest()[:20]

    def remove(self) -> None:
        """Let the network be what it was, all parameters trainable that were."""
        for handle in self._handles:
            handle.remove()
        for layer in self.skipped:
            layer.__dict__.pop("forward", None)
        for module in getattr(self, "_in_evaluation", ()):
            module.__dict__.pop("train", None)
        for parameter, trainable in getattr(self, "_trainable", ()):
            parameter.requires_grad_(trainable)
        self.model.__dict__.pop(ATTRIBUTE, None)
        self.model.train(self.model.training)


def _stays(module: nn.Module) -> Callable[..., nn.Module]:
    """A module's `train` that leaves it in evaluation mode."""
    return lambda mode=True: module
