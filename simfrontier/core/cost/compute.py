"""Prices of kernels: roofline times on a device, and the arithmetic of codecs (compression of messages)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from simfrontier.base.errors import InputError
from simfrontier.core.codecs import Codec
from simfrontier.core.dtypes import DTYPE_BYTES
from simfrontier.core.machine import Machine, NarrowType
from simfrontier.core.program import (
    HOST,
    HYBRIDEP,
    NEWTON_SCHULZ_STEPS,
    Collective,
    Compute,
    CopyKind,
    MeasuredKind,
    Mesh,
    ModelKind,
    OrthogonalKind,
    Schedule,
    Tensor,
    WaitKind,
    is_grouped,
    is_work,
    kind_of,
    matmul_dtype,
    matmul_form,
    matmul_shape,
    traffic_bytes,
)

SCORED: Final = "g"  # the label of experts that a router scores
_WORD_BYTES: Final = 4  # speeds count uncompressed 32-bit values
STREAM: Final = ("b", "s", "h")  # dimensions of the residual stream


def coding_s(op: Compute, tensors: Mapping[str, Tensor], mesh: Mesh, machine: Machine) -> float:
    """Return the seconds of arithmetic of an op that encodes or decodes messages, on a nominal device; 0 for other ops
    and for plain casts.

    Assumed: a codec's kernel keeps all compute units busy, at the same speed for any message that is large enough to be
    compressed.
    """
    kind = kind_of(op)
    if not isinstance(kind, CopyKind) or kind.coding not in ("encodes", "decodes"):
        return 0.0
    encodes = kind.coding == "encodes"
    held = (tensors[ref.name] for ref in (op.writes if encodes else op.reads))
    coded = [(each.codec, each.local_elements(mesh)) for each in held if each.codec is not None]
    return sum([_WORD_BYTES * count * _per_byte_s(codec, encodes, machine) for codec, count in coded])


def _per_byte_s(codec: Codec, encodes: bool, machine: Machine) -> float:
    """Return the seconds that a codec's kernel takes per byte of uncompressed 32-bit values. Raises InputError if the
    machine file gives no speeds for the codec."""
    if not codec.is_opaque:
        return 0.0
    speeds = machine.device.codecs.get(codec.name)
    if speeds is None and codec.is_free:
        return 0.0
    if speeds is None:
        known = ", ".join(machine.device.codecs) or "none"
        raise InputError(
            f"machine {machine.name} has no speeds of the codec {codec.name} (device.codecs.{codec.name}); known: "
            f"{known}; allowed: encode_bytes_per_s and decode_bytes_per_s in the machine's file or in machine.overrides"
        )
    return 1.0 / (speeds.encode_bytes_per_s if encodes else speeds.decode_bytes_per_s)


@dataclass(frozen=True, slots=True)
class PerHopCoding:
    """Cost of encoding and decoding every message of a collective, summed over the two ranks between which a message is
    sent, per byte on the wire: seconds, and bytes of memory traffic; `num_gaps`: kernel gaps per call."""

    seconds: float
    hbm_bytes: float
    num_gaps: int

    @classmethod
    def of(cls, op: Collective, tensors: Mapping[str, Tensor], mesh: Mesh, machine: Machine) -> PerHopCoding:
        """Return the coding cost of an op that encodes every message separately; NO_CODING for other ops.

        A rank encodes what it sends and decodes what it receives, sequentially and between transfers: no overlap is
        assumed. Both kernels read and write each message once, in its plain and in its encoded form.
        """
        if not op.per_hop:
            return NO_CODING
        plain = tensors[op.src[0].name].dtype
        values = 8.0 / float(op.codec.bits)  # per byte on the wire
        seconds = _WORD_BYTES * values * (_per_byte_s(op.codec, True, machine) + _per_byte_s(op.codec, False, machine))
        hops = (mesh.size(op.axes) - 1) * (2 if op.kind == "all_reduce" else 1)
        return cls(seconds, 2.0 * (1.0 + DTYPE_BYTES[plain] * values), 2 * hops)

    def added_s(self, volume_bytes: float, machine: Machine) -> float:
        """Return the seconds that coding adds to a call in which a rank sends `volume_bytes`."""
        return self.num_gaps * machine.device.kernel_gap_s + volume_bytes * self.seconds


NO_CODING: Final = PerHopCoding(0.0, 0.0, 0)


class Kernel(NamedTuple):
    """Local work on a device: bytes of memory traffic and seconds of arithmetic on a nominal device (both 0 for an op
    without memory traffic), and the kernel's roofline time in two parts: seconds that are the same on any device
    (`fixed_s`), and seconds that scale inversely with the device's speed (`paced_s`)."""

    num_bytes: float
    arithmetic_s: float
    fixed_s: float
    paced_s: float

    @classmethod
    def of(cls, op: Compute, schedule: Schedule, machine: Machine) -> Kernel:
        """Return the kernel of an op. Its time is, for a hook, the host's time (a stream's wait for another stream
        takes none); for a measured kernel or a pause, the measured time; for an op without memory traffic, the gap
        before a kernel."""
        kind = kind_of(op)
        if isinstance(kind, WaitKind):
            host_s = getattr(machine.host, kind.host) if kind.host is not None and op.lane == HOST else 0.0
            return cls(0.0, 0.0, host_s, 0.0)
        if isinstance(kind, MeasuredKind):
            known = machine.kernels.measured[op.name]
            fixed_s = known.seconds if kind.is_pause and not known.num_bytes else 0.0
            math_s = known.arithmetic_s if known.num_bytes else 0.0
            return cls(known.num_bytes, math_s, fixed_s, known.seconds - fixed_s)
        num_bytes = _moved_bytes(op, schedule, machine)
        if not num_bytes:
            return cls(0.0, 0.0, machine.device.kernel_gap_s, 0.0)
        if isinstance(kind, CopyKind) and kind.over_host:
            return cls(num_bytes, 0.0, machine.device.kernel_gap_s + num_bytes / _host_rate(machine), 0.0)
        math_s = _arithmetic_s(op, schedule, machine)
        paced_s = machine.device.roofline_s(math_s, num_bytes) + _beside_s(op, schedule, machine)
        return cls(num_bytes, math_s, _num_kernels(op, schedule, machine) * machine.device.kernel_gap_s, paced_s)

    def seconds(self, speed: float) -> float:
        """Return the kernel's time on a device whose speed relative to a nominal device is `speed`."""
        return self.fixed_s + self.paced_s / speed


