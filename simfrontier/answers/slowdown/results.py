"""Results of a slowdown study: by plan, the step time relative to the healthy step in each case, and with each lagging
device and each lagging link."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum, log

from simfrontier.base.arrays import Ints
from simfrontier.base.units import listed, times
from simfrontier.core.engine import Fidelity
from simfrontier.core.machine import Perturbation


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthyStep:
    """A plan's step without degraded components: its seconds, its sequences, and the properties that determine the cost
    of degraded components: the share of the step in which kernels run, the share in which the critical rank waits for
    inter-node messages while no kernel runs, and the share of all sent bytes that cross nodes.
    """

    step_s: float
    samples: int
    kernel_share: float
    between_nodes_share: float
    crossing_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TroubledStep:
    """A plan's step with degraded components: its seconds, the ratio to the healthy step (`slowdown`), and the parts of
    the step that take longer, as a sentence without a full stop. If the step cannot run there are no numbers, and the
    sentence gives the reason. `speed_error`: relative error due to grouping devices into speed classes.
    """

    step_s: float | None
    slowdown: float | None
    sentence: str
    speed_error: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LaggingDevices:
    """Slowdown as a function of the single device that lags. Equivalent devices form one class.

    class_of   [num_devices of the nodes] class of each device, -1 if it has no rank
    slowdown   [num_classes] nan for classes that were not simulated because there are too many
    """

    class_of: Ints
    slowdown: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaggingLinks:
    """Slowdown if a single link lags in both directions: the machine's link class, the name of one such link, the
    number of equivalent links, and the slowdown with any one of them (nan: not simulated because there are too many
    classes).
    """

    link_class: str
    example: str
    num_links: int
    slowdown: float = math.nan


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowedPlan:
    """Slowdown of one plan: `cases` by label; `links`: for the links that the plan loads, in the order of the machine's
    link classes. A plan that does not fit into memory has only the reason (`misfit`).
    """

    plan: str
    misfit: str = ""
    healthy: HealthyStep | None = None
    cases: Mapping[str, TroubledStep]
    devices: LaggingDevices | None = None
    links: tuple[LaggingLinks, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Slowdown:
    """Slowdown of each plan at one size. `cases`: labels of the cases; `device_factor` and `link_factor`: fraction of
    its rate that a lagging device or link keeps. `sentences`: for each case, which plan is least affected, and why;
    `verdict`: over all cases.
    """

    devices: int
    devices_per_node: int
    fidelity: Fidelity
    device_factor: float
    link_factor: float
    cases: tuple[str, ...]
    plans: tuple[SlowedPlan, ...]
    sentences: tuple[str, ...]
    verdict: str


ALIKE = 5e-4  # slowdowns closer than this are the same


def case_sentence(label: str, perturbation: Perturbation, plans: Sequence[SlowedPlan]) -> str:
    """Return the plans least and most affected in a case, and why: sentences without a final full stop."""
    tried = [(one, one.cases[label]) for one in plans if label in one.cases]
    known = sorted(((s.slowdown, one, s) for one, s in tried if s.slowdown is not None), key=lambda each: each[0])
    stopped = [(one.plan, step.sentence) for one, step in tried if step.slowdown is None]
    ends = f"; no step of {listed([plan for plan, _ in stopped])}: {stopped[0][1]}" if stopped else ""
    if error := max((step.speed_error for _, _, step in known), default=0.0):
        ends += f"; devices are simulated in classes of speed, which makes a step differ by up to {100 * error:.2g} %"
    if not known:
        return f"{label}: no plan has a step{ends}"
    (least, first, step), (most, last, _) = known[0], known[-1]
    if most - least < ALIKE:
        who = "all plans are affected equally" if len(known) > 1 else f"{first.plan} takes"
        return f"{label}: {who}, {times(least)} ({step.sentence}){ends}"
    alike = [one.plan for slowdown, one, _ in known if slowdown - least < ALIKE]
    words = [
        f"{times(slow)} ({step.sentence}; {_fact(perturbation, one)})" for slow, one, step in (known[0], known[-1])
    ]
    verb = "is" if len(alike) == 1 else "are"
    return f"{label}: {listed(alike)} {verb} least affected, {words[0]}; {last.plan} most, {words[1]}{ends}"


def verdict_of(plans: Sequence[SlowedPlan]) -> str:
    """Return the plan with the mildest worst case, and the fastest plan in each case, without a full stop."""
    worst: dict[str, tuple[float, float, str]] = {}
    rates: dict[str, dict[str, float]] = {}
    for one in plans:
        slowdowns = {label: step.slowdown for label, step in one.cases.items()}
        known = {label: value for label, value in slowdowns.items() if value is not None}
        if one.healthy is None or not known or len(known) < len(slowdowns):
            continue
        label = max(known, key=lambda each: known[each])
        mean = fsum(log(value) for value in known.values()) / len(known)
        worst[one.plan] = (known[label], mean, label)
        rates[one.plan] = {each: one.healthy.samples / one.healthy.step_s / value for each, value in known.items()}
    if not worst:
        return ""
    least = min(worst, key=lambda plan: worst[plan][:2])
    most = max(worst, key=lambda plan: worst[plan][:2])
    text = f"{least} has the mildest worst case: {times(worst[least][0])} at worst ({worst[least][2]})"
    if most != least:
        text += f"; {most} the worst: {times(worst[most][0])} ({worst[most][2]})"
    first = {label: max(rates, key=lambda plan: rates[plan][label]) for label in rates[least]}
    if len(set(first.values())) == 1 and len(worst) > 1:
        text += f"; the fastest in every case is {next(iter(first.values()))}"
    elif len(worst) > 1:
        text += "; the fastest: " + ", ".join(f"{plan} ({label})" for label, plan in first.items())
    return text


def _fact(perturbation: Perturbation, plan: SlowedPlan) -> str:
    """Return the property of a plan's healthy step that decides the cost of a perturbation, in words."""
    healthy = plan.healthy
    assert healthy is not None, "a plan with cases fits"
    networks = perturbation.differing("networks")
    if perturbation.links or perturbation.nics or perturbation.pools or networks is not None:
        return (
            f"{_percent(healthy.crossing_share)} of its bytes cross nodes, and {_percent(healthy.between_nodes_share)} "
            "of its healthy step waits for them"
        )
    return f"kernels are {_percent(healthy.kernel_share)} of its healthy step"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.0995 or share == 0.0 else f"{100 * share:.1f} %"
