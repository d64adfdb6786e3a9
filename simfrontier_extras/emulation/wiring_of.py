"""A job's fabric as boxes and cables: the simulator's own links, rates and routes, to lay an emulation out by."""

from __future__ import annotations

from simfrontier.core.network import Fabric, box, ends, joining_links, route
from simfrontier_extras.emulation.wiring import FRAME_BYTES, Cable, Wiring


def wiring_of(fabric: Fabric, title: str) -> Wiring:
    """Return every device, NIC and switch of the job as a box, every directed wire as a cable (cable numbers are link
    ids for wires of nodes), rates as the fabric has them, degraded ones too.

    Where the job has pools, every group of nodes has a switch; the direct pools of a dragonfly join them, or the pools
    of a fat tree lead to and from the box `spine`.
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
    """The cable of a link; its burst is at least one packet, the least that a shaper can let through."""
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
