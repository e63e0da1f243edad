import numpy as np
import pytest

from calmix.data.columns import ColumnNames
from calmix.data.rows import Rows
from calmix.dynamics.datamap import DataMap
from calmix.dynamics.training_dynamics import TrainingDynamics
from calmix.training.label_noise.mapped_rows import read_mapped_rows, shown_texts
from calmix.user_error import UserError


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "train.csv"
    path.write_text("text,label\none,no\ntwo,yes\nthree,no\nfour,yes\n")
    return path


def datamap(row_ids, labels):
    logits = np.zeros((len(labels), 2, 2))
    return DataMap.from_dynamics(TrainingDynamics.from_logits(logits, labels, row_ids=row_ids))


def test_rows_come_in_the_order_of_the_map_and_the_file_may_hold_more(file):
    rows = read_mapped_rows(datamap(["train-4", "train-1"], [1, 0]), file, ColumnNames())
    assert rows.texts() == ["four", "one"]
    assert rows.row_ids.tolist() == ["train-4", "train-1"]
    assert rows.label_names == ("no", "yes")


def test_missing_rows_and_other_labels_are_refused(file):
    with pytest.raises(UserError, match=r"1 of 2 mapped rows are not in this file, for example 'train-9'"):
        read_mapped_rows(datamap(["train-9", "train-1"], [1, 0]), file, ColumnNames())
    with pytest.raises(UserError, match="another label than in training, for example 'train-2'"):
        read_mapped_rows(datamap(["train-1", "train-2"], [0, 0]), file, ColumnNames())


def test_labels_do_not_matter_where_only_the_texts_are_wanted(file):
    rows = read_mapped_rows(
        datamap(["train-1", "train-2"], [1, 1]), file, ColumnNames(label="gone"), labelled=False
    )
    assert rows.texts() == ["one", "two"]


def test_both_texts_of_a_pair_are_shown():
    rows = Rows.from_columns(["a"], ["A man eats."], pairs=["A man sleeps."])
    assert shown_texts(rows) == ["A man eats.\nA man sleeps."]
