"""One simulated step of a schedule on a machine: the timeline, and what is read off it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from simfrontier.collectives import Library, exchanged_bytes, messages_of
from simfrontier.cost import Cluster, Placement, price
from simfrontier.errors import InputError
from simfrontier.machine import Machine
from simfrontier.network import Perturbation, ends, joining_links
from simfrontier.schedule import (
    Collective,
    Compute,
    Exchange,
    ExpandedProgram,
    Op,
    Schedule,
    expand,
    segmented,
    traffic_bytes,
)
from simfrontier.simulation.analytic import analytic
from simfrontier.simulation.chunk import chunked, refuse_many
from simfrontier.simulation.engine import simulate
from simfrontier.simulation.role_timelines import RoleTimelines
from simfrontier.simulation.role_view import RoleView, busy_s, is_kernel, view_of
from simfrontier.simulation.roles import simulate_roles
from simfrontier.simulation.timeline import Timeline
from simfrontier.trace import LinkBytes, LinkTable, Span, Trace

Fidelity = Literal["analytic", "flow", "chunk"]
Level = Literal["inter_node", "intra_node", "package"]
LEVELS: tuple[Level, ...] = ("inter_node", "intra_node", "package")


@dataclass(frozen=True, kw_only=True)
class SimulatedStep:
    """A step that was simulated; ranks are known by class, `critical` is the class that ends last (the lowest of
    equals). `link_bytes`: what each link carried [num_links], where single messages were simulated.

    `program` and `timeline` are those of the ranks that run the role of the critical one, `classes` the rank classes
    that the timeline's rows stand for: all of them where there is one role. `role_timelines`: those of
    all roles, where there are several.
    """

    schedule: Schedule
    program: ExpandedProgram
    cluster: Cluster
    timeline: Timeline
    fidelity: Fidelity
    link_bytes: NDArray[np.float64] | None = None
    role_timelines: RoleTimelines | None = None

    @cached_property
    def step_s(self) -> float:
        if self.role_timelines is None:
            return self.timeline.step_s
        return max(role_timeline.timeline.step_s for role_timeline in self.role_timelines.by_role)

    @cached_property
    def classes(self) -> tuple[int, ...]:
        if self.role_timelines is None:
            return tuple(range(self.cluster.folding.num_rank_classes))
        return self.role_timelines.by_role[self._last[0]].classes

    @cached_property
    def _last(self) -> tuple[int, int]:
        """The role and the rank class that end last, of several roles."""
        assert self.role_timelines is not None, "a step of one role"
        return _last_role(self.role_timelines)

    @cached_property
    def critical(self) -> int:
        if self.role_timelines is not None:
            return self._last[1]
        ends = self.timeline.end.max(axis=1, initial=0.0)
        last = ends >= ends.max() * (1 - 1e-9)
        busy = (self.timeline.end - self.timeline.start)[:, self.is_kernel].sum(axis=1)
        return int(np.argmax(np.where(last, busy, -1.0)))

    @property
    def critical_row(self) -> int:
        """Where the critical rank's times stand in `timeline`."""
        return self.classes.index(self.critical)

    def view(self, cls: int) -> RoleView:
        """Program and times, op by op, of the role that a rank class runs."""
        if self.role_timelines is None or cls in self.classes:
            return RoleView(program=self.program, timeline=self.timeline, classes=self.classes)
        return view_of(self.schedule, self.role_timelines.by_role[int(self.cluster.role_of[cls])])

    @cached_property
    def is_kernel(self) -> NDArray[np.bool_]:
        """Per op: local work on the compute lane."""
        return is_kernel(self.program.ops)

    @cached_property
    def compute_s(self) -> float:
        """Time that the critical rank's compute lane is busy with kernels."""
        spent = self.timeline.end[self.critical_row] - self.timeline.start[self.critical_row]
        return float(spent[self.is_kernel].sum())

    def level(self, op: Collective | Exchange) -> Level:
        """The coarsest boundary that the op's messages cross."""
        edges = self.cluster.pattern_of(op).edges.sum(axis=0)
        return "inter_node" if edges[2] else "intra_node" if edges[1] else "package"

    def trace(
        self, digest: str, title: str, classes: tuple[int, ...] | None = None, notes: Mapping[str, str] | None = None
    ) -> Trace:
        """The timeline as a trace, one list of spans for each of the given classes (by default all); `notes` are added
        to what is said of the simulation. Spans have the numbers of the ops of their own rank's program."""
        folding = self.cluster.folding
        chosen = tuple(range(folding.num_rank_classes)) if classes is None else classes
        mesh = self.schedule.mesh
        who = tuple(
            f"rank {folding.representative[c]} (stands for {folding.rank_count[c]:,} of {mesh.num_ranks:,})"
            for c in chosen
        )
        made = {
            "mode": "simulated",
            "fidelity": self.fidelity,
            "machine": self.cluster.machine.name,
            "library": self.cluster.library.name,
            "mesh": ", ".join(f"{axis} {size}" for axis, size in mesh.axes),
        }
        return Trace(
            digest=digest,
            title=title,
            ranks=who,
            members=tuple(tuple(np.flatnonzero(folding.rank_class == c).tolist()) for c in chosen),
            spans=tuple(self._spans(c) for c in chosen),
            notes={**made, **(notes or {})},
        )

    def link_table(self, digest: str, title: str) -> LinkTable:
        """What every wire and pool carried in the step; fidelity `chunk` only."""
        assert self.link_bytes is not None, f"fidelity {self.fidelity} counts no bytes of links"
        fabric, links = self.cluster.fabric, []
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

    def _spans(self, cls: int) -> tuple[Span, ...]:
        known: dict[int, tuple[str, str, float, float]] = {}
        out = []
        view = self.view(cls)
        row, line = view.classes.index(cls), view.timeline
        times = (line.ready[row].tolist(), line.start[row].tolist(), line.end[row].tolist())
        for index, (op, call, ready, start, end) in enumerate(
            zip(view.program.ops, view.program.calls, *times, strict=True)
        ):
            if op.number not in known:
                known[op.number] = self._facts(op, view.program.at)
            axes, level, size, message = known[op.number]
            out.append(
                Span(
                    op=index,
                    lane=op.lane,
                    kind=op.kind,
                    name=op.name,
                    axes=axes,
                    level=level,
                    call=call.label,
                    layer=call.layer,
                    micro=call.micro,
                    num_bytes=size,
                    message_bytes=message,
                    ready_s=ready,
                    start_s=start,
                    end_s=end,
                )
            )
        return tuple(out)

    def _facts(self, op: Op, at: tuple[str, int] | None) -> tuple[str, str, float, float]:
        """Axes, level, bytes of its own and bytes of its messages; of an exchange those that the ranks at that place
        send."""
        tensors, mesh = self.schedule.tensors, self.schedule.mesh
        if isinstance(op, Compute):
            return "", "", float(traffic_bytes(op, tensors, mesh)), 0.0
        if isinstance(op, Exchange):
            there, back = exchanged_bytes(op, self.schedule.tensors, self.schedule.mesh)
            sent = float(there if at is not None and at[1] == op.ends[0] else back)
            return op.axis, self.level(op), sent, sent
        messages = sum(message.num_bytes for message in messages_of(op, tensors, mesh))
        return "+".join(op.axes), self.level(op), self.cluster.volume_bytes(op), float(messages)


