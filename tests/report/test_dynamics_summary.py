from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from calmix.dynamics.dynamics_file import write_dynamics
from calmix.report.run.dynamics_summary import (
    DynamicsSummary,
    data_map_chart,
    lowest_margin_table,
    region_means_table,
)


@pytest.fixture
def summary_of(tmp_path, dynamics_of):
    def make(rows: int, **settings):
        dynamics = dynamics_of(rows, seed=11, **settings)
        write_dynamics(tmp_path / "dynamics.parquet", dynamics)
        return dynamics, DynamicsSummary.read(tmp_path / "dynamics.parquet")

    return make


def test_the_lowest_rows_are_those_with_the_lowest_mean_margin(summary_of):
    dynamics, summary = summary_of(200)
    lowest = np.argsort(dynamics.margin.mean(axis=1))[:10]
    table = lowest_margin_table(summary)
    assert [row[0] for row in table.rows] == dynamics.row_ids[lowest].tolist()
    assert [row[1] for row in table.rows] == [
        dynamics.class_names[label] for label in dynamics.labels[lowest]
    ]
    assert [float(row[3]) for row in table.rows] == pytest.approx(
        dynamics.margin[lowest].mean(axis=1), abs=6e-4
    )


def test_names_of_the_run_stand_in_where_the_file_has_none(tmp_path, dynamics_of):
    nameless = dataclasses.replace(dynamics_of(20, seed=13), class_names=())
    write_dynamics(tmp_path / "dynamics.parquet", nameless)
    summary = DynamicsSummary.read(tmp_path / "dynamics.parquet", ["a", "b", "c"])
    assert [summary.class_name(label) for label in (0, 2, None)] == ["a", "c", "–"]
    assert DynamicsSummary.read(tmp_path / "dynamics.parquet").class_name(2) == "2"


def test_texts_stand_beside_their_rows_and_are_shortened(summary_of):
    _, summary = summary_of(50)
    ids = [row[0] for row in lowest_margin_table(summary).rows]
    table = lowest_margin_table(summary, texts={ids[0]: "short", ids[1]: "x" * 500})
    assert [row[-1] for row in table.rows][:3] == ["short", "x" * 159 + "…", ""]


def test_the_regions_add_up_to_the_rows(summary_of):
    dynamics, summary = summary_of(200)
    rows = region_means_table(summary).rows
    assert [row[0] for row in rows] == ["easy", "ambiguous", "hard"]
    assert sum(int(row[1]) for row in rows) == 200
    weighted = sum(int(row[1]) * float(row[3]) for row in rows) / 200
    assert weighted == pytest.approx(dynamics.gold_probability.mean(), abs=1e-3)


def test_a_large_map_is_thinned_to_rows_of_the_map(summary_of, drawn):
    dynamics, summary = summary_of(700)
    chart = data_map_chart(summary, "map", "c", points=250)
    confidence = dict(zip(dynamics.row_ids, dynamics.gold_probability.mean(axis=1), strict=True))
    points = drawn(chart).shapes("point")
    said = dict(one["title"].rsplit(": confidence ", 1) for one in points)
    assert len(points) == len(said) == 250
    for name, words in said.items():
        assert float(words.split(",")[0]) == pytest.approx(confidence[name], abs=6e-4)


def test_rows_that_training_never_saw_are_left_out(tmp_path, dynamics_of):
    dynamics = dynamics_of(30, seed=12)
    dynamics.gold_probability[4] = np.nan
    dynamics.margin[4] = np.nan
    write_dynamics(tmp_path / "dynamics.parquet", dynamics)
    summary = DynamicsSummary.read(tmp_path / "dynamics.parquet")
    assert len(summary) == 29
    assert dynamics.row_ids[4] not in summary.column("row_id")


def test_after_one_epoch_there_is_a_map_without_regions(summary_of, drawn):
    _, summary = summary_of(40, epochs=1)
    assert not summary.has_regions
    chart = data_map_chart(summary, "map", "c")
    assert len(drawn(chart).shapes("point")) == 40
    assert chart.legend.entries == ()
