import json

import pytest

VERBS = ["train", "distill", "compare", "evaluate", "calibrate", "predict", "map", "methods", "demo"]


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself_with_an_example(calmix, verb):
    code, out, _ = calmix(verb, "--help")
    assert code == 0
    assert f"calmix {verb}" in " ".join(out.split())
    assert "Example" in out
    assert "--json" in out


def test_version(calmix):
    import calmix as package

    assert calmix("--version") == (0, f"calmix {package.__version__}\n", "")


def test_methods_are_listed_with_their_options(calmix):
    code, out, _ = calmix("methods", "--json")
    assert code == 0
    listed = {method["name"]: method for method in json.loads(out)["methods"]}
    assert listed["cls-mixup"]["options"]["alpha"] == 0.4
    assert "Zhang" in listed["cls-mixup"]["citation"]
    code, out, _ = calmix("methods")
    assert code == 0
    assert "manifold-mixup" in out


def test_the_help_of_method_lists_all_methods():
    from calmix.mixing.catalogue import method_cards
    from calmix.training.configuration import METHODS

    assert METHODS.replace(" or ", ", ").split(", ") == list(method_cards())


@pytest.mark.parametrize("verb", ["train", "compare", "distill", "predict", "ood"])
def test_what_most_people_give_is_shown_before_the_rest(calmix, monkeypatch, verb):
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = calmix(verb, "--help")
    assert max(map(len, out.splitlines())) <= 80
    panels = [line.split()[1] for line in out.splitlines() if line.startswith("╭─")]
    assert next(name for name in panels if name != "Arguments") == "Options"
    first = out[: out.index("╭─", out.index("╭─ Options") + 1)]
    common = {"predict": ["--input", "--output"], "ood": ["--in", "--out"]}
    for option in common.get(verb, ["--train", "--test", "--model", "--output"]):
        assert f" {option} " in first
    assert "-column" not in first