def _host_rate(machine: Machine) -> float:
    """Return the bytes per second of a copy to or from the host's memory. Raises InputError if the machine file gives
    none."""
    if not machine.host.copy_bytes_per_s:
        raise InputError(f"machine {machine.name} has no rate of copies to the host's memory: host.copy_bytes_per_s")
    return machine.host.copy_bytes_per_s


def _num_kernels(op: Compute, schedule: Schedule, machine: Machine) -> int:
    """Return the number of kernels of an op: one, or one for each expert; of Newton-Schulz iterations, three each."""
    each = 3 * NEWTON_SCHULZ_STEPS if isinstance(kind_of(op), OrthogonalKind) else 1
    if machine.kernels.experts in ("one", "torch") or not is_grouped(op, schedule.tensors):
        return each
    return each * matmul_shape(op, schedule.tensors, schedule.mesh)[0]


def least_kernel_s(op: Compute, schedule: Schedule, machine: Machine, speed: float) -> float:
    """Return a lower bound of the time of a model kernel on devices of relative speed `speed` and slower, for any
    placement of the weights by a plan: the kernel's time with only the memory traffic of its activations."""
    held = (schedule.tensors[ref.name] for ref in (*op.reads, *op.writes))
    parts = ((tensor, 1 if op.piece is None else op.piece.share_of(tensor)) for tensor in held)
    traffic = sum(tensor.local_bytes(schedule.mesh) // share for tensor, share in parts if tensor.role == "activation")
    if op.kind == "lookup":
        traffic = sum(schedule.tensors[ref.name].local_bytes(schedule.mesh) for ref in op.writes)
    return machine.device.kernel_s(_arithmetic_s(op, schedule, machine), float(traffic), speed)


def _arithmetic_s(op: Compute, schedule: Schedule, machine: Machine) -> float:
    """Return the seconds of arithmetic of an op on a nominal device: for a matrix product by the machine's law, for
    encoding and decoding by the codecs' speeds."""
    if op.matmul is None:
        coding = coding_s(op, schedule.tensors, schedule.mesh, machine)
        return coding + _masks_s(op, schedule, machine) if op.kind in ("dispatch", "combine") else coding
    batch, m, n, k = matmul_shape(op, schedule.tensors, schedule.mesh)
    kind = kind_of(op)
    if isinstance(kind, ModelKind) and kind.products and machine.kernels.attention is not None:
        keys = op.local_flops(schedule.mesh) / (2.0 * batch * m * k * sum(kind.products[len(op.writes)]))
        return op.local_flops(schedule.mesh) / (machine.kernels.attention * machine.kernels.attention_share(keys, k))
    experts = machine.kernels.experts if is_grouped(op, schedule.tensors) else ""
    batch = 1 if experts == "loop" else batch
    form = matmul_form(op, schedule.tensors)
    multiplied = _narrow(op, schedule, machine) or matmul_dtype(op, schedule.tensors)
    matmul = machine.matmul(multiplied)
    factor = machine.device.matmul_forms.factor(form) / machine.kernels.products.get(multiplied, 1.0)
    factor *= machine.device.grouped if experts == "torch" and DTYPE_BYTES.get(multiplied) == 2 else 1.0
    by_chance = bool(experts) and op.named.part != "wgrad"  # which sums over the rows that a router sends to an expert
    return op.local_flops(schedule.mesh) / (matmul.rate(m, n, k, batch, by_chance) * factor)


def _masks_s(op: Compute, schedule: Schedule, machine: Machine) -> float:
    """Return the seconds on a nominal device of the matrix products that dispatch or combine experts' rows, in stacks
    that do so by masks of positions and rows: those of a sample times all its positions. A combination's backward has
    a second one, for the gradient of its mask, which holds the router's weights."""
    if not machine.kernels.masks:
        return 0.0
    plain = next(tensor for ref in (*op.reads, *op.writes) if (tensor := schedule.tensors[ref.name]).dims == STREAM)
    sizes, positions = op.local_sizes(schedule.mesh), plain.shape[1]
    rows, features, samples = sizes["E"] * sizes["s"], sizes["h"], sizes["b"]
    times = 2 if op.kind == "combine" and op.named.part == "backward" else 1
    rate = machine.matmul(plain.dtype).rate(rows, features, positions, samples)
    return times * 2.0 * samples * rows * features * positions / rate


def _narrow(op: Compute, schedule: Schedule, machine: Machine) -> NarrowType | None:
    """Return the narrow number type in which an op multiplies: products of linear modules in the layers, if the model
    has such a type; None for other ops, also those of the output head, of adapters and of routers (which
    Megatron-Core and DeepSeek-V3, arXiv 2412.19437, section 3.3.1, keep in more bits)."""
    if any(label == SCORED for label, _ in op.iteration):
        return None
    in_layers = matmul_form(op, schedule.tensors) is not None and schedule.tensors[op.reads[0].name].per_layer
    which = "experts" if is_grouped(op, schedule.tensors) else "modules"
    is_narrow = in_layers and machine.kernels.narrow in ("all", which) and not _is_of_adapter(op, schedule)
    return machine.kernels.linear if is_narrow else None


def _is_of_adapter(op: Compute, schedule: Schedule) -> bool:
    """Return whether an op multiplies by a trained weight of a model that has frozen ones, or makes its gradient."""
    if "lora_rank" not in schedule.meta:
        return False
    held = (schedule.tensors[ref.name] for ref in (*op.reads, *op.writes, *op.accumulates))
    return not any(schedule.tensors[tensor.weight].is_frozen for tensor in held if tensor.weight is not None)


def _beside_s(op: Compute, schedule: Schedule, machine: Machine) -> float:
    """Return the seconds on a nominal device of kernels that a stack launches beside a matrix product."""
    return _cast_s(op, schedule, machine) + _sum_s(op, schedule, machine)


def _sum_s(op: Compute, schedule: Schedule, machine: Machine) -> float:
    """Return the seconds on a nominal device of adding the gradients that a matrix product has made to their sums of
    another type by kernels of their own, in stacks whose products do not add to the sums themselves."""
    if op.matmul is None or not machine.kernels.sum_bytes:
        return 0.0
    own = matmul_dtype(op, schedule.tensors)
    made = (schedule.tensors[ref.name] for ref in (*op.writes, *op.accumulates))
    sums = (tensor for tensor in made if tensor.role in ("accumulator", "gradient") and tensor.dtype != own)
    elements = sum(tensor.local_elements(schedule.mesh) for tensor in sums)
    num_bytes = machine.kernels.sum_bytes.get(own, 0.0)
    return machine.device.roofline_s(0.0, elements * num_bytes)


def _cast_s(op: Compute, schedule: Schedule, machine: Machine) -> float:
    """Return the seconds on a nominal device of casting to the narrow type of a linear module's products: its input
    before the forward, the gradient of its output before the gradient of its input, each in both layouts at once, so
    that the product for the gradient of the weights finds its operands. Casts of weights, once per step, take none."""
    if op.matmul is None or (narrow := _narrow(op, schedule, machine)) is None:
        return 0.0
    if matmul_form(op, schedule.tensors) == "nt":
        return 0.0
    batch, m, _, k = matmul_shape(op, schedule.tensors, schedule.mesh)
    return machine.device.roofline_s(0.0, batch * m * k * machine.kernels.cast_bytes.get(narrow, 0.0))


def _moved_bytes(op: Compute, schedule: Schedule, machine: Machine) -> float:
    """Return the memory traffic of an op in bytes. For the model's kernels without matrix products, and for other ops
    that the software stack names (the optimizer), the traffic is scaled up if the stack fuses fewer kernels."""
    traffic = float(traffic_bytes(op, schedule.tensors, schedule.mesh))
    is_pointwise = op.matmul is None and (is_work(op) or op.kind in machine.kernels.traffic_of)
    fused = traffic * machine.kernels.traffic(op.kind) if is_pointwise else traffic
    return fused + _padding_bytes(op, schedule, machine)


def _padding_bytes(op: Compute, schedule: Schedule, machine: Machine) -> float:
    """Return the memory traffic of one more copy of experts' rows, beside the one that dispatches or combines them:
    that into or out of padded blocks, in stacks that make it. HybridEP's kernels pad the rows themselves."""
    kernels = machine.kernels
    if op.kind not in ("dispatch", "combine") or not kernels.pads_rows:
        return 0.0
    if kernels.linear is None or kernels.narrow == "modules":
        return 0.0
    if any(isinstance(other, Collective) and other.via == HYBRIDEP for other in schedule.ops):
        return 0.0
    return 2.0 * max(schedule.tensors[ref.name].local_bytes(schedule.mesh) for ref in (*op.reads, *op.writes))
