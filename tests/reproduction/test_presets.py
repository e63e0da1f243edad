"""The presets that come with calmix: all of them are there, and each runs at the smallest scale, offline."""

import json
from pathlib import Path

import pytest

from calmix.report.reproductions.pages import write_pages
from calmix.reproduction.blocks import blocks_of
from calmix.reproduction.catalogue import PRESETS, all_presets, find_preset, papers, preset_names
from calmix.reproduction.cost import arm_minutes, minutes, run_minutes
from calmix.reproduction.datasets import TaskFiles, datasets
from calmix.reproduction.outcome import Outcome, find_outcomes, judged
from calmix.reproduction.preset import DETECTION_METRICS, METRICS
from calmix.reproduction.running import Options, run_preset
from calmix.reproduction.state import NOT_RUN, UNTESTED, claim_states
from calmix.user_error import UserError

RESULTS = Path(__file__).parents[2] / "results" / "reproduction"
EXPECTED = {
    "mixup-uncertainty": "table1 figure1 figure2 figure3 figure5 figure7 figure8 features imagenet text",
    "mixup-transformers": "table2 table3 table4 table5 table6 figure2",
    "aum-saliency": "table1 table2 table3",
    "tdmixup": "table1 table2 table3",
    "informed-distillation": "table1 table2 table3 table4",
}


def test_every_table_and_figure_has_a_preset():
    expected = {f"{paper}/{name}" for paper, names in EXPECTED.items() for name in names.split()}
    assert set(preset_names()) == expected
    assert {f"{file.parent.name}/{file.stem}" for file in PRESETS.glob("*/*.yaml")} == expected
    assert list(papers()) == list(EXPECTED)


def test_data_sets_of_presets_are_known():
    known = datasets()
    assert {dataset.kind for dataset in known.values()} == {"single", "pair", "choice", "image"}
    for preset in all_presets():
        for scale in preset.scales.values():
            for block in [] if preset.analysis else blocks_of(preset, scale):
                assert {block.task.dataset, *block.task.outside.values()} <= known.keys(), preset.name


@pytest.mark.parametrize("name", preset_names())
def test_the_options_of_every_scale_are_those_of_training(name):
    preset = find_preset(name)
    for scale in preset.scales.values():
        for block in [] if preset.analysis else blocks_of(preset, scale):
            files = TaskFiles("train.csv", "validation.csv", dict.fromkeys(block.task.columns, "test.csv"))
            base = block.base(files, Path("out"), threads=1, device="cpu")
            assert (base.model, base.bins) == (block.model.model, (preset.bins,))


@pytest.mark.parametrize("name", preset_names())
def test_claims_are_about_what_the_table_shows(name):
    preset = find_preset(name)
    for claim in preset.claims:
        assert claim.metric in preset.metrics, claim.key
        for column in claim.on:
            if not preset.analysis:
                assert claim.metric in preset.metrics_of(column), (claim.key, column)


def test_numbers_of_the_papers():
    """Some cells, as printed."""
    tdmixup = find_preset("tdmixup/table2")
    assert str(tdmixup.published["57 % TDMixUp + AUM (ours)", "mnli", "ece"]) == "2.91 ± 1.4"
    assert str(tdmixup.published["100 % Kong et al.", "hellaswag", "accuracy"]) == "32.51 ± 0.8"
    students = find_preset("informed-distillation/table2")
    assert str(students.published["SD-RoBERTa+Ours+(LS+TS)", "epitome", "ece"]) == "0.83 ± 0.4"
    few = find_preset("mixup-transformers/table2")
    assert str(few.published["Manifold", "imdb-32", "ece"]) == "3.4 ± 0.9"
    assert few.claims[0].reported == {"imdb": -3.3, "imdb-32": -25.6}
    detection = find_preset("mixup-uncertainty/table1")
    assert str(detection.published["Mixup (α = 0.4)", "gaussian", "auroc"]) == "95.93"
    assert not any(find_preset("aum-saliency/table1").published.values())


