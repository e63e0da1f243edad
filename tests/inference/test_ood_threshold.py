"""The out-of-domain threshold keeps the share of in-domain rows that it states."""

import json

import numpy as np
import pytest

from calmix.inference.ood_threshold import OodThreshold, read_ood_threshold
from calmix.io.run_directory import RunDirectory
from calmix.user_error import UserError


@pytest.mark.parametrize(("rows", "keep"), [(19, 0.95), (50, 0.95), (99, 0.9), (333, 0.99)])
def test_new_rows_of_the_same_kind_are_kept_at_least_as_often_as_stated(rows, keep):
    generator = np.random.default_rng(rows)
    rejected = []
    for _ in range(1500):
        validation, new = generator.normal(size=(rows, 3)), generator.normal(size=(20, 3))
        rejected.append(OodThreshold.fit("energy", validation, keep).rejects(new).mean())
    error = np.std(rejected) / np.sqrt(len(rejected))
    assert np.mean(rejected) <= 1 - keep + 3 * error
    assert np.mean(rejected) >= 1 - keep - 1 / (rows + 1) - 3 * error  # and not much more is kept


def test_too_few_rows_reject_nothing_and_say_how_many_it_takes():
    rule = OodThreshold.fit("msp", np.random.default_rng(0).normal(size=(18, 2)), 0.95)
    assert rule.threshold is None
    assert not rule.rejects(np.random.default_rng(1).normal(size=(50, 2))).any()
    assert rule.explain() == "18 validation rows give no threshold that keeps 95 %: it takes 19"


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"rejection": {"score": "msp"}}'])
def test_a_damaged_file_is_one_line(tmp_path, content):
    (tmp_path / "ood.json").write_text(content)
    with pytest.raises(UserError, match="not what 'calmix ood' writes; run 'calmix ood"):
        read_ood_threshold(RunDirectory(tmp_path), tmp_path)


def test_an_unknown_score_is_refused(tmp_path):
    rule = {"score": "luck", "threshold": 1.0, "keep": 0.95, "rows": 3}
    (tmp_path / "ood.json").write_text(json.dumps({"rejection": rule}))
    with pytest.raises(UserError, match="unknown score 'luck'"):
        read_ood_threshold(RunDirectory(tmp_path), tmp_path)
