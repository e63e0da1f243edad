"""Where networks are cut: text and image networks, under adapters and gradient checkpointing."""

import pytest
import torch
import transformers

from calmix.models.hf_compat import last_linear
from calmix.models.mix_points import MixPoints, find_head
from calmix.user_error import UserError
from tiny import FAMILIES, build_config

ROWS = 4


def text_batch(choices=None):
    shape = (ROWS, 7) if choices is None else (ROWS, choices, 7)
    ids = torch.randint(6, 40, shape, generator=torch.Generator().manual_seed(0))
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def text_network(family, choice=False, dropout=0.1):
    torch.manual_seed(0)
    config = build_config(family, dropout=dropout)
    config.num_labels = 3
    auto = transformers.AutoModelForSequenceClassification
    if choice:
        auto = transformers.AutoModelForMultipleChoice
    return auto.from_config(config)


def image_network(family):
    torch.manual_seed(0)
    configs = {
        "vit": lambda: transformers.ViTConfig(
            hidden_size=32,
            num_hidden_layers=3,
            num_attention_heads=2,
            intermediate_size=48,
            image_size=32,
            patch_size=8,
            num_labels=3,
        ),
        "convnext": lambda: transformers.ConvNextConfig(
            hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 2, 1], image_size=32, num_labels=3
        ),
        "resnet": lambda: transformers.ResNetConfig(
            embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", num_labels=3
        ),
    }
    return transformers.AutoModelForImageClassification.from_config(configs[family]()).eval()


def logits(model, batch, depth=None, transform=None):
    mix_points = MixPoints(model)
    cut = mix_points.hook(depth, transform, batch) if depth is not None else None
    with torch.no_grad():
        given = model(**batch).logits
    if cut is not None:
        cut.remove()
    return given


@pytest.mark.parametrize("family", FAMILIES)
def test_every_depth_sees_all_rows_once_and_a_removed_cut_leaves_no_trace(family):
    model, batch = text_network(family).eval(), text_batch()
    mix_points, untouched = MixPoints(model), logits(model, batch)
    assert (mix_points.depth, mix_points.head) == (2, 3)
    partner = torch.tensor([1, 0, 3, 2])
    for depth in range(mix_points.head + 1):
        shapes = []

        def swap(hidden, shapes=shapes):
            shapes.append(hidden.shape)
            return hidden[partner] if len(hidden) == ROWS else hidden

        # A full swap at any depth swaps the answers: equal lengths, so nothing else tells rows apart.
        assert torch.allclose(logits(model, batch, depth, swap), untouched[partner], atol=1e-5)
        assert all(len(shape) in (2, 3) for shape in shapes)
        assert len(shapes) == 1 or depth == 0
        assert torch.equal(logits(model, batch), untouched)


@pytest.mark.parametrize("family", ["vit", "convnext", "resnet"])
def test_images_are_cut_at_pixels_stages_and_head(family):
    model = image_network(family)
    batch = {"pixel_values": torch.randn(ROWS, 3, 32, 32)}
    partner, untouched = torch.tensor([1, 0, 3, 2]), logits(model, batch)
    for depth in range(MixPoints(model).head + 1):
        swapped = logits(model, batch, depth, lambda hidden: hidden[partner])
        assert torch.allclose(swapped, untouched[partner], atol=1e-5)


@pytest.mark.parametrize("family", ["bert", "roberta", "deberta-v2", "modernbert", "electra"])
def test_multiple_choice_heads_are_cut_before_their_only_output(family):
    model, batch = text_network(family, choice=True).eval(), text_batch(choices=3)
    seen = []

    def look(hidden):
        seen.append(hidden.shape)
        return hidden

    logits(model, batch, MixPoints(model).head, look)
    assert seen == [(ROWS * 3, 32)]


@pytest.mark.parametrize(
    ("family", "name", "call"),
    [
        ("bert", "dropout", 1),
        ("roberta", "classifier.dropout", 2),  # one module, called before the dense layer and after it
        ("electra", "classifier.dropout", 2),
        ("mpnet", "classifier.dropout", 2),
        ("distilbert", "dropout", 1),
        ("modernbert", "drop", 1),
    ],
)
def test_the_head_is_cut_before_the_last_dropout_call(family, name, call):
    model = text_network(family)
    module, index = find_head(model, text_batch())
    assert module is model.get_submodule(name)
    assert index == call
    assert model.training, "looking must not leave the network in evaluation mode"


