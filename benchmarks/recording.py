"""What recording the training dynamics costs: the recorder's own time over the median training step.

    python -m benchmarks.recording

The embedded encoder is trained on the embedded sentences as `calmix train` does it (plain, batches of 16, up
to 128 tokens). Timed are whole optimiser steps, and inside them all that recording does: the copy of the
logits to the CPU, the margins and probabilities, and the scatter. Both are medians over the same steps, with
a bootstrap interval of their ratio. Writes `benchmarks/results/recording.json`.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from calmix.io.run_directory import write_json

RESULTS = Path(__file__).parent / "results" / "recording.json"
ROWS, BATCH, TOKENS, STEPS, WARM_UP = 2400, 16, 128, 150, 10
LIMIT = 0.01


def make_trainer(directory: str) -> Any:
    from calmix.data.batches.encoding import PaddingCollator, encode_rows
    from calmix.data.embedded import movie_reviews
    from calmix.data.sampling import stratified_sample
    from calmix.models.loading import load_classifier, load_tokenizer
    from calmix.runtime.hardware import prepare_processor
    from calmix.runtime.progress import quiet, silence_transformers
    from calmix.training.arguments import MixupArguments
    from calmix.training.trainer import MixupTrainer

    silence_transformers()
    prepare_processor()
    rows = stratified_sample(movie_reviews().rotten_tomatoes, ROWS, seed=0)
    tokenizer = load_tokenizer("default")
    trainer = MixupTrainer(
        model=load_classifier("default", task="single", label_names=rows.label_names, seed=0),
        args=MixupArguments(
            output_dir=directory,
            per_device_train_batch_size=BATCH,
            max_steps=STEPS + WARM_UP,
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
            use_cpu=True,
            dataloader_pin_memory=False,
        ),
        train_dataset=encode_rows(rows, tokenizer, max_length=TOKENS),
        data_collator=PaddingCollator.for_tokenizer(tokenizer, is_choice=False),
        processing_class=tokenizer,
    )
    quiet(trainer)
    return trainer


def measure(trainer: Any) -> tuple[np.ndarray, np.ndarray]:
    """Seconds of recording and of the whole step, for every step after the warm-up."""
    from transformers import TrainerCallback

    recording: list[float] = []
    steps: list[float] = []
    record = trainer.record

    def timed_record(logits: Any) -> None:
        started = time.perf_counter()
        record(logits)
        recording.append(time.perf_counter() - started)

    class StepClock(TrainerCallback):
        def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self.started = time.perf_counter()

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            steps.append(time.perf_counter() - self.started)

    trainer.record = timed_record
    trainer.add_callback(StepClock())
    trainer.train()
    assert len(recording) == len(steps) == STEPS + WARM_UP
    assert int(trainer.recorder.state()["times"].sum()) == BATCH * len(steps)
    return np.array(recording[WARM_UP:]), np.array(steps[WARM_UP:])


def main() -> None:
    import torch

    with tempfile.TemporaryDirectory() as directory:
        recording, steps = measure(make_trainer(directory))
    draws = np.random.default_rng(0).integers(0, STEPS, (2000, STEPS))
    ratios = np.median(recording[draws], axis=1) / np.median(steps[draws], axis=1)
    low, high = np.percentile(ratios, [2.5, 97.5])
    result = {
        "threads": torch.get_num_threads(),
        "rows": ROWS,
        "batch": BATCH,
        "tokens_at_most": TOKENS,
        "steps": STEPS,
        "microseconds_of_recording": 1e6 * float(np.median(recording)),
        "milliseconds_of_step": 1e3 * float(np.median(steps)),
        "ratio": float(np.median(recording) / np.median(steps)),
        "low": float(low),
        "high": float(high),
        # With the slowest calls in it: what a whole run pays.
        "ratio_of_totals": float(recording.sum() / steps.sum()),
        "limit": LIMIT,
        "holds": bool(low <= LIMIT),
    }
    print(
        f"recording: {result['microseconds_of_recording']:.0f} us in a step of "
        f"{result['milliseconds_of_step']:.0f} ms: {100 * result['ratio']:.3f} % "
        f"[{100 * low:.3f}, {100 * high:.3f}] (limit {100 * LIMIT:.0f} %)"
    )
    write_json(RESULTS, result)
    if not result["holds"]:
        raise SystemExit("recording misses its goal")


if __name__ == "__main__":
    main()
