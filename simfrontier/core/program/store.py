"""Storage of schedules: canonical JSON, its digest, and files that are written completely or not at all.

Each field of a tensor or op is stored under its own name; `_FORMS` defines by type how it is read and written. Values
that are empty, zero, False or None are omitted if this is the field's default. Every error in a file raises one
InputError that names the file and the position in it.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, replace
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Any, Final, Literal, NamedTuple, get_args, get_origin, get_type_hints

from simfrontier.base.errors import unknown
from simfrontier.base.io import Node, headed, json_of, no_fraction, text_of
from simfrontier.base.limits import RANKS
from simfrontier.base.wholefile import write_whole
from simfrontier.core.codecs import Codec, wire_codec
from simfrontier.core.dtypes import DTYPE_BYTES
from simfrontier.core.program.cost import KERNELS
from simfrontier.core.program.ir import Call, Collective, Compute, Exchange, Op, Piece, Ref, Role, Schedule, Tensor
from simfrontier.core.program.kinds import KINDS, is_work
from simfrontier.core.program.loops import (
    Item,
    Loop,
    RepeatedRefs,
    expanded,
    folded,
    num_ops,
    refs_of_run,
    runs_of_refs,
)
from simfrontier.core.program.mesh import Mesh
from simfrontier.core.program.names import VIAS, OpName
from simfrontier.core.program.op_kind import CallKind, ModelKind
from simfrontier.core.program.placement import Placement, parse_placement
from simfrontier.core.program.roles import faults_of_roles

FORMAT: Final = "simfrontier.schedule"
VERSION: Final = 2
MAX_DEPTH: Final = 32  # of loops within loops
MOST_OPS: Final = 400_000  # 500 bytes and 20 us each, expanded and checked; a 1T model on 16 stages has 317,023
MOST_OPS_LARGE: Final = 4_000_000  # gigabytes and minutes, where --yes-large agrees to that
OP_KINDS: Final = frozenset(name for name, kind in KINDS.items() if kind.in_files)


def to_json(schedule: Schedule) -> str:
    """Return the canonical JSON text of a schedule: keys sorted, no floats, every distinct op and block stored once,
    repeated calls stored as nested loops.

    Equal schedules have equal texts, regardless of the order in which their parts were created or shared.
    """
    tables = StoredBlocks(schedule)
    roles = [
        {
            "calls": _written_items(folded(role.calls, tables.block_of), tables.block_of),
            "name": role.name,
            **({} if role.at is None else {"at": role.at}),
        }
        for role in schedule.roles
    ]
    form = {
        "blocks": tables.blocks,
        "format": FORMAT,
        "mesh": schedule.mesh.axes,
        "meta": dict(schedule.meta),
        "ops": [_written_op(op) for op in tables.ops],
        "pools": dict(schedule.pools),
        "roles": roles,
        "tensors": {name: _written_tensor(tensor) for name, tensor in schedule.tensors.items()},
        "version": VERSION,
    }
    return json.dumps(form, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def digest(schedule: Schedule) -> str:
    """Return the SHA-256 digest of a schedule's canonical JSON, in hexadecimal."""
    return hashlib.sha256(to_json(schedule).encode("ascii")).hexdigest()


def save(schedule: Schedule, path: Path) -> None:
    """Write a schedule to a file as canonical JSON and a newline. The file is written completely or not at all. Raises
    InputError."""
    write_whole(path, to_json(schedule) + "\n")


def load(path: Path, large: bool = False) -> Schedule:
    """Read a schedule from a file. `large`: accept more ops, as in `from_json`. Raises InputError with the file name
    and the position in the file."""
    return from_json(text_of(path, "schedule"), str(path), large)


def from_json(text: str, where: str, large: bool = False) -> Schedule:
    """Return the schedule that a JSON text describes; `where` (a file name) prefixes every error message.

    Raises InputError, also if the schedule has more ops than the limit (higher if `large`). Ops are counted before
    loops are unrolled.
    """
    value = headed(json_of(text, where, "schedule", no_fraction), "schedule", FORMAT, VERSION, where)
    of = Node(value, where).keys(("blocks", "mesh", "meta", "ops", "pools", "roles", "tensors"))
    mesh = _mesh(of["mesh"])
    pools = {name: item.whole(0) for name, item in of["pools"].members().items()}
    tensors = {name: _tensor(name, item) for name, item in of["tensors"].members().items()}
    _refuse_unknown(of["tensors"], tensors, pools)
    ops = [replace(_op(item), number=number) for number, item in enumerate(of["ops"].items())]
    blocks = [tuple([ops[number.whole(0, len(ops) - 1)] for number in item.items()]) for item in of["blocks"].items()]
    roles = _roles(of["roles"], blocks, mesh, large)
    meta = {
        name: item.value if isinstance(item.value, str) else item.whole() for name, item in of["meta"].members().items()
    }
    return Schedule(mesh=mesh, tensors=tensors, roles=roles, pools=pools, meta=meta)


