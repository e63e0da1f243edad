"""The methods on the documentation page work as printed, and import public names alone."""

import ast
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from calmix.data.rows import Rows
from tiny import sentences

PAGE = Path(__file__).parents[2] / "docs" / "own_method.md"
BLOCKS = re.findall(r"```python\n# (\w+)\.py\n(.*?)```", PAGE.read_text(), re.DOTALL)


def test_the_page_shows_a_method_with_pairs_and_a_guided_one():
    assert [name for name, _ in BLOCKS] == ["nearest", "extremes"]
    for _, code in BLOCKS:
        assert len([line for line in code.splitlines() if line.strip()]) <= 32
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.ImportFrom) and node.module.startswith("calmix"):
                assert node.module == "calmix", "a method author needs public names alone"


@pytest.mark.parametrize(
    ("name", "made"),
    [("nearest", ("NearestMixup", {"alpha": 1.0, "weight": 0.3})), ("extremes", ("ExtremesMixup", {}))],
)
def test_the_documented_methods_train(encoders, tmp_path, name, made):
    from calmix.data.batches.encoding import PaddingCollator, encode_rows
    from calmix.dynamics.datamap import DataMap
    from calmix.models.loading import load_classifier, load_tokenizer
    from calmix.runtime.progress import quiet
    from calmix.training.arguments import MixupArguments
    from calmix.training.trainer import MixupTrainer

    namespace = {"__name__": name}
    exec(compile(dict(BLOCKS)[name], str(PAGE), "exec"), namespace)
    directory = str(encoders("bert", dropout=0.0))
    texts, names = sentences(24)
    rows = Rows.from_columns(
        [str(i) for i in range(24)],
        texts,
        labels=[int(name == "positive") for name in names],
        label_names=("n", "p"),
    )
    tokenizer = load_tokenizer(directory)

    def trainer_with(method, **more):
        trainer = MixupTrainer(
            model=load_classifier(directory, task="single", label_names=("n", "p"), seed=0),
            args=MixupArguments(
                output_dir=str(tmp_path),
                num_train_epochs=2,
                save_strategy="no",
                disable_tqdm=True,
                use_cpu=True,
            ),
            train_dataset=encode_rows(rows, tokenizer, max_length=32),
            data_collator=PaddingCollator.for_tokenizer(tokenizer, is_choice=False),
            processing_class=tokenizer,
            method=method,
            **more,
        )
        quiet(trainer)
        return trainer

    more = {}
    if name == "extremes":
        plain = trainer_with(None)
        plain.train()
        more["data_map"] = DataMap.from_dynamics(plain.recorder.dynamics())
    class_name, options = made
    trainer = trainer_with(namespace[class_name](**options), **more)
    before = {name: value.clone() for name, value in trainer.model.named_parameters()}
    trainer.train()
    assert any(not torch.equal(value, before[name]) for name, value in trainer.model.named_parameters())
    assert np.isfinite(trainer.recorder.dynamics().margin).all()
    if name == "extremes":
        assert trainer.groups.sizes == {"most confident": 6, "least confident": 6, "others": 12}
