"""What every calibrator shares: scikit-learn's contract on logits, the registry, saving and loading.

A calibrator is fitted on held-out logits and maps logits to calibrated logits:

    calibrator = get_calibrator("temperature").fit(logits, labels)
    calibrator.transform(logits)        # calibrated logits, float64
    calibrator.predict_proba(logits)    # softmax of them
    calibrator.save(directory)          # calibrator.json + calibrator.safetensors

An array is always taken as logits. `Predictions` know what they are: in their place, probabilities are turned
into logits by their logarithm, and labels come along: `get_calibrator("vector").fit(predictions)`.

Labels are class indices 0..C-1. Inputs of any float type are computed in float64.
"""

from __future__ import annotations

import difflib
import importlib
import json
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from calmix.calibration.input_checks import Floats, Integers, check_labels, check_logits, check_weights
from calmix.calibration.metrics.scores import negative_log_likelihood
from calmix.calibration.predictions import Predictions
from calmix.io.replacing import as_umask_says, replacing
from calmix.io.run_directory import write_json
from calmix.user_error import UserError

FORMAT = "calmix-calibrator"
MOST_CLASSES = 1_000_000
FORMAT_VERSION = 1
FACTS_FILE = "calibrator.json"
ARRAYS_FILE = "calibrator.safetensors"

# Name -> (module, class): the modules load on demand.
CALIBRATORS = {
    "temperature": ("calmix.calibration.calibrators.temperature", "TemperatureScaling"),
    "temperature-bias": ("calmix.calibration.calibrators.biased", "BiasedTemperature"),
    "vector": ("calmix.calibration.calibrators.vector", "VectorScaling"),
    "structured": ("calmix.calibration.calibrators.structured", "StructuredScaling"),
    "platt": ("calmix.calibration.calibrators.platt", "PlattScaling"),
    "isotonic": ("calmix.calibration.calibrators.isotonic", "IsotonicCalibration"),
    "shrunk": ("calmix.calibration.calibrators.shrunk", "ShrunkScaling"),
    "auto": ("calmix.calibration.calibrators.auto", "AutoScaling"),
}


Scores = npt.ArrayLike | Predictions
"""Logits [n, C] as an array, or predictions of either kind."""


