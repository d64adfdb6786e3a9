"""Two traces of one schedule, simulated and real, joined on (op, rank): what must be equal is compared exactly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from simfrontier.base.errors import InputError
from simfrontier.core.trace.table import HELD_RANKS, SHOWN_DIGITS, Span, Trace, ranges_text, ranks_of_text

EQUAL: Final = ("kind", "name", "lane", "axes", "message_bytes", "call", "layer", "micro")
MISSING: Final = "missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpPair:
    """One op on one rank, simulated and real."""

    rank: int
    sim: Span
    real: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceDifference:
    """A fact that differs although it should be equal, with its ranks; `op` is None if it is about a whole rank."""

    op: int | None
    what: str
    sim: str
    real: str
    ranks: tuple[int, ...]

    def __str__(self) -> str:
        who = f"rank{'s' if len(self.ranks) > 1 else ''} {ranges_text(self.ranks)}"
        where = who if self.op is None else f"op {self.op} on {who}"
        return f"{where}: {self.what}: simulated {self.sim}, real {self.real}"


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A plan's two traces with what was joined: `pairs` by rank, then op; `differences` by their first rank.
    `num_left_out`: the ranks whose ops the real trace was not to hold."""

    plan: str
    sim: Trace
    real: Trace
    pairs: tuple[OpPair, ...]
    differences: tuple[TraceDifference, ...]
    num_left_out: int = 0

    @property
    def num_different(self) -> int:
        """Number of (op, rank) that differ."""
        return sum(len(difference.ranks) for difference in self.differences)

    @cached_property
    def by_rank(self) -> Mapping[int, tuple[OpPair, ...]]:
        """The pairs of every rank, ranks ascending."""
        out: dict[int, list[OpPair]] = {}
        for pair in self.pairs:
            out.setdefault(pair.rank, []).append(pair)
        return {rank: tuple(pairs) for rank, pairs in out.items()}

    @cached_property
    def slowest_rank(self) -> int:
        """The rank that ends last in reality (the lowest of equals); -1 where nothing was joined."""
        ends = {rank: max(pair.real.end_s for pair in pairs) for rank, pairs in self.by_rank.items()}
        return min(ends, key=lambda rank: (-ends[rank], rank), default=-1)


def compare(plan: str, sim: Trace, real: Trace) -> Comparison:
    """Join the two traces, on the ranks that the real one says it holds, if it does. Raises InputError where they are
    not of the same schedule."""
    if sim.digest != real.digest:
        raise InputError(
            f"{plan}: the simulated schedule has the digest {_short(sim.digest)}, the real one {_short(real.digest)}; "
            "allowed: two traces of one schedule"
        )
    simulated, really = _by_rank(sim), _by_rank(real)
    differences = _Differences()
    pairs: list[OpPair] = []
    left_out = _left_out(plan, simulated, really, real)
    for rank in sorted({*simulated, *really} - left_out):
        mine, its = simulated.get(rank), really.get(rank)
        if mine is None or its is None:
            differences.add(rank, None, "its ops", *_counts(mine, its))
            continue
        for op in sorted({*mine, *its}):
            if op in mine and op in its:
                differences.compare(rank, mine[op], its[op])
                pairs.append(OpPair(rank=rank, sim=mine[op], real=its[op]))
            else:
                differences.add(rank, op, "the op", *(_title(each.get(op)) for each in (mine, its)))
        if mine.keys() == its.keys():
            differences.compare_orders(rank, mine, its)
    return Comparison(
        plan=plan, sim=sim, real=real, pairs=tuple(pairs), differences=differences.all(), num_left_out=len(left_out)
    )


Ops = Mapping[int, Span]


def _by_rank(trace: Trace) -> dict[int, Ops]:
    """Return the ops of every rank of the trace; ranks of one class share them."""
    out: dict[int, Ops] = {}
    for members, spans in zip(trace.members, trace.spans, strict=True):
        ops = {span.op: span for span in spans}
        out |= dict.fromkeys(members, ops)
    return out


def _left_out(plan: str, simulated: Mapping[int, Ops], really: Mapping[int, Ops], real: Trace) -> set[int]:
    """Return the simulated ranks that the real trace does not have and was not to hold."""
    if HELD_RANKS not in real.notes:
        return set()
    try:
        held = ranks_of_text(real.notes[HELD_RANKS])
    except ValueError as error:
        raise InputError(f"{plan}: the real trace's note {HELD_RANKS}: {error}") from None
    return {*simulated} - {*really} - {*held}


class _Differences:
    """Collects differences; those that are alike on several ranks are one."""

    def __init__(self) -> None:
        self.ranks: dict[tuple[int | None, str, str, str], list[int]] = {}

    def add(self, rank: int, op: int | None, field: str, sim: str, real: str) -> None:
        self.ranks.setdefault((op, field, sim, real), []).append(rank)

    def compare(self, rank: int, sim: Span, real: Span) -> None:
        for name in EQUAL:
            a, b = getattr(sim, name), getattr(real, name)
            if a != b:
                self.add(rank, sim.op, name, _value(a), _value(b))

    def compare_orders(self, rank: int, sim: Ops, real: Ops) -> None:
        """Lanes are FIFOs: the order in which a rank was ready for a lane's ops is the order in which it did them."""
        mine, its = _orders(sim), _orders(real)
        for lane in mine:
            for a, b in zip(mine[lane], its.get(lane, ()), strict=False):
                if a != b:
                    self.add(rank, a, f"order of lane {lane}", f"op {a}", f"op {b} in its place")
                    break

    def all(self) -> tuple[TraceDifference, ...]:
        return tuple(
            TraceDifference(op=op, what=what, sim=sim, real=real, ranks=tuple(ranks))
            for (op, what, sim, real), ranks in self.ranks.items()
        )


def _orders(ops: Ops) -> dict[str, list[int]]:
    out: dict[str, list[int]] = {}
    for span in sorted(ops.values(), key=lambda span: (span.ready_s, span.op)):
        out.setdefault(span.lane, []).append(span.op)
    return out


def _value(value: object) -> str:
    """Write a value in full: sizes may differ by one byte."""
    return f"{value:.17g}" if isinstance(value, float) else str(value)


def _counts(sim: Ops | None, real: Ops | None) -> tuple[str, str]:
    sizes = (MISSING if ops is None else f"{len(ops)} ops" for ops in (sim, real))
    return next(sizes), next(sizes)


def _title(span: Span | None) -> str:
    return MISSING if span is None else f"{span.kind} {span.name}" if span.kind != span.name else span.kind


def _short(digest: str) -> str:
    return digest[:SHOWN_DIGITS] or "(none)"
