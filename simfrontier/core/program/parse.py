"""Reading the stored form of a schedule: every fault is one InputError that names the file and the place in it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, get_args

from simfrontier.base.errors import InputError, unknown
from simfrontier.base.io import Node, headed, json_of, no_fraction
from simfrontier.base.limits import RANKS
from simfrontier.core.codecs import Codec, Plain, parse_codec
from simfrontier.core.dtypes import DTYPE_BYTES, INTEGERS
from simfrontier.core.program.algorithms import VIAS
from simfrontier.core.program.ir import (
    Call,
    Collective,
    Compute,
    Exchange,
    Op,
    Piece,
    Ref,
    Role,
    Schedule,
    Stage,
    Tensor,
    TensorRole,
)
from simfrontier.core.program.kinds import KINDS
from simfrontier.core.program.loops import Item, Loop, RepeatedRefs, expanded, refs_of_run
from simfrontier.core.program.mesh import Mesh
from simfrontier.core.program.op_kind import CallKind, ModelKind
from simfrontier.core.program.opnames import NO_MODULE, OpName
from simfrontier.core.program.placement import Placement, parse_placement
from simfrontier.core.program.roles import fault_of_end, fault_of_exchange, faults_of_places
from simfrontier.core.program.softmax import KERNELS

FORMAT: Final = "simfrontier.schedule"
VERSION: Final = 2
MAX_DEPTH: Final = 32
STAGES: Final = get_args(Stage)
TENSOR_ROLES: Final = frozenset(get_args(TensorRole))
MOST_OPS: Final = 400_000  # 500 bytes and 20 us each, expanded and checked; a 1T model on 16 stages has 317,023
MOST_OPS_LARGE: Final = 4_000_000  # gigabytes and minutes, where --yes-large agrees to that
OP_KINDS: Final = frozenset(name for name, kind in KINDS.items() if kind.in_files)


def from_json(text: str, where: str, large: bool = False) -> Schedule:
    """The schedule that a JSON text describes; `where` (a file name) opens every message.

    Raises InputError, also for one that means more ops than usual, or than a `large` one may: they are counted before
    anything is expanded.
    """
    value = headed(json_of(text, where, "schedule", no_fraction), "schedule", FORMAT, VERSION, where)
    return _schedule(Node(value, where), _OpCount(large))


class _OpCount:
    """Ops that a schedule means once its loops are run, counted before they are."""

    def __init__(self, is_large: bool) -> None:
        self.is_large, self.ops = is_large, 0

    def add(self, node: Node, items: tuple[Item, ...], blocks: list[tuple[Op, ...]]) -> None:
        """Count a role's ops. Raises InputError above the limit."""
        self.ops += _num_ops(items, blocks)
        most = MOST_OPS_LARGE if self.is_large else MOST_OPS
        if self.ops > most:
            hint = "" if self.is_large else " (check, show and replay take more with --yes-large)"
            node.fail(f"the loops mean {self.ops:,} ops; allowed: up to {most:,}{hint}")


def _num_ops(items: Iterable[Item], blocks: list[tuple[Op, ...]]) -> int:
    """Return the number of ops that the items mean, without running their loops."""
    return sum(
        item.times * _num_ops(item.body, blocks) if isinstance(item, Loop) else len(blocks[item.block])
        for item in items
    )


def _schedule(node: Node, count: _OpCount) -> Schedule:
    of = node.keys(("blocks", "mesh", "meta", "ops", "pools", "roles", "tensors"))
    mesh = _mesh(of["mesh"])
    tensors = {name: _tensor(name, item) for name, item in of["tensors"].members().items()}
    pools = {name: item.whole(0) for name, item in of["pools"].members().items()}
    weights = {name for name, tensor in tensors.items() if tensor.role == "weight"}
    for name, tensor in tensors.items():
        if tensor.pool is not None and tensor.pool not in pools:
            of["tensors"].key(name).key("pool").fail(unknown(tensor.pool, pools))
        if tensor.weight is not None and tensor.weight not in weights:
            of["tensors"].key(name).key("weight").fail(unknown(tensor.weight, weights))
    ops = [replace(_op(item, mesh), number=number) for number, item in enumerate(of["ops"].items())]
    blocks = [tuple([ops[number.whole(0, len(ops) - 1)] for number in item.items()]) for item in of["blocks"].items()]
    roles = tuple([_role(item, blocks, count) for item in of["roles"].items()])
    _check_places(of["roles"], mesh, roles)
    return Schedule(mesh=mesh, tensors=tensors, roles=roles, pools=pools, meta=_meta(of["meta"]))


