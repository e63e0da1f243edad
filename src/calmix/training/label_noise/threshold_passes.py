"""The training passes behind a list of likely mislabelled rows.

Each pass trains a fresh network, by plain fine-tuning, on all training rows, of which some are threshold
samples: rows with a label that is certainly wrong (`dynamics.label_noise`). What is kept of a pass is the
area under the margin of every row, and nothing else: the head of a pass has one class more than the task, so
its logits and probabilities mean nothing to a model of the task.

    DIRECTORY/<fingerprint>/aum.parquet    a finished pass: row_id, label, assigned, threshold, aum
                            checkpoints/   only while it is under way
              <fingerprint>.lock           held while somebody works on it

A pass is found again by its fingerprint, a hash of all that goes into it (tokens, labels, first weights and
settings), so the same question is never trained twice; a pass that was cut off goes on from its newest whole
checkpoint.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from transformers import PreTrainedModel

from calmix.data.rows import Rows
from calmix.dynamics.datamap import DataMap
from calmix.dynamics.label_noise import (
    NoiseVerdict,
    ThresholdRun,
    nothing_judged,
    order_statistic,
    plan_threshold_samples,
    threshold_filter,
)
from calmix.io.manifest import sync
from calmix.io.run_directory import replacing
from calmix.models.cutting import cut_layers
from calmix.models.inputs import Encoded
from calmix.models.lora import add_lora
from calmix.models.network import Network, freeze_embeddings, load_network
from calmix.printable import say
from calmix.runtime.hardware import needs_process_group, prepared_processor
from calmix.runtime.lock import locked
from calmix.runtime.processes import is_alone, is_first_process, process_count
from calmix.runtime.progress import Progress, quiet, silence_transformers
from calmix.training.arguments import MixupArguments, as_numbers
from calmix.training.checkpoints.resumable import KEPT, newest_complete
from calmix.training.configuration import TrainConfig
from calmix.training.fast_layers import FLOAT32, layer_precision
from calmix.training.frozen_layers import freeze_layers, train_from_cache
from calmix.training.trainer import MixupTrainer
from calmix.user_error import UserError

FAKE_CLASS = "threshold sample"
AUM_FILE = "aum.parquet"


@dataclass(frozen=True, eq=False)
class ThresholdPass:
    """One finished pass: what each row was labelled, and its AUM against that label (NaN where unseen)."""

    run: ThresholdRun
    aum: npt.NDArray[np.float64]
    fingerprint: str
    was_trained: bool
    """False where the pass was found finished."""


@dataclass(frozen=True, eq=False)
class NoiseSearch:
    """The passes, and what they say about the labels. Without a pass nothing was judged: too few rows."""

    passes: tuple[ThresholdPass, ...]
    verdict: NoiseVerdict
    percentile: float
    findings: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON: how the rows were judged."""
        cutoffs = [cutoff if np.isfinite(cutoff) else None for cutoff in self.verdict.cutoffs]
        return {
            "rule": "threshold samples",
            "percentile": self.percentile,
            "flagged": int(self.verdict.flagged.sum()),
            "unscored": int(self.verdict.unscored.sum()),
            "findings": list(self.findings),
            "passes": [
                {
                    "fingerprint": one.fingerprint,
                    "threshold_samples": int(one.run.threshold.sum()),
                    "cutoff": cutoff,
                    "was_trained": one.was_trained,
                }
                for one, cutoff in zip(self.passes, cutoffs, strict=True)
            ],
        }


@contextmanager
def untouched_generators() -> Iterator[None]:
    """What is drawn inside leaves no trace: whoever asks for a pass goes on with the same random numbers
    whether it was trained or found."""
    devices = [torch.cuda.current_device()] if torch.cuda.is_available() else []
    with torch.random.fork_rng(devices):
        yield


@untouched_generators()
def find_label_noise(
    config: TrainConfig, rows: Rows, directory: str | Path, *, runs: int = 2, percentile: float = 0.99
) -> NoiseSearch:
    """Train the passes, or find them finished in `directory`, and flag the rows they give away.

    Of `config` the network and the settings of training count, not the method: a pass is always plain, with
    hard labels, for the margin of a mixed or smoothed target is no longer that of the label. Of two runs, a
    row is flagged if every run in which it was an original flags it (`label_noise.threshold_filter`).
    """
    plan = plan_threshold_samples(
        rows.labels,
        rows.class_count,
        seed=config.seed,
        runs=runs,
        task=rows.task,
        class_names=rows.label_names,
    )
    if not any(order_statistic(percentile, int(run.threshold.sum())) for run in plan.runs):
        finding = f"{len(rows)} rows are too few for a test of their labels at {percentile:g}"
        return NoiseSearch((), nothing_judged(len(rows)), percentile, (finding,))
    silence_transformers()
    passes = []
    encoded: Encoded | None = None
    for number, run in enumerate(plan.runs, start=1):
        # Again: the Trainer of a pass turns the remarks back on in all processes but the first.
        silence_transformers()
        names = (*rows.label_names, FAKE_CLASS)[: run.num_classes]
        network = load_network(config.model, rows, label_names=names, **config.network_settings())
        model = network.model
        if config.student_layers is not None:
            cut_layers(model, config.student_layers)
        if encoded is None:
            encoded = network.inputs.encode(rows, training_seed=config.seed)
        relabelled = replace(encoded, labels=run.labels)
        fingerprint = fingerprint_of(config, relabelled, model)
        place = Path(directory) / fingerprint
        if needs_process_group():  # the processes of a run form a group, which takes the lock together
            _ = pass_arguments(config, place / "checkpoints").device
        # Runs of a comparison may ask for the same pass at once: one trains it, the others find it.
        with locked(place.with_suffix(".lock")):
            aum = read_pass(place / AUM_FILE, relabelled)
            was_trained = aum is None
            if aum is None:
                title = f"threshold pass {number} of {len(plan.runs)}"
                with prepared_processor(config.threads):
                    aum = train_pass(config, relabelled, network, place, title)
                write_pass(place, rows, run, aum)
        passes.append(ThresholdPass(run, aum, fingerprint, was_trained))
    verdict = threshold_filter([one.aum for one in passes], plan.runs, k=percentile)
    return NoiseSearch(tuple(passes), verdict, percentile, (*plan.findings, *verdict.findings))


