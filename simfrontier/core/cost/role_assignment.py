"""Which ranks run which roles of a schedule, and what the roles' exchanges are on their mesh."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simfrontier.base.errors import InputError
from simfrontier.core.program import Collective, Exchange, Op, Schedule, members_of


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RoleAssignment:
    """`axis` is the mesh axis whose coordinates have the roles (None: one role, for all ranks), `of_rank` the role of
    each rank [num_ranks]."""

    axis: str | None
    of_rank: NDArray[np.int32]

    @property
    def is_one(self) -> bool:
        """Whether all ranks run one role."""
        return self.axis is None

    def is_shared(self, op: Op) -> bool:
        """Whether ranks of several roles take part in one call of the op."""
        if self.axis is None:
            return False
        return isinstance(op, Exchange) or (isinstance(op, Collective) and self.axis in op.axes)


def role_assignment_of(schedule: Schedule) -> RoleAssignment:
    """Raises InputError where several roles do not say which ranks are theirs, each coordinate of one axis once."""
    mesh, roles = schedule.mesh, schedule.roles
    if len(roles) == 1:
        return RoleAssignment(axis=None, of_rank=np.zeros(mesh.num_ranks, np.int32))
    places = [role.at for role in roles]
    axes = {place[0] for place in places if place is not None}
    coordinates = tuple(place[1] for place in places if place is not None)
    if len(axes) != 1 or sorted(coordinates) != list(range(mesh[next(iter(axes))])):
        text = ", ".join(f"{r.name} {'nowhere' if r.at is None else '{} {}'.format(*r.at)}" for r in roles)
        raise InputError(f"schedule: roles: got {text}; allowed: one role for each coordinate of one axis of the mesh")
    axis = next(iter(axes))
    role_at = np.argsort(coordinates).astype(np.int32)
    inner = math.prod(size for _, size in mesh.axes[mesh.names.index(axis) + 1 :])
    return RoleAssignment(axis=axis, of_rank=role_at[np.arange(mesh.num_ranks) // inner % mesh[axis]])


def pairs_of(op: Exchange, schedule: Schedule) -> NDArray[np.int64]:
    """The ranks at both ends, with all other coordinates in common [num_pairs, 2]."""
    return schedule.mesh.groups((op.axis,))[:, list(op.ends)]


def exchange_key(op: Exchange, there: int, back: int) -> str:
    """Key of the pattern of an exchange; `there` and `back`: bytes of its messages."""
    common = math.gcd(there, back) or 1
    return f"{op.axis} {op.ends[0]}>{op.ends[1]}/{there // common}:{back // common}"


def users_of(schedule: Schedule) -> dict[int, frozenset[int]]:
    """The roles that take part in each op, by its number."""
    out: dict[int, frozenset[int]] = {}
    for number, role in enumerate(schedule.roles):
        for block in {call.block: call.ops for call in role.calls}.values():
            for op in block:
                out[op.number] = out.get(op.number, frozenset()) | frozenset(members_of(op, schedule) or (number,))
    return out
