"""One step of one rank's trace: kernels in launch order, waits between streams, and communication calls."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from annotated_types import Ge, Le, Len

from simfrontier.base.errors import InputError, nearest, shown
from simfrontier.base.io import External, Names, Parsed, typed
from simfrontier.core.codecs import Codec, wire_codec
from simfrontier.core.dtypes import DTYPE_BYTES
from simfrontier.core.program import VIAS, CollectiveKind
from simfrontier.core.trace import kineto as form
from simfrontier.inputs.profiler.trace_events import EventArgs, MeasuredBy


class SimulatedCollective(External):
    """Facts about a collective that only a simulation knows, from the key `simfrontier` of its event."""

    kind: CollectiveKind
    via: Annotated[str, Names(*VIAS)]
    codec: Annotated[Codec, Parsed(wire_codec)]
    elements: Annotated[tuple[Annotated[int, Ge(0)], ...], Len(1)]
    dtype: Annotated[str, Names(*DTYPE_BYTES)]
    per_hop: bool = False


class SimulatedExchange(External):
    """Facts about a message that only a simulation knows: the two ranks of the group between which it is exchanged, and
    its bytes in each direction."""

    ends: tuple[Annotated[int, Ge(0)], Annotated[int, Ge(0)]]
    there_bytes: Annotated[int, Ge(0)]
    back_bytes: Annotated[int, Ge(0)]


class SimulatedKernel(External):
    """Facts about a kernel that only a simulation knows: its time in isolation, the bytes that it moves, and the time
    of its arithmetic."""

    seconds: Annotated[float, Ge(0), Le(1e6)]
    bytes: Annotated[float, Ge(0), Le(1e18)]
    arithmetic_s: Annotated[float, Ge(0), Le(1e6)]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCall:
    """A collective, or a message to or from another rank.

    Attributes:
        num_bytes: of the whole message (all-gather: the output of a rank; others: its input).
        ranks: of the group, in its order.
        peer: the other rank of a message.
        sequence: number of the call in its group, if the trace has it.
        own: facts that a simulation wrote.
    """

    meaning: form.Meaning
    name: str
    dtype: str
    num_bytes: int
    group: str
    ranks: tuple[int, ...]
    peer: int | None = None
    sequence: int | None = None
    own: SimulatedCollective | SimulatedExchange | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """One kernel on a stream of the device, or other timed op, with times in seconds of the rank's clock. `call`: its
    communication call, if it communicates; `own`: facts that a simulation recorded; `is_backward`: launched by
    autograd's thread."""

    name: str
    stream: str
    start_s: float
    end_s: float
    order: float
    call: GroupCall | None = None
    own: SimulatedKernel | None = None
    is_backward: bool = False

    @property
    def seconds(self) -> float:
        return self.end_s - self.start_s

    @property
    def is_bare_call(self) -> bool:
        """True for a kernel of NCCL or RCCL without a record of its message."""
        return self.call is None and self.name.startswith(form.NCCL_KERNELS) and self.own is None


@dataclass(frozen=True, slots=True)
class EventWait:
    """Wait of a stream, issued by host call number `order`, for all work that was issued to another stream before host
    call number `record`."""

    stream: str
    on_stream: str
    record: float
    order: float


@dataclass(frozen=True, slots=True)
class DeviceModel:
    """Product name of a device, with the bytes of its memory and its number of compute units, if the trace has them."""

    name: str
    num_bytes: int | None = None
    num_units: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RankTrace:
    """One step of a rank.

    Attributes:
        stands_for: ranks that the trace stands for, as text.
        device: None for work of the host.
        waits: None if the trace has none, so that they have to be inferred from times.
        measured_by: how the step's begin and end were found.
        tick_s: resolution of its times.
    """

    where: str
    step_name: str
    rank: int
    num_ranks: int
    stands_for: str
    device: DeviceModel | None
    kernels: Sequence[Kernel]
    waits: Sequence[EventWait] | None
    begin_s: float
    end_s: float
    measured_by: MeasuredBy
    tick_s: float

    @property
    def step_s(self) -> float:
        return self.end_s - self.begin_s

    @property
    def ends_idle(self) -> bool:
        """True if the step continues after the end of its last kernel."""
        return self.end_s - max(kernel.end_s for kernel in self.kernels) >= self.tick_s


T = TypeVar("T")
Own = TypeVar("Own", bound=External)


