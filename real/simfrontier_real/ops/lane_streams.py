"""The streams of a device for a rank's lanes: ops wait for each other by events, which also give their times."""

from __future__ import annotations

import time
from typing import Any

from simfrontier.core.program import Compute
from simfrontier_real.ops.lane_step import LaneStep

POLL_S = 1e-4


class LaneStreams:
    """One stream per lane. Ops of one lane come from one thread; what an op waits for has been put on its stream
    before."""

    def __init__(self, step: LaneStep, device: str) -> None:
        import torch

        self._torch, self._step, self._device = torch, step, device
        self._streams = [torch.cuda.Stream(device) for _ in step.program.lanes]  # type: ignore[no-untyped-call]
        self._done: list[list[Any]] = [[] for _ in step.program.lanes]
        self._events: dict[int, tuple[Any, Any]] = {}
        self._origin: tuple[float, Any] | None = None

    def begin_step(self) -> None:
        """Forget the events of the step before."""
        self._done = [[] for _ in self._done]
        self._events.clear()
        self._origin = None

    def set_out(self) -> None:
        """Before the first op of a step: wait for what other streams do, and take the moment that times count from."""
        if self._origin is not None:
            return
        torch, stream = self._torch, self._streams[0]
        with torch.cuda.device(self._device), torch.cuda.stream(stream):
            torch.cuda.synchronize(self._device)
            event = torch.cuda.Event(enable_timing=True)
            event.record(stream)
            self._origin = (self._step.clock(), event)

    def run(self, index: int, ready_s: float) -> None:
        """Put an op on the stream of its lane, behind what it waits for."""
        torch, program = self._torch, self._step.program
        lane = program.lane[index]
        stream = self._streams[lane]
        with torch.cuda.device(self._device), torch.cuda.stream(stream):
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
