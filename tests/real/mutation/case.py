"""A schedule of an extra for the faults to be put in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from simfrontier.core.program import Schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedCase:
    """One that is equal to the unsharded model but for rounding, by the extra's module `tests.faults`; `epsilon` is
    Adam's."""

    name: str
    make: Callable[[], Schedule]
    epsilon: float = 1e-5
