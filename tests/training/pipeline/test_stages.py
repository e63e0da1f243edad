"""A guided run and the stages before it, through the command line and in a comparison."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load_file

from calmix.dynamics.importers import read_data_map
from calmix.io.run_directory import RunDirectory
from calmix.training.checkpoints.resumable import newest_complete
from calmix.training.configuration import TrainConfig
from calmix.training.pipeline.dry_run import dry_run_guided
from tiny import read_json

GUIDED = ("aum-saliency", "tdmixup", "informed-mixup")


def arguments(reviews, encoder, output, **options):
    values = {
        "train": reviews / "train.csv", "validation": reviews / "validation.csv",
        "test": reviews / "test.csv", "model": encoder, "output": output, "epochs": 2, "batch-size": 8,
        "learning-rate": 1e-3, "threads": 1, **options,
    }  # fmt: skip
    return ["train", *(str(part) for name, value in values.items() for part in (f"--{name}", value))]


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CALMIX_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "runs"


def runs_in(cache):
    return [path for path in cache.iterdir() if (path / "metrics.json").is_file()]


def test_guided_methods_that_follow_each_other_share_one_plain_run(
    calmix, reviews, encoders, cache, tmp_path
):
    encoder = encoders("bert", layers=1)
    for method in GUIDED:
        code, _, err = calmix(*arguments(reviews, encoder, tmp_path / method, method=method))
        assert code == 0, err
        assert f"stage 2 of 2: {method}" in err
        (plain,) = runs_in(cache)
        written = plain.joinpath("metrics.json").stat().st_mtime_ns
        assert f"{'to be made' if method == GUIDED[0] else 'found'} in {plain}" in err
        if method == GUIDED[0]:
            first = written
        assert written == first, "the plain stage was run twice"
        guidance = RunDirectory.open(tmp_path / method).guidance()
        assert guidance["plain_run"]["path"] == str(plain)
        assert {pair["epoch"] for pair in guidance["pairs"]} == {1, 2}
        page = (tmp_path / method / "report.html").read_text()
        assert "Data map of the plain run" in page and "Some of the pairs that were mixed" in page
    # The plain run is what `--method plain` gives: the baseline of every table.
    calmix(*arguments(reviews, encoder, tmp_path / "plain", method="plain"))
    metrics = [read_json(run / "metrics.json")["splits"] for run in (plain, tmp_path / "plain")]
    assert metrics[0] == metrics[1]


def test_a_first_stage_that_has_not_learned_is_pointed_out(calmix, reviews, encoders, cache, tmp_path):
    encoder = encoders("bert", layers=1)
    gentle = {"method": "informed-mixup", "learning-rate": 1e-6}
    code, _, err = calmix(*arguments(reviews, encoder, tmp_path / "gentle", **gentle))
    assert code == 0, err
    (warning,) = [
        line for line in err.splitlines() if line.startswith("WARNING: the plain run has not learned")
    ]
    assert "the training loss hardly moved" in warning
    assert "--learning-rate 1e-4" in warning
    # Said again by whoever finds it in the store.
    code, _, err = calmix(*arguments(reviews, encoder, tmp_path / "again", **gentle))
    assert warning in err.splitlines()


def test_a_threshold_pass_that_is_found_gives_the_weights_of_one_that_is_trained(
    calmix, reviews, encoders, cache, tmp_path
):
    for name in ("trained", "found"):
        code, _, err = calmix(
            *arguments(reviews, encoders("bert", layers=1), tmp_path / name, method="tdmixup")
        )
        assert code == 0, err
    trained, found = (RunDirectory.open(tmp_path / name) for name in ("trained", "found"))
    passes = [run.guidance()["label_filters"][0]["passes"][0] for run in (trained, found)]
    assert [one["was_trained"] for one in passes] == [True, False]
    weights = [load_file(run.model / "model.safetensors") for run in (trained, found)]
    assert all(np.array_equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_the_groups_of_a_run_are_those_of_its_data_map(calmix, reviews, encoders, cache, tmp_path):
    code, _, err = calmix(*arguments(reviews, encoders("bert", layers=1), tmp_path / "run", method="tdmixup",
                                     **{"method-option": "aum_filter=false"}))  # fmt: skip
    assert code == 0, err
    run = RunDirectory.open(tmp_path / "run")
    datamap = read_data_map(run.plain_stage / "dynamics.parquet")
    regions = datamap.regions()
    groups = {group["name"]: group for group in run.guidance()["groups"]}
    for name in ("easy", "ambiguous"):
        mask = getattr(regions, name)
        assert groups[name]["rows"] == mask.sum()
        assert groups[name]["class_counts"] == np.bincount(datamap.labels[mask], minlength=2).tolist()
    allowed = set(datamap.row_ids[regions.easy]), set(datamap.row_ids[regions.ambiguous])
    for pair in run.guidance()["pairs"]:
        assert pair["first"] in allowed[0] and pair["second"] in allowed[1]
        assert sum(pair["targets"]) == pytest.approx(1, abs=1e-5)
    seen = pq.read_table(run.dynamics_file).to_pydict()
    trained = {i for i, value in zip(seen["row_id"], seen["confidence"], strict=True) if value is not None}
    assert trained == allowed[0] | allowed[1]  # hard rows are not trained on


def test_a_plain_run_that_also_teaches_is_trained_once(calmix, reviews, encoders, cache, tmp_path):
    call = arguments(reviews, encoders("bert", layers=1), tmp_path / "run", method="informed-mixup")[1:]
    code, _, err = calmix("distill", *call, "--teacher", "plain")
    assert code == 0, err
    (plain,) = runs_in(cache)
    metrics = plain / "metrics.json"
    assert (plain / "model").is_dir(), "a teacher may be asked again"
    # The store would have made it anew after the answers.
    (answers,) = (plain / "teaching").glob("*.npy")
    assert metrics.stat().st_mtime_ns < answers.stat().st_mtime_ns
    assert "teacher plain, to be made" in err
    assert err.count("to be made") == 1


def test_random_halves_have_a_report_of_their_groups(calmix, reviews, encoders, cache, tmp_path):
    """The ablation of the split: no plain run comes first."""
    encoder = encoders("bert", layers=1)
    call = arguments(reviews, encoder, tmp_path / "run", method="aum-saliency", epochs=1)
    code, _, err = calmix(*call, "--method-option", "split=random")
    assert code == 0, err
    assert not cache.exists()
    run = RunDirectory.open(tmp_path / "run")
    guidance = run.guidance()
    assert "plain_run" not in guidance and not run.plain_stage.exists()
    assert [(group["name"], group["rows"]) for group in guidance["groups"]] == [
        ("first half", 48),
        ("second half", 48),
    ]
    assert guidance["tallies"][0]["searches"] == 2 * 96 and guidance["pairs"]
    page = run.report_file.read_text()
    assert "Groups of rows" in page and "searches" in page and "Data map of the plain run" not in page


def test_a_region_of_the_map_can_be_trained_on_alone(calmix, reviews, encoders, cache, tmp_path):
    encoder = encoders("bert", layers=1)
    sizes = {}
    for region, more in (("easy", {}), ("easy+ambiguous", {}), ("ambiguous", {"aum-quantile": 0.5})):
        output = tmp_path / f"{region}{len(more)}"
        call = arguments(reviews, encoder, output, **{"train-region": region, **more})
        code, _, err = calmix(*call, *(["--aum-filter"] if more else []))
        assert code == 0, err
        run = RunDirectory.open(output)
        rows = pq.read_table(run.dynamics_file)["row_id"].to_pylist()
        sizes[region] = len(rows)
        assert run.metrics()["sizes"]["train"] == len(rows) == run.guidance()["train_region"]["rows"]
        datamap = read_data_map(run.plain_stage / "dynamics.parquet")
        regions = datamap.regions()
        wanted = np.logical_or.reduce([getattr(regions, name) for name in region.split("+")])
        of_region = datamap.row_ids[wanted].tolist()
        assert rows == [row for row in of_region if row in rows] if more else rows == of_region
    assert sizes["easy"] == 32
    assert sizes["ambiguous"] < 32  # threshold samples and doubtful rows are left out
    assert len(runs_in(cache)) == 1


def test_a_plain_run_of_other_rows_is_refused(calmix, reviews, encoders, cache, tmp_path):
    encoder = encoders("bert", layers=1)
    fewer = tmp_path / "fewer.csv"
    fewer.write_text("\n".join((reviews / "train.csv").read_text().splitlines()[:60]) + "\n")
    assert calmix(*arguments(reviews, encoder, tmp_path / "plain", train=fewer))[0] == 0
    call = arguments(reviews, encoder, tmp_path / "run", method="informed-mixup")
    code, _, err = calmix(*call, "--plain-run", tmp_path / "plain")
    assert code == 2
    assert f"{tmp_path / 'plain'}: 37 of 96 training rows are not on the data map" in err
    assert not (tmp_path / "run").exists()
    code, _, err = calmix(*call, "--plain-run", tmp_path / "nowhere")
    assert code == 2 and "no such run directory" in err


def test_the_plain_run_of_ones_own_is_remembered(calmix, reviews, encoders, cache, tmp_path, monkeypatch):
    encoder, mine, run = encoders("bert", layers=1), tmp_path / "mine", RunDirectory(tmp_path / "run")
    for seed, output in ((1, mine), (2, tmp_path / "other")):
        assert calmix(*arguments(reviews, encoder, output, seed=seed))[0] == 0
    call = arguments(reviews, encoder, run.path, method="informed-mixup", **{"checkpoint-steps": 4})

    def cut_off(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("calmix.training.pipeline.recipe.finish", cut_off)
        assert calmix(*call, "--plain-run", mine)[0] not in (0, 2)
    assert newest_complete(run.checkpoints) is not None
    code, _, err = calmix(*call, "--resume")
    assert code == 2 and "started with other options (plain_run)" in err
    # The same place, and another run in it: other groups.
    mine.rename(tmp_path / "aside")
    shutil.copytree(tmp_path / "other", mine)
    code, _, err = calmix("train", "--resume", "--output", run.path)
    assert code == 2 and "the groups of rows are not those that the run began with" in err
    shutil.rmtree(mine)
    (tmp_path / "aside").rename(mine)
    again = tmp_path / "again"
    for more in (["--resume", "--output", run.path], ["--config", run.config_file, "--output", again]):
        code, _, err = calmix("train", *more)
        assert code == 0, err
        assert RunDirectory.open(more[-1]).guidance()["plain_run"]["path"] == str(mine)
    assert not cache.exists()  # no other plain run was made
    weights = [load_file(path / "model" / "model.safetensors") for path in (run.path, again)]
    assert all(np.array_equal(tensor, weights[1][name]) for name, tensor in weights[0].items())


def test_what_is_no_plain_run_is_refused_as_one(calmix, reviews, encoders, cache, tmp_path):
    encoder = encoders("bert", layers=1)
    made = {
        "mixed": {"method": "cls-mixup"},
        "smoothed": {"label-smoothing": 0.1},
        "unrecorded": {"dynamics": "off"},
    }
    for name, options in made.items():
        call = arguments(reviews, encoder, tmp_path / name, epochs=1, **options)
        assert calmix(*call, "--validation", reviews / "validation.csv")[0] == 0
    call = arguments(reviews, encoder, tmp_path / "run", method="informed-mixup")
    for name, said in (
        ("mixed", "trained with --method cls-mixup; give one of --method plain"),
        ("smoothed", "trained with label smoothing"),
        ("unrecorded", "recorded no dynamics; give one that was trained with --dynamics training"),
    ):
        code, _, err = calmix(*call, "--plain-run", tmp_path / name)
        assert code == 2 and f"{tmp_path / name}: " in err and said in err
    call = arguments(reviews, encoder, tmp_path / "run", method="cls-mixup")
    code, _, err = calmix(*call, "--plain-run", tmp_path / "mixed")
    assert code == 2 and "cls-mixup on all rows needs no plain run" in err
    assert not (tmp_path / "run").exists() and not cache.exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"method": "tdmixup", "epochs": 1}, "at least 2 epochs"),
        ({"train-region": "easy", "epochs": 1}, "at least 2 epochs"),
        ({"train-region": "somewhere"}, "--train-region is 'somewhere'"),
        ({"method": "tdmixup", "batch-size": 1}, "give --batch-size 2 or more"),
        ({"method": "informed-mixup", "batch-size": 2}, "give --batch-size 3 or more"),
        (
            {"method": "aum-saliency", "method-option": "scope=global", "dynamics": "epoch_end"},
            "use --dynamics training",
        ),
    ],
)
def test_what_the_last_stage_cannot_do_is_said_before_anything_is_trained(
    calmix, reviews, encoders, cache, tmp_path, options, said
):
    encoder = encoders("bert", layers=1)
    code, _, err = calmix(*arguments(reviews, encoder, tmp_path / "run", **options))
    assert code == 2, err
    assert said in err
    assert not cache.exists() and not (tmp_path / "run").exists()


@pytest.mark.parametrize("metric", ["cosine", "l2_raw"])
def test_a_decoder_has_what_guided_methods_need(reviews, encoders, tmp_path, metric):
    config = TrainConfig(
        train=str(reviews / "train.csv"), output=str(tmp_path), model=str(encoders("gpt2", layers=1)),
        method="aum-saliency", method_options={"metric": metric}, threads=1, device="cpu",
    )  # fmt: skip
    dry_run_guided(config, [])


def test_a_comparison_trains_the_plain_runs_once_and_first(calmix, reviews, encoders, tmp_path):
    call = arguments(reviews, encoders("bert", layers=1), tmp_path / "out")[1:]
    methods = ("--methods", "informed-mixup,aum-saliency")
    code, out, err = calmix("compare", *call, *methods, "--seeds", "0,1", "--json")
    assert code == 0, err
    assert [arm["method"] for arm in json.loads(out)["arms"]] == ["plain", "informed-mixup", "aum-saliency"]
    assert len(runs_in(tmp_path / "out" / "runs")) == 6
    cells = read_json(tmp_path / "out" / "cells.json")["cells"]
    assert [cell["arm"] for cell in cells] == ["plain"] * 2 + ["informed-mixup", "aum-saliency"] * 2
    assert [cell["seed"] for cell in cells] == [0, 1, 0, 0, 1, 1]


def test_killed_in_any_stage_and_resumed_gives_the_same_bits(reviews, encoders, tmp_path):
    """Killed in the plain stage, in the threshold pass and in the guided stage."""
    encoder = encoders("bert", layers=1)
    base = [sys.executable, "-m", "calmix"]
    options = {"method": "tdmixup", "epochs": 4, "checkpoint-steps": 2}

    def environment(name):
        return {**os.environ, "CALMIX_CACHE": str(tmp_path / name)}

    whole = tmp_path / "whole"
    subprocess.run([*base, *arguments(reviews, encoder, whole, **options)], check=True, capture_output=True,
                   env=environment("cache-whole"))  # fmt: skip
    broken = tmp_path / "broken"
    call = [*base, *arguments(reviews, encoder, broken, **options), "--resume"]
    cache = tmp_path / "cache-broken" / "runs"

    def checkpoints(pattern):
        return lambda: any(newest_complete(path) for path in cache.glob(pattern))

    def in_guided():
        newest = newest_complete(broken / "checkpoints")
        return newest is not None and int(newest.name.rpartition("-")[2]) >= 4

    for is_time in (
        checkpoints("[0-9a-f]*/checkpoints"),
        checkpoints("threshold_passes/*/checkpoints"),
        in_guided,
    ):
        process = subprocess.Popen(call, env=environment("cache-broken"), stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)  # fmt: skip
        deadline = time.monotonic() + 240
        while not is_time():
            assert process.poll() is None, "the run ended before it could be killed"
            assert time.monotonic() < deadline
            time.sleep(0.002)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    subprocess.run(call, check=True, capture_output=True, env=environment("cache-broken"))
    weights = [load_file(run / "model" / "model.safetensors") for run in (whole, broken)]
    assert all(np.array_equal(tensor, weights[1][name]) for name, tensor in weights[0].items())
    guidance = [read_json(run / "guidance.json") for run in (whole, broken)]
    for one in guidance:
        one.pop("plain_run")
        for verdict in one["label_filters"]:
            for threshold_pass in verdict["passes"]:
                threshold_pass.pop("was_trained")
    assert guidance[0] == guidance[1]
    shutil.rmtree(tmp_path / "cache-whole")


def test_a_guided_method_with_soft_labels_takes_fewer_validation_rows_than_it_is_tried_on(
    calmix, encoders, tmp_path
):
    lines = [f"a {('warm', 'dull')[n % 2]} film {n},{n % 3 / 2}" for n in range(24)]
    rows = [f"{line},{1 - float(line.rpartition(',')[2])}" for line in lines]
    (tmp_path / "soft.csv").write_text("\n".join(["text,p_good,p_bad", *rows]) + "\n")
    code, _, err = calmix(
        "train", "--train", tmp_path / "soft.csv", "--model", encoders("bert", layers=1), "--method",
        "aum-saliency", "--label-prob-columns", "p_*", "--epochs", "1", "--output", tmp_path / "run",
    )  # fmt: skip
    assert code == 0, err