def _mesh(node: Node) -> Mesh:
    axes = []
    for item in node.items():
        name, size = item.items(2)
        axes.append((name.name(), size.whole(1)))
    if fault := RANKS.fault(math.prod(size for _, size in axes)):
        node.fail(fault)
    try:
        return Mesh(tuple(axes))
    except InputError as error:
        raise error.within(node.where, node.at) from None


def _meta(node: Node) -> Mapping[str, str | int]:
    out: dict[str, str | int] = {}
    for name, item in node.members().items():
        out[name] = item.value if isinstance(item.value, str) else item.whole()
    return out


def _tensor(name: str, node: Node) -> Tensor:
    of = node.keys(
        ("dtype", "placement", "role", "shape"),
        (
            *("codec", "dims", "follows", "form_of", "local", "nesting", "per_layer", "per_micro"),
            *("persistent", "pool", "recomputes", "shares", "stacked", "stage", "streams", "weight"),
        ),
    )
    role = of["role"].choice(TENSOR_ROLES)
    listed = of["shape"].items()
    shape = tuple([item.whole(1) for item in listed])
    dims = of["dims"].texts() if "dims" in of else ()
    if dims and len(dims) != len(shape):
        of["dims"].fail(f"{len(dims)} labels; the shape has {len(shape)} dimensions")
    return Tensor(
        name=name,
        shape=shape,
        dtype=of["dtype"].choice(DTYPE_BYTES),
        role=role,
        placement=_placement(of["placement"]),
        dims=dims,
        nesting=of["nesting"].texts() if "nesting" in of else (),
        stacked=of["stacked"].texts() if "stacked" in of else (),
        codec=_codec(of["codec"]) if "codec" in of else None,
        per_layer="per_layer" in of and of["per_layer"].flag(),
        per_micro="per_micro" in of and of["per_micro"].flag(),
        persistent="persistent" in of and of["persistent"].flag(),
        pool=of["pool"].name() if "pool" in of else None,
        shares=of["shares"].name() if "shares" in of else None,
        follows=of["follows"].name() if "follows" in of else None,
        weight=of["weight"].name() if "weight" in of else name if role == "weight" else None,
        form_of=of["form_of"].name() if "form_of" in of else None,
        recomputes=of["recomputes"].name() if "recomputes" in of else None,
        stage=of["stage"].choice(STAGES) if "stage" in of else None,
        streams=of["streams"].texts() if "streams" in of else (),
        local=of["local"].name() if "local" in of else None,
    )


def _placement(node: Node) -> Placement:
    return node.parsed(parse_placement)


def _codec(node: Node) -> Codec:
    return node.parsed(lambda text: Plain(text) if text in INTEGERS else parse_codec(text))


def _op(node: Node, mesh: Mesh) -> Op:
    if not isinstance(node.value, dict) or "kind" not in node.value:
        raise InputError("missing", where=node.where, key=(*node.at, "kind"))
    kind = node.key("kind").choice(OP_KINDS)
    if kind == Exchange.kind:
        return _exchange(node, mesh)
    is_call = isinstance(KINDS[kind], CallKind)
    return _collective(kind, node) if is_call else _compute(kind, node)


