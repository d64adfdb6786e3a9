"""What coding takes of a device: seconds of arithmetic of an op that encodes or decodes, and of a byte that is coded at
every hop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from simfrontier.base.errors import InputError
from simfrontier.core.codecs import Codec
from simfrontier.core.dtypes import DTYPE_BYTES
from simfrontier.core.machine import Machine
from simfrontier.core.program import Collective, Compute, CopyKind, Mesh, Tensor, kind_of

_WORD_BYTES: Final = 4  # speeds count uncompressed 32-bit values


def coding_s(op: Compute, tensors: Mapping[str, Tensor], mesh: Mesh, machine: Machine) -> float:
    """Seconds of arithmetic of what encodes or decodes on a typical device; 0 for other ops and plain casts.

    Assumed: a codec's kernel keeps all compute units busy, at the same speed for any message that is worth coding.
    """
    kind = kind_of(op)
    if not isinstance(kind, CopyKind) or kind.coding not in ("encodes", "decodes"):
        return 0.0
    encodes = kind.coding == "encodes"
    held = (tensors[ref.name] for ref in (op.writes if encodes else op.reads))
    coded = [(each.codec, each.local_elements(mesh)) for each in held if each.codec is not None]
    return sum([_WORD_BYTES * count * _per_byte_s(codec, encodes, machine) for codec, count in coded])


def _per_byte_s(codec: Codec, encodes: bool, machine: Machine) -> float:
    """Seconds per byte of uncompressed 32-bit values. Raises InputError where the machine does not say."""
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
    """What each byte on the wire takes of the two ranks at its ends: seconds of coding, and bytes of memory."""

    seconds: float
    hbm_bytes: float
    num_gaps: int

    @classmethod
    def of(cls, op: Collective, tensors: Mapping[str, Tensor], mesh: Mesh, machine: Machine) -> PerHopCoding:
        """Of an op that codes every message by itself; nothing for others.

        A rank encodes what it sends and decodes what it gets, one after the other and between transfers: nothing of
        that is assumed to overlap. Both kernels read and write a message once, plain and coded.
        """
        if not op.per_hop:
            return NO_CODING
        plain = tensors[op.src[0].name].dtype
        values = 8.0 / float(op.codec.bits)  # of a byte on the wire
        seconds = _WORD_BYTES * values * (_per_byte_s(op.codec, True, machine) + _per_byte_s(op.codec, False, machine))
        hops = (mesh.size(op.axes) - 1) * (2 if op.kind == "all_reduce" else 1)
        return cls(seconds, 2.0 * (1.0 + DTYPE_BYTES[plain] * values), 2 * hops)

    def added_s(self, volume_bytes: float, machine: Machine) -> float:
        """By how much a call takes longer in which a rank sends so many bytes."""
        return self.num_gaps * machine.device.kernel_gap_s + volume_bytes * self.seconds


NO_CODING: Final = PerHopCoding(0.0, 0.0, 0)
