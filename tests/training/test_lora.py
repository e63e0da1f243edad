"""`--lora`: low-rank updates and the head are trained, and merged into an ordinary checkpoint."""

import numpy as np
import pytest
from safetensors.numpy import load_file
from transformers import AutoModelForSequenceClassification

from calmix.calibration.files.prediction_files import read_predictions
from calmix.models.lora import parse_lora
from calmix.training.configuration import TrainConfig
from calmix.training.pipeline.stages import train_staged
from calmix.user_error import UserError

pytest.importorskip("peft")


@pytest.fixture
def train(reviews, encoders, tmp_path, monkeypatch):
    monkeypatch.setenv("CALMIX_CACHE", str(tmp_path / "cache"))

    def run(name, family="bert", resume=False, **options):
        config = TrainConfig(
            train=str(reviews / "train.csv"),
            validation=str(reviews / "validation.csv"),
            model=str(encoders(family, layers=3)),
            output=str(tmp_path / name),
            **{"epochs": 2, "learning_rate": 5e-3, "device": "cpu", "lora": "rank=2:alpha=4", **options},
        )
        return train_staged(config, resume=resume)

    return run


def changed(run, encoder):
    """The names of the encoder's weights that training has changed, and the rank of each change."""
    trained, before = load_file(run.model / "model.safetensors"), load_file(encoder / "model.safetensors")
    differences = {name: trained[f"bert.{name}"] - weight for name, weight in before.items()}
    return {
        name: np.linalg.matrix_rank(change, tol=1e-5) if change.ndim == 2 else 1
        for name, change in differences.items()
        if np.abs(change).max() > 1e-7 and not name.startswith("pooler")
    }


def test_the_merged_updates_have_the_rank_and_the_targets_asked_for(train, encoders):
    run = train("run", lora="rank=2:alpha=4:targets=query,value")
    found = changed(run, encoders("bert", layers=3))
    assert len(found) == 6 and all(name.endswith(("query.weight", "value.weight")) for name in found)
    assert all(1 <= rank <= 2 for rank in found.values())
    AutoModelForSequenceClassification.from_pretrained(run.model)  # an ordinary checkpoint


def test_frozen_layers_get_no_adapters(train, encoders):
    run = train("run", freeze_layers=2, method="cls-mixup", lora="rank=2:targets=query,value")
    found = changed(run, encoders("bert", layers=3))
    assert found and all(name.startswith("encoder.layer.2") for name in found)


def test_a_run_that_goes_on_ends_with_the_same_bits(train, monkeypatch):
    from calmix.training.checkpoints.callback import Checkpointing

    whole = train("whole", checkpoint_steps=2)
    on_save = Checkpointing.on_save

    def stop(self, args, state, control, **kwargs):
        on_save(self, args, state, control, **kwargs)
        if state.global_step == 8:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Checkpointing, "on_save", stop)
        with pytest.raises(KeyboardInterrupt):
            train("cut", checkpoint_steps=2)
    ended = train("cut", checkpoint_steps=2, resume=True)
    first, second = (read_predictions(run.predictions_file("validation")).values for run in (whole, ended))
    assert np.array_equal(first, second)


def test_targets_that_are_not_there_are_named(train, tmp_path):
    with pytest.raises(UserError, match=r"give targets of its linear layers: .*query"):
        train("run", lora="rank=2:targets=no_such_layer")
    assert not (tmp_path / "run").exists()


def test_targets_of_gpt2_are_named_and_its_transposed_weights_warn_of_nothing(train, recwarn):
    with pytest.raises(UserError, match=r"linear layers: c_attn, c_fc, c_proj$"):
        train("run", family="gpt2", lora="rank=2:targets=query")
    train("run", family="gpt2", lora="rank=2:targets=c_attn", epochs=1)
    assert not [warning for warning in recwarn if "fan_in_fan_out" in str(warning.message)]


@pytest.mark.parametrize(
    "text", ["8", "rank=0", "rank=two", "ranks=8", "rank=2:rank=3", "dropout=1", "alpha=-1"]
)
def test_what_cannot_be_read_is_refused(text):
    with pytest.raises(UserError, match="rank=8:alpha=16:targets=query,value"):
        parse_lora(text)
