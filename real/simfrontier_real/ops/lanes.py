"""Lanes, on which the ops of one rank run: all lanes in the calling thread, one thread per lane, or one device stream
per lane."""

from __future__ import annotations

import queue
import threading
import time
from typing import Any, NamedTuple

from simfrontier.core.program import Compute
from simfrontier_real.ops.op_runner import LaneStep
from simfrontier_real.ranks.transport import Pending

POLL_S = 1e-4


class FinishedOp(NamedTuple):
    """A finished op (on a device: one enqueued on its stream) with its end time, or the error with which it ended."""

    op: int
    end_s: float
    error: Exception | None = None


class Lanes:
    """Interface of lanes, which run the ops that the issuer starts: one op at a time on each lane, lanes
    concurrently."""

    def __init__(self, step: LaneStep) -> None:
        self.step = step

    def begin_step(self) -> None:
        """Begin a new step; all ops of the previous step have ended."""

    def start(self, index: int, ready_s: float) -> None:
        """Start an op; never blocks to wait for another rank."""
        raise NotImplementedError

    def finished(self, timeout_s: float) -> list[FinishedOp]:
        """Return the ops that have ended since the last call; wait up to `timeout_s` for the first (0: do not wait)."""
        raise NotImplementedError

    def left(self, timeout_s: float) -> list[int]:
        """If nothing has ended for `timeout_s`, return the ops that were reported as finished but have not ended
        (empty: all have ended)."""
        return []

    def times(self) -> dict[int, tuple[float, float]]:
        """Return the begin and end times of the step's ops by the executor's clock, if the lanes measure them more
        accurately than the executor."""
        return {}

    def close(self) -> None:
        """Release threads."""


class InlineLanes(Lanes):
    """Lanes in the calling thread, for the loopback transport: compute ops run at once, and communication is polled
    until it is done."""

    def __init__(self, step: LaneStep) -> None:
        super().__init__(step)
        self._ended: list[FinishedOp] = []
        self._pending: list[tuple[int, list[Pending]]] = []

    def start(self, index: int, ready_s: float) -> None:
        op = self.step.program.ops[index]
        if isinstance(op, Compute):
            self.step.run(index, ready_s)
            self._ended.append(FinishedOp(index, self.step.clock()))
        else:
            self._pending.append((index, self.step.begin(index, op)))

    def finished(self, timeout_s: float) -> list[FinishedOp]:
        waiting = []
        for index, pendings in self._pending:
            if all(pending.is_done() for pending in pendings):
                self.step.op_runner.incoming(index, tuple(pending.wait() for pending in pendings))
                self._ended.append(FinishedOp(index, self.step.clock()))
            else:
                waiting.append((index, pendings))
        self._pending = waiting
        ended, self._ended = self._ended, []
        return ended


class ThreadLanes(Lanes):
    """Lanes with one thread each, which waits for the collectives of its lane while other lanes proceed; for gloo.

    Because no lane waits for another, every collective that may start has started before any thread waits. This matters
    because work of gloo completes only when a thread waits for it.
    """

    def __init__(self, step: LaneStep) -> None:
        super().__init__(step)
        self._ended: queue.SimpleQueue[FinishedOp] = queue.SimpleQueue()
        self._queues: list[queue.SimpleQueue[tuple[int, float] | None]] = [
            queue.SimpleQueue() for _ in step.program.lanes
        ]
        self._threads = [
            threading.Thread(target=self._run_all, args=(waiting,), name=lane, daemon=True)
            for lane, waiting in zip(step.program.lanes, self._queues, strict=True)
        ]
        for thread in self._threads:
            thread.start()

    def start(self, index: int, ready_s: float) -> None:
        self._queues[self.step.program.lane[index]].put((index, ready_s))

    def finished(self, timeout_s: float) -> list[FinishedOp]:
        out: list[FinishedOp] = []
        try:
            out.append(self._ended.get(timeout=timeout_s) if timeout_s > 0 else self._ended.get_nowait())
            while True:
                out.append(self._ended.get_nowait())
        except queue.Empty:
            return out

    def close(self) -> None:
        for waiting in self._queues:
            waiting.put(None)
        for thread in self._threads:
            thread.join(timeout=1.0)

    def _run_all(self, waiting: queue.SimpleQueue[tuple[int, float] | None]) -> None:
        while (given := waiting.get()) is not None:
            index, ready_s = given
            error = None
            try:
                with self.step.annotated(index):
                    self._run(index, ready_s)
            except Exception as raised:  # whatever it is: a thread cannot end the run, the rank's main thread does
                error = raised
            self._ended.put(FinishedOp(index, self.step.clock(), error))

    def _run(self, index: int, ready_s: float) -> None:
        self.step.run(index, ready_s)


