"""One simulated step of a schedule on a machine: its timeline, and quantities derived from the timeline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from simfrontier.base.errors import InputError
from simfrontier.base.units import written
from simfrontier.core.collectives import Library
from simfrontier.core.cost import Placement, Pricing, folded_anew, price_states
from simfrontier.core.engine.call_factors import apply_call_factors, call_factors
from simfrontier.core.engine.chunk import chunked, refuse_many
from simfrontier.core.engine.context import EngineContext
from simfrontier.core.engine.durations import Durations
from simfrontier.core.engine.joint import Neighbour, simulate_beside
from simfrontier.core.engine.repeating import RepeatingEngine
from simfrontier.core.engine.step_path import NodeNumbers, StepPath, number_nodes, timelines
from simfrontier.core.engine.timeline import RoleTimeline, RoleView, Timeline, busy_s, classes_of, is_kernel, view_of
from simfrontier.core.machine import HEALTHY, Machine, Perturbation
from simfrontier.core.network import ends, joining_links
from simfrontier.core.program import (
    Collective,
    Exchange,
    ExpandedProgram,
    Op,
    Schedule,
    SegmentedProgram,
    segmented_roles,
)
from simfrontier.core.trace import LinkBytes, LinkTable

Fidelity = Literal["analytic", "flow", "chunk"]
CallFactorsOf = Callable[[Sequence[SegmentedProgram], Pricing], tuple[NDArray[np.float64], ...]]
"""Of each role [num_classes, num_ops], how many times as long its calls take as is usual; every rank is a class."""
Level = Literal["inter_node", "intra_node", "package"]
LEVELS: tuple[Level, ...] = ("inter_node", "intra_node", "package")


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineState:
    """State of a machine from `begin_s` seconds after the begin of the step: the machine's perturbation, and the
    schedule priced on the machine in this state."""

    begin_s: float
    perturbation: Perturbation
    pricing: Pricing


@dataclass(frozen=True, kw_only=True)
class SimulatedStep:
    """A simulated step: the times of each role, in the order of the schedule's roles. Equivalent ranks are represented
    by their rank class; `critical` is the rank class that ends last (if several end at the same time, the one whose
    kernels take longest, then the lowest).

    `link_bytes`: bytes that each link carried [num_links], if single messages were simulated. `states`: the successive
    states of the machine. `pricing`: the pricing of the longest state, preferring states without dead components.
    `is_shared`: whether another job shared the step's links. `call_factors`: if the durations of single launches
    differ, the duration of each launch relative to its usual duration, for each role [num_classes, num_nodes]; every
    rank is then a class of its own.

    `program` and `timeline` are those of the critical rank class's role, op by op; `classes` are the rank classes of
    the timeline's rows.
    """

    schedule: Schedule
    pricing: Pricing
    fidelity: Fidelity
    roles: tuple[RoleTimeline, ...]
    link_bytes: NDArray[np.float64] | None = None
    states: tuple[MachineState, ...] = ()
    is_shared: bool = False
    call_factors: tuple[NDArray[np.float64], ...] | None = None

    def __repr__(self) -> str:
        return f"SimulatedStep of {written(self.step_s, 's')} ({self.fidelity})"

    @property
    def changes(self) -> bool:
        """True if the machine changed within the step."""
        return len(self.states) > 1

    @property
    def may_be_sampled(self) -> bool:
        """True if the step may be resampled: the machine does not change within the step, and no other job shares its
        links."""
        return not self.changes and not self.is_shared

    @property
    def times_as_long(self) -> list[float] | None:
        """Duration of each op of the critical rank relative to its usual duration; None if the durations of launches do
        not differ."""
        if self.call_factors is None:
            return None
        factors: list[float] = self.call_factors[int(self.pricing.role_of[self.critical])][self.critical_row].tolist()
        return factors

    @cached_property
    def step_s(self) -> float:
        return max(role.timeline.step_s for role in self.roles)

    @cached_property
    def critical(self) -> int:
        last, ends = self.step_s * (1 - 1e-9), list[tuple[float, int]]()
        for role in self.roles:
            is_last = role.timeline.end.max(axis=1, initial=0.0) >= last
            if is_last.any():
                each = zip(busy_s(role).tolist(), role.classes, is_last.tolist(), strict=True)
                ends += [(-busy, cls) for busy, cls, is_one in each if is_one]
        return min(ends)[1]

    @property
    def critical_row(self) -> int:
        """Row of the critical rank class in `timeline`."""
        return self.classes.index(self.critical)

    @property
    def program(self) -> ExpandedProgram:
        return self.view(self.critical).program

    @property
    def ops(self) -> list[Op]:
        """Ops of the critical rank's program, in issue order."""
        return self.view(self.critical).ops

    @property
    def timeline(self) -> Timeline:
        return self.view(self.critical).timeline

    @property
    def classes(self) -> tuple[int, ...]:
        return self.role_timeline(self.critical).classes

    def role_timeline(self, cls: int) -> RoleTimeline:
        """Return the timeline of the role that a rank class runs."""
        return self.roles[int(self.pricing.role_of[cls])]

    @cached_property
    def nodes(self) -> NodeNumbers:
        """Numbering of the simulated program nodes, through all roles."""
        return number_nodes([role.segmented for role in self.roles], [self.pricing] * len(self.roles))

    def view(self, cls: int) -> RoleView:
        """Return the program and the times of the role that a rank class runs, op by op."""
        role = int(self.pricing.role_of[cls])
        if role not in self._views:
            self._views[role] = view_of(self.roles[role])
        return self._views[role]

    @cached_property
    def _views(self) -> dict[int, RoleView]:
        return {}

    @cached_property
    def is_kernel(self) -> NDArray[np.bool_]:
        """Mask of the ops that are local work on the compute lane [num_ops]."""
        return is_kernel(self.schedule.ops)[self.view(self.critical).numbers]

    @cached_property
    def compute_s(self) -> float:
        """Seconds that the critical rank's compute lane is busy with kernels."""
        spent = self.timeline.end[self.critical_row] - self.timeline.start[self.critical_row]
        return float(spent[self.is_kernel].sum())

    def level(self, op: Collective | Exchange) -> Level:
        """Return the coarsest topology boundary (package, node, or between nodes) that the op's messages cross."""
        edges = self.pricing.pattern_of(op).edges.sum(axis=0)
        return "inter_node" if edges[2] else "intra_node" if edges[1] else "package"

    def link_table(self, digest: str, title: str) -> LinkTable:
        """Return the bytes that every wire and pool of links carried in the step; available for fidelity `chunk`
        only."""
        assert self.link_bytes is not None, f"fidelity {self.fidelity} counts no bytes of links"
        fabric, links = self.pricing.fabric, []
        for link in joining_links(fabric):
            source, target = ends(fabric, link)
            links.append(
                LinkBytes(
                    name=fabric.describe(link),
                    link_class=fabric.class_names[fabric.link_class[link]],
                    src=source,
                    dst=target,
                    num_bytes=float(self.link_bytes[link]),
                )
            )
        return LinkTable(digest=digest, title=title, links=tuple(links))


