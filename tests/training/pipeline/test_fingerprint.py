"""A fingerprint changes with what changes a result, and with nothing else."""

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from calmix.training.pipeline import fingerprint as module
from calmix.training.pipeline.fingerprint import Fingerprints
from calmix.training.pipeline.first_stage import plain_config


@pytest.fixture
def of():
    return lambda config: Fingerprints().of(config)


def as_jsonl(source, target):
    """The same rows in another format, under other column names, elsewhere."""
    with Path(source).open() as file:
        rows = [{"sentence": row["text"], "label": row["label"]} for row in csv.DictReader(file)]
    target.write_text("\n".join(map(json.dumps, rows)))
    return str(target)


def test_the_place_and_the_format_of_the_data_do_not_matter(tiny, tmp_path, of):
    config = tiny(tmp_path / "a")
    test, other = config.test[0], config.test[1].partition("=")[2]
    moved = replace(
        config,
        train=as_jsonl(config.train, tmp_path / "rows.jsonl"),
        validation=as_jsonl(config.validation, tmp_path / "more.jsonl"),
        test=(as_jsonl(test, tmp_path / "t.jsonl"), f"other={as_jsonl(other, tmp_path / 'o.jsonl')}"),
        text_column="sentence",
    )
    assert of(moved) == of(config)


def test_where_and_how_often_a_run_is_written_down_does_not_matter(tiny, tmp_path, of):
    config = tiny(tmp_path / "a")
    assert of(config) == of(replace(config, output="b", checkpoint_steps=3, bins=10, closed="left"))


def test_one_changed_row_matters_in_every_split(tiny, tmp_path, of):
    config = tiny(tmp_path)
    for field in ("train", "validation"):
        changed = tmp_path / f"{field}.csv"
        changed.write_text(Path(getattr(config, field)).read_text().replace("the", "teh", 1))
        assert of(replace(config, **{field: str(changed)})) != of(config)
    changed = tmp_path / "other.csv"
    changed.write_text(Path(config.test[1].partition("=")[2]).read_text() + "great,positive\n")
    assert of(replace(config, test=(config.test[0], f"other={changed}"))) != of(config)


def test_the_content_of_the_network_matters_and_its_prose_does_not(tiny, tmp_path, of):
    config = tiny(tmp_path)
    copy = tmp_path / "copy"
    shutil.copytree(config.model, copy)
    same = replace(config, model=str(copy))
    assert of(same) == of(config)
    (copy / "README.md").write_text("a model card")
    assert of(same) == of(config)
    content = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**content, "hidden_dropout_prob": 0.3}))
    assert of(same) != of(config)


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1}, {"epochs": 3}, {"batch_size": 8}, {"learning_rate": 1e-3}, {"max_length": 32},
        {"threads": 2}, {"label_smoothing": 0.1}, {"method": "focal"}, {"freeze_embeddings": True},
        {"trainer": {"weight_decay": 0.1}}, {"device": "cpu"}, {"dynamics": "epoch_end"},
    ],
    ids=lambda change: next(iter(change)),
)  # fmt: skip
def test_every_option_that_changes_a_result_matters(tiny, tmp_path, of, change):
    config = tiny(tmp_path)
    assert of(replace(config, **change)) != of(config)


def test_an_option_at_its_default_is_the_default(tiny, tmp_path, of):
    config = tiny(tmp_path, method="cls-mixup")
    assert of(replace(config, method_options={"alpha": 0.4})) == of(config)
    assert of(replace(config, method_options={"alpha": 0.5})) != of(config)


def test_several_processes_matter_and_one_keeps_its_name(tiny, tmp_path, of, monkeypatch):
    """Each takes batches of its own: a step has twice the rows."""
    alone = of(tiny(tmp_path))
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert of(tiny(tmp_path)) == alone
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert of(tiny(tmp_path)) != alone


def test_a_plain_run_of_ones_own_counts_by_what_it_recorded(tiny, tmp_path, of):
    config = replace(tiny(tmp_path), method="informed-mixup", epochs=2)
    names = [of(config)]
    for place, recorded in (("a", b"one"), ("b", b"one"), ("c", b"another")):
        (tmp_path / place).mkdir()
        (tmp_path / place / "config.yaml").write_text("method: plain\n")
        (tmp_path / place / "metrics.json").write_text("{}")
        (tmp_path / place / "dynamics.parquet").write_bytes(recorded)
        names.append(of(replace(config, plain_run=str(tmp_path / place))))
    assert names[1] == names[2] and len(set(names)) == 3
    assert of(plain_config(replace(config, plain_run=str(tmp_path / "a")))) == of(plain_config(config))


def test_the_numerics_version_matters(tiny, tmp_path, of, monkeypatch):
    before = of(tiny(tmp_path))
    monkeypatch.setattr(module, "NUMERICS_VERSION", module.NUMERICS_VERSION + 1)
    assert of(tiny(tmp_path)) != before


def test_what_the_processor_decides_about_precision_matters(tiny, tmp_path, of, monkeypatch):
    names = []
    for multiplies in (False, True):
        monkeypatch.setattr(
            "calmix.models.layer_precision.processor_multiplies_bfloat16", lambda told=multiplies: told
        )
        names += [of(tiny(tmp_path, precision=given)) for given in ("auto", "float32", "bfloat16")]
    assert names[0] != names[3]  # a store may be shared by machines that choose differently
    assert names[1:3] == names[4:]
    assert len(set(names)) == 4


def test_the_numerics_of_a_method_matter_to_its_runs_alone(tiny, tmp_path, of, monkeypatch):
    configs = [tiny(tmp_path, method=method) for method in ("cls-mixup", "input-mixup")]
    before = [of(config) for config in configs]
    monkeypatch.setattr("calmix.mixing.methods.cls_mixup.ClsMixup.numerics", 2)
    after = [of(config) for config in configs]
    assert after[0] != before[0]
    assert after[1] == before[1]


def test_the_seed_of_a_validation_part_that_is_split_off_is_read_anew(tiny, tmp_path):
    config = tiny(tmp_path, validation=None)
    fingerprints = Fingerprints()
    first, second = (fingerprints.data_of(replace(config, seed=seed)) for seed in (0, 1))
    assert first["test"] == second["test"]
    assert first["validation"] != second["validation"]
    given = tiny(tmp_path)
    assert fingerprints.data_of(given) == fingerprints.data_of(replace(given, seed=1))
