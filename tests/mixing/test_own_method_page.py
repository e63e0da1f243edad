"""The method on the documentation page works as printed."""

import re
from pathlib import Path

import numpy as np
import torch

from calmix.data.rows import Rows
from tiny import sentences

PAGE = Path(__file__).parents[2] / "docs" / "own_method.md"


def test_the_documented_method_trains(encoders, tmp_path):
    from calmix.data.encoding import PaddingCollator, encode_rows
    from calmix.models.loading import load_classifier, load_tokenizer
    from calmix.runtime.progress import quiet
    from calmix.training.arguments import MixupArguments
    from calmix.training.trainer import MixupTrainer

    code = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[1]
    assert len([line for line in code.splitlines() if line.strip()]) <= 32
    namespace = {"__name__": "nearest"}
    exec(compile(code, str(PAGE), "exec"), namespace)
    directory = str(encoders("bert", dropout=0.0))
    texts, names = sentences(24)
    rows = Rows.from_columns(
        [str(i) for i in range(24)],
        texts,
        labels=[int(name == "positive") for name in names],
        label_names=("n", "p"),
    )
    tokenizer = load_tokenizer(directory)
    trainer = MixupTrainer(
        model=load_classifier(directory, task="single", label_names=("n", "p"), seed=0),
        args=MixupArguments(
            output_dir=str(tmp_path), num_train_epochs=1, save_strategy="no", disable_tqdm=True, use_cpu=True
        ),
        train_dataset=encode_rows(rows, tokenizer, max_length=32),
        data_collator=PaddingCollator.for_tokenizer(tokenizer, is_choice=False),
        processing_class=tokenizer,
        method=namespace["NearestMixup"](alpha=1.0, weight=0.3),
    )
    quiet(trainer)
    before = {name: value.clone() for name, value in trainer.model.named_parameters()}
    trainer.train()
    assert any(not torch.equal(value, before[name]) for name, value in trainer.model.named_parameters())
    assert np.isfinite(trainer.recorder.dynamics().margin).all()
