import json
import shutil

import numpy as np
import pytest

from calmix.dynamics.datamap import DataMap
from calmix.dynamics.dynamics_file import write_dynamics
from calmix.dynamics.importers import read_data_map, read_dynamics
from calmix.dynamics.training_dynamics import TrainingDynamics
from calmix.user_error import UserError

LOGITS = np.random.default_rng(0).normal(size=(12, 3, 2))
GOLD = np.random.default_rng(1).integers(0, 2, 12)


def lines(epoch, logits=LOGITS, gold=GOLD, order=None, guid=lambda row: 100 + row):
    for row in range(len(gold)) if order is None else order:
        values = logits[row, epoch].tolist()
        yield {"guid": guid(row), f"logits_epoch_{epoch}": values, "gold": int(gold[row]), "device": "cuda:0"}


def write_folder(folder, epochs=3, **how):
    folder.mkdir(parents=True, exist_ok=True)
    for epoch in range(epochs):
        order = np.random.default_rng(epoch).permutation(len(GOLD)).tolist()
        text = "".join(json.dumps(line) + "\n" for line in lines(epoch, order=order, **how))
        (folder / f"dynamics_epoch_{epoch}.jsonl").write_text(text)
    return folder


def same_map(one, other):
    ours = dict(zip(other.row_ids.astype(str).tolist(), range(len(other)), strict=True))
    place = [ours[row_id] for row_id in one.row_ids.tolist()]
    for name in (
        "labels",
        "confidence",
        "variability",
        "correctness",
        "forgetting",
        "aum",
        "predicted_label",
    ):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name)[place], atol=1e-15, err_msg=name)


@pytest.fixture
def expected():
    return DataMap.from_dynamics(TrainingDynamics.from_logits(LOGITS, GOLD, row_ids=100 + np.arange(12)))


def test_a_cartography_folder_gives_the_map_of_its_logits(tmp_path, expected):
    source = read_dynamics(write_folder(tmp_path / "training_dynamics"))
    assert source.kind == "cartography"
    same_map(source.datamap, expected)
    assert source.dynamics.epochs == 3


def test_its_parent_is_recognised_too(tmp_path, expected):
    write_folder(tmp_path / "training_dynamics")
    same_map(read_dynamics(tmp_path).datamap, expected)


def test_ten_epochs_are_in_order_of_number_not_of_name(tmp_path):
    logits = np.zeros((1, 11, 2))
    logits[0, :, 0] = np.arange(11)
    for epoch in range(11):
        line = json.dumps(next(lines(epoch, logits, [0])))
        (tmp_path / f"dynamics_epoch_{epoch}.jsonl").write_text(line + "\n")
    assert read_dynamics(tmp_path).dynamics.margin.tolist() == [list(range(11))]


def test_guids_may_mix_numbers_and_text(tmp_path, expected):
    # Arrow's reader refuses such a file; it is read line by line.
    write_folder(tmp_path, guid=lambda row: str(100 + row) if row % 2 else 100 + row)
    same_map(read_dynamics(tmp_path).datamap, expected)


def test_rows_missing_from_an_epoch_are_unseen_there(tmp_path):
    write_folder(tmp_path)
    file = tmp_path / "dynamics_epoch_1.jsonl"
    kept = [line for line in file.read_text().splitlines() if json.loads(line)["guid"] != 105]
    file.write_text("\n".join(kept) + "\n")
    dynamics = read_dynamics(tmp_path).dynamics
    row = dynamics.row_ids.tolist().index("105")
    assert dynamics.seen[row].tolist() == [True, False, True]
    assert dynamics.seen.sum() == 35


