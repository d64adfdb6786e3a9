"""Common parts of the codecs: encoded pieces, the bytes of arrays of either library, refusal of non-finite numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch

from simfrontier.base.errors import SimfrontierError
from simfrontier.core.codecs import Codec
from simfrontier_real.ops.arrays import Array, Backend

Octets = npt.NDArray[np.uint8]  # [pieces, bytes], on the host

_NAMES: Final = {"float64": "fp64", "float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}


@dataclass(frozen=True, slots=True)
class Encoded:
    """Encoded pieces of equal length, as they are sent: [pieces, payload] and, if the codec has scales, [pieces,
    scales]."""

    data: Array
    scales: Array | None

    @property
    def parts(self) -> tuple[Array, ...]:
        return (self.data,) if self.scales is None else (self.data, self.scales)


def type_of(values: Array) -> str:
    """Return the schedule's name of an array's data type; for types that no codec takes, the library's own name."""
    name = str(values.dtype).rpartition(".")[2]
    return _NAMES.get(name, name)


def to_bytes(backend: Backend, encoded: Encoded) -> list[Array]:
    """Return the bytes in which encoded pieces are sent, one array for each part (payload, scales)."""
    return [backend.as_bytes(part) for part in encoded.parts]


def from_bytes(backend: Backend, line: Array, codec: Codec, count: int) -> Encoded:
    """Return one encoded piece of `count` elements from the bytes in which it was sent."""
    if not codec.is_opaque:
        return Encoded(backend.xp.reshape(backend.from_bytes(line, codec.name), (1, -1)), None)
    if not codec.is_quantised:
        return Encoded(backend.xp.reshape(line, (1, -1)), None)
    data, scales = line[: codec.payload_bytes(count)], line[codec.payload_bytes(count) :]
    scales = backend.xp.reshape(backend.from_bytes(scales, "fp32"), (1, -1))
    return Encoded(backend.xp.reshape(data, (1, -1)), scales)


def octets(values: Array) -> Octets:
    """Return the bytes of [pieces, elements] in memory order; for an array on a device, a copy on the host."""
    if hasattr(values, "detach"):
        values = values.detach().cpu().contiguous().view(torch.uint8).numpy()
    return np.ascontiguousarray(values).view(np.uint8)


def from_octets(backend: Backend, raw: Octets, dtype: str) -> Array:
    """Return bytes on the host as an array [pieces, elements] of type `dtype` on the backend's device."""
    raw = np.ascontiguousarray(raw)
    if backend.is_torch:
        return torch.from_numpy(raw).view(backend.dtype(dtype)).to(backend.device)
    return raw.view(backend.dtype(dtype))


def refuse_not_finite(backend: Backend, values: Array, codec: Codec) -> None:
    """Raise SimfrontierError if the array [pieces, elements], of either library, has non-finite numbers. The array must
    not be empty."""
    held = backend.numpy(values) if hasattr(values, "detach") else values
    bad: Any = np.flatnonzero(~np.isfinite(held))
    piece, element = divmod(int(bad[0]), int(values.shape[1]))
    total = int(values.shape[0]) * int(values.shape[1])
    raise SimfrontierError(
        f"codec {codec}: {len(bad)} of {total} numbers are not finite in fp32, the first at index {element} of piece "
        f"{piece}; allowed: finite numbers (any bits, without loss: mpc or plain numbers)"
    )
