"""A text CNN for given training rows: their words, a tokenizer that knows them, word vectors to begin with.

A word has a vector of its own if it is in the file of vectors, or occurs twice in training; what is left is
one unknown word. Words that the file lacks begin with uniform numbers of the variance of those it has
(Kim 2014). Words that are in other rows only are unknown: nothing of validation or test is looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from calmix.data.rows import Rows
from calmix.models.built_in import NO_CAP, label_settings
from calmix.models.inputs import TextInputs
from calmix.models.registration import register_networks
from calmix.models.word_vectors import EMBEDDED, embedded_vectors, read_vectors
from calmix.runtime.randomness import stream
from calmix.user_error import UserError, argument

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedModel

PAD, UNKNOWN, SEPARATOR = "[PAD]", "[UNK]", "[SEP]"
# As GloVe's own texts were cut: "do n't", "film 's"; every other sign stands alone.
WORD = r"\w+(?=n't\b)|n't\b|'(?:s|re|ve|ll|d|m)\b|\w+|[^\w\s]"
OFTEN = 2
RANDOM, RANDOM_DIMENSIONS = "random", 300
# Kim's variance, where there are no vectors to take it from.
RANDOM_BOUND = 0.25


def build_text_cnn(
    rows: Rows, label_names: Sequence[str], *, seed: int, max_length: int, options: Mapping[str, Any]
) -> tuple[PreTrainedModel, TextInputs]:
    """The network and its tokenizer."""
    if rows.task == "choice":
        raise UserError(
            "text-cnn has no multiple-choice head",
            remedy=f"use an encoder, such as {argument('model', 'default')}",
        )
    from transformers import AutoModelForSequenceClassification, set_seed

    from calmix.models.networks.text_cnn import TextCnnConfig

    register_networks()
    texts = rows.texts() + (rows.pairs() if rows.task == "pair" else [])
    counts = count_words(texts)
    vectors, dimensions = _vectors(options.get("vectors", EMBEDDED), counts)
    words = sorted(word for word, count in counts.items() if word in vectors or count >= OFTEN)
    vocabulary = {word: index for index, word in enumerate([PAD, UNKNOWN, SEPARATOR, *words])}
    shape: dict[str, Any] = {
        name: options[name] for name in ("dropout", "maps", "row_norm_cap", "widths") if name in options
    }
    if shape.get("row_norm_cap", 1) in NO_CAP:
        shape["row_norm_cap"] = None
    config = TextCnnConfig(
        vocab_size=len(vocabulary),
        embedding_size=dimensions,
        **label_settings(label_names),
        **shape,
    )
    set_seed(seed)
    model: PreTrainedModel = AutoModelForSequenceClassification.from_config(config)
    import torch

    table = embedding_table(vocabulary, vectors, dimensions, seed)
    embeddings: Any = model.get_input_embeddings()
    with torch.no_grad():
        embeddings.weight.copy_(torch.from_numpy(table))
    return model, TextInputs(word_tokenizer(vocabulary, max_length), max_length)


def _vectors(source: str, counts: Mapping[str, int]) -> tuple[dict[str, NDArray[np.float32]], int]:
    if source == RANDOM:
        return {}, RANDOM_DIMENSIONS
    file = embedded_vectors() if source == EMBEDDED else Path(str(source))
    vectors, dimensions = read_vectors(file, counts)
    if not vectors:
        raise UserError("no word of the training rows has a vector in this file", file=file)
    return vectors, dimensions


def embedding_table(
    vocabulary: Mapping[str, int], vectors: Mapping[str, NDArray[np.float32]], dimensions: int, seed: int
) -> NDArray[np.float32]:
    """[words, dimensions]: the vectors given; for other words U(-a, a) with a = sqrt(3) times the standard
    deviation of the given ones, so that both have one variance; zeros for padding."""
    known = np.array(list(vectors.values())) if vectors else None
    bound = RANDOM_BOUND if known is None else float(np.sqrt(3.0) * known.std())
    table = stream(seed, "word vectors").uniform(-bound, bound, (len(vocabulary), dimensions))
    for word, index in vocabulary.items():
        if word in vectors:
            table[index] = vectors[word]
    table[vocabulary[PAD]] = 0.0
    return table.astype(np.float32)


def count_words(texts: Sequence[str]) -> Counter[str]:
    """How often each word occurs.

    >>> sorted(count_words(["Don't go, it's great"]).items())
    [("'s", 1), (',', 1), ('do', 1), ('go', 1), ('great', 1), ('it', 1), ("n't", 1)]
    """
    splitter = _splitter({UNKNOWN: 0})
    counts: Counter[str] = Counter()
    for text in texts:
        normalised = splitter.normalizer.normalize_str(text)
        counts.update(word for word, _ in splitter.pre_tokenizer.pre_tokenize_str(normalised))
    return counts


def word_tokenizer(vocabulary: Mapping[str, int], max_length: int) -> Any:
    """A tokenizer of whole words, that saves and loads as any of transformers."""
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast

    splitter = _splitter(vocabulary)
    splitter.post_processor = TemplateProcessing(
        single="$A", pair=f"$A {SEPARATOR} $B", special_tokens=[(SEPARATOR, vocabulary[SEPARATOR])]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=splitter,
        pad_token=PAD,
        unk_token=UNKNOWN,
        model_max_length=max_length,
        model_input_names=["input_ids", "attention_mask"],
    )


def _splitter(vocabulary: Mapping[str, int]) -> Tokenizer:
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

    made = Tokenizer(models.WordLevel(dict(vocabulary), unk_token=UNKNOWN))
    made.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    made.pre_tokenizer = pre_tokenizers.Split(Regex(WORD), behavior="removed", invert=True)
    return made
