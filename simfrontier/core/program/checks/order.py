"""The order rules of calls that roles share: they make them alike and in the same order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from simfrontier.base.errors import InputError
from simfrontier.core.program.finding import Findings, ranks_of, ranks_of_role, ref_text, title_of
from simfrontier.core.program.ir import Call, Collective, Exchange, Op, Ref, Role, Schedule
from simfrontier.core.program.roles import CallSequence, members_of, sequence_of


def check_comms(schedule: Schedule, findings: Findings) -> None:
    """A communicator spans one set of axes, and the calls that roles share come in one order, of one kind and size,
    in all of them."""
    span: dict[str, frozenset[str]] = {}
    for role in schedule.roles:
        for call, op in _collectives(role):
            axes = frozenset(op.axes)
            if span.setdefault(op.comm, axes) != axes:
                ranks = ranks_of(op, role, schedule.roles)
                text = f"communicator {op.comm} over {'+'.join(sorted(span[op.comm]))}, as before"
                findings.add("order", title_of(op, call), ranks, text, "+".join(op.axes), key=(op.number, "span"))
    if len(schedule.roles) > 1:
        _same_calls(schedule, findings)


def _collectives(role: Role) -> Iterator[tuple[Call, Collective]]:
    """Each distinct collective of a role with its first call."""
    seen: set[int] = set()
    first: dict[int, Call] = {}
    for call in role.calls:
        first.setdefault(call.block, call)
    for call in first.values():
        for op in call.ops:
            if isinstance(op, Collective) and op.number not in seen:
                seen.add(op.number)
                yield call, op


# ── calls that roles share ──


def _same_calls(schedule: Schedule, findings: Findings) -> None:
    group_calls = members_by_op(schedule)
    shared = [[op for op in block if op.number in group_calls] for block in schedule.blocks]
    members: dict[CallSequence, tuple[int, ...]] = {}
    calls: dict[tuple[CallSequence, int], list[tuple[Op, Call]]] = defaultdict(list)
    for number, role in enumerate(schedule.roles):
        for call in role.calls:
            for op in shared[call.block]:
                sequence, members[sequence] = group_calls[op.number]
                calls[sequence, number].append((op, call))
    for sequence, joined in members.items():
        for other in joined[1:]:
            first, second = calls[sequence, joined[0]], calls[sequence, other]
            _compare(schedule, sequence, joined[0], first, other, second, findings)


def members_by_op(schedule: Schedule) -> dict[int, tuple[CallSequence, tuple[int, ...]]]:
    """For each op (by its number) that roles share: the sequence it is in, and the numbers of the roles."""
    moves = [op for op in schedule.ops if isinstance(op, Collective | Exchange)]
    return {op.number: (sequence_of(op), members) for op in moves if (members := members_of(op, schedule))}


def _compare(
    schedule: Schedule,
    sequence: CallSequence,
    number: int,
    first: list[tuple[Op, Call]],
    other: int,
    second: list[tuple[Op, Call]],
    findings: Findings,
) -> None:
    """Report the first call of two roles that differs, or that the numbers of calls differ."""
    role, other_role = schedule.roles[number], schedule.roles[other]
    where = f"communicator {_name(sequence)}"
    for at, (first_call, other_call) in enumerate(zip(first, second, strict=False)):
        if _are_one(first_call, other_call):
            continue
        wanted, got = _signature(schedule, *first_call), _signature(schedule, *other_call)
        if wanted != got:
            expected = f"call {at} of {where} to be {wanted}, like {title_of(*first_call)} of role {role.name}"
            findings.add(
                "order", title_of(*other_call), ranks_of(other_call[0], other_role, schedule.roles), expected, got
            )
            return
    if len(first) != len(second):
        expected = f"{len(first)} calls, as in role {role.name}"
        findings.add("order", where, ranks_of_role(other_role, schedule.roles), expected, f"{len(second)} calls")


def _are_one(first: tuple[Op, Call], second: tuple[Op, Call]) -> bool:
    """Whether two calls are the same op for the same layer and micro-batch."""
    (op, call), (other, other_call) = first, second
    return op is other and (call.layer, call.micro) == (other_call.layer, other_call.micro)


def _name(sequence: CallSequence) -> str:
    return sequence if isinstance(sequence, str) else f"{sequence[0]} between {sequence[1]} and {sequence[2]}"


def _signature(schedule: Schedule, op: Op, call: Call) -> str:
    """What all ranks of a call must agree on; of an exchange also which instances go where."""
    if isinstance(op, Exchange):
        forth, back = (_carried(schedule, *pair, call) for pair in ((op.src, op.dst), (op.back_src, op.back_dst)))
        parts = [f"{op.ends[0]}→{op.ends[1]}: {forth}"] * bool(forth) + [f"{op.ends[1]}→{op.ends[0]}: {back}"] * bool(
            back
        )
        return f"exchange over {op.axis} of {', '.join(parts)} ({op.codec})"
    assert isinstance(op, Collective)
    return f"{op.kind} over {'+'.join(op.axes)} of {_num_bytes(schedule, op.src)} bytes ({op.codec}, {op.via})"


def _carried(schedule: Schedule, src: tuple[Ref, ...], dst: tuple[Ref, ...], call: Call) -> str:
    """What an exchange carries in one direction: `x of layer 4, micro-batch 1 (1024 bytes)`."""
    carried = []
    for a, b in zip(src, dst, strict=False):
        sent, got = _text(schedule, a, call), _text(schedule, b, call)
        carried.append((sent if sent == got else f"{sent} to {got}") + f" ({_num_bytes(schedule, (a,))} bytes)")
    return ", ".join(carried)


def _text(schedule: Schedule, ref: Ref, call: Call) -> str:
    tensor = schedule.tensors[ref.name]
    here = Ref(ref.name, ref.layer + call.layer, ref.micro + call.micro)
    return ref_text(here, tensor.per_layer, tensor.per_micro)


def _num_bytes(schedule: Schedule, refs: tuple[Ref, ...]) -> int:
    try:
        return sum(schedule.tensors[ref.name].local_bytes(schedule.mesh) for ref in refs)
    except InputError:
        return 0  # reported elsewhere
