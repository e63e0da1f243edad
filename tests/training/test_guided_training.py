"""Guided methods on real (tiny) networks: every family, pairs and choices, through the trainer."""

import json

import numpy as np
import pytest
import torch

from calmix.data.batches.encoding import PaddingCollator, encode_rows
from calmix.data.columns import ColumnNames
from calmix.data.reading import read_rows
from calmix.dynamics.datamap import DataMap
from calmix.dynamics.training_dynamics import TrainingDynamics
from calmix.mixing.method import get_method
from calmix.mixing.step import Step, Watch
from calmix.models.hf_compat import last_linear
from calmix.models.loading import load_classifier, load_tokenizer
from calmix.models.mix_points import MixPoints
from calmix.training.forward import Forward
from calmix.user_error import UserError
from tiny import FAMILIES, sentences

GUIDED = [("aum-saliency", {}), ("tdmixup", {"aum_filter": False}), ("informed-mixup", {})]


def random_map(ids, labels, classes=2):
    logits = np.random.default_rng(0).normal(size=(len(labels), 2, classes))
    return DataMap.from_dynamics(TrainingDynamics.from_logits(logits, labels, row_ids=ids))


def map_of(trainer):
    rows = trainer.train_dataset
    return random_map(rows.row_ids, rows.labels)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_features_seen_at_the_head_are_those_that_the_last_layer_takes(make_trainer, family):
    trainer = make_trainer(rows=6, family=family, dropout=0.0)
    inputs = trainer.data_collator([trainer.train_dataset[i] for i in range(6)])
    inputs.pop("labels")
    forward, watch = Forward(trainer.model, trainer.mix_points, inputs), Watch(trainer.mix_points.head)
    logits = forward(watch)
    head = last_linear(trainer.model)
    assert torch.equal(forward.last_weight, head.weight)
    expected = watch.seen @ head.weight.T + (0 if head.bias is None else head.bias)
    np.testing.assert_allclose(logits.detach(), expected.detach(), atol=1e-5)


@pytest.mark.parametrize(("name", "options"), GUIDED, ids=[name for name, _ in GUIDED])
def test_every_row_of_the_groups_is_trained_on_and_recorded_once_an_epoch(make_trainer, name, options):
    settings = {"rows": 42, "method": get_method(name, **options)}
    trainer = make_trainer(data_map=random_map([f"row-{i}" for i in range(42)], labels(42)), **settings)
    trainer.train()
    seen = trainer.recorder.dynamics().seen
    groups = trainer.groups
    whole = {"all": groups.positions, "longest": groups.positions, "shortest": groups.positions[:1]}
    wanted = np.unique(np.concatenate(whole[groups.cover]))
    assert seen[wanted].all()  # in both epochs
    if groups.cover == "shortest":  # as many rows of the larger half as the smaller one has
        low, high = groups.positions
        assert len(low) <= len(high)
        assert seen[high].sum(axis=0).tolist() == [len(low)] * 2
    everywhere = np.unique(np.concatenate(groups.positions))
    assert not np.delete(seen, everywhere, axis=0).any()
    sums = trainer.journal.tallies()
    assert [epoch["rows"] for epoch in sums] == [groups.rows_per_epoch] * 2
    # One optimiser for the whole run: its step count goes on over the epochs.
    steps = {int(state["step"]) for state in trainer.optimizer.state.values()}
    assert steps == {2 * trainer.steps_per_epoch}


def labels(rows):
    return [int(name == "positive") for name in sentences(rows, seed=3)[1]]


def test_the_bank_of_the_second_epoch_holds_the_logits_of_the_first(make_trainer):
    method = get_method("aum-saliency", scope="global")
    ids = [f"row-{i}" for i in range(40)]
    trainer = make_trainer(rows=40, method=method, data_map=random_map(ids, labels(40)))
    trainer.train()
    first = trainer.recorder.dynamics().logits[:, 0]
    known = ~np.isnan(first).any(axis=1)
    np.testing.assert_allclose(trainer.bank.logits[known], first[known], rtol=1e-6)
    pairs = trainer.journal.pairs
    assert {pair["epoch"] for pair in pairs} == {1, 2}


def test_partners_from_all_rows_are_the_same_after_a_resume_in_mid_epoch(make_trainer):
    """What the epoch under way has recorded is not in the bank; in the first epoch there is none."""
    known = random_map([f"row-{i}" for i in range(40)], labels(40))
    settings = {"method": get_method("aum-saliency", scope="global"), "data_map": known}
    whole = make_trainer(checkpoint_steps=1, **settings)
    whole.train()
    assert whole.steps_per_epoch == 5
    for step in (3, 8):
        resumed = make_trainer(output=f"resumed-{step}", **settings)
        resumed.train(resume_from_checkpoint=f"{whole.args.output_dir}/checkpoint-{step}")
        for name, tensor in resumed.model.state_dict().items():
            assert torch.equal(tensor, whole.model.state_dict()[name]), (step, name)


def test_a_guided_method_without_a_map_says_what_to_do(make_trainer):
    with pytest.raises(UserError, match="data_map=read_data_map"):
        make_trainer(method=get_method("aum-saliency"))


def test_a_map_of_other_rows_is_refused(make_trainer):
    with pytest.raises(UserError, match="not on the data map"):
        make_trainer(method=get_method("aum-saliency"), data_map=random_map(["a", "b"], [0, 1]))


