"""Out-of-domain detection: how well the scores of a model separate in-domain rows from other data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calmix.io.run_directory import RunDirectory, is_comparison
from calmix.user_error import UserError, argument, check_least
from calmix.workflows.data_arguments import GivenData
from calmix.workflows.result import DrawnResult
from calmix.workflows.run import directory_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from calmix.report.tables import Table

REPORT = "ood.html"


@dataclass(frozen=True, eq=False, repr=False)
class OodResult(DrawnResult):
    """How well each score separates the sets; of a run with the threshold that was saved with it."""

    content: Mapping[str, Any]
    """What `calmix ood --json` prints."""
    report: Path
    threshold_file: Path | None = None
    """What `predict(..., reject_ood=True)` reads; none of a comparison."""

    @property
    def scores(self) -> list[dict[str, Any]]:
        """AUROC, AUPR and FPR@95 by score, stage and set of other data; rows of a data frame."""
        return list(self.content["scores"])

    def figures(self) -> dict[str, Figure]:
        """Of a run the confidence on every set of data, of a comparison the AUROC of its methods."""
        from calmix.report.figures.ood_figures import ood_figures

        return ood_figures(self.content)

    def tables(self) -> list[Table]:
        return [self._module().headline_table(self.content)]

    def lines(self) -> list[str]:
        module = self._module()
        if self.threshold_file is None:
            sentences = module.best_lines(self.content)
        else:
            sentences = module.conclusions(self.content)
        return [*sentences, *(f"note: {note}" for note in self.content["notes"])]

    def _module(self) -> Any:
        from calmix.report.ood import ood_comparison, ood_report

        return ood_comparison if self.threshold_file is None else ood_report

    def write_report(self) -> None:
        from calmix.report.ood.ood_comparison import write_ood_comparison
        from calmix.report.ood.ood_report import write_ood_report

        write: Any = write_ood_comparison if self.threshold_file is None else write_ood_report
        write({name: value for name, value in self.content.items() if name != "report"}, self.report)


def detect_ood(
    run: Any,
    *,
    in_: Any = None,
    out: Any = None,
    noise: str | None = None,
    mc_dropout: int = 0,
    keep_rate: float = 0.95,
    seed: int = 0,
    output: str | Path | None = None,
    text_column: str | None = None,
    pair_column: str | None = None,
    choices_column: str | None = None,
    image_column: str | None = None,
    batch_size: int = 64,
    device: str = "auto",
    trust_remote_code: bool = False,
    show: Callable[[OodResult], object] | None = None,
) -> OodResult:
    """Out-of-domain detection: AUROC, AUPR and FPR@95 of in-domain rows against others.

        found = calmix.detect_ood(run, out={"imdb": imdb}, noise="gaussian")
        found.scores, found.report

    run: a `Run`, a `Comparison` (its methods side by side), or the directory of one. in_: data like the
    training data, by default the run's test. out: a dict of other data by name, or a single set; no labels
    needed. The recommended score and a threshold on it are saved with the run: `predict(reject_ood=True)`.
    show: called with the result before the report is written; a full disk then does not lose it.
    """
    run = directory_of(run, "run")
    check_least("mc_dropout", mc_dropout, 0)
    check_least("seed", seed, 0)
    check_least("batch_size", batch_size, 1)
    if not 0 < keep_rate < 1:
        raise UserError(f"{argument('keep_rate')} is {keep_rate:g}", remedy="give a fraction such as 0.95")

    from calmix.data.splits import split_test_argument
    from calmix.experiments.ood.detection import detect_all, kept_runs
    from calmix.experiments.ood.rows import columns_of, inside_rows, outside_rows
    from calmix.io.memory_tables import is_in_memory
    from calmix.io.writing import check_not_input, check_place
    from calmix.runtime.option_values import check_detection, check_device_name

    check_device_name(device)
    kept = kept_runs(run) if is_comparison(run) else None
    opened = kept.runs[0][1] if kept else open_run(run)
    names = columns_of(opened, text=text_column, pair=pair_column, choices=choices_column, image=image_column)
    data = GivenData(names)
    in_domain = data.optional(in_, "in_")
    others = [f"out={one}" if is_in_memory(one) else one for one in data.named(out, "out")]
    page = Path(output) if output else run / REPORT
    check_place(page)
    check_not_input(page, in_domain, *(split_test_argument(one)[1] for one in others))
    check_detection(others, noise)
    in_name, inside = inside_rows(opened, in_domain, names)
    outside = outside_rows(opened, others, names, in_name)

    from calmix.inference.ood_threshold import save_ood_threshold
    from calmix.inference.out_of_distribution import detect

    settings: dict[str, Any] = {
        "in_name": in_name,
        "noise": noise,
        "passes": mc_dropout,
        "seed": seed,
        "batch_size": batch_size,
        "device": device,
        "trust_remote_code": trust_remote_code,
        "keep": keep_rate,
    }
    if kept:
        found, saved = detect_all(run, kept, inside, outside, **settings), None
    else:
        found = detect(opened, inside, outside, **settings)
        saved = save_ood_threshold(opened, found)
    result = OodResult({**found, "report": str(page)}, page, saved)
    if show is not None:
        show(result)
    result.write_report()
    return result


def open_run(path: Path) -> RunDirectory:
    opened = RunDirectory.open(path)
    opened.check_single_label("out-of-domain detection")
    if not opened.model.is_dir():
        raise UserError(
            "the model of this run was not kept",
            file=opened.path,
            remedy=f"keep it: {argument('keep_models', 'all')}",
        )
    return opened