def test_logits_that_are_large_integers_are_read(tmp_path):
    """JSON writes 1e20 as an integer that no integer type of numpy holds."""
    values = LOGITS.astype(object)
    values[4] = [[10**20, -(10**20)]] * 3
    found = read_data_map(write_folder(tmp_path, logits=values))
    expected = TrainingDynamics.from_logits(values.astype(float), GOLD, row_ids=100 + np.arange(12))
    same_map(found, DataMap.from_dynamics(expected))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda line: line | {"gold": 1 - line["gold"]}, "has label"),
        (lambda line: line | {"gold": 2}, "row 3, column 'gold': 2 is not a class index in 0..1"),
        (lambda line: line | {"gold": None}, "row 3: no field 'gold'; the fields are: guid, logits_epoch_1"),
        (lambda line: line | {"gold": "yes"}, "row 3, column 'gold': 'yes' is not a class index"),
        (lambda line: line | {"logits_epoch_1": [1.0]}, "row 3, column 'logits_epoch_1': not a list of at"),
        (
            lambda line: line | {"logits_epoch_1": [1.0, None]},
            "row 3, column 'logits_epoch_1': not a list of",
        ),
        (lambda line: line | {"logits_epoch_1": [1.0, 2.0, 3.0]}, "row 3, column 'logits_epoch_1': 3 logits"),
        (lambda line: {"guid": line["guid"]}, "row 3: no field 'logits_epoch_1'"),
        (lambda line: [1, 2], "row 3: a JSON list where an object is expected"),
        (lambda line: None, "row 3: a JSON null where an object is expected"),
        (lambda line: line | {"guid": "\ud800"}, "row 3, column 'guid': a broken character"),
        (
            lambda line: line | {"logits_epoch_1": [1.0, 10**400]},
            "row 3, column 'logits_epoch_1': not a list",
        ),
        # A margin of two such logits is infinite.
        (lambda line: line | {"logits_epoch_1": [1e308, -1e308]}, "row 3, column 'logits_epoch_1': not a"),
        (lambda line: line | {"guid": ["x"]}, "row 3, column 'guid': ['x'] is no id; use texts or numbers"),
        (lambda line: line | {"guid": True}, "row 3, column 'guid': True is no id"),
        (lambda line: line | {"guid": "105\0"}, "row 3, column 'guid': '105\\x00' is no id"),
    ],
)
def test_a_bad_line_is_named(tmp_path, change, message):
    write_folder(tmp_path)
    file = tmp_path / "dynamics_epoch_1.jsonl"
    content = [json.loads(line) for line in file.read_text().splitlines()]
    content[2] = change(content[2])
    file.write_text("".join(json.dumps(line) + "\n" for line in content))
    with pytest.raises(UserError) as error:
        read_dynamics(tmp_path)
    assert message in str(error.value)
    assert "dynamics_epoch_1.jsonl" in str(error.value)


def test_two_files_of_one_epoch_are_refused(tmp_path):
    write_folder(tmp_path)
    shutil.copy(tmp_path / "dynamics_epoch_1.jsonl", tmp_path / "dynamics_epoch_01.jsonl")
    with pytest.raises(UserError, match="two files of epoch 1"):
        read_dynamics(tmp_path)


def test_a_line_that_is_no_json_and_an_empty_file_are_named(tmp_path):
    write_folder(tmp_path)
    file = tmp_path / "dynamics_epoch_2.jsonl"
    file.write_text(file.read_text().replace("}\n", "\n", 1))
    with pytest.raises(UserError, match=r"dynamics_epoch_2.jsonl, row 1: line 1 is not JSON"):
        read_dynamics(tmp_path)
    file.write_text("")
    with pytest.raises(UserError, match=r"dynamics_epoch_2.jsonl: the file is empty"):
        read_dynamics(tmp_path)


def test_epochs_with_another_number_of_classes_are_refused(tmp_path):
    write_folder(tmp_path)
    text = "".join(json.dumps(line) + "\n" for line in lines(2, np.zeros((12, 3, 4))))
    (tmp_path / "dynamics_epoch_2.jsonl").write_text(text)
    with pytest.raises(UserError, match=r"4 logits, dynamics_epoch_0.jsonl has 2"):
        read_dynamics(tmp_path)


