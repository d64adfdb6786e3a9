"""The fabric around a rank: bytes that each cable has carried, as the kernel counts them, and the rates of cables.

Every rank may enter every namespace of its fabric, so that no other process has to answer for it.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final

from simfrontier.base.errors import SimfrontierError, nearest
from simfrontier_extras.emulation.real.layout import NamespaceLayout, lay_out, shaper
from simfrontier_extras.emulation.real.namespaces import batch, in_namespace
from simfrontier_extras.emulation.wiring import Wiring, load_wiring

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
