"""What training needs, read and checked."""

from __future__ import annotations

from dataclasses import dataclass

from transformers import PreTrainedModel

from calmix.data.checks import Finding
from calmix.data.splits import Splits
from calmix.models.inputs import Encoded, Inputs
from calmix.training.guidance import Guidance
from calmix.training.teaching import Teaching


@dataclass(frozen=True)
class Prepared:
    """All that training needs, read and checked."""

    splits: Splits
    encoded: dict[str, Encoded]
    model: PreTrainedModel
    inputs: Inputs
    findings: list[Finding]
    guidance: Guidance | None = None
    """What a plain run said about the training rows, where one came first."""
    teaching: Teaching | None = None
    """The teachers of a student."""