def test_our_parquet_alone_and_in_a_run(tmp_path, expected):
    dynamics = TrainingDynamics.from_logits(LOGITS, GOLD, row_ids=100 + np.arange(12), class_names=("n", "y"))
    write_dynamics(tmp_path / "dynamics.parquet", dynamics)
    alone, run = read_dynamics(tmp_path / "dynamics.parquet"), read_dynamics(tmp_path)
    assert (alone.kind, run.kind) == ("parquet", "run")
    same_map(alone.datamap, expected)
    same_map(run.datamap, expected)
    assert read_data_map(tmp_path).class_names == ("n", "y")


def test_the_csv_that_the_aum_package_writes(tmp_path):
    torch = pytest.importorskip("torch")
    aum = pytest.importorskip("aum")
    calculator = aum.AUMCalculator(str(tmp_path))
    for epoch in range(3):
        calculator.update(torch.tensor(LOGITS[:, epoch]), torch.tensor(GOLD), [f"row {i}" for i in range(12)])
    calculator.finalize()
    source = read_dynamics(tmp_path / "aum_values.csv")
    assert source.kind == "aum"
    assert source.dynamics is None
    ours = dict(zip(source.datamap.row_ids.tolist(), source.datamap.aum, strict=True))
    expected = DataMap.from_dynamics(TrainingDynamics.from_logits(LOGITS, GOLD)).aum
    np.testing.assert_allclose([ours[f"row {i}"] for i in range(12)], expected, atol=1e-12)
    assert np.isnan(source.datamap.confidence).all()
    assert (source.datamap.labels == -1).all()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("sample_id,score\n1,2.0\n", "no column 'aum'; the columns are: sample_id, score"),
        ("sample_id,aum\n", "no data rows"),
        ("sample_id,aum,sample_id\n1,2.0,3\n", "two columns are named 'sample_id'"),
        ('sample_id,aum\n1,2.0\n2,"3\n4,5\n', "row 2: a double quote is never closed"),
        ("sample_id,aum\n1,2.0\n2,high\n", "row 2, column 'aum': 'high' is not a finite number"),
        ("sample_id,aum\n1,2.0\n2,\n", "row 2, column 'aum': '' is not a finite number"),
        ("sample_id,aum\n1,1_0\n", "row 1, column 'aum': '1_0' is not a finite number"),
        ("sample_id,aum\n1,1e308\n", "row 1, column 'aum': '1e308' is not a finite number of at most 1e+30"),
        ("sample_id,aum\n1,nan\n", "row 1, column 'aum': 'nan' is not a finite number"),
        ("sample_id,aum\n1,2.0\n1,3.0\n", "row id '1' occurs twice"),
        ("sample_id,aum\n1,2.0,3\n", "row 1: 3 fields"),
        ("", "the file is empty"),
    ],
)
def test_a_bad_csv_is_refused(tmp_path, content, message):
    (tmp_path / "aum_values.csv").write_text(content)
    with pytest.raises(UserError) as error:
        read_dynamics(tmp_path / "aum_values.csv")
    assert message in str(error.value)


def test_other_sources_are_told_what_is_expected(tmp_path):
    with pytest.raises(UserError, match="no such file or directory"):
        read_dynamics(tmp_path / "nothing")
    with pytest.raises(UserError, match="neither a run nor a folder"):
        read_dynamics(tmp_path)
    (tmp_path / "config.yaml").write_text("method: plain\n")
    with pytest.raises(UserError, match=r"the run has no dynamics.parquet"):
        read_dynamics(tmp_path)
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(UserError, match=r"dynamics are not read from \.txt"):
        read_dynamics(tmp_path / "notes.txt")
    write_folder(tmp_path / "folder")
    with pytest.raises(UserError, match="give the folder it is in"):
        read_dynamics(tmp_path / "folder" / "dynamics_epoch_0.jsonl")
