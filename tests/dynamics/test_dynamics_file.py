import time

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from calmix.dynamics.datamap import DataMap
from calmix.dynamics.dynamics_file import datamap_table, read_dynamics_file, write_datamap, write_dynamics
from calmix.dynamics.recorder import DynamicsRecorder
from calmix.dynamics.training_dynamics import TrainingDynamics
from calmix.user_error import UserError

NAMES = ("no", "yes", "größer")


def recorded(rows=30, epochs=3):
    """Rows 0 and 1 have gaps: one epoch, all epochs."""
    generator = np.random.default_rng(0)
    logits = generator.normal(size=(rows, epochs, 3))
    labels = generator.integers(0, 3, rows)
    ids = [f"train-{row + 1}" for row in range(rows)]
    recorder = DynamicsRecorder(ids, labels, epochs=epochs, num_classes=3, class_names=NAMES)
    for epoch in range(epochs):
        seen = [row for row in range(rows) if row != 1 and (row, epoch) != (0, 1)]
        recorder.record_positions(seen, logits[seen, epoch], epoch=epoch)
    return recorder.dynamics()


def test_the_columns_and_their_types_are_the_documented_ones(tmp_path):
    write_dynamics(tmp_path / "dynamics.parquet", recorded())
    schema = pa.parquet.read_schema(tmp_path / "dynamics.parquet")
    assert {field.name: str(field.type) for field in schema} == {
        "row_id": "string",
        "label": "int64",
        "gold_probability": "list<element: double>",
        "margin": "list<element: double>",
        "predicted_correctly": "list<element: bool>",
        "predicted_label": "list<element: int32>",
        "confidence": "double",
        "variability": "double",
        "correctness": "int64",
        "forgetting": "int64",
        "aum": "double",
        "region": "string",
        "easy": "bool",
        "ambiguous": "bool",
        "hard": "bool",
    }


def test_what_was_written_is_read_to_the_bit(tmp_path):
    before = recorded()
    write_dynamics(tmp_path / "dynamics.parquet", before)
    after = read_dynamics_file(tmp_path / "dynamics.parquet")
    for name in ("row_ids", "labels", "gold_probability", "margin", "predicted_correctly", "predicted_label"):
        np.testing.assert_array_equal(getattr(before, name), getattr(after, name), err_msg=name)
    assert after.class_names == NAMES


def test_what_was_not_seen_is_null(tmp_path):
    write_dynamics(tmp_path / "dynamics.parquet", recorded())
    never = pa.parquet.read_table(tmp_path / "dynamics.parquet").to_pylist()[1]
    partly = pa.parquet.read_table(tmp_path / "dynamics.parquet").to_pylist()[0]
    assert never["gold_probability"] == never["predicted_correctly"] == [None, None, None]
    scores = ("confidence", "variability", "correctness", "forgetting", "aum", "region", "easy", "hard")
    assert [never[name] for name in scores] == [None] * len(scores)
    assert [value is None for value in partly["margin"]] == [False, True, False]
    assert partly["region"] is not None


def test_the_flat_columns_are_the_data_map_and_its_regions(tmp_path):
    dynamics = recorded()
    datamap = DataMap.from_dynamics(dynamics)
    write_dynamics(tmp_path / "dynamics.parquet", dynamics)
    table = pa.parquet.read_table(tmp_path / "dynamics.parquet")
    for name in ("confidence", "variability", "correctness", "forgetting", "aum"):
        np.testing.assert_array_equal(table[name].to_numpy(), getattr(datamap, name), err_msg=name)
    partition, sets = datamap.partition(), datamap.regions()
    for name in ("easy", "ambiguous", "hard"):
        in_partition = np.array([region == name for region in table["region"].to_pylist()])
        np.testing.assert_array_equal(in_partition, getattr(partition, name))
        in_set = table[name].fill_null(False).to_numpy()
        np.testing.assert_array_equal(in_set, getattr(sets, name))


