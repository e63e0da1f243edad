"""Rows as token ids: tokenised once, packed in flat arrays, padded only when a batch is made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from calmix.runtime.large_arrays import GrowingArray
from calmix.user_error import UserError

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase

    from calmix.data.rows import Rows


@dataclass(frozen=True)
class EncodedRows:
    """A map-style dataset of tokenised rows.

    `tokens[name]` holds all sequences end to end; sequence s is `tokens[name][offsets[s]:offsets[s+1]]`.
    A row of a choice task is `sequences_per_row` consecutive sequences, any other row is one.
    """

    tokens: dict[str, NDArray[np.int32]]
    offsets: NDArray[np.int64]
    sequences_per_row: int
    is_choice: bool
    labels: NDArray[Any] | None
    """Class indices, or [rows, labels] of 0 and 1 in float32 where rows have several labels."""
    row_ids: NDArray[np.str_]
    truncated: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.row_ids)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each row's longest sequence: what decides the padding of a batch."""
        per_sequence = np.diff(self.offsets).reshape(len(self), self.sequences_per_row)
        return np.asarray(per_sequence.max(axis=1), dtype=np.int64)

    def __getitem__(self, position: int) -> dict[str, Any]:
        first = position * self.sequences_per_row
        features: dict[str, Any] = {
            name: [
                values[self.offsets[s] : self.offsets[s + 1]]
                for s in range(first, first + self.sequences_per_row)
            ]
            for name, values in self.tokens.items()
        }
        if self.labels is not None:
            features["labels"] = self.labels[position]
        return features

    def content(self) -> list[NDArray[Any]]:
        """Arrays that tell this dataset from others, but for ids and labels."""
        return [self.offsets, *self.tokens.values()]

    def by_length(self) -> tuple[EncodedView, NDArray[np.int64]]:
        """The rows from long to short, and where each came from: batches of it hold little padding."""
        order = np.argsort(-self.lengths, kind="stable").astype(np.int64)
        return EncodedView(self, order), order


@dataclass(frozen=True)
class EncodedView:
    """Some of the rows of an `EncodedRows`, in another order, without a copy."""

    rows: EncodedRows
    positions: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.positions)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self.rows[int(self.positions[index])]


@contextmanager
def refusing_texts(tokenizer: PreTrainedTokenizerBase) -> Iterator[None]:
    """A tokenizer that was edited may load and then fail at a text."""
    try:
        yield
    except BaseException as error:
        # A panic of tokenizers' native code is no Exception.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise UserError(
            f"the tokenizer cannot take these texts ({str(error)[:160]})",
            file=tokenizer.name_or_path,
            remedy="restore tokenizer.json, or name another model",
        ) from error


def encode_rows(
    rows: Rows, tokenizer: PreTrainedTokenizerBase, *, max_length: int, chunk: int = 4096
) -> EncodedRows:
    """Tokenise every row: [CLS] text [SEP], [CLS] text [SEP] pair [SEP], or one such pair per choice."""
    # Arrays, chunk by chunk: the numbers of millions of rows as Python objects would fill the memory.
    tokens: dict[str, GrowingArray] = {}
    lengths, truncated = GrowingArray(np.int64), GrowingArray(np.bool_)
    for part in rows.chunks(chunk):
        texts, pairs = _sequences(part)
        with refusing_texts(tokenizer):
            encoded = tokenizer(texts, pairs, truncation=True, max_length=max_length, padding=False)
        sizes = [len(ids) for ids in encoded["input_ids"]]
        lengths.append(sizes)
        truncated.append(_was_truncated(tokenizer, texts, pairs, sizes, max_length))
        for name, sequences in encoded.items():
            if name != "attention_mask":  # rebuilt by the collator: it is 1 for every token kept
                flat = np.fromiter(chain.from_iterable(sequences), dtype=np.int32, count=sum(sizes))
                tokens.setdefault(name, GrowingArray(np.int32)).append(flat)
    is_choice = rows.task == "choice"
    per_row = len(rows.table.column("choices")[0]) if is_choice else 1
    return EncodedRows(
        tokens={name: flat.array() for name, flat in tokens.items()},
        offsets=np.append(0, np.cumsum(lengths.array())).astype(np.int64, copy=False),
        sequences_per_row=per_row,
        is_choice=is_choice,
        labels=rows.network_labels if rows.is_labelled else None,
        row_ids=rows.row_ids,
        truncated=np.asarray(truncated.array().reshape(-1, per_row).any(axis=1), dtype=np.bool_),
    )


def _sequences(rows: Rows) -> tuple[list[str], list[str] | None]:
    """First and second texts; of a choice task, as many as there are choices."""
    texts = rows.texts()
    if rows.task == "single":
        return texts, None
    if rows.task == "pair":
        return texts, rows.pairs()
    pairs = [(text, choice) for text, row in zip(texts, rows.choices(), strict=True) for choice in row]
    return [text for text, _ in pairs], [choice for _, choice in pairs]


def _was_truncated(
    tokenizer: PreTrainedTokenizerBase,
    texts: list[str],
    pairs: list[str] | None,
    sizes: list[int],
    max_length: int,
) -> list[bool]:
    """Only sequences that fill `max_length` can have been cut; those are measured again, whole."""
    full = [i for i, size in enumerate(sizes) if size >= max_length]
    answer = [False] * len(sizes)
    if full:
        whole = tokenizer(
            [texts[i] for i in full],
            [pairs[i] for i in full] if pairs is not None else None,
            truncation=False,
            padding=False,
            verbose=False,
        )
        for i, ids in zip(full, whole["input_ids"], strict=True):
            answer[i] = len(ids) > max_length
    return answer


@dataclass(frozen=True)
class PaddingCollator:
    """Pads a list of features to their longest sequence and stacks them to tensors.

    A choice row gives [rows, choices, tokens], any other row [rows, tokens].
    """

    pad_values: dict[str, int]
    padding_side: str = "right"
    is_choice: bool = False

    @classmethod
    def for_tokenizer(cls, tokenizer: PreTrainedTokenizerBase, *, is_choice: bool) -> PaddingCollator:
        pad_values = {"input_ids": tokenizer.pad_token_id or 0, "token_type_ids": tokenizer.pad_token_type_id}
        return cls(pad_values, tokenizer.padding_side, is_choice)

    def __call__(self, features: Sequence[dict[str, Any]]) -> dict[str, torch.Tensor]:
        import torch

        names = [name for name in features[0] if name != "labels"]
        sequences = [sequence for row in features for sequence in row["input_ids"]]
        sizes = np.array([len(sequence) for sequence in sequences])
        longest = int(sizes.max())
        columns = np.arange(longest)
        mask = columns < sizes[:, None]
        if self.padding_side == "left":
            mask = mask[:, ::-1]
        shape = (len(features), -1, longest) if self.is_choice else (len(features), longest)
        batch: dict[str, torch.Tensor] = {}
        for name in names:
            padded = np.full((len(sequences), longest), self.pad_values.get(name, 0), dtype=np.int64)
            padded[mask] = np.concatenate([sequence for row in features for sequence in row[name]])
            batch[name] = torch.from_numpy(padded.reshape(shape))
        batch["attention_mask"] = torch.from_numpy(mask.astype(np.int64).reshape(shape))
        if "labels" in features[0]:
            batch["labels"] = torch.from_numpy(np.asarray([row["labels"] for row in features]))
        return batch
