"""Rules of backward passes. An op whose name derives from a forward op (`qkv.dgrad` from `qkv`) computes gradients of
the operands of that forward op. It must read every gradient of the results of the forward op, and no other gradient."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from simfrontier.core.dtypes import INTEGERS
from simfrontier.core.program.finding import Fault, Findings, ranks_of_role
from simfrontier.core.program.ir import Compute, Ref, Role, Schedule, Tensor
from simfrontier.core.program.kinds import is_work, model_kind
from simfrontier.core.program.names import Part
from simfrontier.core.program.op_kind import ModelKind

MAX_NAMED: Final = 6  # of ops that a finding lists


def check_gradients(schedule: Schedule, findings: Findings) -> None:
    """Check every op of the model that computes gradients: its operands, their order, and their layers and
    micro-batches."""
    works = [op for op in schedule.ops if isinstance(op, Compute) and is_work(op)]
    kinds = {op.name: op.kind for op in works}
    graph = _Graph([_named(op, schedule.tensors) for op in works], schedule.tensors)
    for name, (expected, got) in _faults(graph):
        findings.add("facts", f"{kinds[name]} {name}", "all ranks", expected, got)
    for role in schedule.roles:
        for name, (expected, got) in _elsewhere(role, graph):
            findings.add("facts", name, ranks_of_role(role, schedule.roles), expected, got)


def _elsewhere(role: Role, graph: _Graph) -> Iterator[tuple[str, Fault]]:
    """Yield the gradient ops that read a value, or the gradient of a result, of other layers or micro-batches than the
    forward op does."""
    touched: defaultdict[tuple[str, str], set[_Shifted]] = defaultdict(set)  # by op and value
    backward: dict[str, Compute] = {}
    for call in role.first_calls():
        for op in call.ops:
            if not isinstance(op, Compute) or not is_work(op):
                continue
            if source := _source(op):
                backward[op.name] = op
            for ref in op.reads if source else (*op.reads, *op.writes):
                tensor = graph.tensors[ref.name]
                if tensor.role == "activation" and tensor.per_layer and tensor.per_micro:
                    touched[op.name, tensor.value].add((call.block, ref.layer, ref.micro))
    places = _Places(role)
    for name, op in backward.items():
        source, is_sum = _source(op), model_kind(op.kind).adds_values  # sum of gradients from several paths
        for value in dict.fromkeys(graph.tensors[ref.name].value for ref in op.reads):
            own = [value, *(() if is_sum else graph.results_with_gradient(source, value))]
            forward = places.of(frozenset().union(*(touched.get((source, one), ()) for one in own)))
            here = places.of(frozenset(touched.get((name, value), ())))
            if forward and here and forward != here and not graph.are_below_trained(forward - here, here):
                yield f"{op.kind} {name}", (f"{value} of the layers and micro-batches of {source}", "others")


_Shifted = tuple[int, int, int]  # a block, and by how many layers and micro-batches a reference lies off its calls


class _Places:
    """The layers and micro-batches of a role's calls, by block. Many ops touch the same ones, which are put together
    only once."""

    def __init__(self, role: Role) -> None:
        self.of_block: defaultdict[int, set[tuple[int, int]]] = defaultdict(set)
        for call in role.calls:
            self.of_block[call.block].add((call.layer, call.micro))
        self.known: dict[frozenset[_Shifted], frozenset[tuple[int, int]]] = {}

    def of(self, shifted: frozenset[_Shifted]) -> frozenset[tuple[int, int]]:
        """Return the layers and micro-batches of references from several blocks."""
        if shifted not in self.known:
            self.known[shifted] = frozenset(
                (layer + layers, micro + micros)
                for block, layers, micros in shifted
                for layer, micro in self.of_block[block]
            )
        return self.known[shifted]


def _source(op: Compute) -> str:
    """Return the name of the forward op whose gradients an op computes; empty if it computes no gradients."""
    return op.named.forward.text if op.named.part else ""


@dataclass(frozen=True, slots=True)
class _Op:
    """An op with the names of the values that it reads and writes, without states and tokens. A recomputed value
    (`x.again`) counts as the original (`x`)."""

    name: str
    kind: ModelKind
    source: str  # the op that it is named after; empty in a forward pass
    part: Part | None  # of the backward
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    weights: tuple[str, ...]  # that it reads
    weight_gradients: tuple[str, ...]  # weights whose gradients it computes
    factors: tuple[str, ...]  # values, weights and states that it reads, without biases
    read_refs: tuple[Ref, ...]


def _faults(graph: _Graph) -> Iterator[tuple[str, Fault]]:
    """Yield all faults of the gradient ops, as (name of the op, fault)."""
    for op in graph.ops:
        if op.source and op.source not in graph.forward:
            yield op.name, (f"an op {op.source}, of which this makes gradients", "none")
        elif op.source and not op.kind.adds_values:
            is_fused = graph.forward[op.source].kind.is_fused
            for fault in graph.faults_of_fused(op) if is_fused else graph.faults(op):
                yield op.name, fault
    yield from graph.unlike()
    yield from graph.untrained()
    yield from graph.ends()


def _named(op: Compute, tensors: Mapping[str, Tensor]) -> _Op:
    kind = model_kind(op.kind)
    values = [ref for ref in op.reads if tensors[ref.name].role == "activation"]
    factors = [
        ref.name for ref in op.reads if tensors[ref.name].role != "token" and not _is_bias(kind, tensors[ref.name])
    ]
    return _Op(
        name=op.name,
        kind=kind,
        source=_source(op),
        part=op.named.part,
        reads=tuple(tensors[ref.name].value for ref in values),
        writes=tuple(tensors[ref.name].value for ref in op.writes if tensors[ref.name].role == "activation"),
        weights=tuple(filter(None, (tensors[ref.name].weight for ref in op.reads))),
        weight_gradients=tuple(filter(None, (tensors[ref.name].weight for ref in (*op.writes, *op.accumulates)))),
        factors=tuple(tensors[name].weight or tensors[name].value for name in factors),
        read_refs=tuple(ref._replace(name=tensors[ref.name].value) for ref in values),
    )


def _is_bias(kind: ModelKind, tensor: Tensor) -> bool:
    return "factors" in kind.needs and tensor.role != "activation" and len(tensor.shape) == 1


class _Graph:
    """Graph of the values of a schedule: which values are terms of which sums, which value each gradient belongs to,
    and which forward ops each gradient was propagated through. Sets are bit masks, with one bit per value or op."""

    def __init__(self, ops: Sequence[_Op], tensors: Mapping[str, Tensor]) -> None:
        self.ops, self.tensors = ops, tensors
        self.has_frozen = any(tensor.is_frozen for tensor in tensors.values())
        self.forward: dict[str, _Op] = {}
        for op in ops:
            if not op.source:
                self.forward.setdefault(op.name, op)
        self.bit = {value: 1 << at for at, value in enumerate({v: None for op in ops for v in (*op.reads, *op.writes)})}
        self.op_of_bit = list(self.forward)
        self.bit_of_op = {name: 1 << at for at, name in enumerate(self.op_of_bit)}
        self.makers: defaultdict[str, list[_Op]] = defaultdict(list)  # forward, of each value
        self.users: defaultdict[str, list[_Op]] = defaultdict(list)
        for op in self.forward.values():
            for value in op.writes:
                self.makers[value].append(op)
            for value in op.reads:
                self.users[value].append(op)
        sums = {
            value: [v for op in users if op.kind.sums_gradients for v in op.writes]
            for value, users in self.users.items()
        }
        self.summed = _reachable(sums, self.bit)  # each value and the sums that it is a part of
        self.inputs = {op.name: self._inputs(op) for op in self.forward.values() if op.kind.ends}
        self.gradients = self._gradients()
        backward = {op.source for op in ops if not op.kind.sums_gradients}
        with_gradient = backward & self.forward.keys() | self.inputs.keys()
        read = {
            value: _any(self.bit_of_op[op.name] for op in users if op.name in with_gradient)
            for value, users in self.users.items()
            if value not in tensors or tensors[value].dtype not in INTEGERS  # which have no gradients
        }
        self.used = _reachable(sums, read)  # the ops with gradients that read a value or its sums
        self.paths = self._gradient_paths()

    def _gradients(self) -> dict[str, int]:
        """Return for each gradient the set of values with respect to which it is a gradient."""
        out: defaultdict[str, int] = defaultdict(int)
        for op in self.ops:
            if op.kind.ends:
                wrt = self.inputs.get(op.name, ())
            else:
                wrt = self.forward[op.source].reads if op.source in self.forward and not op.kind.adds_values else ()
            for value in op.writes:
                out[value] |= _any(self.bit[each] for each in wrt)
        for op in self.ops:
            for value in op.writes if op.kind.adds_values else ():
                out[value] |= _any(out.get(part, 0) for part in op.reads)
        return {value: wrt for value, wrt in out.items() if wrt}

    def _inputs(self, end: _Op) -> tuple[str, ...]:
        """Return the values with respect to which a loss computes a gradient: the operands that have the shape of the
        gradient, and the values from which other ops of the loss compute these operands."""
        shapes = {self.tensors[value].shape for value in end.writes if value in self.tensors}
        known: dict[str, None] = {}
        waiting = list(end.reads)
        while waiting:
            value = waiting.pop()
            if value not in known and value in self.tensors and self.tensors[value].shape in shapes:
                known[value] = None
                waiting += [each for op in self.makers[value] if op.kind.is_of_loss for each in op.reads]
        return tuple(known)

    def _gradient_paths(self) -> dict[str, int]:
        """Return for each gradient the set of forward ops through which it was propagated."""
        edges: defaultdict[str, list[str]] = defaultdict(list)
        own: defaultdict[str, int] = defaultdict(int)
        for op in self.ops:
            for value in op.writes:
                if value not in self.gradients:
                    continue
                if op.kind.adds_values:
                    edges[value] += op.reads
                elif op.source in self.forward:
                    own[value] |= self.bit_of_op[op.source]
                    edges[value] += self.parted(op)[1]
                elif not op.source:
                    own[value] |= self.bit_of_op[op.name]
        return _reachable(edges, own)

    def are_below_trained(self, left_out: frozenset[tuple[int, int]], here: frozenset[tuple[int, int]]) -> bool:
        """Return whether a backward leaves out (layer, micro-batch) pairs of a model with frozen weights for no other
        reason than that all trained weights are above them: in layers below those of the pairs `here`."""
        lowest = min(layer for layer, _ in here)
        return self.has_frozen and bool(left_out) and all(layer < lowest for layer, _ in left_out)

    def results_with_gradient(self, source: str, gradient: str) -> Iterator[str]:
        """Return those results of the forward op `source` to which the gradient `gradient` belongs."""
        wrt = self.gradients.get(gradient, 0)
        results = self.forward[source].writes if source in self.forward else ()
        return (value for value in results if wrt & self.bit[value])

    def _reached(self, values: Sequence[str]) -> int:
        """Return the set of some values and of all sums that contain one of them as a term."""
        return _any(self.summed[value] for value in values)

    def parted(self, op: _Op) -> tuple[list[str], list[str], list[str]]:
        """Return the gradients that an op reads, as three lists: gradients of the results of its forward op, gradients
        of the operands of its forward op (propagated along other paths), and all other gradients."""
        source = self.forward[op.source]
        made, read = self._reached(source.writes), self._reached(source.reads)
        parts: tuple[list[str], list[str], list[str]] = ([], [], [])
        for value in op.reads:
            if wrt := self.gradients.get(value, 0):
                parts[0 if wrt & made else 1 if wrt & read else 2].append(value)
        return parts

    def faults(self, op: _Op) -> Iterator[Fault]:
        """Yield the faults of an op that computes gradients of a forward op."""
        source = self.forward[op.source]
        kind = op.kind
        if kind.name not in (source.kind.name, source.kind.gradient) and not kind.sums:
            yield f"the kind of what it is the gradient of, {source.kind.name}", kind.name
        gradients, other_ways, strange = self.parted(op)
        known = {*source.reads, *source.writes}
        strange += [each for each in op.reads if each not in self.gradients and each not in known]
        strange += [] if kind.adds_gradients else other_ways
        if strange:
            yield f"gradients of {_text(source.writes)}, and what {source.name} reads and makes", _text(strange)
        lacking = _any(self.used.get(value, 0) for value in source.writes) & ~_any(
            self.paths[value] for value in gradients
        )
        if lacking or not gradients:
            yield f"the gradient of {_text(source.writes)} by {self._ops_text(lacking) or 'any op'}", _text(op.reads)
            return
        yield from self._operands(op, source, gradients)
        yield from self._order(op, source, gradients, other_ways)

    def _operands(self, op: _Op, source: _Op, gradients: list[str]) -> Iterator[Fault]:
        """Check that a gradient op reads, besides gradients, those operands or results of the forward op that its kind
        requires."""
        needs, read = op.kind.needs, {*op.reads, *op.weights}
        operands = {*source.reads, *source.writes, *source.weights}
        if "operands" in needs and not read.issuperset(source.reads):
            yield f"all that {source.name} reads, {_text(source.reads)}", _text(op.reads)
        elif "weight" in needs and not {*source.weights[:1]} <= read:
            yield f"{source.weights[0]}, which {source.name} reads", _text(op.reads)
        elif "results" in needs and not read.issuperset(source.writes):
            yield f"all that {source.name} makes, {_text(source.writes)}", _text(op.reads)
        elif "factors" in needs:
            yield from self._factors(op, source, gradients)
        elif "any" in needs and not read & operands:
            yield f"one of {_text(sorted(operands))}, which {source.name} reads or makes", _text(op.reads)

    def _order(self, op: _Op, source: _Op, gradients: list[str], other_ways: list[str]) -> Iterator[Fault]:
        """Check the positions of gradients among the operands of an op: adjacent, in the order of the forward op's
        results, and first or last as the op's kind states (anywhere in a matrix product). Gradients from other paths
        are last."""
        last = [op.reads.index(value) for value in other_ways]
        if last and min(last) < len(op.reads) - len(last):
            yield f"{_text(other_ways)}, gradients that come by other ways, last", _text(op.reads)
        first, *_ = places = [op.reads.index(value) for value in gradients]
        order = [self._place(value, source) for value in gradients]
        wanted = len(op.reads) - len(gradients) if op.kind.gradients_last else 0
        if places != list(range(first, first + len(places))):
            yield f"{_text(gradients)} side by side", _text(op.reads)
        elif order != sorted(order):
            yield f"gradients in the order of {_text(source.writes)}", _text(gradients)
        elif "factors" not in op.kind.needs and first != wanted:
            yield f"{_text(gradients)} {'last' if op.kind.gradients_last else 'first'}", _text(op.reads)

    def _ops_text(self, ops: int) -> str:
        """Return the names of up to MAX_NAMED ops of a bit set, and the number of the remaining ones."""
        names: list[str] = []
        left = ops
        while left and len(names) < MAX_NAMED:
            names.append(self.op_of_bit[(left & -left).bit_length() - 1])
            left &= left - 1
        return ", ".join(sorted(names) + [f"and {left.bit_count()} more"] * (left > 0))

    def _place(self, gradient: str, source: _Op) -> int:
        """Return the index of the first result of the forward op `source` to which a gradient belongs."""
        return next(at for at, value in enumerate(source.writes) if self.gradients[gradient] & self.summed[value])

    def ends(self) -> Iterator[tuple[str, Fault]]:
        """Check the operands of each loss: the first operand is the value with respect to which the loss computes the
        gradient, and the other operands include all that the other ops of the loss read."""
        for op in self.ops:
            inputs = self.inputs.get(op.name, ())
            if not op.kind.ends or op.source:
                continue
            if not op.reads or op.reads[0] not in inputs:
                wanted = f"{_text(inputs)} first, of which {_text(op.writes)} is the gradient"
                yield op.name, (wanted, _text(op.reads))
            for other in {each.name: each for value in op.reads for each in self.makers[value]}.values():
                lacking = [value for value in other.reads if value not in op.reads]
                if lacking and other.kind.is_shared:
                    yield op.name, (f"{_text(lacking)}, which {other.name} reads", _text(op.reads))

    def _factors(self, op: _Op, source: _Op, gradients: list[str]) -> Iterator[Fault]:
        """Check that the gradient of a matrix product reads all factors of the product except the factor whose gradient
        it computes."""
        others = [each for each in op.factors if each not in gradients]
        factors, own = source.factors, op.kind.parts.get(op.part) if op.part else None
        places = range(len(factors)) if own is None else [own]
        allowed = [[*factors[:at], *factors[at + 1 :]] for at in places] if len(factors) > 1 else [[*factors]]
        if op.weight_gradients:  # the weight may be an operand, too, as it is gathered for the whole module
            others = [each for each in others if each not in source.weights]
        if others not in allowed:
            yield f"{' or '.join(_text(each) for each in allowed)}, of the factors of {source.name}", _text(others)

    def faults_of_fused(self, op: _Op) -> Iterator[Fault]:
        """Yield the faults of a fused gradient op: it computes the gradient of its forward op together with the
        gradient of the matrix product that reads the result of that forward op."""
        source = self.forward[op.source]
        user = next((each for value in source.writes for each in self.users[value]), source)
        made = self._reached(user.writes)
        wanted = [value for value in user.factors if value not in source.writes]
        got = [value for value in op.reads if not self.gradients.get(value, 0) & made]
        if len(got) == len(op.reads) or got != wanted:
            yield f"a gradient of {_text(user.writes)}, and {_text(wanted)}", _text(op.reads)

    def untrained(self) -> Iterator[tuple[str, Fault]]:
        """Check that either all weights of a forward op have gradients or none has, and that only ops named after this
        forward op compute them. (A weight may have gradients from ops of several streams.)"""
        made: defaultdict[str, dict[str, None]] = defaultdict(dict)
        for op in self.ops:
            made[op.source].update(dict.fromkeys(op.weight_gradients))
            for weight in op.weight_gradients:
                if op.source not in self.forward or weight not in self.forward[op.source].weights:
                    yield op.name, (f"a name after an op that reads {weight}, of which it makes the gradient", op.name)
        for source, weights in made.items():
            read = self.forward[source].weights if source in self.forward and weights else ()
            lacking = [weight for weight in dict.fromkeys(read) if weight not in weights]
            if lacking:
                wanted = f"gradients of {_text(lacking)}, too, from what is named after it"
                yield source, (wanted, _text(list(weights)))

    def unlike(self) -> Iterator[tuple[str, Fault]]:
        """Check that all ops that compute gradients of the same forward op read the same gradients, in the same
        order."""
        first: dict[str, tuple[str, list[Ref]]] = {}
        for op in self.ops:
            if op.source not in self.forward or op.kind.adds_values:
                continue
            gradients = set(self.parted(op)[0])
            read = [ref for ref in op.read_refs if ref.name in gradients]
            name, wanted = first.setdefault(op.source, (op.name, read))
            if read != wanted:
                yield op.name, (f"the gradients that {name} reads, {_refs(wanted)}", _refs(read))


def _reachable(edges: Mapping[str, Iterable[str]], bits: Mapping[str, int]) -> dict[str, int]:
    """Return for each node of a graph the union of its own bits and the bits of all nodes reachable from it."""
    out = {node: bits.get(node, 0) for node in (*edges, *bits)}
    changed = True
    while changed:
        changed = False
        for node, targets in edges.items():
            reached = out[node] | _any(out.get(target, 0) for target in targets)
            changed |= reached != out[node]
            out[node] = reached
    return out


def _any(sets: Iterable[int]) -> int:
    """Return the union of several bit sets."""
    union = 0
    for each in sets:
        union |= each
    return union


def _text(values: Sequence[str]) -> str:
    return ", ".join(values) or "none"


def _refs(refs: Sequence[Ref]) -> str:
    return ", ".join(f"{ref.name} ({ref.layer:+d}, {ref.micro:+d})" for ref in refs) or "none"
