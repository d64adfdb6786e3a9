"""A sound schedule of which one fact at a time is changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from simfrontier.core.program import Schedule


@dataclass(frozen=True, slots=True)
class Case:
    """A sound schedule, and how it is trained: to what relative difference two runs of it agree, and whether its
    collectives are lowered to explicit transfers."""

    make: Callable[[], Schedule]
    tolerance: float = 1e-8
    lowered: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedCase:
    """One of an extra, by its module `tests.mutated`."""

    name: str
    case: Case
