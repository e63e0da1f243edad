"""A data map the way dataset cartography computes it: one record per row, one softmax per row and epoch.

Written from the published procedure (Swayamdipta et al. 2020 and its released scripts): a dictionary of
records keyed by id; per record a loop over its epochs with a torch softmax of that epoch's logits; numpy
means and standard deviations of short lists; a data frame at the end. Kept to be measured against, and to
be agreed with.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import torch


def records_from_logits(
    logits: np.ndarray, labels: np.ndarray, row_ids: list[str]
) -> dict[str, dict[str, Any]]:
    """{id: {"gold": class, "logits": [[…] per epoch]}}, as the jsonl files are read."""
    rows = zip(row_ids, labels.tolist(), logits.tolist(), strict=True)
    return {row_id: {"gold": gold, "logits": epochs} for row_id, gold, epochs in rows}


def forgetfulness(trend: list[bool]) -> int:
    """Times a row turned from right to wrong; 1000 for a row that was never right."""
    if not any(trend):
        return 1000
    return sum(before and not after for before, after in pairwise(trend))


def cartography_map(records: dict[str, dict[str, Any]], dtype: torch.dtype = torch.float32) -> pd.DataFrame:
    rows = []
    for row_id, record in records.items():
        gold = record["gold"]
        probabilities, trend, margins = [], [], []
        for logits in record["logits"]:
            softmax = torch.nn.functional.softmax(torch.tensor(logits, dtype=dtype), dim=-1)
            probabilities.append(float(softmax[gold]))
            trend.append(int(np.argmax(logits)) == gold)
            margins.append(logits[gold] - max(value for k, value in enumerate(logits) if k != gold))
        rows.append(
            [
                row_id,
                np.mean(probabilities),
                np.std(probabilities),
                sum(trend),
                forgetfulness(trend),
                np.mean(margins),
            ]
        )
    names = ["guid", "confidence", "variability", "correctness", "forgetfulness", "aum"]
    return pd.DataFrame(rows, columns=names)
