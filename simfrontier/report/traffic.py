"""What moves in a step: bytes by boundary per plan, and the load of a node's links on a drawing of it."""

from __future__ import annotations

from collections.abc import Mapping

from simfrontier.machine import Machine
from simfrontier.report.markup import Figure, keyed, panels, paragraph, plot, section, table, text
from simfrontier.report.node import drawing, key
from simfrontier.report.phrases import TOO_BIG, listed, percent, quantity
from simfrontier.report.theme import LEVEL_COLOURS, LEVEL_NAMES, axis, figure
from simfrontier.report.view import StudyView
from simfrontier.study import PlanOutcome

_BOUNDARIES = ("package", "intra_node", "inter_node")
_EXTRAS = {
    "scales": ("scales of codecs", "#8E6BBF"),
    "padding": ("padding", "#B9B9B3"),
    "fallback": ("gradients that fell back", "#5E8C9A"),
    "persisted": ("weights kept whole", "#3F5A66"),
}
PARTS: Mapping[str, tuple[str, str]] = {
    **{boundary: (LEVEL_NAMES[boundary], LEVEL_COLOURS[boundary]) for boundary in _BOUNDARIES},
    **_EXTRAS,
}


def traffic(view: StudyView) -> str:
    """The section: bytes by boundary, then the drawing of a node with the table of its link classes."""
    return section(
        "traffic",
        "What moves, and over which links",
        paragraph(
            f"Payload that the chosen algorithms send in one step at {view.largest:,} {view.devices}, between end "
            f"points, counted at the coarsest boundary that lies between them. The chart is per {view.device}, the "
            "table sums over the machine. Scales, padding, gradients that fell back to plain coding and weights "
            "that stay whole are counted apart."
        ),
        plot("fig-bytes", {"bytes": bars(view)}, "Bytes per step by boundary, per plan"),
        _table(view),
        "<h3>Link loads of a node</h3>",
        _links(view),
    )


def bars(view: StudyView) -> Figure:
    """Stacked horizontal bars of bytes per device, in the levels' colours."""
    outcomes = view.drawn
    most = max(sum(_bytes(o, part) for part in PARTS) / o.devices for o in outcomes)
    giga, unit = (1e9, "GB") if most >= 1e9 else (1e6, "MB") if most >= 1e6 else (1e3, "kB")
    labels = [o.plan if o.row["fits"] else f"{o.plan}<br>({TOO_BIG})" for o in outcomes]
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": name,
            "y": labels,
            "x": [_bytes(o, part) / o.devices / giga for o in outcomes],
            "marker": {"color": colour},
            "hovertemplate": f"<b>%{{y}}</b><br>{name}: %{{x:.4~g}} {unit}<extra></extra>",
        }
        for part, (name, colour) in PARTS.items()
        if any(_bytes(o, part) for o in outcomes)
    ]
    rows = {"autorange": "reversed", "type": "category", "categoryorder": "array", "categoryarray": labels}
    x = axis(f"sent per {view.device} and step ({unit})")
    return figure(traces, x, axis("", **rows), 150 + 46 * len(outcomes), barmode="stack", bargap=0.35)


def _bytes(outcome: PlanOutcome, part: str) -> float:
    return float(outcome.row[f"bytes_{part}"])


def _table(view: StudyView) -> str:
    used = [part for part in PARTS if part in _BOUNDARIES or any(_bytes(o, part) for o in view.drawn)]
    rows = [
        [
            keyed(view.marks[o.plan].colour, o.plan),
            *(quantity(_bytes(o, part), "bytes") if _bytes(o, part) else "–" for part in used),
            f"<b>{quantity(sum(_bytes(o, part) for part in PARTS), 'bytes')}</b>",
        ]
        for o in view.drawn
    ]
    return table(["plan", *(keyed(PARTS[part][1], PARTS[part][0]) for part in used), "in all"], rows)


def _links(view: StudyView) -> str:
    machine = view.scenario.machine
    shown = [o for o in view.drawn if o.links is not None and o.row["fits"]]
    if not shown:
        return paragraph("No plan fits at the largest size.")
    full = _round_up(max((link.utilisation for o in shown if o.links for link in o.links.links), default=0.0))
    pieces = {}
    for outcome in shown:
        assert outcome.links is not None
        title = f"Node of {machine.title}: utilisation of links by {outcome.plan}"
        pieces[outcome.plan] = f'<div class="drawing">{drawing(machine, outcome.links, full, title)}</div>' + _classes(
            machine, outcome
        )
    left_out = [o.plan for o in view.drawn if o not in shown]
    return (
        paragraph(
            f"{machine.title}: an average node of the job at {view.largest:,} {view.devices}. A number is the busier "
            "direction's utilisation: its bytes over what it could carry in the whole step at nominal speed, so "
            "traffic that passes through counts. The two lines of a pair are its two directions; wider lines are "
            "faster links; all plans share one colour scale. Point at a line for its bytes."
        )
        + key(full)
        + panels(pieces, view.ranked[0].plan)
        + (paragraph(f"Not drawn, because it does not fit: {listed(left_out)}.", "note") if left_out else "")
    )


def _classes(machine: Machine, outcome: PlanOutcome) -> str:
    assert outcome.links is not None
    rows = []
    for name, kind in machine.link_classes.items():
        links = [link for link in outcome.links.links if link.link_class == name]
        if not links and name not in outcome.links.by_class:
            continue
        carried, busy = outcome.links.by_class.get(name, (0.0, 0.0))
        if links:  # over all links of the class, idle ones too
            carried = sum(link.num_bytes for link in links) / len(links)
            busy = sum(link.utilisation for link in links) / len(links)
        highest = max(links, key=lambda link: link.utilisation, default=None)
        rows.append(
            [
                text(name),
                f"{len(links)}" if links else "between groups",
                quantity(kind.bytes_per_s, "bytes/s"),
                quantity(carried, "bytes"),
                percent(busy),
                f"{percent(highest.utilisation)} ({text(highest.name)})" if highest else "–",
            ]
        )
    head = ["link class", "directed links", "nominal each", "mean per step", "mean utilisation", "busiest"]
    return table(head, rows)


def _round_up(share: float) -> float:
    """The next round number of per cent, for the end of a scale."""
    steps = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)
    return next((step for step in steps if share <= step), max(share, 1.0))
