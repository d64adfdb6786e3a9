"""The positions of a fabric's boxes in its drawing, from the ends of its links alone: nodes of devices and NICs, and
hubs.

Every node is a ring of devices, in an order that keeps linked devices together, turned so that those with NICs lie near
them; NICs are in a row between the ring and the hubs (a switch), which are a bar in the middle. The first half of the
nodes is above it, the rest, upside down, below.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import combinations

from simfrontier.records import dataclass

Point = tuple[float, float]
Ends = tuple[str, str]
_BOX = re.compile(r"node (\d{1,9}) ([^\s\d]+) ?(\d{1,9})", re.ASCII)  # "node 0 gcd 1", "node 0 nic3"
_NIC = "nic"
_CELL = 720.0  # width of a node
_ACROSS, _DOWN = 225.0, 128.0  # half axes of a ring; the outermost lines to NICs pass beside it
_MARGIN = 52.0  # left of the first NIC
_RING_Y, _NIC_Y, _HUB_Y, _BAR = 186.0, 386.0, 462.0, 34.0  # from the top of a node


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A device or a NIC, at its middle; `number` within its node."""

    name: str
    number: int
    is_nic: bool
    at: Point


@dataclass(frozen=True, slots=True, kw_only=True)
class Hub:
    """What joins nodes, a bar across the drawing; `at` is its middle."""

    name: str
    at: Point
    width: float
    height: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricLayout:
    """Everything with a place; `nodes` are the points of the nodes' names, `radius` is that of a device."""

    width: float
    height: float
    radius: float
    boxes: Mapping[str, Box]
    hubs: Mapping[str, Hub]
    nodes: Mapping[str, Point]

    def line(self, src: str, dst: str) -> tuple[Point, Point] | None:
        """From end to end; a hub is met straight above or below the other end. None from a box to itself, or where both
        are hubs."""
        if src in self.boxes and dst in self.boxes:
            return None if src == dst else (self.boxes[src].at, self.boxes[dst].at)
        if src in self.boxes:
            return self.boxes[src].at, self._met(self.hubs[dst], self.boxes[src].at)
        if dst in self.boxes:
            return self._met(self.hubs[src], self.boxes[dst].at), self.boxes[dst].at
        return None

    def _met(self, hub: Hub, other: Point) -> Point:
        edge = hub.height / 2 if other[1] > hub.at[1] else -hub.height / 2
        half = hub.width / 2 - 8
        return min(max(other[0], hub.at[0] - half), hub.at[0] + half), hub.at[1] + edge


