"""Execution of a schedule's ops on the real buffers of one rank: starting messages and waiting for them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from simfrontier.base.errors import InputError, nearest
from simfrontier.core.program import Collective, Compute, Exchange, ExpandedProgram, Mesh, PartialOp, is_wait
from simfrontier_real.ops import moves
from simfrontier_real.ops.arrays import Array, Backend
from simfrontier_real.ops.codecs.mpc import stream_bytes
from simfrontier_real.ops.operands import Kernel, Operands
from simfrontier_real.ops.programs import RankContext
from simfrontier_real.ranks.transport import Pending, Transport
from simfrontier_real.verify.arrivals import MessageDigests
from simfrontier_real.verify.updates import WeightCodes


class OpRunner:
    """Interface of the work that a rank does for each op; this base class computes and sends nothing."""

    def begin_step(self) -> None:
        """Begin a new step."""

    def run(self, index: int, ready_s: float) -> None:
        """Run a compute op that became ready at time `ready_s` of the executor's clock."""

    def outgoing(self, index: int) -> tuple[Array, ...]:
        """Return the messages of a collective or an exchange."""
        return ()

    def reduction(self, index: int) -> PartialOp:
        """Return the reduction by which a collective combines contributions."""
        return "sum"

    def room(self, index: int) -> Array | None:
        """Return the receive buffer for the message of an exchange, None if this rank receives nothing."""
        return None

    def incoming(self, index: int, results: tuple[Array, ...]) -> None:
        """Store the results of a collective or an exchange."""

    def measures(self, index: int) -> Backend | None:
        """Return the array library of an op's messages if their lengths depend on the values, else None."""
        return None

    def read_by(self, index: int) -> list[Array]:
        """Return the arrays that an op reads or adds to."""
        return []

    def done(self, index: int) -> None:
        """Do what is due after the end of an op."""


@dataclass
class RealOpRunner(OpRunner):
    """Runs every op with real data: this package moves the data, and `kernels`, by kind of op, compute the model's ops.
    `digests` records the messages that are sent and received, `weight_codes` the encoded weights that are sent (None:
    not recorded)."""

    context: RankContext
    kernels: dict[str, Kernel]
    digests: MessageDigests | None = None
    weight_codes: WeightCodes | None = None

    def __post_init__(self) -> None:
        for op in {op.number: op for op in self.context.program.ops}.values():
            if isinstance(op, Compute) and not is_wait(op) and op.kind not in self.kernels:
                raise InputError(f"op {op.kind} {op.name}: no kernel of that kind; {nearest(op.kind, self.kernels)}")
        self._passing = {t.name for t in self.context.schedule.tensors.values() if t.role in ("accumulator", "scalar")}

    def begin_step(self) -> None:
        """Begin a new step with all sums reset."""
        self.context.buffers.begin_step()
        for ref in [ref for ref in self.context.buffers.by_ref if ref.name in self._passing]:
            del self.context.buffers.by_ref[ref]

    def run(self, index: int, ready_s: float) -> None:
        op = self.context.program.ops[index]
        assert isinstance(op, Compute)
        if not is_wait(op):
            self.kernels[op.kind](Operands(self.context, index, op))

    def outgoing(self, index: int) -> tuple[Array, ...]:
        op = self.context.program.ops[index]
        if self.weight_codes is not None:
            self.weight_codes.record_sent(index)
        if isinstance(op, Exchange):
            out = moves.sent(self.context, index, op)
        else:
            assert isinstance(op, Collective)
            out = moves.outgoing(self.context, index, op)
        if self.digests is not None:
            reduction = self.reduction(index) if op.kind == "all_reduce" else "sum"
            self.digests.record_sent(index, op, out, reduction)
        return out

    def reduction(self, index: int) -> PartialOp:
        """Return the reduction by which a collective combines its partial values."""
        op = self.context.program.ops[index]
        assert isinstance(op, Collective)
        by_axis = dict(self.context.schedule.tensors[op.src[0].name].placement.partial)
        return next((by_axis[axis] for axis in op.axes if axis in by_axis), "sum")

    def room(self, index: int) -> Array | None:
        return moves.room(self.context, index)

    def incoming(self, index: int, results: tuple[Array, ...]) -> None:
        op = self.context.program.ops[index]
        if self.digests is not None:
            self.digests.record_received(index, op, results)
        if isinstance(op, Exchange):
            moves.received(self.context, index, results[0])
        elif isinstance(op, Collective):
            moves.incoming(self.context, index, op, results)

    def measures(self, index: int) -> Backend | None:
        op = self.context.program.ops[index]
        assert not isinstance(op, Compute)
        return self.context.backend if op.codec.is_measured else None

    def read_by(self, index: int) -> list[Array]:
        program = self.context.program
        held = [self.context.buffers.by_ref.get(ref) for ref in (*program.reads[index], *program.accumulates[index])]
        return [part for each in held if each is not None for part in getattr(each, "parts", (each,))]

    def done(self, index: int) -> None:
        self.context.buffers.used_by(index)