def simulate(
    parts: Sequence[SegmentedProgram],
    pricing: Pricing,
    contended: bool = True,
    later: Sequence[tuple[float, Pricing]] = (),
) -> tuple[RoleTimeline, ...]:
    """Simulate one step and return the timeline of each role. If `contended` is false, every op takes its time without
    contention (fidelity `analytic`). `later`: pricings of later machine states, folded together with `pricing`, each
    with the time in seconds from which it applies. Raises JobStopsError if a component that the step needs is
    permanently dead."""
    classes = classes_of(pricing, len(parts))
    if not contended:
        return timelines(StepPath(Durations(pricing, parts, classes)), classes)
    context, others = EngineContext(pricing), [(since, EngineContext(state)) for since, state in later]
    return RepeatingEngine([(context, *role) for role in zip(parts, classes, strict=True)], later=others).run()


def simulate_step(
    schedule: Schedule,
    machine: Machine,
    library: Library,
    fidelity: Fidelity = "flow",
    perturbation: Perturbation = HEALTHY,
    exact: bool = False,
    placement: Placement = "block",
    parts: Sequence[SegmentedProgram] | None = None,
    number: int = 0,
    beside: Neighbour | None = None,
    factors_of: CallFactorsOf | None = None,
) -> SimulatedStep:
    """Simulate one step of a schedule on a machine. If `exact`, every rank, link and activity is a class of its own
    instead of being folded with its equivalents, and program calls run op by op if there are several roles; fidelity
    `chunk` is always exact. `parts`: the roles' programs from `segmented_roles`, if available. `number`: number of the
    step in the training, for perturbations that change over time. `beside`: another job on the same machine.
    `factors_of`: function that returns the durations of single launches relative to their usual durations, if these are
    known for each rank.

    Raises InputError if the machine or the fidelity cannot run the step, and JobStopsError if a component that the step
    needs is permanently dead.
    """
    if fidelity == "chunk":
        refuse_many(schedule.mesh.num_ranks)
    exact = exact or fidelity == "chunk"
    if factors_of is None and perturbation.calls_differ:
        factors_of = partial(call_factors, perturbation=perturbation, step=number)
    begins, states = zip(*perturbation.states(number), strict=True)
    refuse_unknown(fidelity, len(states), factors_of is not None, beside)
    pricings = price_states(schedule, machine, library, states, exact, placement, in_classes=fidelity == "flow")
    over_time = tuple(
        MachineState(begin_s=begin_s, perturbation=state, pricing=each)
        for begin_s, state, each in zip(begins, states, pricings, strict=True)
    )
    pricing, later = pricings[0], [(each.begin_s, each.pricing) for each in over_time[1:]]
    if parts is None:
        parts = segmented_roles(schedule, whole=not exact)
    link_bytes = together = None
    if beside is not None:
        together = simulate_beside(parts, pricing, beside, exact)
    if together is not None:
        pricing, roles = together
        over_time = (replace(over_time[0], pricing=pricing),)
    elif fidelity == "chunk":
        roles, link_bytes = chunked(parts, pricing, later)
    else:
        roles = simulate(parts, pricing, fidelity == "flow", later)
    step = SimulatedStep(
        schedule=schedule,
        pricing=_usual(over_time, max(float(role.timeline.end.max()) for role in roles)),
        fidelity=fidelity,
        roles=roles,
        link_bytes=link_bytes,
        states=over_time,
        is_shared=together is not None,
    )
    return step if factors_of is None else _with_call_factors(step, factors_of)


