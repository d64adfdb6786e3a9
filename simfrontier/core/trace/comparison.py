"""Comparison of two traces of one schedule, one simulated and one real, joined on (op, rank): attributes that must be
equal are compared exactly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from simfrontier.base.errors import InputError
from simfrontier.core.trace.table import HELD_RANKS, SHOWN_DIGITS, Span, Trace, ranges_text, ranks_of_text

EQUAL: Final = ("kind", "name", "lane", "axes", "message_bytes", "call", "layer", "micro")
MISSING: Final = "missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpPair:
    """Spans of one op on one rank, in the simulated and in the real trace."""

    rank: int
    sim: Span
    real: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceDifference:
    """An attribute that differs between the traces although it should be equal, with the ranks on which it differs;
    `op` is None if the attribute belongs to a whole rank."""

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
    """The simulated and the real trace of a plan and their join: `pairs` are sorted by rank, then op; `differences` by
    their first rank. `num_left_out`: number of ranks whose ops the real trace intentionally omits."""

    plan: str
    sim: Trace
    real: Trace
    pairs: tuple[OpPair, ...]
    differences: tuple[TraceDifference, ...]
    num_left_out: int = 0

    @property
    def num_different(self) -> int:
        """Number of (op, rank) pairs that differ between the traces."""
        return sum(len(difference.ranks) for difference in self.differences)

    @cached_property
    def by_rank(self) -> Mapping[int, tuple[OpPair, ...]]:
        """The pairs of every rank, in ascending order of rank."""
        out: dict[int, list[OpPair]] = {}
        for pair in self.pairs:
            out.setdefault(pair.rank, []).append(pair)
        return {rank: tuple(pairs) for rank, pairs in out.items()}

    @cached_property
    def slowest_rank(self) -> int:
        """The rank that ends last in the real trace (if several do, the lowest); -1 if there are no pairs."""
        ends = {rank: max(pair.real.end_s for pair in pairs) for rank, pairs in self.by_rank.items()}
        return min(ends, key=lambda rank: (-ends[rank], rank), default=-1)


Ops = Mapping[int, Span]
Fact = tuple[int | None, str, str, str]  # (op, name of the fact, simulated value, real value)


def compare(plan: str, sim: Trace, real: Trace) -> Comparison:
    """Join the simulated and the real trace of a plan. If the real trace states which ranks it contains, only these are
    joined. Raises InputError if the traces are not of the same schedule."""
    if sim.digest != real.digest:
        raise InputError(
            f"{plan}: the simulated schedule has the digest {_short(sim.digest)}, the real one {_short(real.digest)}; "
            "allowed: two traces of one schedule"
        )
    simulated, really = _by_rank(sim), _by_rank(real)
    ranks_of: dict[Fact, list[int]] = {}
    pairs: list[OpPair] = []
    left_out = _left_out(plan, simulated, really, real)
    for rank in sorted({*simulated, *really} - left_out):
        mine, its = simulated.get(rank), really.get(rank)
        for fact in _differences(mine, its):
            ranks_of.setdefault(fact, []).append(rank)
        if mine is not None and its is not None:
            pairs += [OpPair(rank=rank, sim=mine[op], real=its[op]) for op in sorted(mine.keys() & its.keys())]
    differences = tuple(
        TraceDifference(op=op, what=what, sim=a, real=b, ranks=tuple(ranks))
        for (op, what, a, b), ranks in ranks_of.items()
    )
    return Comparison(
        plan=plan, sim=sim, real=real, pairs=tuple(pairs), differences=differences, num_left_out=len(left_out)
    )


def _by_rank(trace: Trace) -> dict[int, Ops]:
    """Return the ops of every rank in the trace; the ranks of one rank class share their ops."""
    out: dict[int, Ops] = {}
    for members, spans in zip(trace.members, trace.spans, strict=True):
        ops = {span.op: span for span in spans}
        out |= dict.fromkeys(members, ops)
    return out


def _left_out(plan: str, simulated: Mapping[int, Ops], really: Mapping[int, Ops], real: Trace) -> set[int]:
    """Return the ranks of the simulated trace that the real trace intentionally omits."""
    if HELD_RANKS not in real.notes:
        return set()
    try:
        held = ranks_of_text(real.notes[HELD_RANKS])
    except ValueError as error:
        raise InputError(f"{plan}: the real trace's note {HELD_RANKS}: {error}") from None
    return {*simulated} - {*really} - {*held}


def _differences(mine: Ops | None, its: Ops | None) -> Iterator[Fact]:
    """Yield the differences between the simulated ops `mine` and the real ops `its` of one rank. Lanes are FIFOs: a
    rank executes the ops of a lane in the order in which it was ready for them."""
    if mine is None or its is None:
        sim, real = (MISSING if ops is None else f"{len(ops)} ops" for ops in (mine, its))
        yield None, "its ops", sim, real
        return
    for op in sorted({*mine, *its}):
        if op not in mine or op not in its:
            yield op, "the op", _title(mine.get(op)), _title(its.get(op))
            continue
        for name in EQUAL:
            sim, real = (_value(getattr(each[op], name)) for each in (mine, its))
            if sim != real:
                yield op, name, sim, real
    orders, real_orders = _orders(mine), _orders(its)
    for lane in orders if mine.keys() == its.keys() else ():
        for a, b in zip(orders[lane], real_orders.get(lane, ()), strict=False):
            if a != b:
                yield a, f"order of lane {lane}", f"op {a}", f"op {b} in its place"
                break


def _orders(ops: Ops) -> dict[str, list[int]]:
    out: dict[str, list[int]] = {}
    for span in sorted(ops.values(), key=lambda span: (span.ready_s, span.op)):
        out.setdefault(span.lane, []).append(span.op)
    return out


def _value(value: object) -> str:
    """Return a value as text in full precision: sizes may differ by one byte."""
    return f"{value:.17g}" if isinstance(value, float) else str(value)


def _title(span: Span | None) -> str:
    return MISSING if span is None else f"{span.kind} {span.name}" if span.kind != span.name else span.kind


def _short(digest: str) -> str:
    return digest[:SHOWN_DIGITS] or "(none)"
