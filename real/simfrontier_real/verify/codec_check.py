"""Comparison of the actual losses of a schedule's codecs with their definitions (simfrontier/core/codecs), before
training.

The bounds of training follow from the same definitions, but allow for the growth of errors within a model; a codec that
rounds down would stay within them.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt

from simfrontier.base.errors import InputError, SimfrontierError
from simfrontier.core.codecs import Codec
from simfrontier.core.dtypes import FLOATS
from simfrontier.core.program import Compute, ExpandedProgram, Schedule
from simfrontier_real.ops.arrays import Backend, torch_backend
from simfrontier_real.ops.codecs import decode, encode
from simfrontier_real.train.states import model_dtype

Numbers = npt.NDArray[np.float64]  # [elements]

_ELEMENTS: Final = 4096
_MAGNITUDES: Final = (1.0, 2.0**-4, 2.0**13)  # of normal numbers: within the normal range of fp16
_LARGEST: Final = 2.0**124  # beside them, of what shares fp32 scales or exponents
_LEAST: Final = 2.0**-8  # of a normal number, so that none is below the normal range of fp16
_ROUNDING: Final = (
    1e-3  # beyond a bound, over it: int8 has two roundings of fp32, torch rounds fp64 to fp16 by way of fp32
)
_SPREAD: Final = 1.125  # allowed ratio of measured to documented loss: zfp at 28 bits per value has 1.06


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentedLoss:
    """Documented loss of a codec for some numbers: bounds of their errors, the root mean square of the errors, and the
    limit of their mean."""

    bounds: Numbers
    typical: float
    mean: float


def check_codecs(backend: Backend, schedule: Schedule, program: ExpandedProgram) -> None:
    """Raise SimfrontierError if a codec of the schedule loses more on this backend than its definition allows."""
    own = model_dtype(schedule)
    used = {op.codec for op in program.ops if not isinstance(op, Compute)}
    used |= {tensor.codec for tensor in schedule.tensors.values() if tensor.codec is not None}
    for codec in sorted(used, key=str):
        if codec.is_opaque or (codec.name in FLOATS and codec.name != own):
            check_codec(backend, codec)


def check_codec(backend: Backend, codec: Codec) -> None:
    """Compare the loss of encoding normally distributed numbers of several magnitudes with the codec's definition: the
    error of each number, the root mean square error, and the mean error, both plain and multiplied by the sign of the
    number (not zero if all numbers shrink). Raises SimfrontierError."""
    if codec.name == "bf16" and not backend.is_torch:  # numpy has no bfloat16
        backend = torch_backend()
    dtype = _type_for(codec)
    for magnitude in (*_MAGNITUDES, *([_LARGEST] if dtype == "fp32" else [])):
        values = backend.array(magnitude * _normal()[None], dtype)
        encoded = encode(backend, values, codec)
        back = decode(backend, encoded, codec, _ELEMENTS, dtype)
        numbers, decoded = (np.asarray(backend.numpy(each), dtype=np.float64)[0] for each in (values, back))
        _compare(codec, magnitude, numbers, decoded - numbers)


def noise_of(codec: Codec) -> float:
    """Return the loss of encoding normally distributed numbers by the codec's definition: the length of the error
    relative to the length of the numbers."""
    return _documented(codec, 1.0).typical / _root_mean_square(_normal())


def _compare(codec: Codec, magnitude: float, numbers: Numbers, errors: Numbers) -> None:
    """Raise SimfrontierError if errors exceed the limits in the codec's definition."""
    documented = _documented(codec, magnitude)
    loss = _root_mean_square(errors)
    mean = max(float(errors.mean()), float((errors * np.sign(numbers)).mean()), key=abs)
    is_within = bool((np.abs(errors) <= documented.bounds * (1.0 + _ROUNDING)).all())
    if is_within and loss <= _SPREAD * documented.typical and abs(mean) <= documented.mean:
        return
    beyond = float((np.abs(errors) / np.maximum(documented.bounds, np.finfo(np.float64).tiny)).max())
    length = _root_mean_square(numbers)
    seen, said, most = loss / length, documented.typical / length, documented.mean / length
    raise SimfrontierError(
        f"codec {codec}: loses {seen:.2e} of normal numbers (mean error {mean / length:.1e}, largest {beyond:.2f} of "
        f"the bound); documented: {said:.2e} (mean error up to {most:.1e}, all within the bound)"
    )


@cache
def _documented(codec: Codec, magnitude: float) -> DocumentedLoss:
    numbers = np.abs(magnitude * _normal())
    starts = np.arange(0, _ELEMENTS, codec.group)
    peaks = np.maximum.reduceat(numbers, starts)
    sizes = np.diff([*starts, _ELEMENTS])
    bounds, typical = (
        np.repeat([of(peak) for peak in peaks.tolist()], sizes) for of in (codec.error_bound, codec.typical_error)
    )
    rms = _root_mean_square(typical)
    return DocumentedLoss(bounds=bounds, typical=rms, mean=codec.bias * rms)


@cache
def _normal() -> Numbers:
    """Return normally distributed fp32 numbers from a fixed seed, none closer to zero than `_LEAST`."""
    numbers = np.random.default_rng(0).normal(size=_ELEMENTS).astype(np.float32).astype(np.float64)
    return np.copysign(np.maximum(np.abs(numbers), _LEAST), numbers)


def _type_for(codec: Codec) -> str:
    """Return a number type that the codec accepts and whose values it does not preserve exactly; for plain codecs, the
    widest type."""
    if not codec.is_opaque:
        return "fp64"
    for dtype in ("fp32", *FLOATS):
        with suppress(InputError):
            codec.on(dtype)
            return dtype
    raise AssertionError(f"codec {codec} takes no numbers")


def _root_mean_square(numbers: Numbers) -> float:
    largest = float(np.abs(numbers).max())  # squares of large numbers overflow
    return largest * float(np.sqrt(np.mean((numbers / largest) ** 2))) if largest else 0.0
