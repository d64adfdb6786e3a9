"""The dependence of the comparison on unknown settings: one setting at a time, the same for all plans."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from simfrontier.report.markup import Figure, items, keyed, panels, paragraph, plot, section, table, text
from simfrontier.report.peak import published_tflops, sizes_of
from simfrontier.report.phrases import NOTHING, TOO_BIG, exactly, listed, number
from simfrontier.report.published import comparable
from simfrontier.report.theme import axis, figure
from simfrontier.report.view import StudyView
from simfrontier.scenario import Scenario
from simfrontier.sensitivity import Sensitivity, VariedRates
from simfrontier.units import unit_of

_WRAP = 26  # characters of a line beside the chart
_LINE = 16  # pixels that it takes
_DEFAULT = "documented defaults"
_PUBLISHED = "published"


def sensitivity(view: StudyView, result: Sensitivity | None) -> str:
    """The section, or nothing where no sensitivity was run."""
    if result is None:
        return ""
    every = {f"{each.devices:,}": each for each in sizes_of(result)}
    needed = items((text(required.sentence) + "." for required in result.required), "findings")
    first, is_one = result.plans[0], len(result.plans) == 1
    shown = f"TFLOPS per {view.device}" + ("" if is_one else f" relative to {first}")
    strongest = "; ".join(f"{f'on {size}, ' if len(every) > 1 else ''}{each.strongest}" for size, each in every.items())
    label = f"{'TFLOPS' if is_one else f'Ratio of each plan to {first}'} under every variation"
    return section(
        "sensitivity",
        "How much depends on what is unknown",
        paragraph(
            "Each row changes one setting, for all plans alike unless it is a plan’s own, and leaves the rest at the "
            f"documented defaults ({listed(list(every))} {view.devices}, fidelity {result.fidelity}). {shown}; the "
            f"rows that move {'it' if is_one else 'a ratio'} most are on top."
        ),
        f'<p class="callout">{text(strongest[0].upper() + strongest[1:] if len(every) > 1 else strongest)}.</p>',
        plot("fig-sensitivity", {size: dots(view, each) for size, each in every.items()}, label),
        "<h3>What would have to be true for the published ratios</h3>" + needed if needed else "",
        "<h3>All variations</h3>",
        panels({size: _table(view, each) for size, each in every.items()}),
    )


def value(result: Sensitivity, rates: Mapping[str, float], plan: str) -> float:
    """What is compared of a plan: its rate over the first plan's, or of the only plan its rate; nan where a plan does
    not fit."""
    return rates[plan] if len(result.plans) == 1 else rates[plan] / rates[result.plans[0]]


def _compared(result: Sensitivity) -> tuple[str, ...]:
    return result.plans[1:] or result.plans


def _title(result: Sensitivity, plan: str) -> str:
    return plan if len(result.plans) == 1 else f"{plan} : {result.plans[0]}"


def published_values(scenario: Scenario, result: Sensitivity) -> dict[str, float]:
    """The published values of what is compared, by plan."""
    figures = comparable(scenario)
    if figures is None:
        return {}
    if len(result.plans) > 1:
        return {plan: figures.ratios[plan] for plan in result.plans if plan in figures.ratios}
    known = published_tflops(scenario, result.plans[0], result.devices)
    return {} if known is None else {result.plans[0]: known}


def dots(view: StudyView, result: Sensitivity) -> Figure:
    """A row per variation, a dot per plan, a dotted line at the plan's default, a star at its published value."""
    published = published_values(view.scenario, result)
    varied = sorted(result.varied, key=lambda one: -_moved(result, one.rates))
    rows = {_wrapped(*named(one)): one.rates for one in varied}
    names = [*([_PUBLISHED] if published else []), _DEFAULT, *rows]
    traces: list[dict[str, object]] = []
    shapes = []
    for plan in _compared(result):
        mark, base, title = view.marks[plan], value(result, result.default, plan), _title(result, plan)
        points = {_DEFAULT: base, **{name: value(result, rates, plan) for name, rates in rows.items()}}
        known = {name: point for name, point in points.items() if math.isfinite(point)}
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": title,
                "legendgroup": plan,
                "y": list(known),
                "x": list(known.values()),
                "marker": {"color": mark.colour, "symbol": mark.symbol, "size": 11},
                "hovertemplate": f"%{{y}}<br>{text(title)} = %{{x:.4~g}}<extra></extra>",
            }
        )
        if math.isfinite(base):
            line = {"color": mark.colour, "width": 1.5, "dash": "dot"}
            shapes.append(
                {"type": "line", "xref": "x", "yref": "paper", "x0": base, "x1": base, "y0": 0, "y1": 1, "line": line}
            )
        if plan in published:
            traces.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "name": f"{title}, published",
                    "legendgroup": plan,
                    "y": [_PUBLISHED],
                    "x": [published[plan]],
                    "marker": {"color": mark.colour, "symbol": "star", "size": 15},
                    "hovertemplate": f"published {text(title)} = %{{x:.4~g}}<extra></extra>",
                }
            )
    y = axis(
        "", type="category", categoryorder="array", categoryarray=names, range=[len(names) - 0.5, -0.5], showgrid=True
    )
    y["tickfont"] = {"size": 12}
    what = f"TFLOPS per {view.device}" if len(result.plans) == 1 else f"TFLOPS relative to {result.plans[0]}"
    return figure(traces, axis(what), y, 150 + _row_height(names) * len(names), shapes=shapes)


