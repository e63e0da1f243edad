"""SVG and PDF files of figures."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from calmix.io.run_directory import replacing
from calmix.user_error import UserError, argument

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ("svg", "pdf")


def check_figures(directory: Path | None) -> None:
    """Refuse before hours of training what would fail after them; None asks for nothing."""
    if directory is None:
        return
    import matplotlib  # noqa: F401  # where it is missing, the command line names the extra

    if directory.exists() and not directory.is_dir():
        raise UserError(
            "a file is in the way of the figures",
            file=directory,
            remedy=f"give {argument('figures')} a directory",
        )


def write_figures(figures: Mapping[str, Figure], directory: str | Path) -> list[Path]:
    """Each figure under its name as SVG and PDF; the paths."""
    from matplotlib import rc_context

    check_figures(Path(directory))
    written = []
    for name, figure in figures.items():
        for suffix in FORMATS:
            path = Path(directory) / f"{name}.{suffix}"
            # Neither the date nor random ids in the file: the same numbers write the same bytes.
            plain = {"Date": None} if suffix == "svg" else {"CreationDate": None}
            with replacing(path) as fresh, rc_context({"svg.hashsalt": "calmix"}):
                figure.savefig(fresh, metadata=plain)
            written.append(path)
    return written


def file_name(name: str) -> str:
    """A name of unknown origin as a part of a file's name: the end of a path, plain characters alone.

    >>> file_name("runs/first:test (uncalibrated)"), file_name("../../<x>.csv"), file_name("/")
    ('first-test-uncalibrated', 'x-.csv', 'predictions')
    """
    safe = re.sub(r"[^\w.-]+", "-", name.rstrip("/").rsplit("/", 1)[-1], flags=re.ASCII).strip("-.")
    return safe[:80] or "predictions"
