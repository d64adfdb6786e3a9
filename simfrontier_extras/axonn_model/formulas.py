"""The formulas of AxoNN's analytical model: bytes of every dimension of a grid over what its groups reach.

Version A: axonn-ai/Megatron-AxoNN branch gordon-bell-perlmutter, examples/comm_model.py. Version B:
axonn-ai/sc2025-pccl-reproducer branch experimental, data/comm_model.py. Both count communication alone: computing,
overlap and memory are outside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Final, Literal, get_args

from annotated_types import Ge, Gt, Len

from simfrontier.base.errors import InputError
from simfrontier.base.io import SOURCED, Kind, NotNegative, Strict, Text, read_toml, typed
from simfrontier.core.workload import GptShape

VersionName = Literal["axonn-a", "axonn-b"]
VERSIONS: Final[tuple[VersionName, ...]] = get_args(VersionName)


CATALOG: Final = Path(__file__).parent / "catalog"
Ranks = Annotated[int, Ge(1)]
Rate = Annotated[float, Gt(0)]


class Row(Strict):
    """Bandwidth of a group of `size` ranks whose neighbours are `inner` ranks apart. `inner`: number of ranks of all
    dimensions inside this one; `size`: number of ranks of this dimension."""

    inner: Ranks
    size: Annotated[int, Ge(2)]
    gib_per_s: Rate


class InNode(Strict):
    """Bandwidths of groups within a node."""

    kind: Kind
    source: Text
    rows: Annotated[tuple[Row, ...], Len(1)]


class BetweenNodes(Strict):
    """Bandwidth of every group without a row: gib_per_s / min(shared_by_at_most, inner)."""

    kind: Kind
    source: Text
    gib_per_s: Rate
    shared_by_at_most: Ranks


class MachineBandwidths(Strict):
    """Bandwidths of a machine. `also_of`: machines with the same bandwidths, as they differ in nothing that affects
    them."""

    also_of: tuple[Text, ...] = ()
    latency_s_per_rank: Annotated[NotNegative, SOURCED]
    in_node: InNode
    between_nodes: BetweenNodes


class Tables(Strict):
    """Content of the bandwidth file of a version, by machine."""

    machines: Annotated[Mapping[str, MachineBandwidths], Len(1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bandwidths:
    """Bandwidths of one version of the model on one machine, by the name of its table. The authors write GB/s, but
    divide GiB (bytes / 1024³) by it."""

    version: VersionName
    machine: str
    table: MachineBandwidths

    @property
    def source(self) -> str:
        return self.table.in_node.source

    def gib_per_s(self, inner: int, size: int) -> float:
        """Return the bandwidth (GiB/s) of a group of `size` ranks with `inner` ranks of other dimensions inside it."""
        row = next((row for row in self.table.in_node.rows if (row.inner, row.size) == (inner, size)), None)
        between = self.table.between_nodes
        return between.gib_per_s / min(between.shared_by_at_most, inner) if row is None else row.gib_per_s


def load_bandwidths(version: VersionName, machine: str) -> Bandwidths:
    """Read a version's bandwidths on a machine from VERSION.toml. Raises InputError for a machine without a table; the
    message lists the machines that have one."""
    path = CATALOG / f"{version}.toml"
    machines = typed(read_toml(path, "table of bandwidths"), Tables, path.name).machines
    names = {name: table for table, entry in machines.items() for name in (table, *entry.also_of)}
    if machine not in names:
        raise InputError(f"{version} has no table of bandwidths on {machine!r}; allowed: {', '.join(sorted(names))}")
    return Bandwidths(version=version, machine=names[machine], table=machines[names[machine]])


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Grid:
    """Sizes of the four dimensions, innermost first: ranks of a group along `x` are neighbours, along `y` they are x
    apart, along `z` x·y, along `data` x·y·z.

    The authors call them Gc, Gr, Gd and Gdata. All are powers of two, as in their search and in their tables.
    """

    x: int
    y: int
    z: int
    data: int

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        return self.x, self.y, self.z, self.data

    @property
    def tensor(self) -> int:
        """Number of ranks that share the weights of one layer."""
        return self.x * self.y * self.z


def grids(num_devices: int) -> Iterator[Grid]:
    """Yield all grids of powers of two whose product is the number of devices, in the order of (x, y, z, data); none if
    the number of devices is not a power of two."""
    if num_devices.bit_count() != 1:
        return
    powers = [1 << power for power in range(num_devices.bit_length())]
    for x, y, z in product(powers, repeat=3):
        if x * y * z <= num_devices:
            yield Grid(x=x, y=y, z=z, data=num_devices // (x * y * z))


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A linear layer with weights [out, in]: a normal layer has its input split over X and its output over Y, a
    transposed layer vice versa. `times`: number of layers of this shape in a block."""

    num_in: int
    num_out: int
    transposed: bool = False
    times: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformer:
    """Dimensions of a decoder-only transformer; `gqa`: query heads that share a key and a value; `swiglu`: whether two
    layers instead of one produce the `intermediate` features."""

    num_layers: int
    hidden: int
    heads: int
    vocabulary: int
    sequence: int
    intermediate: int
    gqa: int = 1
    swiglu: bool = False

    def layers(self, quirk: bool) -> tuple[Layer, ...]:
        """Return the linear layers of one block: qkv, attention projection, up and down projection. With the `quirk` of
        both versions' code, the down projection, which is transposed, has the dimensions of the up projection: (h, f)
        instead of (f, h)."""
        h, f = self.hidden, self.intermediate
        down = (h, f) if quirk else (f, h)
        return (
            Layer(num_in=h, num_out=h + 2 * h // self.gqa),
            Layer(num_in=h, num_out=h, transposed=True),
            Layer(num_in=h, num_out=f, times=2 if self.swiglu else 1),
            Layer(num_in=down[0], num_out=down[1], transposed=True),
        )

    def refuse_what_lacks(self, version: VersionName) -> None:
        """Raise InputError if Version A has no formula for this transformer: its formulas are for GPTs, whose layers
        have widths 3 h, h, 4 h and 4 h."""
        if version != "axonn-a":
            return
        wanted = {"swiglu": False, "gqa": 1, "intermediate": 4 * self.hidden}
        for key, allowed in wanted.items():
            got = getattr(self, key)
            if got != allowed:
                shown = [str(value).lower() for value in (got, allowed)]
                raise InputError(
                    f"tune.{key}: got {shown[0]}, allowed: {shown[1]} with axonn-a (only axonn-b has others)"
                )

    def obstacle(self, grid: Grid) -> str:
        """Return the reason why a grid cannot split this transformer, or "". Hidden features are split over X; heads,
        feed-forward features and vocabulary over Y; the resulting blocks of weights over Z.

        The authors' search does not check this; AxoNN's layers refuse such a grid, and so does a plan.
        """
        cuts = (
            ("hidden", self.hidden, "X", grid.x),
            ("heads", self.heads, "Y", grid.y),
            ("intermediate", self.intermediate, "Y", grid.y),
            ("vocabulary", self.vocabulary, "Y", grid.y),
        )
        for name, size, axis, ranks in cuts:
            if size % ranks:
                return f"{name} = {size} does not divide into {axis} = {ranks}"
        for layer in self.layers(quirk=False):
            block = layer.num_in * layer.num_out // (grid.x * grid.y)
            if block % grid.z:
                return f"a block of {layer.num_in} x {layer.num_out} weights does not divide into Z = {grid.z}"
        return ""


def transformer_of(
    shape: GptShape, *, intermediate: int | None = None, gqa: int = 1, swiglu: bool = False
) -> Transformer:
    """Return the dimensions of a GPT as a Transformer; arguments that are set replace the shape's own feed-forward
    features, query heads per key, and gate."""
    return Transformer(
        num_layers=shape.num_layers,
        hidden=shape.hidden,
        heads=shape.heads,
        vocabulary=shape.padded_vocabulary,
        sequence=shape.sequence,
        intermediate=shape.feed_forward if intermediate is None else intermediate,
        gqa=shape.heads // shape.key_heads if gqa == 1 else gqa,
        swiglu=swiglu or shape.gated,
    )


GIB = 1024.0**3
ELEMENT_BYTES = 2  # BF16


@dataclass(frozen=True, slots=True, kw_only=True)
class CommTimes:
    """Predicted seconds of communication in a step, by the dimension of the grid whose groups communicate."""

    data_s: float
    z_s: float
    y_s: float
    x_s: float

    @property
    def total_s(self) -> float:
        return self.data_s + self.z_s + self.y_s + self.x_s


def comm_times(
    bandwidths: Bandwidths,
    transformer: Transformer,
    grid: Grid,
    batch: int,
    *,
    quirk: bool = True,
    accumulation: int = 1,
) -> CommTimes:
    """Return the seconds of communication in a step of `batch` sequences over all devices, in all layers, by the
    version of the model to which the bandwidths belong.

    `quirk`: use the down projection's dimensions as in the authors' code (see Transformer.layers). `accumulation`:
    micro-batches per step, each of which gathers and scatters the weights; only in Version A. Both versions divide
    bytes by 1024³ and use the tabulated GB/s unchanged. Raises InputError for a transformer for which the version has
    no formula.
    """
    transformer.refuse_what_lacks(bandwidths.version)
    if accumulation != 1 and bandwidths.version != "axonn-a":
        raise InputError(f"tune.accumulation: got {accumulation}, allowed: 1 with axonn-b (only axonn-a has others)")
    sums = dict.fromkeys(("data", "z", "y", "x"), 0.0)
    is_a, tokens = bandwidths.version == "axonn-a", batch * transformer.sequence
    for layer in transformer.layers(quirk):
        for dimension, size, inner, elements in _volumes(is_a, layer, grid, tokens, accumulation):
            if size > 1:  # nothing over one rank, or else a p + V / bw
                volume_s = elements * ELEMENT_BYTES / GIB / bandwidths.gib_per_s(inner, size)
                sums[dimension] += layer.times * (bandwidths.table.latency_s_per_rank * size + volume_s)
    return CommTimes(**{f"{name}_s": transformer.num_layers * total for name, total in sums.items()})


def _volumes(
    is_a: bool, layer: Layer, grid: Grid, tokens: int, accumulation: int
) -> tuple[tuple[str, int, int, float], ...]:
    """The four terms of a layer: along which dimension, over how many ranks, how many stand inside a group, and
    elements that move. With p ranks along the layer's input and q along its output (X and Y, exchanged in a
    transposed layer), r = tokens / (data z) rows, and f = 4 in Version A, where the forward runs twice, 2 in B:

        data:    4 (data-1)/data  in out / (x y z)     all-reduce of gradients of 4 bytes
        z:       3 (z-1)/z        in out / (x y)       two all-gathers and a reduce-scatter of the weights
        output:  2 (q-1)/q        r in / p             all-reduce of the input's gradient over Y (transposed: X)
        input:   f (p-1)/p        r out / q            all-reduce of the output over X (transposed: Y)

    times 2 bytes. Dimensions are nested X, Y, Z, data, the innermost first; but Version B calls one function for all
    layers, with X and Y exchanged for a transposed one, and so exchanges their nesting, too.
    """
    x, y, z, data = grid.sizes
    p, q = (y, x) if layer.transposed else (x, y)
    along_p, along_q = ("y", "x") if layer.transposed else ("x", "y")
    inside = {"x": y, "y": 1} if layer.transposed and not is_a else {"x": 1, "y": x}
    rows = tokens / (data * z)
    weights = layer.num_in * layer.num_out
    return (
        ("data", data, x * y * z, 4 * (data - 1) / data * weights / (x * y * z)),
        ("z", z, x * y, 3 * (z - 1) / z * weights / (x * y) * accumulation),
        (along_q, q, inside[along_q], 2 * (q - 1) / q * rows * layer.num_in / p),
        (along_p, p, inside[along_p], (4 if is_a else 2) * (p - 1) / p * rows * layer.num_out / q),
    )
