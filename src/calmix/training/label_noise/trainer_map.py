"""What a guided `MixupTrainer` must know, from a plain one: the data map, and a filter of doubtful labels.

def make_model(classes):
    return AutoModelForSequenceClassification.from_pretrained("bert-base-uncased", num_labels=classes)

plain = MixupTrainer(model=make_model(2), args=MixupArguments("plain"), train_dataset=train, ...)
plain.train()
known = filtered_data_map(plain, make_model)
guided = MixupTrainer(
    model=make_model(2), args=MixupArguments("guided", method="tdmixup"), train_dataset=train, ...,
    data_map=known,
)
guided.train()
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from calmix.data.batches.sampler import row_lengths
from calmix.dynamics.datamap import DataMap
from calmix.dynamics.label_noise import order_statistic, plan_threshold_samples, threshold_filter
from calmix.mixing.known_rows import KnownRows, LabelFilter, Positions
from calmix.models.hf_compat import is_multiple_choice
from calmix.runtime.progress import Progress, quiet
from calmix.training.label_noise.threshold_passes import untouched_generators
from calmix.training.recording import label_column
from calmix.training.trainer import MixupTrainer
from calmix.user_error import UserError


def filtered_data_map(plain: MixupTrainer, make_model: Callable[[int], Any]) -> KnownRows:
    """The data map of a trained plain `MixupTrainer`, for `MixupTrainer(..., data_map=...)`; methods that
    filter labels, such as `tdmixup`, train their threshold passes with it.

    make_model: a fresh network with the given number of classes. A pass has one class more than the task, for
    the rows with a label that is certainly wrong, and the data and arguments of `plain`.
    """
    if plain.method.name != "plain" or plain.args.label_smoothing_factor:
        # The margin of a mixed or smoothed target is not that of the label.
        raise UserError(
            f"the data map is that of plain training, not of {plain.method.name}",
            remedy='train with MixupArguments(method="plain"), without label smoothing',
        )
    recorder = plain.merged_recorder()
    if recorder is None or not plain.state.global_step:
        raise UserError(
            "this trainer has recorded no dynamics",
            remedy='call train() first, with MixupArguments(dynamics="training") and integer labels',
        )

    def filter_labels(positions: Positions, rule: LabelFilter) -> Positions:
        return positions[kept_labels(plain, make_model, positions, rule)]

    return KnownRows(DataMap.from_recorder(recorder), plain.args.seed, filter_labels)


@untouched_generators()
def kept_labels(
    plain: MixupTrainer, make_model: Callable[[int], Any], positions: Positions, rule: LabelFilter
) -> NDArray[np.bool_]:
    """Which of the rows stand the test of threshold passes on these rows alone."""
    labels = label_column(plain.train_dataset)
    assert labels is not None
    plan = plan_threshold_samples(
        labels[positions],
        plain.num_classes,
        seed=plain.args.seed,
        runs=rule.passes,
        task="choice" if is_multiple_choice(plain.model) else "single",
    )
    if not any(order_statistic(rule.percentile, int(run.threshold.sum())) for run in plan.runs):
        return np.ones(len(positions), dtype=np.bool_)  # too few rows for a test
    margins = []
    for number, run in enumerate(plan.runs, start=1):
        torch.manual_seed(plain.args.seed)
        rows = RelabelledRows(plain.train_dataset, positions, run.labels)
        title = f"threshold pass {number} of {len(plan.runs)}"
        margins.append(margins_of_pass(plain, make_model(run.num_classes), rows, title))
    verdict = threshold_filter(margins, plan.runs, k=rule.percentile)
    return verdict.kept | verdict.unscored if rule.unscored == "keep" else verdict.kept


def margins_of_pass(plain: MixupTrainer, model: Any, rows: RelabelledRows, title: str) -> NDArray[np.float64]:
    """The AUM of every row against the label it has in this pass."""
    with tempfile.TemporaryDirectory(prefix="calmix-pass-") as place:
        arguments = dataclasses.replace(
            plain.args,
            output_dir=place,
            dynamics="training",
            eval_strategy="no",
            save_strategy="no",
            load_best_model_at_end=False,
            checkpoint_steps=None,
            checkpoint_minutes=None,
            report_to="none",
        )
        trainer = MixupTrainer(
            model=model,
            args=arguments,
            train_dataset=rows,
            data_collator=plain.data_collator,
            processing_class=plain.processing_class,
        )
        quiet(trainer)
        if not plain.args.disable_tqdm:
            trainer.add_callback(Progress(title))
        trainer.train()
    recorder = trainer.merged_recorder()
    assert recorder is not None
    return DataMap.from_recorder(recorder).aum


@dataclass
class RelabelledRows:
    """Some rows of a dataset under other labels."""

    rows: Any
    positions: Positions
    labels: NDArray[np.int64]

    def __post_init__(self) -> None:
        lengths = row_lengths(self.rows)
        self.lengths = None if lengths is None else lengths[self.positions]

    def __len__(self) -> int:
        return len(self.positions)

    def __getitem__(self, position: int) -> dict[str, Any]:
        row = dict(self.rows[int(self.positions[position])])
        for name in ("label", "label_ids"):
            row.pop(name, None)
        return {**row, "labels": int(self.labels[position])}
