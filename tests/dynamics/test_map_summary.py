import numpy as np

from calmix.dynamics.datamap import DataMap
from calmix.dynamics.dynamics_file import datamap_table
from calmix.dynamics.map_summary import summarise_map
from calmix.dynamics.recorder import DynamicsRecorder
from calmix.dynamics.training_dynamics import TrainingDynamics

RNG = np.random.default_rng(0)
LOGITS = RNG.normal(size=(50, 3, 4))
LABELS = RNG.integers(0, 4, 50)


def test_the_numbers_are_those_of_the_columns_counted_row_by_row():
    datamap = DataMap.from_dynamics(TrainingDynamics.from_logits(LOGITS, LABELS))
    table = datamap_table(datamap, fraction=0.4)
    summary = summarise_map(table, 4)
    rows = table.to_pylist()
    for name in ("easy", "ambiguous", "hard"):
        partition = [row["label"] for row in rows if row["region"] == name]
        sets = [row["label"] for row in rows if row[name]]
        for key, labels in (("partition", partition), ("sets", sets)):
            assert summary[key]["sizes"][name] == len(labels)
            assert summary[key]["class_balance"][name] == [labels.count(one) for one in range(4)]
    assert summary["sets"]["overlap"]["easy_and_ambiguous"] == sum(
        row["easy"] and row["ambiguous"] for row in rows
    )
    middle = sorted(row["aum"] for row in rows)[24:26]
    split = summary["median_split"]
    assert split["median"] == sum(middle) / 2
    low = [row["label"] for row in rows if row["aum"] < split["median"]]
    assert split["sizes"] == {"low": len(low), "high": 50 - len(low)}
    assert split["class_balance"]["low"] == [low.count(one) for one in range(4)]
    assert summary["epochs"] == 3


def test_one_epoch_has_no_regions_and_unseen_rows_do_not_count():
    recorder = DynamicsRecorder(["a", "b", "c"], [0, 1, 1], epochs=1, num_classes=2)
    recorder.record(["a", "b"], [[1.0, 0.0], [3.0, 0.0]])
    summary = summarise_map(datamap_table(DataMap.from_recorder(recorder)), 2)
    assert (summary["partition"], summary["sets"]) == (None, None)
    assert (summary["rows"], summary["scored"], summary["class_counts"]) == (3, 2, [1, 2])
    assert summary["median_split"] == {
        "median": -1.0,
        "sizes": {"low": 1, "high": 1},
        "class_balance": {"low": [0, 1], "high": [1, 0]},
    }
