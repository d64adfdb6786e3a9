"""JSON objects with every key once: a key that stands twice is found in linear time."""

from __future__ import annotations

from typing import Any

_SHOWN = 60


def unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these pairs, for json's `object_pairs_hook`. Raises ValueError that names a key which stands
    twice."""
    out = dict(pairs)
    if len(out) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                shown = name if len(name) <= _SHOWN else name[: _SHOWN - 3] + "..."
                raise ValueError(f"key {shown!r} stands twice in one object")
            seen.add(name)
    return out
