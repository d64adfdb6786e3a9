"""What a slowed link does to a schedule, simulated and for real; the file of such effects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from simfrontier.trace.fields import list_of, mapping_of, number_of, read_json, text_of, write_json

_SECONDS: Final = (1e-12, 1e9)
_FORM: Final = ("what", "link", "factor", "sim_s", "sim_slowed_s", "real_s", "real_slowed_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Slowed:
    """`what` (a step, or one collective) with all links as they should be, and with `link` at `factor` of its rate."""

    what: str
    link: str
    factor: float
    sim_s: float
    sim_slowed_s: float
    real_s: float
    real_slowed_s: float

    @property
    def sim_effect(self) -> float:
        """How many times as long it takes when simulated."""
        return self.sim_slowed_s / self.sim_s

    @property
    def real_effect(self) -> float:
        """How many times as long it really takes."""
        return self.real_slowed_s / self.real_s


def save_slowed(effects: Sequence[Slowed], path: Path) -> None:
    """Write the effects as JSON, whole or not at all. Raises InputError where it cannot be written."""
    write_json({"effects": [asdict(effect) for effect in effects]}, path)


def load_slowed(path: Path) -> tuple[Slowed, ...]:
    """The effects of a file that `save_slowed` wrote. Raises InputError: file, place, fault."""
    return read_json(path, "file of slowed links", _effects)


def _effects(value: object) -> tuple[Slowed, ...]:
    entries = list_of(mapping_of(value, "the file", ("effects",)), "effects", "the file")
    return tuple(_effect(entry, f"effects[{number}]") for number, entry in enumerate(entries))


def _effect(entry: object, place: str) -> Slowed:
    values = mapping_of(entry, place, _FORM)
    return Slowed(
        what=text_of(values, "what", place),
        link=text_of(values, "link", place),
        factor=number_of(values, "factor", place, 1e-6, 1.0),
        sim_s=number_of(values, "sim_s", place, *_SECONDS),
        sim_slowed_s=number_of(values, "sim_slowed_s", place, *_SECONDS),
        real_s=number_of(values, "real_s", place, *_SECONDS),
        real_slowed_s=number_of(values, "real_slowed_s", place, *_SECONDS),
    )
