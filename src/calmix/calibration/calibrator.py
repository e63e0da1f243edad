"""What every calibrator shares: the estimator contract on logits, the registry, saving and loading.

A calibrator is fitted on held-out logits and maps logits to calibrated logits:

    calibrator = get_calibrator("temperature").fit(logits, labels)
    calibrator.transform(logits)        # calibrated logits, float64
    calibrator.predict_proba(logits)    # softmax of them
    calibrator.save(directory)          # calibrator.json + calibrator.safetensors

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
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from calmix.calibration.input_checks import Floats, Integers, check_labels, check_logits, check_weights
from calmix.calibration.scores import negative_log_likelihood
from calmix.run import replacing, write_json
from calmix.user_error import UserError

FORMAT = "calmix-calibrator"
FORMAT_VERSION = 1
FACTS_FILE = "calibrator.json"
ARRAYS_FILE = "calibrator.safetensors"

# Name -> (module, class): the modules load on demand.
_CALIBRATORS = {
    "temperature": ("calmix.calibration.temperature", "TemperatureScaling"),
    "vector": ("calmix.calibration.vector", "VectorScaling"),
    "structured": ("calmix.calibration.structured", "StructuredScaling"),
    "platt": ("calmix.calibration.platt", "PlattScaling"),
    "isotonic": ("calmix.calibration.isotonic", "IsotonicCalibration"),
}


class Calibrator(ClassifierMixin, BaseEstimator, ABC):  # type: ignore[misc]  # scikit-learn has no types
    """Base of the calibrators; subclasses give `_fit` and `transform`.

    Attributes after `fit`: `classes_` (0..C-1), `n_features_in_` (C), `nll_before_` and `nll_after_` (mean
    negative log-likelihood of the fitting data, without and with the calibrator).
    """

    kind: ClassVar[str]

    # scikit-learn's metadata routing takes every argument not named X or y for metadata.
    __metadata_request__fit = {"logits": UNUSED, "labels": UNUSED}  # noqa: RUF012
    __metadata_request__predict = {"logits": UNUSED}  # noqa: RUF012
    __metadata_request__predict_proba = {"logits": UNUSED}  # noqa: RUF012
    __metadata_request__transform = {"logits": UNUSED}  # noqa: RUF012

    classes_: Integers
    n_features_in_: int
    nll_before_: float
    nll_after_: float

    @property
    def folds(self) -> bool:
        """True where the calibrated logits are an affine map of the logits: it folds into a linear head."""
        return True

    def fit(
        self, logits: npt.ArrayLike, labels: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None
    ) -> Self:
        """Fit on logits [n, C] and class indices [n]; `sample_weight` [n] weighs the rows' losses."""
        checked = check_logits(logits)
        indices = check_labels(labels, rows=checked.shape[0], classes=checked.shape[1])
        weights = check_weights(sample_weight, rows=len(checked))
        if weights is not None:
            present = weights > 0  # a row of weight 0 is no row
            checked, indices = checked[present], indices[present]
            weights = weights[present] / weights.sum()
        self.n_features_in_ = checked.shape[1]
        self.classes_ = np.arange(checked.shape[1])
        self._fit(checked, indices, weights)
        return self

    @abstractmethod
    def _fit(self, logits: npt.NDArray[Any], labels: Integers, weights: Floats | None) -> None:
        """Set the fitted attributes. Weights are positive and sum to one; None is equal weights."""

    def _record_losses(self, logits: npt.NDArray[Any], labels: Integers, weights: Floats | None) -> None:
        before, after = (
            negative_log_likelihood(scores, labels, from_logits=True, weights=weights)
            for scores in (logits, self.transform(logits))
        )
        self.nll_before_, self.nll_after_ = before, after

    @abstractmethod
    def transform(self, logits: npt.ArrayLike) -> Floats:
        """Calibrated logits [n, C], whose softmax is `predict_proba`."""

    def predict_proba(self, logits: npt.ArrayLike) -> Floats:
        """Calibrated probabilities [n, C]."""
        return np.asarray(softmax(self.transform(logits), axis=1))

    def predict(self, logits: npt.ArrayLike) -> Integers:
        """The most probable class of every row, the lowest index on ties."""
        return np.asarray(np.argmax(self.transform(logits), axis=1))

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

    def _checked(self, logits: npt.ArrayLike) -> Floats:
        """Logits for a fitted calibrator, as float64."""
        check_is_fitted(self)
        checked = check_logits(logits)
        if checked.shape[1] != self.n_features_in_:
            raise ValueError(
                f"logits of {checked.shape[1]} classes, but the calibrator is fitted on {self.n_features_in_}"
            )
        return checked.astype(np.float64, copy=False)


def list_calibrators() -> list[str]:
    """The names that `get_calibrator` knows.

    >>> list_calibrators()
    ['temperature', 'vector', 'structured', 'platt', 'isotonic']
    """
    return list(_CALIBRATORS)


def get_calibrator(name: str, **parameters: Any) -> Calibrator:
    """A fresh calibrator by name.

    >>> get_calibrator("temperature", preset="paper")
    TemperatureScaling(preset='paper')
    >>> get_calibrator("temprature")
    Traceback (most recent call last):
    calmix.user_error.UserError: unknown calibrator 'temprature'; did you mean 'temperature'?
    """
    if name not in _CALIBRATORS:
        near = difflib.get_close_matches(name, _CALIBRATORS, n=2, cutoff=0.7)
        known = " or ".join(repr(match) for match in near)
        remedy = f"did you mean {known}?" if near else f"choose from: {', '.join(_CALIBRATORS)}"
        raise UserError(f"unknown calibrator {name!r}", remedy=remedy)
    module, class_name = _CALIBRATORS[name]
    calibrator: Calibrator = getattr(importlib.import_module(module), class_name)(**parameters)
    return calibrator


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
    except ValueError as error:
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
        calibrator = get_calibrator(facts["kind"], **facts["parameters"])
        arrays = load_file(arrays_file)
        found = {name: list(value.shape) for name, value in arrays.items()}
        if found != facts["arrays"]:
            raise UserError(f"arrays {found} where {facts['arrays']} were saved", file=arrays_file)
        for name, value in {**facts["fitted"], **arrays}.items():
            setattr(calibrator, name, value)
        calibrator.classes_ = np.arange(facts["classes"])
    except SafetensorError as error:
        raise UserError(f"unreadable arrays ({error})", file=arrays_file, remedy="save it again") from error
    except (KeyError, TypeError) as error:
        raise UserError(
            f"incomplete calibrator ({error})", file=facts_file, remedy="save it again"
        ) from error
    return calibrator
