"""The executor of one rank: the issuer selects the ops that may start next, by the same rule as in the simulator, and
lanes run them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from simfrontier.base.errors import SimfrontierError
from simfrontier.core.program import ExpandedProgram, Issuer, title_of
from simfrontier_real.ops.lanes import Lanes
from simfrontier_real.ops.op_runner import LaneStep
from simfrontier_real.ranks.world import LostRankError


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Times at which each op of one step became ready and ended on this rank, in seconds of the executor's clock.

    An op is ready when the last of its dependencies has ended, so the overhead of issuing the op is part of its
    duration.
    """

    begin_s: float
    ready_s: tuple[float, ...]
    end_s: tuple[float, ...]


GONE = "the connection to another rank broke (it ended or was killed)"
_BROKEN = re.compile(r"[Cc]onnection (reset|closed|refused)|Read error|Broken pipe|writev")


class StuckError(SimfrontierError):
    """Error: no op has ended within the timeout. `table` lists the ops that the rank is running and the ops that it
    waits for."""

    def __init__(self, table: list[str]) -> None:
        super().__init__("nothing has ended for too long")
        self.table = table


class Executor:
    """Runs the steps of one rank's program."""

    def __init__(self, step: LaneStep, lanes: Lanes) -> None:
        self._step, self._lanes = step, lanes
        self._issuer = Issuer(step.program)
        self._running: dict[int, float] = {}

    def run_step(self, timeout_s: float) -> StepTimes:
        """Run one whole step. Raises StuckError if no op ends within `timeout_s`, and re-raises the error of a failed
        op."""
        self.begin()
        while not self.is_finished:
            if not self.advance(timeout_s):
                raise StuckError(self.table())
        left = self._lanes.left(timeout_s)
        if left:
            program = self._step.program
            raise StuckError([f"{lane_of(program, each)}: on the device: {title(program, each)}" for each in left])
        return self.end()

    def begin(self) -> None:
        """Begin a new step."""
        self._issuer = Issuer(self._step.program)
        self._running.clear()
        self._ready = [0.0] * self._step.program.num_ops
        self._end = [0.0] * self._step.program.num_ops
        self._lanes.begin_step()
        self._step.op_runner.begin_step()
        self._begin_s = self._step.clock()

    def advance(self, timeout_s: float) -> bool:
        """Start all ops that may start, then take those that have ended; return whether any started or ended."""
        moved = False
        for index in self._issuer.startable():
            self._ready[index] = self._running[index] = self._enabled_s(index)
            self._lanes.start(index, self._ready[index])
            moved = True
        if not self._running and not moved:
            return False  # nothing runs and nothing may start: no wait would help
        for index, end_s, error in self._lanes.finished(timeout_s):
            if error is not None:
                raise _explained(error, title(self._step.program, index))
            self._end[index] = end_s
            del self._running[index]
            self._step.op_runner.done(index)
            self._issuer.finish(index)
            moved = True
        return moved

    def _enabled_s(self, index: int) -> float:
        """Return the end time of the last dependency of an op, including the preceding ops on its lane."""
        return max([self._begin_s, *(self._end[other] for other in self._step.program.before[index])])

    def end(self) -> StepTimes:
        """Return the times of the step that has just ended."""
        ready, end = self._ready, self._end
        for index, (began, ended) in self._lanes.times().items():
            ready[index], end[index] = began, ended
        return StepTimes(self._begin_s, tuple(ready), tuple(end))

    def close(self) -> None:
        """Release the lanes' threads."""
        self._lanes.close()

    @property
    def is_finished(self) -> bool:
        return self._issuer.is_finished

    def table(self) -> list[str]:
        """Return the running and the waiting ops, one line each."""
        program = self._step.program
        lines = [f"{lane_of(program, index)}: running {title(program, index)}" for index in sorted(self._running)]
        for index, lacking in self._issuer.blocked():
            waits = ", ".join(f"{lane} {done} of {needed} ops" for lane, done, needed in lacking)
            lines.append(f"{lane_of(program, index)}: {title(program, index)} waits for {waits}")
        return lines


def _explained(error: Exception, op_title: str) -> Exception:
    """Return an error of torch's collectives with the title of the failed op added; return other errors unchanged."""
    if not isinstance(error, RuntimeError):
        return error
    text = re.sub(r"^\[[^\]]*\] ", "", str(error).strip().splitlines()[0] if str(error).strip() else "no reason given")
    text = text.split(". This is typically")[0]
    if is_broken(error):
        return LostRankError(f"{op_title}: {GONE}: {text}")
    return SimfrontierError(f"{op_title}: failed: {text}")


def is_broken(error: BaseException) -> bool:
    """Return whether an error of torch means that another rank has ended."""
    return isinstance(error, RuntimeError) and _BROKEN.search(str(error)) is not None


def lane_of(program: ExpandedProgram, index: int) -> str:
    return program.lanes[program.lane[index]]


def title(program: ExpandedProgram, index: int) -> str:
    """Return a readable title of an op of a program."""
    where = "" if program.at is None else f" of {program.at[0]} {program.at[1]}"
    return f"op {index}{where}, {title_of(program.ops[index], program.calls[index])}"
