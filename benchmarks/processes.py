"""Two processes of one run (torchrun, gloo) beside one process, and how long gradients travel.

    python -m benchmarks.processes              512 film reviews, 2 epochs, 3 rounds in turns
    python -m benchmarks.processes --rows 64 --rounds 1    a trial

All train the same rows in the same order with 32 rows a step: two processes 16 each, one process 16 twice.
One process has one thread or two, each of two processes has one. A round launches all three in turn.
Seconds are those on the wall, since two processes share the work: run it on a quiet machine. CPU seconds of
all processes stand beside them. The share of communication is the part of the first process's step time
in which an all-reduce was under way; it runs beside the backward pass, so not all of it is waiting.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.training import Case, conditions

RESULTS = Path(__file__).parent / "results" / "processes.json"
# Processes, threads of each, micro-batches of 16 rows in a step of each.
SETTINGS = {
    "one process, one thread": (1, 1, 2),
    "one process, two threads": (1, 2, 2),
    "two processes, one thread each": (2, 1, 1),
}
TWO = "two processes, one thread each"


def train(rows: int, epochs: int, accumulation: int, folder: Path) -> None:
    """One process of a run; the first writes what it measured."""
    from transformers import TrainerCallback

    from calmix.runtime.processes import destroy_process_group, is_first_process
    from calmix.runtime.progress import silence_transformers

    silence_transformers()
    case = Case("single", rows, epochs, str(folder))
    trainer = case.calmix_trainer("plain", case.network("plain"), accumulation)
    ends: list[float] = []
    spans: list[tuple[float, float]] = []

    class Timed(TrainerCallback):
        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            time_all_reduce(trainer.model_wrapped, spans)

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            ends.append(time.perf_counter())

    trainer.add_callback(Timed())
    trainer.train()
    if is_first_process():
        # The first step allocates and builds the buckets of the gradients.
        inside = [span for span in spans if span[0] >= ends[0]]
        whole = ends[-1] - ends[0]
        found = {
            "steps": len(ends) - 1,
            "seconds": whole / (len(ends) - 1),
            "communication": union(inside) / whole,
        }
        (folder / "found.json").write_text(json.dumps(found))
    destroy_process_group()
    # The callbacks of the all-reduce hook run in threads of gloo, which abort an interpreter that ends
    # before them.
    os._exit(0)


def time_all_reduce(model: Any, spans: list[tuple[float, float]]) -> None:
    """Note when each all-reduce of gradients begins and ends."""
    import torch.distributed as dist
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
    from torch.nn.parallel import DistributedDataParallel

    if not isinstance(model, DistributedDataParallel):
        return

    # Without annotations: torch takes those of `from __future__` for wrong ones.
    def hook(group, bucket):  # type: ignore[no-untyped-def]
        began = time.perf_counter()

        def note(future: Any) -> Any:
            spans.append((began, time.perf_counter()))
            return future.value()

        return allreduce_hook(group, bucket).then(note)

    model.register_comm_hook(dist.group.WORLD, hook)


def union(spans: list[tuple[float, float]]) -> float:
    """Seconds that lie in any of the spans.

    >>> union([(0.0, 2.0), (1.0, 3.0), (5.0, 6.0)])
    4.0
    """
    total, last = 0.0, -np.inf
    for began, ended in sorted(spans):
        total += max(ended - max(began, last), 0.0)
        last = max(last, ended)
    return float(total)


def launch(name: str, rows: int, epochs: int) -> dict[str, Any]:
    """Train in fresh processes."""
    processes, threads, accumulation = SETTINGS[name]
    with tempfile.TemporaryDirectory() as folder:
        own = ["benchmarks.processes", "--train", str(rows), str(epochs), str(accumulation), folder]
        start = [sys.executable, "-m"]
        if processes > 1:
            start += ["torch.distributed.run", "--standalone", f"--nproc-per-node={processes}", "-m"]
        surroundings = {**os.environ, "OMP_NUM_THREADS": str(threads), "CALMIX_CACHE": folder}
        before = os.times()
        subprocess.run([*start, *own], check=True, env=surroundings)
        after = os.times()
        spent = after.children_user + after.children_system - before.children_user - before.children_system
        return {**json.loads((Path(folder) / "found.json").read_text()), "cpu_seconds_of_all": spent}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=512)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--train", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.train:
        rows, epochs, accumulation, folder = given.train
        train(int(rows), int(epochs), int(accumulation), Path(folder))
        return
    rounds = [
        {name: launch(name, given.rows, given.epochs) for name in SETTINGS} for _ in range(given.rounds)
    ]
    ratios = {
        f"{name} / {TWO}": [one[name]["seconds"] / one[TWO]["seconds"] for one in rounds]
        for name in SETTINGS
        if name != TWO
    }
    content = {
        "command": " ".join(["python -m benchmarks.processes", *sys.argv[1:]]),
        "conditions": conditions(),
        "rows": given.rows,
        "epochs": given.epochs,
        "ratios_of_step_seconds": {
            name: {"median": float(np.median(found)), "rounds": found} for name, found in ratios.items()
        },
        "share_of_communication": [one[TWO]["communication"] for one in rounds],
        "rounds": rounds,
    }
    RESULTS.write_text(json.dumps(content, indent=2) + "\n")
    for name, found in ratios.items():
        print(f"step seconds, {name}: {np.median(found):.2f} (rounds {', '.join(f'{x:.2f}' for x in found)})")
    shares = ", ".join(f"{100 * share:.0f} %" for share in content["share_of_communication"])
    print(f"all-reduce under way in {shares} of the step time of two processes")


if __name__ == "__main__":
    main()
