"""What a rank asks its fabric: how much every cable has carried, and to slow some. Quick to import, as every rank
does it."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from simfrontier.errors import SimfrontierError

SOCKET = "/run/simfrontier-counters"  # in the fabric's own mount namespace
ENVIRONMENT = "SIMFRONTIER_FABRIC"  # where a rank finds the socket
WIRING = "SIMFRONTIER_WIRING"  # and the file of what is laid out: link classes and ends of the cables that are counted
LIMIT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CableCount:
    """What one cable has carried since it was laid, Ethernet's headers included."""

    num_bytes: int
    num_packets: int


def is_inside() -> bool:
    """Whether this process is a rank in an emulated fabric."""
    return ENVIRONMENT in os.environ


def wiring_path() -> Path:
    """The file of what is laid out around this rank."""
    return Path(os.environ[WIRING])


def counters() -> dict[str, CableCount] | None:
    """Counts by cable, at this moment; None where this process runs in no emulated fabric."""
    if not is_inside():
        return None
    form = _asked({})
    return {name: CableCount(num_bytes=num_bytes, num_packets=packets) for name, (num_bytes, packets) in form.items()}


@contextmanager
def slowed(factors: Mapping[str, float]) -> Iterator[None]:
    """Cables at a part of their rates for a while; what is queued in them goes on at the new rate.

    Raises SimfrontierError for a cable that is not there."""
    set_rates(factors)
    yield
    set_rates(dict.fromkeys(factors, 1.0))


def set_rates(factors: Mapping[str, float]) -> None:
    """Give cables a part of the rates that they were laid with, from now on; at 0 they are cut. Raises SimfrontierError
    for a cable that is not there."""
    if factors:
        _asked(dict(factors))


def _asked(factors: dict[str, float]) -> dict[str, list[int]]:
    """Set rates, then hear the counts."""
    text = bytearray()
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
            asking.settimeout(LIMIT_S)
            asking.connect(os.environ[ENVIRONMENT])
            asking.sendall(json.dumps(factors).encode("ascii") + b"\n")
            while part := asking.recv(1 << 16):
                text += part
    except OSError as error:
        raise SimfrontierError(f"the fabric does not answer: {error.strerror or error}") from error
    if not text:
        raise SimfrontierError("the fabric does not answer: it hung up without a word")
    form: dict[str, list[int]] | str = json.loads(text)
    if isinstance(form, str):
        raise SimfrontierError(f"the fabric cannot do that: {form}")
    return form
