"""Properties of the ranks' hosts: clock offsets, processor time used by other programs, free memory."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch
import torch.distributed as dist

from simfrontier_real.ranks.world import World

PINGS = 20


def offset_s(world: World, host: str) -> tuple[float, float]:
    """Return (offset in seconds from this rank's monotonic clock to rank 0's, largest error of the offset over all
    ranks).

    Ranks on rank 0's host share its clock. On each other host, the lowest rank exchanges pings with rank 0; half the
    shortest round trip bounds the error (Cristian's algorithm). Collective: all ranks must call this.
    """
    hosts = world.all_gather(host)
    speakers = {name: hosts.index(name) for name in dict.fromkeys(hosts)}
    best = (0.0, 0.0)  # (offset, half a round trip)
    for name, speaker in speakers.items():
        if name == hosts[0] or world.rank not in (0, speaker):
            continue
        stamp = torch.zeros(1, dtype=torch.float64)
        for number in range(PINGS):
            if world.rank == 0:
                dist.recv(stamp, src=speaker, group=world.control)
                stamp[0] = time.monotonic()
                dist.send(stamp, dst=speaker, group=world.control)
                continue
            sent = time.monotonic()
            dist.send(stamp, dst=0, group=world.control)
            dist.recv(stamp, src=0, group=world.control)
            half = (time.monotonic() - sent) / 2
            if number == 0 or half < best[1]:
                best = (float(stamp[0]) - (sent + half), half)
    measured = world.all_gather(best)
    return measured[speakers[host]][0], max(error for _, error in measured)


STAT: Final = Path("/proc/stat")
_BUSY: Final = (0, 1, 2, 7)  # columns: user, nice, system, steal; interrupts may be of the ranks' own messages


@dataclass(frozen=True, slots=True)
class ProcessorTime:
    """Processor time up to now in seconds: of this process, and the busy and the total time of the processors on which
    it may run."""

    own_s: float
    busy_s: float
    all_s: float

    def since(self, before: ProcessorTime) -> ProcessorTime:
        """Return the processor times since the earlier reading `before`."""
        return ProcessorTime(self.own_s - before.own_s, self.busy_s - before.busy_s, self.all_s - before.all_s)


def processor_time() -> ProcessorTime | None:
    """Return the processor time up to now; None if the system does not provide it (Linux does)."""
    try:
        mine = {f"cpu{number}" for number in os.sched_getaffinity(0)}
        lines = [line.split() for line in STAT.read_text(encoding="ascii").splitlines() if line.startswith("cpu")]
        tick_s = 1.0 / os.sysconf("SC_CLK_TCK")
        busy = [sum(int(line[1 + column]) for column in _BUSY) for line in lines if line[0] in mine]
    except (AttributeError, OSError, ValueError, IndexError):
        return None
    if not busy:
        return None
    return ProcessorTime(time.process_time(), tick_s * sum(busy), len(busy) * time.monotonic())


def others_share(hosts: Sequence[str], spent: Sequence[ProcessorTime | None]) -> float | None:
    """Return the share of processor time that programs other than the ranks used, on the busiest host; None if any rank
    has no reading."""
    shares = []
    for host in dict.fromkeys(hosts):
        there = [each for name, each in zip(hosts, spent, strict=True) if name == host]
        known = [each for each in there if each is not None and each.all_s > 0.0]
        if len(known) < len(there):
            return None
        most = max(known, key=lambda each: each.all_s)
        shares.append(max(0.0, most.busy_s - sum(each.own_s for each in known)) / most.all_s)
    return min(1.0, max(shares)) if shares else None


def free_bytes() -> int:
    """Return the memory in bytes that is available without swapping (Linux MemAvailable)."""
    try:
        match = re.search(r"^MemAvailable:\s*(\d+) kB", Path("/proc/meminfo").read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        match = None
    return 1024 * int(match[1]) if match else os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
