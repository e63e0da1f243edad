"""Optimisers and schedules beside those of the Trainer: what papers on image networks and text CNNs use.

    --optimizer sgd:momentum=0.9:weight_decay=5e-4     SGD with Nesterov momentum
    --optimizer adadelta:rho=0.95:eps=1e-6
    --schedule step:epochs=[60,120,160]:factor=0.5     the rate is halved after 60, 120 and 160 epochs
    --schedule step                                    the same at 30, 60 and 80 % of training
    --schedule constant

All parameters decay alike, as they do in those papers; the Trainer's own optimiser spares biases and norms.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR, LRScheduler
from transformers import TrainerCallback

from calmix.training.hf_compat import ClippingMixin, set_own_scheduler
from calmix.training.optimization.lazy_embeddings import LazyAdamW, lazy_embedding
from calmix.training.optimization.options import parse_optimizer, read_schedule
from calmix.user_error import UserError, argument

OPTIMIZERS = {"sgd": torch.optim.SGD, "adadelta": torch.optim.Adadelta, "adamw": torch.optim.AdamW}


def read_optimizer(text: str) -> tuple[Any, dict[str, Any]]:
    """The class of an optimiser and its options.

    >>> read_optimizer("sgd:momentum=0.5")
    (<class 'torch.optim.sgd.SGD'>, {'momentum': 0.5, 'nesterov': True, 'weight_decay': 0.0})
    """
    name, options = parse_optimizer(text)
    made: Any = OPTIMIZERS[name]
    try:
        made([torch.zeros(1, requires_grad=True)], lr=0.1, **options)
    except (TypeError, ValueError) as error:
        raise UserError(f"{argument('optimizer', text)}: {error}") from None
    return made, options


class OptimizerMixin(ClippingMixin):
    """Mixin for a Trainer whose arguments may name an `optimizer` and a `schedule`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.add_callback(NormCap())

    def create_optimizer(self, model: nn.Module | None = None) -> torch.optim.Optimizer:
        named = getattr(self.args, "optimizer", None)
        if named is None and self.optimizer is None and (embedding := self.lazy_embedding()) is not None:
            settings = self.get_optimizer_cls_and_kwargs(self.args, self.model)[1]  # type: ignore[arg-type]
            self.optimizer_cls_and_kwargs = (LazyAdamW, {**settings, "embedding": embedding})
            lazy: Any = super().create_optimizer(model)
            self.optimizer_cls_and_kwargs = None
            self.add_callback(FinishLazy(lazy))
            return lazy  # type: ignore[no-any-return]
        if named is None or self.optimizer is not None:
            return super().create_optimizer(model)
        made, options = read_optimizer(named)
        of: Any = self.model if model is None else model
        trained = [parameter for parameter in of.parameters() if parameter.requires_grad]
        self.optimizer = made(trained, lr=self.args.learning_rate, **options)
        return self.optimizer

    def lazy_embedding(self) -> nn.Embedding | None:
        """The word embeddings, where the Trainer's own optimiser is an AdamW that can leave absent words
        alone."""
        args: Any = self.args
        named = getattr(args.optim, "value", args.optim)
        is_adamw = named in ("adamw_torch", "adamw_torch_fused") and not args.optim_args
        if not is_adamw or args.weight_decay or args.fp16 or not args.max_grad_norm > 0 or args.torch_compile:
            return None
        if self.optimizer_cls_and_kwargs is not None or args.deepspeed or args.fsdp:
            return None
        if not self.clips_chosen_parameters():
            return None
        model = self.accelerator.unwrap_model(self.model)
        return lazy_embedding(model, processes=args.world_size, accumulation=args.gradient_accumulation_steps)

    def clipped_parameters(self, model: nn.Module) -> Iterable[nn.Parameter] | None:
        optimizer: Any = getattr(self.optimizer, "optimizer", self.optimizer)
        return optimizer.clippable(model.parameters()) if isinstance(optimizer, LazyAdamW) else None

    def create_scheduler(
        self, num_training_steps: int, optimizer: torch.optim.Optimizer | None = None
    ) -> LRScheduler:
        named = getattr(self.args, "schedule", None)
        if named is None or self.lr_scheduler is not None:
            return super().create_scheduler(num_training_steps, optimizer)
        schedule, per_epoch = read_schedule(named), self.steps_per_epoch  # type: ignore[attr-defined]
        chosen = self.optimizer if optimizer is None else optimizer
        assert chosen is not None
        factors = LambdaLR(chosen, lambda step: schedule(step / per_epoch, num_training_steps / per_epoch))
        return set_own_scheduler(self, factors)


class FinishLazy(TrainerCallback):
    """After training all embeddings are up to date, and the network is an ordinary one."""

    def __init__(self, optimizer: LazyAdamW) -> None:
        self.lazy = optimizer

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.lazy.finish()


class NormCap(TrainerCallback):
    """Holds the output weights of a network that caps them (`cap_output_norms`) after every step."""

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        model: Any = kwargs.get("model")
        model = getattr(model, "module", model)
        if hasattr(model, "cap_output_norms"):
            model.cap_output_norms()
