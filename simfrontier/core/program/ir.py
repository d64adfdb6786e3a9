"""Intermediate representation of schedules: tensors, the ops of a rank's program, and the calls that form a program."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from operator import is_
from typing import Final, Literal, NamedTuple

from simfrontier.core.codecs import Codec
from simfrontier.core.dtypes import DTYPE_BYTES
from simfrontier.core.program.mesh import Mesh
from simfrontier.core.program.names import LIBRARY, NO_MODULE, OpName, Stage
from simfrontier.core.program.placement import Placement, local_elements

TensorRole = Literal[
    "weight",
    "copy",
    "accumulator",
    "optimizer",
    "master",
    "state",
    "constant",
    "gathered",
    "gradient",
    "activation",
    "encoded",
    "scalar",
    "update",
    "norms",
    "token",
]
GRADIENT_ROLES: Final[tuple[TensorRole, ...]] = ("gradient", "accumulator")
LASTING_ROLES: Final[tuple[TensorRole, ...]] = (  # of tensors that persist from step to step
    *("weight", "copy", "accumulator", "optimizer", "master", "state", "constant"),
)
CollectiveKind = Literal["all_gather", "reduce_scatter", "all_reduce", "all_to_all"]
HOST: Final = "host"  # the lane of the CPU


class Ref(NamedTuple):
    """One instance of a tensor: its name, and the layer and micro-batch it belongs to (0 where the tensor has none).

    In a stored block, layer and micro-batch count from those of the call.
    """

    name: str
    layer: int = 0
    micro: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """A logical tensor and its placement, which together with the mesh determine every local size.

    `dims` labels the dimensions of `shape` (an op's `split` refers to labels). `nesting` lists the axes that are the
    mixed-radix digits of its flat index. Along `stacked` axes, contributions lie side by side, not yet summed. `shares`
    names a tensor whose memory this one uses (an in-place all-reduce). `persistent` tensors exist before and after the
    step. `pool` names the budget from which its instances are allocated (`Schedule.pools`, in elements). A state that
    `follows` a weight becomes a moving average of it.

    `weight` is the weight of which it is a state, a copy or a gradient, or an intermediate buffer of one of these (a
    weight names itself). `form_of` is the value of which it is a copy, a part or a buffer. A tensor that is recomputed
    in the backward `recomputes` a tensor of the forward. `stage` is the pass for which a weight or a value was
    gathered. A tensor of `streams` of the model (the outermost first) has a `local` name there, which tensors of
    several streams share.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    role: TensorRole
    placement: Placement
    dims: tuple[str, ...] = ()
    nesting: tuple[str, ...] = ()
    stacked: tuple[str, ...] = ()
    codec: Codec | None = None
    per_layer: bool = False
    per_micro: bool = False
    persistent: bool = False
    pool: str | None = None
    shares: str | None = None
    follows: str | None = None
    weight: str | None = None
    form_of: str | None = None
    recomputes: str | None = None
    stage: Stage | None = None
    streams: tuple[str, ...] = ()
    local: str | None = None

    @property
    def value(self) -> str:
        """Name of the value of which this tensor is a form."""
        return self.form_of or self.name

    @property
    def quantity(self) -> str:
        """Name of the weight, state or value to which it belongs, in any stream: the same for `qkv.weight` and all
        tensors derived from it."""
        return self.local or self.weight or self.value

    @property
    def num_elements(self) -> int:
        return math.prod(self.shape)

    def local_elements(self, mesh: Mesh) -> int:
        """Return the number of elements on one rank, padding included."""
        elements = local_elements(self.shape, self.nesting, self.placement, mesh, self.name)[0]
        return elements * mesh.size(self.stacked) if self.stacked else elements

    def padding(self, mesh: Mesh) -> int:
        """Return the number of padding elements in the tensor's whole block."""
        return local_elements(self.shape, self.nesting, self.placement, mesh, self.name)[1]

    def held_bytes(self, mesh: Mesh) -> int:
        """Return the memory of one instance on one rank in bytes; 0 if it uses the memory of another tensor."""
        return 0 if self.shares else self.local_bytes(mesh)

    def local_bytes(self, mesh: Mesh) -> int:
        """Return the bytes of one instance on one rank."""
        elements = self.local_elements(mesh)
        return self.codec.wire_bytes(elements) if self.codec else elements * DTYPE_BYTES[self.dtype]


class Piece(NamedTuple):
    """A part of an op: `axes` divide the dimension `label` into blocks, each block is cut into `parts` equal parts, and
    this piece is the `number`-th part of every block (program.pieces)."""

    number: int
    parts: int
    label: str
    axes: tuple[str, ...]

    def share_of(self, tensor: Tensor) -> int:
        """Return the number of pieces of a tensor; 1 if it is not cut."""
        return self.parts if self.label in tensor.dims else 1


_SERIAL = count(-1, -1)


def _number() -> int:
    """Return the dataclass field of an op's number: its index in `Schedule.ops`, or a negative serial number before the
    op is in a schedule."""
    number: int = field(default_factory=_SERIAL.__next__, compare=False, repr=False)
    return number


@dataclass(frozen=True, slots=True, kw_only=True)
class Compute:
    """Work of one rank; its duration is not part of it.

    `iteration` gives the size of each label of the op's logical iteration space, `split` the label that each axis cuts.
    For a matmul, `matmul` names the labels of (batch, m, n, k). `flops` counts the whole logical op. `kernel` is the
    kernel of a softmax (program.cost); empty if its rows stay on the chip. `named` is the structured name of an op of
    the model: its module, and its part of the backward. A `piece` has the sizes and the flops of its part.
    """

    kind: str
    name: str
    reads: tuple[Ref, ...] = ()
    writes: tuple[Ref, ...] = ()
    accumulates: tuple[Ref, ...] = ()
    iteration: tuple[tuple[str, int], ...] = ()
    split: tuple[tuple[str, str], ...] = ()
    matmul: tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], tuple[str, ...]] | None = None
    flops: int = 0
    max_age: int = 0
    kernel: str = ""
    lane: str = "compute"
    named: OpName = NO_MODULE
    piece: Piece | None = None
    number: int = _number()

    def local_sizes(self, mesh: Mesh) -> dict[str, int]:
        """Return the size of each label on one rank."""
        sizes = dict(self.iteration)
        for axis, label in self.split:
            if label in sizes:
                sizes[label] //= mesh[axis]
        return sizes

    def local_flops(self, mesh: Mesh) -> float:
        labels = dict(self.iteration)
        return self.flops / math.prod(mesh[axis] for axis, label in self.split if label in labels)


