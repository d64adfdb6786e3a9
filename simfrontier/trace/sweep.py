"""Collectives by message size, simulated and measured alone: the points, their file, and medians over large sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Final, Literal

from simfrontier.errors import nearest
from simfrontier.trace.fields import Fault, list_of, mapping_of, number_of, read_json, text_of, write_json

Way = Literal["lowered", "native"]
ALLOWED: Final[dict[Way, float]] = {"lowered": 0.10, "native": 0.20}  # how far the median may lie from the simulated
LEAST_JUDGED_BYTES: Final = 1 << 20  # the smallest message that the medians are over
_SECONDS: Final = (1e-12, 1e9)  # what a time may be
_POINT: Final = ("collectives", "kind", "group", "message_bytes", "sim_s", "real_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPoint:
    """One collective of one size: as explicit transfers (`lowered`) or the library's own (`native`).

    `group` says over whom, e.g. "world (16)". `real_s` is a median over iterations.
    """

    collectives: Way
    kind: str
    group: str
    message_bytes: float
    sim_s: float
    real_s: float

    @property
    def ratio(self) -> float:
        """Measured over simulated time."""
        return self.real_s / self.sim_s


def save_sweep(points: Sequence[SweepPoint], path: Path) -> None:
    """Write the points as JSON, whole or not at all. Raises InputError where it cannot be written."""
    write_json({"points": [asdict(point) for point in points]}, path)


def load_sweep(path: Path) -> tuple[SweepPoint, ...]:
    """The points of a file that `save_sweep` wrote. Raises InputError: file, place, fault."""
    return read_json(path, "sweep", _points)


def _points(value: object) -> tuple[SweepPoint, ...]:
    entries = list_of(mapping_of(value, "the file", ("points",)), "points", "the file")
    return tuple(_point(entry, f"points[{number}]") for number, entry in enumerate(entries))


def _point(entry: object, place: str) -> SweepPoint:
    values = mapping_of(entry, place, _POINT)
    said = text_of(values, "collectives", place)
    way = next((way for way in ALLOWED if way == said), None)
    if way is None:
        raise Fault(f"{place}.collectives: got {said!r}; {nearest(said, ALLOWED)}")
    return SweepPoint(
        collectives=way,
        kind=text_of(values, "kind", place),
        group=text_of(values, "group", place),
        message_bytes=number_of(values, "message_bytes", place, least=1.0),
        sim_s=number_of(values, "sim_s", place, *_SECONDS),
        real_s=number_of(values, "real_s", place, *_SECONDS),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepMedian:
    """A kind of collective over one group, done one way: the medians over its judged sizes."""

    collectives: Way
    kind: str
    group: str
    num_sizes: int
    ratio: float  # of measured over simulated
    apart: float  # of |measured / simulated - 1|

    @property
    def is_near(self) -> bool:
        return self.apart <= ALLOWED[self.collectives]


def sweep_medians(points: Sequence[SweepPoint]) -> tuple[SweepMedian, ...]:
    """The medians by way, kind and group, in the order in which these appear; none where no size is judged."""
    alike: dict[tuple[Way, str, str], list[float]] = {}
    for point in points:
        if point.message_bytes >= LEAST_JUDGED_BYTES:
            alike.setdefault((point.collectives, point.kind, point.group), []).append(point.ratio)
    return tuple(
        SweepMedian(
            collectives=way,
            kind=kind,
            group=group,
            num_sizes=len(ratios),
            ratio=median(ratios),
            apart=median(abs(ratio - 1) for ratio in ratios),
        )
        for (way, kind, group), ratios in alike.items()
    )
