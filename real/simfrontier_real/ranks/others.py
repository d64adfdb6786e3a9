"""What other programs took of a host's processors while ranks ran there: a busy machine is told by that."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

STAT: Final = Path("/proc/stat")
_BUSY: Final = (0, 1, 2, 7)  # columns: user, nice, system, steal; interrupts may be of the ranks' own messages


@dataclass(frozen=True, slots=True)
class ProcessorTime:
    """Seconds that a process has taken, and that the processors it may run on were busy and there, up to now."""

    own_s: float
    busy_s: float
    all_s: float

    def since(self, before: ProcessorTime) -> ProcessorTime:
        """What came since an earlier moment."""
        return ProcessorTime(self.own_s - before.own_s, self.busy_s - before.busy_s, self.all_s - before.all_s)


def processor_time(stat: Path = STAT) -> ProcessorTime | None:
    """Up to now; None where the system does not count it so (Linux does)."""
    try:
        mine = {f"cpu{number}" for number in os.sched_getaffinity(0)}
        lines = [line.split() for line in stat.read_text(encoding="ascii").splitlines() if line.startswith("cpu")]
        tick_s = 1.0 / os.sysconf("SC_CLK_TCK")
        busy = [sum(int(line[1 + column]) for column in _BUSY) for line in lines if line[0] in mine]
    except (AttributeError, OSError, ValueError, IndexError):
        return None
    if not busy:
        return None
    return ProcessorTime(time.process_time(), tick_s * sum(busy), len(busy) * time.monotonic())


def others_share(hosts: Sequence[str], spent: Sequence[ProcessorTime | None]) -> float | None:
    """The share of a host's processor time that went to other programs than the ranks, on the busiest host; None where
    a rank does not know."""
    shares = []
    for host in dict.fromkeys(hosts):
        there = [each for name, each in zip(hosts, spent, strict=True) if name == host]
        known = [each for each in there if each is not None and each.all_s > 0.0]
        if len(known) < len(there):
            return None
        most = max(known, key=lambda each: each.all_s)
        shares.append(max(0.0, most.busy_s - sum(each.own_s for each in known)) / most.all_s)
    return min(1.0, max(shares)) if shares else None