class StoredBlocks:
    """The distinct ops and blocks of a schedule, in the order in which the calls first use them: `ops`, `blocks` (each
    a list of indices into `ops`), and `block_of`, which maps each block of the schedule to a stored block."""

    def __init__(self, schedule: Schedule) -> None:
        ops: dict[Op, int] = {}
        op_of = [ops.setdefault(op, len(ops)) for op in schedule.ops]
        self.ops = list(ops)
        blocks: dict[tuple[int, ...], int] = {}
        listed = (tuple([op_of[op.number] for op in block]) for block in schedule.blocks)
        self.block_of = [blocks.setdefault(block, len(blocks)) for block in listed]
        self.blocks = list(blocks)


# ── forms of fields ──


def _as_it_is(value: Any) -> Any:
    return value


class Form(NamedTuple):
    """How a value is read from a file and written to a file."""

    read: Callable[[Node], Any]
    write: Callable[[Any], Any] = _as_it_is


def _two(node: Node, first: Callable[[Node], Any], second: Callable[[Node], Any]) -> tuple[Any, Any]:
    a, b = node.items(2)
    return first(a), second(b)


def _piece(node: Node) -> Piece:
    """Read a piece of an op, [number, count, label, axes], and true if it turns."""
    turns = isinstance(node.value, list) and len(node.value) == 5
    number, count, label, axes, *more = node.items(5 if turns else 4)
    most = count.whole(2)
    return Piece(number.whole(0, most - 1), most, label.name(), axes.texts(), any(each.flag() for each in more))


def _written_piece(piece: Piece) -> Any:
    return piece if piece.turns else piece[:4]


def _ref(node: Node) -> Ref:
    """Read a tensor reference: a name, or [name, layer, micro-batch]."""
    if isinstance(node.value, str):
        return Ref(node.name())
    name, layer, micro = node.items(3)
    return Ref(name.name(), layer.whole(), micro.whole())


def _written_ref(ref: Ref) -> Any:
    return [ref.name, ref.layer, ref.micro] if ref.layer or ref.micro else ref.name


def _refs(node: Node) -> tuple[Ref, ...]:
    """Read a list of tensor references; references repeated over layers are stored as [times, references, layer
    step]."""
    refs: list[Ref] = []
    for item in node.items():
        if isinstance(item.value, list) and item.value and not isinstance(item.value[0], str):
            times, group, step = item.items(3)
            run = RepeatedRefs(times.whole(1), tuple([_ref(ref) for ref in group.items()]), step.whole())
            refs += refs_of_run(run)
        else:
            refs.append(_ref(item))
    return tuple(refs)


def _written_refs(refs: tuple[Ref, ...]) -> list[Any]:
    return [
        [run.times, [_written_ref(ref) for ref in run.refs], run.layer_step]
        if isinstance(run, RepeatedRefs)
        else _written_ref(run)
        for run in runs_of_refs(refs)
    ]


def _choice(allowed: Iterable[str]) -> Form:
    names = frozenset(allowed)
    return Form(lambda node: node.choice(names))


