"""The forms of a library file, in which every number is a table { value, kind, source }, and of a calibration file
(pydantic, strict)."""

from typing import Annotated, Literal

from pydantic import Field

from simfrontier.machine.schema import AtLeastZero, Count, Part, Positive, Share, Strict, Table, Text
from simfrontier.schedule.ir import CollectiveKind

CapName = Annotated[str, Field(pattern=r"^ranks_[1-9][0-9]*_packages_[1-9][0-9]*_bytes_per_s$")]


class HopsFile(Strict):
    base_s: AtLeastZero
    hop_in_node_s: AtLeastZero
    hop_between_nodes_s: AtLeastZero


class RingFile(HopsFile):
    forwarded_share: Part
    slices: Count | None = None  # parts that a channel cuts a block into; without: 1
    least_elements: Count | None = None  # of a part of a block; without: 1


class TreeFile(HopsFile):
    bandwidth_ratio: Share
    slices: Count | None = None  # parts of 1 MiB that follow one another through a tree; without: 32


class LowLatencyFile(Strict):
    base_s: AtLeastZero
    hop_in_node_s: AtLeastZero
    hop_between_nodes_s: AtLeastZero
    bytes_per_s: Positive


class AlgorithmsFile(Table):
    """What a library may carry each kind of call by; of several the one that is fastest alone is taken."""

    all_gather: Annotated[list[Literal["ring"]], Field(min_length=1)]
    reduce_scatter: Annotated[list[Literal["ring", "ring_twice"]], Field(min_length=1)]
    all_reduce: Annotated[list[Literal["ring", "tree"]], Field(min_length=1)]
    all_to_all: Annotated[list[Literal["direct"]], Field(min_length=1)]


class LibraryFile(Strict):
    name: Text
    title: Text
    ring_order: Literal["links", "ranks"] = "links"
    paced: bool = True
    reduces_backwards: bool = False
    in_flight: Count | None = None  # messages under way on one connection; without: any number
    num_channels: Count
    units_per_channel: AtLeastZero
    algorithms: AlgorithmsFile | None = None  # without: rings, trees for all-reduces too, direct for all-to-alls
    ring: RingFile
    ring_ll: LowLatencyFile | None = None
    shares: dict[str, Share] = Field(default_factory=dict)
    ring_caps: dict[CapName, Positive] = Field(default_factory=dict)
    tree: TreeFile | None = None
    direct: HopsFile


class PointFile(Strict):
    bytes: Annotated[int, Field(ge=1)]
    seconds: Annotated[float, Field(gt=0)]
    spread: Annotated[float, Field(ge=0)] | None = None


class CallFile(Strict):
    kind: CollectiveKind
    ranks: Annotated[int, Field(ge=2)]
    nodes: Annotated[int, Field(ge=1)]
    packages: Annotated[int, Field(ge=1)]
    points: Annotated[list[PointFile], Field(min_length=1)]
    residual: Annotated[float, Field(ge=0)] | None = None


class CalibrationFile(Strict):
    """The form of a calibration file: numbers without tables of their own, since one source holds for all of them."""

    title: Text
    where: Text
    when: Text
    how: Text
    machine: dict[str, float] = Field(default_factory=dict)
    library: dict[str, float] = Field(default_factory=dict)
    calls: list[CallFile] = Field(default_factory=list)
