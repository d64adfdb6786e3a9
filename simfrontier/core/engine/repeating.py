"""The engine of a step of one role, op by op, that goes on after what repeats itself, by layer or by micro-batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil

from simfrontier.base.arrays import Floats
from simfrontier.core.engine.context import Classes, EngineContext
from simfrontier.core.engine.engine import Engine
from simfrontier.core.engine.flows import INSTANT_S, RESOLUTION, RunningFlow
from simfrontier.core.engine.steady import Repetition, SteadyState
from simfrontier.core.program import SegmentedProgram


class RepeatingEngine(Engine):
    """Times of repetitions are copied; the clock goes without them."""

    def __init__(
        self,
        context: EngineContext,
        part: SegmentedProgram,
        classes: Classes,
        later: Sequence[tuple[float, EngineContext]] = (),
    ) -> None:
        super().__init__([(context, part, classes)], later=later)
        self.steady = SteadyState(part.program, self.issuers)
        self.repetitions: list[Repetition] = []
        self.skipped_s = 0.0

    @property
    def now(self) -> float:
        """Seconds since the step began, with what was skipped."""
        return super().now + self.skipped_s

    def _tables(self, role: int) -> Floats:
        tables = super()._tables(role)
        for repetition in self.repetitions:
            repetition.copy(self.parts[role].program, tables)
        return tables

    def _settle(self) -> None:
        super()._settle()
        if self.steady.is_at_call() and not self.contexts[0].some_dead:
            repetition = self.steady.repetition(self.now, self.remaining(), max(INSTANT_S, self.env.now * RESOLUTION))
            if repetition is not None:
                self._skip(repetition)

    def _skip(self, repetition: Repetition) -> None:
        """Go on after the repetitions that end before the machine is in another state: what is under way is then that
        of ops further on."""
        if self.later:
            left = (self.later[0][0] - self.now) / repetition.seconds
            repetition = replace(repetition, times=min(repetition.times, max(0, ceil(left) - 1)))
            if not repetition.times:
                return
        self.repetitions.append(repetition)
        self.skipped_s += repetition.seconds * repetition.times
        program = self.parts[0].program
        step: list[int] = (repetition.step * repetition.times).tolist()

        def further(node: int) -> int:
            lane = program.lane[node]
            return program.by_lane[lane][program.position[node] + step[lane]]

        for issuer in self.issuers.values():
            issuer.skip(step)
        self.arrived = {(further(node), inner, group): count for (node, inner, group), count in self.arrived.items()}
        for each in self.remaining():
            ending = each.what.op if isinstance(each.what, RunningFlow) else each.what
            ending.key = further(ending.key)
        self._await_change()

    def _change(self) -> None:
        super()._change()
        self.steady.states.clear()
