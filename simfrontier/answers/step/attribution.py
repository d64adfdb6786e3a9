"""Attribution: the difference of two steps by where their time goes, and as a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum

from simfrontier.answers.step.critical import WAIT, PathLevel
from simfrontier.answers.step.exposed_time import IDLE, SLOWED, Spent, TimePart, TimeSpent
from simfrontier.base.units import written
from simfrontier.core.program import KINDS

MOST_TERMS = 3  # of a sentence, either way
NAMED_SHARE = 0.8  # of what is gained or lost is listed by name
LEAST = 0.05  # of the largest term, that is worth naming
SAME = 1e-3  # of a step: steps closer than this are as fast
EQUAL = 1e-9  # of a part: parts closer than this are equal
LEVEL_WORDS: dict[PathLevel, str] = {
    "inter_node": "between nodes",
    "intra_node": "inside a node",
    "package": "inside a package",
    "device": "on the device",
}
_WORDS = {
    SLOWED: "compute slowed by overlapping communication",
    IDLE: "idle time",
    WAIT: "waits that no op explains",
}

Key = tuple[Spent, str, tuple[str, ...], PathLevel]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartDifference:
    """One part of the time of two steps: seconds in the first and in the second, and how many ops it has there."""

    spent: Spent
    kind: str
    axes: tuple[str, ...]
    level: PathLevel
    a_s: float
    b_s: float
    a_calls: int
    b_calls: int

    @property
    def seconds(self) -> float:
        """The first minus the second: negative where the first spends less."""
        return self.a_s - self.b_s


def differences(a: TimeSpent, b: TimeSpent) -> tuple[PartDifference, ...]:
    """The parts of one step's time minus those of another's, the largest difference either way first.

    What one of them does not have counts as 0 s there, so the seconds sum to the difference of the two steps.
    """
    ours, theirs = _by_key(a), _by_key(b)
    made = []
    for key in dict.fromkeys((*ours, *theirs)):
        one, other = ours.get(key), theirs.get(key)
        made.append(
            PartDifference(
                spent=key[0],
                kind=key[1],
                axes=key[2],
                level=key[3],
                a_s=0.0 if one is None else one.seconds,
                b_s=0.0 if other is None else other.seconds,
                a_calls=0 if one is None else one.calls,
                b_calls=0 if other is None else other.calls,
            )
        )
    return tuple(sorted(made, key=lambda each: (-abs(each.seconds), each.spent, each.kind, each.axes, each.level)))


def why_faster(time_a: TimeSpent, time_b: TimeSpent, name_b: str) -> str:
    """One sentence, without a full stop: how much faster (or slower) a step is than that of `name_b`, and by which
    parts of its time, the largest first; and whether compute is equal.

    Example: `0.26 s slower than hsdp: 0.43 s more in exposed all-gathers over node × package × gcd (between nodes), for
    0.13 s less in exposed all-reduces over node (between nodes); compute is equal`.
    """
    difference_s = time_a.step_s - time_b.step_s
    parts = differences(time_a, time_b)
    less = [each for each in parts if each.seconds < 0.0]
    more = [each for each in parts if each.seconds > 0.0]
    if abs(difference_s) <= SAME * max(time_a.step_s, time_b.step_s):
        return f"as fast as {name_b}{_both_ways(less, more, time_b.step_s)}"
    if difference_s < 0.0:
        start, first, second = f"{_seconds(-difference_s)} faster than {name_b}", less, more
    else:
        start, first, second = f"{_seconds(difference_s)} slower than {name_b}", more, less
    largest = abs(first[0].seconds)
    against = [each for each in second if abs(each.seconds) >= LEAST * largest]
    text = f"{start}: {_terms(first)}"
    text = f"{text}, for {_terms(against)}" if against else text
    return f"{text}; compute is equal" if compute_equal(parts) else text


def compute_equal(parts: Sequence[PartDifference]) -> bool:
    """Return whether the kernels of both take as long, with nothing beside them."""
    kernels = [each for each in parts if each.spent == "compute" and each.kind != SLOWED]
    return bool(kernels) and all(is_equal(each) for each in kernels)


def is_equal(part: PartDifference) -> bool:
    """Return whether it takes as long in both, but for rounding."""
    return abs(part.seconds) <= EQUAL * max(part.a_s, part.b_s)


def part_words(spent: Spent, kind: str, axes: tuple[str, ...], level: PathLevel) -> str:
    """A part of a step's time in plain words: `exposed all-gathers over node × package × gcd (between nodes)`, `matrix
    products`."""
    words = op_words(kind, axes, level)
    return words if spent in ("compute", "idle") else f"exposed {words}"


def op_words(kind: str, axes: tuple[str, ...], level: PathLevel) -> str:
    """Ops in plain words: `all-gathers over node × package × gcd (between nodes)`, `matrix products`."""
    name = KINDS[kind].words if kind in KINDS else _WORDS.get(kind, kind)
    if level == "device":
        return name
    return f"{name} over {' × '.join(axes) or 'one rank'} ({LEVEL_WORDS[level]})"


def _by_key(time: TimeSpent) -> dict[Key, TimePart]:
    return {(part.spent, part.kind, part.axes, part.level): part for part in time.parts}


def _both_ways(less: list[PartDifference], more: list[PartDifference], step_s: float) -> str:
    """Return what cancels out between steps that take as long, if it is worth a word."""
    worth = [[each for each in way if abs(each.seconds) >= 10 * SAME * step_s] for way in (less, more)]
    return f": {_terms(worth[0])}, for {_terms(worth[1])}" if all(worth) else ""


def _terms(path_differences: list[PartDifference]) -> str:
    """The largest terms, until they make up most of the sum."""
    total, given = fsum(abs(each.seconds) for each in path_differences), 0.0
    lines: list[str] = []
    for each in path_differences[:MOST_TERMS]:
        size = abs(each.seconds)
        if lines and (given >= NAMED_SHARE * total or size < LEAST * abs(path_differences[0].seconds)):
            break
        lines.append(f"{_seconds(size)} {_way(each)} in {part_words(each.spent, each.kind, each.axes, each.level)}")
        given += size
    return " and ".join([", ".join(lines[:-1]), lines[-1]] if len(lines) > 1 else lines)


def _way(each: PartDifference) -> str:
    return "less" if each.seconds < 0.0 else "more"


def _seconds(value: float) -> str:
    """Two digits, whole seconds from 10 on: 0.91 s, 38 ms, 117 s."""
    rounded = float(f"{value:.2g}")
    if rounded < 0.1:
        return written(rounded, "s").replace(" us", " µs")
    return f"{rounded:g} s" if rounded < 10.0 else f"{value:,.0f} s"
