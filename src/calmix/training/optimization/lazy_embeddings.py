"""AdamW that skips the word embeddings of absent words, with the same result.

A batch holds a few hundred different words of a vocabulary of 30,000. AdamW moves the embeddings of all of
them in every step: those of absent words by what is left of their momentum. That costs more memory traffic
than the rest of a small encoder. Here a row is moved when it is next read, by all the steps it missed at
once. With m and v as of its last step s, and rates η_u, the steps s + 1 .. t add up to

    w −= m / (√v + ε √(1 − β2^s)) · Σ_u  η_u (β1 / √β2)^(u − s) √(1 − β2^u) / (1 − β1^u)
    m *= β1^(t − s),  v *= β2^(t − s)

which is AdamW's own sum, but that ε does not grow beside a √v that shrinks. Whoever reads the weights through
`state_dict` sees all rows moved; the optimiser's state says which are not, so that a run can go on exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

WINDOW = 400
"""Steps after which a momentum is nothing: (0.9 / √0.999)^400 is 1e-18."""
LEAST_ELEMENTS = 1_000_000
"""Smaller tables are moved whole: finding the rows would cost as much."""


class LazyAdamW(torch.optim.AdamW):
    """`torch.optim.AdamW`; the rows of one embedding are moved when they are next read."""

    def __init__(self, groups: Any, *, embedding: nn.Embedding, **settings: Any) -> None:
        super().__init__(groups, **settings)
        self.embedding = embedding
        self.weight = embedding.weight
        self.rates: list[float] = []
        self.last = torch.zeros(len(self.weight), dtype=torch.int64)
        """The step up to which each row has been moved; 0: never touched."""
        embedding.sparse = True
        module: Any = embedding
        self._handles = [
            module.register_forward_pre_hook(self._before_reading),
            module.register_state_dict_post_hook(partial(self._in_state_dict)),
            module.register_load_state_dict_post_hook(self._replaced),
        ]

    @property
    def group(self) -> dict[str, Any]:
        """The group of parameters that the embedding is in."""
        return next(group for group in self.param_groups if any(p is self.weight for p in group["params"]))

    def _moments(self) -> dict[str, Any]:
        state: dict[str, Any] = self.state[self.weight]
        if "exp_avg" not in state:
            state["step"] = torch.tensor(0.0)
            state["exp_avg"] = torch.zeros_like(self.weight, memory_format=torch.preserve_format)
            state["exp_avg_sq"] = torch.zeros_like(self.weight, memory_format=torch.preserve_format)
        return state

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        gradient = self.weight.grad
        if gradient is None:
            return super().step(closure)
        if not gradient.is_sparse:  # after `finish`: AdamW moves all rows
            self._catch_up(torch.arange(len(self.weight)))
            self._moments()
            self.rates.append(float(self.group["lr"]))
            self.last.fill_(len(self.rates))
            return super().step(closure)
        self.weight.grad = None  # AdamW's own step passes over it
        loss = super().step(closure)
        self.weight.grad = gradient
        self._step_rows(gradient.coalesce())
        return loss

    @torch.no_grad()
    def clippable(self, parameters: Iterable[nn.Parameter]) -> list[nn.Parameter]:
        """The parameters with dense gradients that can be scaled in place: for the embedding stands a
        parameter of the rows that have a gradient."""
        gradient = self.weight.grad
        if gradient is None or not gradient.is_sparse:
            return list(parameters)
        self.weight.grad = gradient = gradient.coalesce()
        values = gradient.values()
        rows = nn.Parameter(values)
        rows.grad = values
        return [rows if parameter is self.weight else parameter for parameter in parameters]

    def _step_rows(self, gradient: Tensor) -> None:
        state, (beta1, beta2) = self._moments(), self.group["betas"]
        rows, values = gradient.indices()[0], gradient.values()
        self._catch_up(rows)
        rate = float(self.group["lr"])
        self.rates.append(rate)
        step = len(self.rates)
        state["step"].fill_(step)
        mean = state["exp_avg"][rows].lerp_(values, 1 - beta1)
        square = state["exp_avg_sq"][rows].mul_(beta2).addcmul_(values, values, value=1 - beta2)
        denominator = square.sqrt().div_((1 - beta2**step) ** 0.5).add_(self.group["eps"])
        moved = self.weight[rows].addcdiv_(mean, denominator, value=-rate / (1 - beta1**step))
        state["exp_avg"][rows], state["exp_avg_sq"][rows], self.weight[rows] = mean, square, moved
        self.last[rows] = step

    def _pending(self, rows: Tensor) -> Tensor:
        """Those of the rows that have missed steps."""
        last = self.last[rows]
        return rows[(last > 0) & (last < len(self.rates))]

    def _moved(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Weight and both moments of rows that have missed steps, after them."""
        state, (beta1, beta2) = self._moments(), self.group["betas"]
        last = self.last[rows].numpy()
        starts, which = np.unique(last, return_inverse=True)
        missed = missed_steps(np.array(self.rates), starts, beta1, beta2)
        factor = torch.from_numpy(missed[which]).to(self.weight.dtype).unsqueeze(1)
        gap = torch.from_numpy(len(self.rates) - last).unsqueeze(1)
        scale = torch.from_numpy(self.group["eps"] * np.sqrt(1 - beta2 ** last.astype(np.float64))).unsqueeze(
            1
        )
        mean, square = state["exp_avg"][rows], state["exp_avg_sq"][rows]
        step = mean / (square.sqrt() + scale.to(mean.dtype)) * factor
        decays = [torch.pow(torch.tensor(beta, dtype=torch.float64), gap) for beta in (beta1, beta2)]
        return (
            self.weight[rows] - step,
            mean * decays[0].to(mean.dtype),
            square * decays[1].to(mean.dtype),
        )

    @torch.no_grad()
    def _catch_up(self, rows: Tensor) -> None:
        rows = self._pending(rows)
        if len(rows):
            state = self._moments()
            self.weight[rows], state["exp_avg"][rows], state["exp_avg_sq"][rows] = self._moved(rows)
            self.last[rows] = len(self.rates)

    def _before_reading(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        self._catch_up(torch.unique(args[0]))

    @torch.no_grad()
    def _in_state_dict(self, module: Any, state: dict[str, Any], prefix: str, metadata: Any) -> None:
        """All rows moved, in a copy: a run goes on alike whether or not somebody looked."""
        rows = self._pending(torch.arange(len(self.weight)))
        if len(rows):
            weight = self.weight.detach().clone()
            weight[rows] = self._moved(rows)[0]
            state[f"{prefix}weight"] = weight

    def _replaced(self, module: Any, keys: Any) -> None:
        """Other weights were loaded: no row of them has missed a step."""
        self.last.clamp_(max=0)

    def _place(self) -> int:
        """Of the embedding among the parameters, as `state_dict` counts them."""
        parameters = [parameter for group in self.param_groups for parameter in group["params"]]
        return next(place for place, parameter in enumerate(parameters) if parameter is self.weight)

    def state_dict(self) -> dict[str, Any]:
        """Of the embedding only the rows that were ever touched: the others have no momentum, and are in the
        weights."""
        self._moments()
        whole, place = super().state_dict(), self._place()
        rows = torch.nonzero(self.last).flatten()
        own = {name: value[rows] if value.dim() else value for name, value in whole["state"][place].items()}
        lazy = {
            "rates": torch.tensor(self.rates, dtype=torch.float64),
            "rows": rows,
            "last": self.last[rows],
            "weight": self.weight.detach()[rows],
        }
        return {**whole, "state": {**whole["state"], place: own}, "lazy": lazy}

    @torch.no_grad()
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        given = dict(state_dict)
        lazy = given.pop("lazy", None)
        if lazy is None:  # the state of an AdamW that has moved all rows in every step
            super().load_state_dict(given)
            state = self._moments()
            self.rates = [float(self.group["lr"])] * int(state["step"])
            self.last.copy_(state["exp_avg_sq"].any(dim=1) * len(self.rates))
            return
        rows, place = lazy["rows"], self._place()
        own = {
            name: torch.zeros_like(self.weight).index_copy_(0, rows, value.to(self.weight))
            if value.dim()
            else value
            for name, value in given["state"][place].items()
        }
        super().load_state_dict({**given, "state": {**given["state"], place: own}})
        self.rates = lazy["rates"].tolist()
        self.last.zero_()
        self.last[rows] = lazy["last"]
        self.weight[rows] = lazy["weight"].to(self.weight)

    @torch.no_grad()
    def finish(self) -> None:
        """Move all rows, and let the embedding be what it was."""
        self._catch_up(torch.arange(len(self.weight)))
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self.embedding.sparse = False


def missed_steps(
    rates: NDArray[np.float64], starts: NDArray[np.int64], beta1: float, beta2: float
) -> NDArray[np.float64]:
    """Σ_u η_u (β1/√β2)^(u−s) √(1−β2^u) / (1−β1^u) over the steps u = s+1 .. t, for every start s.

    >>> missed_steps(np.array([0.1, 0.1]), np.array([1]), 0.5, 0.64).round(4).tolist()
    [0.064]

    which is 0.1 · (0.5 / 0.8) · √(1 − 0.64²) / (1 − 0.5²).
    """
    step = starts[:, None] + np.arange(1, WINDOW + 1)[None, :]
    known = step <= len(rates)
    u = np.minimum(step, len(rates)).astype(np.float64)
    shrinking = (beta1 / beta2**0.5) ** np.arange(1, WINDOW + 1)
    terms = rates[u.astype(np.int64) - 1] * shrinking * np.sqrt(1 - beta2**u) / (1 - beta1**u)
    return np.asarray(np.where(known, terms, 0.0).sum(axis=1), dtype=np.float64)


def lazy_embedding(model: Any, *, processes: int, accumulation: int) -> nn.Embedding | None:
    """The embedding whose rows can wait, or None: it must be large, trained, and nobody else's weight.

    With several processes, or several micro-batches per step, gradients are added up dense.
    """
    if processes != 1 or accumulation != 1 or not hasattr(model, "get_input_embeddings"):
        return None
    try:
        embedding = model.get_input_embeddings()
    except NotImplementedError:  # networks of images
        return None
    if (
        not isinstance(embedding, nn.Embedding)
        or embedding.max_norm is not None
        or embedding.scale_grad_by_freq
    ):
        return None
    weight = embedding.weight
    if not weight.requires_grad or weight.numel() < LEAST_ELEMENTS or weight.device.type != "cpu":
        return None
    holders = [m for m in model.modules() if any(p is weight for p in m.parameters(recurse=False))]
    return embedding if holders == [embedding] else None