@dataclass
class LaneStep:
    """One step of a rank, as the lanes run it."""

    program: ExpandedProgram
    mesh: Mesh
    op_runner: OpRunner
    transport: Transport
    clock: Callable[[], float] = time.monotonic
    message_bytes: dict[int, int] = field(default_factory=dict)  # bytes of the messages actually sent, per op
    annotated: Callable[[int], AbstractContextManager[Any]] = nullcontext  # context of an op: the profiler's annotation

    def run(self, index: int, ready_s: float) -> None:
        """Run an op to its end. The messages of a collective are sent one after the other, as on a single
        communicator."""
        op = self.program.ops[index]
        if isinstance(op, Compute):
            self.op_runner.run(index, ready_s)
        else:
            self.op_runner.incoming(index, tuple(pending.wait() for pending in self._begun(index, op)))

    def begin(self, index: int, op: Collective | Exchange) -> list[Pending]:
        """Begin the messages of a collective or an exchange, all at once."""
        return list(self._begun(index, op))

    def _begun(self, index: int, op: Collective | Exchange) -> Iterator[Pending]:
        outgoing, backend = self.op_runner.outgoing(index), self.op_runner.measures(index)
        self.message_bytes.pop(index, None)
        if isinstance(op, Exchange):
            message, room = outgoing[0] if outgoing else None, self.op_runner.room(index)
            if backend is not None:
                yield self._measured_exchange(backend, index, op, message, room)
                return
            self._count(index, 0 if message is None else message.nbytes)
            yield self.transport.exchange(op, message, room)
            return
        if backend is None and not op.per_hop:  # bytes sent per hop depend on how a ring splits the message
            pieces = self.mesh.size(op.axes) if op.kind == "all_gather" and not op.turns else 1
            self._count(index, pieces * sum(message.nbytes for message in outgoing))
        reduction = self.op_runner.reduction(index) if op.kind == "all_reduce" else "sum"
        for message in outgoing:
            if backend is None:
                yield self.transport.begin(op, message, reduction)
            else:
                yield self._measured_collective(backend, index, op, message)

    def _measured_collective(self, backend: Backend, index: int, op: Collective, message: Array) -> Pending:
        """Start a collective on pieces with a codec of variable length: an all-gather [capacity] or an all-to-all
        [members, capacity]."""
        members = self.mesh.size(op.axes)
        longest = int(stream_bytes(backend.xp.reshape(message, (-1, message.shape[-1]))).max())
        shape = (1,) if op.wire_kind == "all_gather" else (members, 1)
        own = backend.xp.reshape(backend.array([longest] * shape[0], "int64"), shape)

        def begin(lengths: Array) -> Pending:
            width = int(lengths.max())
            self._count(index, members * width)
            return self.transport.begin(op, backend.xp.asarray(message[..., :width], copy=True))

        return MeasuredPending(self.transport.begin(op, own), begin)

    def _measured_exchange(
        self, backend: Backend, index: int, op: Exchange, message: Array | None, room: Array | None
    ) -> Pending:
        """Start an exchange of one piece with a codec of variable length, in one direction or both."""
        width = 0 if message is None else int(stream_bytes(backend.xp.reshape(message, (1, -1)))[0])
        own = None if message is None else backend.array([width], "int64")

        def begin(length: Array | None) -> Pending:
            self._count(index, width)
            space = None if length is None else backend.empty((int(length[0]),), "uint8")
            return self.transport.exchange(op, None if message is None else message[:width], space)

        awaited = None if room is None else backend.zeros((1,), "int64")
        return MeasuredPending(self.transport.exchange(op, own, awaited), begin)

    def _count(self, index: int, count: int) -> None:
        self.message_bytes[index] = self.message_bytes.get(index, 0) + count


@dataclass
class MeasuredPending:
    """Pending collective or exchange with variable message lengths, in two calls: first the lengths are communicated,
    then the data. Each received message is as wide as the longest stream of the group (in an exchange: of the peer),
    padded at its end."""

    lengths: Pending
    begin: Callable[[Array], Pending]
    message: Pending | None = None

    def is_done(self) -> bool:
        if self.message is None and self.lengths.is_done():
            self.message = self.begin(self.lengths.wait())
        return self.message is not None and self.message.is_done()

    def wait(self) -> Array:
        if self.message is None:
            self.message = self.begin(self.lengths.wait())
        return self.message.wait()
