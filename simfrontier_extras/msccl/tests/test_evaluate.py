"""Faults of small algorithms, written by hand, and the words in which they are told."""

from __future__ import annotations

import pytest

from simfrontier_extras.msccl.evaluate import verdict
from simfrontier_extras.msccl.program import parse

HEAD = 'name="x" proto="{proto}" nchannels="{channels}" nchunksperloop="{chunks}" ngpus="{gpus}" coll="{coll}"'
REST = ' inplace="{inplace}" outofplace="{outofplace}" minBytes="{least}" maxBytes="{most}"'
OUT, IN = (0, 1), (1, 0)


def step(kind: str, src: str, dst: str, count: int = 1, after: str = "-1 -1", awaited: int = 0) -> str:
    """A step without its number, which `found` gives it; places as `i0`, and waits as `thread-block step`."""
    depid, deps = after.split()
    return (
        f'type="{kind}" srcbuf="{src[0]}" srcoff="{src[1:]}" dstbuf="{dst[0]}" dstoff="{dst[1:]}" cnt="{count}" '
        f'depid="{depid}" deps="{deps}" hasdep="{awaited}"'
    )


Block = tuple[int, int, list[str]]  # whom it sends to, receives from, and its steps


def found(
    coll: str,
    chunks: int,
    gpus: list[list[Block]],
    ways: tuple[int, int] = OUT,
    scratch: int = 0,
    proto: str = "Simple",
    sizes: tuple[int, int] = (0, 0),
) -> list[str]:
    """What is wrong with a file: of each GPU its thread blocks, all on channel 0; `ways`: in place, and out of it;
    `sizes`: the least and the most bytes that it is for."""
    text = file_of(coll, chunks, gpus, ways, scratch, proto, sizes)
    return list(verdict(parse(text.encode(), "a file")).findings)


def file_of(
    coll: str,
    chunks: int,
    gpus: list[list[Block]],
    ways: tuple[int, int] = OUT,
    scratch: int = 0,
    proto: str = "Simple",
    sizes: tuple[int, int] = (0, 0),
) -> str:
    """The text of a file."""
    head = (HEAD + REST).format(
        proto=proto,
        channels=1,
        chunks=chunks,
        gpus=len(gpus),
        coll=coll,
        inplace=ways[0],
        outofplace=ways[1],
        least=sizes[0],
        most=sizes[1],
    )
    lines = [f"<algo {head}>"]
    for gpu, blocks in enumerate(gpus):
        lines.append(f'<gpu id="{gpu}" i_chunks="{chunks}" o_chunks="{chunks}" s_chunks="{scratch}">')
        for number, (send, recv, steps) in enumerate(blocks):
            lines.append(f'<tb id="{number}" send="{send}" recv="{recv}" chan="0">')
            lines += [f'<step s="{place}" {each}/>' for place, each in enumerate(steps)]
            lines.append("</tb>")
        lines.append("</gpu>")
    return "\n".join([*lines, "</algo>"])


def both(peer: int, *steps: str) -> list[Block]:
    return [(peer, peer, list(steps))]


# Both GPUs send their one chunk, and add what comes to their own.
SUM = ("s i0 o0", "rrc i0 o0")


def summed(*kinds: str) -> tuple[str, ...]:
    return tuple(step(*kind.split()) for kind in kinds)


def test_two_that_exchange_what_they_have_are_right() -> None:
    assert found("allreduce", 1, [both(1, *summed(*SUM)), both(0, *summed(*SUM))], (1, 1)) == []


def test_a_sum_without_ones_own_is_told() -> None:
    # GPU 1 keeps what GPU 0 sent, and does not add its own
    wrong = found("allreduce", 1, [both(1, *summed(*SUM)), both(0, *summed("s i0 o0", "r i0 o0"))])
    assert wrong == ["out of place: gpu 1 ends with chunk 0 of 0 in chunk 0 of its output, not chunk 0 of 0, 1"]


def test_a_contribution_that_is_summed_twice_is_told() -> None:
    # GPU 0 sends its chunk twice; GPU 1 adds it to its sum again
    twice = summed("s i0 o0", "s i0 o0", "rrc i0 o0")
    adds = summed("s i0 o0", "rrc i0 o0", "rrc o0 o0")
    wrong = found("allreduce", 1, [both(1, *twice), both(0, *adds)])
    assert wrong[0] == "out of place: gpu 1, thread block 0, step 2 (rrc) counts twice: chunk 0 of 0"


def test_who_both_wait_for_each_other_are_stuck() -> None:
    first = summed("rrc i0 o0", "s i0 o0")
    assert found("allreduce", 1, [both(1, *first), both(0, *first)]) == [
        "out of place: is stuck: gpu 0, thread block 0, step 0 (rrc) waits for a message of gpu 1 on channel 0; "
        "gpu 1, thread block 0, step 0 (rrc) waits for a message of gpu 0 on channel 0"
    ]


