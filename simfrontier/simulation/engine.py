"""The engine: one issuer per rank class, all of one role, on the clock of `flows`.

Ops of a rank class stand for those of all its ranks; with an exact folding every rank is a class.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simfrontier.cost import Cluster, OpWork
from simfrontier.errors import SimfrontierError
from simfrontier.schedule import ExpandedProgram, Issuer, ops_by_lane
from simfrontier.simulation.flows import FlowEvents
from simfrontier.simulation.timeline import Timeline
from simfrontier.simulation.waits import blocked_lines


def simulate(program: ExpandedProgram, cluster: Cluster) -> Timeline:
    """Run one step of a schedule of one role (fidelity `flow`)."""
    return _Engine(program, cluster).run()


@dataclass(slots=True)
class OpInfo:
    """What an engine needs of one op: its works and groups by activity class."""

    works: tuple[OpWork, ...]
    group_of: list[int]
    members: tuple[tuple[int, ...], ...]


def groups_by_pattern(cluster: Cluster) -> dict[str, tuple[list[int], tuple[tuple[int, ...], ...]]]:
    """Of each pattern: the group of every rank class, and the members of every group."""
    folding = cluster.folding
    return {
        key: (folding.activity_of(key).tolist(), tuple(tuple(sorted(m)) for m in folding.members(key)))
        for key in cluster.patterns
    }


class _Engine(FlowEvents):
    def __init__(self, program: ExpandedProgram, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.program = program
        folding = cluster.folding
        num = folding.num_rank_classes
        by_lane = ops_by_lane(program)
        self.issuers = [Issuer(program, by_lane) for _ in range(num)]
        self.ready = [[0.0] * program.num_ops for _ in range(num)]
        self.start = [[0.0] * program.num_ops for _ in range(num)]
        self.end = [[0.0] * program.num_ops for _ in range(num)]
        groups = groups_by_pattern(cluster)
        known: dict[int, OpInfo] = {}
        self.infos: list[OpInfo] = []
        for op in program.ops:
            info = known.get(op.number)
            if info is None:
                priced = cluster.of(op)
                info = known[op.number] = OpInfo(priced.works, *groups[priced.pattern])
            self.infos.append(info)
        self.arrived: dict[tuple[int, int], int] = {}

    def run(self) -> Timeline:
        self._start_all(range(len(self.issuers)))
        self._settle_soon()
        self.env.run()
        if not all(issuer.is_finished for issuer in self.issuers):
            raise SimfrontierError(self._stuck())
        times = (np.array(table, float) for table in (self.ready, self.start, self.end))
        ready, start, end = times
        return Timeline(ready=ready, start=start, end=end, num_solves=len(self.memo))

    def _stuck(self) -> str:
        lines = []
        for number, issuer in enumerate(self.issuers):
            lines += blocked_lines(f"rank class {number}", issuer, self.program.ops)
        return "the simulated step is stuck: " + "; ".join(lines[:8])

    def _start_all(self, classes: range | list[int]) -> None:
        now = self.env.now
        for number in classes:
            ready = self.ready[number]
            for op in self.issuers[number].startable():
                info = self.infos[op]
                ready[op] = now
                group = info.group_of[number]
                members = info.members[group]
                if len(members) > 1:
                    count = self.arrived.get((op, group), 0) + 1
                    if count < len(members):
                        self.arrived[op, group] = count
                        continue
                    self.arrived.pop((op, group), None)
                for member in members:
                    self.start[member][op] = now
                self._begin(info.works[group], op, group)

    def _settled(self) -> None:
        """Every op begins when it may: none waits for the instant to be over."""

    def _finish(self, ended: list[tuple[int, int]]) -> None:
        now = self.env.now
        touched: dict[int, None] = {}
        for op, group in ended:
            for member in self.infos[op].members[group]:
                self.end[member][op] = now
                self.issuers[member].finish(op)
                touched[member] = None
        self._start_all(sorted(touched))
