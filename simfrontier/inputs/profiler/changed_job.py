"""Platforms of traced jobs, and variants of a traced job: on another platform, on more ranks, with the weight gathers
of the backward within nodes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from simfrontier.base.errors import InputError, nearest, shown
from simfrontier.base.io import read_toml
from simfrontier.base.units import written
from simfrontier.core.collectives import Library
from simfrontier.core.cost import Placement
from simfrontier.core.machine import HEALTHY, Machine, MeasuredKernel, Perturbation
from simfrontier.core.program import MEASURED, Call, Collective, Mesh, Op, Role, Schedule, Tensor
from simfrontier.inputs.profiler.job import Job
from simfrontier.inputs.profiler.mesh import GroupAxes
from simfrontier.inputs.profiler.rank_trace import DeviceModel
from simfrontier.inputs.scenario import Scenario, load_scenario, scenario_of

_PRODUCT: Final = re.compile(r"\b[A-Z]{1,2}\d{1,3}[A-Z]?\b")  # A100, GH200, MI250X, L40S; not SXM4, HBM3, 80GB
_SAME_SIZE: Final = 1.25  # 40 GB are recorded as 40e9, 39.4 GiB or 42.3e9 bytes

TABLES: Final = ("machine", "library", "run", "nodes", "perturbation")


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """A machine, its library, the placement of ranks and its degraded components."""

    machine: Machine
    library: Library
    placement: Placement = "block"
    perturbation: Perturbation = HEALTHY


def platform_of(named: str, settings: Mapping[str, Any], option: str) -> Platform:
    """Return the platform with this name: a machine's name, or the path of a machine's file or of a scenario.
    `settings` are dotted keys of a scenario's tables of machine, library, run, nodes and perturbation. Raises
    InputError."""
    for key in settings:
        if (table := key.partition(".")[0]) not in TABLES:
            raise InputError(
                f"{shown(key)}: {nearest(table, TABLES)}, the tables that a job's machine has", where="--set"
            )
    if named.endswith(".toml") and "plans" in read_toml(Path(named), "scenario or machine file"):
        return _of(load_scenario(Path(named), settings))
    document = {
        "name": "job",
        "title": "a job that is read from traces",
        "machine": {"name": named},
        "model": {"name": "tiny"},
        "run": {"devices": [1]},
        "plans": {"ddp": {}},
    }
    return _of(scenario_of(document, option, settings, laid_out=False))


def _of(scenario: Scenario) -> Platform:
    return Platform(
        machine=scenario.machine,
        library=scenario.library,
        placement=scenario.file.run.placement,
        perturbation=scenario.file.perturbation,
    )


def difference(machine: Machine, device: DeviceModel) -> str:
    """Return a description of how the device in a trace differs from the machine's device (product, memory or compute
    units, as far as both are known); empty if they do not differ."""
    products, known = (set(_PRODUCT.findall(text)) for text in (device.name, machine.title))
    if products and known and not products & known:
        return f"{device.name}, not {' or '.join(sorted(known))}"
    own = machine.device
    if device.num_bytes and not 1 / _SAME_SIZE <= device.num_bytes / own.hbm_bytes <= _SAME_SIZE:
        return (
            f"{device.name} with {written(device.num_bytes, 'bytes')} of memory, not {written(own.hbm_bytes, 'bytes')}"
        )
    if device.num_units and device.num_units != own.num_compute_units:
        return f"{device.name} with {device.num_units:,} compute units, not {own.num_compute_units:,}"
    return ""


def otherwise(
    job: Job, own: Platform, there: Platform, num_ranks: int | None, hpz: bool, kernel_factor: float | None
) -> tuple[Job, list[str]]:
    """Return the job of the platform `own` moved to the platform `there` (possibly the same), and a description of the
    changes: the number of ranks `num_ranks`, hpZ, and kernel times scaled by `kernel_factor` (None: by the ratio of the
    rates of matrix products). Raises InputError."""
    words = [] if there is own else [f"on {there.machine.title}, library {there.library.name}"]
    factor = kernel_factor
    if factor is None:
        factor = own.machine.device.matmul_flops_per_s / there.machine.device.matmul_flops_per_s
    if factor != 1.0:
        by = "as given" if kernel_factor is not None else "by the two devices' rates of matrix products"
        words.append(f"kernels take {factor:.3g} times as long ({by})")
        job = with_kernels(job, factor)
    if hpz:
        job = with_gathers_in_nodes(job, there.machine.devices_per_node)
        words.append("with hpZ: gathers of the backward within nodes")
    if num_ranks is not None:
        most = there.machine.num_devices
        if num_ranks > most:
            text = f"got {num_ranks:,}; allowed: up to the {most:,} devices of {there.machine.name}"
            raise InputError(text, where="--ranks")
        job = on_ranks(job, num_ranks)
        words.append(f"on {num_ranks:,} ranks, each with as much work as before")
    return job, words


def on_ranks(job: Job, num_ranks: int) -> Job:
    """Return the job on `num_ranks` ranks, a multiple of its own number: the outermost axis other than that of the
    pipeline stages grows. Whole messages keep their size, so that the shards of weights and gradients shrink; the
    computation of each rank stays the same. Raises InputError."""
    mesh = job.schedule.mesh
    more, rest = divmod(num_ranks, mesh.num_ranks)
    axis = next((name for name in mesh.names if name != job.roles.axis and mesh[name] > 1), None)
    if rest or more < 1:
        text = f"got {num_ranks}; allowed: multiples of the job's {mesh.num_ranks} ranks"
        raise InputError(text, where="--ranks")
    if axis is None:
        text = "got more ranks for a job in which no calls join ranks but stages; allowed: jobs with groups of ranks"
        raise InputError(text, where="--ranks")
    grown = Mesh(tuple((name, size * more if name == axis else size) for name, size in mesh.axes))
    times = {}
    for rank in range(grown.num_ranks if job.times else 0):
        before = _rank_before(grown, mesh, axis, rank)
        if before in job.times:
            times[rank] = job.times[before]
    schedule = replace(job.schedule, mesh=grown)
    return replace(job, schedule=schedule, times=times)


def _rank_before(grown: Mesh, mesh: Mesh, axis: str, rank: int) -> int:
    """Return the rank of the original job that corresponds to a rank of the grown job: the coordinate along the grown
    axis is taken modulo the original size of the axis."""
    on, out = GroupAxes(grown), 0
    for name, size in mesh.axes:
        place = on.coordinate(name, rank)
        out = out * size + (place % size if name == axis else place)
    return out


def with_gathers_in_nodes(job: Job, devices_per_node: int) -> Job:
    """Return the job with a second copy of its weights in every node, as in hpZ of ZeRO++: the weight gathers of the
    backward stay within nodes. Raises InputError if the backward gathers no weights, or if the ranks of a node are not
    the product of some of the mesh's axes."""
    inner = _inner_axes(job.schedule.mesh, devices_per_node)
    found = 0

    def moved(op: Op) -> Op:
        nonlocal found
        if not isinstance(op, Collective) or op.kind != "all_gather" or set(op.axes) <= set(inner):
            return op
        axes = tuple(axis for axis in op.axes if axis in inner)
        if not axes or not all(_is_of_backward(job.schedule.tensors[ref.name]) for ref in op.dst):
            return op
        found += 1
        return replace(op, axes=axes, comm=f"{'+'.join(axes)} {op.lane}")

    schedule = _with_ops(job.schedule, moved)
    if not found:
        text = "no gather of the backward over several nodes; allowed: traces whose calls say autograd's thread"
        raise InputError(text, where="--hpz")
    return replace(job, schedule=schedule)