def call_of(args: EventArgs, groups: Mapping[str, tuple[int, ...]], rank: int, num_ranks: int, where: str) -> GroupCall:
    """Return the collective or message of an event. `groups` maps names of process groups to their ranks, as listed in
    the trace. Raises InputError for an unknown group, and for a group whose ranks are not all listed."""
    name = _known(form.COLLECTIVE, args.collective, form.COLLECTIVES, where)
    meaning = form.COLLECTIVES[name]
    dtype = _known(f"{form.DTYPE} of {name}", args.dtype, form.DTYPES, where)
    is_output = meaning in ("all_gather", "recv")
    key, elements = (form.OUT_ELEMENTS, args.out_elements) if is_output else (form.IN_ELEMENTS, args.in_elements)
    ranks = _ranks(args, groups, name, num_ranks, where)
    is_message = meaning in ("send", "recv")
    own: SimulatedCollective | SimulatedExchange | None = (
        own_of(args.own, SimulatedExchange, where) if is_message else own_of(args.own, SimulatedCollective, where)
    )
    return GroupCall(
        meaning=meaning,
        name=name,
        dtype=dtype,
        num_bytes=max(_there(elements, f"{key} of {name}", where), name in form.LIKE) * form.DTYPES[dtype],
        group=str(args.group_name),
        ranks=ranks,
        peer=_peer(args, own, meaning, ranks, rank, where) if is_message else None,
        sequence=args.sequence,
        own=own,
    )


def own_of(own: dict[str, Any] | None, form_of_own: type[Own], where: str) -> Own | None:
    """Return the facts that a simulation wrote into an event. Raises InputError."""
    return typed(own, form_of_own, where, (form.OWN,)) if own else None


def ranks_of(value: Any, where: str) -> tuple[int, ...] | None:
    """Return the ranks from a list, or from a text such as `[0, 1, 2]`; None if the list is cut short or missing.
    Raises InputError."""
    if isinstance(value, str):
        if "..." in value or not value.strip("[] "):
            return None
        try:
            value = json.loads(value)
        except ValueError:
            raise InputError(f"{form.GROUP_RANKS}: got {shown(value)}; allowed: [0, 1, ...]", where=where) from None
    if not isinstance(value, list) or not value:
        return None
    if any(not isinstance(rank, int) for rank in value) or len(set(value)) != len(value):
        raise InputError(f"{form.GROUP_RANKS}: a rank twice, or what is none; allowed: every rank once", where=where)
    return tuple(value)


def _ranks(
    args: EventArgs, groups: Mapping[str, tuple[int, ...]], name: str, num_ranks: int, where: str
) -> tuple[int, ...]:
    """Return the ranks of a call's group: from the call's own list, or, if this list is cut short, all ranks, or those
    in the trace's list of groups."""
    size = _there(args.group_size, f"{form.GROUP_SIZE} of {name}", where)
    ranks = ranks_of(args.group_ranks, where)
    if ranks is None or len(ranks) != size:
        ranks = tuple(range(size)) if size == num_ranks else groups.get(str(args.group_name))
    if ranks is None or len(ranks) != size:
        raise InputError(
            f"{name}: of its group ({form.GROUP_NAME} {shown(args.group_name)}, {size:,} ranks) not all ranks are in "
            "the trace: PyTorch cuts long lists short; allowed: all of them, there or in distributedInfo.pg_config",
            where=where,
        )
    return ranks


def _peer(
    args: EventArgs,
    own: External | None,
    meaning: form.Meaning,
    ranks: tuple[int, ...],
    rank: int,
    where: str,
) -> int:
    """Return the other rank of a message, as a rank number of the job."""
    if isinstance(own, SimulatedExchange):
        first, second = (ranks[end] for end in own.ends)
        return second if rank == first else first
    key, peer = (form.TARGET_RANK, args.target_rank) if meaning == "send" else (form.SOURCE_RANK, args.source_rank)
    peer = _there(peer, f"{key} of {meaning}", where)
    if peer in ranks:
        return peer
    raise InputError(f"{key} of {meaning}: got {peer}; allowed: a rank of its group", where=where)


def _known(key: str, name: str | None, names: Collection[str], where: str) -> str:
    if name is None or name not in names:
        raise InputError(f"{key} {shown(name)}: {nearest(str(name), names)}", where=where)
    return name


def _there(value: T | None, key: str, where: str) -> T:
    if value is None:
        raise InputError(f"{key}: missing", where=where)
    return value