class OnStreams(Lanes):
    """Lanes with one device stream each: ops wait for each other by events, which also give their times.

    The issuer regards an op as finished once it is enqueued on its stream; the streams then ensure the order of
    dependencies. All ops of one lane are enqueued by one thread.
    """

    def __init__(self, step: LaneStep, device: str) -> None:
        import torch

        self._torch, self._device = torch, device
        self._streams = [torch.cuda.Stream(device) for _ in step.program.lanes]  # type: ignore[no-untyped-call]
        super().__init__(step)

    def begin_step(self) -> None:
        """Discard the events of the previous step, wait for the work of other streams, and record the start time of the
        step."""
        self._done: list[list[Any]] = [[] for _ in self._streams]
        self._events: dict[int, tuple[Any, Any]] = {}
        torch, stream = self._torch, self._streams[0]
        with torch.cuda.device(self._device), torch.cuda.stream(stream):
            torch.cuda.synchronize(self._device)
            event = torch.cuda.Event(enable_timing=True)
            event.record(stream)
            self._origin = (self.step.clock(), event)

    def put(self, index: int, ready_s: float) -> None:
        """Enqueue an op on the stream of its lane, after the ops on which it depends, all of which have been enqueued
        already."""
        torch, program = self._torch, self.step.program
        lane, op = program.lane[index], program.ops[index]
        stream = self._streams[lane]
        with torch.cuda.device(self._device), torch.cuda.stream(stream):
            for other, count in program.waits[index]:
                stream.wait_event(self._done[other][count - 1])
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record(stream)
            used = self.step.op_runner.read_by(index)
            self.step.run(index, ready_s)
            for array in used:
                array.record_stream(stream)  # memory is not reused before this stream has finished
            end.record(stream)
            if op.lane == "host" or getattr(op, "blocking", False):
                end.synchronize()
        self._done[lane].append(end)
        self._events[index] = (begin, end)

    def left(self, timeout_s: float) -> list[int]:
        waited, moved_s = list(self._events), self.step.clock()
        while waited and self.step.clock() - moved_s < timeout_s:
            still = [index for index in waited if not self._events[index][1].query()]
            if len(still) < len(waited):
                waited, moved_s = still, self.step.clock()
            else:
                time.sleep(POLL_S)
        return waited

    def times(self) -> dict[int, tuple[float, float]]:
        at_s, origin = self._origin
        return {
            index: (at_s + origin.elapsed_time(begin) / 1e3, at_s + origin.elapsed_time(end) / 1e3)
            for index, (begin, end) in self._events.items()
        }


class StreamLanes(OnStreams):
    """Stream lanes whose ops are enqueued by the executor's thread, so that the host runs ahead of the device; for
    nccl."""

    def __init__(self, step: LaneStep, device: str) -> None:
        super().__init__(step, device)
        self._ended: list[FinishedOp] = []

    def start(self, index: int, ready_s: float) -> None:
        self.put(index, ready_s)
        self._ended.append(FinishedOp(index, ready_s))

    def finished(self, timeout_s: float) -> list[FinishedOp]:
        ended, self._ended = self._ended, []
        return ended


class StreamThreadLanes(OnStreams, ThreadLanes):
    """Stream lanes with one thread per lane, which waits for messages while other lanes proceed; for gloo with buffers
    on a device. The host takes part in every message; a message is finished when the copy of the received data to the
    device is enqueued."""

    def _run(self, index: int, ready_s: float) -> None:
        self.put(index, ready_s)
