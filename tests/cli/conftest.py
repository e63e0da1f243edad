"""What the tests of several verbs share."""

import pytest


@pytest.fixture(scope="session")
def run(reviews, encoders, tmp_path_factory):
    """A finished run with a validation and a test set; nobody changes it."""
    from calmix.training.configuration import TrainConfig
    from calmix.training.pipeline.stages import train_staged

    config = TrainConfig(
        train=str(reviews / "train.csv"),
        validation=str(reviews / "validation.csv"),
        test=(str(reviews / "test.csv"),),
        model=str(encoders("bert")),
        output=str(tmp_path_factory.mktemp("run") / "run"),
        learning_rate=2e-3,
        epochs=2,
    )
    return train_staged(config).path
