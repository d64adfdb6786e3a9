"""What a job's trace says of one rank's step: its kernels in the order of their launch, what streams wait for, and the
groups of its collectives.

Of a trace without kernels (gloo: work of the host) the outermost events of the host's threads are taken for kernels,
and threads for streams.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Sized
from dataclasses import field
from typing import Any, Final

from simfrontier.errors import InputError, nearest, shown, wrong
from simfrontier.kineto.steps import MeasuredBy
from simfrontier.limits import KINETO_OPS
from simfrontier.records import dataclass
from simfrontier.trace import kineto as form

_MOST_US: Final = 1e16  # 300 years: the profiler's clock counts from the start of the machine, or from 1970
_TICK_S: Final = 1e-9  # the profiler's clock ticks in nanoseconds
_MOST: Final = 1 << 53
MOST_TENSORS: Final = 10_000  # of one call
_MOST_OWN: Final = {"seconds": 1e6, "bytes": 1e18, "arithmetic_s": 1e6}  # of a kernel
_LEAST_OWN_S: Final = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCall:
    """A collective, or a message to or from another rank, as a trace has it.

    `num_bytes`: of the whole message (all-gather: what a rank ends with; others: what it begins with); `ranks`: of the
    group, in its order; `peer`: of a message the other rank; `sequence`: the number of the call in its group, where the
    trace has one; `own`: what a simulation wrote of it.
    """

    meaning: form.Meaning
    name: str
    dtype: str
    num_bytes: int
    group: str
    ranks: tuple[int, ...]
    peer: int | None = None
    sequence: int | None = None
    own: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """One op on a stream, from its start on the device; in seconds of the rank's clock. `call`: where it is none of the
    rank by itself; `own`: what a simulation wrote of a kernel; `is_backward`: launched by autograd's thread."""

    name: str
    stream: str
    start_s: float
    end_s: float
    order: float
    call: GroupCall | None = None
    own: Mapping[str, float] = field(default_factory=dict)
    is_backward: bool = False

    @property
    def is_bare_call(self) -> bool:
        """Whether it is a kernel of NCCL or RCCL that does not say what it moves."""
        return self.call is None and self.name.startswith(form.NCCL_KERNELS) and not self.own


@dataclass(frozen=True, slots=True)
class EventWait:
    """From the host's call `order` on, a stream waits for what another had been given before the host's call
    `record`."""

    stream: str
    on_stream: str
    record: float
    order: float


@dataclass(frozen=True, slots=True)
class DeviceModel:
    """The product that a trace names as its device, with the bytes of its memory and its number of compute units where
    the trace has them."""

    name: str
    num_bytes: int | None = None
    num_units: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RankTrace:
    """One step of a rank. `stands_for`: the ranks that the trace says it stands for; `device`: None for work of the
    host; `waits`: None where the trace has none, so that they have to be told from times; `measured_by`: how the step's
    begin and end were found."""

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
        """Whether the step goes on when its last kernel has ended."""
        return self.end_s - max(kernel.end_s for kernel in self.kernels) >= self.tick_s


def microseconds(value: Any, what: str, where: str) -> float:
    """A time of an event."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _MOST_US:
        raise InputError(f"{what}: {wrong(value, 'a number of microseconds')}", where=where)
    return float(value)


def tick_s(latest_us: float) -> float:
    """The least time that can be told apart where times are as late as this: a float of microseconds since 1970 has
    quarters of one."""
    return max(_TICK_S, 4 * math.ulp(latest_us) * form.MICROSECOND)


def whole(value: Any, what: str, where: str) -> int:
    """A number of an event, 0 or more."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 16:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST:
        raise InputError(f"{what}: {wrong(value, 'a whole number of 0 or more')}", where=where)
    return value


def call_of(
    args: Mapping[str, Any], groups: Mapping[str, tuple[int, ...]], rank: int, num_ranks: int, where: str
) -> GroupCall:
    """The collective of a kernel's args; `groups`: the ranks of groups by name, as the trace lists them. Raises
    InputError for one that is not known, and for a group whose ranks are not all there."""
    name = args.get(form.COLLECTIVE)
    if not isinstance(name, str) or name not in form.COLLECTIVES:
        text = nearest(name, form.COLLECTIVES) if isinstance(name, str) else wrong(name, "a text")
        raise InputError(f"{form.COLLECTIVE} {shown(name)}: {text}", where=where)
    meaning = form.COLLECTIVES[name]
    dtype = args.get(form.DTYPE)
    if not isinstance(dtype, str) or dtype not in form.DTYPES:
        text = nearest(dtype, form.DTYPES) if isinstance(dtype, str) else wrong(dtype, "a text")
        raise InputError(f"{form.DTYPE} of {name}: {shown(dtype)}; {text}", where=where)
    key = form.OUT_ELEMENTS if meaning in ("all_gather", "recv") else form.IN_ELEMENTS
    elements = whole(args.get(key), f"{key} of {name}", where)
    group = str(args.get(form.GROUP_NAME, ""))
    ranks = _ranks(args, groups, group, name, where, num_ranks)
    return GroupCall(
        meaning=meaning,
        name=name,
        dtype=dtype,
        num_bytes=max(elements, name in form.LIKE) * form.DTYPES[dtype],
        group=group,
        ranks=ranks,
        peer=_peer(args, meaning, ranks, rank, where),
        sequence=whole(args[form.SEQUENCE], form.SEQUENCE, where) if form.SEQUENCE in args else None,
        own=_own(args, where),
    )


