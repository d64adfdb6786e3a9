"""A rank's step as its lanes see it: how the messages of a collective or an exchange are begun and waited for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from simfrontier.core.program import Collective, Exchange, ExpandedProgram, Mesh
from simfrontier_real.measure.measured import begin_measured, exchange_measured
from simfrontier_real.ops.arrays import Array, Backend, num_bytes
from simfrontier_real.ops.op_runner import OpRunner
from simfrontier_real.ranks.transport import Pending, Transport


@dataclass
class LaneStep:
    """What lanes need of the step that they run."""

    program: ExpandedProgram
    mesh: Mesh
    op_runner: OpRunner
    transport: Transport
    clock: Callable[[], float]
    message_bytes: dict[int, int] = field(default_factory=dict)  # whole messages that were really handed over, per op
    annotated: Callable[[int], AbstractContextManager[Any]] = nullcontext  # what an op runs in: the profiler's mark
    num_measured: int = 0  # messages of which the length was agreed on

    def call(self, index: int, op: Collective | Exchange) -> list[Pending]:
        """Begin the messages of a collective or an exchange, all at once."""
        return list(self._begun(index, op))

    def call_and_wait(self, index: int, op: Collective | Exchange) -> None:
        """A whole collective, its messages one after the other, as they run on one communicator; or an exchange."""
        self.op_runner.incoming(index, tuple(pending.wait() for pending in self._begun(index, op)))

    def _begun(self, index: int, op: Collective | Exchange) -> Iterator[Pending]:
        messages = self._outgoing(index, op)
        backend = self.op_runner.measures(index)
        if backend is not None:
            yield from self._measured(backend, index, op, messages)
            return
        if isinstance(op, Exchange):
            yield self.transport.exchange(op, messages[0] if messages else None, self.op_runner.room(index))
            return
        reduction = self.op_runner.reduction(index) if op.kind == "all_reduce" else "sum"
        for message in messages:
            yield self.transport.begin(op, message, reduction)

    def _measured(
        self, backend: Backend, index: int, op: Collective | Exchange, messages: tuple[Array, ...]
    ) -> Iterator[Pending]:
        """The messages of an op whose lengths depend on their values."""
        self.message_bytes[index] = 0

        def count_bytes(count: int) -> None:
            self.message_bytes[index] += count
            self.num_measured += 1

        if isinstance(op, Exchange):
            awaits = self.op_runner.room(index) is not None
            yield exchange_measured(backend, self.transport, op, messages[0] if messages else None, awaits, count_bytes)
            return
        for message in messages:
            yield begin_measured(backend, self.transport, op, message, self.mesh.size(op.axes), count_bytes)

    def _outgoing(self, index: int, op: Collective | Exchange) -> tuple[Array, ...]:
        messages = self.op_runner.outgoing(index)
        if isinstance(op, Collective) and op.per_hop:
            return messages  # what is sent of them depends on how a ring cuts them
        pieces = self.mesh.size(op.axes) if isinstance(op, Collective) and op.kind == "all_gather" else 1
        self.message_bytes[index] = pieces * sum(num_bytes(message) for message in messages)
        return messages
