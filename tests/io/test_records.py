"""Records of runs that were cut short, edited or made by somebody else are refused with the file's name."""

import json
import pickle

import pytest
import yaml

from calmix.io.record_shapes import METRICS, check_shape
from calmix.io.records import Record, read_json_record, read_yaml_record
from calmix.report.tables import metrics_of
from calmix.user_error import UserError

DEEP = 100_000


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not valid JSON"),
        (b'{"splits": {"val', "not valid JSON"),
        (b"[]", "a list where names and values are expected"),
        (b"null", "a NoneType where names and values are expected"),
        (b"\xe9", "not valid JSON"),
        (b'{"a": ["\\ud800"]}', "surrogates not allowed"),
        (b"[" * DEEP, "not valid JSON (nested too deeply)"),
        (b"1" * 5000, "not valid JSON"),
    ],
)
def test_what_is_no_record_in_json(tmp_path, content, said):
    file = tmp_path / "metrics.json"
    file.write_bytes(content)
    with pytest.raises(UserError) as found:
        read_json_record(file)
    assert f"{file}: damaged: " in str(found.value)
    assert said in str(found.value)


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "train: [", "a:\tb\n\tc", "train: !!python/name:os.system", "epochs: 2021-13-45",
        "epochs: !!int abc", "rate: !!float abc", "epochs: !!timestamp abc", "{a: " * 3000 + "1" + "}" * 3000,
    ],
)  # fmt: skip
def test_what_is_no_record_in_yaml(tmp_path, text):
    file = tmp_path / "config.yaml"
    file.write_text(text)
    with pytest.raises(UserError, match="damaged"):
        read_yaml_record(file)


def test_a_missing_file_and_a_missing_key_are_named(tmp_path):
    with pytest.raises(UserError, match="it cannot be read"):
        read_json_record(tmp_path / "metrics.json")
    file = tmp_path / "metrics.json"
    file.write_text(json.dumps({"splits": {"test": {"n": 3}}}))
    record = read_json_record(file)
    assert record["splits"]["test"] == {"n": 3}
    for missing in (lambda: record["task"], lambda: record["splits"]["test"]["ece"]):
        with pytest.raises(UserError, match=r"it has no '(task|ece)'"):
            missing()
    again = pickle.loads(pickle.dumps(record))  # a comparison sends records between processes
    assert again == record and isinstance(again, Record)


def test_a_record_is_written_as_yaml_like_any_mapping(tmp_path):
    file = tmp_path / "metrics.json"
    file.write_text('{"config": {"bins": 15, "trainer": {}}}')
    content = read_json_record(file)
    assert yaml.safe_load(yaml.safe_dump(dict(content))) == {"config": {"bins": 15, "trainer": {}}}


def test_every_metric_that_is_shown_is_checked_to_be_a_number(tmp_path):
    for metric in metrics_of(["ece_100_bins"]):
        splits = {"test": {"calibrated": {metric.key: {}}}}
        with pytest.raises(UserError, match=f"splits.test.calibrated.{metric.key} is an object"):
            check_shape({"splits": splits}, METRICS, tmp_path / "metrics.json")
