"""The messages of Chakra's schema, defined from their public field names, numbers and types.

Source: github.com/mlcommons/chakra, schema/protobuf/et_def.proto (proto3, package ChakraProtoMsg), as of commit
6dc63e147b9d115286626cc122459e44d9d08401. Nodes of storage, which came last, are left out: traces of steps have none,
and a reader that does not find a field takes it as empty.
"""

from __future__ import annotations

from enum import IntEnum
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from simfrontier.errors import InputError

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto

PACKAGE: Final = "ChakraProtoMsg"
# Numbers of types in google/protobuf/descriptor.proto (FieldDescriptorProto.Type), in the order in which AttributeProto
# has a value and a list of each.
_SCALARS: Final = {
    "double": 1,
    "float": 2,
    "int32": 5,
    "int64": 3,
    "uint32": 13,
    "uint64": 4,
    "sint32": 17,
    "sint64": 18,
    "fixed32": 7,
    "fixed64": 6,
    "sfixed32": 15,
    "sfixed64": 16,
    "bool": 8,
    "string": 9,
    "bytes": 12,
}
_MESSAGE, _ENUM = 11, 14
_OPTIONAL, _REPEATED = 1, 3


class NodeType(IntEnum):
    """What a node is."""

    INVALID_NODE = 0
    METADATA_NODE = 1
    MEM_LOAD_NODE = 2
    MEM_STORE_NODE = 3
    COMP_NODE = 4
    COMM_SEND_NODE = 5
    COMM_RECV_NODE = 6
    COMM_COLL_NODE = 7


class CollectiveCommType(IntEnum):
    """What a collective does: values of the attribute `comm_type`."""

    ALL_REDUCE = 0
    REDUCE = 1
    ALL_GATHER = 2
    GATHER = 3
    SCATTER = 4
    BROADCAST = 5
    ALL_TO_ALL = 6
    REDUCE_SCATTER = 7
    REDUCE_SCATTER_BLOCK = 8
    BARRIER = 9


def ensure_protobuf() -> None:
    """Raises InputError where the library `protobuf` is not installed."""
    try:
        import google.protobuf  # noqa: F401
    except ImportError:
        raise InputError(
            "--format chakra needs the library protobuf, which is not installed; "
            "allowed: pip install 'simfrontier[chakra]'"
        ) from None


@cache
def message_class(name: str) -> Any:
    """The class of a message of the schema: GlobalMetadata, Node or AttributeProto. The library makes it while the
    program runs, so that no checker of types knows its fields."""
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message_factory import GetMessageClass

    pool = DescriptorPool()  # of its own: another library may have put messages of the same names into the default one
    pool.AddSerializedFile(file_descriptor().SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}"))


def file_descriptor() -> FileDescriptorProto:
    """The schema as the library's own description of a .proto file."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    made = FileDescriptorProto(name="simfrontier/chakra.proto", package=PACKAGE, syntax="proto3")
    _add_attribute(made)
    metadata = made.message_type.add(name="GlobalMetadata")
    _add(metadata, "version", 1, "string")
    _add(metadata, "attr", 2, "AttributeProto", repeated=True)
    for each in (NodeType, CollectiveCommType):
        values = made.enum_type.add(name=each.__name__)
        for member in each:
            values.value.add(name=member.name, number=member.value)
    info = made.message_type.add(name="IOInfo")
    for number, name in enumerate(("values", "shapes", "types"), start=1):
        _add(info, name, number, "string")
    _add_node(made)
    return made


def _add_attribute(file: FileDescriptorProto) -> None:
    """A named value of any type; number 3 is the first type's value, 4 its list, 5 the next type's value, …"""
    attribute = file.message_type.add(name="AttributeProto")
    _add(attribute, "name", 1, "string")
    _add(attribute, "doc_string", 2, "string")
    attribute.oneof_decl.add(name="value")
    for place, scalar in enumerate(_SCALARS):
        several = file.message_type.add(name=f"{scalar.capitalize()}List")
        _add(several, "values", 1, scalar, repeated=True)
        _add(attribute, f"{scalar}_val", 3 + 2 * place, scalar, oneof=True)
        _add(attribute, f"{scalar}_list", 4 + 2 * place, several.name, oneof=True)


def _add_node(file: FileDescriptorProto) -> None:
    node = file.message_type.add(name="Node")
    _add(node, "id", 1, "uint64")
    _add(node, "name", 2, "string")
    node.field.add(name="type", number=3, type=_ENUM, label=_OPTIONAL, type_name=f".{PACKAGE}.NodeType")
    _add(node, "ctrl_deps", 4, "uint64", repeated=True)
    _add(node, "data_deps", 5, "uint64", repeated=True)
    _add(node, "start_time_micros", 6, "uint64")
    _add(node, "duration_micros", 7, "uint64")
    _add(node, "inputs", 8, "IOInfo")
    _add(node, "outputs", 9, "IOInfo")
    _add(node, "attr", 10, "AttributeProto", repeated=True)


def _add(
    message: DescriptorProto, name: str, number: int, kind: str, repeated: bool = False, oneof: bool = False
) -> None:
    """A field whose kind is a scalar's name or a message's."""
    field = message.field.add(name=name, number=number, label=_REPEATED if repeated else _OPTIONAL)
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    else:
        field.type, field.type_name = _MESSAGE, f".{PACKAGE}.{kind}"
    if oneof:
        field.oneof_index = 0
