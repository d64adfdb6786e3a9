"""Rows of measurements: times of collectives, copies between two devices, rates of matrix products and of training, and
kernel times.

The type annotations define the allowed cells of a table; an alias gives the column's name where it differs from the
field's name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, Literal, get_args

from annotated_types import Ge
from pydantic import Field

from simfrontier.base.errors import InputError, unknown, wrong
from simfrontier.base.io import Parsed, Positive, Text
from simfrontier.core.machine import machine_named

CallKind = Literal["all_gather", "reduce_scatter", "all_reduce", "all_to_all", "broadcast"]
CALL_KINDS: Final[tuple[CallKind, ...]] = get_args(CallKind)
Benchmark = Literal["osu_bw", "osu_bibw", "osu_latency", "kernel_copy", "sdma_copy"]
Unit = Literal["GB/s", "MB/s", "us"]
Form = Literal["calls", "copies", "rates", "kernels", "classes"]  # of a table: which kind of rows it holds
KernelClass = Literal["compute", "all_gather", "reduce_scatter", "all_reduce", "other", "step"]
KernelKind = Literal["copy", "softmax", "layernorm", "adam", "attention"]
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
Status = Literal["measured", "paper", "secondary", "inferred"]
Groups = tuple[tuple[int, ...], ...]
_BYTES_PER_S: Final = {"GB/s": 1e9, "MB/s": 1e6}  # decimal, as OSU micro-benchmarks print them


@dataclass(frozen=True, slots=True)
class RowPlace:
    """Place of a row for messages: a line of a file (counted from 1), or a named `part` of a file that is not a
    table."""

    file: str
    line: int | None = None
    part: str = ""

    def __str__(self) -> str:
        """`FILE line N` or `FILE PART`."""
        if self.line is not None:
            return f"{self.file} line {self.line}"
        return f"{self.file} {self.part}".rstrip()

    @property
    def first(self) -> str:
        """Text that names the place of the first row in a message that counts rows; empty if the row has no line."""
        return "" if self.line is None else f", the first in line {self.line}"


def kind_of(spelling: str) -> CallKind | None:
    """Return the kind of a collective from its name, spelt `all_gather`, `allgather`, `All-Gather`, `bcast` …; None if
    unknown."""
    letters = "".join(letter for letter in spelling.lower() if letter not in "_- ")
    if letters == "bcast":
        return "broadcast"
    return next((kind for kind in CALL_KINDS if kind.replace("_", "") == letters), None)


def _call_kind(cell: str) -> CallKind:
    kind = kind_of(cell)
    if kind is None:
        raise InputError(unknown(cell, CALL_KINDS))
    return kind


def _machine(cell: str) -> str:
    """Return the cell's text: the name of a machine, or the path of a machine's file, which is read to validate it."""
    if cell.endswith(".toml"):
        machine_named(cell)
    return cell


def _groups(cell: str) -> Groups:
    """Parse groups of devices, separated by spaces, with `-` between the devices of a group: `0-2 1-3`."""
    try:
        groups = tuple(tuple(map(int, group.split("-"))) for group in cell.split())
    except ValueError:
        raise InputError(wrong(cell, "devices, e.g. 0-2 1-3")) from None
    devices = [device for group in groups for device in group]
    if len(set(map(len, groups))) > 1 or len(set(devices)) < len(devices):
        raise InputError(wrong(cell, "groups of one size, every device once"))
    return groups


MachineName = Annotated[str, Parsed(_machine)]
Count = Annotated[int, Ge(1)]
NumBytes = Annotated[int, Ge(1), Field(validation_alias="bytes")]
Seconds = Annotated[Positive, Field(validation_alias="time_s")]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRow:
    """One measured time of a collective.

    `num_bytes` is the size of the whole message: the output of a rank for an all-gather, the input of a rank for a
    reduce-scatter or all-to-all, the vector of an all-reduce or broadcast. `nodes` and `packages` are the numbers of
    nodes and packages that the devices occupy, None if unknown: then devices fill one node after another. `groups`, if
    the row has them, are the groups of devices of one node that make the call at the same time, each in rank order; the
    time is that of the first group, which contains rank 0. `read_off` is the key of the number in a library's file that
    was set from this row.
    """

    machine: MachineName
    collective: Annotated[CallKind, Parsed(_call_kind)]
    library: Text
    devices: Annotated[int, Ge(2)]
    num_bytes: NumBytes
    seconds: Seconds
    source: str
    place: RowPlace
    nodes: Count | None = None
    packages: Count | None = None
    groups: Annotated[Groups, Parsed(_groups)] = ()
    read_off: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyRow:
    """One measured copy from device to device: `value` in `unit`, as the benchmark prints it. `path_class` describes
    the path of the copy ("4 links", "2 links", "1 link", "routed", or a text about NICs), `pair` names the two devices
    ("" if unknown), `scope` is "intra-node" or "inter-node"."""

    machine: MachineName
    path_class: Text
    pair: Annotated[str, Field(validation_alias="gcd_pair")] = ""
    scope: Literal["intra-node", "inter-node"]
    benchmark: Benchmark
    num_bytes: NumBytes
    library: Text
    value: Positive
    unit: Unit
    source: Text
    place: RowPlace

    @property
    def bytes_per_s(self) -> float:
        """Rate of the copy in bytes/s; for osu_bibw, the sum of both directions."""
        return self.num_bytes / (self.value / 1e6) if self.unit == "us" else self.value * _BYTES_PER_S[self.unit]

    @property
    def seconds(self) -> float:
        """Time of one message in seconds: the one-way latency, or bytes divided by rate (osu_bw sends many messages in
        a row, so the result is one message's share of their time). osu_bibw counts the bytes of both directions, of
        which one message is half."""
        if self.unit == "us":
            return self.value / 1e6
        return (2 if self.benchmark == "osu_bibw" else 1) * self.num_bytes / self.bytes_per_s


@dataclass(frozen=True, slots=True, kw_only=True)
class RateRow:
    """One measured or published rate: of a matrix product m × n × k on one device, or of a training run.

    `value` is in the unit that `quantity` names: seconds or flops_per_s (of one device), machine_flops_per_s (of all
    devices), or a pure number. `statistic` says which of several measurements the value is (median, best, p01 …),
    `status` how well it is known (measured, paper, secondary, inferred). Sizes and `devices` are None if they were not
    published.
    """

    machine: MachineName
    what: What
    quantity: Quantity
    value: Positive
    statistic: Text
    status: Status
    source: Text
    place: RowPlace
    m: Count | None = None
    n: Count | None = None
    k: Count | None = None
    dtype: str = ""
    model: str = ""
    plan: str = ""
    devices: Count | None = None

    @property
    def flops(self) -> int | None:
        """Floating-point operations of the matrix product, 2 m n k; None if its shape is not known."""
        if self.m is None or self.n is None or self.k is None:
            return None
        return 2 * self.m * self.n * self.k

    @property
    def flops_per_s(self) -> float | None:
        """Rate of one device in FLOP/s; None for rows of other quantities (a share of a peak, a ratio)."""
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
        """Time of the matrix product in seconds; None for training runs, and if the shape is not known."""
        if self.quantity == "seconds":
            return self.value
        return None if self.flops is None or self.flops_per_s is None else self.flops / self.flops_per_s


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelRow:
    """One measured time, on one device, of a kernel without matrix products, or of fused attention.

    `shape` is the operand's shape as text for readers (2048x6144). `num_bytes` is the smallest number of bytes that the
    kernel reads and writes, each operand once; `flops` are the floating-point operations of the attention's matrix
    products, forward and backward together (None for other kernels).
    """

    machine: MachineName
    kernel: KernelKind
    dtype: Text
    shape: Text
    num_bytes: NumBytes
    seconds: Seconds
    statistic: Text
    status: Status
    source: Text
    place: RowPlace
    flops: Count | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassRow:
    """Time that one class of kernels takes in a training step, on the average device, median of `runs` runs of which
    the fastest and the slowest took `low_s` and `high_s`.

    `step` names a scenario in the folder `steps` beside the tables, which describes the job. `kernels`: matrix products
    and attention ("compute"), one kind of collective, all other kernels, or the whole step by the program's own clock.
    Collectives include waiting for their last rank. `read_off` is the key of the number in a library's file that was
    set from this row.
    """

    machine: MachineName
    step: Text
    kernels: KernelClass
    seconds: Seconds
    low_s: Positive
    high_s: Positive
    runs: Count
    source: Text
    place: RowPlace
    read_off: str = ""


Row = CallRow | CopyRow | RateRow | KernelRow | ClassRow
