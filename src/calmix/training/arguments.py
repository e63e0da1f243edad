"""`MixupArguments`: the arguments of `transformers.Trainer`, and those that mixup adds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from transformers import TrainingArguments

from calmix.mixing.method import Method, get_method
from calmix.runtime.hardware import has_accelerator
from calmix.training.configuration import OPTIONS
from calmix.training.optimization.mixin import read_optimizer
from calmix.training.optimization.options import read_schedule
from calmix.user_error import UserError


@dataclass
class MixupArguments(TrainingArguments):
    """Any `transformers.TrainingArguments` field, and:

    method: the name of a method (`calmix.list_methods()`), and `method_options` its options.
    dynamics: when the training dynamics are recorded. "training": from the forward passes of training,
        free of cost; "epoch_end": from an extra pass in evaluation mode after every epoch, which costs about
        a third more; "off".
    precision: of an encoder's layers in training. "auto": bfloat16 where the processor has instructions for
        it and the encoder is wide enough; "float32"; "bfloat16". Everything else stays in float32; `bf16` is
        the Trainer's own mixed precision, for the whole network.
    length_buckets: batches of rows of similar length, so that little is padded.
    optimizer, schedule: NAME:OPTION=VALUE in place of the Trainer's own, for example
        "sgd:momentum=0.9:weight_decay=5e-4" and "step:epochs=[60,120,160]:factor=0.5".
    distill_temperature, label_weight: of a student (`MixupTrainer(..., teacher=...)`): the temperature of
        both in the distillation loss, and α, the weight of the method's own loss; 1 − α is the teacher's.
    class_weights, sampling: "balanced" or "NAME=WEIGHT,...", and "balanced": how classes are weighed and
        drawn. `save_calibrated` takes the shift of the prior out of the head again.
    checkpoint_steps, checkpoint_minutes: save a checkpoint for `--resume` this often, in mid-epoch too.

    `label_smoothing_factor` is torch's form; the papers' form is the method option `label_smoothing`.
    """

    method: str = field(default="plain", metadata={"help": "The name of the method."})
    method_options: dict[str, Any] | str | None = field(
        default=None, metadata={"help": "The options of the method."}
    )
    dynamics: str = field(default="training", metadata={"help": "training, epoch_end or off."})
    precision: str = field(default="auto", metadata={"help": "Of the layers: auto, float32 or bfloat16."})
    length_buckets: bool = field(default=True, metadata={"help": "Batches of rows of similar length."})
    distill_temperature: float = field(
        default=1.0, metadata={"help": "Temperature of the distillation loss."}
    )
    label_weight: float = field(default=0.5, metadata={"help": "Weight of the labels beside a teacher."})
    class_weights: str = field(default="none", metadata={"help": "balanced, none or NAME=WEIGHT,..."})
    sampling: str = field(default="natural", metadata={"help": "natural or balanced."})
    checkpoint_steps: int | None = field(default=None, metadata={"help": "Steps between checkpoints."})
    checkpoint_minutes: float | None = field(default=None, metadata={"help": "Minutes between checkpoints."})
    optimizer: str | None = field(default=None, metadata={"help": "NAME:OPTION=VALUE, see optimization."})
    schedule: str | None = field(default=None, metadata={"help": "NAME:OPTION=VALUE, see optimization."})

    # One kernel for the whole update: about a tenth faster on a CPU, more on a GPU.
    optim: str = field(default="adamw_torch_fused", metadata={"help": "The optimiser."})
    report_to: str | list[str] | None = field(default="none", metadata={"help": "Trackers to report to."})

    def __post_init__(self) -> None:
        # Without this, processes that torchrun starts on CPUs do not find each other: each would train the
        # whole run on its own, in the same directory.
        self.use_cpu = self.use_cpu or not has_accelerator()
        super().__post_init__()  # type: ignore[no-untyped-call]
        if self.label_smoothing_factor:
            raise UserError(
                "label_smoothing_factor is torch's form of label smoothing, not the papers'",
                remedy="use the method option label_smoothing (ε off the true class, ε/(C-1) to each other)",
            )
        if self.optimizer is not None:
            read_optimizer(self.optimizer)
        if self.schedule is not None:
            read_schedule(self.schedule)
        checked = ("dynamics", "precision", "distill_temperature", "label_weight", "checkpoint_steps")
        for name in (*checked, "class_weights", "sampling"):
            setattr(self, name, OPTIONS[name].check(getattr(self, name)))
        self.build_method()  # a wrong name or option fails here, not after the data is read

    def build_method(self) -> Method:
        options = self.method_options or {}
        assert isinstance(options, dict)
        return get_method(self.method, **options)


def as_numbers(settings: Mapping[str, Any]) -> dict[str, Any]:
    """YAML reads 1e-2 as text; a field that takes a number gets one.

    >>> as_numbers({"weight_decay": "1e-2", "optim": "sgd"})
    {'weight_decay': 0.01, 'optim': 'sgd'}
    """
    kinds = {field.name: field.type for field in fields(MixupArguments)}
    for name, value in settings.items():
        if kinds.get(name) is bool and not isinstance(value, bool):
            raise UserError(f"trainer: {name} is {value!r}", remedy="give true or false")
    return {
        name: float(value) if isinstance(value, str) and "float" in str(kinds.get(name, "")) else value
        for name, value in settings.items()
    }
