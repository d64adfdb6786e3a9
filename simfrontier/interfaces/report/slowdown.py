"""Slowdown of plans by degraded components: in each case of the scenario, with any one device slowed, and with any one
link slowed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final

import numpy as np

from simfrontier.answers.slowdown import LaggingDevices, Slowdown, SlowedPlan
from simfrontier.answers.study import Cell
from simfrontier.base.units import times
from simfrontier.core.trace import ranges_text
from simfrontier.interfaces.report.theme import Figure, PlanMark, axis, figure, packed, rows, told_bars
from simfrontier.interfaces.report.view import finite

COLUMNS = ("kind", "what", "count", "plan", "step_time_s", "healthy_step_time_s", "slowdown", "note")
LONGEST = 60  # characters of a list of devices; the first stands for all where it is longer
SHARES = {
    "kernel_share": "kernels, of a healthy step",
    "between_nodes_share": "exposed communication between nodes, of a healthy step",
    "crossing_share": "bytes that cross nodes, of all that are sent",
}
FEW_NODES: Final = 64  # with a gap between them
_SCALE: Final = ((0.0, "#FBEFD9"), (0.25, "#F2C14E"), (0.5, "#E07A3F"), (0.75, "#A4243B"), (1.0, "#4A1030"))
_LEAST: Final = 0.01  # that the scale of colours spans


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowedKind:
    """A kind of devices or links whose members have the same role in a plan: one of them (`example`), their number, and
    the slowdown if any one of them is slowed (None: not simulated)."""

    link_class: str
    example: str
    count: int
    slowdown: float | None


def slowdown_of(result: Slowdown | None) -> dict[str, Any] | None:
    """Return the simulated slowdowns. `plans`: the plans that fit; `devices` and `links`: the kinds of components of
    each plan; `table`: by label and plan the slowdown as text, for all cases, then for the worst single device and
    link. `left_out`: the number of kinds that were not simulated because there are too many."""
    if result is None:
        return None
    fitting = {one.plan: one for one in result.plans if one.healthy is not None}
    devices = {plan: list(_devices(one)) for plan, one in fitting.items() if one.devices is not None}
    links = {plan: list(_links(one)) for plan, one in fitting.items() if one.links}
    kinds = [kind for own in (*devices.values(), *links.values()) for kind in own]
    return {
        "num_devices": result.devices,
        "fidelity": result.fidelity,
        "device_factor": result.device_factor,
        "link_factor": result.link_factor,
        "plans": list(fitting),
        "misfits": [one.plan for one in result.plans if one.plan not in fitting],
        "healthy": {plan: one.healthy for plan, one in fitting.items()},
        "cases": [
            {
                "label": label,
                "slowdown": {plan: one.cases[label].slowdown for plan, one in fitting.items()},
                "why": {plan: one.cases[label].sentence for plan, one in fitting.items()},
            }
            for label in result.cases
        ],
        "sentences": result.sentences,
        "verdict": result.verdict,
        "devices": devices,
        "links": links,
        "left_out": sum(each.slowdown is None for each in kinds),
    }


def worst_rows(found: Mapping[str, Any], device: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield by plan the slowdown as text with any one device slowed, then with any one link of each class slowed; a
    range if the kinds of a plan differ."""
    if found["devices"]:
        of_plan = {plan: _range(kinds) for plan, kinds in found["devices"].items()}
        yield f"any one {device} at {found['device_factor']:g}", of_plan
    for name in dict.fromkeys(kind.link_class for kinds in found["links"].values() for kind in kinds):
        mine = {plan: [kind for kind in kinds if kind.link_class == name] for plan, kinds in found["links"].items()}
        of_plan = {plan: _range(kinds) for plan, kinds in mine.items() if kinds}
        yield f"any one {_link_word(name)} at {found['link_factor']:g}", of_plan


def slowdown_rows(result: Slowdown) -> Iterator[dict[str, Cell]]:
    """Yield the rows of slowdown.csv: for each plan that fits the cases, then the kinds of devices, then the kinds of
    links; a cell without a number is empty."""
    for one in result.plans:
        if one.healthy is None:
            continue
        base: dict[str, Cell] = {"plan": one.plan, "healthy_step_time_s": one.healthy.step_s}
        for label, step in one.cases.items():
            numbers = _numbers(step.step_s, step.slowdown)
            yield {**base, **numbers, "kind": "case", "what": label, "count": 1, "note": step.sentence}
        for each in (*_devices(one), *_links(one)):
            numbers = _numbers(each.slowdown and each.slowdown * one.healthy.step_s, each.slowdown)
            is_link, factor = bool(each.link_class), result.link_factor if each.link_class else result.device_factor
            note = f"{each.link_class} at {factor:g}".lstrip()
            kind = {"kind": "link" if is_link else "device", "what": each.example, "count": each.count, "note": note}
            yield {**base, **numbers, **kind}


