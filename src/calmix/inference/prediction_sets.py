"""Prediction sets of `calmix predict --coverage`: which classes a row may have, with a guarantee."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from calmix.calibration.conformal import SET_METHODS, ConformalSets, rows_needed
from calmix.user_error import UserError, argument

SET, SIZE = "prediction_set", "set_size"


def unfitted_sets(coverage: float | None, method: str, *, class_conditional: bool) -> ConformalSets | None:
    """The sets that these options ask for, checked; None where no coverage is asked for."""
    if method not in SET_METHODS:
        raise UserError(
            f"{argument('set_method')} is {method!r}", remedy=f"choose one of {', '.join(SET_METHODS)}"
        )
    if coverage is None:
        if class_conditional or method != SET_METHODS[0]:
            name = "class_conditional" if class_conditional else "set_method"
            raise UserError(
                f"{argument(name)} is for prediction sets", remedy=f"give {argument('coverage', '0.9')} too"
            )
        return None
    if not 0 < coverage < 1:
        raise UserError(
            f"{argument('coverage')} is {coverage}", remedy="give a fraction between 0 and 1, such as 0.9"
        )
    return ConformalSets(method, coverage=coverage, class_conditional=class_conditional)  # type: ignore[arg-type]


def set_columns(
    sets: ConformalSets, probabilities: NDArray[np.float64], label_names: tuple[str, ...]
) -> dict[str, Any]:
    """The classes of every set as a JSON list, the most probable first, and their number."""
    inside = sets.predict(probabilities)
    order = np.argsort(-probabilities, axis=1, kind="stable")
    listed = [
        json.dumps([label_names[k] for k in ranked if row[k]], ensure_ascii=False)
        for row, ranked in zip(inside, order, strict=True)
    ]
    return {SET: listed, SIZE: inside.sum(axis=1)}


def set_facts(sets: ConformalSets, table: pa.Table, limit: str | None = None) -> dict[str, Any]:
    """The properties of the sets, as plain values for JSON; `limit` is what their rows do not tell."""
    sizes = table.column(SIZE).to_numpy()
    unbounded = sets.unbounded_classes()
    facts: dict[str, Any] = {
        "set_guarantee": sets.explain(),
        "set_coverage": sets.coverage,
        "set_method": sets.method,
        "set_mean_size": float(sizes.mean()),
        "set_single_share": float((sizes == 1).mean()),
        "set_validation_rows": sets.rows_,
    }
    limits = [] if limit is None else [limit]
    if unbounded:
        of = " of each class" if sets.class_conditional else ""
        limits.append(
            f"{len(unbounded)} of {len(sets.class_names_)} classes are in every set: coverage "
            f"{sets.coverage:g} takes at least {rows_needed(sets.coverage)} validation rows{of}"
        )
    return facts | ({"set_limit": "; ".join(limits)} if limits else {})
