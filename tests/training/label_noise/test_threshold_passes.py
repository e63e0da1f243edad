"""The passes against an explicit loop, their cache, and a pass that was cut off."""

from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from calmix.data.batches.encoding import PaddingCollator, encode_rows
from calmix.data.batches.epoch_order import epoch_batches
from calmix.data.rows import Rows
from calmix.dynamics.label_noise import plan_threshold_samples
from calmix.dynamics.margins import observe
from calmix.models.loading import load_classifier, load_tokenizer
from calmix.training.configuration import TrainConfig
from calmix.training.label_noise import threshold_passes
from calmix.training.label_noise.threshold_passes import FAKE_CLASS, find_label_noise, fingerprint_of
from tiny import NEGATIVE, POSITIVE, build_encoder, sentences

NAMES = ("negative", "positive")


def make_rows(count=36, noise=0.1, seed=5):
    texts, labels = sentences(count, seed=seed, noise=noise)
    indices = [NAMES.index(label) for label in labels]
    return Rows.from_columns([f"train-{i}" for i in range(count)], texts, labels=indices, label_names=NAMES)


@pytest.fixture
def config(encoders):
    return TrainConfig(
        train="train.csv", output="run", model=str(encoders("bert")), epochs=2, batch_size=8,
        learning_rate=1e-3, max_length=32, device="cpu", threads=1,
    )  # fmt: skip


def test_the_aum_is_that_of_a_network_with_one_class_more_trained_on_the_assigned_labels(
    config, encoders, tmp_path
):
    rows = make_rows()
    constant = {"optim": "sgd", "lr_scheduler_type": "constant", "max_grad_norm": 0}
    config = replace(config, model=str(encoders("bert", dropout=0.0)), learning_rate=0.1, trainer=constant)
    search = find_label_noise(config, rows, tmp_path)

    tokenizer = load_tokenizer(config.model)
    collate = PaddingCollator.for_tokenizer(tokenizer, is_choice=False)
    plan = plan_threshold_samples(rows.labels, 2, seed=0, runs=2)
    for run, found in zip(plan.runs, search.passes, strict=True):
        model = load_classifier(config.model, task="single", label_names=(*NAMES, FAKE_CLASS), seed=0)
        encoded = replace(encode_rows(rows, tokenizer, max_length=32), labels=run.labels)
        optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
        model.train()
        seen = np.zeros((len(rows), 2))
        for epoch in range(2):
            for batch in epoch_batches(len(rows), 8, seed=0, epoch=epoch, lengths=encoded.lengths):
                inputs = collate([encoded[int(position)] for position in batch])
                labels = inputs.pop("labels")
                logits = model(**inputs).logits
                assert logits.shape[1] == 3
                seen[batch, epoch] = observe(logits.detach().numpy(), labels.numpy()).margin
                optimiser.zero_grad()
                torch.nn.functional.cross_entropy(logits, labels).backward()
                optimiser.step()
        assert (run.labels[run.threshold] == 2).all()
        assert found.aum == pytest.approx(seen.mean(axis=1), abs=1e-4)


def test_a_row_is_flagged_only_if_every_pass_in_which_it_was_an_original_flags_it(config, tmp_path):
    search = find_label_noise(config, make_rows(), tmp_path, percentile=0.8)
    above = []
    for one in search.passes:
        wrong = np.sort(one.aum[one.run.threshold])
        cutoff = wrong[int(0.8 * len(wrong) + 1e-9) - 1]
        above.append(np.where(one.run.threshold, np.nan, one.aum > cutoff))
    expected = np.nanmax(np.array(above), axis=0) == 0
    assert search.verdict.flagged.tolist() == expected.tolist()
    assert not search.verdict.unscored.any()
    assert search.as_dict()["flagged"] == expected.sum()