def test_one_epoch_has_a_file_without_regions(tmp_path):
    write_dynamics(tmp_path / "dynamics.parquet", recorded(epochs=1))
    table = pa.parquet.read_table(tmp_path / "dynamics.parquet")
    for name in ("region", "easy", "ambiguous", "hard"):
        assert table[name].null_count == len(table)


def test_nothing_recorded_still_makes_a_file(tmp_path):
    recorder = DynamicsRecorder(["a", "b"], [0, 1], epochs=2, num_classes=2)
    write_dynamics(tmp_path / "dynamics.parquet", recorder.dynamics())
    assert read_dynamics_file(tmp_path / "dynamics.parquet").epochs == 0


def test_the_map_is_written_as_parquet_and_csv_with_the_same_rows(tmp_path):
    table = datamap_table(DataMap.from_dynamics(recorded()))
    write_datamap(tmp_path, table)
    assert pa.parquet.read_table(tmp_path / "datamap.parquet").equals(table)
    rows = pa.csv.read_csv(tmp_path / "datamap.csv")
    assert rows["row_id"].to_pylist() == table["row_id"].to_pylist()
    np.testing.assert_array_equal(rows["aum"].to_numpy(), table["aum"].to_numpy())


def test_stratified_regions_reach_the_file(tmp_path):
    datamap = DataMap.from_dynamics(recorded(rows=90))
    write_datamap(tmp_path, datamap_table(datamap, stratify=True))
    table = pa.parquet.read_table(tmp_path / "datamap.parquet")
    sets = datamap.regions(stratify=True)
    np.testing.assert_array_equal(table["easy"].fill_null(False).to_numpy(), sets.easy)


def test_the_cost_of_writing_and_reading_grows_with_the_rows_and_not_faster(tmp_path):
    def seconds(count):
        logits = np.random.default_rng(0).normal(size=(count, 3, 2)).astype(np.float32)
        ids = [f"train-{row + 1}" for row in range(count)]
        dynamics = TrainingDynamics.from_logits(logits, np.zeros(count, dtype=int), row_ids=ids)
        start = time.process_time()
        write_dynamics(tmp_path / "dynamics.parquet", dynamics)
        read_dynamics_file(tmp_path / "dynamics.parquet")
        return time.process_time() - start

    seconds(100)  # imports
    assert seconds(200_000) < 40 * min(
        seconds(20_000) for _ in range(3)
    )  # 10 times the rows; a square is 100


def broken(tmp_path, **columns):
    table = {
        "row_id": ["a", "b"],
        "label": [0, 1],
        "gold_probability": [[0.5, 0.6], [0.1, 0.2]],
        "margin": [[0.0, 1.0], [2.0, 3.0]],
        "predicted_correctly": [[True, True], [True, False]],
    }
    file = tmp_path / "dynamics.parquet"
    kept = {name: values for name, values in (table | columns).items() if values is not None}
    pa.parquet.write_table(pa.table(kept), file)
    return file


def test_a_file_without_predicted_labels_is_read_too(tmp_path):
    dynamics = read_dynamics_file(broken(tmp_path))
    assert dynamics.predicted_label is None
    assert DataMap.from_dynamics(dynamics).correctness.tolist() == [2, 1]


