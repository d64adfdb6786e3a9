"""Measurement of this machine for a calibration: collectives by kind, group and size, and the compute rates of the
ranks."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simfrontier.base.errors import InputError
from simfrontier.core.codecs import Plain
from simfrontier.core.collectives import Calibration, CallTable, MeasuredPoint, write_calibration
from simfrontier.core.program import (
    REPLICATE,
    Call,
    Collective,
    CollectiveKind,
    Compute,
    Mesh,
    Op,
    Ref,
    Role,
    Schedule,
    Tensor,
)
from simfrontier_real.ops.arrays import Array
from simfrontier_real.ops.op_runner import LaneStep, OpRunner
from simfrontier_real.ops.programs import programs_of
from simfrontier_real.ranks.session import Session
from simfrontier_real.replay.record import RankTimes, aligned
from simfrontier_real.replay.timed import THROUGH_HOST, timed_steps

KINDS: tuple[CollectiveKind, ...] = ("all_gather", "reduce_scatter", "all_reduce", "all_to_all")
NUM_COPIES = 10
PRODUCT_FLOPS = 2e9  # of each probe of matrix products, over all repetitions
NUM_IDLE = 100  # ops that do nothing, to time what an op costs by itself
LANE = "compute"


@dataclass(frozen=True, slots=True)
class LocalWork:
    """Local work to be timed on a rank: edge lengths of square matrix products, and the size in bytes of a copy, which
    exceeds the caches."""

    edges: tuple[int, ...]
    copy_bytes: int


ON_HOST = LocalWork((64, 128, 256, 512, 768), 16 << 20)
ON_DEVICE = LocalWork((512, 1024, 2048, 4096, 8192), 512 << 20)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureSettings:
    """Settings of a measurement: message sizes in bytes, repetitions, devices per package (for the shape of groups),
    number type."""

    sizes: tuple[int, ...]
    iterations: int = 10
    warmup: int = 2
    devices_per_package: int = 1
    precision: str = "fp32"


@dataclass(frozen=True, slots=True)
class TimedOp:
    """One timed op: a collective over `axes` with a message of `size` bytes; or local work: a square matrix product of
    edge `size`, a copy of `size` bytes, or an idle op, for which `size` is only a number to tell ops apart."""

    kind: str
    axes: tuple[str, ...]
    size: int


def measure(session: Session, settings: MeasureSettings, out: Path, when: str, how: str) -> Calibration | None:
    """Measure twice and write the calibration on rank 0; the second measurement gives the residuals. Return the
    calibration on rank 0, None elsewhere."""
    mesh = mesh_of(session)
    work = ON_HOST if session.world.device == "cpu" else ON_DEVICE
    probes = _probes(mesh, settings, work)
    session.transport.prepare(_schedule(mesh, probes))
    first = _pass(session, mesh, probes, settings, "first pass")
    second = _pass(session, mesh, probes, settings, "second pass")
    if first is None or second is None:
        return None
    ranks, durations = first
    _, again = second
    calls = tuple(_tables(mesh, probes, durations, again, [rank.host for rank in ranks], settings))
    machine = _machine(probes, durations, settings, work)
    hosts = sorted({rank.host for rank in ranks})
    processor = platform.processor() or platform.machine()
    where = f"{len(hosts)} host(s) {', '.join(hosts[:4])}; {processor}, {os.cpu_count()} cores"
    calibration = Calibration(
        title=_title(session, mesh),
        where=where,
        when=when,
        how=how,
        machine=machine,
        calls=calls,
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    write_calibration(calibration, out)
    return calibration


def _title(session: Session, mesh: Mesh) -> str:
    device = f", buffers on {session.world.device}, {THROUGH_HOST}" if session.world.goes_through_host else ""
    return f"{session.world.backend} on {mesh.num_ranks} ranks{device}"


def mesh_of(session: Session) -> Mesh:
    """Return a mesh with one axis for the hosts, and one axis for each prime factor of the number of ranks per host."""
    hosts = session.world.all_gather(session.host)
    names = list(dict.fromkeys(hosts))
    per_host = len(hosts) // len(names)
    if [hosts[rank] for rank in range(len(hosts))] != [name for name in names for _ in range(per_host)]:
        raise InputError("measure: ranks lie unevenly on the hosts; allowed: equally many on each, host after host")
    axes = [("host", len(names))]
    axes += [(f"part{number}", factor) for number, factor in enumerate(_factors(per_host))]
    return Mesh(tuple(axes))


def _factors(number: int) -> list[int]:
    out, factor = [], 2
    while number > 1:
        while number % factor == 0:
            out.append(factor)
            number //= factor
        factor += 1
    return out


def _probes(mesh: Mesh, settings: MeasureSettings, work: LocalWork) -> list[TimedOp]:
    """Return the timed ops: each kind of collective over the ranks of a host (growing groups of neighbours), over all
    ranks, and over the hosts alone; and the local work."""
    live = mesh.live(mesh.names)
    inside = [axis for axis in live if axis != "host"]
    groups = [tuple(inside[start:]) for start in range(len(inside) - 1, -1, -1)]
    if "host" in live:
        groups += [("host",), live]
    out: list[TimedOp] = []
    for axes in dict.fromkeys(groups):
        members = mesh.size(axes)
        sizes = dict.fromkeys(
            _piece(size, members) * members * 4 for size in settings.sizes
        )  # small ones may become equal
        out += [TimedOp(kind, axes, size) for kind in KINDS for size in sizes]
    out += [TimedOp("idle", (), number) for number in range(NUM_IDLE)]
    out += [TimedOp("matmul", (), edge) for edge in work.edges]
    return [*out, TimedOp("copy", (), work.copy_bytes)]


def _schedule(mesh: Mesh, probes: list[TimedOp]) -> Schedule:
    """Return a schedule that runs the timed ops one after the other on one lane."""
    tensor = Tensor(name="probe", shape=(1,), dtype="fp32", role="scalar", placement=REPLICATE, persistent=True)
    ops: list[Op] = []
    for probe in probes:
        if probe.axes:
            ops.append(
                Collective(
                    kind=probe.kind,  # type: ignore[arg-type]
                    name="probe",
                    axes=probe.axes,
                    src=(Ref("probe"),),
                    dst=(Ref("probe"),),
                    codec=Plain("fp32"),
                    lane=LANE,
                    comm="+".join(probe.axes),
                )
            )
        else:
            ops.append(Compute(kind=probe.kind, name=probe.kind, lane=LANE))
    call = Call("probes", 0, 0, tuple(ops))
    return Schedule(mesh=mesh, tensors={"probe": tensor}, roles=(Role("all", (call,)),), pools={}, meta={})


@dataclass
class TimedOpRunner(OpRunner):
    """Runs the timed ops: messages of zeros, and matrix products and copies on scratch memory."""

    messages: list[Array | None]
    local: list[Callable[[], object]]

    def run(self, index: int, ready_s: float) -> None:
        self.local[index]()

    def outgoing(self, index: int) -> tuple[Array, ...]:
        return (self.messages[index],)

    def read_by(self, index: int) -> list[Array]:
        message = self.messages[index]
        return [] if message is None else [message]


def _op_runner(session: Session, mesh: Mesh, probes: list[TimedOp], precision: str) -> TimedOpRunner:
    backend = session.backend
    xp = backend.xp
    largest = max((probe.size for probe in probes if probe.axes), default=0)
    memory = backend.zeros((largest // 4,), "fp32")  # all messages lie in it
    messages: list[Array | None] = []
    local: list[Callable[[], object]] = []
    for probe in probes:
        message: Array | None = None
        run = _repeated(len, 0)
        if probe.axes:
            members = mesh.size(probe.axes)
            piece = _piece(probe.size, members)
            shapes = {"all_gather": (piece,), "all_reduce": (piece * members,)}
            shape = shapes.get(probe.kind, (members, piece))
            message = xp.reshape(memory[: math.prod(shape)], shape)
        elif probe.kind == "matmul":
            square = backend.zeros((probe.size, probe.size), precision)
            run = _repeated(xp.matmul, _times(probe.size), square, square)
        elif probe.kind == "copy":
            run = _repeated(partial(xp.asarray, copy=True), NUM_COPIES, backend.zeros((probe.size,), "uint8"))
        messages.append(message)
        local.append(run)
    return TimedOpRunner(messages, local)


def _piece(size: int, members: int) -> int:
    """Return the number of FP32 elements per rank in a message of `size` bytes."""
    return max(1, size // 4 // members)


def _repeated(function: Callable[..., object], times: int, *arguments: Any) -> Callable[[], object]:
    """Return a function that calls `function` the given number of times."""

    def run() -> None:
        for _ in range(times):
            function(*arguments)

    return run


def _times(edge: int) -> int:
    """Return the number of repetitions of a matrix product of edge `edge`, large enough that ranks on a shared core
    compete for it."""
    return max(1, round(PRODUCT_FLOPS / (2 * edge**3)))


def _pass(
    session: Session, mesh: Mesh, probes: list[TimedOp], settings: MeasureSettings, title: str
) -> tuple[list[RankTimes], NDArray[Any]] | None:
    """Time all ops repeatedly; return (times of the ranks, seconds [ranks, iterations, timed ops]) on rank 0, None
    elsewhere."""
    schedule = _schedule(mesh, probes)
    programs = programs_of(schedule)
    step = LaneStep(
        programs.of(session.world.rank),
        mesh,
        _op_runner(session, mesh, probes, settings.precision),
        session.transport,
    )
    what = f"measuring {len(probes)} probes, {title}"
    ranks, _ = timed_steps(session, step, settings.iterations, what, settings.warmup)
    if ranks is None:
        return None
    return ranks, np.stack([end - start for _, start, end in aligned(schedule, programs, ranks)])


def _tables(
    mesh: Mesh,
    probes: list[TimedOp],
    durations: NDArray[Any],
    again: NDArray[Any],
    hosts: list[str],
    settings: MeasureSettings,
) -> list[CallTable]:
    groups: dict[tuple[str, tuple[str, ...]], list[int]] = {}
    for index, probe in enumerate(probes):
        if probe.axes:
            groups.setdefault((probe.kind, probe.axes), []).append(index)
    out = []
    for (kind, axes), indices in groups.items():
        members = mesh.groups(axes)[0].tolist()
        points, residuals = [], []
        for index in indices:
            low, middle, high = np.percentile(durations[:, :, index], [25, 50, 75])
            points.append(
                MeasuredPoint(bytes=probes[index].size, seconds=_short(middle), spread=_short((high - low) / middle))
            )
            residuals.append(abs(float(np.median(again[:, :, index])) / float(middle) - 1.0))
        out.append(
            CallTable(
                kind=kind,  # type: ignore[arg-type]
                ranks=len(members),
                nodes=len({hosts[member] for member in members}),
                packages=len({member // settings.devices_per_package for member in members}),
                points=tuple(points),
                residual=_short(float(np.median(residuals))),
            )
        )
    return out


def _machine(
    probes: list[TimedOp], durations: NDArray[Any], settings: MeasureSettings, work: LocalWork
) -> dict[str, float]:
    """Return the parameters for the machine file: overhead of an op, memory bandwidth, and rate of matrix products.

    The rate is fitted as R x / (x + x0), with R and x0 from least squares on 1/rate = 1/R + (x0/R) / x.
    """
    median = {
        (probe.kind, probe.size): float(np.median(durations[:, :, index]))
        for index, probe in enumerate(probes)
        if not probe.axes
    }
    gap = float(np.median([seconds for (what, _), seconds in median.items() if what == "idle"]))
    copied = NUM_COPIES * 2 * work.copy_bytes / (median["copy", work.copy_bytes] - gap)
    edges = np.array(work.edges, float)
    per_flop = np.array([max(median["matmul", edge] - gap, 1e-9) / (_times(edge) * 2 * edge**3) for edge in work.edges])
    slope, constant = np.polyfit(1 / edges, per_flop, 1, w=1 / per_flop)
    if constant <= 0:  # the largest products are still getting faster: take the last as the limit
        constant, slope = float(per_flop.min()), 0.0
    rate, half = 1 / constant, max(0.0, slope / constant)
    products = "device" if settings.precision in ("fp16", "bf16") else f"device.{settings.precision}"
    return {
        "device.hbm_bytes_per_s": _short(copied),
        "device.hbm_share": 1.0,  # the rate above is what a copy achieves
        "device.kernel_gap_s": _short(gap),
        "host.hook_s": _short(gap),
        f"{products}.peak_flops_per_s": _short(rate),  # no higher rate is known of this machine
        f"{products}.matmul_flops_per_s": _short(rate),
        f"{products}.matmul_half_edge": _short(half),
    }


def _short(value: float) -> float:
    """Round to four significant digits; more would be noise."""
    return float(f"{value:.4g}") if math.isfinite(value) else 0.0
