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