class Calibrator(
    OneToOneFeatureMixin,  # type: ignore[misc]  # scikit-learn has no types
    ClassifierMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
    ABC,
):
    """Base of the calibrators; subclasses give `_fit` and `transform`.

    Attributes after `fit`: `classes_` (0..C-1), `n_features_in_` (C), `nll_before_` and `nll_after_` (mean
    negative log-likelihood of the fitting data, without and with the calibrator).
    """

    kind: ClassVar[str]

    classes_: Integers
    n_features_in_: int
    nll_before_: float
    nll_after_: float

    @property
    def folds(self) -> bool:
        """True where the calibrated logits are an affine map of the logits: it folds into a linear head."""
        return True

    def fit(
        self, X: Scores, y: npt.ArrayLike | None = None, sample_weight: npt.ArrayLike | None = None
    ) -> Self:
        """Fit on logits [n, C] and class indices [n]; `sample_weight` [n] weighs the rows' losses.

        `X` may be `Predictions`; `y` is then theirs unless it is given, with their weights and soft labels.
        """
        row_of_copy = None
        if isinstance(X, Predictions) and X.is_weighted and y is None and sample_weight is None:
            row_of_copy = None if X.targets is None else X.row_of_copy()
            X, sample_weight = X.weighted_rows()
        if y is None:
            if not isinstance(X, Predictions):
                raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
            y = X.labels
        validate_data(self, _table_of(X), reset=True, skip_check_array=True)
        checked = check_logits(logits_of(X))
        indices = check_labels(y, rows=checked.shape[0], classes=checked.shape[1])
        weights = check_weights(sample_weight, rows=len(checked))
        if weights is not None:
            present = weights > 0  # a row of weight 0 is no row
            checked, indices = checked[present], indices[present]
            weights = weights[present] / weights.sum()
            row_of_copy = None if row_of_copy is None else row_of_copy[present]
        return self.fit_copies(checked, indices, weights, row_of_copy)

    def fit_copies(
        self,
        logits: npt.NDArray[Any],
        labels: Integers,
        weights: Floats | None,
        row_of_copy: Integers | None,
    ) -> Self:
        """`fit` on checked arrays. Weights are positive and sum to one; None is equal weights. A row with a
        soft label is there once for each of its classes: `row_of_copy` says which rows are copies of one."""
        self.n_features_in_ = logits.shape[1]
        self.classes_ = np.arange(logits.shape[1])
        self._fit(logits, labels, weights, row_of_copy)
        return self

    @abstractmethod
    def _fit(
        self,
        logits: npt.NDArray[Any],
        labels: Integers,
        weights: Floats | None,
        row_of_copy: Integers | None,
    ) -> None:
        """Set the fitted attributes, from what `fit_copies` is given."""

    def _record_losses(self, logits: npt.NDArray[Any], labels: Integers, weights: Floats | None) -> None:
        before, after = (
            negative_log_likelihood(scores, labels, from_logits=True, weights=weights)
            for scores in (logits, self._transform(logits.astype(np.float64, copy=False)))
        )
        self.nll_before_, self.nll_after_ = before, after

    @abstractmethod
    def _transform(self, logits: Floats) -> Floats:
        """Calibrated logits of checked ones."""

    def transform(self, X: Scores) -> Floats:
        """Calibrated logits [n, C], whose softmax is `predict_proba`."""
        return self._transform(self._checked(X))

    def predict_proba(self, X: Scores) -> Floats:
        """Calibrated probabilities [n, C]."""
        return np.asarray(softmax(self._transform(self._checked(X)), axis=1))

    def predict(self, X: Scores) -> Integers:
        """The most probable class of every row, the lowest index on ties."""
        return np.asarray(np.argmax(self.predict_proba(X), axis=1))

    def folding(self) -> tuple[float | Floats, float | Floats]:
        """(scale, bias), each one number or one per class: calibrated logits = scale * logits + bias.

        Raises `ValueError` where the calibrator is no such map.
        """
        raise ValueError(f"{self.kind} calibration is no scale and bias per class: it does not fold that way")

    def affine(self) -> tuple[Floats, Floats]:
        """(matrix [C, C], bias [C]): calibrated logits = matrix @ logits + bias.

        A head `logits = W h + c` becomes `(matrix @ W) h + (matrix @ c + bias)`.
        """
        scale, bias = self.folding()
        return scale * np.eye(self.n_features_in_), np.zeros(self.n_features_in_) + bias

    def save(self, directory: str | Path) -> None:
        """Write `calibrator.json` (what it is, how it was fitted) and `calibrator.safetensors` (arrays)."""
        from safetensors.numpy import save_file

        check_is_fitted(self)
        fitted = {name: value for name, value in vars(self).items() if name.endswith("_")}
        fitted.pop("classes_")
        arrays = {name: value for name, value in fitted.items() if isinstance(value, np.ndarray)}
        directory = Path(directory)
        with replacing(directory / ARRAYS_FILE) as fresh:
            save_file({name: np.ascontiguousarray(value) for name, value in arrays.items()}, fresh)
            as_umask_says([fresh])
        facts = {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "kind": self.kind,
            "classes": self.n_features_in_,
            "folds": self.folds,
            "parameters": self.get_params(),
            "fitted": {name: value for name, value in fitted.items() if name not in arrays},
            "arrays": {name: list(value.shape) for name, value in arrays.items()},
        }
        # The JSON goes last: a directory with it is whole.
        write_json(directory / FACTS_FILE, facts)

    def _checked(self, X: Scores) -> Floats:
        """Logits for a fitted calibrator, as float64."""
        check_is_fitted(self)
        checked = check_logits(logits_of(X))
        if checked.shape[1] != self.n_features_in_:
            raise ValueError(
                f"logits of {checked.shape[1]} classes, but the calibrator is fitted on {self.n_features_in_}"
            )
        validate_data(self, _table_of(X), reset=False, skip_check_array=True)
        return checked.astype(np.float64, copy=False)


def logits_of(scores: Scores) -> npt.ArrayLike:
    """Logits: an array as it is, those of predictions, or the logarithms of their probabilities (also where a
    logit of minus infinity rules a class out).

    >>> logits_of(Predictions.from_probabilities([[0.25, 0.75]], [1])).round(4).tolist()
    [[-1.3863, -0.2877]]
    """
    if not isinstance(scores, Predictions):
        return scores
    are_finite = scores.kind == "logits" and bool(np.isfinite(scores.values).all())
    return scores.values if are_finite else scores.log_probabilities()


