"""Which learning rate and how many epochs suit the embedded encoder: measured, and the rule judged by it.

    python -m benchmarks.default_settings --data-dir DIR --store cells.jsonl   train what is missing there
    python -m benchmarks.default_settings --store cells.jsonl --write          the table of what was trained
    python -m benchmarks.default_settings                                      the rule against the table

DIR/<dataset>/{train,validation}.jsonl.gz are labelled rows. A cell is one plain run of the embedded encoder:
a stratified sample of the training rows, one rate, one number of epochs, linear decay over exactly these
epochs (an epoch of a longer schedule is none of a shorter one). It is scored on 500 fixed validation rows by
NLL after temperature scaling and by accuracy. Test files are never read. Cells come in the order of what they
tell; whatever is cut off goes on where it was.

    score(cell)  = NLL after temperature at the last epoch / entropy of the class shares
    regret(rule) = score(cell of the rule) - lowest score of any cell of that dataset and size

There is no regret where no other setting was trained. `--sizes` and `--datasets` train a part.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from statistics import mean, median
from typing import Any

RESULTS = Path(__file__).parent / "results" / "default_settings.json"
VALIDATION_ROWS, TOKENS, BATCH = 500, 128, 16
# All rates and lengths are trained on the first two.
FIRST = ("goemotions", "cola")
OTHERS = ("mr", "snli", "meld", "qqp", "ag_news")
BEFORE_RATE, BEFORE_EPOCHS = 2e-5, 3
"""The defaults of calmix until they were chosen here."""
RATES = {100: (2e-4, 4e-4, 1e-4, 8e-4), 600: (2e-4, 1e-4, 4e-4, 5e-5), 2_000: (2e-4, 1e-4, 4e-4, 5e-5)}
"""The most likely first: three of them are trained on all datasets."""
LENGTHS = {100: (20, 10, 30), 600: (6, 3, 10), 2_000: (3, 5)}
"""Epochs; the first is trained at every rate, the others at the first rates."""
LARGEST_REGRET = 0.05
"""Mean over datasets, for the rule to hold."""


@dataclass(frozen=True)
class Cell:
    dataset: str
    rows: int
    learning_rate: float
    epochs: int
    seed: int = 0


@dataclass(frozen=True)
class Wanted:
    """A part of the plan; empty: all of it."""

    sizes: tuple[int, ...] = ()
    datasets: tuple[str, ...] = ()

    def holds(self, cell: Cell) -> bool:
        return (not self.sizes or cell.rows in self.sizes) and (
            not self.datasets or cell.dataset in self.datasets
        )


def before(dataset: str, rows: int) -> Cell:
    return Cell(dataset, rows, BEFORE_RATE, BEFORE_EPOCHS)


def plan() -> list[Cell]:
    """All cells, the most telling and cheapest first."""
    cells: dict[Cell, None] = {}

    def add(datasets: tuple[str, ...], sizes: tuple[int, ...], rates: slice, lengths: slice) -> None:
        for rows in sizes:
            for length in LENGTHS[rows][lengths]:
                for rate in RATES[rows][rates]:
                    cells.update((Cell(dataset, rows, rate, length), None) for dataset in datasets)

    def add_before(datasets: tuple[str, ...], sizes: tuple[int, ...]) -> None:
        cells.update((before(dataset, rows), None) for dataset in datasets for rows in sizes)

    everything = slice(None)
    add_before(FIRST, (100, 600))
    add(FIRST, (100, 600), slice(3), slice(1))
    for size in (600, 100):
        add_before(OTHERS, (size,))
        add(OTHERS, (size,), slice(1), slice(1))
    add(FIRST, (100, 600), everything, slice(1))
    add(OTHERS, (100, 600), slice(2), slice(1))
    add(FIRST + OTHERS, (2_000,), slice(1), slice(1))
    add_before(FIRST + OTHERS, (2_000,))
    add(FIRST + OTHERS, (2_000,), slice(2), slice(1))
    add(FIRST, (100, 600, 2_000), slice(2), everything)
    add(FIRST + OTHERS, (100, 600, 2_000), slice(3), slice(1))
    add(FIRST, (2_000,), everything, slice(1))
    add(OTHERS, (100, 600, 2_000), slice(1), everything)
    return list(cells)


def measure(cell: Cell, data: Path) -> dict[str, Any]:
    """Train one cell: what every measured epoch found."""
    from calmix.models.network import load_network
    from calmix.runtime.progress import quiet
    from calmix.training.arguments import MixupArguments
    from calmix.training.epochs.measures import SELECTION_METRIC, epoch_metrics
    from calmix.training.trainer import MixupTrainer

    train, validation = rows_of(str(data), cell.dataset, cell.rows)
    network = load_network("default", train, seed=cell.seed, max_length=TOKENS)
    view, _ = network.inputs.encode(validation).by_length()
    with tempfile.TemporaryDirectory() as place:
        trainer = MixupTrainer(
            model=network.model,
            args=MixupArguments(
                output_dir=place,
                seed=cell.seed,
                dynamics="off",
                learning_rate=cell.learning_rate,
                num_train_epochs=cell.epochs,
                per_device_train_batch_size=BATCH,
                per_device_eval_batch_size=64,
                eval_strategy="no",
                save_strategy="no",
                logging_strategy="no",
                disable_tqdm=True,
                use_cpu=True,
                dataloader_pin_memory=False,
            ),
            train_dataset=network.inputs.encode(train, training_seed=cell.seed),
            eval_dataset=view,
            data_collator=network.inputs.collator(is_choice=False),
            compute_metrics=epoch_metrics,
            processing_class=network.inputs.processing_class,
        )
        quiet(trainer)
        trainer.add_callback(some_epochs(cell.epochs))
        started = time.monotonic()
        trainer.train()
        losses = trainer.merged_journal().losses()
    history = [
        {
            "epoch": round(entry["epoch"]),
            "train_loss": round(losses[round(entry["epoch"]) - 1], 5),
            "accuracy": round(entry["eval_accuracy"], 5),
            "validation_nll": round(entry["eval_nll"], 5),
            "validation_nll_calibrated": round(entry[f"eval_{SELECTION_METRIC}"], 5),
            "temperature": round(entry["eval_temperature"], 4),
        }
        for entry in trainer.state.log_history
        if f"eval_{SELECTION_METRIC}" in entry
    ]
    shares = validation.label_counts / len(validation)
    return {
        **asdict(cell),
        "validation_rows": len(validation),
        "majority_share": round(float(shares.max()), 5),
        "entropy": round(entropy(shares), 5),
        "first_loss": round(losses[0], 5),
        "seconds": round(time.monotonic() - started, 1),
        "history": history,
    }


def some_epochs(epochs: int) -> Any:
    """All of three epochs are measured; of more the last two, and every fifth before."""
    from transformers import TrainerCallback

    class Measured(TrainerCallback):
        def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
            epoch = round(state.epoch)
            control.should_evaluate = epochs <= 3 or epoch >= epochs - 1 or epoch % 5 == 0
            return control

    return Measured()


@cache
def rows_of(data: str, dataset: str, rows: int) -> tuple[Any, Any]:
    """A sample of the training rows, and the validation rows, which are the same for all sizes."""
    from calmix.data.sampling import stratified_sample

    train, validation = splits_of(data, dataset)
    return stratified_sample(train, rows, 0), stratified_sample(validation, VALIDATION_ROWS, 0)


@cache
def splits_of(data: str, dataset: str) -> tuple[Any, Any]:
    from calmix.data.columns import ColumnNames
    from calmix.data.splits import read_splits

    place = Path(data) / dataset
    names = [str(place / f"{split}.jsonl.gz") for split in ("train", "validation")]
    splits = read_splits(names[0], names[1], (), columns=ColumnNames(), seed=0)
    return splits.train, splits.validation


def entropy(shares: Any) -> float:
    import numpy as np

    present = np.asarray(shares)[np.asarray(shares) > 0]
    return float(-(present * np.log(present)).sum())


def read_store(file: Path) -> dict[Cell, dict[str, Any]]:
    """The cells that are done; a last line that was cut off is none."""
    done: dict[Cell, dict[str, Any]] = {}
    for line in file.read_text().splitlines() if file.is_file() else ():
        try:
            found = json.loads(line)
        except ValueError:
            continue
        done[cell_of(found)] = found
    return done


def cell_of(found: dict[str, Any]) -> Cell:
    return Cell(*(found[name] for name in ("dataset", "rows", "learning_rate", "epochs", "seed")))


def train_missing(data: Path, store: Path, threads: int, minutes: float, wanted: Wanted) -> None:
    from calmix.runtime.hardware import prepared_processor
    from calmix.runtime.progress import silence_transformers

    silence_transformers()
    done, started = read_store(store), time.monotonic()
    store.parent.mkdir(parents=True, exist_ok=True)
    missing = [cell for cell in plan() if cell not in done and wanted.holds(cell)]
    print(f"{len(done)} cells done, {len(missing)} to train", flush=True)
    with prepared_processor(threads):
        for cell in missing:
            if time.monotonic() - started > 60 * minutes:
                print(f"stopped after {minutes:g} minutes; the same command goes on", flush=True)
                return
            found = measure(cell, data)
            with store.open("a") as file:
                file.write(json.dumps(found) + "\n")
            last = found["history"][-1]
            print(
                f"{cell.dataset:12s} {cell.rows:5d} rows, rate {cell.learning_rate:g}, "
                f"{cell.epochs:2d} epochs: accuracy {last['accuracy']:.3f}, "
                f"NLL {last['validation_nll_calibrated']:.4f} ({found['seconds']:.0f} s)",
                flush=True,
            )


def score(found: dict[str, Any]) -> float:
    return float(found["history"][-1]["validation_nll_calibrated"] / found["entropy"])


def last_gain(found: dict[str, Any]) -> float:
    """By how much the validation NLL fell in the last epoch, as a share of the NLL of guessing."""
    nlls = [epoch["validation_nll_calibrated"] for epoch in found["history"]]
    return float((nlls[-2] - nlls[-1]) / found["entropy"])


def summary_of(done: dict[Cell, dict[str, Any]]) -> dict[str, Any]:
    """Medians of all settings, and the rule against the best cell of every dataset and size."""
    settings = sorted({(cell.rows, cell.learning_rate, cell.epochs) for cell in done})
    table = []
    for rows, rate, epochs in settings:
        found = [f for c, f in done.items() if (c.rows, c.learning_rate, c.epochs) == (rows, rate, epochs)]
        table.append(
            {
                "rows": rows,
                "learning_rate": rate,
                "epochs": epochs,
                "datasets": len(found),
                "median_score": round(median(map(score, found)), 4),
                "median_accuracy": round(median(f["history"][-1]["accuracy"] for f in found), 4),
                "mean_regret": mean_regret(done, found),
                "largest_last_gain": round(max(map(last_gain, found)), 4),
            }
        )
    judged = [judge(done, dataset, rows) for rows in LENGTHS for dataset in FIRST + OTHERS]
    return {"settings": table, "rule": [each for each in judged if each is not None]}


def alternatives(done: dict[Cell, dict[str, Any]], of: dict[str, Any]) -> list[Cell]:
    """The cells of the same dataset and size, this one included."""
    return [cell for cell in done if (cell.dataset, cell.rows) == (of["dataset"], of["rows"])]


def best(done: dict[Cell, dict[str, Any]], of: dict[str, Any]) -> tuple[float, Cell]:
    """The lowest score of the same dataset and size, and its cell."""
    return min(((score(done[cell]), cell) for cell in alternatives(done, of)), key=lambda pair: pair[0])


def mean_regret(done: dict[Cell, dict[str, Any]], found: list[dict[str, Any]]) -> float | None:
    """Over the datasets where there was something to regret."""
    regrets = [score(f) - best(done, f)[0] for f in found if len(alternatives(done, f)) > 1]
    return round(mean(regrets), 4) if regrets else None


def judge(done: dict[Cell, dict[str, Any]], dataset: str, rows: int) -> dict[str, Any] | None:
    """What the rule gives there, before and after; None where its cell was not trained."""
    from calmix.training.default_settings import default_settings

    usual = default_settings("default", rows, BATCH)
    found = done.get(Cell(dataset, rows, usual.learning_rate, usual.epochs))
    if found is None:
        return None
    lowest, where = best(done, found)
    trained = len(alternatives(done, found))
    earlier = done.get(before(dataset, rows))
    cells = {"after": found} | ({"before": earlier} if earlier else {})
    return {
        "dataset": dataset,
        "rows": rows,
        "learning_rate": usual.learning_rate,
        "epochs": usual.epochs,
        "majority_share": found["majority_share"],
        "regret": round(score(found) - lowest, 4) if trained > 1 else None,
        "settings_trained": trained,
        "best": {"learning_rate": where.learning_rate, "epochs": where.epochs},
        **{
            name: {
                "accuracy": cell["history"][-1]["accuracy"],
                "nll": cell["history"][-1]["validation_nll"],
                "nll_calibrated": cell["history"][-1]["validation_nll_calibrated"],
            }
            for name, cell in cells.items()
        },
    }


def show(summary: dict[str, Any]) -> None:
    for each in summary["settings"]:
        regret = "unknown" if each["mean_regret"] is None else f"{each['mean_regret']:.3f}"
        print(
            f"{each['rows']:5d} rows, rate {each['learning_rate']:g}, {each['epochs']:2d} epochs: "
            f"median score {each['median_score']:.3f}, accuracy {each['median_accuracy']:.3f}, mean regret "
            f"{regret} ({each['datasets']} datasets)"
        )
    for rows in LENGTHS:
        rule = [each for each in summary["rule"] if each["rows"] == rows]
        regrets = [each["regret"] for each in rule if each["regret"] is not None]
        alone = len(rule) - len(regrets)
        if regrets:
            verdict = "holds" if mean(regrets) <= LARGEST_REGRET else "MISSED"
            print(
                f"{rows:5d} rows: mean regret of the rule {mean(regrets):.3f} over {len(regrets)} datasets, "
                f"limit {LARGEST_REGRET}: {verdict}"
            )
        if alone:
            print(f"{rows:5d} rows: on {alone} datasets nothing but the rule was trained")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data-dir", type=Path, help="a folder of datasets; without it nothing is trained")
    parser.add_argument("--store", type=Path, help="one json line for every cell that is done")
    parser.add_argument("--sizes", type=int, nargs="*", default=[], help="training rows: of the plan, these")
    parser.add_argument("--datasets", nargs="*", default=[], help="of the plan, these")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=600.0, help="no cell is begun after so many")
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name}")
    given = parser.parse_args()
    if given.data_dir is not None:
        if given.store is None:
            parser.error("--data-dir needs --store")
        wanted = Wanted(tuple(given.sizes), tuple(given.datasets))
        train_missing(given.data_dir, given.store, given.threads, given.minutes, wanted)
    if given.store is not None:
        done = read_store(given.store)
    else:
        done = {cell_of(found): found for found in json.loads(RESULTS.read_text())["cells"]}
    summary = summary_of(done)
    show(summary)
    if given.write:
        about = {
            "command": "python -m benchmarks.default_settings --data-dir DIR --store cells.jsonl --write",
            "model": "default",
            "validation_rows": VALIDATION_ROWS,
            "max_length": TOKENS,
            "batch_size": BATCH,
            "planned_cells": len(plan()),
        }
        lines = ",\n".join(f"    {json.dumps(found)}" for found in done.values())
        head = json.dumps({**about, **summary}, indent=2)[:-2]
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(f'{head},\n  "cells": [\n{lines}\n  ]\n}}\n')


if __name__ == "__main__":
    main()
