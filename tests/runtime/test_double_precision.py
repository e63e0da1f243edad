"""Sums and saliency on a device without float64, as Apple's GPUs are."""

import pytest
import torch
from torch import Tensor

from calmix.mixing.saliency import gradient_times_input, saliency_direction, saliency_map
from calmix.training.journal import Journal


class OnApple(Tensor):
    """Says that it is on such a device, and refuses float64 until it is moved to the CPU."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function == Tensor.device.__get__:
            return torch.device("mps")
        name = getattr(function, "__name__", "")
        if name == "cpu" or (name == "to" and torch.device("cpu") in args[1:]):
            with torch._C.DisableTorchFunctionSubclass():
                return args[0].as_subclass(Tensor)
        result = super().__torch_function__(function, types, args, kwargs)
        if isinstance(result, OnApple) and result.dtype == torch.float64:
            raise TypeError("Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't")
        return result


@pytest.fixture
def rows():
    generator = torch.Generator().manual_seed(0)
    logits, features = torch.randn(6, 3, generator=generator), torch.randn(6, 5, generator=generator)
    return logits, torch.arange(6) % 3, features, torch.randn(3, 5, generator=generator)


def on_apple(*tensors):
    return [tensor.as_subclass(OnApple) for tensor in tensors]


def test_the_stand_in_refuses_what_the_device_refuses():
    with pytest.raises(TypeError, match="float64"):
        on_apple(torch.ones(2))[0].double()


def test_saliency_is_that_of_the_cpu(rows):
    logits, labels, *_ = rows
    for saliency in (saliency_map, saliency_direction):
        assert torch.equal(saliency(*on_apple(logits, labels)), saliency(logits, labels))
    assert torch.equal(gradient_times_input(*on_apple(*rows)), gradient_times_input(*rows))


def test_the_journal_adds_up_in_double(rows):
    here, there = Journal(), Journal()
    for losses in torch.rand(50, 4, generator=torch.Generator().manual_seed(1)):
        here.add(0, {"loss": losses.sum(), "rows": 4, "ties": torch.tensor(1)})
        there.add(0, {"loss": on_apple(losses.sum())[0], "rows": 4, "ties": on_apple(torch.tensor(1))[0]})
    assert here.state() == there.state()
    assert here.sums[0]["loss"].dtype == torch.float64
