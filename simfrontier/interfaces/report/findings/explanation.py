"""Parts of an explanation that are listed: the largest parts of a step's time, the largest differences to another, and
the change that helps most."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum
from typing import NamedTuple

from simfrontier.answers.explain import TriedChange
from simfrontier.answers.step import SLOWED, PartDifference, TimePart, TimeSpent, is_equal, part_words

LISTED_SHARE = 0.99  # of a step is listed part by part
LITTLE = 1e-3  # of a step: changes that move it less are only named
OTHER = "other"
EQUAL = "equal"
COMPUTE = "compute"
OTHER_COMPUTE = "all other compute"


class ShownPart(NamedTuple):
    """A part of a step's time as it is shown; the last may be all that is left."""

    words: str
    seconds: float
    calls: int


class ShownDifference(NamedTuple):
    """Seconds of a part of a plan's step and of another's; the last may be all that is left. `is_equal`: but for
    rounding."""

    words: str
    a_s: float
    b_s: float
    is_equal: bool = False

    @property
    def seconds(self) -> float:
        return self.a_s - self.b_s


class StepShares(NamedTuple):
    """A step in short: the share of it in which kernels run, the exposed share (all else), and the largest exposed part
    in words ("" where nothing is exposed) with its own share."""

    compute: float
    exposed: float
    largest: str
    largest_share: float


def shares_of(time: TimeSpent) -> StepShares:
    """A step in short."""
    largest = next((part for part in time.parts if part.spent != "compute"), None)
    compute = time.compute_s / time.step_s
    words, share = ("", 0.0) if largest is None else (_words(largest), largest.seconds / time.step_s)
    return StepShares(compute, 1.0 - compute, words, share)


def shown_parts(parts: Sequence[TimePart]) -> list[ShownPart]:
    """The largest parts until 99 % of the step are listed, and the rest as one; the seconds sum to the step."""
    num_listed = _num_listed([part.seconds for part in parts])
    shown = [ShownPart(_words(part), part.seconds, part.calls) for part in parts[:num_listed]]
    if rest := parts[num_listed:]:
        shown.append(ShownPart(OTHER, sum(part.seconds for part in rest), sum(part.calls for part in rest)))
    return shown


def shown_differences(parts: Sequence[PartDifference]) -> list[ShownDifference]:
    """The kinds of kernels that are equal, as one; the parts that differ most, until 99 % of all differences are
    listed; and the rest as one."""
    kernels = [part for part in parts if part.spent == "compute" and part.kind != SLOWED]
    equal = [part for part in kernels if is_equal(part)]
    rest = [part for part in parts if part not in equal]
    num_listed = _num_listed([abs(part.seconds) for part in rest])
    shown = []
    if equal:
        seconds = fsum(part.a_s for part in equal)
        words = COMPUTE if len(equal) == len(kernels) else OTHER_COMPUTE
        shown.append(ShownDifference(words, seconds, seconds, is_equal=True))
    shown += [ShownDifference(_words(part), part.a_s, part.b_s, is_equal(part)) for part in rest[:num_listed]]
    if left := rest[num_listed:]:
        shown.append(ShownDifference(OTHER, fsum(part.a_s for part in left), fsum(part.b_s for part in left)))
    return shown


def first_that_fits(changes: Sequence[TriedChange]) -> TriedChange | None:
    """The change that saves most and fits into memory."""
    return next((change for change in changes if change.fits), None)


def _words(part: TimePart | PartDifference) -> str:
    return part_words(part.spent, part.kind, part.axes, part.level)


def _num_listed(sizes: Sequence[float]) -> int:
    """Return how many of these are listed: as many as make up 99 %, and never all but one."""
    total, given = sum(sizes), 0.0
    for place, size in enumerate(sizes):
        if given >= LISTED_SHARE * total and len(sizes) - place > 1:
            return place
        given += size
    return len(sizes)
