"""Share a run on the Hugging Face Hub: the folded model, its tokenizer and the model card, in one commit.

Only the `model` directory of the run goes up. Its card gets what the Hub shows and searches by: licence,
languages, data sets, and the calibrated metrics under the name of the repository.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from calmix.io.records import PARSER_ERRORS, parser_words
from calmix.io.run_directory import RunDirectory
from calmix.user_error import UserError

CARD = "README.md"
# The libraries that the Hub is spoken to with: each release may bring another, with errors of its own.
TRANSPORTS = ("httpx", "httpx2", "httpcore", "httpcore2", "requests", "urllib3")
REFUSALS = {
    401: ("the token is not valid", "log in again with 'hf auth login'"),
    403: ("the token may not write there", "use a token with write access, or another namespace"),
    404: ("there is no such namespace, or the token may not see it", "check the name and the token"),
}


def upload(
    run: RunDirectory,
    repository: str,
    *,
    private: bool = False,
    license: str | None = None,
    languages: Sequence[str] = (),
    datasets: Sequence[str] = (),
    token: str | None = None,
    endpoint: str | None = None,
) -> str:
    """Upload the model of a finished run to `NAMESPACE/NAME` and return its address.

    The repository is made if it is not there. `token`: left out, the one of `hf auth login` or HF_TOKEN.
    """
    from huggingface_hub import CommitOperationAdd, HfApi, get_token
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    from calmix.runtime.hub import is_reachable

    check_repository(repository)
    files = dict(model_files(run))
    try:
        card = hub_card(
            run.model_card_file.read_text(encoding="utf-8"),
            name=repository.rpartition("/")[2],
            license=license,
            languages=languages,
            datasets=datasets,
        )
    except PARSER_ERRORS as error:
        problem = f"not the model card of a run ({parser_words(error)})"
        raise UserError(problem, file=run.model_card_file, remedy="restore it, or train again") from None
    token = token or get_token()
    if token is None:
        raise UserError("no token of the Hugging Face Hub", remedy="run 'hf auth login', or set HF_TOKEN")
    if endpoint is None and not is_reachable():
        raise UserError("the Hugging Face Hub cannot be reached", remedy="connect to it and push again")
    operations = [
        CommitOperationAdd(name, card.encode("utf-8") if name == CARD else str(file))
        for name, file in files.items()
    ]
    api = HfApi(endpoint=endpoint, token=token, library_name="calmix")
    try:
        address = api.create_repo(repository, private=private, exist_ok=True)
        api.create_commit(repository, operations, commit_message="Calibrated model")
    except OfflineModeIsEnabled as error:
        raise UserError("HF_HUB_OFFLINE is set", remedy="unset it and push again") from error
    except HfHubHTTPError as error:
        status = getattr(error.response, "status_code", None)
        problem, remedy = REFUSALS.get(
            status or 0, (f"the Hub answered: {first_line(error)}", "try again later")
        )
        raise UserError(f"{repository}: {problem}", remedy=remedy) from error
    except Exception as error:
        if not isinstance(error, OSError) and type(error).__module__.split(".")[0] not in TRANSPORTS:
            raise
        raise UserError(
            f"the Hugging Face Hub cannot be reached: {first_line(error)}", remedy="try again later"
        ) from error
    return str(address)


def check_repository(name: str) -> None:
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]  # exported lazily

    try:
        validate_repo_id(name)
    except HFValidationError as error:
        raise UserError(f"{name!r} is not a repository name", remedy="write NAMESPACE/NAME") from error
    if name.count("/") != 1:
        raise UserError(f"{name!r} has no namespace", remedy="write NAMESPACE/NAME")


def model_files(run: RunDirectory) -> Iterator[tuple[str, Path]]:
    """The files of the saved model by their names on the Hub."""
    found = [file for file in sorted(run.model.rglob("*")) if file.is_file() and not file.is_symlink()]
    named = [(file.relative_to(run.model).as_posix(), file) for file in found]
    visible = [(name, file) for name, file in named if not any(part[0] == "." for part in name.split("/"))]
    if CARD not in dict(visible) or not any(name.endswith(".safetensors") for name, _ in visible):
        raise UserError(
            "the run has no saved model",
            file=run.model,
            remedy="train it again, or keep the model of its comparison",
        )
    return iter(visible)


def hub_card(
    card: str, *, name: str, license: str | None, languages: Sequence[str], datasets: Sequence[str]
) -> str:
    """The model card with what the Hub reads in front of it.

    >>> print(hub_card("---\\ntags: [calmix]\\n---\\n\\n# run", name="film", license="mit", languages=["en"],
    ...                datasets=[]))
    ---
    tags:
    - calmix
    license: mit
    language:
    - en
    ---
    <BLANKLINE>
    # run
    """
    _, front, text = card.split("---\n", 2)
    facts: dict[str, Any] = yaml.safe_load(front)
    given = {"license": license, "language": list(languages), "datasets": list(datasets)}
    facts |= {key: value for key, value in given.items() if value}
    for entry in facts.get("model-index", []):
        entry["name"] = name
    return f"---\n{yaml.safe_dump(facts, sort_keys=False, allow_unicode=True)}---\n{text}"


def first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
