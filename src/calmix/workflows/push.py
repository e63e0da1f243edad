"""Share a run, or the recommended run of a comparison, on the Hugging Face Hub."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from calmix.io.run_directory import RunDirectory
from calmix.workflows.run import Run, model_directory


def push(run: str | Path | Run, repository: str, **settings: Any) -> str:
    """Upload the model of a finished run to `NAMESPACE/NAME` and return its address.

    settings: private, license, languages, datasets, token, as of `calmix push`; see `report.hub_upload`.
    """
    from calmix.report.hub_upload import upload

    return upload(RunDirectory.open(model_directory(run, "run")), repository, **settings)
