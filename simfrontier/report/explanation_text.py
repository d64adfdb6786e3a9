"""An explanation in words and rows, for the page and the terminal."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from simfrontier.analysis import PathPart, part_words
from simfrontier.explanation import Explanation, PlanComparison, TriedChange
from simfrontier.report.phrases import listed, percent, quantity

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


def shown_parts(parts: Sequence[PathPart], step_s: float) -> list[ShownPart]:
    """The largest parts until 99 % of the step are listed, and the rest as one; the seconds sum to the step."""
    out: list[ShownPart] = []
    given = 0.0
    left = list(parts)
    while left and (given < LISTED_SHARE * step_s or len(left) == 1):
        part = left.pop(0)
        given += part.seconds
        words = part_words(part.kind, part.axes, part.level)
        out.append(ShownPart(words=words, seconds=part.seconds, sharing_s=part.sharing_s, calls=part.calls))
    if left:
        out.append(
            ShownPart(
                words=OTHER,
                seconds=sum(part.seconds for part in left),
                sharing_s=sum(part.sharing_s for part in left),
                calls=sum(part.calls for part in left),
            )
        )
    return out


def shown_differences(other: PlanComparison) -> list[tuple[str, float, float]]:
    """(what, seconds of the plan, seconds of the other) of the parts that differ most, until 99 % of all differences
    are listed, and the rest as one."""
    left = list(other.differences)
    total, given = sum(abs(each.seconds) for each in left), 0.0
    out = []
    while left and (given < LISTED_SHARE * total or len(left) == 1):
        each = left.pop(0)
        given += abs(each.seconds)
        out.append((part_words(each.kind, each.axes, each.level), each.a_s, each.b_s))
    if left:
        out.append((OTHER, sum(each.a_s for each in left), sum(each.b_s for each in left)))
    return out


def headline_sentence(explanation: Explanation) -> str:
    """The time of the step, and its largest part."""
    first = explanation.path.parts()[:2]
    parts = [
        f"{percent(part.seconds / explanation.step_s)} of it {part_words(part.kind, part.axes, part.level)}"
        for part in first
    ]
    return (
        f"A step of {explanation.plan} on {explanation.devices:,} {explanation.device_word}s takes "
        f"{quantity(explanation.step_s, 's')}{': ' + listed(parts) if parts else ''}"
    )


def best_sentence(explanation: Explanation) -> str:
    """The change that saves most and fits, or that none does; empty where none was tried."""
    if not explanation.changes:
        return ""
    best = next((change for change in explanation.changes if change.fits), None)
    if best is None or best.share < LITTLE:
        count = len(explanation.changes)
        return f"None of the {count} changes that were simulated makes the step shorter by 0.1 % or more"
    return f"What would help most: {best.label}, {quantity(best.saved_s, 's')} less ({percent(best.share)} of the step)"


def listed_changes(explanation: Explanation) -> tuple[list[TriedChange], list[TriedChange]]:
    """The changes that move the step, and those that do not."""
    moving = [change for change in explanation.changes if abs(change.share) >= LITTLE]
    return moving, [change for change in explanation.changes if abs(change.share) < LITTLE]


def set_words(settings: Sequence[str]) -> str:
    """Settings as options of a command line: `--set engine.overlap=true`."""
    return " ".join(f"--set {shlex.quote(setting)}" for setting in settings)


def signed_seconds(seconds: float) -> str:
    """Seconds with their sign: +1.2 ms, −0.31 s."""
    size = quantity(abs(seconds), "s")
    return size if seconds == 0.0 else f"{'+' if seconds > 0.0 else '−'}{size}"
