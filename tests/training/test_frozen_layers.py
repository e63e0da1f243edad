"""`--freeze-layers`: training from cached activations is training with the frozen layers run every time."""

import numpy as np
import pytest
import yaml
from safetensors.numpy import load_file
from transformers import AutoModelForSequenceClassification

from calmix.calibration.files.prediction_files import read_predictions
from calmix.data.batches.state_cache import GIB, StateCache
from calmix.models.frozen_prefix import FrozenPrefix
from calmix.training.configuration import TrainConfig
from calmix.training.pipeline.stages import train_staged
from calmix.user_error import UserError


@pytest.fixture
def train(reviews, encoders, tmp_path, monkeypatch):
    monkeypatch.setenv("CALMIX_CACHE", str(tmp_path / "cache"))

    def run(name, family="bert", **options):
        config = TrainConfig(
            train=str(reviews / "train.csv"),
            validation=str(reviews / "validation.csv"),
            test=(str(reviews / "test.csv"),),
            model=str(encoders(family, layers=3)),
            output=str(tmp_path / name),
            **{"epochs": 2, "learning_rate": 5e-3, "device": "cpu", "freeze_layers": 2, **options},
        )
        return train_staged(config)

    return run


def logits(run, split="test"):
    return read_predictions(run.predictions_file(split)).values


METHODS = [
    ("plain", {}),
    ("cls-mixup", {"alpha": 1.0}),
    # Pairs are padded: the cached activations are not those of the padded texts.
    ("manifold-mixup", {"alpha": 1.0, "layers": [2, 3, 4]}),
]


@pytest.mark.parametrize(("method", "options"), METHODS)
def test_cached_equals_uncached(train, method, options):
    given = {"method": method, "method_options": options}
    cached, live = train("cached", **given), train("live", **given, freeze_cache="off")
    spread = np.ptp(logits(live), axis=0).max()
    assert np.abs(logits(cached) - logits(live)).max() < 1e-3 * spread


def test_the_checkpoint_is_whole_and_its_first_layers_are_the_pretrained_ones(train, encoders):
    run = train("run")
    trained = load_file(run.model / "model.safetensors")
    before = load_file(encoders("bert", layers=3) / "model.safetensors")
    for name, weights in before.items():
        is_frozen = name.startswith(("embeddings", "encoder.layer.0", "encoder.layer.1"))
        assert np.array_equal(trained[f"bert.{name}"], weights) == is_frozen or "pooler" in name, name
    model = AutoModelForSequenceClassification.from_pretrained(run.model)
    assert model.config.num_hidden_layers == 3


def test_activations_are_computed_once_for_seeds_methods_and_passes(train, monkeypatch):
    computed = []
    states_of = FrozenPrefix.states_of
    monkeypatch.setattr(
        FrozenPrefix, "states_of", lambda self, tokens: computed.append(1) or states_of(self, tokens)
    )
    train("first")
    count = len(computed)
    assert 0 < count <= 96 + 48 + 48
    train("passes", method="tdmixup", seed=1)  # a plain run, two threshold passes and a guided run
    assert len(computed) == count
    train("student", student_layers=2, freeze_layers=1, epochs=1)
    assert len(computed) == 2 * count  # another number of frozen layers is another cache


def test_a_run_that_goes_on_ends_with_the_same_bits(train, tmp_path, monkeypatch):
    from calmix.training.checkpoints.callback import Checkpointing

    whole = logits(train("whole", checkpoint_steps=2))
    on_save = Checkpointing.on_save

    def stop(self, args, state, control, **kwargs):
        on_save(self, args, state, control, **kwargs)
        if state.global_step == 8:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Checkpointing, "on_save", stop)
        with pytest.raises(KeyboardInterrupt):
            train("cut", checkpoint_steps=2)
    config = TrainConfig.from_dict(yaml.safe_load((tmp_path / "cut" / "config.yaml").read_text()))
    assert np.array_equal(logits(train_staged(config, resume=True)), whole)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"method": "input-mixup"}, "cannot be mixed at the embeddings"),
        ({"method": "manifold-mixup", "method_options": {"layers": [1, 4]}}, "cannot be mixed at layer 1"),
        ({"method": "on-off-manifold"}, "cannot be mixed at the embeddings"),
        *(
            ({"method": name, "method_options": {"at": "input"}}, "cannot be mixed at the embeddings")
            for name in ("aum-saliency", "tdmixup", "rankmixup")
        ),
        ({"method": "tdmixup", "method_options": {"at": "layer"}}, "cannot be mixed at layer 1"),
        ({"method": "manifold-mixup"}, "cannot be mixed at the embeddings"),
        ({"freeze_layers": 4}, "has 3 layers"),
        ({"family": "albert"}, "share their weights"),
        ({"freeze_cache_limit": 1e-6}, "the limit is 0.0 MiB"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_is_written(train, tmp_path, options, reason):
    with pytest.raises(UserError, match=reason):
        train("run", **options)
    assert not (tmp_path / "run").exists()
    assert not list((tmp_path / "cache").rglob("*.npy"))


def test_methods_that_mix_below_work_without_the_cache(train):
    run = train("run", method="input-mixup", freeze_cache="off")
    assert run.is_finished


def test_half_precision_stays_near(train):
    exact, half = train("exact"), train("half", freeze_cache="float16")
    np.testing.assert_allclose(logits(half), logits(exact), atol=0.02)
    assert not np.array_equal(logits(half), logits(exact))


def test_the_cache_is_found_in_one_place(train, tmp_path):
    train("run")
    (place,) = (path for path in (tmp_path / "cache" / "activations").iterdir() if path.is_dir())
    assert place.name.endswith("-float32")
    assert len(StateCache(place, 32).entries) <= 96 + 48 + 48


def test_test_rows_without_room_in_the_cache_pass_through_the_whole_network(train, tmp_path, monkeypatch):
    first = train("first")
    (place,) = (path for path in (tmp_path / "cache" / "activations").iterdir() if path.is_dir())
    size = sum(file.stat().st_size for file in place.iterdir())
    monkeypatch.setenv("CALMIX_CACHE", str(tmp_path / "small"))
    second = train("second", freeze_cache_limit=0.9 * size / GIB)
    (place,) = (path for path in (tmp_path / "small" / "activations").iterdir() if path.is_dir())
    assert 0 < len(StateCache(place, 32).entries) <= 96 + 48
    np.testing.assert_allclose(logits(second), logits(first), atol=1e-5)
