"""AdamW that moves the embeddings of absent words later: the same weights as AdamW, at any moment."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from calmix.training.optimization.lazy_embeddings import LazyAdamW, lazy_embedding

WORDS, WIDTH, STEPS = 60, 5, 300


def batches(seed=0):
    """Few words are frequent, most are rare: some are absent for hundreds of steps, one for ever."""
    generator = np.random.default_rng(seed)
    return [torch.from_numpy(np.minimum(generator.zipf(1.4, (4, 6)), WORDS - 1)) for _ in range(STEPS)]


class Scorer(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.words = nn.Embedding(WORDS, WIDTH, padding_idx=1)
        self.head = nn.Linear(WIDTH, 1)

    def forward(self, ids):
        # The gradient of a word does not depend on the weights: both optimisers see the very same ones.
        return (
            self.words(ids) * torch.cos(ids.double() + 1).float().unsqueeze(-1)
        ).sum() + self.head.bias.sum()


def rate_at(step):
    return 0.01 * (1 - step / STEPS)


def train(model, optimizer, steps, *, clip=None, look=()):
    for step, ids in enumerate(batches()):
        if step not in steps:
            continue
        for group in optimizer.param_groups:
            group["lr"] = rate_at(step)
        model(ids).backward()
        if clip is not None:
            given = model.parameters()
            is_lazy = isinstance(optimizer, LazyAdamW)
            torch.nn.utils.clip_grad_norm_(optimizer.clippable(given) if is_lazy else given, clip)
        optimizer.step()
        model.zero_grad()
        if step in look:
            model.state_dict()
            optimizer.state_dict()


def make(lazy):
    model = Scorer()
    settings = {"lr": 0.01, "weight_decay": 0.0}
    if not lazy:
        return model, torch.optim.AdamW(model.parameters(), **settings)
    groups = [{"params": list(model.parameters())}]
    return model, LazyAdamW(groups, embedding=model.words, **settings)


@pytest.mark.parametrize("clip", [None, 0.5])
@pytest.mark.parametrize("steps", [1, 2, 37, STEPS])
def test_the_weights_are_those_of_adamw(steps, clip):
    dense, lazy = make(lazy=False), make(lazy=True)
    train(*dense, range(steps), clip=clip)
    train(*lazy, range(steps), clip=clip)
    expected, given = dense[0].state_dict(), lazy[0].state_dict()
    moved = (expected["words.weight"] - Scorer().words.weight).abs().max()
    assert moved > 0.009
    for name, weight in expected.items():
        torch.testing.assert_close(given[name], weight, atol=2e-6, rtol=1e-5)
    lazy[1].finish()
    torch.testing.assert_close(lazy[0].words.weight.data, given["words.weight"], atol=0, rtol=0)
    for name in ("exp_avg", "exp_avg_sq"):
        ours = lazy[1].state[lazy[0].words.weight][name]
        torch.testing.assert_close(ours, dense[1].state[dense[0].words.weight][name], atol=1e-7, rtol=1e-4)


def test_absent_words_are_not_touched_in_a_step():
    model, optimizer = make(lazy=True)
    train(model, optimizer, range(5))
    before = model.words.weight.detach().clone()
    seen = torch.unique(batches()[5])
    train(model, optimizer, range(5, 6))
    changed = (model.words.weight != before).any(dim=1).nonzero().flatten()
    assert set(changed.tolist()) <= set(seen.tolist())


def test_looking_at_the_weights_changes_no_bit_of_what_follows():
    plain, watched = make(lazy=True), make(lazy=True)
    train(*plain, range(60))
    train(*watched, range(60), look=range(0, 60, 7))
    assert torch.equal(plain[0].state_dict()["words.weight"], watched[0].state_dict()["words.weight"])


def test_a_run_that_goes_on_ends_with_the_same_bits():
    whole = make(lazy=True)
    train(*whole, range(80))
    model, optimizer = make(lazy=True)
    train(model, optimizer, range(33))
    saved = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    again, resumed = make(lazy=True)
    again.load_state_dict(saved[0])
    resumed.load_state_dict(saved[1])
    train(again, resumed, range(33, 80))
    for name, weight in whole[0].state_dict().items():
        assert torch.equal(again.state_dict()[name], weight), name


def test_other_weights_that_are_loaded_stay_as_they_are():
    model, optimizer = make(lazy=True)
    train(model, optimizer, range(20))
    best = {name: weight.clone() for name, weight in model.state_dict().items()}
    train(model, optimizer, range(20, 40))
    model.load_state_dict(best)
    model(torch.arange(2, WORDS))
    optimizer.finish()
    assert torch.equal(model.words.weight, best["words.weight"])


def test_the_state_of_a_plain_adamw_can_be_continued():
    dense, lazy = make(lazy=False), make(lazy=True)
    train(*dense, range(40))
    lazy[0].load_state_dict(dense[0].state_dict())
    lazy[1].load_state_dict(copy.deepcopy(dense[1].state_dict()))
    train(*dense, range(40, 60))
    train(*lazy, range(40, 60))
    given = lazy[0].state_dict()["words.weight"]
    torch.testing.assert_close(given, dense[0].words.weight.data, atol=2e-6, rtol=1e-5)


def test_a_trainer_uses_it_where_it_can_and_trains_the_same_network(make_trainer, monkeypatch):
    runs = {}
    for name, least in (("dense", 10**9), ("lazy", 10)):
        monkeypatch.setattr("calmix.training.optimization.lazy_embeddings.LEAST_ELEMENTS", least)
        trainer = make_trainer(output=name, num_train_epochs=3)
        trainer.train()
        optimizer = trainer.optimizer
        assert isinstance(getattr(optimizer, "optimizer", optimizer), LazyAdamW) == (name == "lazy")
        runs[name] = {key: weight.clone() for key, weight in trainer.model.state_dict().items()}
        assert not trainer.model.get_input_embeddings().sparse
    start = make_trainer(output="start").model.state_dict()
    for key, weight in runs["dense"].items():
        moved = (weight - start[key]).abs().max().clamp(min=1e-3)
        assert (runs["lazy"][key] - weight).abs().max() < 0.01 * moved, key


@pytest.mark.parametrize(
    "settings",
    [{"gradient_accumulation_steps": 2}, {"weight_decay": 0.1}, {"optim": "sgd"}, {"optimizer": "adamw"},
     {"max_grad_norm": 0.0}],
)  # fmt: skip
def test_a_trainer_leaves_it_where_it_cannot(make_trainer, monkeypatch, settings):
    monkeypatch.setattr("calmix.training.optimization.lazy_embeddings.LEAST_ELEMENTS", 10)
    trainer = make_trainer(**settings)
    assert not isinstance(trainer.create_optimizer(), LazyAdamW)


def test_only_a_large_embedding_of_its_own_can_wait(monkeypatch):
    class Network(nn.Module):
        def __init__(self, tied=False):
            super().__init__()
            self.words, self.output = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WORDS, bias=False)
            if tied:
                self.output.weight = self.words.weight

        def get_input_embeddings(self):
            return self.words

    alone = {"processes": 1, "accumulation": 1}
    assert lazy_embedding(Network(), **alone) is None
    monkeypatch.setattr("calmix.training.optimization.lazy_embeddings.LEAST_ELEMENTS", 10)
    network = Network()
    assert lazy_embedding(network, **alone) is network.words
    assert lazy_embedding(Network(tied=True), **alone) is None
    assert lazy_embedding(network, processes=2, accumulation=1) is None
    assert lazy_embedding(network, processes=1, accumulation=2) is None
    network.words.weight.requires_grad_(False)
    assert lazy_embedding(network, **alone) is None


@pytest.mark.parametrize("stopped_at", [18])
def test_a_killed_run_with_lazy_embeddings_goes_on_to_the_same_bits(
    reviews, encoders, tmp_path, monkeypatch, stopped_at
):
    """Checkpoints in mid-epoch, evaluation after every epoch, the best epoch loaded at the end."""
    from safetensors.numpy import load_file

    from calmix.training.checkpoints.callback import Checkpointing
    from calmix.training.configuration import TrainConfig
    from calmix.training.pipeline.stages import train_staged

    monkeypatch.setattr("calmix.training.optimization.lazy_embeddings.LEAST_ELEMENTS", 10)

    def run(name, steps, *, resume=False):
        config = TrainConfig(
            train=str(reviews / "train.csv"), validation=str(reviews / "validation.csv"), epochs=3,
            model=str(encoders("bert")), output=str(tmp_path / name), learning_rate=5e-3, batch_size=8,
            device="cpu", checkpoint_steps=steps,
        )  # fmt: skip
        done = train_staged(config, resume=resume)
        return load_file(done.model / "model.safetensors")

    whole = run("whole", 1000)  # without a single checkpoint in mid-epoch
    on_save = Checkpointing.on_save

    def stop(self, args, state, control, **kwargs):
        on_save(self, args, state, control, **kwargs)
        if state.global_step == stopped_at:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Checkpointing, "on_save", stop)
        with pytest.raises(KeyboardInterrupt):
            run("cut", stopped_at)
    resumed = run("cut", stopped_at, resume=True)
    assert all(np.array_equal(resumed[name], weight) for name, weight in whole.items())
