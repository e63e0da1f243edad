"""A network on unlabelled rows of a target: features before the head, and logits of mixed rows."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from calmix.calibration.input_checks import Floats, Integers
from calmix.data.rows import Rows
from calmix.inference.forward_passes import Batch, batches_of, best_device, forward_logits
from calmix.mixing.padding import pad_pairs
from calmix.mixing.step import EMBEDDINGS, Mix, Watch
from calmix.models.inputs import TextInputs, refusing_rows
from calmix.models.loading import load_inputs, load_trained
from calmix.models.mix_points import MixPoints
from calmix.runtime.hardware import prepared_processor
from calmix.runtime.progress import silence_transformers
from calmix.user_error import UserError

BATCH = 64


class TargetNetwork:
    """A saved classifier, asked about rows in more ways than by its logits."""

    def __init__(
        self, checkpoint: Path, *, max_length: int | None = None, trust_remote_code: bool = False
    ) -> None:
        silence_transformers()
        self.checkpoint = checkpoint
        self.device = best_device("auto")
        self.model: Any = load_trained(checkpoint, trust_remote_code=trust_remote_code)
        self.inputs = load_inputs(
            checkpoint, self.model, max_length=max_length, trust_remote_code=trust_remote_code
        )
        self.points = MixPoints(self.model)
        self.accepted = set(inspect.signature(self.model.forward).parameters)

    def logits(self, rows: Rows) -> Floats:
        encoded = self.inputs.encode(rows)
        collator = self.inputs.collator(is_choice=encoded.is_choice)
        with prepared_processor():
            found = forward_logits(self.model, encoded, collator, device=self.device)
        return found.astype(np.float64)

    def features(self, rows: Rows) -> Floats:
        """What the last layer sees of every row; of multiple choice, the mean over the choices."""
        return self.features_and_logits(rows)[0]

    @torch.no_grad()
    def features_and_logits(self, rows: Rows) -> tuple[Floats, Floats]:
        """Both from one pass over batches of similar length, in the order of the rows."""
        encoded = self.inputs.encode(rows.without_labels())
        collator = self.inputs.collator(is_choice=encoded.is_choice)
        view, order = encoded.by_length()
        features, logits = [], []
        self.model.to(self.device).eval()
        with prepared_processor():
            for whole in batches_of(view, collator, BATCH, self.device):
                batch = {name: value for name, value in whole.items() if name in self.accepted}
                watch = Watch(self.points.head)
                hooks = self.points.hook(self.points.head, watch, batch)
                try:
                    with refusing_rows(self.model):
                        answers = self.model(**batch).logits
                finally:
                    hooks.remove()
                assert watch.seen is not None
                seen = watch.seen.float().reshape(len(answers), -1, watch.seen.shape[-1]).mean(dim=1)
                features.append(seen.cpu().numpy())
                logits.append(answers.float().cpu().numpy())
        back = np.argsort(order)
        by_length = (np.concatenate(one).astype(np.float64) for one in (features, logits))
        found, answered = (one[back] for one in by_length)
        return found, answered

    @torch.no_grad()
    def mixed_logits(self, rows: Rows, first: Integers, second: Integers, ratio: float) -> Floats:
        """Logits of rows mixed at the embeddings, or the pixels: `ratio` of the first, else the second.

        The two texts of a pair are padded to the longer one, as `input-mixup` does.
        """
        found: list[NDArray[np.float32]] = []
        self.model.to(self.device).eval()
        size = 32
        for start in range(0, len(first), size):
            own, others = first[start : start + size], second[start : start + size]
            batch = next(self.batches(rows, np.concatenate([own, others]), size=2 * size))
            count = len(own)
            partner = torch.cat([torch.arange(count, 2 * count), torch.arange(count)]).to(self.device)
            weight = torch.tensor(ratio, device=self.device)
            padded = pad_pairs(batch, partner, weight, fillers=self.fillers())
            mix = Mix(EMBEDDINGS, partner, padded.ratio)
            hooks = self.points.hook(EMBEDDINGS, mix, padded.inputs)
            try:
                logits: Tensor = self.model(**padded.inputs).logits
            finally:
                hooks.remove()
            found.append(logits[:count].float().cpu().numpy())
        return np.concatenate(found).astype(np.float64)

    def fillers(self) -> dict[str, int]:
        """The token that a shorter text is padded with: its separator, or the next best."""
        if not isinstance(self.inputs, TextInputs):
            return {}
        tokenizer: Any = self.inputs.tokenizer
        ends = (tokenizer.sep_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id)
        token = next((one for one in ends if one is not None), None)
        if token is None:
            raise UserError("the tokenizer has no token to pad pairs with", file=self.checkpoint)
        return {"sep": token}

    def batches(self, rows: Rows, places: Integers, size: int = 64) -> Iterator[Batch]:
        """The rows at these places, in this order."""
        encoded: Any = self.inputs.encode(rows.select(places).without_labels())
        collator = self.inputs.collator(is_choice=encoded.is_choice)
        for start in range(0, len(encoded), size):
            chosen = [encoded[place] for place in range(start, min(start + size, len(encoded)))]
            batch = collator(chosen)
            yield {name: value.to(self.device) for name, value in batch.items() if name in self.accepted}
