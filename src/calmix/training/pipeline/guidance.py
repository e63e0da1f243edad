"""What comes before a guided run: the data map of a plain run, and the rows that are chosen by it.

    plain run (recorder on)  ->  data map  ->  groups of rows  ->  guided run

The plain run is everybody's first stage: it is made once and handed in by whoever keeps runs
(`experiments.store`). A filter of doubtful labels trains a threshold pass on the rows in question.
"""

from __future__ import annotations

import dataclasses
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calmix.data.batches.grouped import RowGroups
from calmix.data.rows import Rows
from calmix.dynamics.datamap import DataMap
from calmix.dynamics.importers import read_data_map
from calmix.io.run_directory import RunDirectory, write_json
from calmix.mixing.known_rows import KnownRows, LabelFilter
from calmix.training.configuration import TrainConfig
from calmix.training.journal import Journal
from calmix.training.label_noise.threshold_passes import find_label_noise
from calmix.training.pipeline.first_stage import check_plain_run
from calmix.user_error import UserError, argument

Positions = NDArray[np.int64]


@dataclass
class Guidance:
    """The data map of the training rows, and what was chosen by it."""

    plain: RunDirectory
    config: TrainConfig
    rows: Rows
    passes: Path
    """Where threshold passes are kept."""
    datamap: DataMap
    notes: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_run(cls, plain: RunDirectory, config: TrainConfig, rows: Rows, passes: Path) -> Guidance:
        check_plain_run(plain)
        datamap = read_data_map(plain.dynamics_file).of_rows(rows.row_ids, source=plain.path)
        changed = np.flatnonzero(datamap.labels != rows.labels)
        if len(changed):
            raise UserError(
                f"{len(changed)} rows have another label than in the plain run, "
                f"for example {rows.row_ids[changed[0]]!s}",
                file=plain.path,
                remedy="give a plain run on the same training file",
            )
        return cls(plain, config, rows, passes, datamap)

    def known_rows(self) -> KnownRows:
        return KnownRows(self.datamap, self.config.seed, self.filter_labels)

    def filter_labels(self, positions: Positions, rule: LabelFilter) -> Positions:
        """The rows whose labels stand the test of a threshold pass on these rows alone."""
        search = find_label_noise(
            self.config,
            self.rows.select(positions),
            self.passes,
            runs=rule.passes,
            percentile=rule.percentile,
        )
        kept = search.verdict.kept
        if rule.unscored == "keep" or not search.passes:
            kept = kept | search.verdict.unscored
        self.notes.setdefault("label_filters", []).append(
            {
                **search.as_dict(),
                "rows": len(positions),
                "kept": int(kept.sum()),
                "unscored_rule": rule.unscored,
            }
        )
        return positions[kept]

    def narrowed(self) -> Guidance:
        """To the rows of `train_region`, as a data set of their own."""
        config = self.config
        regions = self.known_rows().regions()
        chosen = np.zeros(len(self.rows), dtype=np.bool_)
        for number, name in enumerate(config.train_region.split("+")):
            of_region = np.flatnonzero(getattr(regions, name))
            if config.aum_filter and number == 0:  # of easy+ambiguous, the easy rows are filtered
                of_region = self.filter_labels(of_region, LabelFilter(config.aum_quantile))
            chosen[of_region] = True
        positions = np.flatnonzero(chosen)
        if len(positions) < 2:
            raise UserError(
                f"{argument('train_region', config.train_region)}: {len(positions)} rows are left",
                file=self.plain.path,
                remedy=f"train on more rows, or lower {argument('aum_quantile')}"
                if config.aum_filter
                else "train on more rows, or on another region",
            )
        self.notes["train_region"] = {
            "region": config.train_region,
            "aum_filter": config.aum_filter,
            **described(self.rows, positions),
        }
        rows = self.rows.select(positions)
        return dataclasses.replace(self, rows=rows, datamap=self.datamap.select(positions))

    def keep_plain_stage(self, run: RunDirectory) -> dict[str, Any]:
        """Copy the files of the plain run that explain the guided one, and tell what there is to say."""
        run.plain_stage.mkdir(parents=True, exist_ok=True)
        for file in (self.plain.dynamics_file, self.plain.config_file, self.plain.metrics_file):
            shutil.copyfile(file, run.plain_stage / file.name)
        return {
            "plain_run": {"path": str(self.plain.path), "seconds": self.plain.metrics()["seconds"]},
            **self.notes,
        }


def write_guidance(
    run: RunDirectory, guidance: Guidance | None, groups: RowGroups | None, rows: Rows, journal: Journal
) -> None:
    """`guidance.json` of a run that a plain run guided or whose rows met in groups, as random halves do."""
    if guidance is None and groups is None:
        return
    content = {} if guidance is None else guidance.keep_plain_stage(run)
    if groups is not None:
        sets = zip(groups.names, groups.positions, strict=True)
        content["groups"] = [{"name": name, **described(rows, positions)} for name, positions in sets]
        content["rows_per_epoch"] = groups.rows_per_epoch
        content["in_several_groups"] = _repeated(groups.positions)
        content["tallies"] = journal.tallies()
        content["pairs"] = journal.pairs
    write_json(run.guidance_file, content)


def described(rows: Rows, positions: Positions) -> dict[str, Any]:
    """How many rows, and of which classes: a region may be nearly one class."""
    counts = np.bincount(rows.labels[positions], minlength=rows.class_count)
    return {"rows": len(positions), "class_counts": counts.tolist()}


def _repeated(groups: tuple[Positions, ...]) -> int:
    """How many rows are in more than one group."""
    everything = np.concatenate(groups)
    return len(everything) - len(np.unique(everything))
