"""The form of a library file, in which every number is a table { value, kind, source } (pydantic, strict)."""

from functools import partial
from typing import Annotated, Literal

from pydantic import Field

from simfrontier.collectives.algorithms import in_libraries
from simfrontier.collectives.tuning import WAYS
from simfrontier.io import (
    AtLeastZeroNumber,
    ChannelsNumber,
    CountNumber,
    DeviationNumber,
    Names,
    Number,
    PartNumber,
    PositiveFloat,
    PositiveNumber,
    ShareNumber,
    SlicesNumber,
    Strict,
    Table,
    Text,
)

CapName = Annotated[str, Field(pattern=r"^ranks_[1-9][0-9]*_packages_[1-9][0-9]*_bytes_per_s$")]


class HopsFile(Strict):
    base_s: AtLeastZeroNumber
    hop_in_node_s: AtLeastZeroNumber
    hop_between_nodes_s: AtLeastZeroNumber


class RingFile(HopsFile):
    forwarded_share: PartNumber
    sharpness: Number[Annotated[float, Field(ge=1, le=1e6)]] | None = (
        None  # of the corner of a step's law; without: a corner
    )
    slices: SlicesNumber | None = None  # parts that a channel cuts a block into; without: 1
    least_elements: CountNumber | None = None  # of a part of a block; without: 1


class TreeFile(HopsFile):
    bandwidth_ratio: ShareNumber
    slices: SlicesNumber | None = None  # parts of 1 MiB that follow one another through a tree; without: 32
    chunk_bytes: PositiveNumber | None = None  # of a channel, that go from node to node at a time; without: 0
    least_slice_bytes: PositiveNumber | None = None  # of such a part over several nodes; without: 1
    fill_share: PartNumber | None = None  # of a part, that a hop inside a node adds; without: 0


class LowLatencyFile(HopsFile):
    rate_share: ShareNumber  # of a ring's rate: half where every 4 bytes carry a flag of 4
    channel_s: AtLeastZeroNumber | None = None  # more for a hop between nodes, per channel; without: 0
    bytes_per_channel: PositiveNumber | None = None  # of a block; without: one channel
    num_channels: ChannelsNumber | None = None  # at most; without: 1


class BelievedFile(HopsFile):
    """What a library believes of one way (an algorithm and a protocol) when it chooses."""

    rate_share: PositiveNumber  # of the bus's rate, on at most two nodes
    rate_share_more_nodes: PositiveNumber | None = None  # without: the same
    cap_bytes_per_s: PositiveNumber | None = None  # on at most two nodes
    cap_more_nodes_bytes_per_s: PositiveNumber | None = None


class CorrectionsFile(Table):
    """Factors of a way's rate over several nodes, by floor(log2(bytes / 64)); beyond the last the last holds."""

    factors: Annotated[list[PositiveFloat], Field(min_length=1)]


class TuningFile(Strict):
    bus_bytes_per_s: PositiveNumber
    host_hop_s: AtLeastZeroNumber
    simple_host_factor: PositiveNumber
    all_reduce_turns: Number[Annotated[int, Field(ge=0, le=1)]]
    all_reduce_factor: PositiveNumber
    simple_weight: PositiveNumber
    one_node_block_bytes: PositiveNumber | None = None
    ways: dict[Annotated[str, Names(*WAYS)], BelievedFile]
    corrections: dict[Annotated[str, Names(*WAYS)], CorrectionsFile] = Field(default_factory=dict)


class ResidualFile(Strict):
    """Standard deviations of log time."""

    model_sd: DeviationNumber
    run_sd: DeviationNumber
    small_sd: DeviationNumber | None = None  # at least, for messages below small_bytes over several nodes
    small_bytes: AtLeastZeroNumber | None = None
    all_gather_sd: DeviationNumber | None = None  # instead of model_sd, likewise below
    reduce_scatter_sd: DeviationNumber | None = None
    all_reduce_sd: DeviationNumber | None = None
    all_to_all_sd: DeviationNumber | None = None
    common_share: PartNumber | None = None  # of the variance, common to all sizes of a kind of call


class AlgorithmsFile(Table):
    """What a library may carry each kind of call by; of several the one that is fastest alone is taken."""

    all_gather: Annotated[list[Annotated[str, Names(partial(in_libraries, "all_gather"))]], Field(min_length=1)]
    reduce_scatter: Annotated[list[Annotated[str, Names(partial(in_libraries, "reduce_scatter"))]], Field(min_length=1)]
    all_reduce: Annotated[list[Annotated[str, Names(partial(in_libraries, "all_reduce"))]], Field(min_length=1)]
    all_to_all: Annotated[list[Annotated[str, Names(partial(in_libraries, "all_to_all"))]], Field(min_length=1)]


class LibraryFile(Strict):
    name: Text
    title: Text
    machines: list[Text] = Field(default_factory=list)  # whose measurements it was fitted to; without: not stated
    ring_order: Literal["links", "ranks"] = "links"
    paced: bool = True
    reduces_backwards: bool = False
    in_flight: CountNumber | None = None  # messages under way on one connection; without: any number
    num_channels: ChannelsNumber
    units_per_channel: AtLeastZeroNumber
    least_bytes: AtLeastZeroNumber | None = None  # of messages from this size on the law was fitted; without: of all
    algorithms: AlgorithmsFile | None = None  # without: rings, trees for all-reduces too, direct for all-to-alls
    ring: RingFile
    ring_ll: LowLatencyFile | None = None
    tuning: TuningFile | None = None
    residual: ResidualFile | None = None
    shares: dict[str, ShareNumber] = Field(default_factory=dict)
    ring_shares: dict[str, ShareNumber] = Field(default_factory=dict)  # of rings, where they differ from shares
    ring_caps: dict[CapName, PositiveNumber] = Field(default_factory=dict)
    tree: TreeFile | None = None
    tree_ll: HopsFile | None = None
    direct: HopsFile