def simulate_step(
    schedule: Schedule,
    machine: Machine,
    library: Library,
    fidelity: Fidelity = "flow",
    perturbation: Perturbation | None = None,
    exact: bool = False,
    placement: Placement = "block",
    program: ExpandedProgram | None = None,
) -> SimulatedStep:
    """Simulate one step; `program` is the expansion of a schedule of one role, if it is at hand. `exact` gives every
    rank, link and activity its own class instead of folding what is alike, which fidelity `chunk` always does, and
    calls of several roles are run op by op. Raises InputError where the machine or the fidelity cannot run it."""
    if len(schedule.roles) > 1:
        return _simulate_roles(schedule, machine, library, fidelity, perturbation, exact, placement)
    program = expand(schedule, schedule.roles[0]) if program is None else program
    if fidelity == "chunk":
        refuse_many(schedule.mesh.num_ranks)
    cluster = price(schedule, machine, library, perturbation, exact or fidelity == "chunk", placement)
    link_bytes = None
    match fidelity:
        case "analytic":
            timeline = analytic(program, cluster)
        case "flow":
            timeline = simulate(program, cluster)
        case "chunk":
            timeline, link_bytes = chunked(program, cluster)
    return SimulatedStep(
        schedule=schedule,
        program=program,
        cluster=cluster,
        timeline=timeline,
        fidelity=fidelity,
        link_bytes=link_bytes,
    )


def _simulate_roles(
    schedule: Schedule,
    machine: Machine,
    library: Library,
    fidelity: Fidelity,
    perturbation: Perturbation | None,
    exact: bool,
    placement: Placement,
) -> SimulatedStep:
    if fidelity == "chunk":
        raise InputError(
            f"fidelity chunk: got a schedule of {len(schedule.roles)} roles; allowed: one role (fidelity flow and "
            "analytic run pipelines)"
        )
    cluster = price(schedule, machine, library, perturbation, exact, placement)
    parts = [segmented(schedule, role, whole=not exact) for role in schedule.roles]
    role_timelines = simulate_roles(parts, cluster, contended=fidelity == "flow")
    last = view_of(schedule, role_timelines.by_role[_last_role(role_timelines)[0]])
    return SimulatedStep(
        schedule=schedule,
        program=last.program,
        cluster=cluster,
        timeline=last.timeline,
        fidelity=fidelity,
        role_timelines=role_timelines,
    )


def _last_role(role_timelines: RoleTimelines) -> tuple[int, int]:
    """The role and the rank class that end last; of equals the one whose kernels take longest, then the lowest."""
    step_s = max(role_timeline.timeline.step_s for role_timeline in role_timelines.by_role)
    last = [
        (-busy_s(role_timeline, cls), cls, number)
        for number, role_timeline in enumerate(role_timelines.by_role)
        for cls, end in zip(
            role_timeline.classes, role_timeline.timeline.end.max(axis=1, initial=0.0).tolist(), strict=True
        )
        if end >= step_s * (1 - 1e-9)
    ]
    _, cls, role = min(last)
    return role, cls
