"""Small real things to test with: sentences, a tokenizer, networks of every family."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

WORDS = """
a the film plot actor story scene joy warm bright clever dull flat boring awful weak is was very quite and
not it this that moving funny slow long short great poor
""".split()  # noqa: SIM905
POSITIVE = ("joy", "warm", "bright", "clever", "moving", "funny", "great")
NEGATIVE = ("dull", "flat", "boring", "awful", "weak", "slow", "poor")

FAMILIES = ("bert", "roberta", "distilbert", "electra", "albert", "deberta-v2", "modernbert", "mpnet")


def sentences(rows: int, seed: int = 0, noise: float = 0.1) -> tuple[list[str], list[str]]:
    """Sentences of different length whose words tell their label, some of them wrongly labelled."""
    generator = np.random.default_rng(seed)
    texts, labels = [], []
    for _ in range(rows):
        label = int(generator.integers(2))
        telling = POSITIVE if label else NEGATIVE
        words = list(generator.choice(WORDS, size=int(generator.integers(3, 12))))
        words.insert(int(generator.integers(len(words))), str(generator.choice(telling)))
        texts.append(" ".join(words))
        flipped = generator.random() < noise
        labels.append("positive" if (label == 1) != flipped else "negative")
    return texts, labels


def build_tokenizer(directory: Path, sep: str = "[SEP]", cls: str = "[CLS]") -> None:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    special = ["[PAD]", "[UNK]", cls, sep, "[MASK]"]
    vocabulary = {word: index for index, word in enumerate([*special, "[unused0]", *dict.fromkeys(WORDS)])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{cls} $A {sep}",
        pair=f"{cls} $A {sep} $B:1 {sep}:1",
        special_tokens=[(cls, vocabulary[cls]), (sep, vocabulary[sep])],
    )
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token=cls,
        sep_token=sep,
        mask_token="[MASK]",
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    ).save_pretrained(directory)


def build_config(family: str, *, dropout: float = 0.1, layers: int = 2):
    import transformers

    shape = {
        "vocab_size": 64,
        "hidden_size": 32,
        "num_hidden_layers": layers,
        "num_attention_heads": 2,
        "intermediate_size": 48,
        "max_position_embeddings": 64,
        "pad_token_id": 0,
    }
    dropouts = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    if family == "bert":
        return transformers.BertConfig(**shape, **dropouts)
    if family == "roberta":
        return transformers.RobertaConfig(**shape, **dropouts, type_vocab_size=2)
    if family == "distilbert":
        return transformers.DistilBertConfig(
            vocab_size=64, dim=32, n_layers=layers, n_heads=2, hidden_dim=48, max_position_embeddings=64,
            pad_token_id=0, dropout=dropout, attention_dropout=dropout, seq_classif_dropout=dropout,
        )  # fmt: skip
    if family == "electra":
        return transformers.ElectraConfig(**shape, **dropouts, embedding_size=16)
    if family == "albert":
        return transformers.AlbertConfig(
            **shape, **dropouts, embedding_size=16, classifier_dropout_prob=dropout
        )
    if family == "deberta-v2":
        return transformers.DebertaV2Config(
            **shape, **dropouts, type_vocab_size=2, relative_attention=True, position_buckets=8,
            pos_att_type=["p2c", "c2p"], pooler_hidden_size=32, pooler_dropout=dropout,
        )  # fmt: skip
    if family == "modernbert":
        return transformers.ModernBertConfig(
            **shape, global_attn_every_n_layers=2, local_attention=16, classifier_dropout=dropout,
            mlp_dropout=dropout, attention_dropout=dropout, embedding_dropout=dropout,
            cls_token_id=2, sep_token_id=3, bos_token_id=2, eos_token_id=3,
        )  # fmt: skip
    if family == "mpnet":
        return transformers.MPNetConfig(**shape, **dropouts)
    if family == "gpt2":  # not among FAMILIES: its last layer sees every position
        return transformers.GPT2Config(
            vocab_size=64, n_embd=32, n_layer=layers, n_head=2, n_positions=64, pad_token_id=0,
            bos_token_id=2, eos_token_id=3, resid_pdrop=dropout, embd_pdrop=dropout, attn_pdrop=dropout,
        )  # fmt: skip
    if family in ("qwen2", "llama"):
        make = transformers.Qwen2Config if family == "qwen2" else transformers.LlamaConfig
        return make(**shape, num_key_value_heads=2)
    raise ValueError(family)


def build_encoder(directory: Path, family: str, *, dropout: float = 0.1, layers: int = 2) -> Path:
    """A pre-trained-looking checkpoint (encoder without a head) and its tokenizer."""
    import torch
    import transformers

    transformers.utils.logging.disable_progress_bar()
    build_tokenizer(directory)
    torch.manual_seed(7)
    config = build_config(family, dropout=dropout, layers=layers)
    transformers.AutoModel.from_config(config).save_pretrained(directory)
    return directory


def read_json(path: Path):
    return json.loads(path.read_text())
