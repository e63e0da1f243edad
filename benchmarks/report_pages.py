"""Size of the report's pages, time to the first picture, and how fast the controls answer.

    python -m benchmarks.report_pages                  runs of 20,000 and of 1,000,000 drawn predictions
    python -m benchmarks.report_pages PAGE...          pages that are there: their sizes and first pictures

Times are taken in the page, by `performance.now()`, in headless Chromium (selenium and chromedriver). "First
picture" is from the start of the navigation to the second frame after the controls work, the median of five
openings; a control takes the time of computing and drawing all that follows it, the median of 15 settings.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from calmix.calibration.evaluation import evaluate
from calmix.calibration.files.prediction_files import write_predictions
from calmix.calibration.predictions import Predictions
from calmix.io.run_directory import RunDirectory, write_json, write_yaml
from calmix.report.run.run_report import write_run_report

CLASSES = 6
OPENINGS = 5
WORDS = "a line of text that is about as long as the sentence of a review of some film"
CONTROLS = {
    "bins": "[5, 7, 9, 11, 13, 15, 17, 19, 21, 25, 30, 35, 40, 45, 50].map((bins) => ({ bins }))",
    "temperature": "Array.from({ length: 15 }, (_, k) => ({ temperature: 0.6 + 0.1 * k, threshold: null }))",
    "threshold": "Array.from({ length: 15 }, (_, k) => ({ threshold: 0.3 + 0.04 * k }))",
}


def drawn_run(path: Path, rows: int) -> RunDirectory:
    """A run of this many predictions, a tenth of them (at most 20,000) of validation rows."""
    run = RunDirectory(path)
    splits = {}
    held = min(rows // 10, 20_000)
    for split, size in {"validation": held, "test": rows - held}.items():
        generator = np.random.default_rng(len(split))
        logits = generator.normal(scale=3.0, size=(size, CLASSES)).astype(np.float32)
        labels = (logits / 1.5 + generator.gumbel(size=logits.shape)).argmax(axis=1)
        ids = [f"{split}-{row}" for row in range(1, size + 1)]
        predictions = Predictions.from_logits(logits, labels, ids=ids)
        write_predictions(run.predictions_file(split), predictions)
        splits[split] = {
            "uncalibrated": evaluate(predictions),
            "calibrated": evaluate(predictions.with_temperature(1.5)),
        }
    write_yaml(run.config_file, {"train": "train.csv", "model": "default", "method": "plain"})
    write_json(run.calibration_file, {"method": "temperature", "temperature": 1.5, "fitted_on": "validation"})
    facts = {"method": "plain", "model": "default", "seed": 0, "seconds": 1.0, "device": "cpu"}
    binning = {"ece_bins": 15, "ece_edges": "right", "temperature": 1.5}
    names = [str(one) for one in range(CLASSES)]
    sizes = {"train": 1000} | {split: found["calibrated"]["n"] for split, found in splits.items()}
    write_json(
        run.metrics_file,
        {**facts, **binning, "splits": splits, "task": "single", "label_names": names, "sizes": sizes},
    )
    return run


@contextmanager
def chromium() -> Iterator[Any]:
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or shutil.which("google-chrome") or ""
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(flag)
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    yield browser
    browser.quit()


def measure(browser: Any, page: Path) -> dict[str, float]:
    """Milliseconds to the first picture, and of each control that the page has."""
    ready = []
    for _ in range(OPENINGS):
        browser.get(page.resolve().as_uri())
        while not (time := browser.execute_script("return document.documentElement.dataset.ready")):
            pass
        ready.append(float(time))
    found = {"first picture": median(ready)}
    if browser.execute_script("return Boolean(window.explorer)"):
        for name, settings in CONTROLS.items():
            found[name] = browser.execute_script(
                f"""const times = {settings}.map((changes) => {{
                  const start = performance.now();
                  window.explorer.set(changes);
                  document.body.getBoundingClientRect();
                  return performance.now() - start;
                }});
                return times.sort((a, b) => a - b)[7];"""
            )
    return found


def report(browser: Any, name: str, page: Path) -> None:
    times = ", ".join(f"{what} {time:.0f} ms" for what, time in measure(browser, page).items())
    print(f"{name}: {page.stat().st_size / 1e6:.2f} MB, {times}", flush=True)


def main(pages: list[str]) -> None:
    with chromium() as browser, tempfile.TemporaryDirectory() as place:
        for page in pages:
            report(browser, page, Path(page))
        for rows in () if pages else (20_000, 1_000_000):
            run = drawn_run(Path(place) / str(rows), rows)
            texts = {split: [WORDS] * run.metrics()["sizes"][split] for split in ("validation", "test")}
            report(browser, f"run of {rows:,} predictions", write_run_report(run, rows=texts))


if __name__ == "__main__":
    main(sys.argv[1:])
