"""A run directory made of real arrays, and a reader of the pages it gives."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from calmix.calibration.evaluation import evaluate
from calmix.calibration.files.prediction_files import write_predictions
from calmix.calibration.predictions import Predictions
from calmix.dynamics.dynamics_file import write_dynamics
from calmix.dynamics.training_dynamics import TrainingDynamics
from calmix.io.run_directory import RunDirectory, write_json, write_yaml
from recorded_results import comparison_record, detection_record, ood_comparison_record

LABELS = ("<b>joy</b>", "R&D | sales", "it's")
TEMPERATURE = 1.75
SIZES = {"validation": 300, "test": 400, "news": 350}


def draw_predictions(rows: int, seed: int, *, split: str = "test", classes: int = 3) -> Predictions:
    """Logits whose labels are drawn at softmax(z / TEMPERATURE): overconfident, and exactly so."""
    generator = np.random.default_rng(seed)
    logits = generator.normal(scale=3.0, size=(rows, classes))
    noise = generator.gumbel(size=logits.shape)
    labels = (logits / TEMPERATURE + noise).argmax(axis=1)
    names = LABELS[:classes]
    return Predictions.from_logits(
        logits, labels, ids=[f"{split}-{row}" for row in range(1, rows + 1)], class_names=names
    )


def draw_dynamics(rows: int, seed: int, *, epochs: int = 3) -> TrainingDynamics:
    generator = np.random.default_rng(seed)
    logits = generator.normal(scale=2.0, size=(rows, epochs, 3))
    ids = ["<i>train</i>-1", *(f"train-{row}" for row in range(2, rows + 1))]
    return TrainingDynamics.from_logits(
        logits, generator.integers(0, 3, rows), row_ids=ids, class_names=LABELS
    )


def build_run(path: Path) -> RunDirectory:
    run = RunDirectory(path)
    splits = {}
    for seed, (split, rows) in enumerate(SIZES.items()):
        predictions = draw_predictions(rows, seed, split=split)
        write_predictions(run.predictions_file(split), predictions)
        splits[split] = {
            "uncalibrated": evaluate(predictions),
            "calibrated": evaluate(predictions.with_temperature(TEMPERATURE)),
        }
    splits["validation"]["calibrated"]["in_sample"] = True
    write_dynamics(run.dynamics_file, draw_dynamics(120, seed=9))
    write_json(
        run.calibration_file,
        {"method": "temperature", "temperature": TEMPERATURE, "at_bound": None, "fitted_on": "validation"},
    )
    write_yaml(
        run.config_file,
        {"train": "/home/someone/train.csv", "model": "owner/tiny-bert", "method": "plain", "epochs": 3},
    )
    history = [
        {
            "epoch": epoch,
            "train_loss": 1 / epoch,
            "validation_nll": 0.6 + 0.01 * epoch,
            "validation_ece": epoch / 100,
            "validation_nll_calibrated": abs(epoch - 2) / 10 + 0.5,
            "temperature": 1 + epoch / 10,
            "accuracy": 0.7,
            "chosen": epoch == 2,
        }
        for epoch in (1, 2, 3)
    ]
    checks = [{"severity": "warning", "split": "test", "message": "<u>3 rows</u> also train", "count": 3}]
    write_json(
        run.metrics_file,
        {
            "method": "plain",
            "model": "owner/tiny-bert",
            "seed": 4,
            "temperature": TEMPERATURE,
            "seconds": 75.0,
            "device": "cpu",
            "ece_bins": 15,
            "ece_edges": "right",
            "splits": splits,
            "history": history,
            "data_checks": checks,
            "label_names": list(LABELS),
            "sizes": {"train": 120, **SIZES},
            "task": "single",
        },
    )
    return run


@dataclass
class ReadPage(HTMLParser):
    """What a browser would find: addresses it would load, tables by caption, charts, all visible text."""

    addresses: list[str] = field(default_factory=list)
    tables: dict[str, list[list[str]]] = field(default_factory=dict)
    charts: list[dict] = field(default_factory=list)
    text: str = ""
    tags: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._inside: list[str] = []
        self._caption = ""
        self._rows: list[list[str]] = []
        self._chart = False

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.tags.append(tag)
        self.addresses += [
            given[name] for name in ("src", "href", "srcset", "action", "data", "poster") if name in given
        ]
        self._chart = tag == "script" and given.get("type") == "application/json"
        if tag == "table":
            self._caption, self._rows = "", []
        elif tag == "tr":
            self._rows.append([])
        elif tag in ("td", "th") and self._rows:
            self._rows[-1].append("")
        if tag not in ("meta", "link", "br", "input"):
            self._inside.append(tag)

    def handle_endtag(self, tag):
        while self._inside and self._inside.pop() != tag:
            pass
        if tag == "table":
            self.tables[self._caption] = self._rows

    def handle_data(self, data):
        here = self._inside[-1] if self._inside else ""
        if here == "script" and self._chart:
            self.charts.append(json.loads(data))
        elif here not in ("script", "style"):
            self.text += data
            if here == "caption":
                self._caption += data
            elif {"td", "th"} & set(self._inside):
                self._rows[-1][-1] += data


@dataclass
class Drawing:
    """A chart as it is drawn: its elements by class, with positions as shares of the drawing area."""

    svg: ElementTree.Element

    def shapes(self, kind: str, tag: str | None = None) -> list[dict[str, str]]:
        """Attributes, title and place of the elements of a class; of a mark, the place of its frame."""
        found = []
        for parent in self.svg.iter():
            for one in parent:
                if kind in one.get("class", "").split() and tag in (None, one.tag):
                    frame = parent.attrib if parent.tag == "svg" and parent is not self.svg else {}
                    found.append({**frame, **one.attrib, "title": one.findtext("title", "")})
        return found

    def text(self) -> list[str]:
        return [one.text or "" for one in self.svg.iter("text")]


def share(percentage: str) -> float:
    return float(percentage.removesuffix("%")) / 100


@pytest.fixture(scope="session")
def drawn() -> Callable[..., Drawing]:
    return lambda chart: Drawing(ElementTree.fromstring(str(chart.svg)))


@pytest.fixture(scope="session")
def read_page() -> Callable[[str], ReadPage]:
    def read(html: str) -> ReadPage:
        page = ReadPage()
        page.feed(html)
        page.close()
        return page

    return read


@pytest.fixture(scope="session")
def predictions_of() -> Callable[..., Predictions]:
    return draw_predictions


@pytest.fixture(scope="session")
def dynamics_of() -> Callable[..., TrainingDynamics]:
    return draw_dynamics


@pytest.fixture(scope="session")
def finished(tmp_path_factory) -> RunDirectory:
    """A finished run; shared, so not to be changed."""
    return build_run(tmp_path_factory.mktemp("runs") / "reviews_1")


@pytest.fixture
def own_run(tmp_path) -> RunDirectory:
    """A run of the test's own."""
    return build_run(tmp_path / "own")


@pytest.fixture
def compared() -> dict[str, Any]:
    return comparison_record()


@pytest.fixture
def detected() -> dict[str, Any]:
    return detection_record()


@pytest.fixture
def detected_by_method() -> dict[str, Any]:
    return ood_comparison_record()


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    webdriver = pytest.importorskip("selenium.webdriver")
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    chromium = next(filter(None, map(shutil.which, names)), None)
    driver = shutil.which("chromedriver")
    if not (chromium and driver):
        pytest.skip("chromium and chromedriver are not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    flags = "--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --window-size=1300,900"
    for flag in flags.split():
        options.add_argument(flag)
    folder = tmp_path_factory.mktemp("downloads")
    several = "profile.default_content_setting_values.automatic_downloads"
    options.add_experimental_option("prefs", {"download.default_directory": str(folder), several: 1})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    chrome = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    chrome.downloads = folder
    yield chrome
    chrome.quit()
