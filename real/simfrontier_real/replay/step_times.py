"""When each op of one step ran on one rank."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StepTimes:
    """When each op of one step was ready on this rank and when it ended, in seconds of the executor's clock.

    Ready is the moment at which the last op that it waited for ended: what issuing costs is part of the op's time.
    """

    begin_s: float
    ready_s: tuple[float, ...]
    end_s: tuple[float, ...]
