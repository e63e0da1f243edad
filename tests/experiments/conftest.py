"""A run of a tiny network, as short as can be."""

from __future__ import annotations

import pytest

from calmix.training.configuration import TrainConfig


@pytest.fixture(scope="session")
def tiny(reviews, encoders):
    """The configuration of a run of about a second."""

    def make(output, **changes):
        settings = {
            "train": str(reviews / "train.csv"),
            "validation": str(reviews / "validation.csv"),
            "test": (str(reviews / "test.csv"), f"other={reviews / 'other.csv'}"),
            "model": str(encoders("bert", layers=1)),
            "output": str(output),
            "learning_rate": 5e-3,
            "epochs": 2,
            "threads": 1,
        }
        return TrainConfig(**{**settings, **changes})

    return make
