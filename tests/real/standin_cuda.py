"""A stand-in for torch.cuda whose device is the host's memory: `python -m tests.real.standin_cuda` is simfrontier-real
on it. A stream does at once what it is given. An event knows which events come before it, by what its stream was told
to wait for: a wait that is left out shows although nothing is late."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch

from simfrontier_real.cli import main
from simfrontier_real.measure import measure
from simfrontier_real.ops import lanes
from simfrontier_real.ops.arrays import Backend, torch_backend
from simfrontier_real.ranks import device, session
from simfrontier_real.ranks.processes import TorchTransport
from simfrontier_real.ranks.world import World

NUMBERS = itertools.count()


class Stream:
    def __init__(self, device: object = None) -> None:
        self.before: frozenset[int] = frozenset()  # the events that come before whatever is put here now

    def wait_event(self, event: Event) -> None:
        assert event.number is not None, "an event is waited for before it is recorded"
        self.before |= event.before | {event.number}


class CurrentStreams(threading.local):
    """The streams that are current in a thread; the last one counts."""

    def __init__(self) -> None:
        self.streams = [Stream()]


CURRENT = CurrentStreams()


class Event:
    def __init__(self, enable_timing: bool = False) -> None:
        self.enable_timing = enable_timing
        self.number: int | None = None
        self.before: frozenset[int] = frozenset()
        self.at_s = 0.0

    def record(self, stream: Stream) -> None:
        assert self.number is None and stream is CURRENT.streams[-1]
        self.number, self.at_s = next(NUMBERS), time.monotonic()
        self.before = stream.before
        stream.before |= {self.number}

    def query(self) -> bool:
        return self.number is not None

    def synchronize(self) -> None:
        assert self.number is not None

    def elapsed_time(self, end: Event) -> float:
        assert self.enable_timing and end.enable_timing
        return 1e3 * (end.at_s - self.at_s)


@contextmanager
def stream(chosen: Stream) -> Iterator[None]:
    CURRENT.streams.append(chosen)
    try:
        yield
    finally:
        CURRENT.streams.pop()


class OrderedStreams(lanes.StreamThreadLanes):
    """At the end of a step every op must come after all that it waits for, by events."""

    def times(self) -> dict[int, tuple[float, float]]:
        program = self.step.program
        for index, (begin, _) in self._events.items():
            late = [other for other in program.before[index] if self._events[other][1].number not in begin.before]
            assert not late, f"op {index} does not wait for ops {late}"
        assert len(self._events) == program.num_ops
        return super().times()


def plain_backend(device: str = "cpu") -> Backend:
    assert device == "cuda:0"
    return torch_backend()


def staged(world: World, timeout_s: float, staged_for: str | None) -> TorchTransport:
    assert staged_for == "cuda:0"
    return TorchTransport(world, timeout_s, "cpu")


def set_up() -> None:
    """Put the stand-in in the place of torch.cuda, and the host's memory in that of the device's."""
    cuda: Any = torch.cuda
    cuda.Stream, cuda.Event, cuda.stream = Stream, Event, stream
    cuda.device = lambda name: nullcontext()
    cuda.is_available, cuda.device_count = (lambda: True), (lambda: 1)
    cuda.synchronize = cuda.set_device = lambda name: None
    torch.Tensor.record_stream = lambda tensor, stream: None  # type: ignore[method-assign,assignment]
    session.StreamThreadLanes = OrderedStreams  # type: ignore[misc]
    session.torch_backend, session.TorchTransport = plain_backend, staged  # type: ignore[assignment,misc]
    measure.ON_DEVICE = measure.ON_HOST  # products that a host can make
    assert device.has_gpu()


if __name__ == "__main__":
    set_up()
    main()
