"""A finished run as an object: its metrics, predictions, model and files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calmix.io.memory_tables import MemoryData
from calmix.io.run_directory import RunDirectory, is_comparison
from calmix.user_error import UserError
from calmix.workflows.result import DrawnResult, Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from transformers import PreTrainedModel

    from calmix.calibration.multi_label.multi_label_predictions import MultiLabelPredictions
    from calmix.calibration.predictions import Predictions
    from calmix.dynamics.datamap import DataMap
    from calmix.report.tables import Table


STAGES = ("uncalibrated", "calibrated", "perturbed")


@dataclass(frozen=True)
class SplitMetrics:
    """The metrics of one split: uncalibrated, and with the calibrator of the saved model."""

    uncalibrated: Record
    calibrated: Record
    perturbed: Record | None = None
    """With the second model of `calibrator="perturbed"`."""


class RunMetrics(Mapping[str, SplitMetrics]):
    """`metrics.json`: the splits by name, and what was measured of the run as a whole, in `facts`.

    >>> stages = {"uncalibrated": {"ece": 0.2}, "calibrated": {"ece": 0.1}}
    >>> metrics = RunMetrics({"seed": 0, "splits": {"test": stages}})
    >>> metrics["test"].calibrated.ece, metrics.facts.seed, list(metrics)
    (0.1, 0, ['test'])
    """

    def __init__(self, content: Mapping[str, Any]) -> None:
        self.facts = Record({name: value for name, value in content.items() if name != "splits"})
        self._splits = {
            name: SplitMetrics(**{stage: Record(stages[stage]) for stage in STAGES if stage in stages})
            for name, stages in content["splits"].items()
        }

    def __getitem__(self, split: str) -> SplitMetrics:
        if split not in self._splits:
            raise KeyError(f"no split {split!r}; the splits are: {', '.join(self._splits)}")
        return self._splits[split]

    def __iter__(self) -> Iterator[str]:
        return iter(self._splits)

    def __len__(self) -> int:
        return len(self._splits)


@dataclass(frozen=True, eq=False, repr=False)
class Run(DrawnResult):
    """A finished run: `Run.open("run")`, or what `calmix.train` and `calmix.distill` return.

    Prints its metrics and, in a notebook, shows them as a table; `report` is the page with everything.
    """

    directory: RunDirectory
    held: Sequence[MemoryData] = field(default=(), compare=False)
    """Rows that were given as objects: other workflows read them again as long as this object lives."""

    @classmethod
    def open(cls, path: str | Path) -> Run:
        """A finished run, or a `UserError` that says what is there instead."""
        return cls(RunDirectory.open(path))

    @property
    def path(self) -> Path:
        return self.directory.path

    def __fspath__(self) -> str:
        return str(self.path)

    @property
    def report(self) -> Path:
        """The page with everything there is to see."""
        return self.directory.report_file

    @property
    def model_path(self) -> Path:
        """A standard checkpoint: `AutoModelForSequenceClassification.from_pretrained` loads it, and plain
        softmax of its logits is calibrated."""
        return self.directory.model

    @cached_property
    def config(self) -> dict[str, Any]:
        """The effective options, as saved with the run."""
        return self.directory.config()

    @cached_property
    def metrics(self) -> RunMetrics:
        return RunMetrics(self.directory.metrics())

    @property
    def temperature(self) -> float:
        """Fitted on validation rows and folded into the saved model; an error where another calibrator is."""
        return self.directory.temperature()

    @property
    def calibrator(self) -> str:
        """What is folded into the saved model: temperature, temperature-bias, vector or structured."""
        return str(self.metrics.facts.get("calibrator", "temperature"))

    @property
    def perturbed_path(self) -> Path | None:
        """The second model of `calibrator="perturbed"`, for data of an unknown domain: `calmix.predict` and
        `calmix.evaluate` take it as they take a run."""
        return self.directory.perturbed if self.directory.perturbed.is_dir() else None

    @property
    def label_names(self) -> tuple[str, ...]:
        return tuple(self.metrics.facts.label_names)

    @property
    def thresholds(self) -> dict[str, float]:
        """Of a run whose rows have several labels: from which probability on each label is predicted."""
        return dict(self.metrics.facts.get("thresholds", {}))

    def predictions(
        self, split: str = "test", *, calibrated: bool = True
    ) -> Predictions | MultiLabelPredictions:
        """What the saved model says about the rows of a split; `calibrated=False`: before the temperature, or
        the scaling of several labels."""
        if self.directory.is_multi_label:
            from calmix.calibration.multi_label.multi_label_sources import label_predictions_of_run

            return label_predictions_of_run(self.directory, split, calibrated=calibrated)

        return self._single_label_predictions(split, calibrated=calibrated)

    def _single_label_predictions(self, split: str, *, calibrated: bool) -> Predictions:
        from calmix.calibration.files.run_predictions import predictions_of_run

        return predictions_of_run(self.directory, split, calibrated=calibrated)

    def data_map(self) -> DataMap:
        """The training dynamics of every training row."""
        from calmix.dynamics.importers import read_data_map

        return read_data_map(self.directory.dynamics_file)

    def model(self, *, trust_remote_code: bool = False) -> PreTrainedModel:
        """The saved network, calibrated, in evaluation mode."""
        from calmix.models.loading import load_trained

        if not self.model_path.is_dir():
            raise UserError(
                "the model of this run was not kept", file=self.path, remedy="keep it: keep_models='all'"
            )
        network: PreTrainedModel = load_trained(self.model_path, trust_remote_code=trust_remote_code)
        network.eval()
        return network

    def tokenizer(self) -> Any:
        """What turns texts, or images, into the inputs of the model."""
        from transformers import AutoImageProcessor, AutoTokenizer

        kind: Any = AutoImageProcessor if self.metrics.facts.task == "image" else AutoTokenizer
        return kind.from_pretrained(self.model_path)

    def plot_reliability(self, split: str = "test", *, calibrated: bool = True, bins: int = 15) -> Figure:
        """The reliability diagram of a split as a matplotlib figure: `.savefig("reliability.pdf")`."""
        from calmix.calibration.integrations.reliability_figure import reliability_figure

        words = f"{split}, {'+ TS' if calibrated else 'raw'}"
        known = self._single_label_predictions(split, calibrated=calibrated)
        return reliability_figure(known, bins=bins, title=words)

    def plot_risk_coverage(self, split: str = "test", *, calibrated: bool = True) -> Figure:
        """The error rate among the rows that are accepted, as a matplotlib figure."""
        from calmix.report.figures.risk_coverage_figure import risk_coverage_figure

        known = self._single_label_predictions(split, calibrated=calibrated)
        return risk_coverage_figure(known, title=split)

    def plot_training(self) -> Figure:
        """Training loss and validation NLL of every epoch, as a matplotlib figure."""
        from calmix.report.figures.run_figures import history_figure

        return history_figure(self.directory.metrics().get("history", []))

    def figures(self) -> dict[str, Figure]:
        from calmix.report.figures.run_figures import run_figures

        return run_figures(self.directory)

    def push_to_hub(self, repository: str, **settings: Any) -> str:
        """Share the model on the Hugging Face Hub as `NAMESPACE/NAME`; settings as of `calmix.push`."""
        from calmix.report.hub_upload import upload

        return upload(self.directory, repository, **settings)

    def tables(self) -> list[Table]:
        metrics = self.directory.metrics()
        if metrics.get("multi_label"):
            from calmix.report.label_tables import label_table, stages_table

            last = list(metrics["splits"])[1 if len(metrics["splits"]) > 1 else 0]
            return [
                stages_table(metrics),
                label_table(metrics["splits"][last]["calibrated"], f"{last}, scaled"),
            ]

        from calmix.report.tables import HEADLINE_KEYS, metrics_table

        return [metrics_table(self.directory.metrics(), HEADLINE_KEYS)]

    def warnings(self) -> list[str]:
        """What is wrong with what was learned."""
        from calmix.report.learning import learning_lines

        fitted = self.directory.calibration()["warnings"] if self.directory.is_multi_label else []
        return [*learning_lines(self.directory.metrics()), *map(str, fitted)]

    def lines(self) -> list[str]:
        from calmix.report.learning import learning_notes

        rows = self.directory.data_checks_file
        checks = self.metrics.facts.get("data_checks", [])
        return [
            *(f"{check['severity']}: {check['split']}: {check['message']}" for check in checks),
            *([f"rows:   {rows}"] if rows.is_file() else []),
            *(f"note: {note}" for note in learning_notes(self.directory.metrics())),
            *(f"{name}: {line}" for name, lines in self._slice_sentences().items() for line in lines),
            self._folded(),
            f"model:  {self.model_path}",
            *([] if self.perturbed_path is None else [f"for an unknown domain: {self.perturbed_path}"]),
            f"report: {self.report}",
        ]

    def _slice_sentences(self) -> dict[str, list[str]]:
        splits = self.directory.metrics()["splits"]
        return {
            name: split["calibrated"].get("slices", {}).get("sentences", []) for name, split in splits.items()
        }

    def _folded(self) -> str:
        if self.directory.is_multi_label:
            method = self.metrics.facts.label_scaling["method"]
            return f"{method} scaling of every label, folded into the saved model with its thresholds"
        is_temperature = self.calibrator == "temperature"
        fitted = f"temperature {self.temperature:.3f}" if is_temperature else f"{self.calibrator} scaling"
        return f"{fitted}, folded into the saved model"


def directory_of(source: Any, argument: str) -> Path:
    """The directory of a run, a comparison or a calibrated checkpoint, given as an object or by its path."""
    path = getattr(source, "path", source)
    if not isinstance(path, str | Path):
        raise UserError(
            f"{argument} is {type(source).__name__}", remedy="give a Run, or the path of a directory"
        )
    return Path(path)


def model_directory(source: Any, argument: str) -> Path:
    """The same where a model is wanted: of a comparison, its recommended run."""
    path = directory_of(source, argument)
    if not is_comparison(path):
        return path

    from calmix.experiments.comparison import recommended_run

    return recommended_run(path).path
