"""The messages of the schema, against bytes worked by hand and against what protoc makes of the definition."""

from __future__ import annotations

import pytest

from simfrontier_extras.chakra.schema import NodeType, attribute_bytes, framed, head_bytes, length_bytes
from simfrontier_extras.chakra.tests.traces import messages


def test_a_node_has_the_bytes_of_its_numbers() -> None:
    """A field is its number × 8 + how it is written (0: varint, 1: 8 bytes, 2: length and bytes), then its value.

    id 3: field 1 → 08, 03; name "a": field 2 → 12, 1 byte, 61; type COMP 4: field 3 → 18, 04; data_deps [1, 2]: field
    5, packed → 2a, 2 bytes, 01 02; duration_micros 300 = 2 × 128 + 44: field 7 → 38, ac 02.
    """
    assert head_bytes(3, "a", NodeType.COMP_NODE, [1, 2], 300).hex(" ") == "08 03 12 01 61 18 04 2a 02 01 02 38 ac 02"


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("double_val", 1.0, "19 00 00 00 00 00 00 f0 3f"),  # field 3 → 3 × 8 + 1 = 25 = 19
        ("int32_val", 5, "38 05"),  # field 7 → 56 = 38
        ("int64_val", 7, "48 07"),  # field 9 → 72 = 48
        ("uint64_val", 128, "68 80 01"),  # field 13 → 104 = 68
        ("bool_val", True, "d8 01 01"),  # field 27 → 216 = 1 × 128 + 88
        ("string_val", "1", "ea 01 01 31"),  # field 29 → 234 = 1 × 128 + 106
    ],
)
def test_an_attribute_has_the_bytes_of_its_numbers(field: str, value: bool | int | float | str, expected: str) -> None:
    """attr is field 10 of a node → 10 × 8 + 2 = 82 = 52, its length; its name field 1 → 0a, 1 byte, 78."""
    written = bytes.fromhex(expected)
    assert attribute_bytes((("x", field, value),)) == bytes([0x52, len(written) + 3, 0x0A, 1, 0x78]) + written


@pytest.mark.parametrize(("length", "expected"), [(0, "00"), (127, "7f"), (128, "80 01"), (16384, "80 80 01")])
def test_a_length_is_a_varint(length: int, expected: str) -> None:
    assert length_bytes(length).hex(" ") == expected
    assert list(messages(framed(b"a" * length) + framed(b"b"))) == [b"a" * length, b"b"]
