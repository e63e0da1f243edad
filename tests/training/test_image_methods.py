"""Every method of the papers on an image network: one step against a reference that mixes by hand."""

import numpy as np
import pytest
import torch

from calmix.data.images.pixels import PixelCollator, encode_images
from calmix.data.images.stored import as_pnm
from calmix.data.rows import Rows
from calmix.mixing.pairing import random_involution
from calmix.models.networks.cifar_resnet import CifarResNetConfig, CifarResNetForImageClassification
from calmix.models.networks.vgg import VggConfig, VggForImageClassification
from calmix.runtime.randomness import stream
from calmix.training.arguments import MixupArguments
from calmix.training.trainer import MixupTrainer
from pictures import digits

ROWS, CLASSES, SEED, RATE = 6, 3, 4, 0.1


def network(kind):
    torch.manual_seed(1)
    if kind == "vgg":
        return VggForImageClassification(
            VggConfig(hidden_sizes=[4, 8], depths=[1, 1], num_labels=CLASSES, dropout=0.0)
        )
    return CifarResNetForImageClassification(
        CifarResNetConfig(embedding_size=4, hidden_sizes=[4, 8], depths=[1, 1], num_labels=CLASSES)
    )


def encoded_rows():
    images, labels = digits(ROWS, classes=CLASSES)
    rows = Rows.from_images(
        [str(i) for i in range(ROWS)], [as_pnm(image) for image in images], labels=labels, label_names="abc"
    )
    return encode_images(rows, (8, 8))


def pieces(model, kind):
    """The network cut in pieces: what comes after the pixels, after each stage, and the last layer."""
    if kind == "vgg":
        first, second = model.blocks
        return [first, second, lambda h: model.pool(h).flatten(1), model.classifier]
    first, second = model.stages
    return [
        lambda x: first(torch.relu(model.stem(x))),
        second,
        lambda h: h.mean(dim=(2, 3)),
        model.classifier,
    ]


def soft_cross_entropy(logits, targets):
    return -(targets * torch.log_softmax(logits, dim=1)).sum(dim=1).mean()


def reference_loss(kind, model, pixels, labels, name, options):
    partner = torch.from_numpy(random_involution(ROWS, stream(SEED, "pairs", 0, 0)))
    alpha = options.get("alpha", 0.4)
    ratio = float(np.float32(stream(SEED, "ratio", 0).beta(alpha, alpha)))
    smoothing = options.get("label_smoothing", 0.0)
    targets = torch.full((ROWS, CLASSES), smoothing / (CLASSES - 1))
    targets[torch.arange(ROWS), labels] = 1 - smoothing
    if name in ("plain", "erl"):
        depth, mixed_targets = None, targets
    elif name == "features-only":
        depth, mixed_targets = 0, targets if ratio >= 0.5 else targets[partner]
    else:
        # Pixels, after stage 1, after stage 2; the head of cls-mixup is the third piece's output.
        depth = {"input-mixup": 0, "cls-mixup": 3}.get(name, options.get("layers", [None])[0])
        mixed_targets = ratio * targets + (1 - ratio) * targets[partner]
    hidden = pixels
    for place, piece in enumerate(pieces(model, kind)):
        if place == depth:
            hidden = ratio * hidden + (1 - ratio) * hidden[partner]
        hidden = piece(hidden)
    loss = soft_cross_entropy(hidden, mixed_targets)
    if name == "erl":
        p = torch.softmax(hidden, dim=1)
        loss = loss + options["beta"] * (p * torch.log(p)).sum(dim=1).mean()
    return loss


CASES = [
    ("plain", {"label_smoothing": 0.1}),
    ("erl", {"beta": 0.3}),
    ("input-mixup", {"alpha": 0.7}),
    ("input-mixup", {"alpha": 0.7, "label_smoothing": 0.1}),
    ("features-only", {"alpha": 0.4}),
    ("manifold-mixup", {"alpha": 1.0, "layers": [0]}),
    ("manifold-mixup", {"alpha": 1.0, "layers": [1]}),
    ("manifold-mixup", {"alpha": 1.0, "layers": [2]}),
    ("manifold-mixup", {"alpha": 1.0, "layers": [3]}),
    ("cls-mixup", {"alpha": 1.0}),
]


@pytest.mark.parametrize("kind", ["vgg", "resnet"])
@pytest.mark.parametrize(("name", "options"), CASES)
def test_one_step_is_that_of_the_formula(kind, name, options, tmp_path):
    encoded = encoded_rows()
    collator = PixelCollator((0.3,) * 3, (0.4,) * 3)
    model = network(kind)
    reference = network(kind).train()
    reference.load_state_dict(model.state_dict())
    trainer = MixupTrainer(
        model=model,
        args=MixupArguments(
            output_dir=str(tmp_path), method=name, method_options=options, seed=SEED, max_steps=1,
            per_device_train_batch_size=ROWS, optimizer="sgd:momentum=0:nesterov=false", schedule="constant",
            learning_rate=RATE, max_grad_norm=0, use_cpu=True, save_strategy="no", disable_tqdm=True,
            logging_strategy="no", dataloader_pin_memory=False,
        ),
        train_dataset=encoded,
        data_collator=collator,
    )  # fmt: skip
    trainer.train()
    order = stream(SEED, "order", 0).permutation(ROWS)
    batch = collator([encoded[int(row)] for row in order])
    loss = reference_loss(kind, reference, batch["pixel_values"], batch["labels"], name, options)
    loss.backward()
    for parameter, moved in zip(reference.parameters(), model.parameters(), strict=True):
        assert torch.allclose(parameter - RATE * parameter.grad, moved, atol=2e-5)
    assert trainer.journal.losses()[0] == pytest.approx(loss.item(), abs=1e-5)
