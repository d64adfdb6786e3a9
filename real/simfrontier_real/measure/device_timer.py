"""How long work takes on a device, by its own clock: repeated, each time with caches full of something else."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

FLUSH_BYTES: Final = {"cuda": 512 << 20, "cpu": 64 << 20}  # more than caches hold (MI300X: 256 MiB; H100: 50 MiB)
Work = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of the repetitions of one piece of work."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def least(self) -> float:
        return min(self.seconds)

    @property
    def most(self) -> float:
        return max(self.seconds)


class DeviceTimer:
    """Times work on the current device of a kind, cpu or cuda: `warmup` times unseen, then `most` times, or as often as
    `budget_s` has room for, `least` times at least.

    On a GPU times are those between two events. What fills the caches before each repetition keeps the device busy
    while the host hands over the work, so that what the host takes does not count.
    """

    def __init__(
        self,
        kind: str,
        warmup: int = 2,
        least: int = 5,
        most: int = 20,
        budget_s: float = 0.4,
        flush_bytes: int | None = None,
    ) -> None:
        import torch

        self._torch, self._kind, self._warmup = torch, kind, warmup
        self._least, self._most, self._budget_s = least, most, budget_s
        count = FLUSH_BYTES[kind] if flush_bytes is None else flush_bytes
        self._flushed = torch.empty(count, dtype=torch.uint8, device=kind)

    def times(self, work: Work) -> Times:
        """How long `work` takes."""
        for _ in range(self._warmup):
            work()
        (first_s,) = self._repeated(work, 1)
        repeats = min(self._most, max(self._least, int(self._budget_s / max(first_s, 1e-9))))
        return Times(tuple(self._repeated(work, repeats)))

    def _repeated(self, work: Work, repeats: int) -> list[float]:
        return self._by_events(work, repeats) if self._kind == "cuda" else self._by_the_host(work, repeats)

    def _by_events(self, work: Work, repeats: int) -> list[float]:
        cuda: Any = self._torch.cuda
        pairs = []
        cuda.synchronize()
        for _ in range(repeats):
            begin, end = (cuda.Event(enable_timing=True) for _ in range(2))
            self._flushed.zero_()
            begin.record()
            work()
            end.record()
            pairs.append((begin, end))
        cuda.synchronize()
        return [begin.elapsed_time(end) / 1e3 for begin, end in pairs]

    def _by_the_host(self, work: Work, repeats: int) -> list[float]:
        out = []
        for _ in range(repeats):
            self._flushed.zero_()
            begin_s = time.perf_counter()
            work()
            out.append(time.perf_counter() - begin_s)
        return out
