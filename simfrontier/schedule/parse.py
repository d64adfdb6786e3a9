"""Reading the stored form of a schedule: every fault is one InputError that names the file and the place in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, Never

from simfrontier.errors import InputError, nearest
from simfrontier.schedule.codec import DTYPE_BYTES, INTEGERS, Codec, parse_codec
from simfrontier.schedule.ir import Collective, Compute, Exchange, Op, Ref, Role, Schedule, Tensor
from simfrontier.schedule.kinds import COLLECTIVE_KINDS, OP_KINDS, TENSOR_ROLES, VIAS
from simfrontier.schedule.mesh import Mesh
from simfrontier.schedule.node import Node
from simfrontier.schedule.placement import Placement, parse_placement
from simfrontier.schedule.repeats import Item, Loop, Run, Step, calls_of_steps, num_steps, refs_of_run, unfolded
from simfrontier.schedule.roles import fault_of_end, fault_of_exchange, faults_of_places
from simfrontier.schedule.softmax import KERNELS, SOFTMAX_KINDS

FORMAT: Final = "simfrontier.schedule"
VERSION: Final = 1
MAX_CALLS: Final = 1_000_000  # 1,000 layers × 500 micro-batches; a file that asks for more is broken
MAX_DEPTH: Final = 32
MAX_OPERANDS: Final = 1_000_000


def from_json(text: str, where: str) -> Schedule:
    """The schedule that a JSON text describes; `where` (a file name) opens every message. Raises InputError."""
    try:
        value = json.loads(text, object_pairs_hook=_pairs, parse_float=_no_float, parse_constant=_no_float, strict=True)
    except json.JSONDecodeError as error:
        raise InputError(f"{where}: line {error.lineno} column {error.colno}: not JSON: {error.msg}") from error
    except RecursionError as error:
        raise InputError(f"{where}: not a schedule: nested too deeply") from error
    except ValueError as error:
        raise InputError(f"{where}: not a schedule: {error}") from error
    return _schedule(Node(value, where, ""))


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"key {next(n for n in names if names.count(n) > 1)!r} stands twice in one object")
    return out


def _no_float(text: str) -> Never:
    raise ValueError(f"{text} is not a whole number; a schedule holds no others")


def _schedule(node: Node) -> Schedule:
    if not isinstance(node.value, dict) or node.value.get("format") != FORMAT:
        node.fail(f'not a schedule: "format" is not "{FORMAT}"')
    if node.value.get("version") != VERSION:
        node.fail(f"version {json.dumps(node.value.get('version'))}; this simfrontier reads version {VERSION}")
    of = node.keys(("blocks", "format", "mesh", "meta", "ops", "pools", "roles", "tensors", "version"))
    mesh = _mesh(of["mesh"])
    tensors = {name: _tensor(name, item) for name, item in of["tensors"].members().items()}
    pools = {name: item.whole(0) for name, item in of["pools"].members().items()}
    for name, tensor in tensors.items():
        if tensor.pool is not None and tensor.pool not in pools:
            of["tensors"].key(name).key("pool").fail(f"unknown pool {tensor.pool!r}; {nearest(tensor.pool, pools)}")
    ops = [_op(item, mesh) for item in of["ops"].items()]
    blocks = [tuple([ops[number.whole(0, len(ops) - 1)] for number in item.items()]) for item in of["blocks"].items()]
    roles = tuple(_role(item, blocks) for item in of["roles"].items())
    _check_places(of["roles"], mesh, roles)
    return Schedule(mesh=mesh, tensors=tensors, roles=roles, pools=pools, meta=_meta(of["meta"]))


def _mesh(node: Node) -> Mesh:
    axes = []
    for item in node.items():
        name, size = item.items(2)
        axes.append((name.name(), size.whole(1)))
    try:
        return Mesh(tuple(axes))
    except InputError as error:
        node.fail(str(error))


def _meta(node: Node) -> Mapping[str, str | int]:
    out: dict[str, str | int] = {}
    for name, item in node.members().items():
        out[name] = item.value if isinstance(item.value, str) else item.whole()
    return out


def _tensor(name: str, node: Node) -> Tensor:
    of = node.keys(
        ("dtype", "placement", "role", "shape"),
        ("codec", "dims", "follows", "nesting", "per_layer", "per_micro", "persistent", "pool", "shares", "stacked"),
    )
    shape = tuple([item.whole(1) for item in of["shape"].items()])
    dims = of["dims"].texts() if "dims" in of else ()
    if dims and len(dims) != len(shape):
        of["dims"].fail(f"{len(dims)} labels; the shape has {len(shape)} dimensions")
    return Tensor(
        name=name,
        shape=shape,
        dtype=of["dtype"].choice(DTYPE_BYTES),
        role=of["role"].choice(TENSOR_ROLES),
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
    )


def _placement(node: Node) -> Placement:
    return node.parsed(parse_placement)


def _codec(node: Node) -> Codec:
    return node.parsed(lambda text: Codec(text) if text in INTEGERS else parse_codec(text))


def _op(node: Node, mesh: Mesh) -> Op:
    if not isinstance(node.value, dict) or "kind" not in node.value:
        node.fail("key 'kind' is missing")
    kind = node.key("kind").choice(OP_KINDS)
    if kind == Exchange.kind:
        return _exchange(node, mesh)
    return _collective(kind, node) if kind in COLLECTIVE_KINDS else _compute(kind, node)


def _compute(kind: str, node: Node) -> Compute:
    of = node.keys(
        ("kind", "lane", "name"),
        ("accumulates", "flops", "iteration", "kernel", "matmul", "max_age", "reads", "split", "writes"),
    )
    matmul = None
    if "matmul" in of:
        batch, m, n, k = (item.texts() for item in of["matmul"].items(4))
        matmul = (batch, m, n, k)
    if "kernel" in of and not (kind in SOFTMAX_KINDS and "reads" in of and "writes" in of):
        of["kernel"].fail(f"is of {' and '.join(sorted(SOFTMAX_KINDS))} only, with reads and writes, not of a {kind}")
    return Compute(
        kind=kind,
        name=of["name"].name(),
        reads=_refs(of.get("reads")),
        writes=_refs(of.get("writes")),
        accumulates=_refs(of.get("accumulates")),
        iteration=tuple((a.name(), b.whole(1)) for a, b in _two(of.get("iteration"))),
        split=tuple((a.name(), b.name()) for a, b in _two(of.get("split"))),
        matmul=matmul,
        flops=of["flops"].whole(0) if "flops" in of else 0,
        max_age=of["max_age"].whole(0) if "max_age" in of else 0,
        kernel=of["kernel"].choice(KERNELS) if "kernel" in of else "",
        lane=of["lane"].name(),
    )


def _collective(kind: Any, node: Node) -> Collective:
    of = node.keys(
        ("axes", "codec", "comm", "dst", "kind", "lane", "name", "src", "via"), ("blocking", "per_hop", "token")
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
    out: list[Ref] = []
    for item in [] if node is None else node.items():
        if isinstance(item.value, list) and item.value and not isinstance(item.value[0], str):
            times, refs, step = item.items(3)
            group = tuple([_ref(ref) for ref in refs.items()])
            times.whole(1, MAX_OPERANDS // max(1, len(group)))
            out += refs_of_run(Run(times.value, group, step.whole()))
        else:
            out.append(_ref(item))
    return tuple(out)


def _ref(node: Node) -> Ref:
    if isinstance(node.value, str):
        return Ref(node.name())
    name, layer, micro = node.items(3)
    return Ref(name.name(), layer.whole(), micro.whole())


def _role(node: Node, blocks: list[tuple[Op, ...]]) -> Role:
    of = node.keys(("calls", "name"), ("at",))
    items = _items(of["calls"], len(blocks), 0)
    count = num_steps(items)
    if count > MAX_CALLS:
        of["calls"].fail(f"the loops mean {count} calls; allowed: up to {MAX_CALLS}")
    calls = calls_of_steps(unfolded(items), blocks)
    low = min((min(call.layer, call.micro) for call in calls), default=0)
    if low < 0:
        of["calls"].fail(f"the steps lead to layer or micro-batch {low}; allowed: 0 or more")
    return Role(of["name"].name(), calls, _at(of["at"]) if "at" in of else None)


def _check_places(node: Node, mesh: Mesh, roles: tuple[Role, ...]) -> None:
    """Roles stand where they may, and an exchange stands only with the roles at its ends."""
    for number, said in faults_of_places(mesh, roles):
        place = node.items()[number]
        (place if roles[number].at is None else place.key("at")).fail(said)
    for item, role in zip(node.items(), roles, strict=True):
        for ops in {id(call.ops): call.ops for call in role.calls}.values():
            for op in ops:
                fault = fault_of_end(op, role) if isinstance(op, Exchange) else None
                if fault is not None:
                    item.key("calls").fail(fault)


def _at(node: Node) -> tuple[str, int]:
    axis, coordinate = node.items(2)
    return axis.name(), coordinate.whole()


def _items(node: Node, num_blocks: int, depth: int) -> tuple[Item, ...]:
    if depth > MAX_DEPTH:
        node.fail(f"loops nested more than {MAX_DEPTH} deep")
    out: list[Item] = []
    for item in node.items():
        entries = item.items()
        if entries and isinstance(entries[0].value, str):
            label, block, layer, micro = item.items(4)
            out.append(Step(label.name(), block.whole(0, num_blocks - 1), layer.whole(), micro.whole()))
        else:
            times, body = item.items(2)
            out.append(Loop(times.whole(1), _items(body, num_blocks, depth + 1)))
    return tuple(out)
