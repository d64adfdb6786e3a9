"""The form of a machine file: what keys it has and what each may hold (pydantic, strict, nothing extra).

Every number is a table `{ value, kind, source }` with its unit in its key. The file says what is there; whether the
links, rings and chains fit together is checked where the node is built.
"""

from typing import Annotated, Any, Generic, Literal, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from simfrontier.limits import (
    CHANNELS,
    COMPUTE_UNITS,
    COUNT,
    DEVICES_OF_NODE,
    GROUPS,
    LARGEST,
    LARGEST_SD,
    NODES,
    SLICES,
    SMALLEST,
    TEXT,
)

Kind = Literal["quoted", "measured", "fitted", "inferred", "assumed"]
Text = Annotated[str, Field(min_length=1, max_length=TEXT.most)]
Order = Annotated[list[int], Field(min_length=2)]
T = TypeVar("T", bound=float)


class Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, frozen=True)


class Number(Strict, Generic[T]):
    value: T
    kind: Kind
    source: Text
    low: T | None = None  # 90 % confidence interval of what was fitted
    high: T | None = None

    @model_validator(mode="after")
    def _lies_within(self) -> Self:
        if self.low is not None and self.high is not None:
            if not self.low <= self.value <= self.high:
                said = f"got {self.low:g} to {self.high:g}, allowed: around {self.value:g}"
                raise PydanticCustomError("interval", said)
        elif self.low is not None or self.high is not None:
            raise PydanticCustomError("interval", "got one end of an interval, allowed: low and high, or neither")
        return self


class Table(Strict):
    kind: Kind
    source: Text


def _zero_or_one(value: float) -> float:
    if value not in (0.0, 1.0):
        raise PydanticCustomError("switch", "0 or 1")
    return value


def _not_tiny(value: float) -> float:
    if value < SMALLEST:
        raise PydanticCustomError("tiny", f"at least {SMALLEST:g}")
    return value


PositiveFloat = Annotated[float, Field(gt=0, le=LARGEST), AfterValidator(_not_tiny)]
NotNegativeFloat = Annotated[float, Field(ge=0, le=LARGEST)]
Count = Number[Annotated[int, Field(ge=1, le=COUNT.most)]]
Nodes = Number[Annotated[int, Field(ge=1, le=NODES.most)]]
Groups = Number[Annotated[int, Field(ge=1, le=GROUPS.most)]]
Devices = Number[Annotated[int, Field(ge=1, le=DEVICES_OF_NODE.most)]]
ComputeUnits = Number[Annotated[int, Field(ge=1, le=COMPUTE_UNITS.most)]]
Channels = Number[Annotated[int, Field(ge=1, le=CHANNELS.most)]]
Slices = Number[Annotated[int, Field(ge=1, le=SLICES.most)]]
AtLeastOne = Number[Annotated[float, Field(ge=1, le=LARGEST)]]
Positive = Number[PositiveFloat]
AtLeastZero = Number[NotNegativeFloat]
Deviation = Number[Annotated[float, Field(ge=0, le=LARGEST_SD)]]  # of the logarithm of a time
Share = Number[Annotated[float, Field(gt=0, le=1)]]
Part = Number[Annotated[float, Field(ge=0, le=1)]]
Switch = Number[Annotated[float, AfterValidator(_zero_or_one)]]  # a number, so that overrides reach it


class LinkClassFile(Strict):
    bytes_per_s: Positive
    share: Share
    half_bytes: AtLeastZero | None = None


class LinksFile(Table):
    pairs: dict[str, list[Annotated[list[int], Field(min_length=2, max_length=2)]]]  # link class -> undirected pairs


class NicsFile(Table):
    device: Annotated[list[int], Field(min_length=1)]  # NIC k hangs on device[k]


class OrdersFile(Table):
    orders: Annotated[list[Order], Field(min_length=1)]


class BusFile(Table):
    """One shared resource that every copy between two devices of the node passes; its capacity is link class `bus`."""


class NodeFile(Strict):
    links: LinksFile | None = None  # with rings; or else
    rings: OrdersFile | None = None
    bus: BusFile | None = None
    nics: NicsFile | None = None
    chains: OrdersFile | None = None


class DragonflyFile(Strict):
    nodes_per_group: Nodes
    num_groups: Groups
    nonminimal_share: Part


class FatTreeFile(Strict):
    nodes_per_leaf: Nodes
    num_leaves: Nodes
    taper: AtLeastOne  # injection over uplink capacity of a leaf


class MatmulFile(Strict):
    """Matrix products of one type of numbers, by the keys that the device has for 16-bit ones."""

    peak_flops_per_s: Positive
    matmul_flops_per_s: Positive
    matmul_half_edge: AtLeastZero


class MatmulFormsFile(Strict):
    """Factors on the rates of products, by form (see MatmulForms); none is 1. `tuned`: whether the fastest is taken."""

    tn: Positive | None = None
    nn: Positive | None = None
    nt: Positive | None = None
    tuned: Switch | None = None


class CodecFile(Strict):
    """Speeds of one family of codecs, in bytes of uncompressed 32-bit values per second."""

    encode_bytes_per_s: Positive
    decode_bytes_per_s: Positive

    @model_validator(mode="before")
    @classmethod
    def _has_both(cls, table: Any) -> Any:
        both = list(cls.model_fields)
        if isinstance(table, dict) and len(table) == 1 and (name := next(iter(table))) in both:
            raise PydanticCustomError("pair", f"got {name} alone, allowed: {' and '.join(both)}, or neither")
        return table


class CodecsFile(Strict):
    zfp: CodecFile | None = None
    mpc: CodecFile | None = None
    int8: CodecFile | None = None
    int4: CodecFile | None = None


class DeviceFile(Strict):
    hbm_bytes: Positive
    hbm_bytes_per_s: Positive
    hbm_share: Share
    num_compute_units: ComputeUnits
    peak_flops_per_s: Positive
    matmul_flops_per_s: Positive
    matmul_half_edge: AtLeastZero
    kernel_gap_s: AtLeastZero
    speed_sd: Part | None = None
    matmul_sd: Part | None = None
    fp32: MatmulFile | None = None
    fp64: MatmulFile | None = None
    matmul_forms: MatmulFormsFile | None = None
    codecs: CodecsFile | None = None


class HostFile(Strict):
    hook_s: AtLeastZero


class MessagesFile(Strict):
    gap_s: Positive
    bytes_per_s: Positive
    half_bytes: AtLeastZero
    rendezvous_bytes: Positive


class CopiesFile(Strict):
    routed_share: Share
    engine_bytes_per_s: Positive
    in_node_sd: Positive
    between_nodes_sd: Positive
    short_bytes: Positive
    short_s: Positive
    eager_s: Positive
    eager_bytes_per_s: Positive
    rendezvous_s: Positive
    libraries: dict[str, MessagesFile]


class MachineFile(Strict):
    name: Text
    title: Text
    device_word: Text | None = None  # what people call a device: GCD, GPU
    library: Text
    num_nodes: Nodes
    devices_per_node: Devices
    devices_per_package: Devices
    link_classes: dict[str, LinkClassFile]
    node: NodeFile
    dragonfly: DragonflyFile | None = None
    fat_tree: FatTreeFile | None = None
    device: DeviceFile
    host: HostFile
    copies: CopiesFile | None = None
