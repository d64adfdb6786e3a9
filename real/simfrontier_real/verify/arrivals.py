"""Digests of the messages that ranks sent and received. Transport is exact, whatever codecs lose, so the result of
every collective and exchange is compared with the messages that its ranks sent."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

import numpy as np

from simfrontier.core.program import Collective, Compute, Exchange, Op, PartialOp, Schedule
from simfrontier_real.ops.arrays import Array, Backend
from simfrontier_real.ops.codecs.encoded import type_of
from simfrontier_real.ops.programs import Programs
from simfrontier_real.ranks.transport import calls_by_group, group_of
from simfrontier_real.verify.gradients import RelativeError, finite

MOVED: Final = 1e-12  # data moved unchanged: rounding of the digests in float64
ROUNDING: Final = {"fp64": 2.0**-52, "fp32": 2.0**-23, "fp16": 2.0**-10, "bf16": 2.0**-7}  # of one addition
ADDED: Final = 4.0  # times ROUNDING and the number of ranks: sums in any order
_SEED: Final = 7


@dataclass(slots=True)
class MessageDigest:
    """Digests of one message of a collective or exchange on one rank: `sent` and `received` are the digests of the sent
    and received messages, `square` is the squared length of the sent message; `error` is the rounding error allowed
    between the two digests, relative to the length of everything sent."""

    sent: Any
    square: Any
    received: Any
    error: float


Calls = Mapping[int, tuple[MessageDigest, ...]]  # by the number of the op in the rank's program


@cache
def _numbers(count: int) -> Any:
    """Return `count` fixed numbers of either sign with magnitudes from 0.5 to 1.5, so that no position has a small
    weight; a longer sequence begins with the same numbers."""
    numbers = np.random.default_rng(_SEED).uniform(-1.0, 1.0, size=count)
    return numbers + np.where(numbers < 0, -0.5, 0.5)


@dataclass
class MessageDigests:
    """Computes the digests of one rank's messages, on the device of the messages.

    A digest is the scalar product of a message with fixed weights, one for each position in the joined messages of all
    ranks of the group, so that swapped pieces are detected; contributions to a sum have the same weights, so that the
    digest of the sum is the sum of the digests.
    """

    backend: Backend
    schedule: Schedule
    rank: int
    calls: dict[int, tuple[MessageDigest, ...]] = field(default_factory=dict)
    _weights: Array = None
    _members: dict[tuple[str, ...], tuple[int, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._weights = self.backend.array(_numbers(_longest(self.schedule)), "fp64")
        if self.backend.is_torch:
            float(self._weights[-1])  # it has arrived on the device before streams of their own read it

    def record_sent(self, index: int, op: Op, messages: tuple[Array, ...], reduction: PartialOp) -> None:
        """Record the digests of the messages of a collective or exchange before they are sent."""
        if not is_followed(op, reduction):
            return
        self.calls[index] = tuple(self._sent(op, message) for message in messages or (None,))

    def record_received(self, index: int, op: Op, results: tuple[Array | None, ...]) -> None:
        """Record the digests of the results of a collective or exchange."""
        for message, result in zip(self.calls.get(index, ()), results, strict=False):
            message.received = self._arrived(op, result)

    def take_calls(self) -> Calls:
        """Return the digests of the step that has just run, and start recording the next step."""
        calls, self.calls = self.calls, {}
        return {
            index: tuple(MessageDigest(float(m.sent), float(m.square), float(m.received), m.error) for m in messages)
            for index, messages in calls.items()
        }

    def _sent(self, op: Op, message: Array | None) -> MessageDigest:
        if message is None:
            return MessageDigest(0.0, 0.0, 0.0, MOVED)
        line, begin, factor, error = self._line(message), 0, 1.0, MOVED
        if isinstance(op, Collective):
            members, kind, number = self._group(op), op.wire_kind, self._number(op)
            begin = int(line.shape[0]) * number if kind == "all_gather" and not op.turns else 0
            factor = float(_numbers(len(members))[number]) if kind == "all_to_all" else 1.0
            if kind in ("all_reduce", "reduce_scatter"):
                error = max(MOVED, ADDED * len(members) * ROUNDING.get(type_of(message), 0.0))
        return MessageDigest(self._product(line, begin) * factor, line @ line, 0.0, error)

    def _arrived(self, op: Op, result: Array | None) -> Any:
        if result is None:
            return 0.0
        line = self._line(result)
        if not isinstance(op, Collective) or op.turns or op.wire_kind in ("all_gather", "all_reduce"):
            return self._product(line, 0)
        members, number = self._group(op), self._number(op)
        if op.wire_kind == "reduce_scatter":
            return self._product(line, int(line.shape[0]) * number)
        rows = self.backend.xp.reshape(line, (len(members), -1))
        begin = int(rows.shape[1]) * number
        return sum(self._product(row, begin) * factor for row, factor in zip(rows, _numbers(len(members)), strict=True))

    def _line(self, values: Array) -> Array:
        return self.backend.cast(self.backend.xp.reshape(values, (-1,)), "fp64")

    def _product(self, line: Array, begin: int) -> Any:
        """Return the scalar product of a flat array with the fixed weights from position `begin` on."""
        return line @ self._weights[begin : begin + int(line.shape[0])]

    def _group(self, op: Collective) -> tuple[int, ...]:
        axes = self.schedule.mesh.live(op.axes)
        if axes not in self._members:
            self._members[axes] = group_of(self.schedule.mesh, axes, self.rank)[1]
        return self._members[axes]

    def _number(self, op: Collective) -> int:
        return self._group(op).index(self.rank)


def is_followed(op: Op, reduction: PartialOp) -> bool:
    """Return whether the result of an op follows from the sent messages by sums alone; this excludes maxima, per-hop
    coding, and codecs of variable length (whose streams are widened in transit)."""
    if isinstance(op, Compute) or op.codec.is_measured:
        return False
    return isinstance(op, Exchange) or (reduction == "sum" and not op.per_hop)


def _longest(schedule: Schedule) -> int:
    """Return an upper bound on the number of elements that any collective or exchange of a schedule sends or
    receives."""
    tensors, mesh, longest = schedule.tensors, schedule.mesh, 1
    for op in schedule.ops:
        if isinstance(op, Compute):
            continue
        members = mesh.size(op.axes) if isinstance(op, Collective) else 1
        held = [tensors[ref.name] for ref in (*op.reads, *op.writes) if tensors[ref.name].role != "token"]
        longest = max(longest, sum(max(t.local_elements(mesh), t.local_bytes(mesh)) for t in held) * members)
    return longest


def call_errors(schedule: Schedule, programs: Programs, by_rank: Sequence[Calls]) -> RelativeError:
    """Return the largest difference in one step between the result of a collective or exchange and the messages that
    its ranks sent, relative to the rounding limit (1: at the limit), and where it occurs."""
    worst = RelativeError()
    for groups, indices in calls_by_group(schedule, programs):
        for group in groups:
            program = programs.of(group[0])
            for numbers in zip(*(indices[programs.by_rank[rank]] for rank in group), strict=True):
                met = [by_rank[rank].get(index, ()) for rank, index in zip(group, numbers, strict=True)]
                op, call = program.ops[numbers[0]], program.calls[numbers[0]]
                for messages in zip(*met, strict=True):
                    place, error = max(enumerate(_errors(op, messages)), key=lambda each: each[1])
                    if error > worst.error:
                        at = f"the group of rank {group[0]}" if _is_scattered(op) else f"rank {group[place]}"
                        worst = RelativeError(error, f"{op.kind} {op.name} of layer {call.layer}, {at}")
    return worst


def _is_scattered(op: Any) -> bool:
    """Return whether each rank of the group receives a different part, so that only all parts together can be compared
    with the sent messages."""
    return isinstance(op, Collective) and op.wire_kind in ("reduce_scatter", "all_to_all") and not op.turns


def _errors(op: Any, messages: tuple[MessageDigest, ...]) -> Iterator[float]:
    """Yield the difference between received and sent messages for each rank of the group, relative to the allowed
    difference; for reduce-scatter and all-to-all, a single difference for all ranks together."""
    length = math.sqrt(sum(message.square for message in messages))
    allowed = max(message.error for message in messages) * (length if length > 0 else 1.0)
    if isinstance(op, Exchange):
        one, other = messages
        pairs = [(one.received, other.sent), (other.received, one.sent)]
    elif op.turns:
        pairs = [(message.received, messages[place - 1].sent) for place, message in enumerate(messages)]
    else:
        sent = sum(message.sent for message in messages)
        pairs = [(message.received, sent) for message in messages]
        if _is_scattered(op):
            pairs = [(sum(message.received for message in messages), sent)]
    for arrived, sent in pairs:
        yield finite(abs(arrived - sent) / allowed)
