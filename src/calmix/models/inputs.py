"""How rows become what a network takes: a tokenizer for texts, an image processor for images."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calmix.data.batches.encoding import EncodedRows, PaddingCollator, encode_rows
from calmix.data.checks import Finding, truncated_share
from calmix.data.images.augmentation import Augmentation
from calmix.data.images.pixels import (
    EncodedImages,
    PixelCollator,
    PixelStatistics,
    ProcessorCollator,
    encode_images,
)
from calmix.data.rows import Rows
from calmix.models.hf_compat import plain_image_processor, plain_image_size
from calmix.user_error import UserError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Encoded = EncodedRows | EncodedImages


@contextmanager
def refusing_rows(model: Any) -> Iterator[None]:
    """A network that cannot take its rows is a checkpoint whose parts do not belong together: a tokenizer
    with more words than the network, sizes that were edited. Running out of memory is not."""
    import torch

    try:
        yield
    except (UserError, MemoryError, torch.OutOfMemoryError):
        raise
    except (IndexError, KeyError, RuntimeError, TypeError, ValueError, AttributeError) as error:
        said = " ".join(str(error).split())[:160] or type(error).__name__
        name = getattr(getattr(model, "config", None), "name_or_path", None) or type(model).__name__
        raise UserError(
            f"the network cannot take these rows ({said})",
            file=str(name),
            remedy="see that the tokenizer, config.json and the weights of the checkpoint belong together",
        ) from error


@dataclass(frozen=True)
class TextInputs:
    """Texts, cut to `max_length` tokens."""

    tokenizer: PreTrainedTokenizerBase
    max_length: int

    @property
    def processing_class(self) -> Any:
        return self.tokenizer

    def encode(self, rows: Rows, *, training_seed: int | None = None) -> EncodedRows:
        if rows.task == "image":
            raise UserError("the model reads texts, and these rows are images", file=rows.source)
        return encode_rows(rows, self.tokenizer, max_length=self.max_length)

    def collator(self, *, is_choice: bool = False) -> Any:
        return PaddingCollator.for_tokenizer(self.tokenizer, is_choice=is_choice)

    def findings(self, encoded: Mapping[str, Any], rows: Mapping[str, Rows]) -> list[Finding]:
        """The rows that are cut, of every split; `rows` are those that were encoded."""
        cut = [
            truncated_share(split.truncated, self.max_length, name, split.row_ids if name in rows else None)
            for name, split in encoded.items()
        ]
        return [finding for finding in cut if finding.count]

    def save(self, directory: Path) -> None:
        # Whoever loads the checkpoint cuts texts as training did.
        self.tokenizer.model_max_length = self.max_length
        self.tokenizer.save_pretrained(directory)


@dataclass(frozen=True)
class ImageInputs:
    """Images, through an image processor. Training may crop, flip and turn them first."""

    processor: Any
    steps: tuple[str, ...] = ()
    """What training does to its images: of `augmentation.STEPS`."""
    statistics: PixelStatistics | None = None
    """Of the training images."""

    @property
    def processing_class(self) -> Any:
        return self.processor

    @property
    def size(self) -> tuple[int, int] | None:
        """(height, width), if all that the processor does is to resize, rescale and normalise."""
        return plain_image_size(self.processor)

    @property
    def normalisation(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """(mean, deviation) that pixels on the scale 0..1 are normalised by."""
        if not self.processor.do_normalize:
            return (0.0,) * 3, (1.0,) * 3
        return tuple(self.processor.image_mean), tuple(self.processor.image_std)

    def encode(self, rows: Rows, *, training_seed: int | None = None) -> EncodedImages:
        if rows.task != "image":
            raise UserError("the model reads images, and these rows are texts", file=rows.source)
        augmentation = None
        if training_seed is not None and self.steps:
            augmentation = Augmentation(self.steps, training_seed, len(rows))
        return encode_images(rows, self.size, augmentation)

    def collator(self, *, is_choice: bool = False) -> Any:
        if self.size is None:
            return ProcessorCollator(self.processor)
        return PixelCollator(*self.normalisation)

    def findings(self, encoded: Mapping[str, Any], rows: Mapping[str, Rows]) -> list[Finding]:
        return []

    def save(self, directory: Path) -> None:
        self.processor.save_pretrained(directory)


Inputs = TextInputs | ImageInputs


def plain_processor(size: tuple[int, int], statistics: PixelStatistics) -> Any:
    """Resizes, rescales and normalises by the mean and deviation of the training images."""
    # A channel that never changes is not blown up to noise.
    deviations = [max(deviation, 1 / 255) for deviation in statistics.std]
    return plain_image_processor(size, list(statistics.mean), deviations)
