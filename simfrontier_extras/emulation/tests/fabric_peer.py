"""One rank of a fabric's tests: sends bytes to other ranks by plain TCP, as rank 0 is told by a list of transfers.

`python fabric_peer.py TRANSFERS OUT`: TRANSFERS is JSON, a list of groups of [source, target, bytes]; those
of a group run at once. Rank 0 writes to OUT, per group: seconds, and what every cable carried meanwhile.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import struct
import sys
import threading
import time
from pathlib import Path

from simfrontier_extras.emulation.real.fabric import carried_bytes

DATA_PORT, CONTROL_PORT = 7000, 7001
SETTLE_S = 0.12  # a delayed acknowledgement comes within 40 ms
RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
Transfer = tuple[int, int, int]


def data_address() -> str:
    with socket.socket() as probe:
        request = struct.pack("256s", os.environ["SIMFRONTIER_DATA_IFNAME"].encode())
        return socket.inet_ntoa(fcntl.ioctl(probe.fileno(), 0x8915, request)[20:24])


def receive(sender: socket.socket) -> None:
    """Messages of a length and so many bytes; a byte back for each."""
    buffer = bytearray(1 << 20)
    with sender:
        while head := sender.recv(8, socket.MSG_WAITALL):
            left = struct.unpack("!Q", head)[0]
            while left:
                left -= sender.recv_into(buffer, min(left, len(buffer)))
            sender.sendall(b"k")


def serve() -> socket.socket:
    listening = socket.create_server((data_address(), DATA_PORT))

    def accept() -> None:
        while True:
            threading.Thread(target=receive, args=(listening.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return listening


class Sender:
    """Sends to other ranks over connections that are kept."""

    def __init__(self) -> None:
        self.addresses: list[str] = []
        self.open: dict[int, socket.socket] = {}

    def send(self, target: int, num_bytes: int) -> None:
        if target not in self.open:
            self.open[target] = socket.create_connection((self.addresses[target], DATA_PORT))
            self.open[target].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if num_bytes:
            self.open[target].sendall(struct.pack("!Q", num_bytes - 8) + bytes(num_bytes - 8))
            assert self.open[target].recv(1) == b"k"

    def send_all(self, mine: list[Transfer]) -> None:
        threads = [threading.Thread(target=self.send, args=(target, size)) for _, target, size in mine]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def lead(groups: list[list[Transfer]], out: Path) -> None:
    """Rank 0: gather addresses, have every group sent, and write what the cables carried."""
    with socket.create_server((os.environ["MASTER_ADDR"], CONTROL_PORT), backlog=SIZE) as listening:
        streams = [listening.accept()[0].makefile("rw") for _ in range(SIZE)]
    hello = dict(json.loads(stream.readline()) for stream in streams)
    by_rank = {json.loads(stream.readline()): stream for stream in streams}

    def tell(rank: int, form: object) -> None:
        by_rank[rank].write(json.dumps(form) + "\n")
        by_rank[rank].flush()

    for rank in range(SIZE):
        tell(rank, [hello[each] for each in range(SIZE)])
    results = []
    for group in groups:
        time.sleep(SETTLE_S)
        before, began = carried_bytes(), time.monotonic()
        senders = sorted({source for source, _, _ in group})
        for rank in senders:
            tell(rank, [each for each in group if each[0] == rank])
        for rank in senders:
            by_rank[rank].readline()
        seconds = time.monotonic() - began
        time.sleep(SETTLE_S)
        carried = {name: num_bytes - before[name] for name, num_bytes in carried_bytes().items()}
        results.append({"seconds": seconds, "carried": carried})
    out.write_text(json.dumps(results), encoding="utf-8")
    for rank in range(SIZE):
        tell(rank, None)


def follow() -> None:
    """Every rank: say where it listens, then send what it is told."""
    sender = Sender()
    deadline = time.monotonic() + 20.0
    while True:
        try:
            stream = socket.create_connection((os.environ["MASTER_ADDR"], CONTROL_PORT)).makefile("rw")
            break
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.02)
    stream.write(json.dumps([RANK, data_address()]) + "\n" + json.dumps(RANK) + "\n")
    stream.flush()
    sender.addresses = json.loads(stream.readline())
    while (mine := json.loads(stream.readline())) is not None:
        sender.send_all(mine)
        stream.write("null\n")
        stream.flush()


if __name__ == "__main__":
    listening = serve()
    if RANK == 0:
        groups = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
        threading.Thread(target=lead, args=(groups, Path(sys.argv[2])), daemon=True).start()
    follow()
    if RANK == 0:
        time.sleep(0.2)  # the others still read their last line
