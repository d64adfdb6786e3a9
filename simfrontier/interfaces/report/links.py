"""Charts of the links of a node: a drawing coloured by utilisation, utilisation over a step, and load by class of
link."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np

from simfrontier.answers.step import LinkLoad, LinkUse, NodeLinks, by_class, shares_of_node
from simfrontier.core.machine import BUS, SWITCH, Machine
from simfrontier.interfaces.report.phrases import percent, quantity, short_percent
from simfrontier.interfaces.report.render import render
from simfrontier.interfaces.report.theme import SECONDS, Figure, axis, figure, packed, scatter

Point = tuple[float, float]
STOPS = ((0.0, (190, 198, 208)), (0.35, (242, 193, 78)), (0.7, (224, 90, 50)), (1.0, (140, 18, 48)))
_CENTRE_X, _CENTRE_Y = _CENTRE = 560, 330
_NET_Y = (22, 638)
_NIC_Y = (98.0, 562.0)
NIC_WIDTH, NIC_HEIGHT = 76, 36
_WIDER = 2.5
_BARE = 100  # less above and below a node without NICs
WHOLE: Final = 10_000  # what a share of 1 is in `drawn_use`
_ENDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)
_COLOUR = "#B4532A"
_ROW, _TITLE = 38, 24  # pixels of a row, and of its title above it


def key(most: str) -> str:
    """Return the SVG of the colour scale's legend; `most`: text for the utilisation at the dark end."""
    return render("drawings/key.svg.j2", stops=[(share, _rgb(value)) for share, value in STOPS], most=most)


def colour(share: float) -> str:
    """Return the colour of a utilisation (0 to 1), interpolated on the colour scale."""
    share = min(max(share, 0.0), 1.0)
    for (low, before), (high, after) in pairwise(STOPS):
        if share <= high:
            part = (share - low) / (high - low)
            return _rgb([round(a + part * (b - a)) for a, b in zip(before, after, strict=True)])
    return _rgb(STOPS[-1][1])


def across(start: Point, end: Point, distance: float) -> Point:
    """Return a vector of length `distance` that points to the right of the direction from `start` to `end`."""
    length = math.dist(start, end) or 1.0
    return -(end[1] - start[1]) / length * distance, (end[0] - start[0]) / length * distance


def _rgb(value: Sequence[int]) -> str:
    return "#" + "".join(f"{part:02x}" for part in value)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLayout:
    """Positions of the devices and NICs of a node in the drawing, and the radius of a device. `packages`: the devices
    of each package, if packages have several; `network`: the vertical positions of the bars that stand for the network;
    `has_switch`: whether a switch of the node is drawn at the centre."""

    devices: tuple[Point, ...]
    nics: tuple[Point, ...]
    packages: tuple[tuple[Point, ...], ...]
    network: tuple[int, ...]
    radius: float
    has_switch: bool = False
    nic_width: int = NIC_WIDTH
    nic_height: int = NIC_HEIGHT
    width: int = 2 * _CENTRE_X
    top: int = 0
    height: int = 2 * _CENTRE_Y
    centre: tuple[int, int] = _CENTRE

    def line(self, a: str, b: str) -> tuple[Point, Point]:
        """Return the end points of a link in the drawing; a link to the network continues straight beyond its NIC."""
        if "net" not in (a, b):
            return self._at(a), self._at(b)
        nic = self._at(b if a == "net" else a)
        return nic, (nic[0], float(_beyond(nic)))

    def _at(self, end: str) -> Point:
        if end == SWITCH:
            return self.centre
        return self.nics[int(end.removeprefix("nic"))] if end.startswith("nic") else self.devices[int(end)]


def layout(machine: Machine) -> NodeLayout:
    """Return a layout with the packages on an ellipse, clockwise from the top left. The two devices of a package are on
    its radius, the first one outside, if there are at least three packages and the centre is free; otherwise they are
    along the ellipse. NICs are above or below."""
    packages, per = machine.packages_per_node, machine.devices_per_package
    on_radius = packages > 2 and per == 2 and not machine.node.has_switch
    ring = 165.0 if packages > 1 else 0.0
    radius = 29.0 if machine.devices_per_node <= 8 else 20.0
    spread = 100.0 if per == 2 and (on_radius or packages <= 2) else 2.3 * radius
    points: list[Point] = []
    for package in range(packages):
        angle = math.radians(-90.0 + 360.0 * (package - 0.5) / max(packages, 2))
        out, along = (math.cos(angle), math.sin(angle)), (-math.sin(angle), math.cos(angle))
        for device in range(per):
            shift = spread * ((per - 1) / 2 - device)
            direction = out if on_radius else (-along[0], -along[1])
            x, y = _WIDER * (ring * out[0] + shift * direction[0]), ring * out[1] + shift * direction[1]
            points.append((round(_CENTRE_X + x, 1), round(_CENTRE_Y + y, 1)))
    nics = _nics(machine, points)
    return NodeLayout(
        devices=tuple(points),
        nics=nics,
        packages=tuple(tuple(points[at : at + per]) for at in range(0, len(points), per)) if per > 1 else (),
        network=tuple(sorted({_beyond(nic) for nic in nics})),
        radius=radius,
        has_switch=machine.node.has_switch,
        top=0 if nics else _BARE,
        height=2 * (_CENTRE_Y - (0 if nics else _BARE)),
    )


def _nics(machine: Machine, points: list[Point]) -> tuple[Point, ...]:
    used: Counter[int] = Counter()
    placed = []
    for device in machine.node.nic_device:
        x, y = points[device]
        placed.append((x + (NIC_WIDTH + 8.0) * used[device], _NIC_Y[0] if y <= _CENTRE_Y else _NIC_Y[1]))
        used[device] += 1
    return tuple(placed)


