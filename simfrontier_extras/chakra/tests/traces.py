"""Traces read again by code that protoc generates, and what is wrong with them.

`PROTO` holds the fields that exported traces have, with their numbers as mlcommons/chakra's et_def.proto states them;
it is written by hand, so that the extra's own definition is not checked by itself.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

PROTO: Final = """
syntax = "proto3";
package ChakraRead;
message Attribute {
  string name = 1;
  oneof value {
    double double_val = 3; int32 int32_val = 7; int64 int64_val = 9; uint64 uint64_val = 13; bool bool_val = 27;
    string string_val = 29;
  }
}
message GlobalMetadata { string version = 1; repeated Attribute attr = 2; }
enum NodeType { INVALID = 0; COMP = 4; SEND = 5; RECV = 6; COLL = 7; }
message Node {
  uint64 id = 1; string name = 2; NodeType type = 3; repeated uint64 data_deps = 5; uint64 duration_micros = 7;
  repeated Attribute attr = 10;
}
"""
COMP, SEND, RECV, COLL = 4, 5, 6, 7


@dataclass(slots=True)
class Node:
    """A node as it was read; `attr` by name, `types` the field that each came in."""

    id: int
    name: str
    type: int
    data_deps: list[int]
    duration_micros: int
    attr: dict[str, Any]
    types: dict[str, str]

    @property
    def alone_s(self) -> float:
        return float(self.attr["alone_s"])


@dataclass(slots=True)
class Traces:
    """All traces of a plan, by rank, and the ranks of each group."""

    metadata: dict[int, dict[str, str]]
    nodes: dict[int, list[Node]]
    groups: dict[str, list[int]]


def generated(folder: Path) -> Any:
    """The module that protoc generates of `PROTO`."""
    (folder / "chakra_read.proto").write_text(PROTO, encoding="utf-8")
    compiler = [sys.executable, "-m", "grpc_tools.protoc", f"-I{folder}", f"--python_out={folder}"]
    subprocess.run([*compiler, "chakra_read.proto"], check=True, capture_output=True)
    found = importlib.util.spec_from_file_location("chakra_read_pb2", folder / "chakra_read_pb2.py")
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def messages(content: bytes) -> Iterator[bytes]:
    """The messages of a file, each after its length."""
    at = 0
    while at < len(content):
        length = shift = 0
        while content[at] & 0x80:
            length |= (content[at] & 0x7F) << shift
            at, shift = at + 1, shift + 7
        length |= content[at] << shift
        at += 1
        assert at + length <= len(content), "the last message is cut short"
        yield content[at : at + length]
        at += length


def read(folder: Path, plan: str, code: Any) -> Traces:
    """The traces of a plan in a folder. A message with other fields than those of `PROTO` fails."""
    groups = json.loads((folder / f"groups-{plan}.json").read_text(encoding="utf-8"))
    made = Traces({}, {}, groups)
    for path in folder.glob(f"chakra-{plan}.*.et"):
        rank = int(path.name.removeprefix(f"chakra-{plan}.").removesuffix(".et"))
        made.metadata[rank], made.nodes[rank] = read_one(path, code)
    return made


def read_one(path: Path, code: Any) -> tuple[dict[str, str], list[Node]]:
    """The metadata and the nodes of one trace."""
    first, *others = messages(path.read_bytes())
    metadata = code.GlobalMetadata.FromString(first)
    _refuse_unknown(metadata)
    assert metadata.version == "0.0.4"
    return {each.name: each.string_val for each in metadata.attr}, [
        _node(code.Node.FromString(each)) for each in others
    ]


def _node(message: Any) -> Node:
    _refuse_unknown(message)
    types = {each.name: each.WhichOneof("value") for each in message.attr}
    return Node(
        id=message.id,
        name=message.name,
        type=message.type,
        data_deps=list(message.data_deps),
        duration_micros=message.duration_micros,
        attr={each.name: getattr(each, types[each.name]) for each in message.attr},
        types=types,
    )


def _refuse_unknown(message: Any) -> None:
    known = type(message)()
    known.CopyFrom(message)
    known.DiscardUnknownFields()
    assert known.ByteSize() == message.ByteSize(), f"a field that the schema does not have: {message}"


# ── what is wrong ──


def faults(traces: Traces) -> list[str]:
    """What is wrong with traces: numbers, cycles, groups, calls that do not meet, calls whose order is left open."""
    out = []
    for rank, nodes in traces.nodes.items():
        out += [f"rank {rank}: {text}" for text in _faults_of_one(nodes)]
        for node in nodes:
            if node.type == COLL and rank not in traces.groups.get(node.attr["pg_name"], ()):
                out.append(f"rank {rank}: node {node.id} in group {node.attr['pg_name']}, which it is not in")
    return [*out, *_faults_of_groups(traces), *_faults_of_messages(traces)]


def _faults_of_one(nodes: list[Node]) -> Iterator[str]:
    if [node.id for node in nodes] != list(range(len(nodes))):
        yield "nodes are not numbered one after another"
    ancestors: list[int] = []  # bits: which nodes each waits for, in any number of steps
    last: dict[str, int] = {}
    for node in nodes:
        if any(other >= node.id for other in node.data_deps):
            yield f"node {node.id} waits for a node that is not before it"
            return
        mine = 0
        for other in node.data_deps:
            mine |= ancestors[other] | 1 << other
        ancestors.append(mine)
        if node.type == COLL:
            group = node.attr["pg_name"]
            if group in last and not mine >> last[group] & 1:
                yield f"nodes {last[group]} and {node.id} of group {group} may overtake each other"
            last[group] = node.id


def _faults_of_groups(traces: Traces) -> Iterator[str]:
    calls: dict[str, dict[int, list[tuple[int, int]]]] = defaultdict(dict)
    for rank, nodes in traces.nodes.items():
        for node in nodes:
            if node.type == COLL:
                mine = calls[node.attr["pg_name"]].setdefault(rank, [])
                mine.append((node.attr["comm_type"], node.attr["comm_size"]))
    for group, members in traces.groups.items():
        if sorted(calls[group]) != sorted(members):
            yield f"group {group}: ranks {sorted(calls[group])} call it; its members are {sorted(members)}"
        elif any(each != calls[group][members[0]] for each in calls[group].values()):
            yield f"group {group}: its ranks make other calls, or in another order"


def _faults_of_messages(traces: Traces) -> Iterator[str]:
    sent: Counter[tuple[int, ...]] = Counter()
    received: Counter[tuple[int, ...]] = Counter()
    for rank, nodes in traces.nodes.items():
        for node in nodes:
            if node.type in (SEND, RECV):
                attr = node.attr
                key = attr["comm_src"], attr["comm_dst"], attr["comm_tag"], attr["comm_size"]
                (sent if node.type == SEND else received)[key] += 1
                if rank != attr["comm_src" if node.type == SEND else "comm_dst"]:
                    yield f"rank {rank}: node {node.id} is of another rank"
    for key in sorted(sent | received):
        if (sent[key], received[key]) != (1, 1):
            yield f"message {key}: sent {sent[key]} and received {received[key]} times"


def sent_bytes(traces: Traces) -> Mapping[int, int]:
    """Of each kind of collective the bytes that ranks bring to its calls, all together."""
    out: Counter[int] = Counter()
    for nodes in traces.nodes.values():
        for node in nodes:
            if node.type == COLL:
                out[node.attr["comm_type"]] += node.attr["comm_size"]
    return out
