"""`calmix map` on everything it reads, with and without passes, and on bad input."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from calmix.dynamics.suspects import relative_aum
from calmix.training.configuration import TrainConfig
from calmix.training.pipeline.stages import train_staged
from tiny import read_json, sentences

MAP_FILES = {"datamap.parquet", "datamap.csv", "datamap.html", "issues.csv", "suspects.csv", "summary.json"}


@pytest.fixture(scope="module")
def run(reviews, encoders, tmp_path_factory):
    """A finished run of 96 rows, two epochs."""
    folder = tmp_path_factory.mktemp("mapped")
    data = folder / "train.csv"
    data.write_text((reviews / "train.csv").read_text())
    config = TrainConfig(
        train=str(data), validation=str(reviews / "validation.csv"), model=str(encoders("bert")),
        output=str(folder / "run"), epochs=2, batch_size=16, learning_rate=1e-3, max_length=32,
        device="cpu", threads=1,
    )  # fmt: skip
    return train_staged(config).path


@pytest.fixture
def mapped(calmix, tmp_path):
    """Map to `tmp_path/map`: (the JSON that was printed, the directory)."""

    def make(source, *more):
        code, out, err = calmix("map", source, "--output", tmp_path / "map", "--json", *more)
        assert code == 0, err
        return json.loads(out), tmp_path / "map"

    return make


def read_csv(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def training_file(run):
    return Path(yaml.safe_load((run / "config.yaml").read_text())["train"])


def test_a_run_gives_its_own_scores_and_regions(mapped, run):
    summary, directory = mapped(run)
    assert {path.name for path in directory.iterdir()} == MAP_FILES
    table = pq.read_table(directory / "datamap.parquet").to_pydict()
    recorded = pq.read_table(run / "dynamics.parquet").to_pydict()
    for name in ("row_id", "label", "confidence", "variability", "correctness", "aum", "region", "easy"):
        assert table[name] == recorded[name], name
    lines = read_csv(directory / "datamap.csv")
    assert [float(line["aum"]) for line in lines] == pytest.approx(table["aum"], abs=1e-12)
    assert summary["rows"] == summary["scored"] == 96
    assert summary["partition"]["sizes"] == {
        name: table["region"].count(name) for name in ("easy", "ambiguous", "hard")
    }
    both = sum(a and b for a, b in zip(table["hard"], table["ambiguous"], strict=True))
    assert summary["sets"]["overlap"]["hard_and_ambiguous"] == both
    easy = [label for label, region in zip(table["label"], table["region"], strict=True) if region == "easy"]
    assert summary["partition"]["class_balance"]["easy"] == [easy.count(0), easy.count(1)]
    assert summary["median_split"]["median"] == pytest.approx(np.median(table["aum"]))
    assert summary["class_names"] == ["negative", "positive"]
    assert summary == read_json(directory / "summary.json")


def test_without_passes_the_list_is_no_test_and_nobody_is_accused(mapped, run):
    summary, directory = mapped(run)
    recorded = pq.read_table(run / "dynamics.parquet").to_pylist()
    aum, labels = (np.array([row[name] for row in recorded]) for name in ("aum", "label"))
    order = np.argsort(relative_aum(aum.astype(float), labels), kind="stable")
    expected = [recorded[place] for place in order if aum[place] < 0][:50]
    texts = {f"train-{i}": line["text"] for i, line in enumerate(read_csv(training_file(run)), start=1)}
    lines = read_csv(directory / "suspects.csv")
    assert [line["row_id"] for line in lines] == [row["row_id"] for row in expected]
    assert [line["text"] for line in lines] == [texts[row["row_id"]] for row in expected]
    assert lines[0]["label"] == ("negative", "positive")[expected[0]["label"]]
    assert summary["suspect_count"] == len(expected)
    assert [row["row_id"] for row in summary["suspects"]] == [row["row_id"] for row in expected[:20]]
    assert any(note.startswith("not a test") for note in summary["notes"])
    issues = read_csv(directory / "issues.csv")
    assert {line["is_label_issue"] for line in issues} == {""}
    assert texts["train-1"] in (directory / "datamap.html").read_text()


def test_what_is_printed_names_sizes_overlap_classes_and_says_that_it_is_no_test(calmix, run, tmp_path):
    code, out, err = calmix("map", run, "--output", tmp_path / "map")
    assert (code, err) == (0, "")
    for part in (
        "easy",
        "ambiguous",
        "hard",
        "top fractions may overlap",
        "median AUM",
        "negative",
        "not a test",
        "wrong labels:",
        "corrections.csv",
    ):
        assert part in out
    assert f"datamap.html: {tmp_path / 'map' / 'datamap.html'}" in out.splitlines()


def cartography(folder, logits, labels):
    folder.mkdir()
    for epoch in range(logits.shape[1]):
        lines = [
            json.dumps({"guid": row, f"logits_epoch_{epoch}": logits[row, epoch].tolist(), "gold": int(gold)})
            for row, gold in enumerate(labels)
        ]
        (folder / f"dynamics_epoch_{epoch}.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def test_a_cartography_folder_with_texts_named_by_an_id_column(mapped, tmp_path):
    generator = np.random.default_rng(0)
    logits, labels = generator.normal(size=(30, 3, 3)), generator.integers(0, 3, 30)
    folder = cartography(tmp_path / "dynamics", logits, labels)
    data = tmp_path / "texts.jsonl"
    lines = [json.dumps({"guid": row, "text": f"text {row}", "label": "x"}) for row in range(29, -1, -1)]
    data.write_text("\n".join(lines))
    summary, directory = mapped(folder, "--data", data, "--id-column", "guid", "--fraction", "0.2")
    gold = logits[np.arange(30), :, labels]
    others = logits.copy()
    others[np.arange(30), :, labels] = -np.inf
    aum = (gold - others.max(axis=2)).mean(axis=1)
    table = pq.read_table(directory / "datamap.parquet").to_pydict()
    assert table["aum"] == pytest.approx(aum.tolist(), abs=1e-12)
    assert summary["sets"]["sizes"] == {"easy": 6, "ambiguous": 6, "hard": 6}
    worst = int(np.argmin(aum))
    assert (summary["suspects"][0]["row_id"], summary["suspects"][0]["text"]) == (str(worst), f"text {worst}")


def test_aum_values_give_a_list_and_no_regions(mapped, tmp_path):
    (tmp_path / "aum_values.csv").write_text("sample_id,aum\na,-2.5\nb,1.0\nc,-3.0\n")
    summary, directory = mapped(tmp_path / "aum_values.csv")
    assert summary["partition"] is None
    assert [row["row_id"] for row in summary["suspects"]] == ["c", "a"]
    assert summary["median_split"]["sizes"] == {"low": 1, "high": 2}
    assert any("no regions" in note for note in summary["notes"])
    assert pq.read_table(directory / "datamap.parquet")["aum"].to_pylist() == [-2.5, 1.0, -3.0]


def test_a_bare_dynamics_file_maps_like_its_run(mapped, run):
    summary, _ = mapped(run)
    again, _ = mapped(run / "dynamics.parquet", "--data", training_file(run))
    for key in ("partition", "sets", "median_split", "suspect_count"):
        assert summary[key] == again[key]
    assert [row["text"] for row in again["suspects"]] == [row["text"] for row in summary["suspects"]]


def test_stratified_regions_take_their_share_of_every_class(mapped, run):
    summary, _ = mapped(run, "--stratify", "--fraction", "0.25")
    counts = np.array(summary["class_counts"])
    assert summary["sets"]["class_balance"]["easy"] == np.floor(0.25 * counts + 0.5).astype(int).tolist()


def test_a_configuration_file_gives_options_and_flags_win(mapped, run, tmp_path):
    (tmp_path / "map.yaml").write_text("fraction: 0.5\nstratify: true\n")
    summary, _ = mapped(run, "--config", tmp_path / "map.yaml", "--fraction", "0.25")
    assert (summary["options"]["fraction"], summary["options"]["stratify"]) == (0.25, True)


def test_a_moved_training_file_costs_the_texts_and_data_brings_them_back(mapped, run, tmp_path):
    data = training_file(run)
    moved = data.rename(tmp_path / "moved.csv")
    try:
        summary, _ = mapped(run)
        assert "text" not in summary["suspects"][0]
        assert any("give the training file with --data" in note for note in summary["notes"])
        summary, _ = mapped(run, "--data", moved)
        assert summary["suspects"][0]["text"]
    finally:
        moved.rename(data)


def test_without_passes_no_torch_is_loaded(run, tmp_path):
    program = (
        "import sys\nfrom calmix.cli.app import app\n"
        "app(['map', *sys.argv[1:]], standalone_mode=False)\n"
        "assert not {'torch', 'transformers', 'datasets'} & set(sys.modules)\n"
    )
    command = [sys.executable, "-c", program, str(run), "--output", str(tmp_path / "map")]
    subprocess.run(command, check=True, capture_output=True, timeout=120)


def test_a_multiple_choice_run_is_judged_among_its_choices_and_shows_them(
    mapped, encoders, tmp_path, monkeypatch
):
    texts, _ = sentences(40, seed=1)
    lines = [
        {"text": text, "choices": [f"{text} it was", "the plot"], "label": row % 2, "name": f"q{row}"}
        for row, text in enumerate(texts)
    ]
    monkeypatch.chdir(tmp_path)  # the run remembers the file as it was typed
    Path("questions.jsonl").write_text("\n".join(map(json.dumps, lines)))
    config = TrainConfig(
        train="questions.jsonl", model=str(encoders("bert")), output=str(tmp_path / "run"), epochs=2,
        batch_size=8, max_length=48, device="cpu", threads=1, id_column="name",
    )  # fmt: skip
    summary, directory = mapped(train_staged(config).path, "--retrain", "--epochs", 1)
    assert summary["class_names"] == ["0", "1"]
    for one in summary["label_noise"]["passes"]:
        table = pq.read_table(directory / "passes" / one["fingerprint"] / "aum.parquet").to_pydict()
        changed = [given != new for given, new in zip(table["label"], table["assigned"], strict=True)]
        assert changed == table["threshold"]
        assert set(table["assigned"]) == {0, 1}
    first = summary["suspects"][0]
    line = lines[int(first["row_id"][1:])]
    mark = "\n> 0: " if line["label"] == 0 else "\n  0: "
    assert first["text"].startswith(line["text"] + mark + line["choices"][0])


class TestRetrain:
    @pytest.fixture(scope="class")
    def first(self, run, tmp_path_factory):
        """Two passes, trained once for the class."""
        output = tmp_path_factory.mktemp("retrained") / "map"
        command = [sys.executable, "-m", "calmix", "map", run, "--output", output, "--retrain", "--json"]
        done = subprocess.run([str(part) for part in command], check=True, capture_output=True, timeout=300)
        return json.loads(done.stdout), output

    def test_the_flags_are_those_of_the_passes(self, first, run):
        summary, directory = first
        assert {path.name for path in directory.iterdir()} == MAP_FILES | {"noise.parquet", "passes"}
        passes = [
            pq.read_table(directory / "passes" / one["fingerprint"] / "aum.parquet").to_pydict()
            for one in summary["label_noise"]["passes"]
        ]
        cleared = set()
        for one in passes:
            rows = list(zip(one["row_id"], one["aum"], one["threshold"], strict=True))
            wrong = sorted(aum for _, aum, threshold in rows if threshold)
            cutoff = wrong[99 * len(wrong) // 100 - 1]
            cleared |= {row_id for row_id, aum, threshold in rows if not threshold and aum > cutoff}
        noise = pq.read_table(directory / "noise.parquet").to_pydict()
        expected = [row_id not in cleared for row_id in noise["row_id"]]
        assert noise["row_id"] == pq.read_table(run / "dynamics.parquet")["row_id"].to_pylist()
        assert noise["flagged"] == expected
        assert summary["label_noise"]["flagged"] == summary["suspect_count"] == sum(expected)
        datamap = pq.read_table(directory / "datamap.parquet").to_pydict()
        assert (datamap["flagged"], datamap["score"]) == (noise["flagged"], noise["score"])
        issues = read_csv(directory / "issues.csv")
        assert [line["is_label_issue"] == "true" for line in issues] == expected
        scores = [float(line["score"]) for line in read_csv(directory / "suspects.csv")]
        assert scores == sorted(scores)
        assert not any(note.startswith("no test") for note in summary["notes"])

    def test_a_second_call_trains_nothing_and_another_percentile_is_free(self, first, run, calmix):
        summary, directory = first
        code, out, err = calmix("map", run, "--output", directory, "--retrain", "--json")
        assert code == 0, err
        again = json.loads(out)
        assert [one["was_trained"] for one in summary["label_noise"]["passes"]] == [True, True]
        assert [one["was_trained"] for one in again["label_noise"]["passes"]] == [False, False]
        assert again["suspects"] == summary["suspects"]
        code, out, _ = calmix("map", run, "--output", directory, "--retrain", "--percentile", "0.5", "--json")
        strict = json.loads(out)["label_noise"]
        assert not any(one["was_trained"] for one in strict["passes"])
        assert strict["flagged"] <= summary["label_noise"]["flagged"]

    def test_a_map_without_passes_takes_the_place_of_one_with_them(self, first, run, calmix):
        _, directory = first
        code, _, err = calmix("map", run, "--output", directory)
        assert code == 0, err
        assert {path.name for path in directory.iterdir()} == MAP_FILES | {"passes"}


@pytest.fixture
def complaint(calmix, tmp_path):
    """The one line that a bad call prints; nothing is left behind."""

    def run(*arguments, output=tmp_path / "map"):
        code, out, err = calmix("map", *arguments, *(["--output", output] if output else []))
        assert (code, out) == (2, ""), (code, out, err)
        assert err.startswith("calmix: ")
        assert len(err.strip().splitlines()) == 1, err
        assert not (tmp_path / "map").exists()
        assert not list(tmp_path.glob(".*"))
        return err

    return run


def test_sources_that_are_none(complaint, tmp_path):
    assert "no such file or directory" in complaint(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    assert "neither a run nor a folder with dynamics_epoch" in complaint(tmp_path / "empty")
    (tmp_path / "notes.txt").write_text("x")
    assert "dynamics are not read from .txt" in complaint(tmp_path / "notes.txt")
    (tmp_path / "broken.parquet").write_text("x")
    assert "broken.parquet: not a whole parquet file" in complaint(tmp_path / "broken.parquet")


def test_options_out_of_range(complaint, run):
    assert "--fraction is 0" in complaint(run, "--fraction", 0)
    assert "--percentile is 99; give a share, such as 0.33 or 0.99" in complaint(run, "--percentile", 99)
    assert "--runs is 3; give 1 or 2" in complaint(run, "--retrain", "--runs", 3)
    assert "--epochs needs threshold passes; add --retrain" in complaint(run, "--epochs", 3)
    assert "--epochs is 0" in complaint(run, "--retrain", "--epochs", 0)
    assert "no output directory; give --output" in complaint(run, output=None)


def test_passes_need_a_run(complaint, run):
    line = complaint(run / "dynamics.parquet", "--retrain")
    assert "--retrain needs a run" in line
    assert "give a run directory" in line


def test_a_data_file_of_other_rows_or_other_labels(complaint, run, reviews, tmp_path):
    line = complaint(run, "--data", reviews / "test.csv")
    assert "48 of 96 mapped rows are not in this file, for example 'train-49'" in line
    lines = training_file(run).read_text().splitlines()
    turned = {"positive": "negative", "negative": "positive"}
    text, label = lines[3].rsplit(",", 1)
    lines[3] = f"{text},{turned[label]}"
    (tmp_path / "changed.csv").write_text("\n".join(lines) + "\n")
    line = complaint(run, "--data", tmp_path / "changed.csv", "--retrain")
    assert "1 rows have another label than in training, for example 'train-3'" in line


def test_an_output_that_holds_something_else_is_left_alone(complaint, run, tmp_path):
    papers = tmp_path / "papers"
    papers.mkdir()
    (papers / "thesis.txt").write_text("precious")
    assert "not empty and holds no map" in complaint(run, output=papers)
    assert "the output is a file" in complaint(run, output=papers / "thesis.txt")
    assert "thesis.txt: the output is a file" in complaint(run, output=papers / "thesis.txt" / "map")
    assert [path.name for path in papers.iterdir()] == ["thesis.txt"]
    assert "not empty and holds no map" in complaint(run, output=run)


def test_rows_that_were_never_seen_are_nothing_to_map(complaint, tmp_path):
    types = {"gold_probability": pa.float64(), "margin": pa.float64(), "predicted_correctly": pa.bool_()}
    unseen = {name: pa.array([[None, None]] * 3, pa.list_(kind)) for name, kind in types.items()}
    table = pa.table({"row_id": ["a", "b", "c"], "label": [0, 1, 0], **unseen})
    pq.write_table(table, tmp_path / "unseen.parquet")
    assert "unseen.parquet: no row was seen in training" in complaint(tmp_path / "unseen.parquet")
