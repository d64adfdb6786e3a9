"""Variants of a job: on more ranks, with gathers of the backward within nodes, with kernels of another device."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from simfrontier.base.errors import InputError
from simfrontier.core.machine import MeasuredKernel
from simfrontier.core.program import MEASURED, Call, Collective, Mesh, Op, Role, Schedule, Tensor
from simfrontier.inputs.profiler.job import Job
from simfrontier.inputs.profiler.mesh import GroupAxes
from simfrontier.inputs.profiler.platform import Platform


def otherwise(
    job: Job, own: Platform, there: Platform, num_ranks: int | None, hpz: bool, kernel_factor: float | None
) -> tuple[Job, list[str]]:
    """Return the job of the platform `own` moved to the platform `there` (which may be the same), and its changes in
    words: on so many ranks, with hpZ, with kernels that take `kernel_factor` as long (None: by the rates of matrix
    products). Raises InputError."""
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
    """Return the job on so many ranks, a multiple of its own: its outermost axis that is not the stages' is longer.
    Whole messages stay as they are, so that parts of weights and gradients shrink; each rank computes what it did.
    Raises InputError."""
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
    """Return the rank of the job at the same place, along the longer axis modulo its size there."""
    on, out = GroupAxes(grown), 0
    for name, size in mesh.axes:
        place = on.coordinate(name, rank)
        out = out * size + (place % size if name == axis else place)
    return out


def with_gathers_in_nodes(job: Job, devices_per_node: int) -> Job:
    """Return the job with a second copy of its weights in every node, as hpZ of ZeRO++ has it: what its ranks gather in
    the backward they gather within their nodes. Raises InputError where it gathers nothing there, or where nodes are no
    product of the mesh's axes."""
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
    """Return the innermost axes, which together are a node's devices."""
    for first in range(len(mesh.names)):
        names = mesh.names[first:]
        if math.prod(mesh[name] for name in names) == devices_per_node:
            return names
    text = f"nodes of {devices_per_node} devices are no product of the innermost axes of {dict(mesh.axes)}"
    raise InputError(text, where="--hpz")


def _with_ops(schedule: Schedule, changed: Callable[[Op], Op]) -> Schedule:
    """Return the schedule with changed ops in the same places; an op of several roles is changed once."""
    ops = [changed(op) for op in schedule.ops]

    def with_its_ops(call: Call) -> Call:
        return Call(call.label, call.layer, call.micro, tuple(ops[op.number] for op in call.ops))

    roles = (Role(role.name, tuple(map(with_its_ops, role.calls)), role.at) for role in schedule.roles)
    return replace(schedule, roles=tuple(roles))


def with_kernels(job: Job, factor: float) -> Job:
    """Return the job with kernels that take `factor` times as long, at the same shares of memory and units; pauses
    stay."""
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
