"""What a slowed link does to a schedule, simulated and for real; the file of such effects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Final

from annotated_types import Ge, Le

from simfrontier.io import read_json, typed
from simfrontier.records import dataclass
from simfrontier.wholefile import write_json

SLOWED: Final = "slowed.json"  # beside the real traces
Seconds = Annotated[float, Ge(1e-12), Le(1e9)]


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowLinkEffect:
    """`what` (a step, or one collective) with all links as they should be, and with `link` at `factor` of its rate:
    always, or from `begin_s` to `end_s`, seconds after the step began."""

    what: str
    link: str
    factor: Annotated[float, Ge(1e-6), Le(1)]
    sim_s: Seconds
    sim_slowed_s: Seconds
    real_s: Seconds
    real_slowed_s: Seconds
    begin_s: Annotated[float, Ge(0), Le(1e9)] | None = None
    end_s: Annotated[float, Ge(0), Le(1e9)] | None = None

    @property
    def condition(self) -> str:
        """What is wrong, for a reader."""
        when = "" if self.begin_s is None else f" from {self.begin_s:.3g} to {self.end_s:.3g} s"
        return f"{self.link} at {self.factor:g} of its rate{when}"

    @property
    def apart(self) -> float:
        """How far the real time is from the simulated one: of slowed times where the link was slowed for a while, else
        of what they are of healthy ones."""
        ratio = self.real_effect / self.sim_effect if self.begin_s is None else self.real_slowed_s / self.sim_slowed_s
        return abs(ratio - 1.0)

    @property
    def sim_effect(self) -> float:
        """How many times as long it takes when simulated."""
        return self.sim_slowed_s / self.sim_s

    @property
    def real_effect(self) -> float:
        """How many times as long it really takes."""
        return self.real_slowed_s / self.real_s


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    effects: tuple[SlowLinkEffect, ...]


def save_slowed(effects: Sequence[SlowLinkEffect], path: Path) -> None:
    """Write the effects as JSON, whole or not at all. Raises InputError where it cannot be written."""
    write_json({"effects": [asdict(effect) for effect in effects]}, path)


def load_slowed(path: Path) -> tuple[SlowLinkEffect, ...]:
    """The effects of a file that `save_slowed` wrote. Raises InputError: file, place, fault."""
    return typed(read_json(path, "file of slowed links"), _File, str(path)).effects
