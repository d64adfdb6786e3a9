"""The issue rule shared by simulation and execution: which ops a rank may start next. The rule uses no clock and
performs no I/O."""

from __future__ import annotations

from collections.abc import Sequence

from simfrontier.core.program.expansion import ExpandedProgram


class Issuer:
    """Progress of one rank through its program. Each lane is a FIFO queue of ops; the op at its head may start once all
    dependencies of the op are done.

    The rule is monotone (finishing an op never prevents another op from starting), so the set of ops that eventually
    complete does not depend on timing.
    """

    __slots__ = ("_by_lane", "_heads", "_program", "done")

    def __init__(self, program: ExpandedProgram) -> None:
        self._program = program
        self._by_lane = program.by_lane
        self.done = [0] * len(program.lanes)
        self._heads = [ops[0] if ops else -1 for ops in self._by_lane]  # -1: started, or no ops left on the lane

    def startable(self) -> list[int]:
        """Return the ops that may start now, in lane order. Each op is returned only once."""
        out = []
        done, heads, waits = self.done, self._heads, self._program.waits
        for lane, head in enumerate(heads):
            if head >= 0:
                for other, count in waits[head]:
                    if done[other] < count:
                        break
                else:
                    heads[lane] = -1
                    out.append(head)
        return out

    def finish(self, op: int) -> None:
        """Mark a started op as done."""
        lane = self._program.lane[op]
        done = self.done[lane] = self.done[lane] + 1
        ops = self._by_lane[lane]
        if done < len(ops):
            self._heads[lane] = ops[done]

    def pass_to(self, op: int) -> None:
        """Jump ahead on a lane: `op` is now the running op of its lane, and all ops before it on this lane are done."""
        self.done[self._program.lane[op]] = self._program.position[op]

    def skip(self, step: Sequence[int]) -> None:
        """Advance each lane by the given number of ops, as if these were done. A running op is replaced by the op that
        many positions later."""
        for lane, (ops, more) in enumerate(zip(self._by_lane, step, strict=True)):
            done = self.done[lane] = self.done[lane] + more
            if self._heads[lane] >= 0:
                self._heads[lane] = ops[done]

    @property
    def ready(self) -> list[int]:
        """Number of ops started on each lane, including those already done."""
        each = zip(self._heads, self.done, self._by_lane, strict=True)
        return [done + (head < 0 and done < len(ops)) for head, done, ops in each]

    @property
    def is_finished(self) -> bool:
        return self.done == self._program.lane_lengths

    def blocked(self) -> list[tuple[int, list[tuple[str, int, int]]]]:
        """Return the ops at the heads of lanes that cannot start, each with its unmet dependencies as (lane, ops done,
        ops needed)."""
        program = self._program
        out = []
        for head in self._heads:
            if head >= 0:
                lacking = [(program.lanes[o], self.done[o], n) for o, n in program.waits[head] if self.done[o] < n]
                if lacking:
                    out.append((head, lacking))
        return out
