"""The verdict that a run has not learned, and the note that more epochs may help, as the report, the model
card and the terminal show them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calmix.report.pages.page import Block, Prose
from calmix.report.tables import capital, escape_markdown

TITLE = "This model has not learned"
MEANING = "its accuracy, calibration and data map say nothing about the method or the data"


def has_not_learned(metrics: Mapping[str, Any]) -> bool:
    """Whether the run was judged, and found not to have learned; runs of earlier versions were not judged.

    >>> has_not_learned({"learning": {"learned": False}}), has_not_learned({})
    (True, False)
    """
    return not metrics.get("learning", {}).get("learned", True)


def learning_lines(metrics: Mapping[str, Any]) -> list[str]:
    """Headline, one line for each sign, and what to change; nothing for a run that has learned."""
    if not has_not_learned(metrics):
        return []
    learning = metrics["learning"]
    return [f"{TITLE}: {MEANING}.", *map(str, learning["messages"]), str(learning["advice"])]


def learning_blocks(metrics: Mapping[str, Any]) -> tuple[Block, ...]:
    """For the report."""
    return tuple(Prose(capital(line), "warning") for line in learning_lines(metrics))


def learning_notes(metrics: Mapping[str, Any]) -> list[str]:
    """Of a run that has learned, but may have been stopped early: what was seen, and what to change.

    >>> note = "the validation NLL still fell: more epochs may help"
    >>> learning_notes({"learning": {"learned": True, "notes": [note], "advice": "Train again."}})
    ['The validation NLL still fell: more epochs may help. Train again.']
    """
    learning = metrics.get("learning", {})
    if has_not_learned(metrics):
        return []
    return [f"{capital(note)}. {learning['advice']}" for note in learning.get("notes", ())]


def learning_quote(metrics: Mapping[str, Any]) -> str:
    """For the model card: a quoted block above everything else, or nothing."""
    lines = learning_lines(metrics)
    if not lines:
        return "\n".join(f"> {escape_markdown(note)}" for note in learning_notes(metrics))
    headline, *signs, advice = map(escape_markdown, lines)
    return "\n".join([f"> **{headline}**", ">", *(f"> - {sign}" for sign in signs), ">", f"> {advice}"])