def _table_of(scores: Scores) -> npt.ArrayLike:
    """What scikit-learn reads the number and the names of the columns from."""
    return scores.values if isinstance(scores, Predictions) else scores


def get_calibrator(name: str, **parameters: Any) -> Calibrator:
    """A fresh calibrator by name.

    >>> get_calibrator("temperature", preset="paper")
    TemperatureScaling(preset='paper')
    >>> get_calibrator("isotonik")
    Traceback (most recent call last):
    calmix.user_error.UserError: unknown calibrator 'isotonik'; did you mean 'isotonic'?
    """
    if name not in CALIBRATORS:
        near = difflib.get_close_matches(name, CALIBRATORS, n=2, cutoff=0.7)
        known = " or ".join(repr(match) for match in near)
        remedy = f"did you mean {known}?" if near else f"choose from: {', '.join(CALIBRATORS)}"
        raise UserError(f"unknown calibrator {name!r}", remedy=remedy)
    module, class_name = CALIBRATORS[name]
    calibrator: Calibrator = getattr(importlib.import_module(module), class_name)(**parameters)
    return calibrator


def chosen_kind(calibrator: Calibrator) -> str:
    """The kind of a fitted calibrator; of one that chooses ("auto"), that of its choice."""
    return str(getattr(calibrator, "chosen_", calibrator.kind))


def load_calibrator(directory: str | Path) -> Calibrator:
    """What `Calibrator.save` wrote."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    facts_file, arrays_file = Path(directory) / FACTS_FILE, Path(directory) / ARRAYS_FILE
    for file in (facts_file, arrays_file):
        if not file.is_file():
            raise UserError("no such file", file=file, remedy="save one with 'calmix calibrate'")
    try:
        facts = json.loads(facts_file.read_text())
    except (ValueError, RecursionError) as error:
        raise UserError(f"not JSON ({error})", file=facts_file) from error
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        raise UserError("not a saved calibrator", file=facts_file, remedy="save it again")
    if facts.get("version") != FORMAT_VERSION:
        raise UserError(
            f"calibrator format {facts.get('version')}, this version reads {FORMAT_VERSION}",
            file=facts_file,
            remedy="save it again or upgrade calmix",
        )
    try:
        _check_facts(facts)
        # JSON has lists alone; parameters that are sequences are tuples.
        parameters = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in facts["parameters"].items()
        }
        calibrator = get_calibrator(facts["kind"], **parameters)
        arrays = load_file(arrays_file)
        found = {name: list(value.shape) for name, value in arrays.items()}
        if found != facts["arrays"]:
            raise UserError(f"arrays {found} where {facts['arrays']} were saved", file=arrays_file)
        for name, value in {**facts["fitted"], **arrays}.items():
            setattr(calibrator, name, value)
        calibrator.classes_ = np.arange(facts["classes"])
        _try(calibrator)
    except SafetensorError as error:
        raise UserError(f"unreadable arrays ({error})", file=arrays_file, remedy="save it again") from error
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise UserError(
            f"incomplete calibrator ({error})", file=facts_file, remedy="save it again"
        ) from error
    return calibrator


def _try(calibrator: Calibrator) -> None:
    """A fitted value that is gone, or is another one, shows at the first rows."""
    rows = min(3, len(calibrator.classes_))
    with np.errstate(all="ignore"):
        found = calibrator.predict_proba(np.eye(rows, len(calibrator.classes_)))
    if not np.isfinite(found).all() or (found < 0).any():
        raise ValueError("it gives probabilities that are none")


def _check_facts(facts: dict[str, Any]) -> None:
    """What is in a file that somebody may have changed: TypeError where it cannot be of a calibrator."""
    for name, kind in (("parameters", dict), ("fitted", dict), ("kind", str), ("classes", int)):
        if not isinstance(facts[name], kind):
            raise TypeError(f"{name} is of the type {type(facts[name]).__name__}")
    if not 2 <= facts["classes"] <= MOST_CLASSES:
        raise TypeError(f"{facts['classes']} classes")
    for name, value in facts["fitted"].items():
        if not name.endswith("_") or name.startswith("_"):  # a method would be replaced
            raise TypeError(f"{name!r} is not a fitted value")
        if name.startswith("is_") and not isinstance(value, bool):
            raise TypeError(f"{name} is {value!r:.60}")