_Labels = tuple[str, ...]
_FORMS: Final[Mapping[Any, Form]] = {  # by the type of a field
    str: Form(Node.name),
    int: Form(lambda node: node.whole(0)),
    bool: Form(Node.flag),
    _Labels: Form(Node.texts),
    tuple[int, ...]: Form(lambda node: tuple([item.whole(1) for item in node.items()])),
    tuple[int, int]: Form(lambda node: _two(node, Node.whole, Node.whole)),
    tuple[tuple[str, int], ...]: Form(
        lambda node: tuple([_two(item, Node.name, lambda size: size.whole(1)) for item in node.items()])
    ),
    tuple[tuple[str, str], ...]: Form(lambda node: tuple([_two(item, Node.name, Node.name) for item in node.items()])),
    tuple[_Labels, _Labels, _Labels, _Labels]: Form(lambda node: tuple([item.texts() for item in node.items(4)])),
    Piece: Form(_piece, _written_piece),
    Ref: Form(_ref, _written_ref),
    tuple[Ref, ...]: Form(_refs, _written_refs),
    Placement: Form(lambda node: node.parsed(parse_placement), str),
    Codec: Form(lambda node: node.parsed(wire_codec), str),
}
_CHOICES: Final[Mapping[str, Form]] = {  # by the name of a field
    "dtype": _choice(DTYPE_BYTES),
    "kernel": _choice(KERNELS),
    "kind": _choice(OP_KINDS),
    "via": _choice(VIAS),
}


class Stored(NamedTuple):
    """A field in a schedule file: how it is read and written, and whether it is required."""

    form: Form
    is_required: bool


@cache
def _fields(of: type) -> Mapping[str, Stored]:
    """Return those fields of a class that are stored in schedule files."""
    types = get_type_hints(of)
    return {
        each.name: Stored(
            _CHOICES.get(each.name) or _form(types[each.name]), each.default is MISSING or bool(each.default)
        )
        for each in fields(of)
        if each.name not in ("number", "named")
    }


def _form(of: Any) -> Form:
    (bare, *_) = [each for each in get_args(of) if each is not NoneType] if NoneType in get_args(of) else [of]
    return _choice(get_args(bare)) if get_origin(bare) is Literal else _FORMS[bare]


def _values(node: Node, stored: Mapping[str, Stored]) -> dict[str, Any]:
    """Read the values of the given fields from a JSON object."""
    required = [name for name, each in stored.items() if each.is_required]
    members = node.keys(required, [name for name in stored if name not in required])
    return {name: stored[name].form.read(member) for name, member in members.items()}


def _written(value: Tensor | Op) -> dict[str, Any]:
    """Return the stored fields of a tensor or op as a JSON object."""
    of: type = type(value)
    held = {name: (each, getattr(value, name)) for name, each in _fields(of).items()}
    return {name: each.form.write(own) for name, (each, own) in held.items() if own or each.is_required}


# ── tensors and ops ──


def _mesh(node: Node) -> Mesh:
    axes = _FORMS[tuple[tuple[str, int], ...]].read(node)
    if fault := RANKS.fault(math.prod(size for _, size in axes)):
        node.fail(fault)
    return node.placed(lambda: Mesh(axes))


def _tensor(name: str, node: Node) -> Tensor:
    values = _values(node, {key: each for key, each in _fields(Tensor).items() if key != "name"})
    if values["role"] == "weight":
        values.setdefault("weight", name)
    tensor = Tensor(name=name, **values)
    if tensor.dims and len(tensor.dims) != len(tensor.shape):
        node.key("dims").fail(f"{len(tensor.dims)} labels; the shape has {len(tensor.shape)} dimensions")
    return tensor


def _written_tensor(tensor: Tensor) -> dict[str, Any]:
    without = ("name", "weight") if tensor.role == "weight" else ("name",)
    return {key: value for key, value in _written(tensor).items() if key not in without}


def _refuse_unknown(node: Node, tensors: Mapping[str, Tensor], pools: Mapping[str, int]) -> None:
    """Check that tensors refer only to weights and pools that the schedule declares."""
    weights = {name for name, tensor in tensors.items() if tensor.role == "weight"}
    for name, tensor in tensors.items():
        for key, known in (("pool", pools), ("weight", weights)):
            of = getattr(tensor, key)
            if of is not None and of not in known:
                node.key(name).key(key).fail(unknown(of, known))


def _op(node: Node) -> Op:
    kind = node.member("kind").choice(OP_KINDS)
    known = KINDS[kind]
    if isinstance(known, ModelKind):
        return _model_op(node, known)
    if not isinstance(known, CallKind):
        return _with_kernel(node, Compute(**_values(node, _fields(Compute))))
    of = Exchange if kind == Exchange.kind else Collective
    values = _values(node, {**_fields(of), "kind": Stored(_CHOICES["kind"], True)})
    if of is Exchange:
        return Exchange(**{key: value for key, value in values.items() if key != "kind"})
    op = Collective(**values)
    return op if len(op.src) == len(op.dst) else node.fail(f"{len(op.src)} src, but {len(op.dst)} dst; they pair up")


