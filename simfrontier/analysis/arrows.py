"""Arrows of a trace file: who waited for whom in a call, and who sent to whom.

Those of a collective lead from the rank that was ready last to the others of its group, those of an exchange from the
sender to the receiver. Only ranks of one group or pair that the file shows are joined, and no two of one rank class,
which share a process.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from simfrontier.analysis.shown_ranks import MOST_SPANS, ShownRank, ShownRanks
from simfrontier.arrays import Ints
from simfrontier.schedule import Collective, Exchange, Op
from simfrontier.simulation import SimulatedStep, number_nodes
from simfrontier.trace import Arrow, Place, Process, arrows_from_last


def arrows_of(shown: ShownRanks, processes: Sequence[Process]) -> list[Arrow]:
    """All arrows between the processes of a file, in the order of the spans that they leave, which is that of time on a
    lane."""
    made = [*_in_roles(shown, processes), *_between_roles(shown, processes)]
    return sorted(made, key=lambda arrow: (arrow.source, arrow.target))


def arrows_between(step: SimulatedStep) -> list[tuple[Place, Place]]:
    """The same between all rank classes of a step: each end a rank class, and the number of an op in its program."""
    classes = range(step.cluster.folding.num_rank_classes)
    ranks = tuple(ShownRank(step=step, cls=cls, by_call=False) for cls in classes)
    shown = ShownRanks(step=step, ranks=ranks, most_spans=MOST_SPANS)
    return [(arrow.source, arrow.target) for arrow in arrows_of(shown, list(shown.processes()))]


def _in_roles(shown: ShownRanks, processes: Sequence[Process]) -> Iterator[Arrow]:
    """Calls within the ranks of one role: each stands at the same place of their programs."""
    cluster = shown.step.cluster
    alike: defaultdict[tuple[int, bool], list[int]] = defaultdict(list)
    for number, rank in enumerate(shown.ranks):
        alike[rank.role, rank.by_call].append(number)
    for numbers in alike.values():
        if len(numbers) == 1:
            continue
        places: defaultdict[int, list[int]] = defaultdict(list)
        ops: dict[int, Op] = {}
        for place, op in enumerate(_ops(shown.ranks[numbers[0]])):
            if isinstance(op, Collective) and not cluster.role_assignment.is_shared(op):
                places[op.number].append(place)
                ops[op.number] = op
        for number, op in ops.items():
            for together in _groups(shown, numbers, op):
                for place in places[number]:
                    yield from arrows_from_last(processes, [(process, place) for process in together])


def _between_roles(shown: ShownRanks, processes: Sequence[Process]) -> Iterator[Arrow]:
    """Calls that roles share."""
    step = shown.step
    if len(step.roles) == 1:
        return
    parts = [role.segmented for role in step.roles]
    nodes = number_nodes(parts, step.cluster)
    of_role: defaultdict[int, list[int]] = defaultdict(list)
    for number, rank in enumerate(shown.ranks):
        of_role[rank.role].append(number)
    spans = [_first_spans(rank) for rank in shown.ranks]
    for shared in nodes.shared.values():
        role, node = next(iter(shared.items()))
        op = parts[role].program.ops[node]
        numbers = [number for role in shared for number in of_role[role]]
        for together in _groups(shown, numbers, op):
            places = [(number, int(spans[number][shared[shown.ranks[number].role]])) for number in together]
            if isinstance(op, Exchange):
                yield from _sent(shown, op, places)
            else:
                yield from arrows_from_last(processes, places)


def _groups(shown: ShownRanks, numbers: Sequence[int], op: Op) -> list[list[int]]:
    """Of these processes those that take part in one call of an op together, where they are several."""
    cluster = shown.step.cluster
    pattern = cluster.of(op).pattern
    of_class, members = cluster.folding.activity_of(pattern), cluster.folding.members(pattern)
    together: dict[int, list[int]] = {}
    for number in numbers:
        cls = shown.ranks[number].cls
        if cls in members[of_class[cls]]:
            together.setdefault(int(of_class[cls]), []).append(number)
    return [sorted(group) for group in together.values() if len(group) > 1]


def _sent(shown: ShownRanks, op: Exchange, places: Sequence[Place]) -> Iterator[Arrow]:
    """From the ranks at an end that sends to those at the other."""
    roles = shown.step.schedule.roles
    ends: dict[int, list[Place]] = {end: [] for end in op.ends}
    for place in places:
        at = roles[shown.ranks[place[0]].role].at
        assert at is not None and at[1] in ends, f"{op.name}: an exchange of a role at {at}"
        ends[at[1]].append(place)
    there, back = op.ends
    for begin, end, is_sent in ((there, back, op.src), (back, there, op.back_src)):
        if is_sent:
            yield from (Arrow(source, target) for source in ends[begin] for target in ends[end])


def _ops(rank: ShownRank) -> Sequence[Op]:
    """The op of every span; a stand-in for a call is no collective."""
    if rank.by_call:
        return rank.step.roles[rank.role].segmented.program.ops
    return rank.step.view(rank.cls).ops


def _first_spans(rank: ShownRank) -> Ints:
    """The first span of every node of the rank's program."""
    blocks = rank.step.roles[rank.role].segmented.blocks
    counts = [1 if block is None or rank.by_call else len(block) for block in blocks]
    return np.cumsum([0, *counts[:-1]])
