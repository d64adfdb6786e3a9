"""Pipelines written by hand: clean, stored and read back, expanded from both ends, and held in memory by stage."""

from dataclasses import replace

from hypothesis import given, settings, strategies as st

from simfrontier.codecs import Plain
from simfrontier.schedule import (
    Call,
    Exchange,
    Mesh,
    Ref,
    Role,
    Schedule,
    Tensor,
    check,
    digest,
    expand,
    from_json,
    peak_bytes,
    to_json,
)
from simfrontier.schedule.placement import REPLICATE
from tests.schedule.pipelines import Pipeline

ORDERS = st.sampled_from(["1f1b", "gpipe"])


@settings(max_examples=15, deadline=None)
@given(stages=st.integers(2, 4), micros=st.integers(1, 6), depth=st.integers(1, 2), order=ORDERS, overlap=st.booleans())
def test_pipelines_are_clean_and_are_read_back_as_they_were(
    stages: int, micros: int, depth: int, order: str, overlap: bool
) -> None:
    schedule = Pipeline(stages, micros, depth, order, overlap).schedule()
    assert str(check(schedule)) == "no findings"
    text = to_json(schedule)
    read = from_json(text, "s.json")
    assert read == schedule
    assert to_json(read) == text


def test_the_digest_sees_ends_places_and_what_goes_back() -> None:
    schedule = Pipeline(2, 2).schedule()
    first, second = schedule.roles

    def edited(**fields: object) -> Schedule:
        def edit(call: Call) -> Call:
            ops = tuple(replace(op, **fields) if isinstance(op, Exchange) else op for op in call.ops)  # type: ignore[arg-type]
            return replace(call, ops=ops)

        return replace(schedule, roles=(first, replace(second, calls=tuple(edit(call) for call in second.calls))))

    others = [edited(ends=(1, 0)), edited(back_src=()), edited(blocking=False), edited(comm="other")]
    others.append(replace(schedule, roles=(replace(first, at=("stage", 1)), replace(second, at=("stage", 0)))))
    assert len({digest(each) for each in (schedule, *others)}) == 6


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


def test_what_arrives_is_waited_for_and_what_is_sent_is_not() -> None:
    schedule = Pipeline(2, 2, overlap=True).schedule()
    program = expand(schedule, schedule.roles[1])
    arrives = next(i for i, op in enumerate(program.ops) if isinstance(op, Exchange))
    reader = next(i for i, op in enumerate(program.ops) if op.name == "up")
    lane = program.lanes.index("stage.0>1")
    assert program.ops[arrives].lane == "stage.0>1" and program.waits[reader] == ((lane, 1),)
    held = expand(schedule, schedule.roles[0])
    sends = [i for i, op in enumerate(held.ops) if isinstance(op, Exchange) and op.name == "forward"]
    after = next(i for i in range(sends[0] + 1, held.num_ops) if held.ops[i].lane == "compute")
    assert held.waits[after] == ()  # what is sent may go on while the next micro-batch is computed


def test_a_blocking_exchange_holds_the_host() -> None:
    """On a lane of its own: what comes after it waits for it, though it needs nothing of it."""
    ops = (message((0, 1), "a", "a"), message((1, 2), "b", "b", "other", "qq"))
    held = (replace(ops[0], blocking=True), ops[1])
    for made, waits in ((ops, ()), (held, ((0, 1),))):
        role = Role("s1", (Call("step", 0, 0, made),), ("stage", 1))
        schedule = Schedule(mesh=Mesh((("stage", 3),)), tensors=rows("a", "b"), roles=(role,), pools={}, meta={})
        assert expand(schedule, schedule.roles[0]).waits[1] == waits


# ── memory ──


def test_a_stage_holds_what_its_program_touches() -> None:
    """Stage 1 of 3 has no embedding: with tensor = 2, `up` and `down` have 16 × 32 / 2 elements each. Weight,
    accumulator, master: 4 bytes an element each, moments 8: 2 × 256 × 20 bytes. Tokens (8 × 4 / 2 elements of 8 bytes)
    are the first and last stage's; the embedding has 64 × 16 elements at 20 bytes."""
    schedule = Pipeline(3, 2).schedule()
    first, middle, last = (peak_bytes(schedule, role) for role in schedule.roles)
    assert middle.persistent_bytes == 2 * 256 * 20
    assert first.persistent_bytes == last.persistent_bytes == 2 * 256 * 20 + 64 * 16 * 20 + 2 * 128
    report = check(schedule)
    assert report.peaks == (first, middle, last)
    assert report.peak == max(report.peaks, key=lambda peak: peak.num_bytes)
