"""What trouble costs, by plan: in each case, with any one device lagging, and with any one link of each class."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from simfrontier.records import dataclass
from simfrontier.trace import ranges_text
from simfrontier.units import times

if TYPE_CHECKING:
    from simfrontier.slowdown import LaggingLinks, Slowdown, SlowedPlan
    from simfrontier.study import Cell

COLUMNS = ("kind", "what", "count", "plan", "step_time_s", "healthy_step_time_s", "slowdown", "note")
LONGEST = 60  # characters of a list of devices; the first stands for all where it is longer


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowdownRow:
    """One trouble: by plan how many times as long a step takes (None: there is none), and why."""

    label: str
    slowdown: Mapping[str, float | None]
    why: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowedKind:
    """Devices or links that are alike for a plan: one of them (`example`), how many they are, and the slowdown with one
    of them lagging, whichever (None: not simulated)."""

    example: str
    count: int
    slowdown: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowdownRange:
    """The mildest and the worst slowdown with one thing of a kind lagging, how many things there are, and one of those
    with the worst."""

    low: float
    high: float
    count: int
    worst: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowdownFindings:
    """What trouble costs on so many devices. `plans`: those that fit; `healthy_s`: seconds of their steps; `devices`
    and `links` by plan, links also by the machine's class; `lagging_devices` and `lagging_links` their ranges.
    `left_out`: how many kinds of devices and links were not simulated, as there are too many."""

    num_devices: int
    fidelity: str
    device_factor: float
    link_factor: float
    plans: tuple[str, ...]
    misfits: tuple[str, ...]
    healthy_s: Mapping[str, float]
    kernel_share: Mapping[str, float]
    between_nodes_share: Mapping[str, float]
    crossing_share: Mapping[str, float]
    cases: tuple[SlowdownRow, ...]
    sentences: tuple[str, ...]
    verdict: str
    devices: Mapping[str, tuple[SlowedKind, ...]]
    links: Mapping[str, Mapping[str, tuple[SlowedKind, ...]]]
    lagging_devices: Mapping[str, SlowdownRange]
    lagging_links: Mapping[str, Mapping[str, SlowdownRange]]
    left_out: int


def slowdown_of(result: Slowdown) -> SlowdownFindings:
    """The findings of what was simulated."""
    fitting = {one.plan: one for one in result.plans if one.healthy is not None}
    healthy = {plan: one.healthy for plan, one in fitting.items() if one.healthy is not None}
    devices = {plan: tuple(_devices(one)) for plan, one in fitting.items() if one.devices is not None}
    links = {plan: _links(one.links) for plan, one in fitting.items() if one.links}
    kinds = [*(each for some in devices.values() for each in some)]
    kinds += [each for by_class in links.values() for some in by_class.values() for each in some]
    classes = dict.fromkeys(name for by_class in links.values() for name in by_class)
    return SlowdownFindings(
        num_devices=result.devices,
        fidelity=result.fidelity,
        device_factor=result.device_factor,
        link_factor=result.link_factor,
        plans=tuple(fitting),
        misfits=tuple(one.plan for one in result.plans if one.plan not in fitting),
        healthy_s={plan: one.step_s for plan, one in healthy.items()},
        kernel_share={plan: one.kernel_share for plan, one in healthy.items()},
        between_nodes_share={plan: one.between_nodes_share for plan, one in healthy.items()},
        crossing_share={plan: one.crossing_share for plan, one in healthy.items()},
        cases=tuple(
            SlowdownRow(
                label=label,
                slowdown={plan: one.cases[label].slowdown for plan, one in fitting.items()},
                why={plan: one.cases[label].sentence for plan, one in fitting.items()},
            )
            for label in result.cases
        ),
        sentences=result.sentences,
        verdict=result.verdict,
        devices=devices,
        links=links,
        lagging_devices={plan: _range(each) for plan, each in devices.items()},
        lagging_links={
            name: {plan: _range(by_class[name]) for plan, by_class in links.items() if name in by_class}
            for name in classes
        },
        left_out=sum(each.slowdown is None for each in kinds),
    )


def slowdown_rows(result: Slowdown) -> Iterator[dict[str, Cell]]:
    """The rows of slowdown.csv: of each plan that fits the cases, then its kinds of devices, then its kinds of links;
    empty where there is no number."""
    for one in result.plans:
        if one.healthy is None:
            continue
        base: dict[str, Cell] = {"plan": one.plan, "healthy_step_time_s": one.healthy.step_s}
        for label, step in one.cases.items():
            numbers: dict[str, Cell] = {"step_time_s": "", "slowdown": ""}
            if step.step_s is not None and step.slowdown is not None:
                numbers = {"step_time_s": step.step_s, "slowdown": step.slowdown}
            yield {**base, **numbers, "kind": "case", "what": label, "count": 1, "note": step.sentence}
        kinds = [("device", f"at {result.device_factor:g}", each) for each in (_devices(one) if one.devices else ())]
        kinds += [
            ("link", f"{name} at {result.link_factor:g}", each)
            for name, some in _links(one.links).items()
            for each in some
        ]
        for kind, note, each in kinds:
            numbers = {"step_time_s": "", "slowdown": ""}
            if each.slowdown is not None:
                numbers = {"step_time_s": each.slowdown * one.healthy.step_s, "slowdown": each.slowdown}
            yield {**base, **numbers, "kind": kind, "what": each.example, "count": each.count, "note": note}


def times_between(found: SlowdownRange) -> str:
    """A slowdown, or where things of a kind differ its range: ×1.16, ×1.000 to ×1.07."""
    low, high = times(found.low), times(found.high)
    return high if low == high else f"{low} to {high}"


def link_word(link_class: str) -> str:
    """What one of the machine's links of a class is called."""
    return {"hbm": "memory", "nic": "NIC", "global": "pair of groups (global links)"}.get(
        link_class, f"{link_class} link"
    )


def _devices(one: SlowedPlan) -> Iterator[SlowedKind]:
    assert one.devices is not None
    for cls, slowdown in enumerate(one.devices.slowdown):
        members = np.flatnonzero(one.devices.class_of == cls).tolist()
        text = ranges_text(members)
        text = text if len(text) <= LONGEST else f"{members[0]} and others"
        yield SlowedKind(example=text, count=len(members), slowdown=_finite(slowdown))


def _links(links: tuple[LaggingLinks, ...]) -> dict[str, tuple[SlowedKind, ...]]:
    out: dict[str, tuple[SlowedKind, ...]] = {}
    for each in links:
        kind = SlowedKind(example=each.example, count=each.num_links, slowdown=_finite(each.slowdown))
        out[each.link_class] = (*out.get(each.link_class, ()), kind)
    return out


def _range(kinds: tuple[SlowedKind, ...]) -> SlowdownRange:
    known = [(each.slowdown, each.example) for each in kinds if each.slowdown is not None]
    high, worst = max(known, key=lambda each: each[0])
    low = min(value for value, _ in known)
    return SlowdownRange(low=low, high=high, count=sum(each.count for each in kinds), worst=worst)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
