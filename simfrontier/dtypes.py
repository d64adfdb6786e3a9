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
    "moments": 8,  # Adam's two of one element, in fp32
    "moments64": 16,  # and in fp64
}
FLOATS: Final = ("fp64", "fp32", "fp16", "bf16")
INTEGERS: Final = ("int64", "uint8")  # sent as they are
