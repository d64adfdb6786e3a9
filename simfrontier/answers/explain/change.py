"""A setting to try: what it changes, and the keys of the scenario that make it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["link", "start-up", "device", "host", "overlap", "codec"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change to try: dotted keys of the scenario and their values."""

    label: str
    kind: Kind
    settings: Mapping[str, Any]
    note: str = ""

    @property
    def is_of_schedule(self) -> bool:
        """Whether it means nothing where the schedule stays as it was."""
        return self.kind in ("overlap", "codec")
