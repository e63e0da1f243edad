"""The Trainer side of class weights and balanced sampling."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calmix.calibration.input_checks import check_probabilities, check_weights
from calmix.data.batches.grouped import RowGroups
from calmix.data.batches.sampler import EpochBatchSampler
from calmix.data.batches.unlabelled import labelled_count
from calmix.mixing.target_mass import TargetMass
from calmix.runtime.option_values import NATURAL, NONE
from calmix.training.arguments import MixupArguments
from calmix.training.hf_compat import TrainerBase
from calmix.training.recording import count_classes, label_column
from calmix.training.targets.class_weights import ClassBalance
from calmix.training.targets.prior_correction import check_correctable
from calmix.user_error import UserError, argument


class TargetsMixin(TrainerBase):
    """Mixin: how the classes of the training rows are weighed and drawn."""

    args: MixupArguments
    row_weights: ArrayLike | None = None
    soft_labels: ArrayLike | None = None

    @cached_property
    def balance(self) -> ClassBalance | None:
        """What `class_weights` and `sampling` ask for; None where all rows count alike."""
        asked = (str(self.args.class_weights), str(self.args.sampling))
        if asked == (NONE, NATURAL) or self.train_dataset is None:
            return None
        model: Any = self.model
        check_correctable(model)
        labels = label_column(self.train_dataset)
        if labels is None or labelled_count(labels) < len(labels):
            raise UserError(
                f"{argument('class_weights')} and {argument('sampling')} need a class index for every "
                "training row",
                remedy="leave them out",
            )
        names = [str(name) for name in model.config.id2label.values()]
        return ClassBalance.of(*asked, np.bincount(labels, minlength=len(names)).astype(np.int64), names)

    @property
    def prior_shift(self) -> Any:
        """What class weights and sampling add to the logits of every class; 0 without them."""
        return 0.0 if self.balance is None else self.balance.shift().astype(np.float32)

    @cached_property
    def target_mass(self) -> TargetMass | None:
        """Weights and soft labels of the training rows; None where there are none of either."""
        weights = None if self.balance is None else self.balance.class_weights
        if weights is None and self.row_weights is None and self.soft_labels is None:
            return None
        rows: Any = self.train_dataset
        classes = count_classes(self.model, rows)
        given = None
        if self.row_weights is not None:
            given = checked_weights(self.row_weights, len(rows))
        soft = None
        if self.soft_labels is not None:
            soft = checked_soft_labels(self.soft_labels, len(rows), classes)
        return TargetMass(classes, weights, given, soft)

    def make_batches(self) -> EpochBatchSampler:
        """Every batch holds its share of every class where sampling is balanced; an epoch stays as long."""
        batches: EpochBatchSampler = super().make_batches()  # type: ignore[misc]
        if self.balance is None or self.balance.sampling_ratios is None:
            return batches
        labels = label_column(self.train_dataset)
        assert labels is not None
        classes = np.unique(labels)
        groups = RowGroups(
            tuple(f"class {label}" for label in classes),
            tuple(np.flatnonzero(labels == label) for label in classes),
            cover="even",
        )
        return replace(batches, groups=groups, rows=groups.rows_per_epoch)

    def check_balance(self, groups: RowGroups | None, *, is_taught: bool = False) -> None:
        """Refuse what the correction would not hold for, or what others decide."""
        if is_taught and self.row_weights is not None:
            raise UserError(
                f"{argument('weight_column')} with a teacher: only the loss of the labels would be weighted",
                remedy="leave the weights out",
            )
        if self.balance is None:
            return
        if is_taught:
            raise UserError(
                f"{argument('class_weights')} and {argument('sampling')} with a teacher: its part of the "
                "loss keeps the natural prior, so that no shift of the logits corrects the sum",
                remedy="weigh the classes of the teacher, or leave the weights out",
            )
        if groups is not None and self.balance.sampling_ratios is not None:
            raise UserError(
                f"{argument('sampling', 'balanced')}: this method composes its batches itself",
                remedy=f"use {argument('class_weights', 'balanced')}",
            )


def checked_weights(weights: ArrayLike, rows: int) -> NDArray[np.float64]:
    """Weights of training rows, scaled to a mean of 1.

    >>> checked_weights([1.0, 3.0], 2).tolist()
    [0.5, 1.5]
    """
    try:
        known = check_weights(weights, rows=rows)
    except ValueError as error:
        raise UserError(f"row_weights: {error}", remedy="give every row a number of 0 or more") from None
    assert known is not None
    return np.asarray(known / known.mean(), dtype=np.float64)


def checked_soft_labels(labels: ArrayLike, rows: int, classes: int) -> NDArray[np.float64]:
    """Distributions, one for each training row, that sum to 1 exactly.

    >>> checked_soft_labels([[0.2, 0.8005]], 1, 2).sum()
    np.float64(1.0)
    """
    try:
        known = check_probabilities(labels).astype(np.float64)
    except ValueError as error:
        raise UserError(f"soft_labels: {error}", remedy="give one distribution a row") from None
    if known.shape != (rows, classes):
        raise UserError(
            f"soft_labels of the shape {known.shape} for {rows} rows of {classes} classes",
            remedy="give one distribution a row",
        )
    return np.asarray(known / known.sum(axis=1, keepdims=True), dtype=np.float64)
