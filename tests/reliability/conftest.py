"""One world for the tests of this package."""

from __future__ import annotations

import os

import pytest

from reliability.fuzz import complete_world


@pytest.fixture(scope="session")
def world(tmp_path_factory):
    """Data, networks, runs and a comparison; nobody changes them in place."""
    before = os.environ.get("CALMIX_CACHE")
    folder = tmp_path_factory.mktemp("reliability")
    os.environ["CALMIX_CACHE"] = str(folder / "cache")
    yield complete_world(folder / "world")
    if before is not None:
        os.environ["CALMIX_CACHE"] = before
