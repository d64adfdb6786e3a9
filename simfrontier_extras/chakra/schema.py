"""The messages of Chakra's schema, defined from their public field names, numbers and types.

Source: github.com/mlcommons/chakra, schema/protobuf/et_def.proto (proto3, package ChakraProtoMsg), as of commit
6dc63e147b9d115286626cc122459e44d9d08401. Fields that traces of steps do not have are left out: a reader that does not
find a field takes it as empty.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from simfrontier.base.errors import InputError

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto

PACKAGE: Final = "ChakraProtoMsg"
# A message's fields: name, number, type (as FieldDescriptorProto names it, or the schema's own), and if it is a list.
Fields = tuple[tuple[str, int, str, bool], ...]
METADATA: Final[Fields] = (("version", 1, "STRING", False), ("attr", 2, "AttributeProto", True))
NODE: Final[Fields] = (
    ("id", 1, "UINT64", False),
    ("name", 2, "STRING", False),
    ("type", 3, "NodeType", False),
    ("data_deps", 5, "UINT64", True),
    ("duration_micros", 7, "UINT64", False),
    ("attr", 10, "AttributeProto", True),
)
# The values of an attribute, of which it has one.
VALUES: Final[Fields] = (
    ("double_val", 3, "DOUBLE", False),
    ("int32_val", 7, "INT32", False),
    ("int64_val", 9, "INT64", False),
    ("uint64_val", 13, "UINT64", False),
    ("bool_val", 27, "BOOL", False),
    ("string_val", 29, "STRING", False),
)


class NodeType(IntEnum):
    """The type of a node."""

    INVALID_NODE = 0
    COMP_NODE = 4
    COMM_SEND_NODE = 5
    COMM_RECV_NODE = 6
    COMM_COLL_NODE = 7


def ensure_protobuf() -> None:
    """Raise InputError where the library `protobuf` is not installed."""
    try:
        import google.protobuf  # noqa: F401
    except ImportError:
        raise InputError(
            "--format chakra needs the library protobuf, which is not installed; "
            "allowed: pip install 'simfrontier[chakra]'"
        ) from None


@cache
def message_class(name: str) -> Any:
    """Return the class of a message of the schema: GlobalMetadata, Node or AttributeProto. protobuf creates the class
    at run time, so that type checkers do not know its fields."""
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message_factory import GetMessageClass

    pool = DescriptorPool()  # of its own: another library may have put messages of the same names into the default one
    pool.AddSerializedFile(_file().SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}"))


def _file() -> FileDescriptorProto:
    """Return the schema as protobuf's description of a .proto file."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    file = FileDescriptorProto(name="simfrontier/chakra.proto", package=PACKAGE, syntax="proto3")
    types = file.enum_type.add(name=NodeType.__name__)
    for member in NodeType:
        types.value.add(name=member.name, number=member.value)
    _add(file.message_type.add(name="GlobalMetadata"), METADATA)
    _add(file.message_type.add(name="Node"), NODE)
    attribute = file.message_type.add(name="AttributeProto")
    _add(attribute, (("name", 1, "STRING", False),))
    attribute.oneof_decl.add(name="value")
    _add(attribute, VALUES, oneof_index=0)
    return file


def _add(message: DescriptorProto, fields: Fields, **more: int) -> None:
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field

    for name, number, kind, is_list in fields:
        label = Field.LABEL_REPEATED if is_list else Field.LABEL_OPTIONAL
        if kind.isupper():
            message.field.add(name=name, number=number, label=label, type=Field.Type.Value(f"TYPE_{kind}"), **more)
        else:
            own = Field.TYPE_ENUM if kind == NodeType.__name__ else Field.TYPE_MESSAGE
            message.field.add(name=name, number=number, label=label, type=own, type_name=f".{PACKAGE}.{kind}", **more)


# ── bytes ──

Value = bool | int | float | str
Attribute = tuple[str, str, Value]  # name, field, value


def head_bytes(number: int, name: str, kind: NodeType, waits_for: list[int], micros: int) -> bytes:
    """Return the bytes of a node's fields other than attributes. `waits_for`: numbers of the nodes that must end before
    this node begins."""
    node = message_class("Node")(id=number, name=name, type=int(kind), data_deps=waits_for, duration_micros=micros)
    out: bytes = node.SerializeToString(deterministic=True)
    return out


def attribute_bytes(attributes: Iterable[Attribute]) -> bytes:
    """Return attributes of a node as bytes. The concatenated bytes of several messages are one message with all their
    fields."""
    node = message_class("Node")()
    for name, field, value in attributes:
        setattr(node.attr.add(name=name), field, value)
    out: bytes = node.SerializeToString(deterministic=True)
    return out


def framed(message: bytes) -> bytes:
    """Return a message preceded by its length as a varint, the framing of messages in a file (mlcommons/chakra,
    src/third_party/utils/protolib.py)."""
    return length_bytes(len(message)) + message


def length_bytes(length: int) -> bytes:
    """Return a number below 2^32 as a varint: seven bits per byte, the lowest first; the top bit says that more bytes
    follow."""
    out = bytearray()
    while length > 0x7F:
        out.append(0x80 | (length & 0x7F))
        length >>= 7
    out.append(length)
    return bytes(out)
