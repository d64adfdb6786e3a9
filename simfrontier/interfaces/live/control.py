"""A control of the live page: one setting and the values that it may take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["slider", "switch", "choice"]
Group = Literal["job", "grid", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """A control of the page, for one setting. `values`: the possible values in the order of the slider, with a text for
    each in `words`; `at`: the index of the scenario's own value (the value None: the library's, or the scenario's
    own). `group`: the part of the page that it stands in."""

    key: str
    label: str
    kind: Kind
    values: tuple[Any, ...]
    words: tuple[str, ...]
    at: int
    group: Group = "job"


def control(
    key: str, label: str, kind: Kind, values: Sequence[Any], words: Sequence[str], own: Any, group: Group = "job"
) -> Control:
    """Return a control that stands at the value `own`."""
    at = list(values).index(own)
    return Control(key=key, label=label, kind=kind, values=tuple(values), words=tuple(words), at=at, group=group)
