"""`CalibratedTextClassifier`: texts in, calibrated probabilities out, as a scikit-learn estimator."""

from __future__ import annotations

import dataclasses
import inspect
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from calmix.training.configuration import TrainConfig
from calmix.training.options import check_known
from calmix.workflows.options import ALPHA

# Options of a run that an estimator has no use for: it holds no files, and its rows are given to `fit`.
NOT_HERE = (
    "train", "output", "validation", "test", "unlabelled", "text_column", "pair_column", "choices_column",
    "label_column", "id_column", "image_column", "augment", "plain_run", "keep_epoch_predictions",
    "multi_label", "label_separator", "label_columns",
)  # fmt: skip
DEFAULTS: dict[str, Any] = {
    option.name: None if option.default is dataclasses.MISSING else option.default
    for option in dataclasses.fields(TrainConfig)
    if option.name not in NOT_HERE and not option.name.startswith(("teacher", "distill", "label_weight"))
} | {ALPHA: None}


class CalibratedTextClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A text classifier whose `predict_proba` is calibrated.

        classifier = CalibratedTextClassifier(method="cls-mixup").fit(texts, labels)
        classifier.predict_proba(["a warm and clever film"])

    Its parameters are the options of `calmix.train`, by the same names; the default model is the embedded
    encoder. A stratified tenth of the rows chooses the epoch and fits the temperature. It is cloned, searched
    over, cross-validated, put into pipelines and pickled as any estimator is; the network is pickled with it.

    Fitted: `classes_`, `temperature_`, `metrics_` (of the validation rows), `n_features_in_` = 1.
    """

    def __init__(self, **options: Any) -> None:
        check_known(options, list(DEFAULTS))
        for name, default in DEFAULTS.items():
            setattr(self, name, options.get(name, default))

    # What scikit-learn, and a notebook, see of the parameters.
    __init__.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD),
            *(
                inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
                for name, default in DEFAULTS.items()
            ),
        ]
    )

    def fit(self, X: Sequence[str], y: npt.ArrayLike) -> CalibratedTextClassifier:
        """Train on texts and their labels, and calibrate."""
        from calmix.workflows.train import train

        texts, labels = as_texts(X), np.asarray(y)
        check_consistent_length(texts, labels)
        check_classification_targets(labels)
        classes, indices = np.unique(labels, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(f"one class: {classes.tolist()}; a classifier needs two")
        given = self.get_params(deep=False)
        options = {name: value for name, value in given.items() if not _is_default(name, value)}
        with tempfile.TemporaryDirectory(prefix="calmix-") as place:
            run = train(
                texts=texts, labels=[int(index) for index in indices], output=Path(place) / "run", **options
            )
            self.checkpoint_ = read_files(run.model_path)
            self.metrics_ = run.metrics["validation"]
            self.temperature_ = run.temperature if run.calibrator == "temperature" else None
        self.classes_ = classes
        self.n_features_in_ = 1
        return self

    def predict_proba(self, X: Sequence[str]) -> npt.NDArray[np.float64]:
        """Calibrated probabilities [rows, classes], in the order of `classes_`."""
        check_is_fitted(self)

        from calmix.data.columns import ColumnNames
        from calmix.data.input_rows import read_input
        from calmix.inference.prediction import classify
        from calmix.inference.saved_classifier import open_classifier
        from calmix.workflows.data_arguments import GivenData

        texts = as_texts(X)
        if not texts:
            return np.zeros((0, len(self.classes_)))
        data = GivenData(ColumnNames())
        rows = read_input(data.source({"text": texts}, "X"), ColumnNames(), task="single").rows
        given = self.get_params(deep=False)
        with tempfile.TemporaryDirectory(prefix="calmix-") as place:
            write_files(Path(place), self.checkpoint_)
            saved = dataclasses.replace(open_classifier(Path(place)), max_length=given["max_length"])
            settings = {name: given[name] for name in ("device", "threads", "trust_remote_code")}
            answers = classify(saved, rows, **settings)
        order = np.argsort([int(name) for name in answers.label_names])
        return np.asarray(answers.probabilities()[:, order], dtype=np.float64)

    def predict(self, X: Sequence[str]) -> npt.NDArray[Any]:
        """The most probable class of every text."""
        probabilities = self.predict_proba(X)
        return np.asarray(self.classes_[probabilities.argmax(axis=1)])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        tags.no_validation = True  # texts are checked where they are read
        return tags


def as_texts(X: Any) -> list[Any]:
    """One text per row; a column of a frame is one too.

    >>> as_texts(np.array([["good"], ["bad"]]))
    ['good', 'bad']
    """
    if isinstance(X, str):
        raise ValueError("X is one text; give a list of texts")
    rows = X.to_numpy() if hasattr(X, "to_numpy") else X
    values = np.asarray(rows, dtype=object)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise ValueError(f"X has the shape {values.shape}; give one text per row")
    return list(values)


def _is_default(name: str, value: Any) -> bool:
    return value is DEFAULTS[name] or (type(value) is type(DEFAULTS[name]) and bool(value == DEFAULTS[name]))


def read_files(directory: Path) -> dict[str, bytes]:
    """The files of a checkpoint, so that they are pickled with the estimator."""
    files = [file for file in sorted(directory.rglob("*")) if file.is_file()]
    return {file.relative_to(directory).as_posix(): file.read_bytes() for file in files}


def write_files(directory: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(content)