def test_one_pass_leaves_its_threshold_samples_unjudged(config, tmp_path):
    search = find_label_noise(config, make_rows(), tmp_path, runs=1)
    assert search.verdict.unscored.tolist() == search.passes[0].run.threshold.tolist()


def test_multiple_choice_passes_assign_another_choice_and_add_none(config, tmp_path):
    texts, _ = sentences(32, seed=1)
    others, _ = sentences(32, seed=2)
    rows = Rows.from_columns(
        [str(i) for i in range(32)],
        texts,
        choices=[[other, text, "the plot"] for text, other in zip(texts, others, strict=True)],
        labels=np.arange(32) % 3,
        label_names=("0", "1", "2"),
    )
    search = find_label_noise(config, rows, tmp_path)
    for one in search.passes:
        assert one.run.num_classes == 3
        assert one.run.labels.max() == 2
        assert (one.run.labels != rows.labels).tolist() == one.run.threshold.tolist()
        assert np.isfinite(one.aum).all()


def test_rows_of_another_label_than_their_words_have_the_lowest_margins(config, tmp_path):
    labels = np.arange(180) % 2
    texts = [f"a {(NEGATIVE, POSITIVE)[label][row % 7]} film" for row, label in enumerate(labels)]
    flipped = np.zeros(180, dtype=bool)
    flipped[np.random.default_rng(0).choice(180, 18, replace=False)] = True
    rows = Rows.from_columns(
        [str(i) for i in range(180)],
        texts,
        labels=np.where(flipped, 1 - labels, labels),
        label_names=NAMES,
    )
    search = find_label_noise(replace(config, epochs=5, learning_rate=3e-3), rows, tmp_path, percentile=0.5)
    aum, flagged = search.verdict.aum, search.verdict.flagged
    # The AUROC, by its definition: how often a flipped row lies below one that was not.
    assert (aum[flipped][:, None] < aum[~flipped]).mean() > 0.95
    assert flagged[flipped].mean() > 0.8
    assert flagged[~flipped].mean() < 0.2


def test_a_finished_pass_is_read_and_not_trained_again(config, tmp_path, monkeypatch):
    first = find_label_noise(config, make_rows(), tmp_path)
    assert [one.was_trained for one in first.passes] == [True, True]
    monkeypatch.setattr(threshold_passes, "train_pass", None)
    second = find_label_noise(replace(config, threads=2, checkpoint_steps=3), make_rows(), tmp_path)
    assert [one.was_trained for one in second.passes] == [False, False]
    for one, other in zip(first.passes, second.passes, strict=True):
        assert one.fingerprint == other.fingerprint
        assert np.array_equal(one.aum, other.aum)


def test_what_changes_a_pass_changes_its_fingerprint(config, tmp_path, monkeypatch):
    monkeypatch.setattr(threshold_passes, "train_pass", lambda config, rows, *_: np.zeros(len(rows)))

    def fingerprint(config=config, rows=None):
        return find_label_noise(config, rows or make_rows(), tmp_path, runs=1).passes[0].fingerprint

    rows = make_rows()
    labels = np.where(np.arange(len(rows)) == 3, 1 - rows.labels, rows.labels)
    other_label = Rows.from_columns(rows.row_ids.tolist(), rows.texts(), labels=labels, label_names=NAMES)
    changed = [
        fingerprint(replace(config, epochs=3)),
        fingerprint(replace(config, learning_rate=1e-4)),
        fingerprint(replace(config, seed=1)),
        fingerprint(replace(config, max_length=5)),
        fingerprint(replace(config, trainer={"weight_decay": 0.1})),
        fingerprint(replace(config, model=str(build_encoder(tmp_path / "other", "bert", layers=1)))),
        fingerprint(rows=other_label),
        fingerprint(rows=make_rows(seed=6)),
    ]
    assert len({fingerprint(), *changed}) == 1 + len(changed)


