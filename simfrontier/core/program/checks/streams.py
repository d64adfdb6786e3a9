"""Rules of repeated ops: ops that are recomputed in the backward pass, ops that occur in several streams of a model
(teacher, student), and ops divided into parts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from simfrontier.core.program.finding import Fault, Findings
from simfrontier.core.program.ir import Compute, Schedule, Tensor
from simfrontier.core.program.kinds import is_work, model_kind
from simfrontier.core.program.names import in_streams


def check_streams(schedule: Schedule, findings: Findings) -> None:
    """Check that a value is recomputed by an op of the same name, that corresponding ops of two streams use their
    values in the same order, and that the results of one op are read in the order in which the op writes them."""
    ops = [op for op in schedule.ops if isinstance(op, Compute) and is_work(op)]
    for op, (expected, got) in (each for rule in (_again, _streams, _parts) for each in rule(ops, schedule.tensors)):
        findings.add("facts", f"{op.kind} {op.name}", "all ranks", expected, got)


def _again(ops: Sequence[Compute], tensors: Mapping[str, Tensor]) -> Iterator[tuple[Compute, Fault]]:
    makers: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for op in ops:
        for ref in op.writes:
            makers[ref.name][op.name] = None
    for op in ops:
        for ref in op.writes:
            first = makers.get(tensors[ref.name].recomputes or ref.name, {})
            if first and op.name not in first:
                yield op, (f"{ref.name} from an op named {' or '.join(first)}, as before", op.name)


def _streams(ops: Sequence[Compute], tensors: Mapping[str, Tensor]) -> Iterator[tuple[Compute, Fault]]:
    first: dict[tuple[str, str], list[str]] = {}
    kinds: dict[str, str] = {}
    for op in ops:
        mark = bool(op.named.streams)
        rest = op.named._replace(streams=op.named.streams[1:]).text
        if mark and op.kind != (kind := kinds.setdefault(rest, op.kind)):
            yield op, (f"kind {kind}, as the other {rest}", op.kind)
        for access, refs in (("read", op.reads), ("written", op.writes)) if mark else ():
            values = [tensors[ref.name] for ref in refs if tensors[ref.name].role == "activation"]
            names = _names(values, op.named.streams[0])
            first_names = first.setdefault((rest, access), names)
            is_whole = model_kind(op.kind).is_alike and len(names) == len(first_names)
            both = {*names, *first_names} if is_whole else {*names} & {*first_names}
            expected, got = ([name for name in each if name in both] for each in (first_names, names))
            if got != expected:
                yield op, (f"{', '.join(expected)} {access} in this order, as by the other {rest}", ", ".join(got))


def _parts(ops: Sequence[Compute], tensors: Mapping[str, Tensor]) -> Iterator[tuple[Compute, Fault]]:
    places: defaultdict[str, list[tuple[Compute, int]]] = defaultdict(list)  # value → (writer, result index)
    makers = {op.number: op for op in ops}
    for op in ops:
        for place, ref in enumerate(op.writes if len(op.writes) > 1 else ()):
            places[ref.name].append((op, place))
    for op in ops:
        read: defaultdict[int, list[tuple[int, str]]] = defaultdict(list)  # by maker, in the order of this op
        for value in dict.fromkeys(tensors[ref.name].value for ref in op.reads):
            for maker, place in places.get(value, ()):
                read[maker.number].append((place, value))
        for number, parts in read.items():
            if parts != sorted(parts):
                wanted, got = (", ".join(value for _, value in each) for each in (parts, sorted(parts)))
                yield makers[number], (f"{wanted} in this order, as {op.name} reads them", got)


def _names(values: Sequence[Tensor], stream: str) -> list[str]:
    """Return the names of values as seen within a stream; a recomputed value and its original are listed once."""
    once = {each.recomputes or each.name: each for each in values}
    return [
        in_streams(each.streams[1:] if each.streams[:1] == (stream,) else each.streams, each.quantity)
        for each in once.values()
    ]
