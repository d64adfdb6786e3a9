"""Intermediate representation of schedules: tensors, the ops of a rank's program, and the calls (such as the forward of
a layer) that form a program."""

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
    """Reference to one instance of a tensor: the tensor's name, and the layer and micro-batch of the instance (0 if the
    tensor does not exist per layer or micro-batch).

    In a stored block, layer and micro-batch are offsets from those of the call.
    """

    name: str
    layer: int = 0
    micro: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """A logical tensor and its placement. Together with the mesh, these determine all sizes per rank.

    `dims`: labels of the dimensions of `shape`, to which an op's `split` refers.
    `nesting`: the axes that are the mixed-radix digits of the tensor's flat index.
    `stacked`: axes along which the contributions of ranks lie side by side, not yet summed.
    `shares`: the tensor whose memory this tensor uses (the result of an in-place all-reduce).
    `window`: how many of how many equal blocks of a tensor are in memory at a time, if not all.
    `on_host`: it is in the memory of the rank's host, not of its device.
    `persistent`: the tensor exists before and after the step.
    `pool`: the memory budget from which instances of the tensor are allocated (`Schedule.pools`, in elements).
    `follows`: the weight of which this state becomes a moving average.
    `is_frozen`: a weight that is not trained.

    `weight`: the weight to which this tensor belongs, as a state, copy, gradient, or intermediate buffer of one of
    these (a weight names itself).
    `form_of`: the value of which this tensor is a copy, a part or a buffer.
    `recomputes`: the tensor of the forward that this tensor of the backward recomputes.
    `stage`: the pass for which a weight or value was gathered.
    `streams`: the streams of the model (teacher, student; the outermost first) to which the tensor belongs; `local` is
    its name within them, which tensors of several streams may share.
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
    on_host: bool = False
    persistent: bool = False
    pool: str | None = None
    shares: str | None = None
    window: tuple[int, int] | None = None
    follows: str | None = None
    is_frozen: bool = False
    weight: str | None = None
    form_of: str | None = None
    recomputes: str | None = None
    stage: Stage | None = None
    streams: tuple[str, ...] = ()
    local: str | None = None

    @property
    def value(self) -> str:
        """Name of the value that this tensor represents: the tensor's own name, or that of the value of which it is a
        copy, a part or a buffer."""
        return self.form_of or self.name

    @property
    def quantity(self) -> str:
        """Name of the weight, state or value that this tensor represents, the same in all streams and for all derived
        tensors: `qkv.weight` for its copies, gradients and states."""
        return self.local or self.weight or self.value

    @property
    def num_elements(self) -> int:
        return math.prod(self.shape)

    def local_elements(self, mesh: Mesh) -> int:
        """Return the number of elements of one instance on one rank, padding included."""
        elements = local_elements(self.shape, self.nesting, self.placement, mesh, self.name)[0]
        return elements * mesh.size(self.stacked) if self.stacked else elements

    def padding(self, mesh: Mesh) -> int:
        """Return the number of padding elements in the tensor's block, which is divided among the ranks that hold flat
        parts of it."""
        return local_elements(self.shape, self.nesting, self.placement, mesh, self.name)[1]

    def held_bytes(self, mesh: Mesh, on_host: bool = False) -> int:
        """Return the memory in bytes that one instance of the tensor occupies on one rank's device, or its host
        (`on_host`); 0 if it shares the memory of another tensor."""
        held, blocks = self.window or (1, 1)
        return 0 if self.shares or self.on_host != on_host else self.local_bytes(mesh) * held // blocks

    def local_bytes(self, mesh: Mesh) -> int:
        """Return the size of one instance of the tensor on one rank in bytes, encoded if it has a codec."""
        elements = self.local_elements(mesh)
        return self.codec.wire_bytes(elements) if self.codec else elements * DTYPE_BYTES[self.dtype]


class Piece(NamedTuple):
    """One piece of a divided op: `axes` divide the dimension `label` into blocks, each block is divided into `parts`
    equal parts, and this piece consists of part `number` of every block (see program.pieces). If it `turns`, there is
    one piece per rank of the axes: the whole block of the rank `number` places before the own one."""

    number: int
    parts: int
    label: str
    axes: tuple[str, ...]
    turns: bool = False

    def share_of(self, tensor: Tensor) -> int:
        """Return the number of pieces into which a tensor is divided; 1 if it does not have the divided dimension."""
        return self.parts if self.label in tensor.dims else 1


_SERIAL = count(-1, -1)


def _number() -> int:
    """Return the dataclass field for an op's number: the index of the op in `Schedule.ops`, or a negative serial number
    as long as the op belongs to no schedule."""
    number: int = field(default_factory=_SERIAL.__next__, compare=False, repr=False)
    return number


@dataclass(frozen=True, slots=True, kw_only=True)
class Compute:
    """A local computation of one rank, without its duration.

    `iteration`: the size of each label of the op's logical iteration space.
    `split`: (axis, label) pairs: each axis shards the iteration space along this label.
    `matmul`: for a matrix product, the labels of (batch, m, n, k).
    `flops`: FLOPs of the whole logical op, on all ranks together.
    `kernel`: the kernel of a softmax (program.cost); empty if its rows fit into on-chip memory.
    `named`: for an op of the model, its structured name: the module, and the part of the backward.
    `piece`: set if the op is a piece of a divided op; sizes and FLOPs are then those of the piece.
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
        """Return the size of each label of the iteration space on one rank."""
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
    """A collective within the groups over `axes`: each tensor in `src` becomes the corresponding tensor in `dst`, all
    in one call.

    `kind` follows from the placements of `src` and `dst`. A reduction whose codec is opaque (encoded numbers cannot be
    added) is sent as an all-to-all and summed by the `decode_sum` that follows.
    `per_hop`: `src` and `dst` are plain numbers instead; each message between two ranks is encoded by the sender, and
    decoded by the receiver before the addition.
    `blocking`: the collective blocks the host until it is done.
    `token`: a tensor without bytes that signals that the collective is done (a hook of the host may wait for it).
    `piece`: set if the collective moves only one piece of its tensors.
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
    def turns(self) -> bool:
        """True if this is one step around a ring (see program.pieces)."""
        return self.piece is not None and self.piece.turns

    @property
    def is_added_later(self) -> bool:
        """True if this is a reduction that delivers encoded contributions, which the ranks decode and sum
        afterwards."""
        return self.kind == "reduce_scatter" and self.codec.is_opaque and not self.per_hop

    @property
    def wire_kind(self) -> CollectiveKind:
        """Kind of the collective that is sent over the network: a reduction of encoded numbers is sent as an all-to-all
        and summed by the receivers."""
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
    """Point-to-point messages between the ranks of two roles, pairwise between ranks that differ only in the coordinate
    on `axis`. Both programs contain the same op.

    The ranks at coordinate `ends[0]` send the tensors `src`, which the ranks at `ends[1]` write to `dst`, pair by pair;
    in the same call `back_src` is sent in the opposite direction, to `back_dst`. References are relative to the call,
    which has the same layer and micro-batch in both programs. The exchanges of communicator `comm` between the same two
    ends match in issue order. `blocking` and `token`: as in a collective; the token is written at both ends.
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
        """Tensors that are sent by either of the two ends."""
        return (*self.src, *self.back_src)

    @property
    def writes(self) -> tuple[Ref, ...]:
        """Tensors that are received by either of the two ends, and the token."""
        return (*self.dst, *self.back_dst, *(() if self.token is None else (self.token,)))

    @property
    def accumulates(self) -> tuple[Ref, ...]:
        return ()

    def at(self, coordinate: int) -> tuple[tuple[Ref, ...], tuple[Ref, ...]]:
        """Return the (reads, writes) of one end of the exchange, given by its coordinate on the axis."""
        token = () if self.token is None else (self.token,)
        if coordinate == self.ends[0]:
            return self.src, (*self.back_dst, *token)
        assert coordinate == self.ends[1], f"{self.name}: {coordinate} is none of {self.ends}"
        return self.back_src, (*self.dst, *token)


