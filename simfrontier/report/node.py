"""A drawing of one node as SVG: devices in packages, NICs, links with width by class and colour by utilisation."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape as text
from itertools import pairwise

from simfrontier.analysis import LinkLoad, NodeLinks
from simfrontier.machine import BUS, Machine
from simfrontier.report.phrases import percent, quantity

_WIDTH, _HEIGHT, _CENTRE_X, _CENTRE_Y = 720, 600, 360, 300
_NET_Y = (22, 578)
_NIC_Y = (82.0, 518.0)
_WIDER = 1.35
_STOPS = ((0.0, (190, 198, 208)), (0.35, (242, 193, 78)), (0.7, (224, 90, 50)), (1.0, (140, 18, 48)))
Point = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLayout:
    """Where the devices and NICs of a node are drawn, and the radius of a device."""

    devices: tuple[Point, ...]
    nics: tuple[Point, ...]
    radius: float

    def at(self, end: str) -> Point:
        """The point of a link's end; the network's is straight beyond the NIC and found by the caller."""
        return self.nics[int(end.removeprefix("nic"))] if end.startswith("nic") else self.devices[int(end)]


def layout(machine: Machine) -> NodeLayout:
    """Packages around an ellipse, from the top left clockwise. Two devices of a package lie on its radius, the first
    outside, where there are three packages or more, otherwise along the ellipse. NICs are above or below."""
    packages, per = machine.packages_per_node, machine.devices_per_package
    ring = 165.0 if packages > 1 else 0.0
    radius = 25.0 if machine.devices_per_node <= 8 else 15.0
    spread = 100.0 if per == 2 else 2.3 * radius
    points: list[Point] = []
    for package in range(packages):
        angle = math.radians((-135.0 if packages > 2 else 180.0) + 360.0 * package / packages)
        out, along = (math.cos(angle), math.sin(angle)), (-math.sin(angle), math.cos(angle))
        for device in range(per):
            shift = spread * ((per - 1) / 2 - device)
            direction = out if packages > 2 and per == 2 else (-along[0], -along[1])
            x, y = _WIDER * (ring * out[0] + shift * direction[0]), ring * out[1] + shift * direction[1]
            points.append((round(_CENTRE_X + x, 1), round(_CENTRE_Y + y, 1)))
    return NodeLayout(devices=tuple(points), nics=_nics(machine, points), radius=radius)


def _nics(machine: Machine, points: list[Point]) -> tuple[Point, ...]:
    used: Counter[int] = Counter()
    placed = []
    for device in machine.node.nic_device:
        x, y = points[device]
        placed.append((x + 46.0 * used[device], _NIC_Y[0] if y <= _CENTRE_Y else _NIC_Y[1]))
        used[device] += 1
    return tuple(placed)


def drawing(machine: Machine, loads: NodeLinks, full: float, title: str) -> str:
    """The SVG of one node. `full` is the utilisation at the dark end of the colour scale."""
    where = layout(machine)
    pairs: dict[tuple[str, str], list[LinkLoad]] = {}
    for load in loads.links:
        pairs.setdefault((min(load.src, load.dst), max(load.src, load.dst)), []).append(load)
    widest = max((link.bytes_per_s for link in machine.node.links), default=1.0)
    widths = {link.link_class: 2.0 + 6.0 * math.sqrt(link.bytes_per_s / widest) for link in machine.node.links}
    lines, labels = [], []
    for (a, b), both in pairs.items():
        if a == BUS:
            lines += _bus(both[0], where, widths[BUS], full)
            continue
        start, end = _ends(where, a, b)
        lines += _lines(both, start, end, where, widths, full)
        labels.append(_label(both, start, end))
    parts = [
        f'<svg class="node" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{text(title)}">',
        _network(machine),
        *_packages(machine, where),
        *lines,
        *_devices(where),
        *labels,
        "</svg>",
    ]
    return "\n".join(part for part in parts if part)


def key(full: float) -> str:
    """The legend of the drawings: their common colour scale."""
    stops = "".join(f'<stop offset="{share:.0%}" stop-color="{_rgb(colour)}"/>' for share, colour in _STOPS)
    return (
        '<svg class="key" viewBox="0 0 320 34" role="img" aria-label="colour scale of utilisation">'
        f'<defs><linearGradient id="utilisation">{stops}</linearGradient></defs>'
        '<rect x="1" y="2" width="318" height="12" rx="3" fill="url(#utilisation)"/>'
        f'<text x="1" y="29">0 %</text><text x="160" y="29" text-anchor="middle">utilisation of a link</text>'
        f'<text x="319" y="29" text-anchor="end">{100 * full:.0f} %</text></svg>'
    )


def colour(share: float) -> str:
    """Colour of a share (0..1) of the scale, between its stops."""
    share = min(max(share, 0.0), 1.0)
    for (low, before), (high, after) in pairwise(_STOPS):
        if share <= high:
            part = (share - low) / (high - low)
            return _rgb(tuple(round(a + part * (b - a)) for a, b in zip(before, after, strict=True)))
    return _rgb(_STOPS[-1][1])


def _rgb(value: tuple[int, ...]) -> str:
    return "#" + "".join(f"{part:02x}" for part in value)


def _ends(where: NodeLayout, a: str, b: str) -> tuple[Point, Point]:
    if "net" in (a, b):
        nic = where.at(b if a == "net" else a)
        return nic, (nic[0], float(_NET_Y[0] if nic[1] < _CENTRE_Y else _NET_Y[1]))
    return where.at(a), where.at(b)


def _lines(
    both: list[LinkLoad], start: Point, end: Point, where: NodeLayout, widths: Mapping[str, float], full: float
) -> list[str]:
    """One line per direction, side by side; pointing at it shows its numbers."""
    length = math.dist(start, end) or 1.0
    across = (-(end[1] - start[1]) / length, (end[0] - start[0]) / length)
    made = []
    for number, load in enumerate(both):
        width = widths[load.link_class]
        shift = (number - (len(both) - 1) / 2) * (width + 1.6)
        x, y = across[0] * shift, across[1] * shift
        shade = colour(load.utilisation / full if full else 0.0)
        carried = f"{quantity(load.num_bytes, 'bytes')} per step, {percent(load.utilisation)} of its capacity"
        words = f"{load.name} ({load.link_class}): {carried}"
        made.append(
            f'<line x1="{start[0] + x:.1f}" y1="{start[1] + y:.1f}" x2="{end[0] + x:.1f}" y2="{end[1] + y:.1f}" '
            f'stroke="{shade}" stroke-width="{width:.1f}"><title>{text(words)}</title></line>'
        )
    return made


def _bus(load: LinkLoad, where: NodeLayout, width: float, full: float) -> list[str]:
    """What all devices share: a box in the middle with a line from each of them."""
    shade, busy = colour(load.utilisation / full if full else 0.0), percent(load.utilisation)
    carried = f"{quantity(load.num_bytes, 'bytes')} per step, {busy} of its capacity"
    lines = [
        f'<line x1="{x}" y1="{y}" x2="{_CENTRE_X}" y2="{_CENTRE_Y}" stroke="{shade}" stroke-width="{width:.1f}"/>'
        for x, y in where.devices
    ]
    return [
        *lines,
        f'<rect class="nic" x="{_CENTRE_X - 42}" y="{_CENTRE_Y - 24}" width="84" height="48" rx="6">'
        f"<title>{text(f'{load.name} ({load.link_class}): {carried}')}</title></rect>"
        f'<text class="nic" x="{_CENTRE_X}" y="{_CENTRE_Y - 5}" text-anchor="middle">{text(load.name)}</text>'
        f'<text class="load" x="{_CENTRE_X}" y="{_CENTRE_Y + 14}" text-anchor="middle">{busy}</text>',
    ]


def _label(both: list[LinkLoad], start: Point, end: Point) -> str:
    """The busier direction's utilisation; off the middle where lines cross: on diagonals, and on the route to a NIC."""
    diagonal = abs(start[0] - end[0]) > 1 and abs(start[1] - end[1]) > 1 and math.dist(start, end) > 150
    share = 0.3 if diagonal or both[0].link_class == "pcie" else 0.5
    x, y = start[0] + share * (end[0] - start[0]), start[1] + share * (end[1] - start[1])
    busiest = max(load.utilisation for load in both)
    return f'<text class="load" x="{x:.1f}" y="{y + 4:.1f}" text-anchor="middle">{percent(busiest)}</text>'


