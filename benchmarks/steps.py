"""Time and memory of a training step of each method over plain's, at equal token counts; the same for images.

    python -m benchmarks.steps                       all cases, about half an hour
    python -m benchmarks.steps aum-saliency erl      some

The embedded encoder is trained on rows of one length (32 tokens), so that a method's padding adds nothing
and the ratio is the method's own cost; images are 28x28, through the small ResNet. Steps of plain and of a
method take turns; the ratio is the median of the pairs with its bootstrap interval. Peak memory is measured
in a process of its own for each method, less what the process held after loading.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results" / "steps.json"
TOKENS, BATCH, PAIRS = 32, 16, 120

LIMITS = {
    "cls-mixup": 1.05,
    "erl": 1.05,
    "focal": 1.05,
    "regmixup": 1.05,
    "input-mixup": 1.15,
    "features-only": 1.15,
    "manifold-mixup": 1.15,
    "aum-saliency": 1.05,
    "informed-mixup": 1.05,
    "tdmixup": 1.05,
    "kernel-warping": 1.05,
    "rankmixup": 1.05,
    "regmixup at embeddings": None,
    "on-off-manifold": None,
    "image input-mixup": 1.05,
    "image features-only": 1.05,
    "image manifold-mixup": 1.05,
}
OPTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "regmixup at embeddings": ("regmixup", {"at": "embeddings"}),
    "tdmixup": ("tdmixup", {"aum_filter": False}),  # the filter is a stage of its own
}
MEMORY_LIMIT = 1.1
IMAGES, IMAGE_SIDE, IMAGE_BATCH = "image ", 28, 64


def method_of(case: str) -> tuple[str, dict[str, Any]]:
    return OPTIONS.get(case, (case.removeprefix(IMAGES), {}))


def plain_for(case: str) -> str:
    return f"{IMAGES}plain" if case.startswith(IMAGES) else "plain"


@dataclass
class EqualRows:
    """Rows of random words, all of one length."""

    rows: int = 4096

    def __post_init__(self) -> None:
        generator = np.random.default_rng(0)
        self.ids = generator.integers(1000, 20000, (self.rows, TOKENS))
        self.ids[:, 0], self.ids[:, -1] = 101, 102
        self.labels = generator.integers(0, 2, self.rows)
        self.lengths = np.full(self.rows, TOKENS)

    def data_map(self) -> Any:
        """What an earlier run might have said about the rows."""
        from calmix.dynamics.datamap import DataMap
        from calmix.dynamics.training_dynamics import TrainingDynamics

        logits = np.random.default_rng(1).normal(size=(self.rows, 3, 2))
        return DataMap.from_dynamics(TrainingDynamics.from_logits(logits, self.labels))

    def __len__(self) -> int:
        return self.rows

    def __getitem__(self, row: int) -> dict[str, Any]:
        return {"input_ids": [self.ids[row]], "labels": int(self.labels[row])}


@dataclass
class RandomImages:
    """Images of random pixels, all of one size."""

    rows: int = 16384

    def __post_init__(self) -> None:
        generator = np.random.default_rng(0)
        shape = (512, IMAGE_SIDE, IMAGE_SIDE, 3)
        self.images = generator.integers(0, 256, shape, dtype=np.uint8)
        self.labels = generator.integers(0, 10, self.rows)

    def __len__(self) -> int:
        return self.rows

    def __getitem__(self, row: int) -> dict[str, Any]:
        return {"pixel_values": self.images[row % len(self.images)], "labels": int(self.labels[row])}


def text_parts() -> dict[str, Any]:
    from calmix.data.batches.encoding import PaddingCollator
    from calmix.models.loading import load_classifier, load_tokenizer

    tokenizer, rows = load_tokenizer("default"), EqualRows()
    return {
        "model": load_classifier("default", task="single", label_names=("a", "b"), seed=0),
        "train_dataset": rows,
        "data_map": rows.data_map(),
        "data_collator": PaddingCollator.for_tokenizer(tokenizer, is_choice=False),
        "processing_class": tokenizer,
    }


def image_parts() -> dict[str, Any]:
    from calmix.data.images.pixels import PixelCollator
    from calmix.models.built_in import build_image_network

    names = [str(label) for label in range(10)]
    return {
        "model": build_image_network("resnet-small", (IMAGE_SIDE, IMAGE_SIDE), names, seed=0),
        "train_dataset": RandomImages(),
        "data_collator": PixelCollator((0.5,) * 3, (0.3,) * 3),
    }


def make_trainer(case: str, directory: str) -> Any:
    from calmix.runtime.hardware import prepare_processor
    from calmix.runtime.progress import quiet, silence_transformers
    from calmix.training.arguments import MixupArguments
    from calmix.training.trainer import MixupTrainer

    silence_transformers()
    prepare_processor()
    is_image = case.startswith(IMAGES)
    method, options = method_of(case)
    trainer = MixupTrainer(
        args=MixupArguments(
            output_dir=directory,
            method=method,
            method_options=options,
            per_device_train_batch_size=IMAGE_BATCH if is_image else BATCH,
            num_train_epochs=1,
            learning_rate=1e-6,
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
            use_cpu=True,
            dataloader_pin_memory=False,
        ),
        **(image_parts() if is_image else text_parts()),
    )
    quiet(trainer)
    return trainer


class Stepper:
    """One optimiser step at a time, as the Trainer takes it."""

    def __init__(self, case: str, directory: str) -> None:
        self.trainer = make_trainer(case, directory)
        loader = self.trainer.get_train_dataloader()
        self.trainer.create_optimizer_and_scheduler(len(loader))
        self.batches = iter(loader)
        self.trainer.current_gradient_accumulation_steps = 1

    def before(self, batch: dict[str, Any]) -> None:
        """What a step must do first; it is timed with it."""

    def step(self) -> float:
        batch = next(self.batches)
        started = time.perf_counter()
        self.before(batch)
        self.trainer.training_step(self.trainer.model, batch, len(batch["labels"]))
        self.trainer.optimizer.step()
        self.trainer.model.zero_grad()
        self.trainer.state.global_step += 1
        return time.perf_counter() - started


def measure_ratio(case: str, directory: str) -> dict[str, float]:
    return ratio_of(Stepper(case, directory), Stepper(plain_for(case), directory))


def ratio_of(method: Stepper, plain: Stepper) -> dict[str, float]:
    """The median over interleaved pairs of steps, with its 95 % bootstrap interval."""
    for _ in range(5):
        plain.step(), method.step()
    ratios = []
    for pair in range(PAIRS):
        first, second = (plain, method) if pair % 2 else (method, plain)
        times = {first: first.step(), second: second.step()}
        ratios.append(times[method] / times[plain])
    values = np.array(ratios)
    draws = np.random.default_rng(0).integers(0, PAIRS, (2000, PAIRS))
    low, high = np.percentile(np.median(values[draws], axis=1), [2.5, 97.5])
    return {"ratio": float(np.median(values)), "low": float(low), "high": float(high)}


def peak_memory(case: str, directory: str) -> int:
    """Peak resident bytes of ten steps, less those after loading; run in a process of its own."""
    stepper = Stepper(case, directory)
    loaded = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    for _ in range(10):
        stepper.step()
    # Not `ru_maxrss`: it begins with the size of the process that started this one.
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmHWM"].split()[0]) * 1024 - loaded


def memory_in_own_process(case: str) -> int:
    command = [sys.executable, "-m", "benchmarks.steps", "--memory", case]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])


def main() -> None:
    """All cases, or those that are named; what was measured is kept after every one."""
    import tempfile

    with tempfile.TemporaryDirectory() as directory:
        if "--memory" in sys.argv:
            print(peak_memory(sys.argv[-1], directory))
            return
        cases = [case for case in LIMITS if case in sys.argv[1:]] or list(LIMITS)
        plain_memory = {plain: memory_in_own_process(plain) for plain in {plain_for(case) for case in cases}}
        for case in cases:
            measured = measure_ratio(case, directory)
            memory = memory_in_own_process(case) / plain_memory[plain_for(case)]
            keep(case, judged(case, measured, memory))


def judged(case: str, measured: dict[str, float], memory: float) -> dict[str, Any]:
    """A limit is missed only if even the lower end of the interval is beyond it."""
    limit = LIMITS[case]
    return {
        **measured,
        "limit": limit,
        "holds": limit is None or measured["low"] <= limit,
        "memory": memory,
        "memory_limit": None if limit is None else MEMORY_LIMIT,
        "memory_holds": limit is None or memory <= MEMORY_LIMIT,
    }


def keep(case: str, result: dict[str, Any]) -> None:
    """Print a result and write it beside those of other cases."""
    limit, memory = result["limit"], f"{result['memory']:.2f}"
    said = "reported only" if limit is None else f"limit {limit}: {'holds' if result['holds'] else 'MISSED'}"
    interval = f"{result['ratio']:.3f} [{result['low']:.3f}, {result['high']:.3f}]"
    memory += "" if result["memory_holds"] else f" (limit {MEMORY_LIMIT}: MISSED)"
    print(f"{case:24s} step {interval} of plain ({said}), peak memory {memory}", flush=True)
    stored = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
    methods = {**stored.get("methods", {}), case: result}
    ordered = {name: methods[name] for name in LIMITS if name in methods}
    RESULTS.parent.mkdir(exist_ok=True)
    content = {"tokens": TOKENS, "batch": BATCH, "pairs": PAIRS, "methods": ordered}
    RESULTS.write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
