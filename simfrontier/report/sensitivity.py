"""How much the comparison depends on what is unknown: one setting at a time, the same for all plans."""

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


def sensitivity(view: StudyView, found: Sensitivity | None) -> str:
    """The section, or nothing where no sensitivity was run."""
    if found is None:
        return ""
    every = {f"{each.devices:,}": each for each in sizes_of(found)}
    needed = items((text(required.sentence) + "." for required in found.required), "findings")
    first, is_one = found.plans[0], len(found.plans) == 1
    shown = f"TFLOPS per {view.device}" + ("" if is_one else f" relative to {first}")
    strongest = "; ".join(f"{f'on {size}, ' if len(every) > 1 else ''}{each.strongest}" for size, each in every.items())
    label = f"{'TFLOPS' if is_one else f'Ratio of each plan to {first}'} under every variation"
    return section(
        "sensitivity",
        "How much depends on what is unknown",
        paragraph(
            "Each row changes one setting, for all plans alike unless it is a plan’s own, and leaves the rest at the "
            f"documented defaults ({listed(list(every))} {view.devices}, fidelity {found.fidelity}). {shown}; the rows "
            f"that move {'it' if is_one else 'a ratio'} most are on top."
        ),
        f'<p class="callout">{text(strongest[0].upper() + strongest[1:] if len(every) > 1 else strongest)}.</p>',
        plot("fig-sensitivity", {size: dots(view, each) for size, each in every.items()}, label),
        "<h3>What would have to be true for the published ratios</h3>" + needed if needed else "",
        "<h3>All variations</h3>",
        panels({size: _table(view, each) for size, each in every.items()}),
    )


def value(found: Sensitivity, rates: Mapping[str, float], plan: str) -> float:
    """What is compared of a plan: its rate over the first plan's, or of the only plan its rate; nan where a plan does
    not fit."""
    return rates[plan] if len(found.plans) == 1 else rates[plan] / rates[found.plans[0]]


def _compared(found: Sensitivity) -> tuple[str, ...]:
    return found.plans[1:] or found.plans


def _title(found: Sensitivity, plan: str) -> str:
    return plan if len(found.plans) == 1 else f"{plan} : {found.plans[0]}"


def published_values(scenario: Scenario, found: Sensitivity) -> dict[str, float]:
    """The published values of what is compared, by plan."""
    figures = comparable(scenario)
    if figures is None:
        return {}
    if len(found.plans) > 1:
        return {plan: figures.ratios[plan] for plan in found.plans if plan in figures.ratios}
    known = published_tflops(scenario, found.plans[0], found.devices)
    return {} if known is None else {found.plans[0]: known}


def dots(view: StudyView, found: Sensitivity) -> Figure:
    """A row per variation, a dot per plan, a dotted line at the plan's default, a star at its published value."""
    published = published_values(view.scenario, found)
    varied = sorted(found.varied, key=lambda one: -_moved(found, one.rates))
    rows = {_wrapped(*named(one)): one.rates for one in varied}
    names = [*([_PUBLISHED] if published else []), _DEFAULT, *rows]
    traces: list[dict[str, object]] = []
    shapes = []
    for plan in _compared(found):
        mark, base, title = view.marks[plan], value(found, found.default, plan), _title(found, plan)
        points = {_DEFAULT: base, **{name: value(found, rates, plan) for name, rates in rows.items()}}
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
    what = f"TFLOPS per {view.device}" if len(found.plans) == 1 else f"TFLOPS relative to {found.plans[0]}"
    return figure(traces, axis(what), y, 150 + _row_height(names) * len(names), shapes=shapes)


def named(one: VariedRates) -> tuple[str, str]:
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
    moves = [abs(math.log(value(found, rates, plan) / value(found, found.default, plan))) for plan in _compared(found)]
    return max((move for move in moves if math.isfinite(move)), default=math.inf)


def _wrapped(label: str, value: str) -> str:
    """A label and its value broken into lines, for the side of a chart."""
    lines = [""]
    for word in (*label.split(" "), f"= {value}"):
        if lines[-1] and len(lines[-1]) + 1 + len(word) > _WRAP:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return "<br>".join(map(text, lines))


def _table(view: StudyView, found: Sensitivity) -> str:
    is_one, published = len(found.plans) == 1, published_values(view.scenario, found)
    others = () if is_one else _compared(found)
    rows = [_row("<b>documented defaults</b>", "", found, found.default)]
    if published:
        own = [number(published[plan]) if is_one and plan in published else NOTHING for plan in found.plans]
        ratios = [f"{published[plan]:.3f}" if plan in published else NOTHING for plan in others]
        rows.append(["<b>published</b>", "", *own, *ratios])
    for one in found.varied:
        label, said = named(one)
        rows.append(_row(text(label), f"<code>{text(said)}</code>", found, one.rates))
    heads = [f"{keyed(view.marks[plan].colour, plan)}<small>TFLOPS</small>" for plan in found.plans]
    return table(["setting", "value", *heads, *(text(_title(found, plan)) for plan in others)], rows)


def _row(name: str, said: str, found: Sensitivity, rates: Mapping[str, float]) -> list[str]:
    is_one = len(found.plans) == 1
    own = [_cell(found, rates, plan, number(rates[plan]), is_one) for plan in found.plans]
    others = () if is_one else _compared(found)
    return [name, said, *own, *(_ratio_cell(found, rates, plan) for plan in others)]


def _ratio_cell(found: Sensitivity, rates: Mapping[str, float], plan: str) -> str:
    ratio = value(found, rates, plan)
    return _cell(found, rates, plan, f"{ratio:.3f}", is_compared=True) if math.isfinite(ratio) else NOTHING


def _cell(found: Sensitivity, rates: Mapping[str, float], plan: str, said: str, is_compared: bool) -> str:
    """A number, bold where it is what is compared and has moved."""
    if not math.isfinite(rates[plan]):
        return f'<span class="no">{TOO_BIG}</span>'
    moved = abs(value(found, rates, plan) / value(found, found.default, plan) - 1) >= 0.005
    return f"<b>{said}</b>" if is_compared and moved else said