def _ranks(
    args: Mapping[str, Any],
    groups: Mapping[str, tuple[int, ...]],
    group: str,
    name: str,
    where: str,
    num_ranks: int,
) -> tuple[int, ...]:
    """The ranks of a call's group: of its own list, or, where that is cut short, all, or of the trace's list."""
    size = whole(args.get(form.GROUP_SIZE), f"{form.GROUP_SIZE} of {name}", where)
    ranks = ranks_of(args.get(form.GROUP_RANKS), where)
    if ranks is None or len(ranks) != size:
        ranks = tuple(range(size)) if size == num_ranks else groups.get(group)
    if ranks is None or len(ranks) != size:
        raise InputError(
            f"{name}: of its group ({form.GROUP_NAME} {shown(group)}, {size:,} ranks) not all ranks are in the trace: "
            "PyTorch cuts long lists short; allowed: all of them, there or in distributedInfo.pg_config",
            where=where,
        )
    return ranks


def ranks_of(value: Any, where: str) -> tuple[int, ...] | None:
    """Ranks of a list, or of its text `[0, 1, 2]`; None where they are cut short or not there."""
    if isinstance(value, str):
        parts = value.strip().removeprefix("[").removesuffix("]").split(",") if value.strip() not in ("", "[]") else []
        value = [part.strip() for part in parts]
        if "..." in "".join(value[-2:]):
            return None
    if not isinstance(value, list) or not value:
        return None
    ranks = tuple(whole(each, form.GROUP_RANKS, where) for each in value)
    if len(set(ranks)) != len(ranks):
        raise InputError(f"{form.GROUP_RANKS}: a rank twice; allowed: every rank once", where=where)
    return ranks


def _peer(args: Mapping[str, Any], meaning: form.Meaning, ranks: tuple[int, ...], rank: int, where: str) -> int | None:
    """The other rank of a message, by its number in the job."""
    if meaning not in ("send", "recv"):
        return None
    own = _own(args, where)
    if "ends" in own:
        first, second = (ranks[end] for end in ends_of(own, len(ranks), where))
        return second if rank == first else first
    key = form.TARGET_RANK if meaning == "send" else form.SOURCE_RANK
    if key not in args:
        raise InputError(
            f"{meaning}: no {key}; allowed: traces of PyTorch that say whom a message goes to", where=where
        )
    peer = whole(args[key], key, where)
    if peer in ranks:
        return peer
    raise InputError(f"{key} of {meaning}: got {peer}; allowed: a rank of its group", where=where)


def ends_of(own: Mapping[str, Any], size: int, where: str) -> tuple[int, int]:
    """Between which members of a group of that size a simulated message goes."""
    ends = own.get("ends")
    if not isinstance(ends, list) or len(ends) != 2 or ends[0] == ends[1]:
        raise InputError(f"{form.OWN}.ends: {wrong(ends, 'two different numbers')}", where=where)
    first, second = whole(ends[0], "ends", where), whole(ends[1], "ends", where)
    if max(first, second) >= size:
        raise InputError(f"{form.OWN}.ends: {wrong(ends, f'numbers below {size}, as the group has')}", where=where)
    return first, second


def _own(args: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    own = args.get(form.OWN, {})
    if not isinstance(own, dict):
        raise InputError(f"{form.OWN}: {wrong(own, 'an object')}", where=where)
    return own


def refuse_nested(own: Any, where: str) -> Any:
    """What a simulation wrote; raises InputError where it holds more than plain values and lists of numbers."""
    if not isinstance(own, dict):
        return own
    for key, value in own.items():
        is_list = isinstance(value, list) and len(value) <= MOST_TENSORS
        if isinstance(value, dict) or (isinstance(value, list) and not (is_list and all(map(_is_whole, value)))):
            raise InputError(f"{form.OWN}.{key}: {wrong(value, 'a value, or a list of whole numbers')}", where=where)
    return own


def _is_whole(value: Any) -> bool:
    return isinstance(value, int)


def own_numbers(args: Mapping[str, Any], where: str) -> Mapping[str, float]:
    """What a simulation wrote of a kernel: seconds, bytes, seconds of arithmetic."""
    own = _own(args, where)
    if not own:
        return {}
    out = {}
    for key, most in _MOST_OWN.items():
        value = own.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
            raise InputError(f"{form.OWN}.{key}: {wrong(value, f'0 to {most:g}')}", where=where)
        out[key] = float(value)
    if out["bytes"] and not out["seconds"] >= _LEAST_OWN_S:
        text = wrong(out["seconds"], f"at least {_LEAST_OWN_S:g}, as it moves bytes")
        raise InputError(f"{form.OWN}.seconds: {text}", where=where)
    return out


def refuse_many(kernels: Sized, where: str) -> None:
    """Raise InputError where there are none, or too many."""
    if not len(kernels):
        raise InputError("no kernel, and no collective of the host, in this step", where=where)
    if fault := KINETO_OPS.fault(len(kernels)):
        raise InputError(fault, where=where)