Op = Compute | Collective | Exchange


@dataclass(frozen=True, slots=True)
class Call:
    """One part of a program, such as the forward or the backward of a layer, or the optimizer step: its ops, with the
    layer and micro-batch to which their references are relative. `block` is the index of the ops in `Schedule.blocks`,
    or -1 as long as the call belongs to no schedule."""

    label: str
    layer: int
    micro: int
    ops: tuple[Op, ...]
    block: int = field(default=-1, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Role:
    """A set of ranks that run the same program: the calls of this program, in the order in which the host issues them.

    If there are several roles, each is `at` one coordinate of an axis (a pipeline stage), the same axis for all roles;
    `at` is None if all ranks share one role.
    """

    name: str
    calls: tuple[Call, ...]
    at: tuple[str, int] | None = None

    def first_calls(self) -> list[Call]:
        """Return the first call of each distinct block, in issue order."""
        first: dict[int, Call] = {}
        for call in self.calls:
            first.setdefault(call.block, call)
        return list(first.values())

    def instances(self) -> Iterator[tuple[Call, Op]]:
        """Yield (call, op) for every op of the program, in issue order."""
        for call in self.calls:
            for op in call.ops:
                yield call, op


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The programs of all ranks for one step, without durations.

    The references of ops are relative to their call, so that equal calls share one tuple of ops (a block). `ops` and
    `blocks` list the distinct ops and blocks in order of first use; the index of an op or block is its number. Ops and
    calls passed to the constructor with other numbers are replaced by equal ones with these numbers.
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
        """True if the schedule has a collective that encodes every message between two ranks separately."""
        return any(isinstance(op, Collective) and op.per_hop for op in self.ops)


class _Numbering:
    """Assigns numbers to ops and blocks in order of first use. Ops that already have the right number are not
    copied."""

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
        """Assign numbers to a new block and to its ops. Return the number of the block."""
        for op in block:
            if id(op) not in self._numbered:
                numbered = op if op.number == len(self.ops) else replace(op, number=len(self.ops))
                self._numbered[id(op)] = numbered
                self.ops.append(numbered)
        ops = [self._numbered[id(op)] for op in block]
        self.blocks.append(block if all(map(is_, ops, block)) else tuple(ops))
        return len(self.blocks) - 1