def write_rows(path, task, rows):
    texts, _ = sentences(3 * rows, seed=5)
    records = []
    for i in range(rows):
        record = {"text": texts[3 * i], "label": i % 3}
        if task == "pair":
            record |= {"text_pair": texts[3 * i + 1], "label": ("same", "other", "unclear")[i % 3]}
        elif task == "choice":
            record |= {"choices": [texts[3 * i + 1], texts[3 * i + 2], "it was great"]}
        records.append(json.dumps(record))
    path.write_text("\n".join(records) + "\n")
    return path


@pytest.mark.parametrize("task", ["pair", "choice"])
@pytest.mark.parametrize(
    ("name", "options"),
    [("aum-saliency", {}), ("tdmixup", {"originals": "none"}), ("informed-mixup", {"padding": "none"})],
)
@pytest.mark.parametrize("at", ["input", "layer"])
def test_pairs_and_choices_below_the_head(encoders, tmp_path, task, at, name, options):
    """One pair of texts at a time gives what the batch gives: segments and choices meet their own."""
    file = write_rows(tmp_path / "train.jsonl", task, 6)
    rows = read_rows(file, columns=ColumnNames())
    tokenizer = load_tokenizer(str(encoders("bert", dropout=0.0)))
    model = load_classifier(
        str(encoders("bert", dropout=0.0)), task=rows.task, label_names=rows.label_names, seed=0
    ).train()
    with torch.no_grad():  # fresh weights are almost 0, and all rows look alike to them
        for module in model.modules():
            if isinstance(module, torch.nn.Linear | torch.nn.Embedding):
                module.weight.mul_(5)
    encoded = encode_rows(rows, tokenizer, max_length=64)
    collate = PaddingCollator.for_tokenizer(tokenizer, is_choice=task == "choice")
    method, points = get_method(name, at=at, alpha=1.0, **options), MixPoints(model)

    def logits_of_pairs(places, pairs):
        inputs = collate([encoded[i] for i in places])
        inputs.pop("labels")
        step = Step(
            torch.zeros(len(places), dtype=torch.int64), 3, Forward(model, points, inputs), inputs=inputs,
            head=points.head, fillers={"sep": tokenizer.sep_token_id},
        )  # fmt: skip
        first, second = torch.tensor(pairs).T
        depth = method.depths(points.head)[0]
        return method.forward_pairs(step, depth, first, second, torch.tensor(0.3)).detach()

    pairs = [(0, 1), (0, 2), (3, 1), (4, 5)]
    together = logits_of_pairs(range(6), pairs)
    for number, (one, other) in enumerate(pairs):
        alone = logits_of_pairs([one, other], [(0, 1)])
        np.testing.assert_allclose(together[number], alone[0], atol=1e-5)
    assert np.ptp(together.numpy(), axis=0).max() > 0.01


@pytest.mark.parametrize(("name", "originals"), [("aum-saliency", "keep"), ("tdmixup", "none")])
def test_mixing_at_the_inputs_is_the_same_after_a_resume_in_mid_epoch(make_trainer, name, originals):
    def trainer(output, **settings):
        options = {"aum_filter": False} if name == "tdmixup" else {}
        method = get_method(name, at="input", originals=originals, **options)
        known = random_map([f"row-{i}" for i in range(32)], labels(32))
        return make_trainer(rows=32, output=output, method=method, data_map=known, **settings)

    saving = {"checkpoint_steps": 5, "save_strategy": "steps", "save_steps": 1000}
    whole, first, again = trainer("whole"), trainer("cut", **saving), trainer("cut", **saving)
    torch.manual_seed(0)
    whole.train()
    torch.manual_seed(0)
    first.train()
    again.train(resume_from_checkpoint=str(first.args.output_dir) + "/checkpoint-5")
    for parameter, value in whole.model.state_dict().items():
        assert torch.equal(value, again.model.state_dict()[parameter]), parameter


@pytest.mark.parametrize("task", ["pair", "choice"])
@pytest.mark.parametrize(
    "method", [name for name, _ in GUIDED] + ["on-off-manifold", "rankmixup", "kernel-warping"]
)
def test_pairs_and_choices(calmix, encoders, tmp_path, monkeypatch, task, method):
    monkeypatch.setenv("CALMIX_CACHE", str(tmp_path / "cache"))
    train = write_rows(tmp_path / "train.jsonl", task, 36)
    validation = write_rows(tmp_path / "validation.jsonl", task, 18)
    code, out, err = calmix(
        "train", "--train", train, "--validation", validation, "--model", encoders("bert", layers=1),
        "--method", method, "--epochs", 2, "--batch-size", 8, "--learning-rate", 1e-3, "--threads", 1,
        "--label-smoothing", 0.1, "--output", tmp_path / "run", "--json",
    )  # fmt: skip
    assert code == 0, err
    metrics = json.loads(out)
    assert metrics["task"] == task
    assert [np.isfinite(epoch["train_loss"]) for epoch in metrics["history"]] == [True, True]
    if method == "aum-saliency":
        guidance = json.loads((tmp_path / "run" / "guidance.json").read_text())
        assert all(len(pair["targets"]) == 3 for pair in guidance["pairs"])
        # Three classes or choices: saliency tells rows apart.
        assert (
            sum(t["ties"] for t in guidance["tallies"]) < sum(t["searches"] for t in guidance["tallies"]) / 2
        )
