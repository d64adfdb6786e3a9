"""The messages of the schema, against bytes worked by hand and against what protoc makes of the definition."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from simfrontier_extras.chakra.nodes import attribute_bytes, framed, head_bytes, length_bytes
from simfrontier_extras.chakra.schema import NodeType, file_descriptor, message_class
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


def test_an_attribute_that_is_false_is_there() -> None:
    """ASTRA-sim asks whether an attribute is there, and a oneof says so of values that are 0, too."""
    assert attribute_bytes((("is_cpu_op", "bool_val", False),)).endswith(bytes.fromhex("d8 01 00"))


@pytest.mark.parametrize(("length", "expected"), [(0, "00"), (127, "7f"), (128, "80 01"), (16384, "80 80 01")])
def test_a_length_is_a_varint(length: int, expected: str) -> None:
    assert length_bytes(length).hex(" ") == expected
    assert list(messages(framed(b"a" * length) + framed(b"b"))) == [b"a" * length, b"b"]


def test_protoc_takes_the_definition(tmp_path: Path) -> None:
    """And the code that it generates reads every field back that the extra's own classes wrote."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    described = tmp_path / "chakra.pb"
    described.write_bytes(FileDescriptorSet(file=[file_descriptor()]).SerializeToString())
    compiler = [sys.executable, "-m", "grpc_tools.protoc", f"--descriptor_set_in={described}"]
    subprocess.run([*compiler, f"--python_out={tmp_path}", "simfrontier/chakra.proto"], check=True)
    node = message_class("Node")(id=1, ctrl_deps=[0], start_time_micros=2, inputs={"values": "v", "types": "t"})
    for field in type(node.attr.add()).DESCRIPTOR.oneofs_by_name["value"].fields:
        attribute = node.attr.add(name=field.name, doc_string="d")
        if field.message_type is not None:
            getattr(attribute, field.name).SetInParent()
        else:
            setattr(attribute, field.name, {9: "s", 12: b"b", 8: True}.get(field.type, 1))
    (tmp_path / "node").write_bytes(node.SerializeToString())
    program = (
        "from pathlib import Path\nfrom chakra_pb2 import Node\n"
        "print(Node.FromString(Path('node').read_bytes()), end='')"
    )
    (tmp_path / "chakra_pb2.py").write_bytes((tmp_path / "simfrontier" / "chakra_pb2.py").read_bytes())
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == str(node)
    assert len(node.attr) == 31 and {each.name for each in node.attr} >= {"bytes_list", "sfixed64_list"}
