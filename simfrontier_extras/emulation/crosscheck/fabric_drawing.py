"""A drawing of a fabric as SVG: every direction of a link with its bytes, and the difference of simulated and counted
bytes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from simfrontier.report.drawing import DrawnLine, Label, Point, across, colour
from simfrontier.report.phrases import quantity, signed
from simfrontier.report.render import render
from simfrontier_extras.emulation.crosscheck import TEMPLATES
from simfrontier_extras.emulation.crosscheck.fabric_layout import FabricLayout, layout
from simfrontier_extras.emulation.crosscheck.links import LinkPair

_THIN, _THICK = 1.4, 8.6
_HUBS = {"net": "switch"}  # label of a hub, if not its name


def drawing(pairs: Sequence[LinkPair], full: float, title: str) -> str:
    """The SVG of a plan's links. `full` is the number of bytes at the dark end of the colour scale."""
    where = layout((pair.src, pair.dst) for pair in pairs)
    cables: dict[tuple[str, str], list[LinkPair]] = {}
    for pair in pairs:
        cables.setdefault((min(pair.src, pair.dst), max(pair.src, pair.dst)), []).append(pair)
    return render(
        "drawings/fabric.svg.j2",
        TEMPLATES,
        title=title,
        where=where,
        links=[line for both in cables.values() for line in _lines(both, where, full)],
        labels=[label for both in cables.values() for label in _label(both, where)],
        hubs=_HUBS,
    )


def tooltip(pair: LinkPair) -> str:
    """Name, class, ends, and both numbers of bytes."""
    both = f"{quantity(pair.sim_bytes, 'bytes')} simulated, {quantity(pair.real_bytes, 'bytes')} counted"
    off = f" ({signed(pair.ratio - 1)})" if pair.sim_bytes else ""
    return f"{pair.name} ({pair.link_class}), {pair.src} → {pair.dst}: {both}{off} per step"


def _lines(both: Sequence[LinkPair], where: FabricLayout, full: float) -> Iterator[DrawnLine]:
    """A line per direction, right of the middle as it goes; several of one direction side by side."""
    room: dict[str, float] = {}
    for pair in both:
        ends = where.line(pair.src, pair.dst)
        if ends is None:
            continue
        share = pair.real_bytes / full if full else 0.0
        width = _THIN + (_THICK - _THIN) * math.sqrt(min(share, 1.0))
        begun = room.get(pair.src, 0.8)
        room[pair.src] = begun + width + 1.2
        x, y = across(*ends, begun + width / 2)
        start, end = ((at[0] + x, at[1] + y) for at in ends)
        yield DrawnLine(start=start, end=end, colour=colour(share), width=width, words=tooltip(pair))


def _label(both: Sequence[LinkPair], where: FabricLayout) -> Iterator[Label]:
    """How far the worse direction is off, of links that are judged."""
    judged = [pair for pair in both if pair.is_judged]
    if not judged or where.line(both[0].src, both[0].dst) is None:
        return
    worst = max(judged, key=lambda pair: pair.apart)
    words = signed(worst.ratio - 1) if worst.sim_bytes else "not simulated"
    yield Label(at=_spot(both[0], where), words=words, is_warning=worst.is_missed)


def _spot(pair: LinkPair, where: FabricLayout) -> Point:
    """The middle of a line; off it towards a NIC, and on long lines, which cross in the middle."""
    ends = where.line(pair.src, pair.dst)
    assert ends is not None
    (x1, y1), (x2, y2) = sorted(ends)
    share = 0.5 if math.dist(*ends) < 240 else 0.24 if abs(y1 - y2) < 1 else 0.36
    boxes = [where.boxes[end] for end in (pair.src, pair.dst) if end in where.boxes]
    nics = [box for box in boxes if box.is_nic]
    if len(boxes) == 2 and len(nics) == 1:
        share = 0.4 if nics[0].at == (x1, y1) else 0.6
    return x1 + share * (x2 - x1), y1 + share * (y2 - y1)
