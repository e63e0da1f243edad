"""A scale and a bias for every label, fitted on held-out rows.

    platt          sigmoid(a_k z_k + b_k)    the logistic regression of label k on its own logit
    temperature    sigmoid(a_k z_k)          a_k = 1 / T_k

Both fold into a linear head: row k of the weight times a_k, its bias times a_k plus b_k. Every label is
fitted by `PlattScaling` or `TemperatureScaling`, as a problem of two classes.

A label that fewer than five rows have, or lack, cannot be fitted: it stays as it is. A scale is at least
0.01, so that the ranking of the rows never turns around: where the logits say nothing about a label, the
calibrated probability is nearly its share of the rows.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from calmix.calibration.calibrators.folds import FOLDS, fold_of_row
from calmix.calibration.calibrators.platt import PlattScaling
from calmix.calibration.calibrators.temperature import HIGHEST_TEMPERATURE, TemperatureScaling
from calmix.calibration.class_names import listed
from calmix.calibration.held_out import FEWEST_ROWS
from calmix.calibration.input_checks import Floats
from calmix.calibration.multi_label.multi_label_predictions import (
    MultiLabelPredictions,
    check_label_scores,
)
from calmix.io.run_directory import write_json
from calmix.user_error import UserError

Scaling = Literal["platt", "temperature"]
SCALINGS = ("platt", "temperature")
FILE, FORMAT = "calibrator.json", "calmix-label-scaling"
# Rows with a label, and without it, that a fit needs.
FEWEST = 5
SMALLEST_SCALE = 1 / HIGHEST_TEMPERATURE


class LabelScaling(
    OneToOneFeatureMixin,  # type: ignore[misc]  # scikit-learn has no types
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """Scikit-learn's contract on logits [n, K] and labels [n, K] of 0 and 1.

    `smoothing` is that of `PlattScaling`: it keeps the fit of separable rows finite.

    Attributes after `fit`: `scale_`, `bias_` [K]; `label_names_`; `unfitted_`: labels left as they are;
    `nll_before_`, `nll_after_`: mean log loss of the fitting rows over all labels.

    >>> logits, labels = [[-1.0], [0.5], [0.2], [2.0]] * 5, [[0], [0], [1], [1]] * 5
    >>> fitted = LabelScaling().fit(logits, labels)
    >>> fitted.scale_.shape, fitted.nll_after_ < fitted.nll_before_
    ((1,), True)
    """

    scale_: Floats
    bias_: Floats
    label_names_: tuple[str, ...]
    unfitted_: tuple[str, ...]
    nll_before_: float
    nll_after_: float

    def __init__(self, method: Scaling = "platt", smoothing: bool = True) -> None:
        self.method = method
        self.smoothing = smoothing

    def fit(self, X: npt.ArrayLike | MultiLabelPredictions, y: Any = None) -> Self:
        """`X` may be `MultiLabelPredictions`, which bring their labels along."""
        check_scaling(self.method)
        if not isinstance(X, MultiLabelPredictions):
            if y is None:
                raise ValueError("LabelScaling requires y to be passed, but the target y is None")
            X = MultiLabelPredictions.from_logits(X, y)
        elif y is not None:
            X = MultiLabelPredictions.from_logits(X.log_odds(), y, label_names=X.label_names)
        logits, count = X.log_odds(), X.labels
        self.n_features_in_, self.label_names_ = count, X.label_names
        self.scale_, self.bias_ = np.ones(count), np.zeros(count)
        unfitted = []
        for place in range(count):
            has_it = X.targets[:, place]
            if min(has_it.sum(), (~has_it).sum()) < FEWEST:
                unfitted.append(X.label_names[place])
            else:
                self.scale_[place], self.bias_[place] = self._fit_label(logits[:, place], has_it)
        self.unfitted_ = tuple(unfitted)
        self.nll_before_ = float(X.log_losses().mean())
        self.nll_after_ = float(X.scaled(self.scale_, self.bias_).log_losses().mean())
        if unfitted:
            warnings.warn(
                f"labels that fewer than {FEWEST} of the fitting rows have, or lack, stay as they are: "
                f"{listed(unfitted)}",
                stacklevel=2,
            )
        if silent := [
            name for name, scale in zip(X.label_names, self.scale_, strict=True) if _is_least(scale)
        ]:
            warnings.warn(
                f"the logits say nothing about these labels of the fitting rows: {listed(silent)}; their "
                "probabilities are nearly the same for all rows",
                stacklevel=2,
            )
        return self

    def _fit_label(self, logits: Floats, has_it: npt.NDArray[np.bool_]) -> tuple[float, float]:
        both, labels = np.stack([np.zeros_like(logits), logits], axis=1), has_it.astype(np.int64)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of bounds, label by label
            if self.method == "temperature":
                return 1 / TemperatureScaling().fit(both, labels).temperature_, 0.0
            fitted = PlattScaling(smoothing=self.smoothing).fit(both, labels)
        if fitted.slope_ >= SMALLEST_SCALE:
            return fitted.slope_, fitted.intercept_
        return SMALLEST_SCALE, _intercept(SMALLEST_SCALE * logits, float(has_it.mean()))

    def transform(self, X: npt.ArrayLike | MultiLabelPredictions) -> Floats:
        """Calibrated logits [n, K], whose sigmoid is `predict_proba`."""
        check_is_fitted(self)
        given = (
            X.log_odds()
            if isinstance(X, MultiLabelPredictions)
            else check_label_scores(np.asarray(X), "logits")
        )
        if given.shape[1] != self.n_features_in_:
            raise ValueError(
                f"logits of {given.shape[1]} labels, but the scaling is fitted on {self.n_features_in_}"
            )
        return np.asarray(given.astype(np.float64) * self.scale_ + self.bias_)

    def predict_proba(self, X: npt.ArrayLike | MultiLabelPredictions) -> Floats:
        return np.asarray(np.exp(-np.logaddexp(0.0, -self.transform(X))))

    def calibrate(self, predictions: MultiLabelPredictions) -> MultiLabelPredictions:
        """The calibrated predictions; labels are matched by name, and keep their order."""
        check_is_fitted(self)
        matched = predictions.with_label_order(self.label_names_).scaled(self.scale_, self.bias_)
        return matched.with_label_order(predictions.label_names)

    def facts(self) -> dict[str, Any]:
        """Ready for JSON."""
        check_is_fitted(self)
        names = self.label_names_
        return {
            "method": self.method,
            "scale": dict(zip(names, self.scale_.tolist(), strict=True)),
            "bias": dict(zip(names, self.bias_.tolist(), strict=True)),
            "unfitted_labels": list(self.unfitted_),
        }

    def save(self, directory: str | Path) -> None:
        """Write `calibrator.json`."""
        content = {
            "format": FORMAT,
            "version": 1,
            "smoothing": self.smoothing,
            **self.facts(),
            "nll_before": self.nll_before_,
            "nll_after": self.nll_after_,
        }
        write_json(Path(directory) / FILE, content)


def load_label_scaling(directory: str | Path) -> LabelScaling:
    """What `LabelScaling.save` wrote."""
    file = Path(directory) / FILE
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"no saved calibrator ({error})", file=file) from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise UserError("not a calibrator of several labels", file=file, remedy="calibrate again")
    try:
        made = LabelScaling(content["method"], content["smoothing"])
        made.label_names_ = tuple(content["scale"])
        made.scale_ = np.array([float(content["scale"][name]) for name in made.label_names_])
        made.bias_ = np.array([float(content["bias"][name]) for name in made.label_names_])
        made.unfitted_ = tuple(content["unfitted_labels"])
        made.nll_before_, made.nll_after_ = float(content["nll_before"]), float(content["nll_after"])
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"incomplete calibrator ({error})", file=file, remedy="calibrate again") from error
    made.n_features_in_ = len(made.label_names_)
    return made


def check_scaling(method: str) -> None:
    if method not in SCALINGS:
        raise UserError(
            f"{method} calibration is not for several labels per row",
            remedy="use platt (a scale and a bias for every label) or temperature (a scale)",
        )


def cross_validated_labels(
    scaling: LabelScaling, predictions: MultiLabelPredictions
) -> MultiLabelPredictions | None:
    """Every row calibrated by a fit on the other folds; None with too few rows to repeat the fit."""
    if len(predictions) < FEWEST_ROWS:
        return None
    fold = fold_of_row(np.zeros(len(predictions), dtype=np.int64), FOLDS)
    logits = np.empty(predictions.values.shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit that counts has warned already
        for number in range(FOLDS):
            known, left_out = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
            if len(left_out):
                fitted = LabelScaling(scaling.method, scaling.smoothing).fit(predictions.select(known))
                logits[left_out] = fitted.transform(predictions.select(left_out))
    return MultiLabelPredictions.from_logits(
        logits, predictions.targets, ids=predictions.ids, label_names=predictions.label_names
    )


def _is_least(scale: float) -> bool:
    return scale <= SMALLEST_SCALE * (1 + 1e-9)  # 1 / T rounds


def _intercept(offset: Floats, share: float) -> float:
    """b with mean sigmoid(offset + b) = share."""
    from scipy.optimize import brentq

    middle = np.log(share / (1 - share))
    reach = float(np.abs(offset).max()) + 1.0

    def excess(bias: float) -> float:
        return float(np.exp(-np.logaddexp(0.0, -(offset + bias))).mean()) - share

    return float(brentq(excess, middle - reach, middle + reach))