def _model_op(node: Node, kind: ModelKind) -> Compute:
    """Read an op of the model. Its name is composed of its module, streams and part of the backward."""
    named = {
        "module": Stored(_FORMS[str], True),
        "streams": Stored(_FORMS[_Labels], False),
        **({"part": Stored(_choice(kind.parts), False)} if kind.parts else {}),
    }
    values = _values(node, {key: each for key, each in _fields(Compute).items() if key != "name"} | named)
    name = OpName(is_sums=kind.sums, **{key: values.pop(key) for key in named if key in values})
    return _with_kernel(node, Compute(name=name.text, named=name, **values))


def _with_kernel(node: Node, op: Compute) -> Compute:
    """Return the op unchanged, after checking that its kernel, if it has one, is allowed for the op's kind."""
    passing = sorted(name for name, each in KINDS.items() if isinstance(each, ModelKind) and each.has_passes)
    if op.kernel and not (op.kind in passing and op.reads and op.writes):
        node.key("kernel").fail(f"is of {' and '.join(passing)} only, with reads and writes, not of a {op.kind}")
    return op


def _written_op(op: Op) -> dict[str, Any]:
    form = {"kind": op.kind, **_written(op)}
    if not isinstance(op, Compute) or not is_work(op):
        return form
    del form["name"]
    named = {"module": op.named.module, "part": op.named.part, "streams": op.named.streams}
    return form | {key: value for key, value in named.items() if value}


# ── roles and their calls ──


def _roles(node: Node, blocks: Sequence[tuple[Op, ...]], mesh: Mesh, large: bool) -> tuple[Role, ...]:
    listed = node.items()
    tables = [item.keys(("calls", "name"), ("at",)) for item in listed]
    programs = [_items(of["calls"], blocks, 0) for of in tables]
    meant, most = sum(map(num_ops, programs)), MOST_OPS_LARGE if large else MOST_OPS
    if meant > most:
        hint = "" if large else " (check, show and replay take more with --yes-large)"
        node.fail(f"the loops mean {meant:,} ops; allowed: up to {most:,}{hint}")
    roles = tuple([_role(of, items) for of, items in zip(tables, programs, strict=True)])
    for number, field, text in faults_of_roles(mesh, roles):
        (listed[number].key(field) if field in tables[number] else listed[number]).fail(text)
    return roles


def _role(of: Mapping[str, Node], items: tuple[Item, ...]) -> Role:
    calls = tuple(expanded(items))
    low = min((min(call.layer, call.micro) for call in calls), default=0)
    if low < 0:
        of["calls"].fail(f"the loops lead to layer or micro-batch {low}; allowed: 0 or more")
    return Role(of["name"].name(), calls, _two(of["at"], Node.name, Node.whole) if "at" in of else None)


def _items(node: Node, blocks: Sequence[tuple[Op, ...]], depth: int) -> tuple[Item, ...]:
    if depth > MAX_DEPTH:
        node.fail(f"loops nested more than {MAX_DEPTH} deep")
    return tuple([_item(item, blocks, depth) for item in node.items()])


def _item(node: Node, blocks: Sequence[tuple[Op, ...]], depth: int) -> Item:
    """Read a call, [label, block, layer, micro-batch], or a loop, which contains the calls of its first iteration."""
    if not isinstance(node.value, dict):
        label, number, layer, micro = node.items(4)
        block = number.whole(0, len(blocks) - 1)
        return Call(label.name(), layer.whole(0), micro.whole(0), blocks[block], block)
    of = node.keys(("calls", "layers", "micros", "times"))
    body = _items(of["calls"], blocks, depth + 1)
    if not body:
        of["calls"].fail("a loop of no calls; allowed: one call or more")
    return Loop(of["times"].whole(1), body, of["layers"].whole(), of["micros"].whole())


def _written_items(items: Iterable[Item], block_of: Sequence[int]) -> list[Any]:
    return [
        {
            "times": item.times,
            "layers": item.layers,
            "micros": item.micros,
            "calls": _written_items(item.body, block_of),
        }
        if isinstance(item, Loop)
        else [item.label, block_of[item.block], item.layer, item.micro]
        for item in items
    ]
