"""`--evaluate-every N`: which epochs are evaluated on the validation rows.

With few training rows and many epochs the evaluations are most of a run. Only epochs that were evaluated can
be selected.
"""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback


class EvaluationEpochs(TrainerCallback):
    """Leaves out the evaluation after every epoch but each N-th and the last."""

    def __init__(self, every: int) -> None:
        self.every = every

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        is_last = state.global_step >= state.max_steps
        if not is_evaluated(round(state.epoch), self.every) and not is_last:
            control.should_evaluate = False


def is_evaluated(epoch: int, every: int) -> bool:
    """Whether an epoch, counted from 1, is one of those in between.

    >>> [epoch for epoch in range(1, 8) if is_evaluated(epoch, 3)]
    [3, 6]
    """
    return epoch % every == 0