def test_looking_for_the_head_draws_no_random_number():
    model = text_network("roberta").train()
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    find_head(model, text_batch())
    assert torch.equal(torch.rand(1), expected)


def test_a_network_without_dropout_before_the_head_is_cut_at_the_last_layer():
    model = image_network("vit")
    module, _ = find_head(model, {"pixel_values": torch.randn(2, 3, 32, 32)})
    assert module is last_linear(model)


def test_a_missing_seam_is_an_error_that_names_those_there_are():
    with pytest.raises(
        UserError, match=r"no mix point 9; it has 0 \(embeddings\), 1-2 \(layers\), 3 \(head\)"
    ):
        MixPoints(text_network("bert")).check(9)


@pytest.mark.parametrize("family", ["gpt2", "qwen2", "llama"])
@pytest.mark.parametrize("side", ["right", "left"])
def test_the_head_of_a_decoder_is_mixed_at_the_last_token_of_each_row(family, side):
    """Its head is linear: mixing features there is mixing logits, whatever the lengths."""
    model = text_network(family).eval()
    ids = torch.tensor([[5, 6, 7, 8], [9, 10, 0, 0], [11, 12, 13, 0], [14, 0, 0, 0]])
    if side == "left":
        ids = torch.stack([torch.cat([row[row == 0], row[row != 0]]) for row in ids])
    batch = {"input_ids": ids, "attention_mask": (ids != 0).long()}
    partner, untouched = torch.tensor([1, 0, 3, 2]), logits(model, batch)
    mixed = logits(model, batch, MixPoints(model).head, lambda h: 0.3 * h + 0.7 * h[partner])
    assert torch.allclose(mixed, 0.3 * untouched + 0.7 * untouched[partner], atol=1e-6)


def test_a_last_layer_that_sees_positions_in_another_way_is_no_mix_point(monkeypatch):
    monkeypatch.setattr("calmix.models.mix_points.pools_last_token", lambda _: False)
    with pytest.raises(UserError, match="no mix point at its head"):
        find_head(text_network("gpt2"), text_batch())


@pytest.mark.parametrize("depth", range(4))
def test_networks_under_adapters_are_cut_at_the_same_places(depth):
    peft = pytest.importorskip("peft")
    model, batch = text_network("roberta").eval(), text_batch()
    partner, untouched = torch.tensor([1, 0, 3, 2]), logits(model, batch)
    wrapped = peft.get_peft_model(model, peft.LoraConfig(task_type="SEQ_CLS", r=2)).eval()
    swapped = logits(wrapped, batch, depth, lambda h: h[partner] if len(h) == ROWS else h)
    assert torch.allclose(swapped, untouched[partner], atol=1e-5)


class RunAgain(torch.nn.Module):
    """Forgets what a layer computed and runs it again in backward, as gradient checkpointing does."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, *args, **kwargs):
        from torch.utils.checkpoint import checkpoint

        return checkpoint(self.layer, *args, use_reentrant=False, **kwargs)


@pytest.mark.parametrize("family", ["bert", "albert", "modernbert"])
@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_gradients_are_the_same_with_gradient_checkpointing(family, depth):
    """Layers run again in backward are mixed again; the shared layers of ALBERT too."""
    gradients, partner = [], torch.tensor([1, 0, 3, 2])
    for checkpointing in (False, True):
        model, batch = text_network(family, dropout=0.0).train(), text_batch()
        mix_points = MixPoints(model)
        if checkpointing and family == "albert":  # transformers has none for it: wrap its one layer
            model.albert.encoder.albert_layer_groups[0] = RunAgain(mix_points.layers[0])
        elif checkpointing:
            model.gradient_checkpointing_enable()
        cut = mix_points.hook(depth, lambda h: 0.3 * h + 0.7 * h[partner], batch)
        model(**batch).logits.square().sum().backward()
        cut.remove()
        gradients.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
    for first, second in zip(*gradients, strict=True):
        assert torch.allclose(first, second, atol=1e-6)
