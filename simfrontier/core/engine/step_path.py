"""Step time without an event loop: the longest path through the program nodes of all roles, for known durations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from graphlib import TopologicalSorter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simfrontier.base.arrays import Floats
from simfrontier.core.cost import Pricing
from simfrontier.core.engine.durations import Durations
from simfrontier.core.engine.timeline import CallTimes, RoleTimeline, Timeline
from simfrontier.core.program import CallSequence, Compute, Op, Role, Segment, SegmentedProgram, expand, sequence_of

Node = tuple[int, int]  # (role, its number in the role's program)
Passed = tuple[Node, Floats, Floats, Floats]  # a node, and when it is ready, starts and ends


class Run(NamedTuple):
    """Program nodes of a role that follow one another without waiting for anything else: the last one, all but the
    first one, and the function that returns the end of the last from the start of the first."""

    last: int
    further: Sequence[int]
    end: Callable[[Floats], Floats]


def longest_path(
    before: Sequence[Sequence[Sequence[int]]],
    order: Sequence[tuple[Node, ...]],
    begin: Sequence[Floats],
    start: Callable[[tuple[Node, ...], list[Floats]], list[Floats]],
    end: Callable[[Node, Floats], Floats],
    run_from: Callable[[Node], Run | None] | None = None,
) -> Iterator[Passed]:
    """Yield every program node in order, with its times. A node is ready when the last of the nodes for which it waits
    has ended.

    Args:
        before: for each role and node, the nodes of the role for whose ends it waits; they precede it in `order`.
        order: all nodes, each as the (role, node) pairs of the roles that take part in it.
        begin: for each role, the seconds from which its rows are ready [num_rows, num_variations].
        start: function that returns the start of a node on the rows of each participating role, from their ready times.
        end: function that returns the end of a node, from its start.
        run_from: function that returns the run that begins at a node, if any; a run is yielded as its last node.

    The end of a node is stored only while another node waits for it.
    """
    left = [num_waiting(nodes) for nodes in before]
    known: list[dict[int, Floats]] = [{} for _ in before]
    in_run: set[Node] = set()
    for takers in order:
        if takers[0] in in_run:
            continue
        ready = []
        for role, node in takers:
            ends, waiting = known[role], left[role]
            out = begin[role]
            for other in before[role][node]:
                other_end = ends[other]
                out = other_end if out is begin[role] else np.maximum(out, other_end)
                waiting[other] -= 1
                if not waiting[other]:
                    del ends[other]
            ready.append(out)
        for each, own, began in zip(takers, ready, start(takers, ready), strict=True):
            run = None if run_from is None else run_from(each)
            if run is None:
                ended = end(each, began)
            else:
                ended = run.end(began)
                in_run.update((each[0], node) for node in run.further)
                each = each[0], run.last
            if left[each[0]][each[1]]:
                known[each[0]][each[1]] = ended
            yield each, own, began, ended


def num_waiting(before: Sequence[Sequence[int]]) -> list[int]:
    """Return for each program node the number of nodes that wait for it."""
    out = [0] * len(before)
    for others in before:
        for other in others:
            out[other] += 1
    return out


def passed(before: Sequence[Sequence[int]], took: Sequence[float]) -> tuple[list[float], list[float]]:
    """Return the start and end times of the program nodes of one role on one row, in seconds. `before`: for each node,
    the nodes for which it waits, all of which precede it; `took`: the duration of each node in seconds."""
    start: list[float] = []
    end: list[float] = []
    for others, own in zip(before, took, strict=True):
        begin = 0.0
        for other in others:
            if end[other] > begin:
                begin = end[other]
        start.append(begin)
        end.append(begin + own)
    return start, end


@dataclass(frozen=True, slots=True)
class NodeNumbers:
    """Numbers of all program nodes, counted through all roles; a call shared by several roles has the number that it
    has in the first of them.

    keys    for each role, the numbers of its nodes
    first   for each role, the number of its first node
    shared  for each shared call, its node in each role that takes part
    """

    keys: tuple[list[int], ...]
    first: tuple[int, ...]
    shared: dict[int, dict[int, int]]

    def node(self, key: int, role: int) -> int:
        """Return the index within a role's program of the node with number `key`."""
        shared = self.shared.get(key)
        return key - self.first[role] if shared is None else shared[role]

    def order(self, before: Sequence[Sequence[Sequence[int]]]) -> list[tuple[Node, ...]]:
        """Return all program nodes, each as the (role, node) pairs of the roles that take part in it, in an order in
        which every node comes after the nodes for which it waits. `before`: for each role and node, the nodes of the
        role for which it waits; they precede it in the role's program."""
        if len(self.keys) == 1:
            return [((0, node),) for node in range(len(self.keys[0]))]
        takers: defaultdict[int, list[Node]] = defaultdict(list)
        sorter = TopologicalSorter[int]()
        for role, (keys, waits) in enumerate(zip(self.keys, before, strict=True)):
            for node, (key, others) in enumerate(zip(keys, waits, strict=True)):
                takers[key].append((role, node))
                sorter.add(key, *[keys[other] for other in others])
        return [tuple(takers[key]) for key in sorter.static_order()]