def _devices(where: NodeLayout) -> list[str]:
    made = []
    for number, (x, y) in enumerate(where.devices):
        made.append(f'<circle class="device" cx="{x}" cy="{y}" r="{where.radius}"/>')
        made.append(f'<text class="device" x="{x}" y="{y + 5}" text-anchor="middle">{number}</text>')
    for number, (x, y) in enumerate(where.nics):
        made.append(f'<rect class="nic" x="{x - 22}" y="{y - 12}" width="44" height="24" rx="4"/>')
        made.append(f'<text class="nic" x="{x}" y="{y + 4}" text-anchor="middle">NIC {number}</text>')
    return made


def _packages(machine: Machine, where: NodeLayout) -> list[str]:
    """A rounded outline around the devices of each package."""
    per, margin = machine.devices_per_package, where.radius + 9
    if per < 2:
        return []
    made = []
    for first in range(0, machine.devices_per_node, per):
        mine = where.devices[first : first + per]
        path = " ".join(f"{x},{y}" for x, y in mine)
        made.append(f'<polyline class="package" points="{path}" stroke-width="{2 * margin}"/>')
        made.append(f'<polyline class="inner" points="{path}" stroke-width="{2 * margin - 2}"/>')
    return made


def _network(machine: Machine) -> str:
    if not machine.node.nic_device:
        return ""
    where = layout(machine)
    rows = sorted({_NET_Y[0] if y < _CENTRE_Y else _NET_Y[1] for _, y in where.nics})
    return "".join(
        f'<rect class="network" x="60" y="{y - 16}" width="600" height="32" rx="6"/>'
        f'<text class="network" x="{_CENTRE_X}" y="{y + 5}" text-anchor="middle">network</text>'
        for y in rows
    )
