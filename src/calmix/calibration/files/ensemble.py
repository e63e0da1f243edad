"""Ensembles: the mean of the probabilities of several models for the same rows.

p = (1/M) Σ_m p_m
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from calmix.calibration.differences import DifferentRows, match_rows
from calmix.calibration.files.file_evaluation import Source, joined
from calmix.calibration.predictions import Predictions
from calmix.user_error import UserError


def ensemble(members: Sequence[Predictions]) -> Predictions:
    """The mean probabilities of the members, in the order of the first one's rows and classes.

    >>> sure = Predictions.from_probabilities([[1.0, 0.0]], [0])
    >>> unsure = Predictions.from_probabilities([[0.5, 0.5]], [0])
    >>> ensemble([sure, unsure]).values.tolist()
    [[0.75, 0.25]]
    >>> first = Predictions.from_probabilities([[0.7, 0.3]], [0], class_names=["cat", "dog"])
    >>> second = Predictions.from_probabilities([[0.1, 0.9]], [1], class_names=["dog", "cat"])
    >>> ensemble([first, second]).probabilities().round(2).tolist()
    [[0.8, 0.2]]
    """
    first, *others = members
    total = first.probabilities()
    for other in others:
        total = total + match_rows(first, other)[0].probabilities()
    mean = Predictions.from_probabilities(
        total / np.float64(len(members)), first.labels, ids=first.ids, class_names=first.class_names
    )
    return mean.with_rows(weights=first.weights, targets=first.targets) if first.is_weighted else mean


def ensemble_sources(sources: Sequence[Source], origin: int) -> tuple[list[Source], list[str]]:
    """The ensemble of all arguments, one for every split and stage that all of them have; and a note on every
    split that has none because its rows differ: runs with different seeds hold out different rows."""
    origins = sorted({source.origin for source in sources})
    if len(origins) < 2:
        raise UserError("an ensemble needs two members", remedy="name several runs or predictions files")
    kinds = dict.fromkeys((source.split, source.stage) for source in sources)
    made: list[Source] = []
    left_out: dict[str, str] = {}
    for split, stage in kinds:
        members = [source for source in sources if (source.split, source.stage) == (split, stage)]
        if len(members) != len(origins):
            continue
        try:
            predictions = ensemble([joined(member) for member in members])
        except DifferentRows as different:
            if split is None:
                names = " and ".join(member.name for member in members)
                raise UserError(f"{names} are not about the same rows: {different}") from None
            left_out[split] = f"no ensemble of {split!r}: the members differ in its rows ({different})"
            continue
        name = f"ensemble of {len(members)}" + ("" if split is None else f":{split}")
        name += " (uncalibrated)" if stage == "uncalibrated" else ""
        facts = {"members": [member.name for member in members]}
        # An in-sample member makes an in-sample mean.
        facts |= {key: value for member in members for key, value in member.facts.items()}
        made.append(Source(name, partial(list, [predictions]), origin, split, stage, facts))
    if not made:
        problem = "; ".join(left_out.values()) or "the members have no split in common"
        raise UserError(problem, remedy="name runs of the same files")
    return made, list(left_out.values())
