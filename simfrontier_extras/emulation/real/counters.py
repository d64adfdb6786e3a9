"""Bytes and packets that every cable has carried, as the kernel counts them; read for the ranks, which ask."""

from __future__ import annotations

import json
import os
import socket
import threading

from simfrontier.errors import SimfrontierError, nearest
from simfrontier_extras.emulation.real.build import NamespaceFabric, reshape
from simfrontier_extras.emulation.real.client import SOCKET, CableCount


def read_counters(fabric: NamespaceFabric, names: tuple[str, ...]) -> dict[str, CableCount]:
    """Counts by cable; `names[k]` is the name of cable k."""
    layout = fabric.layout
    sent = [_sent(_whole(table)) for table in fabric.tables]
    ends = zip(names, layout.senders, layout.devices, strict=True)
    return {name: sent[box][device] for name, box, device in ends}


def _whole(table: int) -> str:
    """All of a table of devices. The kernel hands out about a page at a time, which thirty devices fill."""
    read = bytearray()
    while part := os.pread(table, 1 << 16, len(read)):
        read += part
    return read.decode("ascii")


def _sent(table: str) -> dict[str, CableCount]:
    """Out of /proc/net/dev: name, eight numbers of what was received, then bytes and packets sent."""
    out = {}
    for line in table.splitlines()[2:]:
        device, _, rest = line.partition(":")
        numbers = rest.split()
        out[device.strip()] = CableCount(num_bytes=int(numbers[8]), num_packets=int(numbers[9]))
    return out


def serve(fabric: NamespaceFabric, names: tuple[str, ...]) -> None:
    """Answer for the counters, on a thread of its own, for as long as the process lives."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind(SOCKET)
    listening.listen(16)

    def answer() -> None:
        while True:
            asking, _ = listening.accept()
            with asking, asking.makefile("rwb") as talk:
                try:
                    talk.write(json.dumps(_answer(fabric, names, json.loads(talk.readline()))).encode("ascii"))
                except (OSError, ValueError):
                    continue  # who asked is gone

    threading.Thread(target=answer, daemon=True).start()


def _answer(fabric: NamespaceFabric, names: tuple[str, ...], factors: dict[str, float]) -> dict[str, list[int]] | str:
    """Set the rates that were asked for, and give the counts; or what cannot be done."""
    numbers = {name: number for number, name in enumerate(names)}
    for name in factors:
        if name not in numbers:
            return f"cable {name!r}: {nearest(name, names)}"
    try:
        for name, factor in factors.items():
            reshape(fabric, numbers[name], factor)
    except SimfrontierError as error:
        return str(error)
    return {name: [count.num_bytes, count.num_packets] for name, count in read_counters(fabric, names).items()}
