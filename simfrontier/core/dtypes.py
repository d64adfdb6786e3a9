"""Types of numbers and how many bytes one takes."""

from typing import Final

DTYPE_BYTES: Final = {
    "fp64": 8,
    "fp32": 4,
    "fp16": 2,
    "bf16": 2,
    "int64": 8,
    "uint8": 1,
    "token": 0,
    "moments": 8,  # an optimizer's two of one element, in fp32
    "moments64": 16,  # in fp64
    "moments_bf16": 4,  # and in bf16
}
FLOATS: Final = ("fp64", "fp32", "fp16", "bf16")
MOMENTS: Final = {"fp64": "moments64", "fp32": "moments", "bf16": "moments_bf16"}  # of two


def num_moments(dtype: str) -> int:
    """Return how many moments an optimizer keeps of an element, by the type of its states: two, or one of a plain
    type."""
    return 2 if dtype in MOMENTS.values() else 1


INTEGERS: Final = ("int64", "uint8")  # sent as they are
