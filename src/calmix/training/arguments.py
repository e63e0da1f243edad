"""`MixupArguments`: the arguments of `transformers.Trainer`, and those that mixup adds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from transformers import TrainingArguments

from calmix.mixing.method import Method, get_method
from calmix.training.configuration import check_distillation
from calmix.user_error import UserError

DYNAMICS = ("training", "epoch_end", "off")


@dataclass
class MixupArguments(TrainingArguments):
    """Any `transformers.TrainingArguments` field, and:

    method: the name of a method (`calmix.list_methods()`), and `method_options` its options.
    dynamics: when the training dynamics are recorded. "training": from the forward passes of training,
        free of cost; "epoch_end": from an extra pass in evaluation mode after every epoch, which costs about
        a third more; "off".
    length_buckets: batches of rows of similar length, so that little is padded.
    tau, hard_weight: of a student (`MixupTrainer(..., teacher=...)`): the temperature of both in the
        distillation loss, and α, the weight of the method's own loss; 1 − α is the teacher's.
    checkpoint_steps, checkpoint_minutes: save a checkpoint for `--resume` this often, in mid-epoch too.

    `label_smoothing_factor` is torch's form; the papers' form is the method option `label_smoothing`.
    """

    method: str = field(default="plain", metadata={"help": "The name of the method."})
    method_options: dict[str, Any] | str | None = field(
        default=None, metadata={"help": "The options of the method."}
    )
    dynamics: str = field(default="training", metadata={"help": "training, epoch_end or off."})
    length_buckets: bool = field(default=True, metadata={"help": "Batches of rows of similar length."})
    tau: float = field(default=1.0, metadata={"help": "Temperature of the distillation loss."})
    hard_weight: float = field(default=0.5, metadata={"help": "Weight of the labels beside a teacher."})
    checkpoint_steps: int | None = field(default=None, metadata={"help": "Steps between checkpoints."})
    checkpoint_minutes: float | None = field(default=None, metadata={"help": "Minutes between checkpoints."})

    # One kernel for the whole update: about a tenth faster on a CPU, more on a GPU.
    optim: str = field(default="adamw_torch_fused", metadata={"help": "The optimiser."})
    report_to: str | list[str] | None = field(default="none", metadata={"help": "Trackers to report to."})

    def __post_init__(self) -> None:
        super().__post_init__()  # type: ignore[no-untyped-call]
        if self.dynamics not in DYNAMICS:
            raise UserError(f"dynamics is {self.dynamics!r}", remedy=f"choose one of {', '.join(DYNAMICS)}")
        if self.label_smoothing_factor:
            raise UserError(
                "label_smoothing_factor is torch's form of label smoothing, not the papers'",
                remedy="use the method option label_smoothing (ε off the true class, ε/(C-1) to each other)",
            )
        check_distillation(self.tau, self.hard_weight)
        self.build_method()  # a wrong name or option fails here, not after the data is read

    def build_method(self) -> Method:
        options = self.method_options or {}
        assert isinstance(options, dict)
        return get_method(self.method, **options)
