"""Reading the stored form of a schedule: every fault is one InputError that names the file and the place in it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, get_args

from simfrontier.codecs import Codec, Plain, parse_codec
from simfrontier.dtypes import DTYPE_BYTES, INTEGERS
from simfrontier.errors import InputError, unknown
from simfrontier.io import Node, headed, json_of, no_fraction
from simfrontier.limits import (
    AXES,
    DIMENSIONS,
    EXTENT,
    LARGE,
    OPERANDS_OF_OP,
    POSITION,
    RANKS,
    ROLES,
    SIZE,
    STORED_STEPS,
    TENSORS_OF_ROLES,
    USUAL,
    VALUES,
    ScheduleBudget,
)
from simfrontier.schedule.algorithms import VIAS
from simfrontier.schedule.ir import (
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
from simfrontier.schedule.kinds import KINDS
from simfrontier.schedule.loops import Item, Loop, expanded
from simfrontier.schedule.mesh import Mesh
from simfrontier.schedule.op_kind import CallKind, ModelKind
from simfrontier.schedule.opnames import NO_MODULE, OpName
from simfrontier.schedule.placement import Placement, parse_placement
from simfrontier.schedule.repeated_refs import RepeatedRefs, refs_of_run
from simfrontier.schedule.roles import fault_of_end, fault_of_exchange, faults_of_places
from simfrontier.schedule.softmax import KERNELS

FORMAT: Final = "simfrontier.schedule"
VERSION: Final = 2
MAX_DEPTH: Final = 32
STAGES: Final = get_args(Stage)
TENSOR_ROLES: Final = frozenset(get_args(TensorRole))
OP_KINDS: Final = frozenset(name for name, kind in KINDS.items() if kind.in_files)


def from_json(text: str, where: str, large: bool = False) -> Schedule:
    """The schedule that a JSON text describes; `where` (a file name) opens every message.

    Raises InputError, also for one that means more than the usual budget of calls, ops and operands, or than the
    `large` one (see limits): that is counted before anything is expanded.
    """
    if fault := VALUES.fault(text.count(",")):
        raise InputError(fault, where=where)
    value = headed(json_of(text, where, "schedule", no_fraction), "schedule", FORMAT, VERSION, where)
    return _schedule(Node(value, where), LARGE if large else USUAL)


@dataclass(slots=True)
class _Usage:
    """What has been counted of a schedule's budget so far."""

    budget: ScheduleBudget
    sizes: list[tuple[int, int, int]] = field(default_factory=list)  # (1, ops, operands) of every block
    listed: int = 0  # operands of distinct ops, runs over layers run
    stored: int = 0  # steps as they are stored
    calls: int = 0
    ops: int = 0
    operands: int = 0

    def role(self, node: Node, items: tuple[Item, ...]) -> None:
        """Count a role's calls, loops run. Raises InputError above the budget."""
        calls, ops, operands = _sizes(items, self.sizes)
        self.calls, self.ops, self.operands = self.calls + calls, self.ops + ops, self.operands + operands
        for limit, count in (
            (self.budget.calls, self.calls),
            (self.budget.ops, self.ops),
            (self.budget.operands, self.operands),
        ):
            if fault := limit.fault(count):
                node.fail(
                    f"the loops mean {fault}"
                    + ("" if self.budget is LARGE else " (check, show and replay take more with --yes-large)")
                )


def _num_operands(op: Op) -> int:
    return len(op.reads) + len(op.writes) + len(op.accumulates)


def _sizes(items: Iterable[Item], sizes: list[tuple[int, int, int]]) -> tuple[int, int, int]:
    """(calls, ops, operands) that the items mean, without running their loops; `sizes`: the same of each block."""
    totals = [0, 0, 0]
    for item in items:
        times, each = (item.times, _sizes(item.body, sizes)) if isinstance(item, Loop) else (1, sizes[item.block])
        totals = [total + times * one for total, one in zip(totals, each, strict=True)]
    return totals[0], totals[1], totals[2]


def _schedule(node: Node, budget: ScheduleBudget) -> Schedule:
    of = node.keys(("blocks", "mesh", "meta", "ops", "pools", "roles", "tensors"))
    mesh = _mesh(of["mesh"])
    tensors = {name: _tensor(name, item) for name, item in of["tensors"].members().items()}
    pools = {name: item.whole(0, EXTENT.most) for name, item in of["pools"].members().items()}
    weights = {name for name, tensor in tensors.items() if tensor.role == "weight"}
    for name, tensor in tensors.items():
        if tensor.pool is not None and tensor.pool not in pools:
            of["tensors"].key(name).key("pool").fail(unknown(tensor.pool, pools))
        if tensor.weight is not None and tensor.weight not in weights:
            of["tensors"].key(name).key("weight").fail(unknown(tensor.weight, weights))
    usage = _Usage(budget)
    ops = [replace(_op(item, mesh, usage), number=number) for number, item in enumerate(of["ops"].items())]
    blocks = [tuple([ops[number.whole(0, len(ops) - 1)] for number in item.items()]) for item in of["blocks"].items()]
    usage.sizes = [(1, len(block), sum(map(_num_operands, block))) for block in blocks]
    listed = of["roles"].items()
    of["roles"].within(ROLES, len(listed))
    of["roles"].within(TENSORS_OF_ROLES, len(listed) * len(tensors))
    roles = tuple([_role(item, blocks, usage) for item in listed])
    _check_places(of["roles"], mesh, roles)
    return Schedule(mesh=mesh, tensors=tensors, roles=roles, pools=pools, meta=_meta(of["meta"]))


