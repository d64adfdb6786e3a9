"""The file of a library of one level: every number is a table { value, kind, source } there, and a number here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Final, Literal

from annotated_types import Ge, Le, Len

from simfrontier.base.io import SOURCED, Kind, Names, NotNegative, Positive, Rule, Share, Text
from simfrontier.base.limits import COUNT
from simfrontier.core.collectives.algorithms import in_libraries
from simfrontier.core.collectives.library import Residual
from simfrontier.core.collectives.ring_law import CHANNELS, HopTimes, LowLatency, RingTimes, TreeTimes
from simfrontier.core.collectives.tuning import TuningModel

Count = Annotated[int, Ge(1), Le(COUNT.most), SOURCED]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlgorithmsTable:
    """What a library may carry each kind of call by; of several the one that is fastest alone is taken."""

    kind: Kind
    source: Text
    all_gather: Annotated[tuple[Annotated[str, Names(partial(in_libraries, "all_gather"))], ...], Len(1)]
    reduce_scatter: Annotated[tuple[Annotated[str, Names(partial(in_libraries, "reduce_scatter"))], ...], Len(1)]
    all_reduce: Annotated[tuple[Annotated[str, Names(partial(in_libraries, "all_reduce"))], ...], Len(1)]
    all_to_all: Annotated[tuple[Annotated[str, Names(partial(in_libraries, "all_to_all"))], ...], Len(1)]


_CAP: Final = re.compile(r"ranks_([1-9][0-9]*)_packages_([1-9][0-9]*)_bytes_per_s")
CapName = Annotated[
    str,
    Rule(lambda name: _CAP.fullmatch(name) is not None, "ranks_N_packages_M_bytes_per_s", pattern=f"^{_CAP.pattern}$"),
]


def ranks_and_packages(name: str) -> tuple[int, int]:
    """`ranks_4_packages_2_bytes_per_s` is (4, 2)."""
    match = _CAP.fullmatch(name)
    assert match is not None, f"{name} is no key of ring_caps"
    return int(match[1]), int(match[2])


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryFile:
    """`machines`: whose measurements it was fitted to. `environment_of`: the library that jobs take it for that find it
    in this state (None: it is no such state). `least_bytes`: of messages from this size on the law was fitted.
    `in_flight`: messages under way on one connection (None: any number). Without `algorithms`: rings, trees for
    all-reduces too, direct messages for all-to-alls. `ring_shares`: of rings, where they differ from `shares`."""

    name: Text
    title: Text
    machines: tuple[Text, ...] = ()
    environment_of: Text | None = None
    ring_order: Literal["links", "ranks"] = "links"
    paced: bool = True
    reduces_backwards: bool = False
    in_flight: Count | None = None
    num_channels: Annotated[int, Ge(1), Le(CHANNELS), SOURCED]
    units_per_channel: Annotated[NotNegative, SOURCED]
    least_bytes: Annotated[NotNegative, SOURCED] = 0.0
    algorithms: AlgorithmsTable | None = None
    ring: RingTimes
    ring_ll: LowLatency | None = None
    tuning: TuningModel | None = None
    residual: Residual | None = None
    shares: Mapping[str, Annotated[Share, SOURCED]] = field(default_factory=dict)
    ring_shares: Mapping[str, Annotated[Share, SOURCED]] = field(default_factory=dict)
    ring_caps: Mapping[CapName, Annotated[Positive, SOURCED]] = field(default_factory=dict)
    tree: TreeTimes | None = None
    tree_ll: HopTimes | None = None
    direct: HopTimes
