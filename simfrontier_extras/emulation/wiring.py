"""The link graph of a job's nodes as boxes joined by cables, from which an emulated fabric is built; and its file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

from annotated_types import Ge

from simfrontier.base.io import Line, Strict, read_json, typed
from simfrontier.base.wholefile import write_json
from simfrontier.core.network import Fabric, box, ends, joining_links, route

FRAME_BYTES: Final = 14  # Ethernet's header, which a shaper counts with every packet


class Cable(Strict):
    """One direction of a link between two boxes: the simulator's name of the link, its rate, and the burst that a
    shaper lets through at once."""

    name: Line
    link_class: Line
    src: Line
    dst: Line
    bytes_per_s: Annotated[float, Ge(1)]
    burst_bytes: Annotated[int, Ge(0)]


class Wiring(Strict):
    """Boxes (devices, NICs, switches), cables, and routes as lists of cable numbers.

    `ranks[r]` is the box of rank r; `routes[r][s]` leads from rank r to rank s; `packet_bytes` is the largest packet
    (IP headers and all inside included).
    """

    title: Line
    boxes: tuple[Line, ...]
    ranks: tuple[Line, ...]
    cables: tuple[Cable, ...]
    routes: tuple[tuple[tuple[int, ...], ...], ...]
    packet_bytes: int


def save_wiring(wiring: Wiring, path: Path) -> None:
    """Write the wiring as JSON. Raises InputError."""
    write_json(wiring.model_dump(mode="json"), path)


def load_wiring(path: Path) -> Wiring:
    """Read a wiring from a file. Raises InputError with the file and the position in it."""
    return typed(read_json(path, "wiring"), Wiring, str(path))


def wiring_of(fabric: Fabric, title: str) -> Wiring:
    """Return the wiring of a job: every device, NIC and switch is a box, every directed wire a cable (for wires of
    nodes, cable numbers are link ids), with the rates of the fabric, degraded ones included.

    If the job has bandwidth pools, every group of nodes has a switch; the direct pools of a dragonfly join these
    switches, or the pools of a fat tree connect them with the box `spine`.
    """
    machine = fabric.machine
    assert machine.packets is not None, "an emulated machine has packets"
    joining = joining_links(fabric)
    cables = [_cable(fabric, link) for link in joining]
    number = {link: cable for cable, link in enumerate(joining)}
    seats = [int(device) for device in fabric.device_of]
    per_node = machine.devices_per_node
    return Wiring(
        title=title,
        boxes=tuple(dict.fromkeys(end for cable in cables for end in (cable.src, cable.dst))),
        ranks=tuple(box(fabric, seat // per_node, seat % per_node) for seat in seats),
        cables=tuple(cables),
        routes=tuple(tuple(tuple(number[link] for link in route(fabric, a, b)) for b in seats) for a in seats),
        packet_bytes=machine.packets.payload_bytes + machine.packets.header_bytes - FRAME_BYTES,
    )


def _cable(fabric: Fabric, link: int) -> Cable:
    """Return the cable of a link; its burst is at least one packet, the minimum that a shaper can let through."""
    name = fabric.class_names[fabric.link_class[link]]
    known, packets = fabric.machine.link_classes.get(name), fabric.machine.packets
    assert packets is not None
    src, dst = ends(fabric, link)
    return Cable(
        name=fabric.describe(link),
        link_class=name,
        src=src,
        dst=dst,
        bytes_per_s=float(fabric.capacity[link]),
        burst_bytes=max(0 if known is None else int(known.burst_bytes), packets.payload_bytes + packets.header_bytes),
    )