def test_several_processes_make_another_pass(config, monkeypatch):
    tokenizer = load_tokenizer(config.model)
    model = load_classifier(config.model, task="single", label_names=NAMES, seed=0)
    found = set()
    for processes in ("1", "2"):
        monkeypatch.setenv("WORLD_SIZE", processes)
        found.add(fingerprint_of(config, encode_rows(make_rows(), tokenizer, max_length=32), model))
    assert len(found) == 2


def test_only_margins_are_kept_of_a_pass(config, tmp_path):
    """Neither weights nor logits of the widened head can be mistaken for those of the task."""
    search = find_label_noise(config, make_rows(), tmp_path)
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".lock"]
    held = sorted(path.relative_to(tmp_path).as_posix() for path in files)
    assert held == sorted(f"{one.fingerprint}/aum.parquet" for one in search.passes)
    table = pq.read_table(tmp_path / search.passes[0].fingerprint / "aum.parquet")
    assert table.column_names == ["row_id", "label", "assigned", "threshold", "aum"]
    assert table["assigned"].to_pylist() == search.passes[0].run.labels.tolist()


def test_a_pass_that_was_cut_off_goes_on_and_ends_with_the_same_bits(config, tmp_path, monkeypatch):
    config = replace(config, checkpoint_steps=2, epochs=3)  # five steps an epoch
    unbroken = find_label_noise(config, make_rows(), tmp_path / "unbroken", runs=1)
    steps = []

    def stop_after(last):
        def on_step_end(self, args, state, control, **kwargs):
            steps.append(state.global_step)
            if state.global_step == last:
                raise KeyboardInterrupt

        return on_step_end

    monkeypatch.setattr(threshold_passes.Progress, "on_step_end", stop_after(9))
    with pytest.raises(KeyboardInterrupt):
        find_label_noise(config, make_rows(), tmp_path / "broken", runs=1)
    steps.clear()
    monkeypatch.setattr(threshold_passes.Progress, "on_step_end", stop_after(None))
    resumed = find_label_noise(config, make_rows(), tmp_path / "broken", runs=1)
    assert steps[0] == 9  # from the checkpoint of step 8
    assert np.array_equal(resumed.passes[0].aum, unbroken.passes[0].aum)


def test_the_run_own_evaluation_and_method_play_no_part(config, tmp_path):
    odd = {"eval_strategy": "steps", "eval_steps": 3}
    plain = find_label_noise(config, make_rows(), tmp_path / "plain", runs=1)
    mixed = replace(config, method="cls-mixup", label_smoothing=0.1, trainer=odd, dynamics="off")
    search = find_label_noise(mixed, make_rows(), tmp_path / "mixed", runs=1)
    assert np.array_equal(search.passes[0].aum, plain.passes[0].aum)


def test_too_few_rows_for_threshold_samples_flag_nothing_and_say_so(config, tmp_path):
    search = find_label_noise(config, make_rows(5), tmp_path, runs=1)
    assert search.findings == ("5 rows are too few for a test of their labels at 0.99",)
    assert not search.verdict.flagged.any()
    assert search.verdict.unscored.all()
    assert search.as_dict()["passes"] == []
    assert not list(tmp_path.iterdir()), "nothing was trained for nothing"


def test_random_numbers_go_on_as_if_there_had_been_no_pass(config, tmp_path):
    """Otherwise a run that asks for a pass would end in other weights when the pass is found."""
    torch.manual_seed(3)
    expected = torch.rand(4)
    for _ in ("trained", "found"):
        torch.manual_seed(3)
        find_label_noise(config, make_rows(), tmp_path, runs=1)
        assert torch.equal(torch.rand(4), expected)


def test_a_number_that_yaml_took_for_text_is_a_number(config, tmp_path):
    text, number = (replace(config, trainer={"weight_decay": value}) for value in ("1e-2", 0.01))
    found = [find_label_noise(one, make_rows(), tmp_path / "passes", runs=1) for one in (text, number)]
    assert np.array_equal(found[0].passes[0].aum, found[1].passes[0].aum)
