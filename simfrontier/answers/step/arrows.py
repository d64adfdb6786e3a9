"""Arrows of a trace file: who waited for whom in a call, and who sent to whom.

Those of a collective lead from the rank that was ready last to the others of its group, those of an exchange from the
sender to the receiver. Only ranks of one group or pair that the file shows are joined, and no two of one rank class,
which share a process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from simfrontier.core.engine import Walk, meetings
from simfrontier.core.program import Exchange
from simfrontier.core.trace import Arrow, Place, arrows_from_last


def arrows_of(walks: Sequence[Walk]) -> list[Arrow]:
    """All arrows between rank classes, each end the number of a walk and of an op in it, in the order of the ops that
    they leave, which is that of time on a lane."""
    made: list[Arrow] = []
    for op, places in meetings(walks):
        made += _sent(walks, op, places) if isinstance(op, Exchange) else arrows_from_last(walks, places)
    return sorted(made, key=lambda arrow: (arrow.source, arrow.target))


def _sent(walks: Sequence[Walk], op: Exchange, places: Sequence[Place]) -> Iterator[Arrow]:
    """From the ranks at an end that sends to those at the other."""
    ends: dict[int, list[Place]] = {end: [] for end in op.ends}
    for place in places:
        at = walks[place[0]].at
        assert at is not None and at[1] in ends, f"{op.name}: an exchange of a role at {at}"
        ends[at[1]].append(place)
    there, back = op.ends
    for begin, end, is_sent in ((there, back, op.src), (back, there, op.back_src)):
        if is_sent:
            yield from (Arrow(source, target) for source in ends[begin] for target in ends[end])
