"""The two uses of the reader: every test of it runs against both."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from calmix.io.tables import read_arrow, read_table
from calmix.user_error import UserError

Columns = dict[str, list[Any]]


def as_rows(path: str) -> Columns:
    """As training data are read: Python values."""
    table = read_table(path)
    return {name: list(table.read_column(name)) for name in table.names}


def as_predictions(path: str) -> Columns:
    """As predictions are read: Arrow batches."""
    return read_arrow(path, text_columns=("text", "label")).to_pydict()


@pytest.fixture(params=[as_rows, as_predictions])
def read(request) -> Callable[[str], Columns]:
    return request.param


@pytest.fixture
def message(read) -> Callable[[str], str]:
    """The one line in which a file is refused."""

    def refused(path) -> str:
        with pytest.raises(UserError) as caught:
            read(path)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    return refused


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str | bytes], str]:
    """Write a file into the test's working directory and give its name as a message would show it."""
    monkeypatch.chdir(tmp_path)

    def write_file(name: str, content: str | bytes) -> str:
        Path(name).write_bytes(content.encode() if isinstance(content, str) else content)
        return name

    return write_file
