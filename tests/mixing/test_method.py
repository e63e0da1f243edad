from dataclasses import dataclass
from types import SimpleNamespace
from typing import ClassVar

import pytest
import torch

from calmix.mixing import method as registry
from calmix.mixing.losses import cross_entropy
from calmix.mixing.method import Method, get_method, list_methods
from calmix.mixing.step import RowLosses
from calmix.user_error import UserError


def test_unknown_method_suggests_the_nearest_names():
    with pytest.raises(UserError, match="unknown method 'plane'; did you mean plain"):
        get_method("plane")


def test_unknown_option_lists_those_there_are():
    with pytest.raises(UserError, match="no option 'betta'; it has: label_smoothing"):
        get_method("plain", betta=1)


def test_label_smoothing_out_of_range_is_refused():
    with pytest.raises(UserError, match=r"label smoothing must be in \[0, 1\)"):
        get_method("plain", label_smoothing=1.5)


def test_plain_comes_first_and_every_method_says_what_it_is():
    assert list_methods()[0] == "plain"
    for cls in registry.method_classes().values():
        assert cls.summary
        assert cls.citation
        assert cls.__doc__


@dataclass(frozen=True)
class Doubled(Method):
    """Cross-entropy twice: a method of another package."""

    name: ClassVar[str] = "doubled"
    summary: ClassVar[str] = "twice the loss"
    citation: ClassVar[str] = "nobody"

    def losses(self, step):
        logits = step.forward()
        return RowLosses(2 * cross_entropy(logits, step.labels), logits)


def test_a_method_of_another_package_registers_through_an_entry_point(monkeypatch):
    def entry_points(group):
        assert group == "calmix.methods"
        return [SimpleNamespace(load=lambda: Doubled)]

    monkeypatch.setattr(registry, "entry_points", entry_points)
    registry.method_classes.cache_clear()
    try:
        assert "doubled" in list_methods()
        assert isinstance(get_method("doubled"), Doubled)
    finally:
        registry.method_classes.cache_clear()


def test_plain_is_cross_entropy_of_the_rows():
    from calmix.mixing.step import Step

    logits, labels = torch.randn(5, 3), torch.tensor([0, 1, 2, 0, 1])
    result = get_method("plain").losses(Step(labels, 3, lambda: logits))
    assert torch.allclose(result.losses, torch.nn.functional.cross_entropy(logits, labels, reduction="none"))
    assert result.logits is logits


def test_what_a_method_needs_follows_its_options() -> None:
    assert get_method("plain").needed == ()
    assert get_method("aum-saliency").needed == ("aum",)
    assert get_method("aum-saliency", split="random").needed == ()
    assert get_method("aum-saliency", scope="global").needed == ("aum", "previous epoch")
    assert get_method("tdmixup").needed == ("data map", "threshold pass")
    assert get_method("tdmixup", aum_filter=False).needed == ("data map",)
    assert get_method("informed-mixup").needed == ("data map",)


def test_a_need_that_nobody_can_meet_is_refused_where_the_class_is_written() -> None:
    with pytest.raises(TypeError, match="needs 'datamap'; there are aum, data map"):
        type("Typo", (Method,), {"needs": ("datamap",)})
