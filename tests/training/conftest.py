"""A trainer on a tiny network, made in one call."""

from __future__ import annotations

import pytest

from calmix.data.batches.encoding import PaddingCollator, encode_rows
from calmix.data.rows import Rows
from calmix.models.loading import load_classifier, load_tokenizer
from tiny import sentences


@pytest.fixture
def make_trainer(encoders, tmp_path):
    from calmix.runtime.progress import quiet
    from calmix.training.arguments import MixupArguments
    from calmix.training.trainer import MixupTrainer

    def make(
        rows=40,
        family="bert",
        dropout=0.1,
        trainer=MixupTrainer,
        method=None,
        data_map=None,
        output="out",
        wrap=lambda model: model,
        **settings,
    ):
        texts, names = sentences(rows, seed=3)
        labels = [int(name == "positive") for name in names]
        data = Rows.from_columns(
            [f"row-{i}" for i in range(rows)], texts, labels=labels, label_names=("negative", "positive")
        )
        directory = str(encoders(family, dropout=dropout))
        tokenizer = load_tokenizer(directory)
        model = load_classifier(directory, task="single", label_names=data.label_names, seed=0)
        defaults = {
            "output_dir": str(tmp_path / output), "num_train_epochs": 2, "per_device_train_batch_size": 8,
            "learning_rate": 1e-3, "save_strategy": "no", "disable_tqdm": True, "logging_strategy": "no",
            "use_cpu": True, "dataloader_pin_memory": False,
        }  # fmt: skip
        extra = {"method": method} if method is not None else {}
        if data_map is not None:
            extra["data_map"] = data_map
        made = trainer(
            model=wrap(model),
            args=MixupArguments(**{**defaults, **settings}),
            train_dataset=encode_rows(data, tokenizer, max_length=64),
            processing_class=tokenizer,
            data_collator=PaddingCollator.for_tokenizer(tokenizer, is_choice=False),
            **extra,
        )
        quiet(made)
        return made

    return make