def node_drawing(machine: Machine, loads: NodeLinks, full: float, title: str) -> str:
    """Return the drawing of one node as SVG. `full` is the utilisation at the dark end of the colour scale."""
    where, bus = layout(machine), dict[str, Any]()  # what all devices share: a box in the middle
    pairs: dict[tuple[str, str], list[LinkLoad]] = {}
    for load in loads.links:
        pairs.setdefault((min(load.src, load.dst), max(load.src, load.dst)), []).append(load)
    widest = max((link.bytes_per_s for link in machine.node.links), default=1.0)
    widths = {link.link_class: 3.0 + 7.0 * math.sqrt(link.bytes_per_s / widest) for link in machine.node.links}
    links, labels = [], []
    for (a, b), both in pairs.items():
        width = widths[both[0].link_class]
        if a == BUS:
            bus = {"utilisation": both[0].utilisation, "width": width, **_look(both[0], full)}
            continue
        start, end = where.line(a, b)
        for number, load in enumerate(both):
            x, y = across(start, end, (number - (len(both) - 1) / 2) * (width + 1.6))
            moved = {"start": (start[0] + x, start[1] + y), "end": (end[0] + x, end[1] + y)}
            links.append({**moved, "width": width, **_look(load, full)})
        labels.append(_label(both, start, end))
    return render("drawings/node.svg.j2", title=title, where=where, links=links, labels=labels, bus=bus)


def _look(load: LinkLoad, full: float) -> dict[str, str]:
    carried = f"{quantity(load.num_bytes, 'bytes')} per step, {percent(load.utilisation)} of its capacity"
    words = f"{load.name} ({load.link_class}): {carried}"
    return {"name": load.name, "colour": colour(load.utilisation / full if full else 0.0), "words": words}


def _label(both: list[LinkLoad], start: Point, end: Point) -> dict[str, Any]:
    """Return the label of a link with the utilisation of its busier direction; on diagonals and on long routes to a
    NIC, where lines cross, the label is off the middle."""
    to_nic = both[0].link_class == "pcie" and math.dist(start, end) > 100
    diagonal = abs(start[0] - end[0]) > 1 and abs(start[1] - end[1]) > 1 and math.dist(start, end) > 250
    share = 0.3 if diagonal or to_nic else 0.5
    at = start[0] + share * (end[0] - start[0]), start[1] + share * (end[1] - start[1])
    words = short_percent(max(load.utilisation for load in both))
    return {"at": at, "words": words, "names": [load.name for load in both]}


def _beyond(nic: Point) -> int:
    """Return the vertical position of the network bar nearest to a NIC."""
    return _NET_Y[0] if nic[1] < _CENTRE_Y else _NET_Y[1]


def drawn_use(use: LinkUse, machine: Machine, num_nodes: int) -> dict[str, list[int]]:
    """Return the utilisation of each link of an average node in each time interval of a step, as integers (full
    capacity is WHOLE)."""
    shares = shares_of_node(use, machine, num_nodes)
    return {name: np.rint(WHOLE * share).astype(int).tolist() for name, share in shares.items()}


def use_over_time(use: LinkUse, machine: Machine, node: Mapping[str, list[int]], full: float) -> Figure:
    """Plot the utilisation of each class of links over a step, in one row per class with its own scale. `node`:
    utilisation by link (`drawn_use`), shown by the node drawing for the selected time interval; its colour scale ends
    at `full`."""
    step_s = len(use.times_s) * use.part_s
    classes = by_class(use, machine)
    height = max(1, len(classes.num_bytes)) * (_ROW + _TITLE)
    times = packed(np.append(use.times_s, step_s))
    traces, rows, titles = [], {}, []
    for number, name in enumerate(classes.num_bytes):
        share = classes.share(name)
        place = "" if number == 0 else str(number + 1)
        look = {"line": {"shape": "hv", "width": 1, "color": _COLOUR}, "fill": "tozeroy", "fillcolor": _COLOUR}
        hover = f"{name}: %{{y:.1%}}<extra></extra>"
        area = scatter(name, (), (), "lines", yaxis=f"y{place}", showlegend=False, hovertemplate=hover, **look)
        traces.append(area | {"x": times, "y": packed(np.append(share, 0.0))})
        top = 1.0 - (number * (_ROW + _TITLE) + _TITLE) / height
        end = scale_end(float(share.max()))
        ends = {"range": [0, end], "tickvals": [0, end / 2, end], "ticktext": ["0", "", f"{100 * end:g} %"]}
        rows[f"yaxis{place}"] = axis("", domain=[max(top - _ROW / height, 0.0), top], fixedrange=True, **ends)
        mean, most = percent(float(share.mean())), percent(float(share.max()))
        at = {"xref": "paper", "yref": "paper", "x": 0, "y": top, "xanchor": "left", "yanchor": "bottom"}
        words = f"<b>{name}</b>: {mean} on average, {most} at most"
        titles.append({"text": words, "showarrow": False, "align": "left", **at})
    x = axis("time since the start of the step", range=[0, step_s], hoverformat=".4~s", anchor="free", **SECONDS)
    meta = {"links": node, "whole": WHOLE, "step": step_s, "full": full, "stops": STOPS}
    more = {"annotations": titles, "meta": meta, "hovermode": "x unified", "hoversubplots": "axis", "dragmode": "zoom"}
    return figure(traces, x | {"position": 0.0}, rows.pop("yaxis"), height + 70, **rows, **more)


def scale_end(highest: float) -> float:
    """Return the end of an axis of shares that contains the `highest` one."""
    return next((end for end in _ENDS if highest <= end), max(highest, 1.0))
