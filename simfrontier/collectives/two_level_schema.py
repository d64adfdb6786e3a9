"""The form of a two-level library's file, in which every number is a table { value, kind, source } (pydantic,
strict)."""

from pydantic import Field

from simfrontier.collectives.schema import ResidualFile
from simfrontier.io import AtLeastZeroNumber, PartNumber, PositiveNumber, ShareNumber, Strict, Table, Text


class BetweenFile(Table):
    """The library between nodes."""

    library: Text
    low_latency: bool = True  # whether it takes its protocol for small blocks


class InsideFile(Table):
    """The library inside nodes."""

    library: Text


class CallFile(Strict):
    base_s: AtLeastZeroNumber
    reorder_bytes_per_s: PositiveNumber
    hop_between_nodes_s: AtLeastZeroNumber | None = None  # without: the library's own


class LevelsFile(Strict):
    """What differs between nodes from the library's own numbers while all devices of a node call at once, and the kinds
    of calls that go by two levels; the others are left to the library inside."""

    between: BetweenFile
    inside: InsideFile
    rate_share: ShareNumber | None = None  # of what the library's shares of links say; without: 1
    forwarded_share: PartNumber | None = None  # without: the library's own
    all_gather: CallFile | None = Field(default=None)
    reduce_scatter: CallFile | None = Field(default=None)


class TwoLevelFile(Strict):
    name: Text
    title: Text
    machines: list[Text] = Field(default_factory=list)  # as of a library of one level
    levels: LevelsFile
    residual: ResidualFile | None = None
