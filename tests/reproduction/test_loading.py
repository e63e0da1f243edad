"""Preset files are read strictly: what is wrong gives one line that names the file and the place."""

import copy

import pytest
import yaml

from calmix.reproduction.blocks import blocks_of
from calmix.reproduction.loading import load_preset
from calmix.user_error import UserError

PRESET = {
    "place": "Table 9",
    "title": "A table",
    "metrics": ["accuracy", "ece"],
    "training": {"epochs": 3},
    "models": {"BERT": {"model": "bert-base-uncased"}},
    "tasks": {"reviews": {"title": "Reviews", "outside": {"books": "books"}}},
    "arms": {"plain": {"method": "plain"}, "mixup": {"method": "cls-mixup", "alpha": 0.4}},
    "rows": {
        "Base": {"arm": "plain"}, "Base + TS": {"arm": "plain", "stage": "calibrated"},
        "Mix": {"arm": "mixup"},
    },
    "published": {
        "columns": ["reviews", "books"],
        "Base": {"accuracy": ["90.0 ± 0.3", None], "ece": [2.5, 7]},
        "Mix": {"ece": ["1.5 ± 0.2", None]},
    },
    "claims": {
        "lower": {
            "statement": "Lower.", "place": "Table 9", "arm": "mixup", "against": "plain", "metric": "ece",
            "columns": ["reviews"], "direction": "lower",
        }
    },
    "scales": {"full": {"seeds": [0, 1]}, "small": {"seeds": [0], "models": {"BERT": {"model": "default"}}}},
}  # fmt: skip


@pytest.fixture
def write(tmp_path):
    def make(change=None):
        content = copy.deepcopy(PRESET)
        if change is not None:
            change(content)
        file = tmp_path / "mine" / "table9.yaml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(yaml.safe_dump(content, allow_unicode=True))
        return file

    return make


def test_a_preset_of_ones_own(write):
    preset = load_preset(write())
    assert preset.name == "mine/table9"
    assert preset.columns == ("reviews", "books")
    assert [row.title for row in preset.rows] == ["Base", "Base + TS", "Mix"]
    printed = preset.published["Base", "reviews", "accuracy"]
    assert (printed.value, printed.spread) == (90.0, 0.3)
    assert preset.published["Base", "books", "accuracy"] is None
    assert preset.claims[0].reported == {"reviews": -1.0}
    assert preset.scales["small"].models["BERT"].model == "default"


def test_a_scale_trains_a_stand_in_for_an_arm(write):
    preset = load_preset(
        write(change("scales", "small", "stand_ins", value={"mixup": {"method": "manifold-mixup"}}))
    )
    assert specifications(preset, "small") == ["plain", "manifold-mixup"]
    assert specifications(preset, "full")[1].startswith("cls-mixup")


def specifications(preset, scale):
    block = blocks_of(preset, preset.scales[scale])[0]
    return [block.specification(arm) for arm in block.arms]


def change(*path, value):
    def apply(content):
        place = content
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value

    return apply


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (change("metrix", value=1), "unknown key 'metrix'; did you mean 'metrics'?"),
        (change("training", "epoch", value=3), "unknown key 'epoch'; did you mean 'epochs'?"),
        (change("tasks", "reviews", "outsize", value={}), "did you mean 'outside'?"),
        (change("claims", "lower", "directon", value="lower"), "did you mean 'direction'?"),
        (change("claims", "lower", "arm", value="mixpu"), "arm is 'mixpu'; did you mean 'mixup'?"),
        (change("claims", "lower", "metric", value="ecee"), "did you mean 'ece'?"),
        (change("claims", "lower", "columns", value=["book"]), "did you mean 'books'?"),
        (change("claims", "lower", "direction", value="equal"), "margin is None"),
        (change("claims", "lower", "margin", value=1.0), "with 'equal', and with it alone"),
        (change("rows", "Mix", "stage", value="calibrate"), "did you mean 'calibrated'?"),
        (change("rows", "Mix", "not_run", value="no weights"), "a row that is not run has no arm"),
        (change("arms", "mixup", "method", value="cls-mixpu"), "did you mean cls-mixup"),
        (change("published", "Mix", "ece", value=[1.5]), "give 2 numbers, or null"),
        (change("published", "Mix", "ece", value=["1,5", None]), "write 90.04 ± 0.3, or null"),
        (change("published", "Mixed", value={"ece": [1, 2]}), "did you mean 'Mix'?"),
        (change("scales", "tiny", value={}), "unknown key 'tiny'"),
        (change("scales", value={"small": {}}), "no 'full'"),
        (change("scales", "small", "seeds", value=["a"]), "give a list of whole numbers"),
        (change("scales", "small", "stand_ins", value={"mixpu": {}}), "did you mean 'mixup'?"),
        (change("models", value=["bert"]), "give a table of names and values"),
        (change("models", "BERT", "model", value=None), "no 'model'"),
        (change("arms", value={}), "nothing to run"),
        (change("bins", value="many"), "bins is 'many'"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(write, wrong, said):
    with pytest.raises(UserError) as error:
        load_preset(write(wrong))
    line = str(error.value)
    assert "table9.yaml" in line
    assert said in line
    assert "\n" not in line


@pytest.mark.parametrize("text", ["{", "- a\n- b\n", ""])
def test_a_file_that_is_no_preset(tmp_path, text):
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    with pytest.raises(UserError, match=r"mine\.yaml"):
        load_preset(file)