@dataclass(frozen=True, slots=True, kw_only=True)
class Collective:
    """Communication of the groups over `axes`: tensors `src` become tensors `dst`, pair by pair, in one call.

    `kind` follows from the placements of src and dst. A reduction whose codec is opaque is sent as an all-to-all and
    summed by the `decode_sum` that follows it; or, with `per_hop`, src and dst are plain numbers, and every message
    between two ranks is encoded by its sender, and decoded by its receiver before it is added. `blocking` calls block
    the host until they are done. `token` is a tensor without bytes that signals the end of the call (a hook of the host
    may wait for it). A `piece` moves a part of its tensors.
    """

    kind: CollectiveKind
    name: str
    axes: tuple[str, ...]
    src: tuple[Ref, ...]
    dst: tuple[Ref, ...]
    codec: Codec
    via: str = LIBRARY
    lane: str = "compute"
    comm: str = "world"
    blocking: bool = False
    token: Ref | None = None
    per_hop: bool = False
    piece: Piece | None = None
    number: int = _number()

    @property
    def is_added_later(self) -> bool:
        """True if a reduction delivers encoded contributions, which the ranks sum after decoding."""
        return self.kind == "reduce_scatter" and self.codec.is_opaque and not self.per_hop

    @property
    def wire_kind(self) -> CollectiveKind:
        """Kind of collective on the wire: an encoded reduction is sent as an all-to-all and summed by the receivers."""
        return "all_to_all" if self.is_added_later else self.kind

    @property
    def reads(self) -> tuple[Ref, ...]:
        return self.src

    @property
    def writes(self) -> tuple[Ref, ...]:
        return self.dst if self.token is None else (*self.dst, self.token)

    @property
    def accumulates(self) -> tuple[Ref, ...]:
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """Messages between the ranks of two roles that have all other coordinates in common: one op, in both programs.

    On `axis` the ranks at `ends[0]` send `src`, which those at `ends[1]` write to `dst`, pair by pair; in the same call
    `back_src` goes in the other direction, to `back_dst`. References are relative to the call, which has the same layer
    and micro-batch in both programs; the calls of `comm` between two ends match in order. `blocking` and `token` as in
    a collective; the token is written at both ends.
    """

    name: str
    axis: str
    ends: tuple[int, int]
    src: tuple[Ref, ...] = ()
    dst: tuple[Ref, ...] = ()
    back_src: tuple[Ref, ...] = ()
    back_dst: tuple[Ref, ...] = ()
    codec: Codec
    lane: str = "compute"
    comm: str
    blocking: bool = False
    token: Ref | None = None
    number: int = _number()

    kind = "exchange"
    piece = None

    @property
    def reads(self) -> tuple[Ref, ...]:
        """Tensors that either end sends."""
        return (*self.src, *self.back_src)

    @property
    def writes(self) -> tuple[Ref, ...]:
        """Tensors that either end receives, and the token."""
        return (*self.dst, *self.back_dst, *(() if self.token is None else (self.token,)))

    @property
    def accumulates(self) -> tuple[Ref, ...]:
        return ()

    def at(self, coordinate: int) -> tuple[tuple[Ref, ...], tuple[Ref, ...]]:
        """Return the (reads, writes) of the end at a coordinate of the axis."""
        token = () if self.token is None else (self.token,)
        if coordinate == self.ends[0]:
            return self.src, (*self.back_dst, *token)
        assert coordinate == self.ends[1], f"{self.name}: {coordinate} is none of {self.ends}"
        return self.back_src, (*self.dst, *token)