def _compute(kind: str, node: Node) -> Compute:
    known = KINDS[kind]
    is_of_model = isinstance(known, ModelKind)
    of = node.keys(
        ("kind", "lane", "module" if is_of_model else "name"),
        (
            *("accumulates", "flops", "iteration", "kernel", "matmul", "max_age", "piece", "reads", "split", "writes"),
            *(("streams",) if is_of_model else ()),
            *(("part",) if isinstance(known, ModelKind) and known.parts else ()),
        ),
    )
    named = _op_name(of, known) if isinstance(known, ModelKind) else NO_MODULE
    matmul = None
    if "matmul" in of:
        batch, m, n, k = (item.texts() for item in of["matmul"].items(4))
        matmul = (batch, m, n, k)
        _refuse_product(of, matmul)
    has_passes = isinstance(known, ModelKind) and known.has_passes
    if "kernel" in of and not (has_passes and "reads" in of and "writes" in of):
        allowed = sorted(name for name, each in KINDS.items() if isinstance(each, ModelKind) and each.has_passes)
        of["kernel"].fail(f"is of {' and '.join(allowed)} only, with reads and writes, not of a {kind}")
    return Compute(
        kind=kind,
        name=named.text if is_of_model else of["name"].name(),
        named=named,
        reads=_refs(of.get("reads")),
        writes=_refs(of.get("writes")),
        accumulates=_refs(of.get("accumulates")),
        iteration=_iteration(of.get("iteration")),
        split=tuple((a.name(), b.name()) for a, b in _two(of.get("split"))),
        matmul=matmul,
        flops=of["flops"].whole(0) if "flops" in of else 0,
        max_age=of["max_age"].whole(0) if "max_age" in of else 0,
        kernel=of["kernel"].choice(KERNELS) if "kernel" in of else "",
        piece=_piece(of["piece"]) if "piece" in of else None,
        lane=of["lane"].name(),
    )


def _op_name(of: Mapping[str, Node], kind: ModelKind) -> OpName:
    """What an op of the model computes."""
    return OpName(
        module=of["module"].name(),
        part=of["part"].choice(kind.parts) if "part" in of else None,
        is_sums=kind.sums,
        streams=of["streams"].texts() if "streams" in of else (),
    )


def _piece(node: Node) -> Piece:
    """[number, count, label, axes]"""
    number, count, label, axes = node.items(4)
    most = count.whole(2)
    return Piece(number.whole(0, most - 1), most, label.name(), axes.texts())


def _refuse_product(of: Mapping[str, Node], matmul: tuple[tuple[str, ...], ...]) -> None:
    """A matrix product is of what is read, and its labels are of the op's iteration space."""
    if "reads" not in of or not of["reads"].items():
        of["matmul"].fail("a product of an op that reads nothing; allowed: with reads")
    labels = [label for label, _ in _iteration(of.get("iteration"))]
    for label in (label for side in matmul for label in side):
        if label not in labels:
            of["matmul"].fail(unknown(label, labels))


def _iteration(node: Node | None) -> tuple[tuple[str, int], ...]:
    """(label, size) of an op's iteration space."""
    if node is None:
        return ()
    out = tuple([(label.name(), size.whole(1)) for label, size in _two(node)])
    return out


def _collective(kind: Any, node: Node) -> Collective:
    of = node.keys(
        ("axes", "codec", "comm", "dst", "kind", "lane", "name", "src", "via"),
        ("blocking", "per_hop", "piece", "token"),
    )
    src, dst = _refs(of["src"]), _refs(of["dst"])
    if len(src) != len(dst):
        node.fail(f"{len(src)} src, but {len(dst)} dst; they pair up")
    return Collective(
        kind=kind,
        name=of["name"].name(),
        axes=of["axes"].texts(),
        src=src,
        dst=dst,
        codec=_codec(of["codec"]),
        via=of["via"].choice(VIAS),
        lane=of["lane"].name(),
        comm=of["comm"].name(),
        blocking="blocking" in of and of["blocking"].flag(),
        token=_ref(of["token"]) if "token" in of else None,
        per_hop="per_hop" in of and of["per_hop"].flag(),
        piece=_piece(of["piece"]) if "piece" in of else None,
    )