def train_pass(
    config: TrainConfig,
    rows: Encoded,
    network: Network,
    place: Path,
    title: str,
) -> npt.NDArray[np.float64]:
    """The AUM of every row against the label it has in this pass, recorded in training."""
    if config.freeze_embeddings:
        freeze_embeddings(network)
    if config.lora is not None:
        network = add_lora(network, config.lora, frozen_layers=config.freeze_layers or 0)
    checkpoints = place / "checkpoints"
    prefix = freeze_layers(config, network, rows)
    trainer = MixupTrainer(
        model=network.model,
        args=pass_arguments(config, checkpoints),
        train_dataset=rows,
        data_collator=network.inputs.collator(is_choice=rows.is_choice),
        processing_class=network.inputs.processing_class,
    )
    trainer.checkpoints_kept = KEPT
    quiet(trainer)
    trainer.add_callback(Progress(title))
    train_from_cache(config, trainer, prefix, {"train": rows})
    checkpoint = newest_complete(checkpoints)
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    recorder = trainer.merged_recorder()
    assert recorder is not None
    return DataMap.from_recorder(recorder).aum


def pass_arguments(config: TrainConfig, checkpoints: Path) -> MixupArguments:
    """The run's own settings of training, but for what a pass must not do: evaluate, or choose an epoch."""
    settings: dict[str, Any] = {
        "seed": config.seed,
        "num_train_epochs": config.epochs,
        "per_device_train_batch_size": config.batch_size_of_first_stage,
        "learning_rate": config.learning_rate,
        "precision": config.precision,
        "use_cpu": config.device == "cpu",
        "dataloader_pin_memory": torch.cuda.is_available() and config.device != "cpu",
        "logging_strategy": "no",
        "disable_tqdm": True,
        "checkpoint_steps": config.checkpoint_steps,
        "checkpoint_minutes": config.checkpoint_minutes,
        "optimizer": config.optimizer,
        "schedule": config.schedule,
    }
    own: dict[str, Any] = {
        "output_dir": str(checkpoints.absolute()),
        "method": "plain",
        "method_options": {},
        "dynamics": "training",
        "eval_strategy": "no",
        "save_strategy": "no",
        "load_best_model_at_end": False,
    }
    try:
        return MixupArguments(**{**settings, **as_numbers(config.trainer), **own})
    except (TypeError, ValueError) as error:
        raise UserError(f"trainer: {error}", remedy="see transformers.TrainingArguments") from error


def fingerprint_of(config: TrainConfig, rows: Encoded, model: PreTrainedModel) -> str:
    """A hash of what a pass is made of. Threads and device are not in it: they decide the last bits only."""
    precision = layer_precision(config.precision, model, model.device.type)
    settings: dict[str, Any] = {
        "epochs": config.epochs,
        "batch_size": config.batch_size_of_first_stage,
        "learning_rate": config.learning_rate,
        "freeze_embeddings": config.freeze_embeddings,
        "seed": config.seed,
        "trainer": config.trainer,
    }
    later = {
        "augment": config.augment,
        "optimizer": config.optimizer,
        "schedule": config.schedule,
        "lora": config.lora,
        # Made since float32 is not the only one.
        "precision": None if precision == FLOAT32 else precision,
    }
    settings |= {name: value for name, value in later.items() if value is not None}
    if config.freeze_layers is not None:
        settings |= {"freeze_layers": config.freeze_layers, "freeze_cache": config.freeze_cache}
    if not is_alone():
        settings["processes"] = process_count()
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode())
    digest.update("\n".join(rows.row_ids.tolist()).encode())
    assert rows.labels is not None
    for array in (rows.labels, *rows.content()):
        digest.update(np.ascontiguousarray(array).data)
    for name, tensor in model.state_dict().items():
        digest.update(f"{name} {list(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()[:20]


def write_pass(place: Path, rows: Rows, run: ThresholdRun, aum: npt.NDArray[np.float64]) -> None:
    """Mark a pass as finished; every process of several holds the same numbers, the first one writes."""
    if not is_first_process():
        return
    table = pa.table(
        {
            "row_id": rows.row_ids,
            "label": rows.labels,
            "assigned": run.labels,
            "threshold": run.threshold,
            "aum": pa.array(aum, mask=np.isnan(aum)),
        }
    )
    with replacing(place / AUM_FILE) as fresh:
        pq.write_table(table, fresh, write_page_checksum=True)
        sync(fresh)
    shutil.rmtree(place / "checkpoints", ignore_errors=True)


def read_pass(file: Path, rows: Encoded) -> npt.NDArray[np.float64] | None:
    """The AUMs of a finished pass, or None where there is none, or none that is whole."""
    if not file.is_file():
        return None
    try:
        table = pq.read_table(file, page_checksum_verification=True)
        aum = np.asarray(table["aum"].to_numpy(), dtype=np.float64)
    except (OSError, pa.ArrowException, KeyError) as error:
        if is_first_process():
            reason = " ".join(str(error).split())
            say(f"{file} is damaged ({reason}): the pass is trained again")
        return None
    if table["row_id"].to_pylist() != rows.row_ids.tolist():
        raise UserError("this pass was trained on other rows", file=file, remedy="delete its directory")
    return aum
