"""How much the comparison depends on what is unknown: one setting at a time, the same for all plans."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from simfrontier.report.markup import Figure, items, keyed, paragraph, plot, section, table, text
from simfrontier.report.published import comparable
from simfrontier.report.theme import axis, figure
from simfrontier.report.view import View
from simfrontier.report.words import TOO_BIG, exactly, number
from simfrontier.sensitivity import Sensitivity, Varied
from simfrontier.units import unit_of

_WRAP = 26  # characters of a line beside the chart
_LINE = 16  # pixels that it takes
_DEFAULT = "documented defaults"
_PUBLISHED = "published"


def sensitivity(view: View, found: Sensitivity | None) -> str:
    """The section, or nothing where no sensitivity was run."""
    if found is None:
        return ""
    first = found.plans[0]
    needed = items((text(required.sentence) + "." for required in found.required), "findings")
    return section(
        "sensitivity",
        "How much depends on what is unknown",
        paragraph(
            "Each row changes one setting, the same for all plans, and leaves the rest at the documented defaults "
            f"({found.devices:,} {view.devices}, fidelity {found.fidelity}). TFLOPS per {view.device} relative to "
            f"{first}; the rows that move a ratio most are on top."
        ),
        f'<p class="callout">{text(found.strongest)}.</p>',
        plot("fig-sensitivity", {"ratios": dots(view, found)}, f"Ratio of each plan to {first} under every variation"),
        "<h3>What would have to be true for the published ratios</h3>" + needed if needed else "",
        "<h3>All variations</h3>",
        _table(view, found),
    )


def ratio(rates: Mapping[str, float], plan: str, first: str) -> float:
    """A plan's rate over the first plan's; nan where one does not fit."""
    return rates[plan] / rates[first]


def dots(view: View, found: Sensitivity) -> Figure:
    """A row per variation, a dot per plan, a dotted line at the plan's default, a star at its published ratio."""
    first, *others = found.plans
    published = comparable(view.scenario)
    varied = sorted(found.varied, key=lambda one: -_moved(found, one.rates))
    rows = {_wrapped(*named(one)): one.rates for one in varied}
    names = [*([_PUBLISHED] if published else []), _DEFAULT, *rows]
    traces: list[dict[str, object]] = []
    shapes = []
    for plan in others:
        mark, base = view.marks[plan], ratio(found.default, plan, first)
        points = {_DEFAULT: base, **{name: ratio(rates, plan, first) for name, rates in rows.items()}}
        known = {name: value for name, value in points.items() if math.isfinite(value)}
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": f"{plan} : {first}",
                "legendgroup": plan,
                "y": list(known),
                "x": list(known.values()),
                "marker": {"color": mark.colour, "symbol": mark.symbol, "size": 11},
                "hovertemplate": f"%{{y}}<br>{text(plan)} : {text(first)} = %{{x:.3f}}<extra></extra>",
            }
        )
        if math.isfinite(base):
            line = {"color": mark.colour, "width": 1.5, "dash": "dot"}
            shapes.append(
                {"type": "line", "xref": "x", "yref": "paper", "x0": base, "x1": base, "y0": 0, "y1": 1, "line": line}
            )
        if published and plan in published.ratios:
            traces.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "name": f"{plan} : {first}, published",
                    "legendgroup": plan,
                    "y": [_PUBLISHED],
                    "x": [published.ratios[plan]],
                    "marker": {"color": mark.colour, "symbol": "star", "size": 15},
                    "hovertemplate": f"published {text(plan)} : {text(first)} = %{{x:.3f}}<extra></extra>",
                }
            )
    y = axis(
        "", type="category", categoryorder="array", categoryarray=names, range=[len(names) - 0.5, -0.5], showgrid=True
    )
    y["tickfont"] = {"size": 12}
    return figure(traces, axis(f"TFLOPS relative to {first}"), y, 150 + _row_height(names) * len(names), shapes=shapes)


def named(one: Varied) -> tuple[str, str]:
    """What was varied, and its value as people write it: with the unit that the key says, 342 µs for 0.000342."""
    unit = unit_of(one.key)
    try:
        return one.label.removesuffix(f", {unit}"), exactly(float(one.value), unit) if unit else one.value
    except ValueError:  # a value that is a word
        return one.label, one.value


def _row_height(names: Sequence[str]) -> int:
    """Pixels that the longest of the names needs: all rows are as high."""
    return 16 + _LINE * max(name.count("<br>") + 1 for name in names)


def _moved(found: Sensitivity, rates: Mapping[str, float]) -> float:
    first, *others = found.plans
    moves = [abs(math.log(ratio(rates, plan, first) / ratio(found.default, plan, first))) for plan in others]
    return max((move for move in moves if math.isfinite(move)), default=math.inf)


def _wrapped(label: str, value: str) -> str:
    """A label and its value broken into lines, for the side of a chart."""
    lines = [""]
    for word in (*label.split(" "), f"= {value}"):
        if lines[-1] and len(lines[-1]) + 1 + len(word) > _WRAP:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return "<br>".join(map(text, lines))


def _table(view: View, found: Sensitivity) -> str:
    first, *others = found.plans
    published = comparable(view.scenario)
    rows = [_row("<b>documented defaults</b>", "", found, found.default)]
    if published:
        ratios = [f"{published.ratios[p]:.3f}" if p in published.ratios else "–" for p in others]
        rows.append(["<b>published</b>", "", *["–"] * len(found.plans), *ratios])
    for one in found.varied:
        label, value = named(one)
        rows.append(_row(text(label), f"<code>{text(value)}</code>", found, one.rates))
    heads = [keyed(view.marks[plan].colour, plan) for plan in found.plans]
    return table(
        [
            "setting",
            "value",
            *(f"{head}<small>TFLOPS</small>" for head in heads),
            *(f"{text(p)} : {text(first)}" for p in others),
        ],
        rows,
    )


def _row(name: str, value: str, found: Sensitivity, rates: Mapping[str, float]) -> list[str]:
    first, *others = found.plans
    own = [
        number(rates[plan]) if math.isfinite(rates[plan]) else f'<span class="no">{TOO_BIG}</span>'
        for plan in found.plans
    ]
    return [name, value, *own, *(_ratio_cell(found, rates, plan, first) for plan in others)]


def _ratio_cell(found: Sensitivity, rates: Mapping[str, float], plan: str, first: str) -> str:
    value = ratio(rates, plan, first)
    if not math.isfinite(value):
        return "–"
    moved = abs(value / ratio(found.default, plan, first) - 1) >= 0.005
    return f"<b>{value:.3f}</b>" if moved else f"{value:.3f}"
