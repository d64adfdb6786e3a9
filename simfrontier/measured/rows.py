"""Measured rows: calls of collectives, copies between two devices, rates of products and of training, and kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Literal, get_args

from simfrontier.errors import InputError
from simfrontier.measured.place import NOWHERE, RowPlace
from simfrontier.records import dataclass

CallKind = Literal["all_gather", "reduce_scatter", "all_reduce", "all_to_all", "broadcast"]
CALL_KINDS: Final[tuple[CallKind, ...]] = get_args(CallKind)
Benchmark = Literal["osu_bw", "osu_bibw", "osu_latency", "kernel_copy", "sdma_copy"]
BENCHMARKS: Final[tuple[Benchmark, ...]] = get_args(Benchmark)
Unit = Literal["GB/s", "MB/s", "us"]
Form = Literal["calls", "copies", "rates", "kernels"]  # of a table: which kind of rows it holds
KernelKind = Literal["copy", "softmax", "layernorm", "adam", "attention"]
KERNEL_KINDS: Final[tuple[KernelKind, ...]] = get_args(KernelKind)
What = Literal["matmul", "training"]
Quantity = Literal[
    "seconds",
    "flops_per_s",
    "machine_flops_per_s",
    "share_of_peak",
    "scaling_efficiency",
    "speedup_over_zero3",
    "speedup_over_zeropp",
]
QUANTITIES: Final[tuple[Quantity, ...]] = get_args(Quantity)
_BYTES_PER_S: Final = {"GB/s": 1e9, "MB/s": 1e6}  # decimal, as OSU micro-benchmarks print them


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRow:
    """One measured time of a collective.

    `num_bytes` is the whole message: what a rank ends with of an all-gather, what it begins with of a reduce-scatter
    or all-to-all, the vector of an all-reduce or broadcast. `nodes` and `packages` say what the devices are on, None
    where that is not told: then devices fill one node after another. `place` is "FILE line N", for messages.

    `groups`: the devices of one node by groups that make the call at once, in rank order, where the row says them; its
    time is that of the first group, which has rank 0. `read_off`: the number of a library's file that is this row's.
    """

    machine: str
    collective: CallKind
    library: str
    devices: int
    num_bytes: int
    seconds: float
    source: str
    place: RowPlace
    nodes: int | None = None
    packages: int | None = None
    groups: tuple[tuple[int, ...], ...] = ()
    read_off: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyRow:
    """One measured copy from device to device: `value` in `unit`, as the benchmark prints it.

    `path_class` is what the copy crosses ("4 links", "2 links", "1 link", "routed" or words about NICs), `pair` the two
    devices ("" where not told), `scope` "intra-node" or "inter-node".
    """

    machine: str
    path_class: str
    pair: str
    scope: str
    benchmark: Benchmark
    num_bytes: int
    library: str
    value: float
    unit: Unit
    source: str
    place: RowPlace

    @property
    def bytes_per_s(self) -> float:
        """Rate of the copy, bytes/s; of osu_bibw both directions together."""
        return self.num_bytes / (self.value / 1e6) if self.unit == "us" else self.value * _BYTES_PER_S[self.unit]

    @property
    def seconds(self) -> float:
        """Time of one message: the one-way latency, or bytes over rate (osu_bw sends many messages in a row, so that is
        a message's share of their time). osu_bibw counts the bytes of both directions, of which one message is half."""
        if self.unit == "us":
            return self.value / 1e6
        return (2 if self.benchmark == "osu_bibw" else 1) * self.num_bytes / self.bytes_per_s


@dataclass(frozen=True, slots=True, kw_only=True)
class RateRow:
    """One measured or published rate: of a matrix product m × n × k on one device, or of a training run.

    `value` is a `quantity`: seconds or flops_per_s (of one device), machine_flops_per_s (of all devices), or a pure
    number. `statistic` says which of several measurements (median, best, p01 …), `status` how well it is known
    (measured, paper, secondary, inferred). Sizes and `devices` are None where they were not published.
    """

    machine: str
    what: What
    quantity: Quantity
    value: float
    statistic: str
    status: str
    source: str
    place: RowPlace
    m: int | None = None
    n: int | None = None
    k: int | None = None
    dtype: str = ""
    model: str = ""
    plan: str = ""
    devices: int | None = None

    @property
    def flops(self) -> int | None:
        """Operations of the matrix product, 2 m n k; None where its shape is not known."""
        if self.m is None or self.n is None or self.k is None:
            return None
        return 2 * self.m * self.n * self.k

    @property
    def flops_per_s(self) -> float | None:
        """Rate of one device; None where the row says something else (a share of a peak, a ratio)."""
        match self.quantity:
            case "flops_per_s":
                return self.value
            case "machine_flops_per_s":
                return None if self.devices is None else self.value / self.devices
            case "seconds":
                return None if self.flops is None else self.flops / self.value
            case _:
                return None

    @property
    def seconds(self) -> float | None:
        """Time of the matrix product; None for training, and where the shape is not known."""
        if self.quantity == "seconds":
            return self.value
        return None if self.flops is None or self.flops_per_s is None else self.flops / self.flops_per_s


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelRow:
    """One measured time of a kernel without matrix products, or of fused attention, on one device.

    `shape` is that of its operand, for people (2048x6144). `num_bytes` is what it reads and writes at least, each
    operand once; `flops` are those of attention's products, forward and backward together (None: no products).
    """

    machine: str
    kernel: KernelKind
    dtype: str
    shape: str
    num_bytes: int
    seconds: float
    statistic: str
    status: str
    source: str
    place: RowPlace
    flops: int | None = None


def kind_of(spelling: str) -> CallKind | None:
    """The kind of call that a file writes as `all_gather`, `allgather`, `All-Gather`, `bcast` …; None if it is none."""
    letters = "".join(letter for letter in spelling.lower() if letter not in "_- ")
    if letters == "bcast":
        return "broadcast"
    return next((kind for kind in CALL_KINDS if kind.replace("_", "") == letters), None)


def refuse_repeats(rows: Sequence[CallRow | CopyRow | RateRow | KernelRow]) -> None:
    """Raise InputError where a row says the same as one before it; measuring a point again gives another value."""
    seen: dict[CallRow | CopyRow | RateRow | KernelRow, RowPlace] = {}
    for row in rows:
        first = seen.setdefault(replace(row, place=NOWHERE), row.place)
        if first != row.place:
            raise InputError(
                f"{row.place}: the same row as line {first.line}, allowed: every measurement once "
                "(several of one point differ in value or source)"
            )