def refuse_unknown(fidelity: Fidelity, num_states: int, calls_differ: bool, beside: Neighbour | None) -> None:
    """Raise InputError for unsupported combinations of the fidelity with machine states that change, with durations
    that differ between launches, or with another job; `num_states`: number of machine states within the step."""
    if calls_differ and num_states > 1:
        text = "calls differ, which is not known of a machine that changes within a step; allowed: what always is"
        raise InputError(text, key=("perturbation",))
    if num_states > 1 and fidelity == "analytic":
        text = f"fidelity {fidelity} has no rates that change within a step; allowed: flow, chunk"
        raise InputError(text, key=("perturbation",))
    if beside is None:
        return
    if fidelity != "flow":
        raise InputError(f"fidelity {fidelity} has no job beside another; allowed: flow", key=("neighbour",))
    if num_states > 1:
        raise InputError("not on a machine that changes within a step; allowed: what always is", key=("neighbour",))
    if calls_differ:
        raise InputError("not where calls differ; allowed: devices and networks that do", key=("neighbour",))


def _with_call_factors(step: SimulatedStep, factors_of: CallFactorsOf) -> SimulatedStep:
    """Return the step with every rank in a class of its own, and the durations of all launches multiplied by their
    factors."""
    pricing = folded_anew(step.pricing, exact=True)
    parts = segmented_roles(step.schedule, whole=False)
    factors = factors_of(parts, pricing)
    return replace(
        step,
        pricing=pricing,
        roles=apply_call_factors(step.roles, step.pricing.folding.rank_class, parts, pricing, factors),
        states=(replace(step.states[0], pricing=pricing),),
        call_factors=factors,
    )


def _usual(states: Sequence[MachineState], end_s: float) -> Pricing:
    """Return the pricing of the machine state that lasted longest until the end of the step; states without dead
    components are preferred."""
    if len(states) == 1:
        return states[0].pricing
    ends = [min(state.begin_s, end_s) for state in states[1:]] + [end_s]
    lasted = [
        (bool(state.pricing.folding.capacity.all() and state.pricing.fabric.speed.all()), end - state.begin_s)
        for state, end in zip(states, ends, strict=True)
    ]
    return states[lasted.index(max(lasted))].pricing
