"""What a kernel takes: seconds of arithmetic, its roofline time, and its work on every class of ranks."""

from __future__ import annotations

from simfrontier.cost.coding import coding_s
from simfrontier.cost.folded import FoldedCluster
from simfrontier.cost.work import LOCAL, NO_WORK, STILL, OpWork, PricedOp
from simfrontier.machine import Machine
from simfrontier.schedule import (
    Compute,
    MeasuredKind,
    ModelKind,
    Schedule,
    WaitKind,
    is_work,
    kind_of,
    matmul_dtype,
    matmul_form,
    matmul_shape,
    traffic_bytes,
)


def compute_s(op: Compute, schedule: Schedule, machine: Machine, speed: float = 1.0) -> float:
    """Roofline time of local work on a device of that relative speed; of a measured kernel the time that it took."""
    traffic = _moved_bytes(op, schedule, machine)
    if isinstance(kind_of(op), WaitKind) or traffic == 0.0:
        return waiting_s(op, machine, speed)
    return _kernel_s(op, machine, arithmetic_s(op, schedule, machine), traffic, speed)


def _kernel_s(op: Compute, machine: Machine, math_s: float, traffic: float, speed: float) -> float:
    """Time of a kernel that does so much arithmetic and moves so many bytes; of a measured one what it took."""
    if isinstance(kind_of(op), MeasuredKind):
        return machine.kernels.measured[op.name].seconds / speed
    return machine.device.kernel_s(math_s, traffic, speed)


def waiting_s(op: Compute, machine: Machine, speed: float = 1.0) -> float:
    """Time of an op that moves nothing: the host's of a hook (a stream's wait for another takes none), that of a
    measured kernel of which no more is known, on a device of that speed, of a pause, or the gap before a kernel."""
    kind = kind_of(op)
    if isinstance(kind, WaitKind):
        return machine.host.hook_s if op.lane == "host" else 0.0
    if isinstance(kind, MeasuredKind):
        return machine.kernels.measured[op.name].seconds / (1.0 if kind.is_pause else speed)
    return machine.device.kernel_gap_s


def arithmetic_s(op: Compute, schedule: Schedule, machine: Machine) -> float:
    """Seconds of arithmetic on a typical device: of a matrix product by the machine's law, of coding by its codecs."""
    if isinstance(kind_of(op), MeasuredKind):
        return machine.kernels.measured[op.name].arithmetic_s
    if op.matmul is None:
        return coding_s(op, schedule.tensors, schedule.mesh, machine)
    batch, m, n, k = matmul_shape(op, schedule.mesh)
    kind = kind_of(op)
    if isinstance(kind, ModelKind) and kind.products and machine.kernels.attention is not None:
        return op.local_flops(schedule.mesh) / machine.kernels.attention
    form = matmul_form(op, schedule.tensors)
    own = matmul_dtype(op, schedule.tensors)
    matmul = machine.matmul(own if form is None else machine.kernels.linear or own)
    factor = machine.device.matmul_forms.factor(form)
    return op.local_flops(schedule.mesh) / (matmul.rate(m, n, k, batch) * factor)


def _moved_bytes(op: Compute, schedule: Schedule, machine: Machine) -> float:
    """Bytes through memory: of the model's kernels without products, as many more as the stack's are less fused."""
    if isinstance(kind_of(op), MeasuredKind):
        return machine.kernels.measured[op.name].num_bytes
    traffic = float(traffic_bytes(op, schedule.tensors, schedule.mesh))
    is_pointwise = op.matmul is None and is_work(op)
    return traffic * machine.kernels.traffic(op.kind) if is_pointwise else traffic


def kernel_parts(op: Compute, schedule: Schedule, machine: Machine) -> tuple[float, float]:
    """(bytes through memory, seconds of arithmetic on a typical device) of local work; zeros of what only waits."""
    if isinstance(kind_of(op), WaitKind):
        return 0.0, 0.0
    num_bytes = _moved_bytes(op, schedule, machine)
    return num_bytes, arithmetic_s(op, schedule, machine) if num_bytes else 0.0


def priced_compute(cluster: FoldedCluster, op: Compute) -> PricedOp:
    """A kernel: its memory traffic, capped so that alone it takes its roofline time on a device of that speed."""
    num_units = cluster.machine.device.num_compute_units
    traffic = _moved_bytes(op, cluster.schedule, cluster.machine)
    speeds = cluster.fabric.speed[cluster.folding.representative]
    if isinstance(kind_of(op), WaitKind) or traffic == 0.0:
        each: list[float] = speeds.tolist()
        waits = {
            speed: OpWork(waiting_s(op, cluster.machine, speed), 0.0, 1.0, -1) if speed else STILL
            for speed in set(each)
        }
        return PricedOp(LOCAL, tuple([waits[speed] for speed in each]))
    math_s = arithmetic_s(op, cluster.schedule, cluster.machine)
    works = []
    for cls, (speed, has_part) in enumerate(zip(speeds.tolist(), cluster.has_part(op).tolist(), strict=True)):
        if not has_part:
            works.append(NO_WORK)
            continue
        if not speed:
            works.append(cluster.still(LOCAL, cls, traffic))
            continue
        alone = traffic / _kernel_s(op, cluster.machine, math_s, traffic, speed)
        units = math_s / speed * num_units / traffic
        column = cluster.column(LOCAL, cls)
        load = column.hbm + column.units * units
        works.append(OpWork(0.0, traffic, alone, cluster.intern((cls, alone, units), column.rows, load, alone)))
    return PricedOp(LOCAL, tuple(works))
