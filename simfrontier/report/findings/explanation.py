"""What an explanation lists: the largest parts of a critical path, the largest differences to another, and the changes
that move a step."""

from __future__ import annotations

from collections.abc import Sequence

from simfrontier.analysis import PathDifference, PathPart, part_words
from simfrontier.explanation import TriedChange
from simfrontier.records import dataclass

LISTED_SHARE = 0.99  # of the critical path is listed part by part
LITTLE = 1e-3  # of a step: changes that move it less are only named
OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownPart:
    """A part of the critical path as it is shown; the last may be all that is left."""

    words: str
    seconds: float
    sharing_s: float
    calls: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownDifference:
    """Seconds of a part on the path of a plan and on another's; the last may be all that is left."""

    words: str
    a_s: float
    b_s: float

    @property
    def seconds(self) -> float:
        return self.a_s - self.b_s


def shown_parts(parts: Sequence[PathPart]) -> list[ShownPart]:
    """The largest parts until 99 % of the path are listed, and the rest as one; the seconds sum to the step."""
    num_listed = _num_listed([part.seconds for part in parts])
    shown = [
        ShownPart(words=_words(part), seconds=part.seconds, sharing_s=part.sharing_s, calls=part.calls)
        for part in parts[:num_listed]
    ]
    if rest := parts[num_listed:]:
        seconds, sharing_s = sum(part.seconds for part in rest), sum(part.sharing_s for part in rest)
        calls = sum(part.calls for part in rest)
        shown.append(ShownPart(words=OTHER, seconds=seconds, sharing_s=sharing_s, calls=calls))
    return shown


def shown_differences(parts: Sequence[PathDifference]) -> list[ShownDifference]:
    """The parts that differ most, until 99 % of all differences are listed, and the rest as one."""
    num_listed = _num_listed([abs(part.seconds) for part in parts])
    shown = [ShownDifference(words=_words(part), a_s=part.a_s, b_s=part.b_s) for part in parts[:num_listed]]
    if rest := parts[num_listed:]:
        a_s, b_s = sum(part.a_s for part in rest), sum(part.b_s for part in rest)
        shown.append(ShownDifference(words=OTHER, a_s=a_s, b_s=b_s))
    return shown


def moving(changes: Sequence[TriedChange], moves: bool = True) -> list[TriedChange]:
    """The changes that move the step, or those that do not."""
    return [change for change in changes if (abs(change.share) >= LITTLE) == moves]


def first_that_fits(changes: Sequence[TriedChange]) -> TriedChange | None:
    """The change that saves most and fits into memory."""
    return next((change for change in changes if change.fits), None)


def _words(part: PathPart | PathDifference) -> str:
    return part_words(part.kind, part.axes, part.level)


def _num_listed(sizes: Sequence[float]) -> int:
    """How many of these are listed: as many as make up 99 %, and never all but one."""
    total, given = sum(sizes), 0.0
    for place, size in enumerate(sizes):
        if given >= LISTED_SHARE * total and len(sizes) - place > 1:
            return place
        given += size
    return len(sizes)
