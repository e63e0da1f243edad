"""What outgrows the memory lies on disk, and is the same there."""

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from numpy.testing import assert_array_equal
from transformers import AutoTokenizer

from calmix.data.batches.encoding import encode_rows
from calmix.data.checks import check_splits
from calmix.data.columns import ColumnNames
from calmix.data.reading import Request, rows_from_table
from calmix.data.sampling import stratified_split
from calmix.data.splits import Splits
from calmix.dynamics.datamap import DataMap
from calmix.dynamics.dynamics_file import read_dynamics_file, write_dynamics
from calmix.dynamics.recorder import DynamicsRecorder
from calmix.io.tables import read_table
from calmix.runtime import large_arrays
from calmix.user_error import UserError

TEXTS = [f"a {word} film {number % 40}, ünïcode" for number, word in enumerate(("great", "dull") * 50)]


@pytest.fixture
def on_disk(monkeypatch, tmp_path):
    """Whatever is made within goes to disk; gives the calls that put it there."""
    made = []
    real = large_arrays.unnamed_file
    monkeypatch.setenv("CALMIX_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(large_arrays, "unnamed_file", lambda: made.append(1) or real())

    def use():
        monkeypatch.setattr(large_arrays, "MEMORY_BYTES", 1)
        return made

    return use


def read_rows(file):
    return rows_from_table(read_table(file), Request("train", ColumnNames()))


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_rows_are_the_same_in_memory_and_on_disk(on_disk, tmp_path, encoders, kind):
    table = pa.table({"text": TEXTS, "label": [str(number % 3) for number in range(100)]})
    file = tmp_path / f"rows.{kind}"
    pa.csv.write_csv(table, file) if kind == "csv" else pa.parquet.write_table(table, file, row_group_size=30)
    tokenizer = AutoTokenizer.from_pretrained(encoders("bert"))

    def everything():
        rows = read_rows(file)
        rest, part = stratified_split(rows, 0.2, seed=3)
        encoded = encode_rows(rest, tokenizer, max_length=8, chunk=7)
        findings = check_splits(Splits(rest, part, {"test": rows}, True))
        assert rest.table.column("text").to_pylist() == [TEXTS[int(i[6:]) - 1] for i in rest.row_ids]
        return [
            rows.fingerprint(), rest.fingerprint(), part.fingerprint(), findings, encoded.row_ids.tolist(),
            *(array.tolist() for array in encoded.content()), encoded.truncated.tolist(),
        ]  # fmt: skip

    before = everything()
    made = on_disk()
    assert everything() == before
    assert len(made) >= 6
    assert not list((tmp_path / "cache" / "scratch").iterdir()), "the files have no name"


def test_dynamics_are_the_same_in_memory_and_on_disk(on_disk, tmp_path):
    generator = np.random.default_rng(0)
    logits, labels = generator.normal(size=(50, 3, 4)).astype(np.float32), generator.integers(4, size=50)

    def everything():
        ids = [f"row-{number}" for number in range(50)]
        recorder = DynamicsRecorder(ids, labels, epochs=3, num_classes=4, keep_logits=True)
        for epoch in range(3):
            rows = generator.permutation(50)[:40]
            recorder.record_positions(rows, logits[rows, epoch], epoch=epoch)
        other = DynamicsRecorder(ids, labels, epochs=3, num_classes=4, keep_logits=True)
        other.merge([recorder])
        write_dynamics(tmp_path / "dynamics.parquet", other.dynamics())
        found = read_dynamics_file(tmp_path / "dynamics.parquet")
        matrices = [found.gold_probability, found.margin, found.predicted_correctly, found.predicted_label]
        return [*recorder.state().values(), found.row_ids, *matrices, DataMap.from_dynamics(found).aum]

    before = everything()
    generator = np.random.default_rng(0)
    generator.normal(size=(50, 3, 4)), generator.integers(4, size=50)
    made = on_disk()
    for one, other in zip(before, everything(), strict=True):
        assert_array_equal(one, other)
    assert len(made) >= 10


def test_parts_are_appended_in_memory_then_on_disk(on_disk, monkeypatch):
    made = on_disk()
    monkeypatch.setattr(large_arrays, "MEMORY_BYTES", 100)
    generator = np.random.default_rng(0)
    parts = [generator.integers(1000, size=size) for size in (0, 3, 7, 0, 20, 1)]
    for count in range(len(parts) + 1):
        growing = large_arrays.GrowingArray(np.int64)
        for part in parts[:count]:
            growing.append(part)
        assert_array_equal(growing.array(), np.concatenate([np.zeros(0, np.int64), *parts[:count]]))
    assert len(made) == 2


def test_a_cache_directory_that_cannot_be_written_is_named(on_disk, monkeypatch, tmp_path):
    on_disk()
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CALMIX_CACHE", str(tmp_path / "file"))
    with pytest.raises(UserError, match=r"file/scratch: rows that do not fit .* CALMIX_CACHE"):
        large_arrays.zeros((100,))
