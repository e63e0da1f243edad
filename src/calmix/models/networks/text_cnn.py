"""A convolutional network for sentences: n-gram filters over word vectors, with max pooling.

    e = word vectors, with `max(widths) - 1` zero vectors on both sides
    c_w = max over places of relu(W_w * e + b_w)      for every width w, `maps` of them
    logits = linear(dropout(concatenation of all c_w))

Where texts of a batch differ in length, windows that lie beyond a text and its zeros do not count, so that an
answer does not depend on the other rows of the batch.

Reference: Kim, EMNLP 2014: widths 3, 4, 5 with 100 maps each, dropout 0.5, and the weights of every class
scaled back to norm 3 whenever a step takes them beyond.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers import initialization as init
from transformers.modeling_outputs import SequenceClassifierOutput


class TextCnnConfig(PreTrainedConfig):
    """`row_norm_cap`: the largest norm of a class's output weights; None for no cap."""

    model_type = "text_cnn"

    vocab_size: int = 2
    embedding_size: int = 50
    widths: list[int] | tuple[int, ...] = (3, 4, 5)
    maps: int = 100
    dropout: float = 0.5
    row_norm_cap: float | None = 3.0
    pad_token_id: int | None = 0


class TextCnnForSequenceClassification(PreTrainedModel):
    """Logits from `input_ids` [rows, words], or from word vectors given as `inputs_embeds`."""

    config_class = TextCnnConfig
    base_model_prefix = "text_cnn"
    main_input_name = "input_ids"

    def __init__(self, config: TextCnnConfig) -> None:
        super().__init__(config)
        self.embeddings = nn.Embedding(config.vocab_size, config.embedding_size, config.pad_token_id)
        # By name and not in a list: they stand side by side, not one after the other.
        self.convolutions = nn.ModuleDict(
            {
                f"width_{width}": nn.Conv1d(config.embedding_size, config.maps, width)
                for width in config.widths
            }
        )
        self.dropout = nn.Dropout(config.dropout)
        self.classifier = nn.Linear(config.maps * len(config.widths), int(config.num_labels or 0))
        self.post_init()  # type: ignore[no-untyped-call]

    def get_input_embeddings(self) -> nn.Module:
        return self.embeddings

    def set_input_embeddings(self, value: nn.Module) -> None:
        assert isinstance(value, nn.Embedding)
        self.embeddings = value

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)  # type: ignore[no-untyped-call]
        if isinstance(module, nn.Conv1d | nn.Linear):
            bound = float(module.weight[0].numel()) ** -0.5
            init.uniform_(module.weight, -bound, bound)

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        **kwargs: Any,
    ) -> SequenceClassifierOutput:
        words = self.embeddings(input_ids) if inputs_embeds is None else inputs_embeds
        if attention_mask is None:
            attention_mask = torch.ones(words.shape[:2], dtype=torch.long, device=words.device)
        # Zeros beyond the text, whatever stands there.
        words = words * attention_mask.unsqueeze(-1).to(words.dtype)
        margin = max(self.config.widths) - 1
        padded = nn.functional.pad(words.transpose(1, 2), (margin, margin))
        lengths = attention_mask.sum(dim=1, keepdim=True) + 2 * margin
        strongest = []
        for width, convolution in zip(self.config.widths, self.convolutions.values(), strict=True):
            answers = torch.relu(convolution(padded))
            places = torch.arange(answers.shape[2], device=words.device)
            beyond = places > lengths - width
            # 0 is the least that a ReLU answers: it takes part in no maximum.
            strongest.append(answers.masked_fill(beyond.unsqueeze(1), 0.0).amax(dim=2))
        logits = self.classifier(self.dropout(torch.cat(strongest, dim=1)))
        loss: Any = None
        if labels is not None:
            is_multi_label = self.config.problem_type == "multi_label_classification"
            loss_of = nn.BCEWithLogitsLoss() if is_multi_label else nn.CrossEntropyLoss()
            loss = loss_of(logits, labels)
        return SequenceClassifierOutput(loss=loss, logits=logits)

    @torch.no_grad()
    def cap_output_norms(self) -> None:
        """Scale the weights of every class back to the cap; called after every step of training."""
        cap = self.config.row_norm_cap
        if cap is not None:
            norms = self.classifier.weight.norm(dim=1, keepdim=True)
            self.classifier.weight.mul_((cap / norms.clamp(min=1e-12)).clamp(max=1.0))
