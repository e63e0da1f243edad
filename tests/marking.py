"""Marks that a fixture brings to every test that uses it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Function = TypeVar("Function", bound=Callable)


def marking(*marks: str) -> Callable[[Function], Function]:
    """Below `@pytest.fixture`: every test that uses the fixture, directly or not, carries the marks."""

    def note(function: Function) -> Function:
        function.marks = marks
        return function

    return note
