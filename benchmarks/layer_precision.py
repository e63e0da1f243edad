"""What bfloat16 layers and the shortened last layer do: speed by width, and validation NLL beside seed noise.

    python -m benchmarks.layer_precision            both; half an hour on one core
    python -m benchmarks.layer_precision --speed    seconds of a step by width of the encoder: minutes

Speed: forward and backward of two layers on random states, 16 texts of 28 tokens, float32 and bfloat16 in
turn. NLL: the embedded encoder on film reviews with each of the three settings, all else equal, for several
seeds; the difference of a pair beside the spread that seeds alone make.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.training import Case

RESULTS = Path(__file__).parent / "results" / "layer_precision.json"
WIDTHS = (64, 128, 256, 384, 768)
ROUNDS = 15
SETTINGS = {
    "float32, whole last layer": ("float32", False),
    "float32": ("float32", True),
    "bfloat16": ("bfloat16", True),
}


def speed_by_width() -> dict[str, Any]:
    """Time in float32 over time in bfloat16 of two layers: the median over rounds, with its quartiles."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    from calmix.models.layer_precision import BfloatLayers

    found = {}
    for width in WIDTHS:
        heads = max(width // 32, 1)
        config = BertConfig(
            hidden_size=width, num_hidden_layers=2, num_attention_heads=heads, intermediate_size=4 * width,
            vocab_size=100,
        )  # fmt: skip
        model = BertForSequenceClassification(config).train()
        batch = {"input_ids": torch.randint(5, 100, (16, 28)), "labels": torch.randint(0, 2, (16,))}

        def seconds(model: Any = model, batch: Any = batch) -> float:
            started = time.perf_counter()
            model(**batch).loss.backward()
            return time.perf_counter() - started

        ratios = []
        for _ in range(ROUNDS):
            single = seconds()
            layers = BfloatLayers(model)
            half = seconds()
            layers.remove()
            ratios.append(single / half)
        low, middle, high = np.percentile(ratios[2:], [25, 50, 75])
        found[str(width)] = {"ratio": middle, "quartiles": [low, high]}
        print(f"width {width}: bfloat16 {middle:.2f} [{low:.2f}, {high:.2f}] times as fast", flush=True)
    return found


class Seeded(Case):
    """The benchmark's case with a seed and the two measures to be switched."""

    def trained_nll(self, seed: int, precision: str, is_pooled: bool) -> float:
        import torch

        torch.manual_seed(seed)
        model = self.network("model")
        torch.nn.init.normal_(model.classifier.weight, std=0.02)
        trainer = self.calmix_trainer("plain", model)
        trainer.args.seed, trainer.args.precision = seed, precision
        if not is_pooled:
            trainer._probe = lambda: None
        trainer.train()
        return self.validation_nll("model")


def nll_by_setting(seeds: int, rows: int, epochs: int, folder: str) -> dict[str, Any]:
    case = Seeded("single", rows, epochs, folder)
    found: dict[str, list[float]] = {name: [] for name in SETTINGS}
    for seed in range(seeds):
        for name, setting in SETTINGS.items():
            found[name].append(case.trained_nll(seed, *setting))
            print(f"seed {seed}, {name}: validation NLL {found[name][-1]:.4f}", flush=True)
    reference = np.array(found["float32, whole last layer"])
    differences = {}
    for name in list(SETTINGS)[1:]:
        pairs = np.array(found[name]) - reference
        error = float(pairs.std(ddof=1) / np.sqrt(len(pairs)))
        differences[name] = {"mean": float(pairs.mean()), "standard_error": error}
    return {
        "rows": rows,
        "epochs": epochs,
        "validation_rows": len(case.held_out),
        "nll": found,
        "standard_deviation_over_seeds": float(reference.std(ddof=1)),
        "difference_to_float32_whole_last_layer": differences,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--speed", action="store_true", help="only the seconds of a step by width")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=400)
    parser.add_argument("--epochs", type=int, default=3)
    given = parser.parse_args()
    import torch

    from calmix.runtime.hardware import prepare_processor
    from calmix.runtime.progress import silence_transformers

    silence_transformers()
    prepare_processor()
    content = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
    content |= {
        "processor": torch.cpu.get_capabilities().get("cpu_name"),
        "threads": torch.get_num_threads(),
        "load_average": os.getloadavg(),
        "speed_by_width": speed_by_width(),
    }
    RESULTS.write_text(json.dumps(content, indent=2) + "\n")
    if not given.speed:
        with tempfile.TemporaryDirectory() as folder:
            content["validation_nll"] = nll_by_setting(given.seeds, given.rows, given.epochs, folder)
        RESULTS.write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
