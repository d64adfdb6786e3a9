"""Every role's program, and whose each rank runs: the ranks of a pipeline's stages have programs of their own."""

from __future__ import annotations

from dataclasses import dataclass

from simfrontier.core.program import ExpandedProgram, Schedule, axis_of_roles, expand


def _roles_by_rank(schedule: Schedule) -> tuple[int, ...]:
    """The number of each rank's role."""
    axis = axis_of_roles(schedule)
    if axis is None:
        return (0,) * schedule.mesh.num_ranks
    numbers = {role.at[1]: number for number, role in enumerate(schedule.roles) if role.at is not None}
    out = [0] * schedule.mesh.num_ranks
    for along in schedule.mesh.groups((axis,)).tolist():
        for coordinate, rank in enumerate(along):
            out[rank] = numbers[coordinate]
    return tuple(out)


@dataclass(frozen=True, slots=True)
class Programs:
    """The program of every role, and the number of each rank's role."""

    of_roles: tuple[ExpandedProgram, ...]
    by_rank: tuple[int, ...]

    def of(self, rank: int) -> ExpandedProgram:
        """The program of a rank."""
        return self.of_roles[self.by_rank[rank]]


def programs_of(schedule: Schedule) -> Programs:
    """All roles' programs, expanded."""
    return Programs(tuple(expand(schedule, role) for role in schedule.roles), _roles_by_rank(schedule))
