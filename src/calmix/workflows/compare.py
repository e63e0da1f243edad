"""Which method is best on these data: many runs, paired statistics, a recommendation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calmix.io.run_directory import RunDirectory
from calmix.user_error import UserError, argument
from calmix.workflows.options import output_directory, training_config
from calmix.workflows.result import DrawnResult, Record
from calmix.workflows.run import Run
from calmix.workflows.train import rows_or_lists

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from calmix.experiments.comparison_plan import CompareConfig
    from calmix.experiments.results import Results
    from calmix.report.tables import Table

# Options of a comparison that are none of its runs'.
OWN = ("methods", "seeds", "vary", "executor", "workers", "keep_models", "margin", "store")


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(DrawnResult):
    """What a comparison found: `Comparison.open("comparison")`, or what `calmix.compare` returns."""

    path: Path
    content: Mapping[str, Any]
    """What `calmix compare --json` prints."""

    @classmethod
    def open(
        cls, path: str | Path, *, margin: float | None = None, output: str | Path | None = None
    ) -> Comparison:
        """A comparison that was made before, rendered again; nothing is trained."""
        from calmix.experiments.comparison import load, with_margin

        return describe(with_margin(load(Path(path)), margin), Path(path), Path(output or path))

    def __fspath__(self) -> str:
        return str(self.path)

    @property
    def directory(self) -> Path:
        """Where its runs are: `path`, unless it was opened with another `output`."""
        return Path(self.content["directory"])

    @property
    def recommendation(self) -> Record:
        """`chosen`, `sentence`, `model` and what they rest on; `chosen` is None where no method is."""
        return Record(self.content["recommendation"])

    @cached_property
    def best(self) -> Run | None:
        """The run with the recommended model, if there is one and it was kept."""
        model = self.content["recommendation"]["model"]
        return Run(RunDirectory(Path(model).parent)) if model else None

    @property
    def best_arm(self) -> str:
        """The recommended method; where none is, that of lowest validation NLL after temperature scaling."""
        recommended = self.content["recommendation"].get("chosen")
        if recommended:
            return str(recommended)
        known = [row for row in self.summary if (row["split"], row["stage"]) == ("validation", "calibrated")]
        return str(min(known, key=lambda row: float(row["nll_mean"]))["arm"])

    def ensemble(self, output: str | Path, arm: str | None = None) -> Record:
        """The seeds of one method, by default `best_arm`, as an ensemble: probabilities averaged, then
        calibrated on validation. Writes `ensemble.json` and calibrated predictions of every split."""
        from calmix.experiments.seed_ensemble import SeedEnsemble

        return Record(SeedEnsemble.of(self.directory, arm or self.best_arm).write(Path(output)))

    def student(self, output: str | Path, arm: str | None = None, **options: Any) -> Run:
        """One network that learns from all seeds of one method, on the rows and with the settings of the
        comparison; `options` are those of `calmix.distill`. The models must have been kept
        (keep_models="all")."""
        from calmix.experiments.seed_ensemble import SeedEnsemble
        from calmix.training.configuration import TrainConfig
        from calmix.workflows.distill import distill_run

        members = SeedEnsemble.of(self.directory, arm or self.best_arm).members
        made = TrainConfig.from_dict(members[0].config()).as_dict()
        own = (
            "method",
            "method_options",
            "label_smoothing",
            "plain_run",
            "train_region",
            "aum_filter",
            "output",
        )
        shared = {name: value for name, value in made.items() if name not in own}
        teachers = [str(run.path) for run in members]
        return distill_run({**shared, **options, "teacher": teachers, "output": output}, resume=False)

    @property
    def summary(self) -> list[dict[str, Any]]:
        """Mean and spread over seeds of every metric, by arm, split and stage; rows of a data frame."""
        return list(self.content["summary"])

    @property
    def differences(self) -> list[dict[str, Any]]:
        """Paired differences from the reference, with intervals."""
        return list(self.content["differences"])

    @property
    def failures(self) -> list[dict[str, Any]]:
        return list(self.content["failures"])

    @property
    def report(self) -> Path:
        return self.path / "report.html"

    def plot_effects(self, split: str = "test") -> Figure:
        """The difference of every method from plain with its interval, raw and with temperature scaling, as a
        matplotlib figure: `.savefig("effects.pdf")`."""
        from calmix.report.figures.comparison_figures import effects_figure

        return effects_figure(self.content, split)

    def plot_reliability(self, split: str = "test", *, calibrated: bool = True) -> Figure:
        """The reliability curves of all methods, as a matplotlib figure; the seeds of a method together."""
        from calmix.report.figures.comparison_figures import reliability_curves_figure

        return reliability_curves_figure(self.content, split, "calibrated" if calibrated else "uncalibrated")

    def figures(self) -> dict[str, Figure]:
        from calmix.report.figures.comparison_figures import comparison_figures

        return comparison_figures(self.content)

    def tables(self) -> list[Table]:
        from calmix.report.comparison.comparison_tables import HEADLINE_METRICS, summary_tables

        return list(summary_tables(dict(self.content), HEADLINE_METRICS))

    def lines(self) -> list[str]:
        from calmix.report.comparison.comparison_tables import next_step

        found = self.content["recommendation"]
        advice = (found["choice"], next_step(found), found["command"])
        places = {"model": found["model"], "report": self.report}
        return [
            found["sentence"],
            *(f"  {line}" for line in found["lines"]),
            *(line for line in advice if line),
            *(f"note: {note}" for note in found["notes"]),
            *(f"slices: {sentence}" for sentence in self.content.get("slice_sentences", [])),
            *(f"failed: {one['arm']}, seed {one['seed']}: {one['reason']}" for one in self.failures),
            *(f"{name + ':':8}{path}" for name, path in places.items() if path),
        ]


def compare(
    train: Any = None,
    *,
    methods: str | Sequence[str] = (),
    seeds: int | str | Sequence[int] = (0, 1, 2),
    output: str | Path,
    validation: Any = None,
    test: Any = None,
    texts: Any = None,
    labels: Any = None,
    vary: str | Sequence[str] = (),
    executor: str = "local",
    workers: int | None = None,
    keep_models: str = "best",
    margin: float | None = None,
    store: str | Path | None = None,
    **options: Any,
) -> Comparison:
    """Train every method with every seed, and recommend one.

        comparison = calmix.compare(frame, methods=["plain", "cls-mixup"], seeds=range(3), output="compared")
        comparison.recommendation.sentence, comparison.best

    methods: names with options, such as "cls-mixup:alpha=1"; `plain` is always in. vary: "NAME=V1,V2" of an
    option. Data and options are those of `calmix.train`. An interrupted comparison, or one with more
    methods or seeds, continues and repeats no run. Data that are objects are written into `output`, for the
    processes that train.
    """
    data = {"train": rows_or_lists(train, texts, labels), "validation": validation, "test": test}
    own = {
        "methods": methods,
        "seeds": seeds,
        "vary": vary,
        "executor": executor,
        "workers": workers,
        "keep_models": keep_models,
        "margin": margin,
        "store": store,
    }
    return compare_runs({**options, **data, **own, "output": output})


def compare_runs(options: Mapping[str, Any]) -> Comparison:
    """`compare` with all options in one mapping; those that are None are not given."""
    from calmix.experiments.comparison_plan import CompareConfig
    from calmix.experiments.grid import parse_seeds, split_list
    from calmix.experiments.required_runs import DEFAULT_MARGIN

    output_directory(options.get("output"))
    given = options.get("train")
    if given is None or (isinstance(given, str) and not given):
        raise UserError("no training data", remedy=f"give {argument('train', 'FILE')}")
    methods = several(options.get("methods"))
    if not methods:
        raise UserError("no methods to compare", remedy=f"give {argument('methods', 'plain,cls-mixup')}")
    shared = {name: value for name, value in options.items() if name not in OWN}
    base, data = training_config(shared)
    if base.has_label_sets:
        raise UserError(
            "runs on rows of several labels are not compared",
            remedy="train them one by one, and compare their predictions with 'calmix evaluate RUN RUN'",
        )
    margin, store = options.get("margin"), options.get("store")
    config = CompareConfig(
        base=base,
        methods=tuple(method for text in methods for method in split_list(text)),
        seeds=parse_seeds(several(options.get("seeds")) or ["0,1,2"]),
        vary=tuple(several(options.get("vary"))),
        executor=options.get("executor") or "local",
        workers=options.get("workers"),
        keep_models=options.get("keep_models") or "best",
        margin=DEFAULT_MARGIN if margin is None else margin,
        store=None if store is None else Path(store),
    )
    made = run_comparison(config)
    del data  # rows in memory had to be there until now
    return made


def several(values: Any) -> list[str]:
    """One value or many, as texts.

    >>> several("plain,erl"), several(range(2)), several(None), several(3)
    (['plain,erl'], ['0', '1'], [], ['3'])
    """
    if values is None:
        return []
    return [str(values)] if isinstance(values, str | int) else [str(value) for value in values]


def run_comparison(config: CompareConfig) -> Comparison:
    """Compare, and write the summary and the reports."""
    from calmix.experiments.comparison import compare as make_comparison

    return describe(make_comparison(config), config.directory, config.directory)


def describe(results: Results, directory: Path, output: Path) -> Comparison:
    """Write the summary and the report to `output`. The recommended model gets a card and a report,
    unless the comparison is only read."""
    from calmix.experiments.comparison import report_data
    from calmix.report.comparison.comparison_report import write_comparison_report
    from calmix.report.comparison.comparison_tables import write_markdown_summary
    from calmix.report.model_card import write_model_card
    from calmix.report.run.run_report import write_run_report

    output.mkdir(parents=True, exist_ok=True)
    found = Comparison(output, report_data(results, directory, output))
    write_markdown_summary(dict(found.content), output / "summary.md")
    write_comparison_report(dict(found.content), found.report)
    if found.best is not None and output == directory:
        write_model_card(found.best.directory)
        write_run_report(found.best.directory)
    return found
