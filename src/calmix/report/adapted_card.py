"""The model card of an adapted checkpoint: that of the run, and before it for which data it holds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from calmix.io.records import read_json_record
from calmix.io.replacing import replacing
from calmix.io.run_directory import RunDirectory
from calmix.report.tables import escape_markdown

TITLE = "## Adapted"


def write_adapted_card(directory: Path, source: Path, result: Mapping[str, Any]) -> None:
    """The card of `model/` in an adapted directory, where the calibrator was folded into it."""
    if result["folded"]:
        (directory / "model" / "README.md").write_text(adapted_card(source, result), encoding="utf-8")


def adapted_card(source: Path, result: Mapping[str, Any]) -> str:
    """The card for `model/` of an adapted directory; `source` is the run or checkpoint that was adapted."""
    places = [source / "model" / "README.md", source / "README.md"]
    # A card is for people: what is not UTF-8 in it shows, and is no reason to lose the adapted model.
    texts = (place.read_text(encoding="utf-8", errors="replace") for place in places if place.is_file())
    original = next(texts, "")
    front, body = split_front_matter(original)
    parts = [front] if front else []
    parts.append(f"{TITLE}\n\n{adapted_text(result)}")
    if body:
        parts.append(
            "Below is the card of the model before it was adapted; its metrics are those of that model."
        )
        parts.append(body)
    return "\n\n".join(parts) + "\n"


def write_perturbed_card(run: RunDirectory) -> None:
    """The card of the second model of a run, where there is one."""
    place = run.perturbed / "model"
    if place.is_dir():
        facts = read_json_record(run.perturbed / "calibration.json")
        with replacing(place / "README.md") as fresh:
            fresh.write_text(adapted_card(run.path, facts), encoding="utf-8")


def adapted_text(result: Mapping[str, Any]) -> str:
    """For which data the confidence of this checkpoint holds, and by what evidence."""
    target = result.get("adapted_to")
    if target is None:
        return (
            "This checkpoint has a temperature for data of an unknown domain, fitted on perturbed validation "
            "rows of its training domain. It was measured on no target data, and is underconfident in "
            "domain: use the original checkpoint there."
        )
    if "unlabelled" in result:
        facts = result["unlabelled"]
        return (
            f"The confidence of this checkpoint was adapted to {facts['rows']} unlabelled rows by "
            f"{result['method']} ({escape_markdown(facts['citation'])}), which assumes that "
            f"{facts['assumption']}. It was measured on no labels of that data. Our results about it: "
            f"{facts['verdict']}."
        )
    found, name = result["adaptation"], escape_markdown(Path(str(target)).name)
    return (
        f"The confidence of this checkpoint is calibrated for data like `{name}` ({result['n']} labelled "
        f"rows): {found['sentence']}. It holds for no other data; in the training domain use the original "
        "checkpoint."
    )


def split_front_matter(card: str) -> tuple[str, str]:
    """The YAML block of a card and the rest.

    >>> split_front_matter("---\\ntags: [a]\\n---\\n\\n# A")
    ('---\\ntags: [a]\\n---', '# A')
    """
    if not card.startswith("---\n") or "\n---" not in card[4:]:
        return "", card.strip()
    end = card.index("\n---", 4) + 4
    return card[:end], card[end:].strip()
