"""The form of a table of bandwidths (pydantic, strict, nothing extra)."""

from typing import Annotated

from pydantic import Field

from simfrontier.io import AtLeastZeroNumber, Strict, Table, Text

Ranks = Annotated[int, Field(ge=1)]
Rate = Annotated[float, Field(gt=0)]


class RowFile(Strict):
    inner: Ranks  # of all dimensions inside this one
    size: Annotated[int, Field(ge=2)]  # of this dimension
    gib_per_s: Rate


class InNodeFile(Table):
    rows: Annotated[list[RowFile], Field(min_length=1)]


class BetweenNodesFile(Table):
    """gib_per_s / min(shared_by_at_most, inner): of every group that has no row."""

    gib_per_s: Rate
    shared_by_at_most: Ranks


class BandwidthsFile(Strict):
    """`also_of`: machines that differ in nothing that a bandwidth rests on."""

    also_of: list[Text] = Field(default_factory=list)
    latency_s_per_rank: AtLeastZeroNumber
    in_node: InNodeFile
    between_nodes: BetweenNodesFile


class TablesFile(Strict):
    machines: Annotated[dict[str, BandwidthsFile], Field(min_length=1)]