def named(one: VariedRates) -> tuple[str, str]:
    """The varied setting and its value in the unit of the key, e.g. 342 µs for 0.000342."""
    unit = unit_of(one.key)
    try:
        return one.label.removesuffix(f", {unit}"), exactly(float(one.value), unit) if unit else one.value
    except ValueError:  # a value that is a word
        return one.label, one.value


def _row_height(names: Sequence[str]) -> int:
    """Pixels that the longest of the names needs: all rows are as high."""
    return 16 + _LINE * max(name.count("<br>") + 1 for name in names)


def _moved(result: Sensitivity, rates: Mapping[str, float]) -> float:
    moves = [
        abs(math.log(value(result, rates, plan) / value(result, result.default, plan))) for plan in _compared(result)
    ]
    return max((move for move in moves if math.isfinite(move)), default=math.inf)


def _wrapped(label: str, value: str) -> str:
    """A label and its value broken into lines, for the side of a chart."""
    lines = [""]
    for word in (*label.split(" "), f"= {value}"):
        if lines[-1] and len(lines[-1]) + 1 + len(word) > _WRAP:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return "<br>".join(map(text, lines))


def _table(view: StudyView, result: Sensitivity) -> str:
    is_one, published = len(result.plans) == 1, published_values(view.scenario, result)
    others = () if is_one else _compared(result)
    rows = [_row("<b>documented defaults</b>", "", result, result.default)]
    if published:
        own = [number(published[plan]) if is_one and plan in published else NOTHING for plan in result.plans]
        ratios = [f"{published[plan]:.3f}" if plan in published else NOTHING for plan in others]
        rows.append(["<b>published</b>", "", *own, *ratios])
    for one in result.varied:
        label, message = named(one)
        rows.append(_row(text(label), f"<code>{text(message)}</code>", result, one.rates))
    heads = [f"{keyed(view.marks[plan].colour, plan)}<small>TFLOPS</small>" for plan in result.plans]
    return table(["setting", "value", *heads, *(text(_title(result, plan)) for plan in others)], rows)


def _row(name: str, message: str, result: Sensitivity, rates: Mapping[str, float]) -> list[str]:
    is_one = len(result.plans) == 1
    own = [_cell(result, rates, plan, number(rates[plan]), is_one) for plan in result.plans]
    others = () if is_one else _compared(result)
    return [name, message, *own, *(_ratio_cell(result, rates, plan) for plan in others)]


def _ratio_cell(result: Sensitivity, rates: Mapping[str, float], plan: str) -> str:
    ratio = value(result, rates, plan)
    return _cell(result, rates, plan, f"{ratio:.3f}", is_compared=True) if math.isfinite(ratio) else NOTHING


def _cell(result: Sensitivity, rates: Mapping[str, float], plan: str, message: str, is_compared: bool) -> str:
    """A number, bold where it is what is compared and has moved."""
    if not math.isfinite(rates[plan]):
        return f'<span class="no">{TOO_BIG}</span>'
    moved = abs(value(result, rates, plan) / value(result, result.default, plan) - 1) >= 0.005
    return f"<b>{message}</b>" if is_compared and moved else message
