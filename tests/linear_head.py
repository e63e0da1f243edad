"""A network of one linear layer with given features: what a method does to it can be worked out by hand."""

from contextlib import contextmanager

import torch

from calmix.mixing.step import Step


class LinearHead:
    """Logits W h + b of given features h: [rows, features], or [rows × choices, features] for choices."""

    def __init__(self, features, weight, bias=None, choices=None):
        self.features = features.clone().requires_grad_()
        self.weight = weight.clone().requires_grad_()
        self.bias = torch.zeros(len(weight)) if bias is None else bias
        self.choices = choices
        self.calls = 0

    def __call__(self, cut=None, inputs=None):
        self.calls += 1
        hidden = self.features
        if cut is not None:
            assert cut.depth == 1
            hidden = cut(hidden)
        logits = hidden @ self.weight.T + self.bias
        return logits.reshape(-1, self.choices) if self.choices else logits

    @contextmanager
    def evaluating(self):
        yield

    @property
    def last_weight(self):
        return self.weight


def given_logits(logits):
    """A network that says exactly these logits."""
    logits = torch.as_tensor(logits, dtype=torch.float32)
    return LinearHead(logits, torch.eye(logits.shape[1]))


def make_step(network, labels, **more):
    labels = torch.as_tensor(labels)
    classes = network.choices or len(network.weight)
    return Step(labels=labels, num_classes=classes, forward=network, **more)
