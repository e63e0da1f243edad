"""Small data as objects, and the settings of a run of seconds."""

import pandas as pd
import pytest

from marking import marking
from tiny import sentences


@pytest.fixture(scope="session")
def frames():
    """`frames("train")`, of the rows that `reviews` has in files."""
    seeds = {"train": (96, 0), "validation": (48, 1), "test": (48, 2), "other": (40, 3)}

    def frame(name: str) -> pd.DataFrame:
        rows, seed = seeds[name]
        texts, labels = sentences(rows, seed=seed)
        return pd.DataFrame({"text": texts, "label": labels})

    return frame


@pytest.fixture(scope="session")
def small(encoders):
    """Options of a run on a tiny network."""
    return {"model": encoders("bert"), "epochs": 2, "learning_rate": 1e-3, "device": "cpu", "threads": 1}


@pytest.fixture(scope="session")
@marking("trains")
def run(frames, small, tmp_path_factory):
    """A run that was trained from objects; the object keeps its rows readable."""
    from calmix.workflows.train import train

    return train(
        frames("train"),
        validation=frames("validation"),
        test={"test": frames("test"), "other": frames("other")},
        output=tmp_path_factory.mktemp("runs") / "run",
        **small,
    )


@pytest.fixture(scope="session")
def flags(small):
    """The same options for the command line."""
    return [part for name, value in small.items() for part in (f"--{name.replace('_', '-')}", str(value))]
