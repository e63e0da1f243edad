"""The smallest scale: a tiny encoder and rows made in memory, seconds per preset.

It shows that every arm of a table runs and that the table has its form. Its numbers mean nothing.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from calmix.io.writing import write_table
from calmix.models.built_in import IMAGE_NETWORKS, TEXT_CNN
from calmix.reproduction.datasets import TaskFiles, find_dataset
from calmix.reproduction.preset import SMOKE, Model, Preset, Scale, Task
from calmix.runtime.randomness import stream

CLASSES = ("first", "second", "third")
ROWS = {"train": 96, "validation": 32, "test": 32}
# The words that tell a class, and those that tell nothing.
TELLING = (("joy", "warm", "bright"), ("dull", "flat", "weak"), ("red", "blue", "green"))
FILLING = ("a", "the", "it", "was", "very", "film", "story", "scene", "and", "not")
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused0]")
PIXELS = 8
TRAINING: dict[str, Any] = {"epochs": 2, "batch_size": 16, "learning_rate": 5e-3, "max_length": 32}
IMAGE_TRAINING: dict[str, Any] = {
    "epochs": 2, "batch_size": 32, "learning_rate": 0.05, "model_options": {"dropout": 0.3}
}  # fmt: skip
CNN_TRAINING: dict[str, Any] = {
    "epochs": 2, "batch_size": 32, "learning_rate": 1.0, "max_length": 32,
    "model_options": {"vectors": "random", "maps": 4},
}  # fmt: skip


def smoke_scale(preset: Preset, network: Path) -> Scale:
    """One seed of every arm, model and task; in place of the paper's settings those of a tiny network."""
    models = {key: _tiny_model(model, network) for key, model in preset.models.items()}
    return Scale(SMOKE, (0,), models=models, tasks=preset.tasks, note="tiny network, rows made in memory")


def _tiny_model(model: Model, network: Path) -> Model:
    if model.model == TEXT_CNN:
        return Model(model.key, TEXT_CNN, CNN_TRAINING, tasks=model.tasks)
    if model.model in IMAGE_NETWORKS:
        return Model(model.key, "resnet-small", IMAGE_TRAINING, tasks=model.tasks)
    return Model(model.key, str(network), TRAINING, tasks=model.tasks)


def smoke_files(task: Task, folder: Path) -> TaskFiles:
    """Pairs of texts, or images; the same for all data sets, so that tables share their runs."""
    kind = "image" if find_dataset(task.dataset).kind == "image" else "pair"
    files = {split: _made(folder, kind, split) for split in (*ROWS, "outside")}
    outside = [*task.outside, "outside"]
    tests = {task.key: str(files["test"]), **dict.fromkeys(outside, str(files["outside"]))}
    return TaskFiles(str(files["train"]), str(files["validation"]), tests)


def _made(folder: Path, kind: str, split: str) -> Path:
    target = folder / f"{kind}-{split}.parquet"
    if not target.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        write_table(target, pa.table(smoke_rows(kind, split)))
    return target


def smoke_rows(kind: str, split: str) -> dict[str, list[Any]]:
    """Rows whose content tells their label, a tenth of them with another label.

    >>> rows = smoke_rows("pair", "test")
    >>> sorted(rows), len(rows["label"]), sorted(set(rows["label"]))
    (['label', 'text', 'text_pair'], 32, ['first', 'second', 'third'])
    """
    draws = stream(0, f"smoke rows: {kind} {split}")
    count = ROWS.get(split, ROWS["test"])
    truth = np.arange(count) % len(CLASSES)
    labels = np.where(draws.random(count) < 0.1, draws.integers(0, len(CLASSES), count), truth)

    def sentence(label: int) -> str:
        words = draws.choice(FILLING, int(draws.integers(3, 9))).tolist()
        return " ".join([*words, str(draws.choice(TELLING[label]))])

    names = [CLASSES[label] for label in labels]
    if kind == "image":
        pixels = draws.integers(0, 120, (count, PIXELS, PIXELS), dtype=np.uint8)
        for place, label in enumerate(truth.tolist()):
            pixels[place, :, 2 * label : 2 * label + 2] += np.uint8(120)
        return {"image": [_portable_graymap(image) for image in pixels], "label": names}
    texts, pairs = ([sentence(label) for label in truth.tolist()] for _ in range(2))
    return {"text": texts, "text_pair": pairs, "label": names}


def _portable_graymap(image: np.ndarray[Any, Any]) -> bytes:
    """A picture that any reader knows, in 20 bytes more than its pixels."""
    height, width = image.shape
    return f"P5 {width} {height} 255\n".encode() + image.tobytes()


def make_network(directory: Path) -> Path:
    """A BERT of one layer with random weights, the same at every call, and its tokenizer of whole words."""
    if directory.is_dir():
        return directory
    import torch
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    from calmix.runtime.progress import silence_transformers

    silence_transformers()
    words = [*SPECIAL, *FILLING, *(word for told in TELLING for word in told)]
    vocabulary = {word: index for index, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(name, vocabulary[name]) for name in ("[CLS]", "[SEP]")],
    )
    # Renamed at the end: another process may look for it, and what was cut off is made again.
    directory.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=".network-", dir=directory.parent))
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    ).save_pretrained(fresh)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = BertModel(
            BertConfig(
                vocab_size=len(vocabulary),
                hidden_size=16,
                num_hidden_layers=1,
                num_attention_heads=2,
                intermediate_size=16,
                max_position_embeddings=64,
                pad_token_id=0,
            )
        )
    network.save_pretrained(fresh)
    try:
        fresh.rename(directory)
    except OSError:  # another process was faster; its network is the same
        shutil.rmtree(fresh)
    return directory
