"""Tags of exchanges: a number for each call, the same at both ends, by which a send finds its receive."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from simfrontier.core.program import CallSequence, Exchange, ExpandedProgram, Mesh, Schedule, sequence_of

CALLS_OF_COMM: Final = 1_000_000  # tags of one communicator between two ends; ASTRA-sim takes tags below 500,000,000


@dataclass(frozen=True, slots=True)
class Peer:
    """The other end of a message: the rank that lies `offset` away; `receives`: whether the message comes from it."""

    offset: int
    receives: bool


def tags_of(program: ExpandedProgram, comms: dict[str, int]) -> dict[int, int]:
    """The tag of each exchange of a program, by its place in it. The k-th call of a communicator between two ends is
    the same call in both programs. `comms`: numbers of communicators, as `comms_of` gives them."""
    count: Counter[CallSequence] = Counter()
    out = {}
    for index, op in enumerate(program.ops):
        if isinstance(op, Exchange):
            sequence = sequence_of(op)
            assert count[sequence] < CALLS_OF_COMM, f"{op.name}: {CALLS_OF_COMM:,} calls between two ends"
            out[index] = comms[op.comm] * CALLS_OF_COMM + count[sequence]
            count[sequence] += 1
    return out


def comms_of(schedule: Schedule) -> dict[str, int]:
    """A number for each communicator of exchanges, in the order in which the schedule has them first."""
    names = dict.fromkeys(op.comm for op in schedule.ops if isinstance(op, Exchange))
    return {name: number for number, name in enumerate(names)}


def offset_of(op: Exchange, at: tuple[str, int] | None, mesh: Mesh) -> int:
    """Return the distance to the other end, in ranks, for those whose role is at that place."""
    assert at is not None, f"{op.name}: an exchange in a role at no place"
    here, there = op.ends if at[1] == op.ends[0] else reversed(op.ends)
    return (there - here) * mesh.size(mesh.names[mesh.names.index(op.axis) + 1 :])
