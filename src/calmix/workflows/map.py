"""Which training rows are easy, ambiguous, probably mislabelled: a map of the rows, and a list to look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calmix.io.run_directory import RunDirectory
from calmix.runtime.processes import is_first_process
from calmix.user_error import UserError, argument
from calmix.workflows.data_arguments import GivenData
from calmix.workflows.options import output_directory
from calmix.workflows.result import WIDTH, DrawnResult
from calmix.workflows.run import directory_of

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.figure import Figure

    from calmix.data.rows import Rows
    from calmix.dynamics.importers import DynamicsSource
    from calmix.report.tables import Table
    from calmix.training.configuration import TrainConfig
    from calmix.training.label_noise.threshold_passes import NoiseSearch

FILES = ("datamap.html", "suspects.csv", "issues.csv")
SUSPECTS_SHOWN = 20
LOWEST_AUM = {"rule": "lowest AUM within each class, not a test"}
NOT_A_TEST = (
    "not a test: these rows have the lowest area under the margin of their class, and hard rows have low "
    "margins too; --retrain trains threshold passes, which measure the margins of wrong labels"
)
CORRECTIONS = (
    "correct labels in datamap.html, download corrections.csv, and train again with the corrected file: see "
    "docs/guides/map.md"
)


@dataclass(frozen=True, eq=False, repr=False)
class MapResult(DrawnResult):
    """A data map on disk: region sizes, class balance per region, and the rows to look at first."""

    path: Path
    content: Mapping[str, Any]
    """What `calmix map --json` prints."""

    def __fspath__(self) -> str:
        return str(self.path)

    @property
    def report(self) -> Path:
        return self.path / "datamap.html"

    @property
    def suspects(self) -> list[dict[str, Any]]:
        """The first rows to look at; all of them are in `suspects.csv`."""
        return list(self.content["suspects"])

    def rows(self) -> pa.Table:
        """Scores and regions of every row."""
        import pyarrow.parquet

        return pyarrow.parquet.read_table(self.path / "datamap.parquet")

    def plot_map(self) -> Figure:
        """Variability against confidence of every row, as a matplotlib figure: `.savefig("map.pdf")`."""
        from calmix.report.figures.map_figures import map_figure

        return map_figure(self.rows())

    def figures(self) -> dict[str, Figure]:
        return {"data-map": self.plot_map()}

    def tables(self, width: int = WIDTH) -> list[Table]:
        from calmix.report.maps.map_tables import region_table, suspect_table

        found = self.content
        shown = [region_table(found, found["class_names"])]
        if found["suspects"]:
            kind = "Rows flagged by the threshold samples"
            if found["label_noise"] == LOWEST_AUM:
                kind = "Lowest AUM within each class, not a test"
            caption = f"{kind}: the first {len(found['suspects'])} of {found['suspect_count']:,}"
            shown.append(suspect_table(found["suspects"], caption, width))
        return shown

    def lines(self) -> list[str]:
        from calmix.report.maps.map_tables import wrong_labels_line

        return [
            *([] if self.content["suspects"] else ["no row to list"]),
            wrong_labels_line(self.content["wrong_labels"]),
            *(f"note: {note}" for note in self.content["notes"]),
            *(f"{name + ':':14}{self.path / name}" for name in FILES),
        ]


def map(
    source: Any,
    *,
    output: str | Path | None = None,
    fraction: float = 1 / 3,
    stratify: bool = False,
    data: Any = None,
    text_column: str | None = None,
    pair_column: str | None = None,
    choices_column: str | None = None,
    id_column: str | None = None,
    retrain: bool = False,
    percentile: float = 0.99,
    runs: int = 2,
    epochs: int | None = None,
    seed: int | None = None,
    device: str | None = None,
    threads: int | None = None,
) -> MapResult:
    """Draw the data map of a run, and list the rows that are most likely mislabelled.

        found = calmix.map(run, output="map")
        found.suspects, found.rows().to_pandas()

    source: a `Run`, a run directory, a `dynamics.parquet`, a folder in allenai/cartography's format, or an
    `aum_values.csv`. data: the training rows, in any form that `calmix.train` takes, where they are not those
    of a run that can still be read. retrain: train passes with threshold samples, the test that the list of
    wrong labels needs.
    """
    options = {name: value for name, value in locals().items() if name != "data"}
    place = output_directory(output)
    for name, value in {"fraction": fraction, "percentile": percentile}.items():
        if not 0 < value <= 1:
            raise UserError(f"{argument(name)} is {value:g}", remedy="give a share, such as 0.33 or 0.99")
    if runs not in (1, 2):
        raise UserError(f"{argument('runs')} is {runs}", remedy="give 1 or 2")

    from calmix.dynamics.importers import read_dynamics
    from calmix.report.maps.map_directory import PASSES, check_map_directory

    check_map_directory(place)
    path = directory_of(source, "source")
    found = read_dynamics(path)
    names = {"text": text_column, "pair": pair_column, "choices": choices_column, "id": id_column}
    given = GivenData.with_columns({f"{name}_column": value for name, value in names.items()})
    texts = given.optional(data, "data")
    options |= {"output": place, "source": path, "data": texts}
    notes: list[str] = []
    search = None
    if retrain:
        trained = retraining(found, path, epochs=epochs, seed=seed, device=device, threads=threads)
        rows: Rows | None = mapped_rows(found, path, texts, names)

        from calmix.training.label_noise.threshold_passes import find_label_noise

        assert rows is not None
        search = find_label_noise(trained, rows, place / PASSES, runs=runs, percentile=percentile)
        notes += search.findings
    else:
        for name, given_value in {"epochs": epochs, "seed": seed}.items():
            if given_value is not None:
                raise UserError(
                    f"{argument(name)} needs threshold passes",
                    remedy=f"add {argument('retrain')}, or leave it out",
                )
        try:
            rows = mapped_rows(found, path, texts, names)
        except UserError as error:
            if data is not None:
                raise
            rows = None
            notes.append(f"without texts: {error.on_command_line}; give the training file with --data")
    if not is_first_process():
        return MapResult(place, {})
    return write_rows_map(found, rows, search, notes, options)


def write_rows_map(
    found: DynamicsSource,
    rows: Rows | None,
    search: NoiseSearch | None,
    notes: list[str],
    options: dict[str, Any],
) -> MapResult:
    from calmix.dynamics.dynamics_file import datamap_table
    from calmix.dynamics.label_estimate import estimate_wrong_labels
    from calmix.dynamics.map_summary import summarise_map
    from calmix.dynamics.suspects import list_suspects
    from calmix.report.maps.map_directory import write_map
    from calmix.training.label_noise.mapped_rows import shown_texts

    datamap = found.datamap
    if rows is not None and rows.is_labelled and not datamap.class_names:
        datamap = replace(datamap, class_names=rows.label_names)
    table = datamap_table(datamap, fraction=options["fraction"], stratify=options["stratify"])
    counts = summarise_map(table, datamap.num_classes)
    if not counts["scored"]:
        raise UserError("no row was seen in training: there is nothing to map", file=found.file)
    if counts["partition"] is None:
        notes = ["no regions: they need the dynamics of two epochs", *notes]
    texts = None if rows is None else shown_texts(rows)
    verdict = None if search is None else search.verdict
    suspects = list_suspects(datamap, verdict, texts)
    estimate = estimate_wrong_labels(found.dynamics)
    summary = {
        "output": str(options["output"]),
        "source": {"kind": found.kind, "path": str(found.file)},
        "class_names": list(datamap.class_names),
        **counts,
        "label_noise": LOWEST_AUM if search is None else search.as_dict(),
        "wrong_labels": None if estimate is None else estimate.as_dict(),
        "suspect_count": len(suspects),
        "suspects": suspects.slice(0, SUSPECTS_SHOWN).to_pylist(),
        "notes": [*notes, *([NOT_A_TEST] if search is None else []), CORRECTIONS],
        "options": {
            name: str(value) if isinstance(value, Path) else value for name, value in options.items()
        },
    }
    directory = Path(options["output"])
    title = f"Data map of {Path(options['source']).absolute().name}"
    summary = write_map(directory, datamap, table, summary, verdict=verdict, texts=texts, title=title)
    return MapResult(directory, summary)


def mapped_rows(
    found: DynamicsSource, source: Path, data: str | None, names: dict[str, str | None]
) -> Rows | None:
    """The training rows: of a run from the file in its configuration, else from `data`."""
    from calmix.data.columns import ColumnNames
    from calmix.training.label_noise.mapped_rows import read_mapped_rows

    run = RunDirectory(source)
    if found.kind != "run" or not run.config_file.is_file():
        if data is None:
            return None
        return read_mapped_rows(found.datamap, data, ColumnNames.from_options(**names), labelled=False)
    trained = run.config()
    given = {name: names[name] or trained.get(f"{name}_column") for name in names}
    columns = ColumnNames.from_options(
        **given, label=trained.get("label_column"), image=trained.get("image_column")
    )
    return read_mapped_rows(found.datamap, data or trained["train"], columns)


def retraining(found: DynamicsSource, source: Path, **changes: Any) -> TrainConfig:
    """How the passes are trained: as the run was, but for what the options say."""
    from calmix.training.configuration import TrainConfig

    run = RunDirectory(source)
    if found.kind != "run" or not run.config_file.is_file():
        raise UserError(
            f"{argument('retrain')} needs a run: its configuration has the data and settings",
            file=source,
            remedy="give a run directory of 'calmix train'",
        )
    given = {name: value for name, value in changes.items() if value is not None}
    return replace(TrainConfig.from_dict(run.config()), **given)
