"""The form of a library file (pydantic, strict): every number is a table { value, kind, source }."""

from typing import Annotated

from pydantic import Field

from simfrontier.machine.schema import AtLeastZero, Count, Part, Positive, Share, Strict, Text


class HopsFile(Strict):
    base_s: AtLeastZero
    hop_in_node_s: AtLeastZero
    hop_between_nodes_s: AtLeastZero


class RingFile(HopsFile):
    forwarded_share: Part


class TreeFile(HopsFile):
    bandwidth_ratio: Share


class LowLatencyFile(Strict):
    base_s: AtLeastZero
    hop_in_node_s: AtLeastZero
    hop_between_nodes_s: AtLeastZero
    bytes_per_s: Positive


class LibraryFile(Strict):
    name: Text
    title: Text
    num_channels: Count
    units_per_channel: AtLeastZero
    ring: RingFile
    ring_ll: LowLatencyFile
    shares: dict[str, Share]
    ring_caps: dict[Annotated[str, Field(pattern=r"^ranks_[1-9][0-9]*_packages_[1-9][0-9]*_bytes_per_s$")], Positive]
    tree: TreeFile
    direct: HopsFile
