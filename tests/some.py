"""What a test goes through, of which there must be some: a loop over nothing would pass."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")


def some(items: Iterable[T]) -> list[T]:
    """All items, at least one."""
    out = list(items)
    assert out, "there is nothing to test"
    return out