def layout(ends: Iterable[Ends]) -> FabricLayout:
    """A place for every box that is an end of a link. Equal links give equal places."""
    pairs = sorted({(min(pair), max(pair)) for pair in ends})
    nodes: dict[int, list[str]] = {}
    hubs: list[str] = []
    for name in sorted({name for pair in pairs for name in pair}, key=_rank):
        matched = _BOX.fullmatch(name)
        if matched:
            nodes.setdefault(int(matched[1]), []).append(name)
        else:
            hubs.append(name)
    rows = 2 if len(nodes) > 1 else 1
    columns = max(-(-len(nodes) // rows), 1)
    has_nics = any(_is_nic(name) for names in nodes.values() for name in names)
    middle = _HUB_Y if has_nics or hubs else _RING_Y + _DOWN + 52.0
    boxes: dict[str, Box] = {}
    titles: dict[str, Point] = {}
    most = 1
    for number, node in enumerate(sorted(nodes)):
        row, column = divmod(number, columns)
        own = {(_label(a), _label(b)) for a, b in pairs if a in nodes[node] and b in nodes[node]}
        places = _node(tuple(_label(name) for name in nodes[node]), tuple(sorted(own)))
        most = max(most, sum(not _is_nic(name) for name in nodes[node]))
        for name in nodes[node]:
            x, y = places[_label(name)]
            at = round(column * _CELL + x, 1), round(y if row == 0 else 2 * middle - y, 1)
            boxes[name] = Box(name=name, number=_rank(name)[3], is_nic=_is_nic(name), at=at)
        titles[f"node {node}"] = column * _CELL + 14.0, 26.0 if row == 0 else 2 * middle - 16.0
    width, share = columns * _CELL, columns * _CELL / max(len(hubs), 1)
    return FabricLayout(
        width=width,
        height=2 * middle if rows == 2 else middle + (_BAR if hubs else 0.0),
        radius=round(min(23.0, 0.36 * math.pi * (_ACROSS + _DOWN) / most), 1),
        boxes=boxes,
        hubs={
            name: Hub(name=name, at=((number + 0.5) * share, middle), width=share - 40.0, height=_BAR)
            for number, name in enumerate(hubs)
        },
        nodes=titles,
    )


def _rank(name: str) -> tuple[int, bool, str, int]:
    """Nodes by number, in them devices before NICs; hubs last."""
    matched = _BOX.fullmatch(name)
    return (int(matched[1]), matched[2] == _NIC, matched[2], int(matched[3])) if matched else (1 << 60, True, name, 0)


def _label(name: str) -> str:
    """Within its node: "gcd 3", "nic 0"."""
    matched = _BOX.fullmatch(name)
    assert matched is not None, name
    return f"{matched[2]} {matched[3]}"


def _is_nic(name: str) -> bool:
    return _label(name).startswith(f"{_NIC} ")


@cache
def _node(names: tuple[str, ...], pairs: tuple[Ends, ...]) -> Mapping[str, Point]:
    """Places in a node that is above the hubs, by label."""
    nics = [name for name in names if name.startswith(f"{_NIC} ")]
    devices = [name for name in names if name not in nics]
    linked = [pair for pair in pairs if pair[0] in devices and pair[1] in devices]
    hung = {nic: device for pair in pairs for nic, device in (pair, pair[::-1]) if nic in nics and device in devices}
    order = _turned(_ring(devices, linked), set(hung.values()))
    angles = {name: _angle(k, len(order)) for k, name in enumerate(order)}
    centre, one = _CELL / 2, len(order) == 1
    places = {
        name: (
            centre + (0.0 if one else _ACROSS * math.sin(angle)),
            _RING_Y + (0.0 if one else _DOWN * math.cos(angle)),
        )
        for name, angle in angles.items()
    }
    # From the left: the angle of its device, so that no two lines from a ring's side to its NICs cross.
    row = sorted(nics, key=lambda nic: (angles.get(hung.get(nic, ""), math.pi), names.index(nic)))
    for k, nic in enumerate(row):
        share = k / (len(row) - 1) if len(row) > 1 else 0.5
        places[nic] = _MARGIN + share * (_CELL - 2 * _MARGIN), _NIC_Y
    return places


def _angle(k: int, count: int) -> float:
    """Of the k-th place on a ring: 0 is towards the hubs, left of it is negative."""
    return 2 * math.pi * (k + 0.5) / count - math.pi


def _ring(devices: Sequence[str], linked: Sequence[Ends]) -> list[str]:
    """An order around a ring that keeps linked devices near, neighbours by number (a package) a little nearer.

    Parts are reversed, swapped and moved as long as it helps: not always the best order, and always the same one.
    """
    order, count = list(devices), len(devices)
    weights = [1.25 if abs(devices.index(a) - devices.index(b)) == 1 else 1.0 for a, b in linked]

    def cost(candidate: list[str]) -> float:
        place = {name: k for k, name in enumerate(candidate)}
        steps = (abs(place[a] - place[b]) for a, b in linked)
        return sum(weight * math.sqrt(min(step, count - step)) for weight, step in zip(weights, steps, strict=True))

    best = cost(order)
    improved = True
    while improved:
        improved = False
        for i, j in combinations(range(count), 2):
            part, rest = order[i : j + 1], order[:i] + order[j + 1 :]
            swapped = [*order[:i], order[j], *order[i + 1 : j], order[i], *order[j + 1 :]]
            for candidate in (order[:i] + part[::-1] + order[j + 1 :], swapped, *_inserted(part, rest)):
                if (value := cost(candidate)) < best - 1e-9:
                    order, best, improved = candidate, value, True
                    break
    return order


def _inserted(part: list[str], rest: list[str]) -> list[list[str]]:
    """The part at every place among the rest; only short parts, for the many there are."""
    return [rest[:at] + part + rest[at:] for at in range(len(rest) + 1)] if len(part) <= 2 else []


def _turned(order: list[str], towards: set[str]) -> list[str]:
    """The ring turned so that those devices lie near the side of the NICs, none of them far off."""

    def cost(candidate: list[str]) -> float:
        count = len(candidate)
        return sum((1.5 - math.cos(_angle(k, count))) ** 2 for k, name in enumerate(candidate) if name in towards)

    turns = [order[k:] + order[:k] for k in range(len(order))]
    return min(turns, key=lambda candidate: round(cost(candidate), 9), default=[])
