"""Expansion of exchanges between pipeline stages: operands of each end, waits and blocking, by hand."""

from dataclasses import replace

from simfrontier.core.codecs import Plain
from simfrontier.core.program import Call, Exchange, Mesh, Ref, Role, Schedule, Tensor, expand
from simfrontier.core.program.placement import REPLICATE

# ── expansion ──


def rows(*words: str) -> dict[str, Tensor]:
    return {
        word: Tensor(name=word, shape=(4,), dtype="fp32", role="activation", placement=REPLICATE, per_micro=True)
        for word in words
    }


def message(ends: tuple[int, int], src: str, dst: str, comm: str = "stage", lane: str = "pp") -> Exchange:
    sent, got = (Ref(src),), (Ref(dst),)
    return Exchange(name=src, axis="stage", ends=ends, src=sent, dst=got, codec=Plain("fp32"), comm=comm, lane=lane)


def test_an_exchange_reads_and_writes_what_is_of_the_roles_end() -> None:
    both = replace(message((0, 1), "a", "b"), back_src=(Ref("c", 0, -1),), back_dst=(Ref("d", 0, -1),), token=Ref("t"))
    call = (Call("step", 0, 3, (both,)),)
    roles = tuple(Role(f"s{i}", call, ("stage", i)) for i in range(2))
    schedule = Schedule(mesh=Mesh((("stage", 2),)), tensors=rows(*"abcdt"), roles=roles, pools={}, meta={})
    first, second = (expand(schedule, role) for role in schedule.roles)
    assert (first.at, second.at) == (("stage", 0), ("stage", 1))
    assert first.reads == [(Ref("a", 0, 3),)] and first.writes == [(Ref("d", 0, 2), Ref("t", 0, 3))]
    assert second.reads == [(Ref("c", 0, 2),)] and second.writes == [(Ref("b", 0, 3), Ref("t", 0, 3))]
    assert first.accumulates == second.accumulates == [()]
    assert first.with_ops(first.ops, first.calls).at == first.at


def test_exchanges_wait_for_those_between_the_same_ends_only() -> None:
    """The stage in the middle sends on one communicator to both neighbours, from lanes of their own: the third op is
    the second between 0 and 1 (named either way round) and waits for the first; the fourth for the second."""
    ops = (
        message((1, 0), "a", "a", lane="down"),
        message((1, 2), "b", "b", lane="up"),
        message((0, 1), "c", "c", lane="x"),
        message((1, 2), "d", "d", lane="y"),
    )
    role = Role("s1", (Call("step", 0, 0, ops),), ("stage", 1))
    schedule = Schedule(mesh=Mesh((("stage", 3),)), tensors=rows(*"abcd"), roles=(role,), pools={}, meta={})
    program = expand(schedule, schedule.roles[0])
    assert program.lanes == ("down", "up", "x", "y")
    assert program.waits == [(), (), ((0, 1),), ((1, 1),)]


def test_a_blocking_exchange_holds_the_host() -> None:
    """On a lane of its own: what comes after it waits for it, though it needs nothing of it."""
    ops = (message((0, 1), "a", "a"), message((1, 2), "b", "b", "other", "qq"))
    held = (replace(ops[0], blocking=True), ops[1])
    for made, waits in ((ops, ()), (held, ((0, 1),))):
        role = Role("s1", (Call("step", 0, 0, made),), ("stage", 1))
        schedule = Schedule(mesh=Mesh((("stage", 3),)), tensors=rows("a", "b"), roles=(role,), pools={}, meta={})
        assert expand(schedule, schedule.roles[0]).waits[1] == waits
