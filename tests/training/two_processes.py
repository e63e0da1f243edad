"""Started by the tests, alone or under torchrun: short trainings whose weights and dynamics are saved."""

import fcntl
import json
import os
import sys
import threading
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

from calmix.data.batches.encoding import PaddingCollator, encode_rows
from calmix.data.rows import Rows
from calmix.dynamics.datamap import DataMap
from calmix.dynamics.training_dynamics import TrainingDynamics
from calmix.io.run_directory import RunDirectory
from calmix.models.loading import load_classifier, load_tokenizer
from calmix.runtime.hardware import wait_for_all_processes
from calmix.runtime.lock import locked
from calmix.runtime.processes import destroy_process_group, is_first_process
from calmix.runtime.progress import quiet, silence_transformers
from calmix.training.arguments import MixupArguments
from calmix.training.configuration import TrainConfig
from calmix.training.distillation.teaching import Teaching
from calmix.training.trainer import MixupTrainer
from tiny import sentences


def random_map(rows: Rows) -> DataMap:
    """What an earlier run might have said about the rows."""
    logits = np.random.default_rng(0).normal(size=(len(rows), 2, rows.class_count))
    return DataMap.from_dynamics(TrainingDynamics.from_logits(logits, rows.labels, row_ids=rows.row_ids))


def main() -> None:
    """Each case is (name, method, options, rows, settings); its results go to OUTPUT/name.

    `settings` are fields of MixupArguments, and `teachers` of a student.
    """
    encoder, output, accumulation, cases = sys.argv[1:5]
    for name, method, options, rows, settings in json.loads(cases):
        train(encoder, Path(output) / name, int(accumulation), method, options, rows, settings)
    take_lock(Path(output))
    destroy_process_group()


def take_lock(output: Path) -> None:
    """Somebody else holds the lock for a while; then all processes of this run have it, and nobody else."""
    place, freed = output / "work.lock", output / "freed"

    def is_free() -> bool:
        with place.open("a") as other:
            try:
                fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True

    if is_first_process():
        holder = place.open("a")
        fcntl.flock(holder, fcntl.LOCK_EX)

        def let_go() -> None:
            freed.touch()
            holder.close()

        threading.Timer(0.7, let_go).start()
    wait_for_all_processes()
    with locked(place):
        found = {"was_freed": freed.exists(), "is_free": is_free()}
        (output / f"lock-{os.environ.get('RANK', 0)}.json").write_text(json.dumps(found))
        wait_for_all_processes()


def train(encoder, output, accumulation, method, options, rows, settings) -> None:
    output.mkdir(parents=True, exist_ok=True)
    teachers = settings.pop("teachers", ())
    silence_transformers()
    torch.set_num_threads(1)
    texts, names = sentences(rows, seed=3)
    data = Rows.from_columns(
        [f"row-{i}" for i in range(len(texts))],
        texts,
        labels=[int(name == "positive") for name in names],
        label_names=("negative", "positive"),
    )
    tokenizer = load_tokenizer(encoder)
    model = load_classifier(encoder, task="single", label_names=data.label_names, seed=0)
    trainer = MixupTrainer(
        model=model,
        args=MixupArguments(
            output_dir=str(output),
            method=method,
            method_options=options,
            num_train_epochs=2,
            per_device_train_batch_size=8,
            gradient_accumulation_steps=accumulation,
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
            use_cpu=True,
            dataloader_pin_memory=False,
            ddp_backend="gloo" if "WORLD_SIZE" in os.environ else None,
            **{"learning_rate": 1e-3, **settings},
        ),
        train_dataset=encode_rows(data, tokenizer, max_length=64),
        data_collator=PaddingCollator.for_tokenizer(tokenizer, is_choice=False),
        processing_class=tokenizer,
        data_map=random_map(data),
    )
    quiet(trainer)
    if teachers:
        config = TrainConfig(train="rows", output=str(output), teacher=teachers, threads=1)
        trainer.learn_from(Teaching.prepare(config, data, None).logits(RunDirectory(output)))
    trainer.train()
    recorder = trainer.merged_recorder()
    journal = trainer.merged_journal()
    if trainer.is_world_process_zero():
        state = {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}
        save_file(state, output / "weights.safetensors")
        np.savez(output / "dynamics.npz", **recorder.state())
        (output / "losses.json").write_text(json.dumps(journal.state()["sums"]))


if __name__ == "__main__":
    main()