def _mesh(node: Node) -> Mesh:
    axes = []
    listed = node.items()
    node.within(AXES, len(listed))
    for item in listed:
        name, size = item.items(2)
        axes.append((name.name(), size.whole(1)))
    node.within(RANKS, math.prod(size for _, size in axes))
    try:
        return Mesh(tuple(axes))
    except InputError as error:
        raise error.within(node.where, node.at) from None


def _meta(node: Node) -> Mapping[str, str | int]:
    out: dict[str, str | int] = {}
    for name, item in node.members().items():
        out[name] = item.value if isinstance(item.value, str) else item.whole(-EXTENT.most, EXTENT.most)
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
    of["shape"].within(DIMENSIONS, len(listed))
    shape = tuple([item.whole(1, SIZE.most) for item in listed])
    of["shape"].within(EXTENT, math.prod(shape))
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


def _op(node: Node, mesh: Mesh, usage: _Usage) -> Op:
    if not isinstance(node.value, dict) or "kind" not in node.value:
        raise InputError("missing", where=node.where, key=(*node.at, "kind"))
    kind = node.key("kind").choice(OP_KINDS)
    if kind == Exchange.kind:
        return _exchange(node, mesh, usage)
    is_call = isinstance(KINDS[kind], CallKind)
    return _collective(kind, node, usage) if is_call else _compute(kind, node, usage)


def _compute(kind: str, node: Node, usage: _Usage) -> Compute:
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
        reads=_refs(of.get("reads"), usage),
        writes=_refs(of.get("writes"), usage),
        accumulates=_refs(of.get("accumulates"), usage),
        iteration=_iteration(of.get("iteration")),
        split=tuple((a.name(), b.name()) for a, b in _two(of.get("split"))),
        matmul=matmul,
        flops=of["flops"].whole(0, EXTENT.most) if "flops" in of else 0,
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
    most = count.whole(2, SIZE.most)
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
    node.within(DIMENSIONS, len(node.items()))
    out = tuple([(label.name(), size.whole(1, EXTENT.most)) for label, size in _two(node)])
    node.within(EXTENT, math.prod(size for _, size in out))
    return out


def _collective(kind: Any, node: Node, usage: _Usage) -> Collective:
    of = node.keys(
        ("axes", "codec", "comm", "dst", "kind", "lane", "name", "src", "via"),
        ("blocking", "per_hop", "piece", "token"),
    )
    src, dst = _refs(of["src"], usage), _refs(of["dst"], usage)
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


def _exchange(node: Node, mesh: Mesh, usage: _Usage) -> Exchange:
    of = node.keys(
        ("axis", "codec", "comm", "ends", "kind", "lane", "name"),
        ("back_dst", "back_src", "blocking", "dst", "src", "token"),
    )
    here, there = of["ends"].items(2)
    op = Exchange(
        name=of["name"].name(),
        axis=of["axis"].name(),
        ends=(here.whole(), there.whole()),
        src=_refs(of.get("src"), usage),
        dst=_refs(of.get("dst"), usage),
        back_src=_refs(of.get("back_src"), usage),
        back_dst=_refs(of.get("back_dst"), usage),
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


def _refs(node: Node | None, usage: _Usage) -> tuple[Ref, ...]:
    if node is None:
        return ()
    runs: list[RepeatedRefs] = []
    for item in node.items():
        if isinstance(item.value, list) and item.value and not isinstance(item.value[0], str):
            times, refs, step = item.items(3)
            group = tuple([_ref(ref) for ref in refs.items()])
            times.whole(1, OPERANDS_OF_OP.most // max(1, len(group)))
            runs.append(RepeatedRefs(times.value, group, _steps(step)))
        else:
            runs.append(RepeatedRefs(1, (_ref(item),), 0))
    count = sum(run.times * len(run.refs) for run in runs)
    node.within(OPERANDS_OF_OP, count)
    usage.listed += count
    node.within(usage.budget.operands, usage.listed)
    return tuple([ref for run in runs for ref in refs_of_run(run)])


def _steps(node: Node) -> int:
    """A distance in layers or micro-batches."""
    return node.whole(-POSITION.most, POSITION.most)


def _place(node: Node) -> int:
    """The number of a layer or a micro-batch."""
    return node.whole(0, POSITION.most)


def _ref(node: Node) -> Ref:
    if isinstance(node.value, str):
        return Ref(node.name())
    name, layer, micro = node.items(3)
    return Ref(name.name(), _steps(layer), _steps(micro))


def _role(node: Node, blocks: list[tuple[Op, ...]], usage: _Usage) -> Role:
    of = node.keys(("calls", "name"), ("at",))
    items = _items(of["calls"], blocks, 0, usage)
    usage.role(of["calls"], items)
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


def _items(node: Node, blocks: list[tuple[Op, ...]], depth: int, usage: _Usage) -> tuple[Item, ...]:
    if depth > MAX_DEPTH:
        node.fail(f"loops nested more than {MAX_DEPTH} deep")
    out: list[Item] = []
    listed = node.items()
    usage.stored += len(listed)
    node.within(STORED_STEPS, usage.stored)
    for item in listed:
        if isinstance(item.value, dict):
            of = item.keys(("calls", "layers", "micros", "times"))
            body = _items(of["calls"], blocks, depth + 1, usage)
            if not body:
                of["calls"].fail("a loop of no calls; allowed: one call or more")
            out.append(Loop(of["times"].whole(1), body, _steps(of["layers"]), _steps(of["micros"])))
        else:
            label, number, layer, micro = item.items(4)
            block = number.whole(0, len(blocks) - 1)
            out.append(Call(label.name(), _place(layer), _place(micro), blocks[block], block))
    return tuple(out)