def _is_of_backward(tensor: Tensor) -> bool:
    return tensor.stage == "backward"


def _inner_axes(mesh: Mesh, devices_per_node: int) -> tuple[str, ...]:
    """Return the innermost axes whose product is the number of devices of a node."""
    for first in range(len(mesh.names)):
        names = mesh.names[first:]
        if math.prod(mesh[name] for name in names) == devices_per_node:
            return names
    text = f"nodes of {devices_per_node} devices are no product of the innermost axes of {dict(mesh.axes)}"
    raise InputError(text, where="--hpz")


def _with_ops(schedule: Schedule, changed: Callable[[Op], Op]) -> Schedule:
    """Return the schedule with the changed ops in place of the original ones; an op that several roles share is changed
    only once."""
    ops = [changed(op) for op in schedule.ops]

    def with_its_ops(call: Call) -> Call:
        return Call(call.label, call.layer, call.micro, tuple(ops[op.number] for op in call.ops))

    roles = (Role(role.name, tuple(map(with_its_ops, role.calls)), role.at) for role in schedule.roles)
    return replace(schedule, roles=tuple(roles))


def with_kernels(job: Job, factor: float) -> Job:
    """Return the job with kernel times scaled by `factor`; the kernels' shares of memory and compute units, and the
    pauses, stay the same."""
    measured = {op.name for op in job.schedule.ops if op.kind == MEASURED.name}
    kernels = {
        name: MeasuredKernel(
            seconds=kernel.seconds * factor,
            num_bytes=kernel.num_bytes * factor,
            arithmetic_s=kernel.arithmetic_s * factor,
        )
        if name in measured
        else kernel
        for name, kernel in job.kernels.items()
    }
    return replace(job, kernels=kernels)