def _exchange(node: Node, mesh: Mesh) -> Exchange:
    of = node.keys(
        ("axis", "codec", "comm", "ends", "kind", "lane", "name"),
        ("back_dst", "back_src", "blocking", "dst", "src", "token"),
    )
    here, there = of["ends"].items(2)
    op = Exchange(
        name=of["name"].name(),
        axis=of["axis"].name(),
        ends=(here.whole(), there.whole()),
        src=_refs(of.get("src")),
        dst=_refs(of.get("dst")),
        back_src=_refs(of.get("back_src")),
        back_dst=_refs(of.get("back_dst")),
        codec=_codec(of["codec"]),
        lane=of["lane"].name(),
        comm=of["comm"].name(),
        blocking="blocking" in of and of["blocking"].flag(),
        token=_ref(of["token"]) if "token" in of else None,
    )
    fault = fault_of_exchange(op, mesh)
    return op if fault is None else node.fail(fault)


def _two(node: Node | None) -> list[tuple[Node, Node]]:
    return [] if node is None else [(a, b) for a, b in (item.items(2) for item in node.items())]


def _refs(node: Node | None) -> tuple[Ref, ...]:
    if node is None:
        return ()
    runs: list[RepeatedRefs] = []
    for item in node.items():
        if isinstance(item.value, list) and item.value and not isinstance(item.value[0], str):
            times, refs, step = item.items(3)
            group = tuple([_ref(ref) for ref in refs.items()])
            runs.append(RepeatedRefs(times.whole(1), group, _steps(step)))
        else:
            runs.append(RepeatedRefs(1, (_ref(item),), 0))
    return tuple([ref for run in runs for ref in refs_of_run(run)])


def _steps(node: Node) -> int:
    """A distance in layers or micro-batches."""
    return node.whole()


def _place(node: Node) -> int:
    """The number of a layer or a micro-batch."""
    return node.whole(0)


def _ref(node: Node) -> Ref:
    if isinstance(node.value, str):
        return Ref(node.name())
    name, layer, micro = node.items(3)
    return Ref(name.name(), _steps(layer), _steps(micro))


def _role(node: Node, blocks: list[tuple[Op, ...]], count: _OpCount) -> Role:
    of = node.keys(("calls", "name"), ("at",))
    items = _items(of["calls"], blocks, 0)
    count.add(of["calls"], items, blocks)
    calls = tuple(expanded(items))
    low = min((min(call.layer, call.micro) for call in calls), default=0)
    if low < 0:
        of["calls"].fail(f"the loops lead to layer or micro-batch {low}; allowed: 0 or more")
    return Role(of["name"].name(), calls, _at(of["at"]) if "at" in of else None)


def _check_places(node: Node, mesh: Mesh, roles: tuple[Role, ...]) -> None:
    """Roles stand where they may, and an exchange stands only with the roles at its ends."""
    listed = node.items()
    for number, text in faults_of_places(mesh, roles):
        place = listed[number]
        (place if roles[number].at is None else place.key("at")).fail(text)
    for item, role in zip(listed, roles, strict=True):
        for ops in {call.block: call.ops for call in role.calls}.values():
            for op in ops:
                fault = fault_of_end(op, role) if isinstance(op, Exchange) else None
                if fault is not None:
                    item.key("calls").fail(fault)


def _at(node: Node) -> tuple[str, int]:
    axis, coordinate = node.items(2)
    return axis.name(), coordinate.whole()


def _items(node: Node, blocks: list[tuple[Op, ...]], depth: int) -> tuple[Item, ...]:
    if depth > MAX_DEPTH:
        node.fail(f"loops nested more than {MAX_DEPTH} deep")
    out: list[Item] = []
    for item in node.items():
        if isinstance(item.value, dict):
            of = item.keys(("calls", "layers", "micros", "times"))
            body = _items(of["calls"], blocks, depth + 1)
            if not body:
                of["calls"].fail("a loop of no calls; allowed: one call or more")
            out.append(Loop(of["times"].whole(1), body, _steps(of["layers"]), _steps(of["micros"])))
        else:
            label, number, layer, micro = item.items(4)
            block = number.whole(0, len(blocks) - 1)
            out.append(Call(label.name(), _place(layer), _place(micro), blocks[block], block))
    return tuple(out)
