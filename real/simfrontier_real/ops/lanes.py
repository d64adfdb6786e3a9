"""Lanes: where the ops of one rank run; inline, in one thread each, or on one stream of a device each."""

from __future__ import annotations

import queue
import threading
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from simfrontier.core.program import Compute
from simfrontier_real.ops.lane_step import LaneStep
from simfrontier_real.ops.lane_streams import LaneStreams
from simfrontier_real.ranks.transport import Pending


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
                with self._step.annotated(index):
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
    """One stream of the device per lane, filled by the executor's own thread, so the host runs ahead. For nccl.

    An op counts as finished for the issuer when it is on its stream: the streams then keep the order that the
    issuer's waits ask for. Times are taken from events on the device, and read when the step has ended.
    """

    def __init__(self, step: LaneStep, device: str) -> None:
        self._streams = LaneStreams(step, device)
        self._ended: list[FinishedOp] = []

    def begin_step(self) -> None:
        """Forget the events of the step before."""
        self._streams.begin_step()

    def start(self, index: int, ready_s: float) -> None:
        self._streams.set_out()
        self._streams.run(index, ready_s)
        self._ended.append(FinishedOp(index, ready_s))

    def finished(self, timeout_s: float) -> list[FinishedOp]:
        ended, self._ended = self._ended, []
        return ended

    def left(self, timeout_s: float) -> list[int]:
        """Ops that are on their streams and have not ended when nothing has ended there for so long."""
        return self._streams.left(timeout_s)

    def times(self) -> dict[int, tuple[float, float]]:
        """When each op ran on the device, by the executor's clock; the step has ended."""
        return self._streams.times()

    def close(self) -> None:
        """Streams go with the process."""


class StreamThreadLanes(ThreadLanes):
    """One stream of the device per lane, filled by a thread per lane, which waits for its messages while the others go
    on. For gloo with buffers on a device: the host has a part in every message.

    An op counts as finished for the issuer when it is on its stream, a message when what it brought is on its way to
    the device. Times are the device's.
    """

    def __init__(self, step: LaneStep, device: str) -> None:
        self._streams = LaneStreams(step, device)
        super().__init__(step)

    def begin_step(self) -> None:
        """Forget the events of the step before."""
        self._streams.begin_step()

    def start(self, index: int, ready_s: float) -> None:
        self._streams.set_out()
        super().start(index, ready_s)

    def left(self, timeout_s: float) -> list[int]:
        """Ops that are on their streams and have not ended when nothing has ended there for so long."""
        return self._streams.left(timeout_s)

    def times(self) -> dict[int, tuple[float, float]]:
        """When each op ran on the device, by the executor's clock; the step has ended."""
        return self._streams.times()

    def _execute(self, index: int, ready_s: float) -> None:
        self._streams.run(index, ready_s)