def test_a_connection_holds_two_messages_of_protocol_simple_and_eight_of_ll() -> None:
    # both send 3 chunks before they receive any: the third waits for room, unless 8 have it
    three = summed("s i0 o0 3", "rrc i0 o0 3")
    gpus = [both(1, *three), both(0, *three)]
    (stuck,) = found("allreduce", 3, gpus)
    said = "is stuck: gpu 0, thread block 0, step 0 (s) waits until gpu 1 receives"
    assert stuck.startswith(f"out of place, calls of more than {3 * 1024 * 1024:,} bytes: {said}")
    assert found("allreduce", 3, gpus, proto="LL") == []


@pytest.mark.parametrize(
    ("proto", "count", "message_bytes"),
    [("Simple", 3, 2 * 1024 * 1024), ("LL", 9, 16 * 1024), ("LL128", 9, 7 * 7 * 1024)],
)
def test_a_step_goes_as_one_message_where_its_chunks_fit(proto: str, count: int, message_bytes: int) -> None:
    # one step of one chunk more than a connection holds messages: two at a time leave room, one at a time does not
    gpus = [both(peer, *summed(f"s i0 o0 {count}", f"rrc i0 o0 {count}")) for peer in (1, 0)]
    # (calls are a multiple of the chunks, so that fewer bytes than that more make no difference)
    two_fit = count * (message_bytes // 2)
    assert found("allreduce", count, gpus, proto=proto, sizes=(0, two_fit + count - 1)) == []
    (stuck,) = found("allreduce", count, gpus, proto=proto, sizes=(0, two_fit + count))
    assert stuck.startswith(f"out of place, calls of more than {two_fit:,} bytes: is stuck")
    (always,) = found("allreduce", count, gpus, proto=proto, sizes=(two_fit + 1, two_fit + count))
    assert always.startswith("out of place: is stuck")


def test_a_message_that_nobody_receives_is_told() -> None:
    more = summed("s i0 o0", "rrc i0 o0", "s o0 o0")
    wrong = found("allreduce", 1, [both(1, *more), both(0, *summed(*SUM))])
    assert wrong == ["out of place: gpu 0 sends 1 messages to gpu 1 on channel 0 in vain"]


# GPU 0 receives in one thread block and sends on from another, which has to wait.
def relay(after: str, awaited: int) -> list[list[Block]]:
    receives = (-1, 1, [step("rrc", "i0", "o0", awaited=awaited)])
    sends = (1, -1, [step("s", "o0", "o0", after=after)])
    return [[receives, sends], [(0, 0, [*summed("s i0 o0"), *summed("r o0 o0")])]]


def test_a_wait_orders_thread_blocks() -> None:
    assert found("allreduce", 1, relay("0 0", 1)) == []


def test_without_the_wait_a_race_is_told() -> None:
    wrong = found("allreduce", 1, relay("-1 -1", 0))
    assert any(
        "does not wait for thread block" in text or "reads chunk 0 of its output, which is empty" in text
        for text in wrong
    )


def test_the_input_of_a_call_out_of_place_is_the_callers() -> None:
    into_input = summed("s i0 o0", "rrc i0 i0", "cpy i0 o0")
    gpus = [both(1, *into_input), both(0, *into_input)]
    assert found("allreduce", 1, gpus, IN) == []
    said = "out of place: gpu {}, thread block 0, step 1 (rrc) writes to the input, which is the caller's"
    assert sorted(found("allreduce", 1, gpus)) == [said.format(0), said.format(1)]


# ── what RCCL refuses ──

NOP = step("nop", "i-1", "o-1", 0)


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        (["s i0 o0 72"], "step 0 (s): 72 chunks; allowed: 1 to 71"),
        (["s i1 o0", "rrc i0 o0"], "step 0 (s): src i 1 to 1 is not within its 1 chunks"),
        (["s i0 o0", "rrc i0 o1"], "step 1 (rrc): dst o 1 to 1 is not within its 1 chunks"),
        (["s s0 o0", "rrc i0 o0"], "step 0 (s): src s 0 to 0 is not within its 0 chunks"),
        ([*SUM, "re i0 o0"], None),
    ],
)
def test_what_rccl_refuses_is_told(steps: list[str], said: str | None) -> None:
    wrong = found("allreduce", 1, [both(1, *summed(*steps)), both(0, *summed(*SUM))])
    assert wrong if said is None else wrong[0] == f"gpu 0, thread block 0, {said}"


def test_waits_that_rccl_does_not_count_are_told() -> None:
    other = both(0, *summed(*SUM))
    lost = [step(*SUM[0].split()), NOP, step(*SUM[1].split())]
    assert found("allreduce", 1, [both(1, *lost), other]) == [
        "gpu 0, thread block 0, step 1 (nop): waits for nothing, and is not counted as a step",
        "gpu 0, thread block 0, step 2 (rrc): the step after a nop that waits has to wait, too",
    ]
    gone = [step("rrc", "i0", "o0", after="7 0")]
    assert found("allreduce", 1, [both(1, *gone), other])[0] == (
        "gpu 0, thread block 0, step 0 (rrc): waits for step 0 of thread block 7, which is not there"
    )