Op = Compute | Collective | Exchange


@dataclass(frozen=True, slots=True)
class Call:
    """One part of a program: the ops of a layer's forward, its backward, the optimizer step, and so on, with the layer
    and micro-batch to which their references are relative. `block` is the index of its ops in `Schedule.blocks`; -1
    before it is in a schedule."""

    label: str
    layer: int
    micro: int
    ops: tuple[Op, ...]
    block: int = field(default=-1, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Role:
    """A program shared by a set of ranks: its calls in the order in which the host issues them.

    If there are several roles, each is `at` one coordinate of the roles' axis (a pipeline stage), the same axis for
    all; a role shared by all ranks has no place.
    """

    name: str
    calls: tuple[Call, ...]
    at: tuple[str, int] | None = None

    def first_calls(self) -> list[Call]:
        """Return the first call of each block, in issue order."""
        first: dict[int, Call] = {}
        for call in self.calls:
            first.setdefault(call.block, call)
        return list(first.values())

    def instances(self) -> Iterator[tuple[Call, Op]]:
        """Yield every op with its call, in issue order."""
        for call in self.calls:
            for op in call.ops:
                yield call, op


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The program of every rank for one step; durations are not part of it.

    References of ops are relative to their call; equal calls share one tuple of ops (the stored blocks). `ops` and
    `blocks` are the distinct ones in order of appearance, numbered by their index. Ops and calls that are passed with
    other numbers are replaced by equal ones.
    """

    mesh: Mesh
    tensors: Mapping[str, Tensor]
    roles: tuple[Role, ...]
    pools: Mapping[str, int]
    meta: Mapping[str, str | int]
    ops: tuple[Op, ...] = field(init=False, compare=False, repr=False)
    blocks: tuple[tuple[Op, ...], ...] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        numbering = _Numbering()
        object.__setattr__(self, "roles", tuple([numbering.role(role) for role in self.roles]))
        object.__setattr__(self, "ops", tuple(numbering.ops))
        object.__setattr__(self, "blocks", tuple(numbering.blocks))

    @property
    def codes_per_hop(self) -> bool:
        """True if a collective encodes every message between two ranks separately."""
        return any(isinstance(op, Collective) and op.per_hop for op in self.ops)


class _Numbering:
    """Numbers of ops and blocks in order of appearance; those with the right number stay the same objects."""

    def __init__(self) -> None:
        self.ops: list[Op] = []
        self.blocks: list[tuple[Op, ...]] = []
        self._numbered: dict[int, Op] = {}  # by the identity of the original op
        self._block_of: dict[int, int] = {}  # by the identity of the ops of a call

    def role(self, role: Role) -> Role:
        calls = tuple([self._call(call) for call in role.calls])
        is_same = all(map(is_, calls, role.calls))
        return role if is_same else Role(role.name, calls, role.at)

    def _call(self, call: Call) -> Call:
        number = self._block_of.get(id(call.ops))
        if number is None:
            number = self._block_of[id(call.ops)] = self._add(call.ops)
        ops = self.blocks[number]
        if number == call.block and ops is call.ops:
            return call
        return Call(call.label, call.layer, call.micro, ops, number)

    def _add(self, block: tuple[Op, ...]) -> int:
        """Number a block and its ops, and return the number of the block."""
        for op in block:
            if id(op) not in self._numbered:
                numbered = op if op.number == len(self.ops) else replace(op, number=len(self.ops))
                self._numbered[id(op)] = numbered
                self.ops.append(numbered)
        ops = [self._numbered[id(op)] for op in block]
        self.blocks.append(block if all(map(is_, ops, block)) else tuple(ops))
        return len(self.blocks) - 1
