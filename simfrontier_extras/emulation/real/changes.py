"""Cables whose rates change while a step runs, at moments after its common start, and back when all ranks have done."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from threading import Event
from typing import Final

from simfrontier.base.errors import SimfrontierError, nearest
from simfrontier.core.trace import LinkBytes, LinkTable
from simfrontier_extras.emulation.changed import MadeChange, RateChange
from simfrontier_extras.emulation.real.layout import NamespaceLayout, lay_out, shaper
from simfrontier_extras.emulation.real.namespaces import batch, in_namespace
from simfrontier_extras.emulation.wiring import Wiring, load_wiring
from simfrontier_real.ranks.world import World
from simfrontier_real.replay.step_meter import MeterMaker

WIRING: Final = "SIMFRONTIER_WIRING"  # set in a fabric: the file of its wiring
WAKING: Final = bytes(12) + b"\x88\xb5" + bytes(46)  # a frame to nobody, of a protocol for local experiments (IEEE 802)


def is_inside() -> bool:
    """True if this process is a rank in an emulated fabric."""
    return WIRING in os.environ


@cache
def wiring() -> Wiring:
    """The wiring of the fabric around this rank."""
    return load_wiring(Path(os.environ[WIRING]))


@cache
def _layout() -> NamespaceLayout:
    return lay_out(wiring())


def carried_bytes() -> dict[str, int]:
    """Bytes that each cable has carried so far, by its name, Ethernet's headers included."""
    layout = _layout()
    sent = [_sent(name) for name in layout.names]
    return {cable.name: sent[layout.senders[k]][f"c{k}"] for k, cable in enumerate(layout.cables)}


def _sent(namespace: str) -> dict[str, int]:
    """Bytes sent by device: in /proc/net/dev, the ninth number behind its name."""
    with in_namespace(namespace):
        table = Path("/proc/thread-self/net/dev").read_text(encoding="ascii")
    devices = (line.split(":") for line in table.splitlines()[2:])
    return {device.strip(): int(numbers.split()[8]) for device, numbers in devices}


@contextmanager
def slowed(factors: Mapping[str, float]) -> Iterator[None]:
    """Give cables these parts of their rates for a while; what is queued in them goes on at the new rate."""
    set_rates(factors)
    yield
    set_rates(dict.fromkeys(factors, 1.0))


def set_rates(factors: Mapping[str, float]) -> None:
    """Give cables these parts of the rates of the wiring, from now on; at 0 they are cut. Raises SimfrontierError for
    a cable that is not there."""
    if not factors:
        return
    layout = _layout()
    numbers = {cable.name: k for k, cable in enumerate(layout.cables)}
    for name, factor in factors.items():
        if name not in numbers:
            raise SimfrontierError(f"cable {name!r}: {nearest(name, numbers)}")
        number = numbers[name]
        namespace = layout.names[layout.senders[number]]
        batch(["tc", "-netns", namespace], [shaper("change", number, layout.cables[number], factor)])
        _wake(namespace, f"c{number}")


def _wake(namespace: str, device: str) -> None:
    """Send a frame that nobody takes: a shaper looks at its queue when something comes or when a timer says so, which
    is still set by the rate before."""
    with in_namespace(namespace), socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as waking:
        waking.bind((device, 0))
        waking.send(WAKING)


@dataclass
class TimedChanges:
    """One rank's part; rank 0 changes the rates. `made`: the changes that were made, in order."""

    world: World
    changes: tuple[RateChange, ...]
    made: list[MadeChange] = field(default_factory=list)
    _over: Event = field(default_factory=Event)
    _pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(max_workers=1))
    _running: Future[None] | None = None

    def start(self, number: int) -> None:
        """Called by all ranks when a step begins, right after they have waited for each other."""
        if self.changes and self.world.rank == 0:
            self._over.clear()
            self._running = self._pool.submit(self._run, number, time.monotonic())

    def end(self, _: int) -> None:
        """Called by all ranks after a step: no rank still sends when cables get their rates back. Raises
        SimfrontierError where a change could not be made."""
        if not self.changes:
            return
        self.world.barrier()
        if self._running is not None:
            self._over.set()
            self._running.result()
            set_rates(dict.fromkeys((name for change in self.changes for name in change.rates), 1.0))

    def _run(self, number: int, began_s: float) -> None:
        for change in self.changes:
            if self._over.wait(max(0.0, began_s + change.at_s - time.monotonic())):
                return
            set_rates(change.rates)
            made_s = time.monotonic() - began_s
            self.made.append(MadeChange(step=number, planned_s=change.at_s, made_s=made_s, rates=change.rates))


@dataclass
class ByteMeter:
    """One rank's part in counting; rank 0 reads the counters. Steps before `first` are not counted, and outside a
    fabric nothing is."""

    world: World
    first: int
    before: Mapping[str, int] = field(default_factory=dict)

    def begin(self, number: int) -> None:
        """Called before each step."""
        if number == self.first:
            self.before = self._read() or {}

    def end(self, num_steps: int, digest: str, title: str) -> LinkTable | None:
        """Return the bytes of every cable since the first step, the mean over `num_steps`, on rank 0 in a fabric; None
        elsewhere."""
        after = self._read()
        if after is None:
            return None
        links = tuple(
            LinkBytes(
                name=cable.name,
                link_class=cable.link_class,
                src=cable.src,
                dst=cable.dst,
                num_bytes=(after[cable.name] - self.before[cable.name]) / num_steps,
            )
            for cable in wiring().cables
        )
        return LinkTable(digest=digest, title=title, links=links)

    def _read(self) -> Mapping[str, int] | None:
        if not is_inside():
            return None
        self.world.barrier()  # everybody has done with the step before
        now = carried_bytes() if self.world.rank == 0 else None
        self.world.barrier()
        return now


ADDS = (MeterMaker(make=ByteMeter),)
