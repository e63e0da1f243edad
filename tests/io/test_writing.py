"""Tables in every format: what a format has no value for is written as text, nothing is lost."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal

import pyarrow as pa
import pytest

from calmix.io.tables import read_table
from calmix.io.writing import write_table

COLUMNS = {
    "when": (pa.array([1577840523456789123], pa.timestamp("ns")), "2020-01-01 01:02:03.456789123"),
    "day": (pa.array([datetime.date(2020, 1, 2)]), "2020-01-02"),
    "price": (pa.array([Decimal("1.10")]), "1.10"),
    "group": (pa.array(["x"]).dictionary_encode(), "x"),
    "view": (pa.array(["x"]).cast(pa.string_view()), "x"),
    "id": (
        pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16], pa.binary(16))),
        "30303030-3030-3030-3030-303030303030",
    ),
    "list": (pa.array([[1, 2]], pa.large_list(pa.int64())), [1, 2]),
    "object": (pa.array([{"a": datetime.date(2020, 1, 2)}]), {"a": "2020-01-02"}),
    "nothing": (pa.array([None], pa.list_(pa.int64())), None),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_every_type_has_a_form_in_every_format(name, tmp_path):
    column, expected = COLUMNS[name]
    table = pa.table({"text": ["a"], name: column})
    for extension in ("jsonl", "json"):
        write_table(tmp_path / f"a.{extension}", table)
        assert list(read_table(tmp_path / f"a.{extension}").read_column(name)) == [expected]
    write_table(tmp_path / "a.csv", table)
    (cell,) = read_table(tmp_path / "a.csv").read_column(name)
    assert cell == (
        "" if expected is None else expected if isinstance(expected, str) else json.dumps(expected)
    )
    write_table(tmp_path / "a.parquet", table)
    assert read_table(tmp_path / "a.parquet").read_column(name)[0] == column[0].as_py()
