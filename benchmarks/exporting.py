"""The exported model beside the checkpoint: size, speed and calibration, in float32 and with 8-bit weights.

    python -m benchmarks.exporting           the embedded encoder on the film reviews of `calmix demo`

One run is trained and exported twice. Speed is a ratio of forward passes over the same batches, in turns, so
that a busy machine slows all alike; the interval is a bootstrap over rounds. The differences of the metrics
are paired, on the run's test rows.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results" / "exporting.json"
ROUNDS, ROWS, BATCH = 40, 64, 32


def main() -> None:
    import calmix
    from calmix.experiments.demo import write_demo_data

    with tempfile.TemporaryDirectory() as place:
        files = write_demo_data(Path(place))
        run = calmix.train(
            files["train"],
            validation=files["validation"],
            test={"test": files["test"]},
            freeze_layers=4,
            epochs=3,
            output=Path(place) / "run",
        )
        exports = {
            "float32": calmix.export(run, Path(place) / "float32"),
            "int8": calmix.export(run, Path(place) / "int8", int8=True),
        }
        found: dict[str, Any] = {"command": "python -m benchmarks.exporting"}
        for name, export in exports.items():
            facts = {key: export.content[key] for key in ("bytes", "bytes_before", "temperature")}
            found[name] = facts | export.content["splits"]["test"]
        found["speed"] = speeds(run, exports)
        found["conditions"] = {"threads": os.environ.get("OMP_NUM_THREADS"), "load": os.getloadavg()[0]}
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


def speeds(run: Any, exports: dict[str, Any]) -> dict[str, Any]:
    """Seconds of the checkpoint over those of each export, for the same batches."""
    import torch

    from calmix.inference.onnx.running import load_exported
    from calmix.inference.prediction import load_saved
    from calmix.inference.run_rows import rows_of_run

    model, inputs = load_saved(run.model_path)
    model.eval()
    networks: dict[str, Any] = {"checkpoint": model}
    networks |= {name: load_exported(export.path)[0] for name, export in exports.items()}
    rows = rows_of_run(run.directory, remedy="")["test"]
    texts = rows.texts()[:ROWS]
    batches = [
        dict(inputs.tokenizer(texts[at : at + BATCH], padding=True, truncation=True, return_tensors="pt"))
        for at in range(0, ROWS, BATCH)
    ]
    times: dict[str, list[float]] = {name: [] for name in networks}
    with torch.inference_mode():
        for number in range(ROUNDS + 2):
            for name, network in networks.items():
                began = time.perf_counter()
                for batch in batches:
                    network(**batch)
                if number >= 2:  # the first rounds warm up
                    times[name].append(time.perf_counter() - began)
    generator = np.random.default_rng(0)
    picks = generator.integers(0, ROUNDS, (2000, ROUNDS))
    made = {}
    for name in exports:
        first, second = np.array(times["checkpoint"]), np.array(times[name])
        ratios = np.median(first[picks], axis=1) / np.median(second[picks], axis=1)
        low, high = np.quantile(ratios, [0.025, 0.975])
        made[f"checkpoint over {name}"] = {
            "ratio": float(np.median(first) / np.median(second)),
            "ci": [float(low), float(high)],
        }
    return made


if __name__ == "__main__":
    main()