def test_a_row_that_is_not_run_shows_the_numbers_of_the_paper():
    preset = find_preset("tdmixup/table2")
    row = next(row for row in preset.rows if row.not_run)
    assert str(preset.published[row.title, "hellaswag", "ece"]) == "22.68 ± 3.3"
    arms = {arm.key for block in blocks_of(preset, preset.scales["full"]) for arm in block.arms}
    assert arms == set(preset.arms)


def test_a_batch_of_the_papers_holds_as_many_rows_of_each_set():
    """16 rows of either half in a step (SWAG in tdmixup 4, RoBERTa 32); the first stage has one set."""
    for name in ("aum-saliency/table1", "aum-saliency/table3", "tdmixup/table2", "tdmixup/table3"):
        preset = find_preset(name)
        for block in blocks_of(preset, preset.scales["full"]):
            for arm in block.arms:
                if arm.method in ("aum-saliency", "tdmixup"):
                    options, rows = block.options(arm), block.settings()["batch_size"]
                    sizes = options["first_stage_batch_size"], options["batch_size"]
                    assert sizes == (rows, 2 * rows), (name, block.key, arm.key)


def test_the_settings_of_a_paper_are_those_that_its_presets_use(tmp_path):
    preset = find_preset("mixup-transformers/table6")
    outcome = run_preset(preset, Options("full", tmp_path))
    for row in preset.rows:
        for column in preset.columns:
            printed = preset.published[row.title, column, "setting"]
            measured = outcome.cell(row.title, column, "setting")
            assert measured is not None, (row.title, column)
            assert 100 * measured.mean == pytest.approx(printed.value), (row.title, column)


def test_the_plan_counts_shared_runs_once():
    first, second = (run_minutes(find_preset(f"aum-saliency/table{n}")) for n in (1, 2))
    assert set(second) <= set(first)
    assert minutes(find_preset("mixup-uncertainty/imagenet")) is None


def test_the_estimate_is_near_the_minutes_that_were_taken():
    """Within a factor of 2 for every committed outcome: the machine is shared."""
    outcomes = [one for one in find_outcomes(RESULTS) if one.scale == "small" and one.seconds]
    assert outcomes
    for outcome in outcomes:
        preset = find_preset(outcome.preset)
        estimate = sum(
            arm_minutes(block, arm)
            for block in blocks_of(preset, preset.scales["small"])
            if block.key in outcome.settings
            for arm in block.arms
        )
        assert 0.5 < outcome.seconds / 60 / estimate < 2, (outcome.preset, outcome.seconds / 60, estimate)


def test_every_claim_has_a_state_and_a_command():
    states = claim_states(all_presets(), [])
    assert {state.state for state in states} == {NOT_RUN, UNTESTED}
    for state in states:
        scale = "" if state.preset.analysis else f"--scale {'small' if state.state == NOT_RUN else 'full'}"
        assert state.command.startswith(f"calmix reproduce {state.preset.name}")
        assert scale in state.command
    untested = {state.preset.name for state in states if state.state == UNTESTED}
    assert "mixup-uncertainty/imagenet" in untested


@pytest.fixture(scope="session")
def smoke_output(tmp_path_factory):
    """One store for all processes of the tests: presets share runs."""
    base = tmp_path_factory.getbasetemp()
    return (base.parent if base.name.startswith("popen-") else base) / "reproduction"


@pytest.mark.trains
@pytest.mark.parametrize("paper", EXPECTED)
def test_every_preset_runs_at_the_smallest_scale(paper, smoke_output):
    for name in EXPECTED[paper].split():
        preset = find_preset(f"{paper}/{name}")
        outcome = run_preset(preset, Options("smoke", smoke_output, device="cpu"))
        assert outcome.failures == []
        assert outcome.finished
        if preset.analysis == "settings":
            continue
        check_form(preset, outcome)
        assert Outcome.read(smoke_output / f"{paper}/{name}-smoke.json") == outcome
        found = judged(preset, outcome)
        assert len(found) == sum(len(claim.on) for claim in preset.claims)
        if not preset.analysis:  # one seed
            assert {one.verdict.word for one in found} <= {"undecided"}