def number_nodes(parts: Sequence[SegmentedProgram], pricings: Sequence[Pricing]) -> NodeNumbers:
    """Number the program nodes of all roles; `pricings`: for each role, the pricing of its job. The k-th call of a
    communicator that spans roles is one call for all roles of the job that take part, and so is the k-th exchange
    between two ranks."""
    keys: list[list[int]] = []
    shared: dict[int, dict[int, int]] = {}
    first: list[int] = []
    known: dict[tuple[int, CallSequence, int], int] = {}
    begin = 0
    for role, (part, pricing) in enumerate(zip(parts, pricings, strict=True)):
        count: defaultdict[CallSequence, int] = defaultdict(int)
        mine = list(range(begin, begin + part.program.num_ops))
        first.append(begin)
        begin += len(mine)
        for node, op in enumerate(part.program.ops):
            if not isinstance(op, Compute) and pricing.role_assignment.is_shared(op):
                sequence = sequence_of(op)
                mine[node] = known.setdefault((id(pricing), sequence, count[sequence]), mine[node])
                count[sequence] += 1
                shared.setdefault(mine[node], {})[role] = node
        keys.append(mine)
    return NodeNumbers(keys=tuple(keys), first=tuple(first), shared=shared)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupWait:
    """Synchronisation of rank classes within the groups of a pattern: the rank classes sorted by group, the index at
    which each group begins in that order, and the group of each rank class."""

    order: NDArray[np.int64]
    first: NDArray[np.int64]
    group: NDArray[np.integer]

    @property
    def groups(self) -> tuple[list[int], ...]:
        """Rank classes of each group."""
        return tuple(each.tolist() for each in np.split(self.order, self.first[1:]))

    def after(self, ready: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return for each rank class the time at which its whole group is ready, given the ready times of the rank
        classes [num_rank_classes, ...]."""
        if len(self.first) == 1:
            latest: NDArray[np.float64] = ready.max(axis=0, keepdims=True)
            return latest if len(ready) == 1 else latest.repeat(len(ready), axis=0)
        together: NDArray[np.float64] = np.maximum.reduceat(ready[self.order], self.first, axis=0)[self.group]
        return together


def group_wait_of(group: NDArray[np.integer]) -> GroupWait | None:
    """Return the synchronisation of rank classes in these groups; None if every group is a single rank class."""
    order = np.argsort(group, kind="stable")
    first = np.flatnonzero(np.diff(group[order], prepend=-1))
    if len(first) == len(group):
        return None
    of_label = np.cumsum(np.diff(group[order], prepend=-1) != 0) - 1
    place = np.empty(len(group), np.int64)
    place[order] = of_label
    return GroupWait(order=order, first=first, group=place)


MOST_NUMBERS = 2_000_000  # that the times of a run may be
SAME_TIME = 1e-12  # relative to the time: rank classes that reach a call within this reach it at once


class StepPath:
    """Longest path through one step whose program nodes have the durations `durations`. An op starts when the last rank
    class of its group is ready."""

    def __init__(self, durations: Durations) -> None:
        self.durations, self.pricing, self.parts = durations, durations.pricing, durations.parts
        self.rows = durations.rows
        self.before = [part.program.before for part in self.parts]
        self.order = number_nodes(self.parts, [self.pricing] * len(self.parts)).order(self.before)
        self.calls: dict[Hashable, CallPath] = {}
        self.runs_whole: dict[Node, bool] = {}  # of calls that have started
        self._waits: dict[tuple[str, int], GroupWait | None] = {}
        self._waits_of: dict[tuple[int, int], GroupWait | None] = {}  # the same by number of the op and role
        self._joint_waits: dict[str, GroupWait | None] = {}
        self._coupled: dict[tuple[int, Segment], GroupWait | None] = {}
        self._waits_in: dict[Segment, list[list[int]]] = {}

    def passed(self, in_runs: bool = False) -> Iterator[Passed]:
        """Yield every program node with the times at which it is ready, starts and ends, on each row and in each
        variation. With `in_runs`, the calls of a run (see `run_from`) are yielded as the last of them."""
        begin = [np.zeros((len(rows), self.durations.num_variations)) for rows in self.rows]
        runs = self.run_from if in_runs else None
        yield from longest_path(self.before, self.order, begin, self._start, self._end, runs)

    def run_from(self, node: Node) -> Run | None:
        """Return the run of equal program calls that begins at a node and of which each starts as soon as the one
        before has ended, all of them as a whole; None if there is no second call, or if the times would take too much
        memory."""
        role, index = node
        part, durations = self.parts[role], self.durations
        most = MOST_NUMBERS // (len(self.rows[role]) * durations.num_variations)
        nodes = [index]
        while (after := part.followers[nodes[-1]]) >= 0 and len(nodes) < most:
            if not durations.is_whole(role, after) or durations.call_key(role, after) != durations.call_key(
                role, index
            ):
                break
            nodes.append(after)
        if len(nodes) == 1 or not durations.is_whole(role, index):
            return None
        return Run(nodes[-1], nodes[1:], lambda start: self._end_of_run(role, nodes, start))

    def _end_of_run(self, role: int, nodes: Sequence[int], start: Floats) -> Floats:
        """Return the end of program calls that run as a whole, one after another, from the start of the first."""
        wait, alone_s = self.coupled(role, nodes[0]), self.call(role, nodes[0]).alone_s
        each = alone_s[:, None] + self.durations.added_to_calls(role, nodes)  # [num_rows, num_nodes, num_variations]
        before = each[:, :-1] if wait is None else wait.after(each[:, :-1])
        end: Floats = start + before.sum(axis=1) + each[:, -1]
        return end

    def step_s(self) -> Floats:
        """Return step times in seconds [num_variations]. Equal program calls that follow one another as a whole, such
        as the layers of a pipeline stage, are passed in one go."""
        ends = [end.max(axis=0) for node, _, _, end in self.passed(in_runs=True) if node in self.last_of_lanes]
        longest: Floats = np.max(ends, axis=0)
        return longest

    @cached_property
    def last_of_lanes(self) -> frozenset[Node]:
        """Last program node of each lane of each role."""
        last = ((role, nodes[-1]) for role, part in enumerate(self.parts) for nodes in part.program.by_lane)
        return frozenset(last)

    # ── starts ──

    def _start(self, takers: tuple[Node, ...], ready: list[Floats]) -> list[Floats]:
        role, node = takers[0]
        if len(takers) > 1:
            return self._joint_start(self.parts[role].program.ops[node], takers, ready)
        if self.parts[role].blocks[node] is not None:
            return [self._start_of_call(role, node, ready[0])]
        wait = self.group_wait(self.parts[role].program.ops[node], role)
        return ready if wait is None else [wait.after(ready[0])]

    def _joint_start(self, op: Op, takers: tuple[Node, ...], ready: list[Floats]) -> list[Floats]:
        """Return the start times of a call in which several roles take part; its groups synchronise rank classes across
        roles."""
        every = np.full((self.pricing.folding.num_rank_classes, self.durations.num_variations), -np.inf)
        for (role, _), mine in zip(takers, ready, strict=True):
            every[self.rows[role]] = mine
        pattern = self.pricing.of(op).pattern
        if pattern not in self._joint_waits:
            self._joint_waits[pattern] = group_wait_of(self.pricing.folding.activity_of(pattern))
        wait = self._joint_waits[pattern]
        if wait is not None:
            every = wait.after(every)
        return [every[self.rows[role]] for role, _ in takers]

    def group_wait(self, op: Op, role: int) -> GroupWait | None:
        """Return the synchronisation of the role's rank classes at an op; None if every rank class is a group by
        itself."""
        number = op.number, role
        if number not in self._waits_of:
            key = self.pricing.of(op).pattern, role
            if key not in self._waits:
                self._waits[key] = group_wait_of(self.pricing.folding.activity_of(key[0])[self.rows[role]])
            self._waits_of[number] = self._waits[key]
        return self._waits_of[number]

    # ── calls ──

    def _start_of_call(self, role: int, node: int, ready: Floats) -> Floats:
        wait, is_whole = self.coupled(role, node), self.durations.is_whole(role, node)
        last = ready if wait is None else wait.after(ready)
        if is_whole is None:
            is_whole = wait is None or bool((last + wait.after(-ready) <= SAME_TIME * last).all())
        self.runs_whole[role, node] = is_whole
        return last if is_whole else ready

    def _end(self, node: Node, start: Floats) -> Floats:
        role, index = node
        if self.parts[role].blocks[index] is None:
            return start + self.durations.of_op(role, index)
        call = self.call(role, index)
        end = start + call.alone_s if self.runs_whole[node] else call.end(start)
        return end + self.durations.added_to_call(role, index)

    def call(self, role: int, node: int) -> CallPath:
        """Return the path through the ops of the program call that a node represents; equal program calls share one
        object."""
        key = self.durations.call_key(role, node)
        if key not in self.calls:
            waits = [self.group_wait(op, role) for op in self.parts[role].block(node)]
            before = self._before_in_call(role, node)
            self.calls[key] = CallPath(before, waits, self.durations.of_call(role, node))
        return self.calls[key]

    def _before_in_call(self, role: int, node: int) -> list[list[int]]:
        """Return for each op of a program call the ops of the call for which it waits."""
        part = self.parts[role]
        segment = part.segment(node)
        if segment not in self._waits_in:
            only = replace(part.program.calls[node], ops=part.block(node))
            self._waits_in[segment] = expand(part.schedule, Role(part.role.name, (only,), part.role.at)).before
        return self._waits_in[segment]

    def coupled(self, role: int, node: int) -> GroupWait | None:
        """Return the sets of rank classes that the collectives of a program call synchronise, directly or through other
        classes; None if no classes are synchronised."""
        key = role, self.parts[role].segment(node)
        if key not in self._coupled:
            label: Floats = np.arange(len(self.rows[role]), dtype=float)
            waits = (self.group_wait(op, role) for op in self.parts[role].block(node))
            several = [wait for wait in waits if wait is not None]
            while True:
                before = label
                for wait in several:
                    label = wait.after(label)
                if (label == before).all():
                    break
            self._coupled[key] = group_wait_of(np.unique(label, return_inverse=True)[1])
        return self._coupled[key]


class CallPath:
    """Longest path through the ops of one program call. The ops have the durations `took`, each [num_rows,
    num_variations]; an op starts at the same time on all rows that it synchronises."""

    def __init__(
        self, before: Sequence[Sequence[int]], waits: Sequence[GroupWait | None], took: Sequence[Floats]
    ) -> None:
        self.before, self.waits, self.took = before, waits, took

    @cached_property
    def last(self) -> list[int]:
        """Ops for which no other op of the call waits: one of them ends last."""
        return [op for op, waiting in enumerate(num_waiting(self.before)) if not waiting]

    @cached_property
    def alone_s(self) -> Floats:
        """Seconds that the program call takes if all rows begin it at the same time."""
        return self.end(np.zeros_like(self.took[0]))

    @cached_property
    def times_alone(self) -> Floats:
        """Result of `times` if all rows begin the program call at time 0."""
        return self.times(np.zeros_like(self.took[0]))

    def end(self, begin: Floats) -> Floats:
        """Return the time at which the program call ends on each row, given the times `begin` at which the rows begin
        it."""
        ends: list[Floats] = []
        for others, wait, took in zip(self.before, self.waits, self.took, strict=True):
            ready = ends[others[0]] if others else begin
            for other in others[1:]:
                ready = np.maximum(ready, ends[other])
            ends.append((ready if wait is None else wait.after(ready)) + took)
        return reduce(np.maximum, [ends[op] for op in self.last], begin)

    def times(self, begin: Floats) -> Floats:
        """Return the times at which the call's ops are ready, start and end, given the times `begin` at which the rows
        begin the call [3, num_ops, num_rows, num_variations]."""
        each = [times for _, *times in self._passed(begin)]
        return np.array(each).swapaxes(0, 1)

    def _passed(self, begin: Floats) -> Iterator[Passed]:
        return longest_path(
            [self.before], [((0, op),) for op in range(len(self.took))], [begin], self._start, self._end
        )

    def _start(self, takers: tuple[Node, ...], ready: list[Floats]) -> list[Floats]:
        wait = self.waits[takers[0][1]]
        return ready if wait is None else [wait.after(ready[0])]

    def _end(self, node: Node, start: Floats) -> Floats:
        return start + self.took[node[1]]


def timelines(path: StepPath, classes: Sequence[tuple[int, ...]]) -> tuple[RoleTimeline, ...]:
    """Return the timelines of all roles from a path with one variation."""
    times = [np.empty((3, part.program.num_ops, len(rows))) for part, rows in zip(path.parts, classes, strict=True)]
    calls = _CallTimes(path, classes)
    for (role, node), *when in path.passed():
        for which, each in enumerate(when):
            times[role][which, node] = each[:, 0]
        if path.parts[role].blocks[node] is not None:
            calls.note((role, node), when[1])
    return tuple(
        RoleTimeline(
            segmented=part,
            classes=classes[role],
            timeline=Timeline(ready=ready.T, start=start.T, end=end.T),
            by_class=calls.by_class[role],
            by_node=calls.by_node[role],
        )
        for role, (part, (ready, start, end)) in enumerate(zip(path.parts, times, strict=True))
    )


class _CallTimes:
    """Times of the ops of program calls. For calls that run as a whole, the times are stored once for all rank classes
    that begin the call at the same instant."""

    def __init__(self, path: StepPath, classes: Sequence[tuple[int, ...]]) -> None:
        self.path, self.classes = path, classes
        self.by_class: list[dict[tuple[int, int], tuple[float, CallTimes]]] = [{} for _ in classes]
        self.by_node: list[dict[int, list[tuple[float, Mapping[int, CallTimes]]]]] = [{} for _ in classes]
        self._whole: dict[CallPath, dict[int, CallTimes]] = {}

    def note(self, node: Node, start: Floats) -> None:
        """Record a program call that starts at the times `start` on the rows of its role."""
        role, index = node
        call = self.path.call(role, index)
        if not self.path.runs_whole[node]:
            times = self._by_class(call.times(start), role)
            self.by_class[role].update({(cls, index): (0.0, each) for cls, each in times.items()})
            return
        if call not in self._whole:
            self._whole[call] = self._by_class(call.times_alone, role)
        whole, begins = self._whole[call], start[:, 0]
        for begin in np.unique(begins).tolist():
            mine = np.flatnonzero(begins == begin)
            some = whole if len(mine) == len(begins) else {(cls := self.classes[role][row]): whole[cls] for row in mine}
            self.by_node[role].setdefault(index, []).append((begin, some))

    def _by_class(self, times: Floats, role: int) -> dict[int, CallTimes]:
        ready, start, end = np.ascontiguousarray(times[..., 0].swapaxes(1, 2))
        each = zip(self.classes[role], ready, start, end, strict=True)
        return {cls: CallTimes(ready=r, start=s, end=e) for cls, r, s, e in each}
