"""Array backends: numpy for the loopback transport, torch for real devices; the kernels are written once for both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

Array = Any  # a numpy array or a torch tensor; the array API standard has no type for "either"

_DTYPES: Final = {
    "fp64": "float64",
    "fp32": "float32",
    "fp16": "float16",
    "bf16": "bfloat16",
    "int64": "int64",
    "moments": "float32",
    "moments64": "float64",
    "moments_bf16": "bfloat16",
    "uint8": "uint8",
}


@dataclass(frozen=True, slots=True)
class Backend:
    """An array library and the device on which its arrays are stored (None: the library's default device)."""

    xp: Any
    device: Any = None

    def dtype(self, name: str) -> Any:
        """Return the library's data type for a type name of the schedule (`fp32`, `moments` …)."""
        return getattr(self.xp, _DTYPES[name])

    def zeros(self, shape: tuple[int, ...], dtype: str) -> Array:
        return self.xp.zeros(shape, dtype=self.dtype(dtype), device=self.device)

    def empty(self, shape: tuple[int, ...], dtype: str) -> Array:
        return self.xp.empty(shape, dtype=self.dtype(dtype), device=self.device)

    def array(self, values: Array, dtype: str) -> Array:
        """Return a numpy array as an array of this library on this device."""
        return self.xp.astype(self.xp.asarray(values, device=self.device), self.dtype(dtype))

    def cast(self, values: Array, dtype: str) -> Array:
        return self.xp.astype(values, self.dtype(dtype), copy=False)

    def wide(self, values: Array) -> Array:
        """Return 16-bit numbers as float32, the type in which sums and exponentials are computed; return other types
        unchanged."""
        return self.xp.astype(values, self.xp.float32) if values.dtype.itemsize == 2 else values

    def concat(self, parts: list[Array], axis: int = 0) -> Array:
        return parts[0] if len(parts) == 1 else self.xp.concat(parts, axis=axis)

    def as_bytes(self, values: Array) -> Array:
        """Return the bytes of an array as a flat uint8 array, which shares the memory of a contiguous array."""
        flat = self.xp.reshape(values, (-1,))
        return flat.contiguous().view(self.xp.uint8) if self.is_torch else flat.view(self.xp.uint8)

    def from_bytes(self, line: Array, dtype: str) -> Array:
        """Return the array that `as_bytes` converted to these bytes."""
        if self.is_torch:
            return line.clone().view(self.dtype(dtype))  # of its own, because a part may begin anywhere
        return line.copy().view(self.dtype(dtype))

    def scatter_rows(self, num_rows: int, index: Array, rows: Array) -> Array:
        """Return [num_rows, columns]: the sums of the rows with equal index. The standard functions of numpy and torch
        do not include this operation."""
        if self.is_torch:
            out = self.xp.zeros((num_rows, rows.shape[-1]), dtype=rows.dtype, device=self.device)
            return out.index_add_(0, index, rows)
        import numpy as np

        out = np.zeros((num_rows, rows.shape[-1]), dtype=rows.dtype)
        np.add.at(out, index, rows)
        return out

    def numpy(self, values: Array) -> Any:
        """Return the values as a numpy array with at least 32 bits per number."""
        import numpy as np

        values = self.wide(values)
        return np.asarray(values.detach().cpu() if self.is_torch else values)

    @property
    def is_torch(self) -> bool:
        return "torch" in str(self.xp.__name__)


def numpy_backend() -> Backend:
    """Return the backend for numpy arrays."""
    import array_api_compat.numpy as xp

    return Backend(xp)


def torch_backend(device: str = "cpu") -> Backend:
    """Return the backend for torch tensors on one device."""
    import array_api_compat.torch as xp
    import torch

    return Backend(xp, torch.device(device))


def blank_like(values: Array, count: int) -> Array:
    """Return an uninitialised flat array of `count` elements of the type of `values`."""
    if hasattr(values, "new_empty"):
        return values.new_empty(count)
    import numpy as np

    return np.empty(count, dtype=values.dtype)