def check_form(preset, outcome):
    """Rows, columns and metrics of the table are those of the preset, and every arm was run."""
    for row in preset.rows:
        if row.not_run:
            continue
        model = preset.models.get(row.model)
        for column in preset.columns:
            if not preset.analysis:
                task = preset.task_of(column)
                if (model.tasks and task.key not in model.tasks) or (task.only and row.arm not in task.only):
                    continue
            metrics = preset.metrics if preset.analysis else preset.metrics_of(column)
            for metric in metrics:
                if row.stage == "mc_dropout" and metric not in DETECTION_METRICS:
                    continue
                if metric == "top5_accuracy":  # three classes have none
                    continue
                cell = outcome.cell(row.title, column, metric)
                assert cell is not None, (preset.name, row.title, column, metric)
                assert -1 <= cell.mean <= 20
    if not preset.analysis:
        arms = {row.arm for row in preset.rows if not row.not_run}
        assert {regime.arm for regime in outcome.regimes} == arms
        assert all(len(regime.epochs) == 2 for regime in outcome.regimes)


@pytest.mark.trains
def test_a_reproduction_is_rendered_again_without_training(tmp_path, calmix):
    command = [
        "reproduce",
        "mixup-uncertainty/text",
        "--scale",
        "smoke",
        "--output",
        tmp_path,
        "--device",
        "cpu",
    ]
    code, out, err = calmix(*command, "--json")
    assert code == 0, err
    said = json.loads(out)
    assert {cell["metric"] for cell in said["cells"]} == {"accuracy", "ece", "oe"}
    assert {claim["verdict"] for claim in said["claims"]} == {"undecided"}
    report = tmp_path / "mixup-uncertainty" / "text-smoke.html"
    before = report.read_text()
    runs = {file: file.stat().st_mtime_ns for file in tmp_path.glob("work/runs/*/metrics.json")}
    code, _, err = calmix("reproduce", "--from", tmp_path, "--output", tmp_path / "elsewhere")
    assert code == 2 and "leave out --output" in err
    code, out, _ = calmix("reproduce", "--from", tmp_path)
    assert code == 0
    assert str(report) in out
    assert report.read_text() == before
    assert {file: file.stat().st_mtime_ns for file in tmp_path.glob("work/runs/*/metrics.json")} == runs
    for text in ("Text CNN on MR, TREC and IMDB", "The effect of each claim", "training loss (dotted)"):
        assert text in before
    # The smallest scale counts for nothing in the state of the claims.
    page = (tmp_path / "README.md").read_text()
    assert "undecided" not in page.split("## All claims")[1]
    # A second call finds every run.
    code, _, err = calmix(*command)
    assert code == 0
    assert {file: file.stat().st_mtime_ns for file in tmp_path.glob("work/runs/*/metrics.json")} == runs


def test_pages_of_a_directory_without_outcomes_list_every_claim(tmp_path):
    written = write_pages(tmp_path)
    assert {path.name for path in written} == {"README.md", *(f"{paper}.md" for paper in EXPECTED)}
    page = (tmp_path / "README.md").read_text()
    for preset in all_presets():
        assert preset.name in page
        for claim in preset.claims:
            assert claim.statement in page.replace("\\", "")
    assert find_outcomes(tmp_path) == []


def test_a_damaged_outcome_is_said(tmp_path):
    (tmp_path / "tdmixup").mkdir()
    (tmp_path / "tdmixup" / "table2-small.json").write_text("{}")
    with pytest.raises(UserError, match="not written by calmix reproduce"):
        write_pages(tmp_path)


def test_metrics_have_titles():
    assert {metric for preset in all_presets() for metric in preset.metrics} <= METRICS.keys()


@pytest.mark.parametrize("paper", ["aum-saliency", "tdmixup", "informed-distillation"])
def test_the_paper_trains_one_linear_layer_on_the_first_token(paper):
    for preset in (one for one in all_presets() if one.paper == paper):
        heads = {
            scale.name: {block.settings().get("model_options", {}).get("head") for block in blocks}
            for scale, blocks in ((scale, blocks_of(preset, scale)) for scale in preset.scales.values())
        }
        assert heads == {"full": {"linear"}, "small": {None}}, preset.name
