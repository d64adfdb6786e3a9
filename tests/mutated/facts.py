"""Single changes of a stored schedule: for every kind of fact in the file, other values that it could have."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, get_args

from simfrontier.core.dtypes import DTYPE_BYTES
from simfrontier.core.program.cost import KERNELS
from simfrontier.core.program.ir import Stage, TensorRole
from simfrontier.core.program.kinds import COLLECTIVES, KINDS
from simfrontier.core.program.names import VIAS
from simfrontier.core.program.op_kind import CallKind, ModelKind
from simfrontier.core.program.store import OP_KINDS

GONE: Final = object()  # the key is removed
CODECS: Final = ("fp64", "fp32", "fp16", "int8:64", "int4:64", "int8:32", "zfp:16")
REFS: Final = ("reads", "writes", "accumulates", "src", "dst", "back_src", "back_dst")
Path = tuple[str | int, ...]

COMPUTE_KINDS = frozenset(name for name in OP_KINDS if not isinstance(KINDS[name], CallKind))
COLLECTIVE_KINDS = frozenset(kind.name for kind in COLLECTIVES)


@dataclass(frozen=True, slots=True)
class Mutation:
    """One fact of a stored schedule with another value; `kind` groups like facts (`tensor.dtype`)."""

    kind: str
    path: Path
    value: Any

    def __str__(self) -> str:
        return (
            f"{'.'.join(map(str, self.path))} = {'(removed)' if self.value is GONE else json.dumps(self.value)[:160]}"
        )

    def of(self, text: str) -> str:
        """The stored text with this one fact changed."""
        form = json.loads(text)
        holder = form
        for key in self.path[:-1]:
            holder = holder[key]
        if self.value is GONE:
            del holder[self.path[-1]]
        else:
            holder[self.path[-1]] = self.value
        return json.dumps(form)


def sampled(text: str, numbers: random.Random, per_kind: int) -> list[Mutation]:
    """So many mutations of every kind of fact that the schedule has, drawn by `numbers`."""
    by_kind: defaultdict[str, list[Mutation]] = defaultdict(list)
    for mutation in every(json.loads(text), numbers):
        by_kind[mutation.kind].append(mutation)
    return [m for kind in sorted(by_kind) for m in numbers.sample(by_kind[kind], min(per_kind, len(by_kind[kind])))]


def every(form: dict[str, Any], numbers: random.Random) -> Iterator[Mutation]:
    """Mutations of all facts of a stored form, some of every fact."""
    yield from _top(form, numbers)
    for name in form["tensors"]:
        yield from _tensor(form, name, numbers)
    for number in range(len(form["ops"])):
        yield from _op(form, number, numbers)
    for number, block in enumerate(form["blocks"]):
        for changed, what in _lists(block, numbers, lambda _: numbers.randrange(len(form["ops"]))):
            yield Mutation(f"block.{what}", ("blocks", number), changed)
    for number, role in enumerate(form["roles"]):
        yield from _role(form, number, role, numbers)


def _top(form: dict[str, Any], numbers: random.Random) -> Iterator[Mutation]:
    for i, (_, size) in enumerate(form["mesh"]):
        for other in (2 * size, 3 * size, 1):
            yield from _changed("mesh.size", ("mesh", i, 1), size, other)
    for changed, what in _lists(form["mesh"], numbers):
        yield Mutation(f"mesh.{what}", ("mesh",), changed)
    for name, value in form["meta"].items():
        others = (value + 1, value - 1, 2 * value) if isinstance(value, int) else ("other", "")
        for other in (*others, GONE):
            yield Mutation(f"meta.{name}", ("meta", name), other)
    for name, value in form["pools"].items():
        for other in (2 * value, value // 2, 0, GONE):
            yield Mutation("pool", ("pools", name), other)


def _tensor(form: dict[str, Any], name: str, numbers: random.Random) -> Iterator[Mutation]:
    tensor, at = form["tensors"][name], ("tensors", name)
    axes = [axis for axis, _ in form["mesh"]]
    yield Mutation("tensor.removed", at, GONE)
    yield from _choices("tensor.dtype", (*at, "dtype"), tensor["dtype"], DTYPE_BYTES, numbers)
    yield from _choices("tensor.role", (*at, "role"), tensor["role"], get_args(TensorRole), numbers)
    for axis in axes:
        parts = [
            part for part in tensor["placement"].split() if part != "replicate" and not part.startswith(f"{axis}:")
        ]
        for how in ("", "flat", "partial(sum)", "partial(max)", "shard(0)", "shard(1)"):
            placed = " ".join([*parts, f"{axis}:{how}"] if how else parts) or "replicate"
            yield from _changed("tensor.placement", (*at, "placement"), tensor["placement"], placed)
    shape = tensor["shape"]
    for i, size in enumerate(shape):
        for other in (2 * size, size + 1, size // 2):
            yield from _changed("tensor.shape", (*at, "shape", i), size, other)
    yield from _changed("tensor.shape", (*at, "shape"), shape, shape[::-1])
    labels = [label for each in form["tensors"].values() for label in each.get("dims", ())]
    for changed, what in _lists(tensor.get("dims", []), numbers, lambda _: numbers.choice(labels)):
        yield Mutation(f"tensor.dims.{what}", (*at, "dims"), changed)
    yield Mutation("tensor.dims.none", (*at, "dims"), [])
    for key in ("nesting", "stacked"):
        now = tensor.get(key, [])
        for other in ([], now[::-1], now[1:], now[:-1], [*now, numbers.choice(axes)], numbers.sample(axes, len(axes))):
            yield from _changed(f"tensor.{key}", (*at, key), now, other)
    for flag in ("per_layer", "per_micro", "persistent"):
        yield Mutation(f"tensor.{flag}", (*at, flag), not tensor.get(flag, False))
    weights = tuple(n for n, t in form["tensors"].items() if t["role"] == "weight")
    seen = {key: [t[key] for t in form["tensors"].values() if key in t] for key in ("form_of", "recomputes", "local")}
    for key, others in (
        ("weight", weights),
        *((key, (*dict.fromkeys(values), name)) for key, values in seen.items()),
        ("stage", get_args(Stage)),
        ("streams", ([], ["one"], ["one", "other"])),
        ("codec", CODECS),
        ("pool", tuple(form["pools"])),
        ("shares", tuple(form["tensors"])),
        ("follows", tuple(n for n, t in form["tensors"].items() if t["role"] in ("weight", "state"))),
    ):
        yield from _choices(f"tensor.{key}", (*at, key), tensor.get(key), others, numbers)
        if key == "shares":
            alike = [n for n, t in form["tensors"].items() if (t["shape"], t["dtype"]) == (shape, tensor["dtype"])]
            yield from _choices("tensor.shares.alike", (*at, key), name, alike, numbers)
        if key in tensor:
            yield Mutation(f"tensor.{key}.gone", (*at, key), GONE)


def _op(form: dict[str, Any], number: int, numbers: random.Random) -> Iterator[Mutation]:
    op, at, ops = form["ops"][number], ("ops", number), form["ops"]
    kind = op["kind"]
    is_compute = kind in COMPUTE_KINDS
    if kind != "exchange":
        kinds = COMPUTE_KINDS if is_compute else COLLECTIVE_KINDS
        yield from _choices("op.kind", (*at, "kind"), kind, kinds, numbers)
    for key in ("name", "module", "streams", "lane", "comm", "codec", "axis", "token"):
        if key in op:
            seen = dict.fromkeys(json.dumps(each[key]) for each in ops if key in each)
            values = [json.loads(each) for each in (*seen, *map(json.dumps, CODECS if key == "codec" else ()))]
            yield from _choices(f"op.{key}", (*at, key), op[key], values, numbers)
    if "token" in op:
        yield Mutation("op.token", (*at, "token"), GONE)
    for key in REFS:
        if op.get(key):
            yield from _refs(form, f"op.{key}", (*at, key), op[key], numbers)
    if is_compute:
        yield from _work(form, op, at, numbers)
    else:
        yield Mutation("op.blocking", (*at, "blocking"), not op.get("blocking", False))
    if "via" in op:
        yield from _choices("op.via", (*at, "via"), op["via"], VIAS, numbers)
        yield Mutation("op.per_hop", (*at, "per_hop"), not op.get("per_hop", False))
        for changed, what in _lists(op["axes"], numbers, lambda _: numbers.choice(form["mesh"])[0]):
            yield Mutation(f"op.axes.{what}", (*at, "axes"), changed)
        if len(op["src"]) > 1:
            i = numbers.randrange(len(op["src"]))
            for key in ("src", "dst"):
                yield Mutation("op.pair", (*at, key), op[key][:i] + op[key][i + 1 :])
    if "ends" in op:
        for ends in (op["ends"][::-1], [op["ends"][0], op["ends"][0]], [end + 1 for end in op["ends"]]):
            yield Mutation("op.ends", (*at, "ends"), ends)


def _work(form: dict[str, Any], op: dict[str, Any], at: Path, numbers: random.Random) -> Iterator[Mutation]:
    """What only an op that computes has."""
    if isinstance(kind := KINDS[op["kind"]], ModelKind):
        yield from _choices("op.part", (*at, "part"), op.get("part"), sorted(kind.parts), numbers)
        if "part" in op:
            yield Mutation("op.part.gone", (*at, "part"), GONE)
    flops = op.get("flops", 0)
    for other in (2 * flops, flops + 1, 0, 1000):
        yield from _changed("op.flops", (*at, "flops"), flops, other)
    for other in (op.get("max_age", 0) + 1, 0):
        yield from _changed("op.max_age", (*at, "max_age"), op.get("max_age", 0), other)
    if op["kind"] in ("softmax", "loss"):
        yield from _choices("op.kernel", (*at, "kernel"), op.get("kernel", "fused"), KERNELS, numbers)
        if "kernel" in op:
            yield Mutation("op.kernel", (*at, "kernel"), GONE)
    iteration, labels = op.get("iteration", []), [label for label, _ in op.get("iteration", [])]
    for i, (_, size) in enumerate(iteration):
        for other in (2 * size, 1, size + 1):
            yield from _changed("op.iteration.size", (*at, "iteration", i, 1), size, other)
    for changed, what in _lists(iteration, numbers, lambda each: ["zz", each[1]]):
        yield Mutation(f"op.iteration.{what}", (*at, "iteration"), changed)
    axes = [axis for axis, _ in form["mesh"]]
    if iteration:
        split = op.get("split", [])
        for changed, what in _lists(split, numbers, lambda each: [each[0], numbers.choice(labels)]):
            yield Mutation(f"op.split.{what}", (*at, "split"), changed)
        free = [axis for axis in axes if axis not in dict(split)]
        if free:
            added = [numbers.choice(free), numbers.choice(labels)]
            yield Mutation("op.split.added", (*at, "split"), [*split, added])
    if "matmul" in op:
        groups = op["matmul"]
        for changed, what in _lists(groups, numbers):
            if what != "dropped":
                yield Mutation(f"op.matmul.{what}", (*at, "matmul"), changed[:4] if what == "twice" else changed)
        for i, group in enumerate(groups):
            for changed, what in _lists(group, numbers, lambda _: numbers.choice(labels)):
                yield Mutation(f"op.matmul.labels.{what}", (*at, "matmul", i), changed)
        yield Mutation("op.matmul.gone", (*at, "matmul"), GONE)


def _refs(form: dict[str, Any], kind: str, at: Path, refs: list[Any], numbers: random.Random) -> Iterator[Mutation]:
    def other(_: Any) -> Any:
        return numbers.choice(list(form["tensors"]))

    for changed, what in _lists(refs, numbers, other):
        yield Mutation(f"{kind}.{what}", at, changed)
    for i, ref in enumerate(refs):
        if isinstance(ref, list) and isinstance(ref[0], int):
            for j in (0, 2):
                for delta in (1, -1):
                    yield Mutation(f"{kind}.run", (*at, i, j), ref[j] + delta)
            continue
        name, layer, micro = ref if isinstance(ref, list) else (ref, 0, 0)
        for delta in (1, -1):
            yield Mutation(f"{kind}.layer", (*at, i), [name, layer + delta, micro])
            yield Mutation(f"{kind}.micro", (*at, i), [name, layer, micro + delta])
    alike = form["tensors"].get(name := refs[0] if isinstance(refs[0], str) else refs[0][0])
    if alike is not None:
        twins = [n for n, t in form["tensors"].items() if n != name and t["shape"] == alike["shape"]]
        for twin in numbers.sample(twins, min(2, len(twins))):
            yield Mutation(f"{kind}.alike", (*at, 0), twin)


def _role(form: dict[str, Any], number: int, role: dict[str, Any], numbers: random.Random) -> Iterator[Mutation]:
    at: Path = ("roles", number)
    yield Mutation("role.name", (*at, "name"), "other")
    if "at" in role:
        yield Mutation("role.at", (*at, "at"), GONE)
        yield Mutation("role.at", (*at, "at"), [role["at"][0], role["at"][1] + 1])
    yield from _items(form, (*at, "calls"), role["calls"], numbers)


def _items(form: dict[str, Any], at: Path, items: list[Any], numbers: random.Random) -> Iterator[Mutation]:
    for changed, what in _lists(items, numbers):
        yield Mutation(f"call.{what}", at, changed)
    for i, item in enumerate(items):
        here = (*at, i)
        if isinstance(item, dict):
            for key in ("times", "layers", "micros"):
                for delta in (1, -1):
                    yield Mutation(f"call.{key}", (*here, key), item[key] + delta)
            yield from _items(form, (*here, "calls"), item["calls"], numbers)
            continue
        yield Mutation("call.label", (*here, 0), "other")
        yield from _choices("call.block", (*here, 1), item[1], range(len(form["blocks"])), numbers)
        for j, what in ((2, "layer"), (3, "micro")):
            for delta in (1, -1):
                yield Mutation(f"call.{what}", (*here, j), item[j] + delta)


def _lists(
    items: Sequence[Any], numbers: random.Random, other: Callable[[Any], Any] | None = None
) -> Iterator[tuple[list[Any], str]]:
    """A list with an item dropped, twice, swapped with the next, or (`other`) replaced: at one place each."""
    held = list(items)
    if not held:
        return
    i = numbers.randrange(len(held))
    yield held[:i] + held[i + 1 :], "dropped"
    yield [*held[:i], held[i], *held[i:]], "twice"
    if other is not None:
        value = other(held[i])
        if value != held[i]:
            yield [*held[:i], value, *held[i + 1 :]], "replaced"
    if i + 1 < len(held) and held[i] != held[i + 1]:
        yield [*held[:i], held[i + 1], held[i], *held[i + 2 :]], "swapped"


def _changed(kind: str, path: Path, now: Any, other: Any) -> Iterator[Mutation]:
    if other != now:
        yield Mutation(kind, path, other)


def _choices(
    kind: str, path: Path, now: Any, others: Any, numbers: random.Random, count: int = 2
) -> Iterator[Mutation]:
    left = [other for other in sorted(others, key=repr) if other != now]
    for other in numbers.sample(left, min(count, len(left))):
        yield Mutation(kind, path, other)
