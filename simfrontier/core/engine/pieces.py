"""Pieces of a call: they begin where nothing of it is under way, so that it can go on from there as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from simfrontier.core.engine.timeline import CallTimes
from simfrontier.core.program import ExpandedProgram

Done = tuple[int, ...]  # ops that are done, by lane


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """When each piece of a call that runs by itself begins, in seconds from the call's begin, and what all of its rank
    classes have done then; the first begins with the call. `number_of`: the piece that begins with so much done."""

    begins: tuple[float, ...]
    done: tuple[Done, ...]
    number_of: dict[Done, int] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "number_of", {done: number for number, done in enumerate(self.done)})


def pieces_of(program: ExpandedProgram, times: Sequence[CallTimes]) -> Pieces:
    """The pieces of a call of these ops, by its times on each of its rank classes."""
    ready, end = np.array([each.ready for each in times]), np.array([each.end for each in times])
    at = np.unique(ready)[:, None, None]  # [num_instants, 1, 1], beside [num_classes, num_ops]
    done = end <= at
    is_idle = (done | (ready >= at)).all(axis=(1, 2)) & (done == done[:, :1]).all(axis=(1, 2))
    is_idle &= ~done.all(axis=(1, 2))
    lanes = np.asarray(program.lane)
    counts = np.array([done[:, 0, lanes == lane].sum(axis=1) for lane in range(len(program.lanes))]).T
    begins, states = [0.0], [(0,) * len(program.lanes)]
    for number in np.flatnonzero(is_idle).tolist():
        state = tuple(counts[number].tolist())
        if state != states[-1]:
            begins.append(float(at[number, 0, 0]))
            states.append(state)
    return Pieces(tuple(begins), tuple(states))
