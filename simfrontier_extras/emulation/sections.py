"""The sections of an emulated run on the page of a cross-check, with their charts."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from html import escape as text
from typing import Final

from simfrontier.interfaces.report.phrases import binary, quantity, signed
from simfrontier.interfaces.report.render import render
from simfrontier.interfaces.report.theme import (
    CAPACITY,
    COLLECTIVES,
    LINE,
    OTHER_COLLECTIVES,
    Figure,
    PlotTrace,
    axis,
    faint,
    figure,
    line,
    points as marks,
    powers_of_two,
    scatter,
)
from simfrontier_extras.emulation import TEMPLATES
from simfrontier_extras.emulation.limits import (
    ALLOWED,
    LEAST_JUDGED_BYTES,
    AgreementLimit,
    Implementation,
    LinkCheck,
    LinkPair,
    SlowLinkEffect,
    SweepPoint,
    links_found,
    sweep_medians,
    swept_ways,
)

BOX: Final = re.compile(r"node (\d+) (\w+?) ?(\d+)", re.ASCII)  # "node 0 gcd 1", "node 0 nic3"; others join nodes
NIC: Final = "nic"
COLOUR: Final = "#0072B2"
THIN, THICK = 1.0, 8.0
APART: Final = 0.022  # of the two directions of a link
Point = tuple[float, float]


def fabric_figure(pairs: Sequence[LinkPair], full: float) -> Figure:
    """Plot the links between boxes: wider and darker lines carry more bytes, up to `full`; for judged links, the number
    is the difference of counted and simulated bytes in the worse direction."""
    at = positions(pairs)
    traces = [_line(pair, at, pair.real_bytes / full if full else 0.0) for pair in pairs if pair.src != pair.dst]
    hidden = {"showticklabels": False, "showgrid": False}
    height = 620
    return figure([*traces, _differences(pairs, at), _boxes(at)], axis("", **hidden), axis("", **hidden), height)


def positions(pairs: Sequence[LinkPair]) -> dict[str, Point]:
    """Return the positions of all ends of links: a node's devices in a circle, its NICs below, switches at the
    bottom."""
    nodes: dict[int, list[str]] = {}
    hubs: list[str] = []
    for name in sorted({end for pair in pairs for end in (pair.src, pair.dst)}, key=_order):
        matched = BOX.fullmatch(name)
        (hubs if matched is None else nodes.setdefault(int(matched[1]), [])).append(name)
    out: dict[str, Point] = {}
    for column, names in enumerate(nodes.values()):
        devices, nics = ([name for name in names if (_kind(name) == NIC) == is_nic] for is_nic in (False, True))
        for k, name in enumerate(devices):
            angle = 2 * math.pi * (k + 0.5) / len(devices)
            out[name] = column + 0.35 * math.sin(angle), 1 + 0.35 * math.cos(angle)
        out |= {name: (column + x, 0.4) for name, x in _spread(nics, 0.8)}
    out |= {name: ((len(nodes) - 1) / 2 + x, 0.0) for name, x in _spread(hubs, 0.8 * len(nodes))}
    return out


def tooltip(pair: LinkPair) -> str:
    """Return the hover text of a link: name, class, ends, and simulated and counted bytes."""
    both = f"{quantity(pair.sim_bytes, 'bytes')} simulated, {quantity(pair.real_bytes, 'bytes')} counted"
    off = f" ({signed(pair.ratio - 1)})" if pair.sim_bytes else ""
    return f"{pair.name} ({pair.link_class}), {pair.src} → {pair.dst}: {both}{off} per step"


def _order(name: str) -> tuple[int, str, int]:
    matched = BOX.fullmatch(name)
    return (0, name, 0) if matched is None else (int(matched[1]), matched[2], int(matched[3]))


def _kind(name: str) -> str:
    matched = BOX.fullmatch(name)
    return "" if matched is None else matched[2]


def _spread(names: Sequence[str], width: float) -> list[tuple[str, float]]:
    """Return the names with coordinates at equal distances around 0."""
    return [(name, width * ((k + 0.5) / len(names) - 0.5)) for k, name in enumerate(names)]


def _line(pair: LinkPair, at: Mapping[str, Point], share: float) -> PlotTrace:
    """Return the line of one link direction, right of the centre in the direction of travel; the hover text is at its
    middle."""
    (x1, y1), (x2, y2) = at[pair.src], at[pair.dst]
    length = math.dist((x1, y1), (x2, y2))
    right, up = APART / 2 * (y2 - y1) / length, APART / 2 * (x1 - x2) / length
    x, y = [x1 + right, (x1 + x2) / 2 + right, x2 + right], [y1 + up, (y1 + y2) / 2 + up, y2 + up]
    root = math.sqrt(min(share, 1.0))
    look = {"width": THIN + (THICK - THIN) * root, "color": faint(COLOUR, 0.2 + 0.8 * root)}
    told = {"hovertext": text(tooltip(pair)), "hoverinfo": "text"}
    return scatter(text(pair.name), x, y, "lines", line=look, showlegend=False, **told)


def _differences(pairs: Sequence[LinkPair], at: Mapping[str, Point]) -> PlotTrace:
    """Return texts with the difference of each link's worse direction, at a third of the link's length."""
    worst: dict[frozenset[str], LinkPair] = {}
    for pair in sorted((pair for pair in pairs if pair.is_judged), key=lambda pair: pair.apart):
        worst[frozenset((pair.src, pair.dst))] = pair
    shown = [pair for pair in worst.values() if pair.src != pair.dst]
    ends = [sorted((at[pair.src], at[pair.dst])) for pair in shown]
    words = [signed(pair.ratio - 1) if pair.sim_bytes else "not simulated" for pair in shown]
    look = {"size": 11, "color": [CAPACITY if pair.is_missed else LINE for pair in shown]}
    x, y = ([(2 * first[axis] + last[axis]) / 3 for first, last in ends] for axis in (0, 1))
    return scatter("", x, y, "text", text=words, textfont=look, showlegend=False, hoverinfo="skip")


def _boxes(at: Mapping[str, Point]) -> PlotTrace:
    names = [text(re.sub(r"^node \d+ ", "", name)) for name in at]
    marker = {
        "size": 30,
        "color": "#DDE3E8",
        "symbol": ["square" if _kind(name) in ("", NIC) else "circle" for name in at],
    }
    own = {"text": names, "hovertext": [text(name) for name in at], "hoverinfo": "text", "showlegend": False}
    x, y = ([place[axis] for place in at.values()] for axis in (0, 1))
    return scatter("", x, y, "markers+text", marker=marker, textfont={"size": 10, "color": "#111111"}, **own)


_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "star")
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
_MAX_TICKS = 9


def ratios_figure(variant: Implementation, points: Sequence[SweepPoint]) -> Figure:
    """Plot real over simulated time against message size, with a colour per kind of collective, and a symbol and dash
    per group."""
    lines: dict[tuple[str, str], list[SweepPoint]] = {}
    groups = list(dict.fromkeys(point.group for point in points))
    for point in sorted(points, key=lambda point: point.message_bytes):
        if point.collectives == variant and point.message_bytes > 0:
            lines.setdefault((point.kind, point.group), []).append(point)
    sizes = [point.message_bytes for several in lines.values() for point in several] or [float(LEAST_JUDGED_BYTES)]
    ends, allowed = (min(sizes) / 1.3, max(sizes) * 1.3), ALLOWED[variant]
    traces = [
        line("real = simulated", ends, [1.0, 1.0]),
        line(f"± {100 * allowed:g} %", ends, [1 + allowed] * 2, "dot"),
        line("", ends, [1 - allowed] * 2, "dot"),
    ]
    for (kind, group), several in lines.items():
        colour, place = COLLECTIVES.get(kind, OTHER_COLLECTIVES), groups.index(group)
        words = [
            f"{binary(point.message_bytes)}: simulated {quantity(point.sim_s, 's')}, "
            f"real {quantity(point.real_s, 's')} (× {point.ratio:.3g})"
            for point in several
        ]
        traces.append(
            marks(
                f"{kind.replace('_', '-')}, {group}",
                [point.message_bytes for point in several],
                [point.ratio for point in several],
                colour,
                _SYMBOLS[place % len(_SYMBOLS)],
                words,
                mode="lines+markers",
                line={"color": colour, "width": 1.5, "dash": _DASHES[place % len(_DASHES)]},
            )
        )
    ticks = powers_of_two(*ends, _MAX_TICKS)
    x = axis("bytes of the message", type="log", tickvals=ticks, ticktext=[binary(value) for value in ticks])
    return figure(traces, x, axis("real / simulated time", rangemode="tozero"), 480)


def fabric_section(checks: Sequence[LinkCheck]) -> str:
    """Return the chart and the tables of links for each plan; empty if no plan has both simulated and counted bytes per
    link."""
    if not checks:
        return ""
    full = max((pair.real_bytes for each in checks for pair in each.pairs), default=0.0)
    return render(
        "sections/fabric.html.j2",
        TEMPLATES,
        found=links_found(checks),
        checks={each.plan: each for each in checks},
        figures={each.plan: fabric_figure(each.pairs, full) for each in checks},
    )


def sweep_section(points: Sequence[SweepPoint]) -> str:
    """Return the chart of collectives that were measured alone, for each implementation, and the medians of both; empty
    if nothing was measured."""
    if not points:
        return ""
    ways = swept_ways(points)
    medians = {(each.kind, each.group, each.collectives): each for each in sweep_medians(points)}
    return render(
        "sections/sweep.html.j2",
        TEMPLATES,
        ways=ways,
        figures={way.collectives: ratios_figure(way.collectives, points) for way in ways},
        rows={
            (kind, group): [medians.get((kind, group, way.collectives)) for way in ways]
            for kind, group in dict.fromkeys((point.kind, point.group) for point in points)
        },
        points=points,
    )


def limits_section(limits: Sequence[AgreementLimit]) -> str:
    """Return the table of limits with allowed and observed values; empty if there are no limits."""
    return render("sections/limits.html.j2", TEMPLATES, limits=limits, words=limits_words(limits)) if limits else ""


def slowed_section(effects: Sequence[SlowLinkEffect]) -> str:
    """Return the table of the effects of slowed links, as factors on times; empty if no link was slowed."""
    return render("sections/slowed.html.j2", TEMPLATES, effects=effects) if effects else ""


def limits_words(limits: Sequence[AgreementLimit]) -> str:
    """Return a sentence on how many limits hold, and which limits do not."""
    missed = [each.what for each in limits if not each.holds]
    if not missed:
        return f"All {len(limits)} limits of the emulated run hold."
    return f"{len(limits) - len(missed)} of {len(limits)} limits hold; missed: {'; '.join(missed)}."
