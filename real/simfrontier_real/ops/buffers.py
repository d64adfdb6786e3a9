"""One rank's buffers by reference: what is persistent stays, everything else goes after its last use."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from simfrontier.base.errors import SimfrontierError
from simfrontier.core.program import ExpandedProgram, Ref, Schedule


class Buffers:
    """What one rank holds while it runs steps of a program.

    An instance that is not persistent is dropped when all ops that use it up to its next writing are done, in whatever
    order the lanes finish them: the memory is then that of the schedule's lifetimes.
    """

    def __init__(self, schedule: Schedule, program: ExpandedProgram) -> None:
        self.by_ref: dict[Ref, Any] = {}
        self.bundled: dict[int, Any] = {}  # by the collective that will send it: a message that is being written
        persistent = {tensor.name for tensor in schedule.tensors.values() if tensor.persistent}
        self._tokens = {tensor.name for tensor in schedule.tensors.values() if tensor.role == "token"}
        self._uses, self._users = _uses(program, persistent | self._tokens)
        self._left: list[int] = []

    def begin_step(self) -> None:
        """Forget who has used what in the step before."""
        self._left = list(self._users)

    def __getitem__(self, ref: Ref) -> Any:
        try:
            return self.by_ref[ref]
        except KeyError:
            raise SimfrontierError(
                f"{ref.name} of layer {ref.layer}, micro-batch {ref.micro} is read, but nothing has been written there"
            ) from None

    def __setitem__(self, ref: Ref, value: Any) -> None:
        if ref.name not in self._tokens:
            self.by_ref[ref] = value

    def __contains__(self, ref: Ref) -> bool:
        return ref in self.by_ref

    def used_by(self, op: int) -> None:
        """Drop the instances that no later op uses, now that an op is done."""
        self.bundled.pop(op, None)
        for number, ref in self._uses[op]:
            self._left[number] -= 1
            if not self._left[number]:
                self.by_ref.pop(ref, None)


def _uses(program: ExpandedProgram, kept: set[str]) -> tuple[list[list[tuple[int, Ref]]], list[int]]:
    """Per op the (lifetime, instance) it uses, and per lifetime the number of its users.

    A lifetime begins where an instance is written and goes to the last op that touches it before it is written again by
    an op that does not read it.
    """
    uses: list[list[tuple[int, Ref]]] = [[] for _ in program.ops]
    users: list[int] = []
    current: dict[Ref, int] = {}
    by_number: dict[int, list[int]] = defaultdict(list)
    for index in range(program.num_ops):
        written, piece = set(program.writes[index]), program.ops[index].piece
        touched = dict.fromkeys((*program.reads[index], *program.accumulates[index]))
        for ref in touched:
            if ref.name not in kept:
                number = current.setdefault(ref, len(users))
                if number == len(users):
                    users.append(0)
                by_number[number].append(index)
                users[number] += 1
                uses[index].append((number, ref))
        for ref in written:
            if ref.name not in kept and ref not in touched:
                if piece is not None and piece.number > 0 and ref in current:  # what an earlier piece has begun
                    users[current[ref]] += 1
                    uses[index].append((current[ref], ref))
                    continue
                current[ref] = number = len(users)
                users.append(1)
                uses[index].append((number, ref))
    return uses, users
