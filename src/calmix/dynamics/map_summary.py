"""A data map in a few numbers: how large the regions are, how they overlap, which classes they hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from calmix.dynamics.regions import REGION_NAMES, Regions, median_split


def summarise_map(table: pa.Table, num_classes: int) -> dict[str, Any]:
    """The content of a table as `dynamics_file.datamap_table` makes it, as plain numbers for JSON.

        rows, scored      rows of the table, and those of them that were ever seen in training
        epochs            the most epochs in which any row was seen
        class_counts      rows of each class
        partition         sizes, class_balance: the three distinct regions
        sets              sizes, class_balance, overlap: cartography's sets
        median_split      median, sizes, class_balance: AUM below the median, and at or above it

    The regions are None where no row was seen in two epochs, and the split where no row has an AUM.

    >>> from calmix.dynamics.datamap import DataMap
    >>> from calmix.dynamics.dynamics_file import datamap_table
    >>> from calmix.dynamics.training_dynamics import TrainingDynamics
    >>> logits = [[[2.0, 0.0], [3.0, 0.0]], [[0.0, 1.0], [2.0, 0.0]], [[4.0, 0.0], [4.0, 0.0]]]
    >>> datamap = DataMap.from_dynamics(TrainingDynamics.from_logits(logits, [0, 0, 1]))
    >>> summary = summarise_map(datamap_table(datamap), num_classes=2)
    >>> summary["partition"]["sizes"], summary["median_split"]["median"]
    ({'easy': 1, 'ambiguous': 1, 'hard': 1}, 0.5)
    >>> summary["partition"]["class_balance"]  # the third row is of class 1, and never predicted so
    {'easy': [1, 0], 'ambiguous': [1, 0], 'hard': [0, 1]}
    """
    labels = table["label"].fill_null(-1).to_numpy()
    aum = np.asarray(table["aum"].to_numpy(), dtype=np.float64)
    summary: dict[str, Any] = {
        "rows": len(table),
        "scored": int((~np.isnan(aum)).sum()),
        "epochs": int(table["epochs_seen"].to_numpy().max(initial=0)),
        "class_counts": _balance(np.ones(len(table), dtype=np.bool_), labels, num_classes),
        "partition": None,
        "sets": None,
        "median_split": None,
    }
    if table["region"].null_count < len(table):
        partition = Regions(
            *(pc.equal(table["region"], name).fill_null(False).to_numpy() for name in REGION_NAMES)
        )
        sets = Regions(*(table[name].fill_null(False).to_numpy() for name in REGION_NAMES))
        summary["partition"] = _regions(partition, labels, num_classes)
        summary["sets"] = _regions(sets, labels, num_classes) | {"overlap": sets.overlap()}
    if summary["scored"]:
        parts = dict(zip(("low", "high"), median_split(aum), strict=True))
        summary["median_split"] = {
            "median": float(np.nanmedian(aum)),
            "sizes": {name: int(mask.sum()) for name, mask in parts.items()},
            "class_balance": {name: _balance(mask, labels, num_classes) for name, mask in parts.items()},
        }
    return summary


def _regions(regions: Regions, labels: npt.NDArray[Any], num_classes: int) -> dict[str, Any]:
    return {"sizes": regions.sizes(), "class_balance": regions.class_balance(labels, num_classes)}


def _balance(mask: npt.NDArray[np.bool_], labels: npt.NDArray[Any], num_classes: int) -> list[int]:
    known = labels[mask & (labels >= 0)]
    return [int(count) for count in np.bincount(known, minlength=num_classes)]
