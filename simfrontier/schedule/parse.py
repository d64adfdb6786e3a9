"""Reading the stored form of a schedule: every fault is one InputError that names the file and the place in it."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, Never, TypeVar

from simfrontier.errors import InputError, nearest
from simfrontier.schedule.codec import DTYPE_BYTES, Codec, parse_codec
from simfrontier.schedule.ir import Collective, Compute, Op, Ref, Role, Schedule, Tensor
from simfrontier.schedule.kinds import COLLECTIVE_KINDS, COMPUTE_KINDS, TENSOR_ROLES, VIAS
from simfrontier.schedule.mesh import Mesh
from simfrontier.schedule.placement import Placement, parse_placement
from simfrontier.schedule.repeats import Item, Loop, Run, Step, calls_of_steps, num_steps, refs_of_run, unfolded

FORMAT: Final = "simfrontier.schedule"
VERSION: Final = 1
MAX_CALLS: Final = 1_000_000  # 1,000 layers × 500 micro-batches; a file that asks for more is broken
MAX_DEPTH: Final = 32
MAX_OPERANDS: Final = 1_000_000

T = TypeVar("T")


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
    return _schedule(_Node(value, where, ""))


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"key {next(n for n in names if names.count(n) > 1)!r} stands twice in one object")
    return out


def _no_float(text: str) -> Never:
    raise ValueError(f"{text} is not a whole number; a schedule holds no others")


class _Node:
    """A JSON value and its path; every reader either gives the value in its type or raises InputError."""

    __slots__ = ("path", "value", "where")

    def __init__(self, value: Any, where: str, path: str) -> None:
        self.value, self.where, self.path = value, where, path

    def fail(self, said: str) -> Never:
        raise InputError(f"{self.where}: {self.path + ': ' if self.path else ''}{said}")

    def _wrong(self, wanted: str) -> Never:
        shown = json.dumps(self.value)
        self.fail(f"{shown if len(shown) <= 60 else shown[:57] + '...'} is not {wanted}")

    def key(self, name: str) -> _Node:
        return _Node(self.value[name], self.where, f"{self.path}.{name}" if self.path else name)

    def keys(self, required: Collection[str], optional: Collection[str] = ()) -> dict[str, _Node]:
        """The members of an object with exactly these keys."""
        if not isinstance(self.value, dict):
            self._wrong("an object")
        for name in self.value:
            if name not in required and name not in optional:
                self.fail(f"unknown key {name!r}; {nearest(name, (*required, *optional))}")
        for name in required:
            if name not in self.value:
                self.fail(f"key {name!r} is missing")
        return {name: self.key(name) for name in self.value}

    def members(self) -> dict[str, _Node]:
        if not isinstance(self.value, dict):
            self._wrong("an object")
        return {name: self.key(name) for name in self.value}

    def items(self, size: int | None = None) -> list[_Node]:
        if not isinstance(self.value, list):
            self._wrong("a list")
        if size is not None and len(self.value) != size:
            self.fail(f"{len(self.value)} entries; expected {size}")
        return [_Node(value, self.where, f"{self.path}[{i}]") for i, value in enumerate(self.value)]

    def text(self) -> str:
        if not isinstance(self.value, str):
            self._wrong("a text")
        return self.value

    def name(self) -> str:
        """A text of at least one character."""
        return self.text() or self.fail("an empty text")

    def choice(self, allowed: Collection[str]) -> Any:
        text = self.text()
        if text not in allowed:
            self.fail(f"unknown {text!r}; {nearest(text, allowed)}")
        return text

    def whole(self, least: int | None = None, most: int | None = None) -> int:
        """A whole number of at least `least` and at most `most`."""
        if not isinstance(self.value, int) or isinstance(self.value, bool):
            self._wrong("a whole number")
        if (least is not None and self.value < least) or (most is not None and self.value > most):
            self.fail(
                f"{self.value} is out of range; allowed: {least} or more" + ("" if most is None else f", up to {most}")
            )
        return self.value

    def flag(self) -> bool:
        if not isinstance(self.value, bool):
            self._wrong("true or false")
        return self.value

    def parsed(self, parse: Callable[[str], T]) -> T:
        """What a text means to a parser that raises InputError."""
        text = self.text()
        try:
            return parse(text)
        except InputError as error:
            self.fail(str(error))

    def texts(self) -> tuple[str, ...]:
        return tuple([item.name() for item in self.items()])


def _schedule(node: _Node) -> Schedule:
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
    ops = [_op(item) for item in of["ops"].items()]
    blocks = [tuple([ops[number.whole(0, len(ops) - 1)] for number in item.items()]) for item in of["blocks"].items()]
    roles = tuple(_role(item, blocks) for item in of["roles"].items())
    return Schedule(mesh=mesh, tensors=tensors, roles=roles, pools=pools, meta=_meta(of["meta"]))


def _mesh(node: _Node) -> Mesh:
    axes = []
    for item in node.items():
        name, size = item.items(2)
        axes.append((name.name(), size.whole(1)))
    try:
        return Mesh(tuple(axes))
    except InputError as error:
        node.fail(str(error))


def _meta(node: _Node) -> Mapping[str, str | int]:
    out: dict[str, str | int] = {}
    for name, item in node.members().items():
        out[name] = item.value if isinstance(item.value, str) else item.whole()
    return out


def _tensor(name: str, node: _Node) -> Tensor:
    of = node.keys(
        ("dtype", "placement", "role", "shape"),
        ("codec", "dims", "nesting", "per_layer", "per_micro", "persistent", "pool", "shares", "stacked"),
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
    )


def _placement(node: _Node) -> Placement:
    return node.parsed(parse_placement)


def _codec(node: _Node) -> Codec:
    return node.parsed(parse_codec)


def _op(node: _Node) -> Op:
    if not isinstance(node.value, dict) or "kind" not in node.value:
        node.fail("key 'kind' is missing")
    kind = node.key("kind").choice(COMPUTE_KINDS | COLLECTIVE_KINDS)
    return _collective(kind, node) if kind in COLLECTIVE_KINDS else _compute(kind, node)


def _compute(kind: str, node: _Node) -> Compute:
    of = node.keys(
        ("kind", "lane", "name"),
        ("accumulates", "flops", "iteration", "matmul", "max_age", "reads", "split", "writes"),
    )
    matmul = None
    if "matmul" in of:
        batch, m, n, k = (item.texts() for item in of["matmul"].items(4))
        matmul = (batch, m, n, k)
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
        lane=of["lane"].name(),
    )


def _collective(kind: Any, node: _Node) -> Collective:
    of = node.keys(("axes", "codec", "comm", "dst", "kind", "lane", "name", "src", "via"), ("blocking", "token"))
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
    )


def _two(node: _Node | None) -> list[tuple[_Node, _Node]]:
    return [] if node is None else [(a, b) for a, b in (item.items(2) for item in node.items())]


def _refs(node: _Node | None) -> tuple[Ref, ...]:
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


def _ref(node: _Node) -> Ref:
    if isinstance(node.value, str):
        return Ref(node.name())
    name, layer, micro = node.items(3)
    return Ref(name.name(), layer.whole(), micro.whole())


def _role(node: _Node, blocks: list[tuple[Op, ...]]) -> Role:
    of = node.keys(("calls", "name"))
    items = _items(of["calls"], len(blocks), 0)
    count = num_steps(items)
    if count > MAX_CALLS:
        of["calls"].fail(f"the loops mean {count} calls; allowed: up to {MAX_CALLS}")
    calls = calls_of_steps(unfolded(items), blocks)
    low = min((min(call.layer, call.micro) for call in calls), default=0)
    if low < 0:
        of["calls"].fail(f"the steps lead to layer or micro-batch {low}; allowed: 0 or more")
    return Role(of["name"].name(), calls)


def _items(node: _Node, num_blocks: int, depth: int) -> tuple[Item, ...]:
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
