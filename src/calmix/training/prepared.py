"""What training needs, read and checked."""

from __future__ import annotations

from dataclasses import dataclass

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from calmix.data.checks import Finding
from calmix.data.encoding import EncodedRows
from calmix.data.splits import Splits
from calmix.training.guidance import Guidance
from calmix.training.teaching import Teaching


@dataclass(frozen=True)
class Prepared:
    """All that training needs, read and checked."""

    splits: Splits
    encoded: dict[str, EncodedRows]
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    findings: list[Finding]
    max_length: int
    """Tokens that a text is cut to."""
    guidance: Guidance | None = None
    """What a plain run said about the training rows, where one came first."""
    teaching: Teaching | None = None
    """The teachers of a student."""
