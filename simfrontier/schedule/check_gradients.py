"""The rules of backward passes: an op named after another (`qkv.dgrad` after `qkv`) makes gradients of what that one
reads, from every gradient of what it makes and from no other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from simfrontier.schedule.check_work import Fault, value_of
from simfrontier.schedule.family import weights_of
from simfrontier.schedule.finding import Findings, ranks_of_role
from simfrontier.schedule.ir import Compute, Ref, Role, Schedule, Tensor
from simfrontier.schedule.kinds import MODEL_KINDS, MUGS_KINDS

# what workloads name the ops after that make the gradients of another's operands
PARTS: Final = frozenset({"backward", "dgrad", "wgrad", "dquery", "dkey", "dvalue", "dprobabilities"})
SUMS: Final = ".sums"  # sums over features that ranks share, made before the op that they are named after
OTHER_KIND: Final = {"lookup": "scatter"}  # kinds whose gradient is of another
ENDS: Final = frozenset({"loss", "contrast", "cluster"})  # these read a value and write its gradient
OF_A_LOSS: Final = frozenset({"loss_online", "loss_pairs", "loss_sum", "loss_sums"})  # a loss reads all that these read
WITH_SUMS: Final = frozenset({"norm", "norm_sums"})  # these add gradients that come by other ways
GRADIENT_LAST: Final = frozenset({"scatter"})
NEEDS_INPUT: Final = frozenset({"attention", "gelu", "norm", "norm_sums", "scatter"})  # and all that was read forward
NEEDS_WEIGHT: Final = frozenset({"norm", "norm_sums"})  # and the first weight
NEEDS_RESULT: Final = frozenset({"attention", "softmax"})  # and what was made of it
FUSED: Final = frozenset({"weight_norm"})  # the gradient is made together with that of the product with the result


def check_gradients(schedule: Schedule, found: Findings) -> None:
    """Every op of the model that makes gradients."""
    weights = weights_of(schedule.tensors)
    works = [op for op in schedule.distinct_ops() if isinstance(op, Compute) and op.kind in MODEL_KINDS]
    for name, (expected, got) in _faults([_named(op, schedule.tensors, weights) for op in works], schedule.tensors):
        kind = next(op.kind for op in works if op.name == name)
        found.add("facts", f"{kind} {name}", "all ranks", expected, got)
    for role in schedule.roles:
        for name, (expected, got) in _elsewhere(role, schedule.tensors):
            found.add("facts", name, ranks_of_role(role, schedule.roles), expected, got)


def _elsewhere(role: Role, tensors: Mapping[str, Tensor]) -> Iterator[tuple[str, Fault]]:
    """Ops that read a value of other layers or micro-batches than the op does whose gradients they make."""
    blocks: defaultdict[int, set[tuple[int, int]]] = defaultdict(set)
    ops = {id(call.ops): call.ops for call in role.calls}
    for call in role.calls:
        blocks[id(call.ops)].add((call.layer, call.micro))
    moved: dict[tuple[int, int, int], frozenset[tuple[int, int]]] = {}  # the calls of a block, from a reference
    touched: defaultdict[tuple[str, str], set[frozenset[tuple[int, int]]]] = defaultdict(set)  # by op and value
    backward: dict[str, tuple[str, Compute]] = {}
    for block, calls in blocks.items():
        for op in ops[block]:
            if not isinstance(op, Compute) or op.kind not in MODEL_KINDS:
                continue
            if source := _source(op.name):
                backward[op.name] = (source, op)
            for ref in (*op.reads, *op.writes) if not source else op.reads:
                tensor = tensors[ref.name]
                if tensor.role == "activation" and tensor.per_layer and tensor.per_micro:
                    key = (block, ref.layer, ref.micro)
                    if key not in moved:
                        moved[key] = frozenset((layer + ref.layer, micro + ref.micro) for layer, micro in calls)
                    touched[op.name, value_of(ref.name, tensors)].add(moved[key])
    for name, (source, op) in backward.items():
        for value in dict.fromkeys(value_of(ref.name, tensors) for ref in op.reads):
            theirs, mine = touched.get((source, value)), touched.get((name, value))
            if theirs and mine and frozenset().union(*theirs) != frozenset().union(*mine):
                yield f"{op.kind} {name}", (f"{value} of the layers and micro-batches of {source}", "others")


def _source(name: str) -> str:
    """The op that one is named after that makes gradients; nothing of another."""
    source, _, part = name.removesuffix(SUMS).rpartition(".")
    return source if part in PARTS else ""


@dataclass(frozen=True, slots=True)
class _Op:
    """An op by the values that it touches (`x.again` is `x`), without states and tokens."""

    name: str
    kind: str
    source: str  # the op that it is named after; empty in a forward pass
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    weights: tuple[str, ...]  # that it reads
    made: tuple[str, ...]  # weights that it makes gradients of
    factors: tuple[str, ...]  # values, weights and states that it reads, but for biases
    read_refs: tuple[Ref, ...]


def _faults(ops: Sequence[_Op], tensors: Mapping[str, Tensor]) -> Iterator[tuple[str, Fault]]:
    """(name of an op, fault)."""
    graph = _Graph(ops, tensors)
    for op in ops:
        if op.source and op.source not in graph.forward:
            yield op.name, (f"an op {op.source}, of which this makes gradients", "none")
        elif op.source and op.kind != "add":
            is_fused = graph.forward[op.source].kind in FUSED
            for fault in graph.faults_of_fused(op) if is_fused else graph.faults(op):
                yield op.name, fault
    yield from graph.unlike()
    yield from graph.untrained()
    yield from graph.ends()


def _named(op: Compute, tensors: Mapping[str, Tensor], weights: Mapping[str, str | None]) -> _Op:
    values = [ref for ref in op.reads if tensors[ref.name].role == "activation"]
    factors = [
        ref.name for ref in op.reads if tensors[ref.name].role != "token" and not _is_bias(op, tensors[ref.name])
    ]
    return _Op(
        name=op.name,
        kind=op.kind,
        source=_source(op.name),
        reads=tuple(value_of(ref.name, tensors) for ref in values),
        writes=tuple(value_of(ref.name, tensors) for ref in op.writes if tensors[ref.name].role == "activation"),
        weights=tuple(filter(None, (weights[ref.name] for ref in op.reads))),
        made=tuple(filter(None, (weights[ref.name] for ref in (*op.writes, *op.accumulates)))),
        factors=tuple(weights[name] or value_of(name, tensors) for name in factors),
        read_refs=tuple(ref._replace(name=value_of(ref.name, tensors)) for ref in values),
    )


def _is_bias(op: Compute, tensor: Tensor) -> bool:
    return op.kind == "matmul" and tensor.role != "activation" and len(tensor.shape) == 1


class _Graph:
    """Which values are sums of which, which are gradients of which, and by which ops each gradient came."""

    def __init__(self, ops: Sequence[_Op], tensors: Mapping[str, Tensor]) -> None:
        self.ops, self.tensors = ops, tensors
        self.forward: dict[str, _Op] = {}
        for op in ops:
            if not op.source:
                self.forward.setdefault(op.name, op)
        self.sums: defaultdict[str, set[str]] = defaultdict(set)  # from a value to the sums that it is a part of
        for op in self.forward.values():
            if op.kind == "add":
                for value in op.reads:
                    self.sums[value].update(op.writes)
        self.inputs = {op.name: self._inputs(op) for op in self.forward.values() if op.kind in ENDS}
        self.gradients: defaultdict[str, set[str]] = defaultdict(set)  # the values that a value is a gradient of
        for op in ops:
            for value in op.writes:
                if op.kind in ENDS:
                    self.gradients[value].update(self.inputs.get(op.name, ()))
                elif op.source in self.forward and op.kind != "add":
                    self.gradients[value].update(self.forward[op.source].reads)
        for op in ops:
            for value in op.writes if op.kind == "add" else ():
                self.gradients[value].update(*(self.gradients.get(part, ()) for part in op.reads))
        self.gradients = defaultdict(set, {value: wrt for value, wrt in self.gradients.items() if wrt})
        backward = {op.source for op in ops if op.kind != "add"}
        self.differentiated = backward & self.forward.keys() | self.inputs.keys()
        self.ways = self._ways()

    def _inputs(self, end: _Op) -> tuple[str, ...]:
        """What a loss makes a gradient of: values of that shape that it reads, or that its other ops make it of."""
        shapes = {self.tensors[value].shape for value in end.writes if value in self.tensors}
        found: dict[str, None] = {}
        waiting = list(end.reads)
        while waiting:
            value = waiting.pop()
            if value not in found and value in self.tensors and self.tensors[value].shape in shapes:
                found[value] = None
                makers = [op for op in self.forward.values() if value in op.writes and op.kind.startswith("loss")]
                waiting += [each for op in makers for each in op.reads]
        return tuple(found)

    def _ways(self) -> dict[str, set[str]]:
        """From each gradient to the ops of the forward pass by which it came."""
        ways: dict[str, set[str]] = {value: set() for value in self.gradients}
        grown = True
        while grown:
            grown = False
            for op in self.ops:
                if op.kind == "add":
                    came = set().union(*(ways.get(part, ()) for part in op.reads))
                elif op.source in self.forward:
                    came = {op.source}.union(*(ways[each] for each in self.parted(op)[1]))
                else:
                    came = {op.name}
                for value in op.writes:
                    if value in ways and not came <= ways[value]:
                        ways[value] |= came
                        grown = True
        return ways

    def _reached(self, values: Sequence[str]) -> set[str]:
        """Values, and all sums that they are parts of."""
        seen, waiting = set(values), list(values)
        while waiting:
            for value in self.sums.get(waiting.pop(), ()):
                if value not in seen:
                    seen.add(value)
                    waiting.append(value)
        return seen

    def parted(self, op: _Op) -> tuple[list[str], list[str], list[str]]:
        """The gradients that an op reads: of what its forward op makes, of what that reads (by other ways), others."""
        source = self.forward[op.source]
        made, read = self._reached(source.writes), self._reached(source.reads)
        parts: tuple[list[str], list[str], list[str]] = ([], [], [])
        for value in op.reads:
            wrt = self.gradients.get(value)
            if wrt:
                parts[0 if wrt & made else 1 if wrt & read else 2].append(value)
        return parts

    def faults(self, op: _Op) -> Iterator[Fault]:
        """What is wrong with an op that makes gradients."""
        source = self.forward[op.source]
        if op.kind not in (source.kind, OTHER_KIND.get(source.kind)) and not op.name.endswith(SUMS):
            yield f"the kind of what it is the gradient of, {source.kind}", op.kind
        mine, other_ways, strange = self.parted(op)
        strange += [v for v in op.reads if v not in self.gradients and v not in (*source.reads, *source.writes)]
        strange += other_ways if op.kind not in WITH_SUMS else []
        if strange:
            yield f"gradients of {_told(source.writes)}, and what {source.name} reads and makes", _told(strange)
        lacking = self._users(source) - set().union(*(self.ways[value] for value in mine))
        if lacking or not mine:
            yield f"the gradient of {_told(source.writes)} by {_told(sorted(lacking)) or 'any op'}", _told(op.reads)
            return
        read, theirs = {*op.reads, *op.weights}, {*source.reads, *source.writes, *source.weights}
        if op.kind in NEEDS_INPUT and not read.issuperset(source.reads):
            yield f"all that {source.name} reads, {_told(source.reads)}", _told(op.reads)
        elif op.kind in NEEDS_WEIGHT and not {*source.weights[:1]} <= read:
            yield f"{source.weights[0]}, which {source.name} reads", _told(op.reads)
        elif op.kind in NEEDS_RESULT and not read.issuperset(source.writes):
            yield f"all that {source.name} makes, {_told(source.writes)}", _told(op.reads)
        elif op.kind == "matmul":
            yield from self._factors(op, source, mine)
        elif op.kind not in MUGS_KINDS and not read & theirs:
            yield f"one of {_told(sorted(theirs))}, which {source.name} reads or makes", _told(op.reads)
        places = [op.reads.index(value) for value in mine]
        if places != list(range(places[0], places[0] + len(places))):
            yield f"{_told(mine)} side by side", _told(op.reads)
        elif (order := [self._place(value, source) for value in mine]) != sorted(order):
            yield f"gradients in the order of {_told(source.writes)}", _told(mine)
        elif op.kind != "matmul" and places[0] != (len(op.reads) - len(mine) if op.kind in GRADIENT_LAST else 0):
            yield f"{_told(mine)} {'last' if op.kind in GRADIENT_LAST else 'first'}", _told(op.reads)

    def _place(self, gradient: str, source: _Op) -> int:
        """The first result of an op that a value is a gradient of."""
        wrt = self.gradients[gradient]
        return next(at for at, value in enumerate(source.writes) if wrt & self._reached((value,)))

    def ends(self) -> Iterator[tuple[str, Fault]]:
        """A loss reads first what it makes a gradient of, and all that its other ops go by."""
        for op in self.ops:
            inputs = self.inputs.get(op.name, ())
            if op.kind not in ENDS or op.source:
                continue
            if not op.reads or op.reads[0] not in inputs:
                yield op.name, (f"{_told(inputs)} first, of which {_told(op.writes)} is the gradient", _told(op.reads))
            for other in self.forward.values():
                lacking = [value for value in other.reads if value not in op.reads]
                if lacking and other.kind in OF_A_LOSS and {*other.writes} & {*op.reads}:
                    yield op.name, (f"{_told(lacking)}, which {other.name} reads", _told(op.reads))

    def _factors(self, op: _Op, source: _Op, mine: list[str]) -> Iterator[Fault]:
        """The gradient of a product of several factors is one by all but one of them."""
        others = [each for each in op.factors if each not in mine]
        theirs = source.factors
        allowed = [[*theirs[:at], *theirs[at + 1 :]] for at in range(len(theirs))] if len(theirs) > 1 else [[*theirs]]
        if op.made:  # the weight may be there, too: it was gathered for the whole module
            others = [each for each in others if each not in source.weights]
        if others not in allowed:
            yield f"{' or '.join(_told(each) for each in allowed)}, of the factors of {source.name}", _told(others)

    def faults_of_fused(self, op: _Op) -> Iterator[Fault]:
        """What is wrong with one that makes the gradient of a product with what its source makes, too."""
        source = self.forward[op.source]
        user = next((each for each in self.forward.values() if {*source.writes} & {*each.reads}), source)
        made = self._reached(user.writes)
        wanted = [value for value in user.factors if value not in source.writes]
        got = [value for value in op.reads if not self.gradients[value] & made]
        if len(got) == len(op.reads) or got != wanted:
            yield f"a gradient of {_told(user.writes)}, and {_told(wanted)}", _told(op.reads)

    def _users(self, source: _Op) -> set[str]:
        """The ops with gradients that read what an op makes, or sums that it is a part of."""
        reached = self._reached(source.writes)
        return {name for name in self.differentiated if reached & set(self.forward[name].reads)}

    def untrained(self) -> Iterator[tuple[str, Fault]]:
        """Where one weight of an op has a gradient, all have, by ops that are named after it; no other makes any."""
        made: defaultdict[str, dict[str, None]] = defaultdict(dict)
        for op in self.ops:
            made[op.source].update(dict.fromkeys(op.made))
            for weight in op.made:
                if weight not in getattr(self.forward.get(op.source), "weights", ()):
                    yield op.name, (f"a name after an op that reads {weight}, of which it makes the gradient", op.name)
        for source in filter(None, made):
            read = self.forward[source].weights if source in self.forward and made[source] else ()
            lacking = [weight for weight in dict.fromkeys(read) if weight not in made[source]]
            if lacking:
                yield (
                    source,
                    (f"gradients of {_told(lacking)}, too, from what is named after it", _told(list(made[source]))),
                )

    def unlike(self) -> Iterator[tuple[str, Fault]]:
        """All ops that make gradients of one op read the same gradients, in the same order."""
        first: dict[str, tuple[str, list[Ref]]] = {}
        for op in self.ops:
            if op.source not in self.forward or op.kind == "add":
                continue
            mine = set(self.parted(op)[0])
            read = [ref for ref in op.read_refs if ref.name in mine]
            name, theirs = first.setdefault(op.source, (op.name, read))
            if read != theirs:
                yield op.name, (f"the gradients that {name} reads, {_refs(theirs)}", _refs(read))


def _told(values: Sequence[str]) -> str:
    return ", ".join(values) or "none"


def _refs(refs: Sequence[Ref]) -> str:
    return ", ".join(f"{ref.name} ({ref.layer:+d}, {ref.micro:+d})" for ref in refs) or "none"