def _numbers(step_s: float | None, slowdown: float | None) -> dict[str, Cell]:
    known = step_s is not None and slowdown is not None
    return {"step_time_s": step_s if known else "", "slowdown": slowdown if known else ""}  # type: ignore[dict-item]


def _link_word(link_class: str) -> str:
    """Return the word for one of the machine's links of a class."""
    names = {"hbm": "memory", "nic": "NIC", "global": "pair of groups (global links)"}
    return names.get(link_class, f"{link_class} link")


def _devices(one: SlowedPlan) -> Iterator[SlowedKind]:
    for cls, slowdown in enumerate(one.devices.slowdown if one.devices else ()):
        assert one.devices is not None, "there are kinds of devices"
        members = np.flatnonzero(one.devices.class_of == cls).tolist()
        text = ranges_text(members)
        text = text if len(text) <= LONGEST else f"{members[0]} and others"
        yield SlowedKind(link_class="", example=text, count=len(members), slowdown=finite(slowdown))


def _links(one: SlowedPlan) -> Iterator[SlowedKind]:
    """Yield the kinds of links of a plan, sorted by the machine's link classes."""
    classes = list(dict.fromkeys(each.link_class for each in one.links))
    for each in sorted(one.links, key=lambda each: classes.index(each.link_class)):
        slowdown = finite(each.slowdown)
        yield SlowedKind(link_class=each.link_class, example=each.example, count=each.num_links, slowdown=slowdown)


def _range(kinds: Sequence[SlowedKind]) -> str:
    """Return the smallest and the largest slowdown of the kinds as text: ×1.16, ×1.000 to ×1.07."""
    known = [each.slowdown for each in kinds if each.slowdown is not None]
    low, high = times(min(known)), times(max(known))
    return high if low == high else f"{low} to {high}"


def case_bars(found: Mapping[str, Any], marks: Mapping[str, PlanMark]) -> Figure:
    """Plot a row per case and a bar per plan: the extra time relative to the healthy step."""
    cases, plans = found["cases"], found["plans"]
    traces = []
    for plan in plans:
        known = [(row, value) for row in cases if (value := row["slowdown"][plan]) is not None]
        words = [
            f"<b>{escape(plan)}</b>, {escape(row['label'])}: {times(value)}<br>{escape(row['why'][plan])}"
            for row, value in known
        ]
        longer = [100.0 * (value - 1.0) for _, value in known]
        traces.append(told_bars(plan, [row["label"] for row, _ in known], longer, marks[plan].colour, words))
    labels = [row["label"] for row in cases]
    x, y = axis("longer than a healthy step (%)", zeroline=True), axis("", **rows(labels))
    return figure(traces, x, y, 130 + (16 + 15 * len(plans)) * len(labels), barmode="group", bargap=0.25)


def device_grids(result: Slowdown, device: str) -> dict[str, Figure]:
    """Return a chart per plan with nodes as columns and positions in a node as rows, coloured by the slowdown if that
    device is slowed."""
    lagging = {one.plan: one.devices for one in result.plans if one.devices is not None}
    highest = max(float(np.nanmax(each.slowdown)) for each in lagging.values())
    return {plan: _grid(plan, each, highest, result, device) for plan, each in lagging.items()}


def _grid(plan: str, lagging: LaggingDevices, highest: float, result: Slowdown, device: str) -> Figure:
    per_node = result.devices_per_node
    of_class = np.append(np.array(lagging.slowdown), np.nan)  # nan where a device has no rank
    values = of_class[lagging.class_of].reshape(-1, per_node).T
    heat = {
        "type": "heatmap",
        "z": packed(values.ravel()) | {"shape": f"{per_node}, {values.shape[1]}"},
        "xgap": int(values.shape[1] <= FEW_NODES),
        "ygap": 1,
        "colorscale": _SCALE,
        "zmin": 1.0,
        "zmax": max(highest, 1.0 + _LEAST),
        "colorbar": {"title": {"text": "times a<br>healthy step"}, "thickness": 14},
        "hovertemplate": f"<b>{escape(plan)}</b>: {device} %{{y}} of node %{{x}} at {result.device_factor:g}: "
        "×%{z:.3f}<extra></extra>",
    }
    y = axis(device, autorange="reversed", fixedrange=True, dtick=per_node - 1)
    return figure([heat], axis("node"), y, 150 + 16 * per_node)
