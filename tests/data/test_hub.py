"""Hub datasets, with the real library and its own dataset objects but without the network."""

from __future__ import annotations

import pytest

from calmix.data import hub
from calmix.data.reading import read_rows
from calmix.data.splits import read_splits
from calmix.user_error import UserError

datasets = pytest.importorskip("datasets")


@pytest.fixture(autouse=True)
def unreachable_hub(monkeypatch):
    """No test asks the network, and none sees what another one loaded."""
    import huggingface_hub

    def refuse():
        raise ConnectionError("no network in tests")

    monkeypatch.setattr(huggingface_hub, "get_session", refuse)
    hub._load.cache_clear()
    yield
    hub._load.cache_clear()


def dataset(labels: list[int], name: str = "text"):
    features = datasets.Features(
        {name: datasets.Value("string"), "label": datasets.ClassLabel(names=["positive", "negative"])}
    )
    texts = [f"text {n}" for n in range(len(labels))]
    return datasets.Dataset.from_dict({name: texts, "label": labels}, features=features)


@pytest.fixture
def served(monkeypatch):
    """What the library would load, and what it was asked for."""
    content, asked = {}, []

    def load_dataset(path, configuration):
        asked.append((path, configuration))
        return datasets.DatasetDict(content)

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    return content, asked


def test_class_labels_come_by_their_names(served):
    content, _ = served
    content["train"] = dataset([0, 1, 1])
    rows = read_rows("owner/reviews", "train")
    assert rows.label_names == ("negative", "positive")
    assert rows.labels.tolist() == [1, 0, 0]
    assert rows.texts() == ["text 0", "text 1", "text 2"]
    assert rows.source == "owner/reviews"


def test_splits_of_a_dataset(served):
    content, asked = served
    content.update(train=dataset([0, 1] * 5), validation=dataset([0]), test=dataset([1, 0]))
    splits = read_splits("owner/reviews:small")
    assert (len(splits.train), len(splits.validation), len(splits.tests["test"])) == (10, 1, 2)
    assert asked == [("owner/reviews", "small")]


def test_a_test_split_with_withheld_labels_is_left_out(served):
    content, _ = served
    content.update(train=dataset([0, 1] * 5), test=dataset([-1, -1]))
    assert read_splits("owner/reviews").tests == {}


def test_a_withheld_label_in_training_is_no_label(served):
    content, _ = served
    content["train"] = dataset([0, 1, -1])
    with pytest.raises(UserError, match=r"^owner/reviews, row 3, column 'label': no label"):
        read_rows("owner/reviews", "train")


def test_missing_split_and_missing_column(served):
    content, _ = served
    content["train"] = dataset([0, 1], name="sentence")
    with pytest.raises(UserError, match=r"^owner/reviews: no split 'test'; the splits are: train$"):
        read_rows("owner/reviews", "test")
    with pytest.raises(UserError, match="no column 'text'; the columns are: sentence, label; name"):
        read_rows("owner/reviews", "train")


def test_an_unreachable_hub_is_one_clear_line():
    with pytest.raises(UserError) as caught:
        read_rows("no-such-owner/no-such-dataset", "train")
    line = str(caught.value)
    assert line.startswith(
        "no-such-owner/no-such-dataset: no such file, and no dataset that the hub gives out ("
    )
    assert line.endswith("check the name, as NAME:CONFIGURATION where it has several, and the connection")
    assert "\n" not in line
