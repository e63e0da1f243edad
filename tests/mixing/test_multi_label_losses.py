"""The loss of rows with several labels: torch's own, of mixed rows and mixed labels."""

import numpy as np
import pytest
import torch

from calmix.mixing.catalogue import method_cards
from calmix.mixing.losses import binary_cross_entropy
from calmix.mixing.method import get_method, method_classes
from calmix.mixing.step import Mix, Moment, Step

ROWS, LABELS, FEATURES, HEAD = 6, 4, 5, 1


class Forward:
    """Features and a linear head; what is mixed is mixed before the head."""

    def __init__(self):
        generator = torch.Generator().manual_seed(0)
        self.features = torch.randn(ROWS, FEATURES, generator=generator)
        self.weight = torch.randn(LABELS, FEATURES, generator=generator)
        self.mix = None

    def __call__(self, cut=None, inputs=None):
        assert cut is None or isinstance(cut, Mix)
        self.mix = cut
        return (self.features if cut is None else cut(self.features)) @ self.weight.T


def step():
    labels = torch.tensor(np.random.default_rng(1).integers(0, 2, (ROWS, LABELS))).float()
    moment = Moment(seed=3, epoch=0, step=0, batch=0)
    return Step(labels, LABELS, Forward(), moment, head=HEAD, is_multi_label=True)


def test_the_mean_over_rows_is_torchs_loss():
    logits = torch.randn(7, 3, generator=torch.Generator().manual_seed(2)) * 5
    targets = torch.rand(7, 3, generator=torch.Generator().manual_seed(4))  # mixed ones too
    found = binary_cross_entropy(logits, targets)
    assert found.shape == (7,)
    torch.testing.assert_close(found.mean(), torch.nn.BCEWithLogitsLoss()(logits, targets))


def test_plain_asks_for_the_labels_themselves():
    given = step()
    found = get_method("plain").losses(given).losses
    expected = torch.nn.BCEWithLogitsLoss(reduction="none")(given.forward(), given.labels).mean(dim=1)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(
    ("name", "options"), [("cls-mixup", {}), ("manifold-mixup", {"layers": [HEAD]}), ("regmixup", {})]
)
def test_mixed_rows_are_asked_for_mixed_labels(name, options):
    given = step()
    found = get_method(name, alpha=1.0, **options).losses(given).losses
    mix = given.forward.mix
    ratio, partner = float(mix.ratio), mix.partner
    assert 0 < ratio < 1 and (partner != torch.arange(ROWS)).any()
    features = given.forward.features
    mixed = ratio * features + (1 - ratio) * features[partner]
    targets = ratio * given.labels + (1 - ratio) * given.labels[partner]
    loss = torch.nn.BCEWithLogitsLoss(reduction="none")
    expected = loss(mixed @ given.forward.weight.T, targets).mean(dim=1)
    if name == "regmixup":
        expected = expected + loss(features @ given.forward.weight.T, given.labels).mean(dim=1)
    torch.testing.assert_close(found, expected)


def test_the_catalogue_knows_which_methods_take_several_labels():
    able = {name for name, card in method_cards().items() if card.multi_label}
    assert able == {"plain", "input-mixup", "cls-mixup", "manifold-mixup", "regmixup"}
    assert able == {name for name, cls in method_classes().items() if cls.multi_label}
