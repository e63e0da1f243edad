"""The logits of the finished network for every split, and rows to prove a saved checkpoint on."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from transformers import Trainer

from calmix.inference import fold_proof
from calmix.inference.prediction import predict_logits
from calmix.models.folding import merged
from calmix.models.inputs import Encoded
from calmix.models.pooled_layer import pooled_last_layer
from calmix.training.checkpoints.calibrated import in_full_precision
from calmix.training.epochs.validation_logits import chosen_checkpoint, logits_in
from calmix.training.hf_compat import prepare_inputs
from calmix.training.pipeline.prepared import Prepared
from calmix.training.targets.prior_correction import correct_prior
from calmix.training.trainer import MixupTrainer

# Of the logits of a few rows, relative to the largest: other batches move the last bits, other weights more.
LARGEST_DIFFERENCE = 1e-4


def final_logits(
    prepared: Prepared, trainer: MixupTrainer, cached: Mapping[str, Encoded]
) -> tuple[nn.Module, Trainer, dict[str, NDArray[np.float32]]]:
    """The whole network in full precision, a trainer that predicts with it, and its logits for every split.

    `cached` are the splits whose activations below the trained layers are known.
    """
    if prepared.prefix is not None and not cached:
        prepared.prefix.remove()
    # Without mixed precision: the saved model will be asked without it too.
    model = merged(trainer.accelerator.unwrap_model(trainer.model, keep_fp32_wrapper=False)).float()
    if trainer.balance is not None:
        correct_prior(model, trainer.prior_shift)
    predictor = in_full_precision(model, trainer)
    rows = {name: cached.get(name, prepared.encoded[name]) for name in ("validation", *prepared.splits.tests)}
    probe = prepare_inputs(predictor, few_rows(predictor, rows["validation"]))
    short = pooled_last_layer(model, probe) if trainer.shortens_last_layer else nullcontext()
    with short:
        # Rounded activations of frozen layers, and weights beside LoRA's, give others.
        comparable = prepared.prefix is None or bool(cached)
        known = measured_logits(prepared, trainer, model, probe) if comparable else {}
        logits = {name: predict_logits(predictor, split) for name, split in rows.items() if name not in known}
    if prepared.prefix is not None and cached:
        prepared.prefix.remove()  # what is saved is the whole network, and proven as such
    return model, predictor, known | logits


def measured_logits(
    prepared: Prepared, trainer: MixupTrainer, model: nn.Module, probe: Mapping[str, Any]
) -> dict[str, NDArray[np.float32]]:
    """Those of the validation rows as they were measured after the chosen epoch; empty where they are not
    those of the network in hand, which a few rows tell, or were made in another precision."""
    args: Any = trainer.args
    if args.world_size > 1 or args.bf16 or args.fp16 or args.bf16_full_eval or args.fp16_full_eval:
        return {}
    by_length = logits_in(chosen_checkpoint(trainer))
    rows = prepared.encoded["validation"]
    if by_length is None or len(by_length) != len(rows):
        return {}
    logits = np.empty_like(by_length)
    logits[rows.by_length()[1]] = by_length - np.asarray(trainer.prior_shift, dtype=np.float32)
    model.eval()
    with torch.no_grad():
        found = model(**probe).logits.float().cpu().numpy()
    expected = logits[: len(found)]
    is_same = np.abs(found - expected).max() <= LARGEST_DIFFERENCE * max(1.0, float(np.abs(expected).max()))
    return {"validation": logits} if is_same else {}


def few_rows(predictor: Trainer, rows: Encoded) -> dict[str, Any]:
    """The inputs of the first rows."""
    batch = dict(predictor.data_collator([rows[place] for place in range(min(len(rows), fold_proof.ROWS))]))
    batch.pop("labels", None)
    return batch


def proof_rows(predictor: Trainer, prepared: Prepared) -> tuple[NDArray[np.int64], dict[str, Any]]:
    """Positions and inputs of the validation rows that a saved checkpoint is proven on."""
    encoded = prepared.encoded["validation"]
    return np.arange(min(len(encoded), fold_proof.ROWS)), few_rows(predictor, encoded)