def test_unsigned_class_indices_are_read_too(tmp_path):
    """No unsigned column can hold the -1 of an epoch in which a row was not seen."""
    unseen = {"gold_probability": [[0.5, None], [0.1, 0.2]], "margin": [[0.0, None], [2.0, 3.0]]}
    predicted = pa.array([[0, None], [1, 0]], pa.list_(pa.uint8()))
    labels = pa.array([0, 1], pa.uint8())
    found = read_dynamics_file(broken(tmp_path, label=labels, predicted_label=predicted, **unseen))
    assert found.predicted_label.tolist() == [[0, -1], [1, 0]]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"margin": None}, "no column 'margin'; the columns are: row_id, label, gold_probability"),
        ({"margin": [[0.0], [1.0]]}, "gold_probability and margin differ in their epochs"),
        ({"margin": [[0.0, None], [1.0, 2.0]]}, "gold_probability and margin differ in their epochs"),
        ({"margin": [[0.0, 1.0], [1.0]]}, "row 2, column 'margin': another number of epochs"),
        ({"margin": [0.0, 1.0]}, "column 'margin': not a list for each row but double"),
        ({"predicted_correctly": [[True], [True]]}, "another number of epochs than gold_probability"),
        ({"margin": [["a", "b"], ["c", "d"]]}, "column 'margin': not numbers but string"),
        ({"margin": [[0.0, np.inf], [1.0, 2.0]]}, "row 1, column 'margin': an infinite value"),
        ({"margin": [[0.0, 1.0], [-1e308, 2.0]]}, "row 2, column 'margin': an infinite value, or one beyond"),
        ({"margin": [None, None]}, "column 'margin'"),
        (
            {"gold_probability": [[0.5, 1], [0.1, 1.5]]},
            "row 2, column 'gold_probability': a probability must",
        ),
        ({"gold_probability": [[-0.5, 1], [0.1, 0]]}, "row 1, column 'gold_probability': a probability must"),
        (
            {"predicted_correctly": [[1, 1], [1, 0]]},
            "'predicted_correctly': not truth values but int64",
        ),
        ({"predicted_label": [["a", "b"], ["c", "d"]]}, "column 'predicted_label': not whole numbers"),
        ({"predicted_label": [[2**40, 0], [0, 0]]}, "column 'predicted_label': from 0 to 1099511627776, no"),
        ({"label": ["a", "b"]}, "column 'label': not whole numbers but string"),
        ({"label": [{"a": 1}, {"a": 2}]}, "column 'label': not whole numbers but struct"),
        ({"label": [0, 2**40]}, "column 'label': from 0 to 1099511627776, no class indices"),
        ({"label": pa.array([0, 2**64 - 1], pa.uint64())}, "column 'label': no class indices"),
        ({"row_id": [{"a": 1}, {"a": 2}]}, "column 'row_id': values of the type struct<a: int64> have no"),
        ({"row_id": [b"\xff", b"a"]}, "column 'row_id': values of the type binary have no text form"),
        ({"row_id": ["a", "a"]}, "row id 'a' occurs twice"),
        ({"row_id": ["a", None]}, "row 2, column 'row_id': no row id"),
    ],
)
def test_a_broken_file_is_refused_with_the_place(tmp_path, columns, message):
    file = broken(tmp_path, **columns)
    with pytest.raises(UserError) as error:
        read_dynamics_file(file)
    assert message in str(error.value)
    assert str(file) in str(error.value)


@pytest.mark.parametrize(
    "names", [b"null", b"3", b'{"a": 1}', b"[1, 2]", b"\xff", b"[" * 100_000, b'["\\ud800", "b"]']
)
def test_class_names_that_are_no_list_of_names_are_refused(tmp_path, names):
    file = broken(tmp_path)
    table = pa.parquet.read_table(file).replace_schema_metadata({"calmix.class_names": names})
    pa.parquet.write_table(table, file)
    with pytest.raises(UserError, match=r"'calmix\.class_names' is not a JSON list of names"):
        read_dynamics_file(file)


def test_what_is_no_parquet_file_is_refused(tmp_path):
    (tmp_path / "dynamics.parquet").write_text("row_id,label\n")
    with pytest.raises(UserError, match="not a whole parquet file"):
        read_dynamics_file(tmp_path / "dynamics.parquet")
    with pytest.raises(UserError, match="no such file"):
        read_dynamics_file(tmp_path / "other.parquet")


def test_labels_without_a_sign_may_be_missing(tmp_path):
    """-1 stands for a missing label; a column of unsigned numbers cannot hold it."""
    file = tmp_path / "dynamics.parquet"
    write_dynamics(file, recorded())
    table = pa.parquet.read_table(file)
    labels = pa.array([None, *table["label"].to_pylist()[1:]], pa.uint8())
    pa.parquet.write_table(table.set_column(table.schema.get_field_index("label"), "label", labels), file)
    assert read_dynamics_file(file).labels.tolist() == [-1, *table["label"].to_pylist()[1:]]
