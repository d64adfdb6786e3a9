"""Lanes: where the ops of one rank run; inline, in one thread each, or on one stream of a device each."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from simfrontier.schedule import Collective, Compute, Exchange, ExpandedProgram, Mesh
from simfrontier_real.arrays import Array, Backend, num_bytes
from simfrontier_real.measured import begin_measured, exchange_measured
from simfrontier_real.op_runner import OpRunner
from simfrontier_real.transport import Pending, Transport

POLL_S = 1e-4


class FinishedOp(NamedTuple):
    """An op that is done (on a device: handed to its stream), and when; or the error that it ended with."""

    op: int
    end_s: float
    error: Exception | None = None


class Lanes(Protocol):
    """Runs ops that the issuer handed out, one at a time on each lane, lanes beside each other."""

    def begin_step(self) -> None:
        """A new step begins; all of the one before has ended."""

    def start(self, index: int, ready_s: float) -> None:
        """Begin an op; never blocks for another rank."""

    def finished(self, timeout_s: float) -> list[FinishedOp]:
        """Ops that have ended since the last call; waits up to `timeout_s` for the first (0: only looks)."""

    def left(self, timeout_s: float) -> list[int]:
        """Ops that count as finished and have not ended when nothing has ended for so long (none: all have)."""

    def times(self) -> dict[int, tuple[float, float]]:
        """When ops of the step began and ended, by the executor's clock, where the lanes know better than the
        executor."""

    def close(self) -> None:
        """Give back threads and streams."""


@dataclass
class LaneStep:
    """What lanes need of the step that they run."""

    program: ExpandedProgram
    mesh: Mesh
    op_runner: OpRunner
    transport: Transport
    clock: Callable[[], float]
    message_bytes: dict[int, int] = field(default_factory=dict)  # whole messages that were really handed over, per op
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


@dataclass
class InlineLanes:
    """Ops run where they are started; communication is looked at until it is done. For the loopback."""

    step: LaneStep
    ended: list[FinishedOp] = field(default_factory=list)
    pending: list[tuple[int, list[Pending]]] = field(default_factory=list)

    def begin_step(self) -> None:
        """Nothing is left of the step before."""

    def start(self, index: int, ready_s: float) -> None:
        op = self.step.program.ops[index]
        if not isinstance(op, Compute):
            self.pending.append((index, self.step.call(index, op)))
        else:
            self.step.op_runner.run(index, ready_s)
            self.ended.append(FinishedOp(index, self.step.clock()))

    def finished(self, timeout_s: float) -> list[FinishedOp]:
        waiting = []
        for index, pendings in self.pending:
            if all(pending.is_done() for pending in pendings):
                self.step.op_runner.incoming(index, tuple(pending.wait() for pending in pendings))
                self.ended.append(FinishedOp(index, self.step.clock()))
            else:
                waiting.append((index, pendings))
        self.pending = waiting
        ended, self.ended = self.ended, []
        return ended

    def left(self, timeout_s: float) -> list[int]:
        return []

    def times(self) -> dict[int, tuple[float, float]]:
        return {}

    def close(self) -> None:
        """Nothing to give back."""


class ThreadLanes:
    """One thread per lane, which waits for its collectives while the others go on. For gloo.

    Every collective that may start has been started before any is waited for, because no lane waits for another: gloo's
    work is complete only when it is waited for.
    """

    def __init__(self, step: LaneStep) -> None:
        self._step = step
        self._ended: queue.SimpleQueue[FinishedOp] = queue.SimpleQueue()
        self._queues: list[queue.SimpleQueue[tuple[int, float] | None]] = [
            queue.SimpleQueue() for _ in step.program.lanes
        ]
        self._threads = [
            threading.Thread(target=self._run, args=(waiting,), name=lane, daemon=True)
            for lane, waiting in zip(step.program.lanes, self._queues, strict=True)
        ]
        for thread in self._threads:
            thread.start()

    def begin_step(self) -> None:
        """Nothing is left of the step before."""

    def start(self, index: int, ready_s: float) -> None:
        self._queues[self._step.program.lane[index]].put((index, ready_s))

    def finished(self, timeout_s: float) -> list[FinishedOp]:
        out: list[FinishedOp] = []
        try:
            out.append(self._ended.get(timeout=timeout_s) if timeout_s > 0 else self._ended.get_nowait())
            while True:
                out.append(self._ended.get_nowait())
        except queue.Empty:
            return out

    def left(self, timeout_s: float) -> list[int]:
        return []

    def times(self) -> dict[int, tuple[float, float]]:
        return {}

    def close(self) -> None:
        for waiting in self._queues:
            waiting.put(None)
        for thread in self._threads:
            thread.join(timeout=1.0)

    def _run(self, waiting: queue.SimpleQueue[tuple[int, float] | None]) -> None:
        while (given := waiting.get()) is not None:
            index, ready_s = given
            error = None
            try:
                self._execute(index, ready_s)
            except Exception as raised:  # whatever it is: a thread cannot end the run, the rank's main thread does
                error = raised
            self._ended.put(FinishedOp(index, self._step.clock(), error))

    def _execute(self, index: int, ready_s: float) -> None:
        op = self._step.program.ops[index]
        if not isinstance(op, Compute):
            self._step.call_and_wait(index, op)
        else:
            self._step.op_runner.run(index, ready_s)


class StreamLanes:
    """One stream of the device per lane; ops wait for each other by events, so the host runs ahead. For nccl.

    An op counts as finished for the issuer when it is on its stream: the streams then keep the order that the
    issuer's waits ask for. Times are taken from events on the device, and read when the step has ended.
    """

    def __init__(self, step: LaneStep, device: Any) -> None:
        import torch

        self._torch, self._step, self._device = torch, step, device
        self._streams = [torch.cuda.Stream(device) for _ in step.program.lanes]  # type: ignore[no-untyped-call]
        self._done: list[list[Any]] = [[] for _ in step.program.lanes]
        self._ended: list[FinishedOp] = []
        self._events: dict[int, tuple[Any, Any]] = {}
        self._origin: tuple[float, Any] | None = None

    def begin_step(self) -> None:
        """Forget the events of the step before."""
        self._done = [[] for _ in self._done]
        self._events.clear()
        self._origin = None

    def start(self, index: int, ready_s: float) -> None:
        torch, program = self._torch, self._step.program
        lane = program.lane[index]
        stream = self._streams[lane]
        with torch.cuda.device(self._device), torch.cuda.stream(stream):
            if self._origin is None:
                torch.cuda.synchronize(self._device)
                event = torch.cuda.Event(enable_timing=True)
                event.record(stream)
                self._origin = (self._step.clock(), event)
            for other, count in program.waits[index]:
                stream.wait_event(self._done[other][count - 1])
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record(stream)
            op = program.ops[index]
            used = self._step.op_runner.read_by(index)
            if not isinstance(op, Compute):
                self._step.call_and_wait(index, op)
            else:
                self._step.op_runner.run(index, ready_s)
            for array in used:
                array.record_stream(stream)  # its memory is not reused before this stream has done with it
            end.record(stream)
            if op.lane == "host" or getattr(op, "blocking", False):
                end.synchronize()
        self._done[lane].append(end)
        self._events[index] = (begin, end)
        self._ended.append(FinishedOp(index, ready_s))

    def finished(self, timeout_s: float) -> list[FinishedOp]:
        ended, self._ended = self._ended, []
        return ended

    def left(self, timeout_s: float) -> list[int]:
        """Ops that are on their streams and have not ended when nothing has ended there for so long."""
        waited = list(self._events)
        moved_s = self._step.clock()
        while waited and self._step.clock() - moved_s < timeout_s:
            still = [index for index in waited if not self._events[index][1].query()]
            if len(still) < len(waited):
                waited, moved_s = still, self._step.clock()
            else:
                time.sleep(POLL_S)
        return waited

    def times(self) -> dict[int, tuple[float, float]]:
        """When each op ran on the device, by the executor's clock; the step has ended."""
        assert self._origin is not None
        at_s, origin = self._origin
        return {
            index: (at_s + origin.elapsed_time(begin) / 1e3, at_s + origin.elapsed_time(end) / 1e3)
            for index, (begin, end) in self._events.items()
        }

    def close(self) -> None:
        """Streams go with the process."""
