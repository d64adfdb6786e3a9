"""Where a step's time goes on its critical rank: kernels, communication that they do not hide, by level, and the
rest."""

from __future__ import annotations

import numpy as np

from simfrontier.records import dataclass
from simfrontier.schedule import Compute
from simfrontier.simulation import LEVELS, SimulatedStep


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposure:
    """Seconds of the critical rank's step; they sum to the step.

    `compute`: a kernel of the compute lane runs. Otherwise the time belongs to the coarsest collective that the rank is
    in or waits in, or exchange that it is in, else to local work of another lane (`codec`: encoding, decoding,
    reordering), else to nothing (`idle`): so also the bubble of a pipeline, the time in which a rank waits for other
    stages.
    """

    compute: float
    inter_node: float
    intra_node: float
    package: float
    codec: float
    idle: float

    @property
    def exposed_comm(self) -> float:
        """All that is not compute."""
        return self.inter_node + self.intra_node + self.package + self.codec + self.idle


def exposure(step: SimulatedStep) -> Exposure:
    """Sweep the critical rank's spans and give every moment to the first of the kinds above that is active."""
    row, ops, is_shared = step.critical_row, step.ops, step.cluster.role_assignment.is_shared
    priority = {level: 1 + i for i, level in enumerate(LEVELS)}
    known: dict[int, int] = {}
    kinds = np.empty(len(ops), np.int64)
    waits = np.zeros(len(ops), bool)
    for index, op in enumerate(ops):
        if op.number not in known:
            if isinstance(op, Compute):
                known[op.number] = {"compute": 0, "host": 5}.get(op.lane, 4)
            else:
                known[op.number] = priority[step.level(op)]
        kinds[index] = known[op.number]
        waits[index] = not isinstance(op, Compute) and not is_shared(op)
    begin = np.where(waits, step.timeline.ready[row], step.timeline.start[row])
    end = step.timeline.end[row]
    times = np.unique(np.concatenate([[0.0, step.step_s], begin, end]))
    taken = np.zeros(len(times), bool)
    lengths = np.diff(times, append=times[-1])
    out = []
    for kind in range(5):
        mine = kinds == kind
        change = np.bincount(np.searchsorted(times, begin[mine]), minlength=len(times))
        change -= np.bincount(np.searchsorted(times, end[mine]), minlength=len(times))
        active = (np.cumsum(change) > 0) & ~taken
        taken |= active
        out.append(float(lengths[active].sum()))
    compute, inter, intra, package, codec = out
    idle = float(lengths[~taken].sum())
    return Exposure(compute=compute, inter_node=inter, intra_node=intra, package=package, codec=codec, idle=idle)
