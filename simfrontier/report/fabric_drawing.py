"""A drawing of a fabric as SVG: every direction of a link with its bytes, and the difference of simulated and counted
bytes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape as text

from simfrontier.report.fabric_layout import FabricLayout, Point, layout
from simfrontier.report.node import colour
from simfrontier.report.phrases import quantity, signed
from simfrontier.trace import LinkPair

_THIN, _THICK = 1.4, 8.6
_HUBS = {"net": "switch"}  # label of a hub, if not its name
_WARN = ' style="fill:var(--warn)"'


def drawing(pairs: Sequence[LinkPair], full: float, title: str) -> str:
    """The SVG of a plan's links. `full` is the number of bytes at the dark end of the colour scale."""
    where = layout((pair.src, pair.dst) for pair in pairs)
    cables: dict[tuple[str, str], list[LinkPair]] = {}
    for pair in pairs:
        cables.setdefault((min(pair.src, pair.dst), max(pair.src, pair.dst)), []).append(pair)
    parts = [
        f'<svg class="node" viewBox="0 0 {where.width:g} {where.height:g}" role="img" aria-label="{text(title)}">',
        *_hubs(where),
        *(line for both in cables.values() for line in _lines(both, where, full)),
        *_boxes(where),
        *(label for both in cables.values() for label in _label(both, where)),
        "</svg>",
    ]
    return "\n".join(parts)


def key(full: float) -> str:
    """The legend of the drawings: their common colour scale."""
    stops = "".join(f'<stop offset="{k / 20:.0%}" stop-color="{colour(k / 20)}"/>' for k in range(21))
    return (
        '<svg class="key" viewBox="0 0 320 34" role="img" aria-label="colour scale of bytes per link">'
        f'<defs><linearGradient id="link-bytes">{stops}</linearGradient></defs>'
        '<rect x="1" y="2" width="318" height="12" rx="3" fill="url(#link-bytes)"/>'
        '<text x="1" y="29">0</text><text x="160" y="29" text-anchor="middle">counted bytes per step</text>'
        f'<text x="319" y="29" text-anchor="end">{text(quantity(full, "bytes"))}</text></svg>'
    )


def tooltip(pair: LinkPair) -> str:
    """Name, class, ends, and both numbers of bytes."""
    both = f"{quantity(pair.sim_bytes, 'bytes')} simulated, {quantity(pair.real_bytes, 'bytes')} counted"
    off = f" ({signed(pair.ratio - 1)})" if pair.sim_bytes else ""
    return f"{pair.name} ({pair.link_class}), {pair.src} → {pair.dst}: {both}{off} per step"


def _lines(both: Sequence[LinkPair], where: FabricLayout, full: float) -> Iterator[str]:
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
        (x1, y1), (x2, y2) = _shifted(*ends, begun + width / 2)
        yield (
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour(share)}" '
            f'stroke-width="{width:.1f}"><title>{text(tooltip(pair))}</title></line>'
        )


def _shifted(start: Point, end: Point, shift: float) -> tuple[Point, Point]:
    length = math.dist(start, end) or 1.0
    x, y = -(end[1] - start[1]) / length * shift, (end[0] - start[0]) / length * shift
    return (start[0] + x, start[1] + y), (end[0] + x, end[1] + y)


def _label(both: Sequence[LinkPair], where: FabricLayout) -> Iterator[str]:
    """How far the worse direction is off, of links that are judged."""
    judged = [pair for pair in both if pair.is_judged]
    if not judged or where.line(both[0].src, both[0].dst) is None:
        return
    worst = max(judged, key=lambda pair: pair.apart)
    x, y = _spot(both[0], where)
    warned = _WARN if worst.is_missed else ""
    words = signed(worst.ratio - 1) if worst.sim_bytes else "not simulated"
    yield f'<text class="load" x="{x:.1f}" y="{y + 4:.1f}" text-anchor="middle"{warned}>{text(words)}</text>'


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


def _boxes(where: FabricLayout) -> Iterator[str]:
    for box in where.boxes.values():
        x, y = box.at
        title = f"<title>{text(box.name)}</title>"
        if box.is_nic:
            yield f'<rect class="nic" x="{x - 24:.1f}" y="{y - 13:.1f}" width="48" height="26" rx="4">{title}</rect>'
            words = f"NIC {box.number}"
            yield f'<text class="nic" x="{x:.1f}" y="{y + 4:.1f}" text-anchor="middle">{text(words)}</text>'
        else:
            yield f'<circle class="device" cx="{x:.1f}" cy="{y:.1f}" r="{where.radius:g}">{title}</circle>'
            yield f'<text class="device" x="{x:.1f}" y="{y + 5:.1f}" text-anchor="middle">{box.number}</text>'
    for name, (x, y) in where.nodes.items():
        yield f'<text class="network" x="{x:.1f}" y="{y:.1f}">{text(name)}</text>'


def _hubs(where: FabricLayout) -> Iterator[str]:
    for hub in where.hubs.values():
        x, y = hub.at[0] - hub.width / 2, hub.at[1] - hub.height / 2
        yield (
            f'<rect class="network" x="{x:.1f}" y="{y:.1f}" width="{hub.width:.1f}" height="{hub.height:g}" rx="6"/>'
            f'<text class="network" x="{hub.at[0]:.1f}" y="{hub.at[1] + 5:.1f}" text-anchor="middle">'
            f"{text(_HUBS.get(hub.name, hub.name))}</text>"
        )
