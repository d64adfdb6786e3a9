"""DeepSpeed's communication logger: names of its collectives, and sizes and times that it prints rounded."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from simfrontier.inputs.measured.rows import CallKind

KINDS: Final[dict[str, CallKind]] = {
    "all_gather": "all_gather",
    "all_gather_base": "all_gather",
    "all_gather_into_tensor": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "reduce_scatter_base": "reduce_scatter",
    "reduce_scatter_tensor": "reduce_scatter",
    "all_reduce": "all_reduce",
    "all_reduce_coalesced": "all_reduce",
    "inference_all_reduce": "all_reduce",
    "all_to_all": "all_to_all",
    "all_to_all_single": "all_to_all",
    "broadcast": "broadcast",
}
LEFT_OUT: Final = "of which no times are taken"


def kind_of_op(name: str) -> CallKind | None:
    """Return the kind of an operation; None if it is no collective of ours. Behind the name a logger in debug mode
    names the function that called it."""
    return KINDS.get(name.partition(" | ")[0].strip())


def whole_bytes(kind: CallKind, num_bytes: int, devices: int) -> int:
    """Return the bytes of the whole message of a call of which DeepSpeed logs `num_bytes`."""
    return num_bytes * devices if kind == "all_gather" else num_bytes


HALF: Final = 0.005  # of the last of two decimals
_UNITS: Final = ("B", "KB", "MB", "GB", "TB", "PB", "EB")
_SIZE: Final = re.compile(r"([0-9]{1,7}(?:\.[0-9]{1,2})?) ?([KMGTPE]?B)")
_GBPS: Final = 8.0 / 1e6  # bytes per millisecond in Gbit/s


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedSize:
    """Bytes, and their largest relative error: half of 0.01 of the unit; 0.0 for bytes themselves."""

    num_bytes: int
    off: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """A call as printed: `gbps` is factor x size / time, `bus_gbps` (n - 1) / n of that (all-reduce alike), n the
    ranks of the job, which need not be those of the call's group."""

    kind: CallKind
    devices: int
    milliseconds: float
    size: PrintedSize
    gbps: float
    bus_gbps: float

    def seconds(self) -> float | None:
        """Return the time that follows from size and rate if exactly one of the factors agrees with the printed time,
        to half a unit of its last decimal, and the result is more exact; else the printed time; None if that is 0."""
        found = [milliseconds for factor in self._factors() if (milliseconds := self._of_rate(factor)) is not None]
        agreeing = [each for each in found if abs(each - self.milliseconds) <= HALF * 1.001 + each * self._off()]
        if len(agreeing) == 1 and agreeing[0] * self._off() < HALF:
            return agreeing[0] / 1e3
        return self.milliseconds / 1e3 if self.milliseconds > 0.0 else None

    def _factors(self) -> Iterable[int]:
        """Return the factors that calc_bw_log may have used. A reduce-scatter had the ranks, too, until 2025, and both
        it and an all-gather had 2 in 2022 (the lines in DeepSpeed's tutorial on the logger). The ranks are known only
        where the rates are those of just the devices: their ratio is (n - 1) / n."""
        bus_gbps = self.gbps * (self.devices - 1) / self.devices
        of_all = (self.devices,) if abs(self.bus_gbps - bus_gbps) <= 2.0 * HALF else ()
        match self.kind:
            case "all_reduce":
                return (2,)
            case "all_gather":
                return {2, *of_all}
            case "reduce_scatter":
                return {1, 2, *of_all}
            case _:
                return (1,)

    def _of_rate(self, factor: int) -> float | None:
        """Milliseconds that follow from size and rate."""
        return factor * self.size.num_bytes * _GBPS / self.gbps if self.gbps > 0.0 else None

    def _off(self) -> float:
        """Largest relative error of the time that follows from size and rate."""
        return self.size.off + HALF / self.gbps


def size_of(text: str) -> PrintedSize | None:
    """Parse `512.0 MB` or `0B`; None for any other text."""
    match = _SIZE.fullmatch(text)
    if match is None:
        return None
    unit = 1024 ** _UNITS.index(match[2])
    num_bytes = round(float(match[1]) * unit)
    return PrintedSize(num_bytes=num_bytes, off=HALF * unit / num_bytes if unit > 1 and num_bytes else 0.0)
