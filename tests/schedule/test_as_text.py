"""Schedules as text: what a person is shown of states, calls and ops."""

import pytest

from simfrontier.errors import InputError
from simfrontier.schedule import Schedule, digest, render
from simfrontier.schedule.as_text import _count
from tests.conftest import Golden
from tests.schedule.builders import ENGINES, frontier_20b, mesh_of, options_of, schedule_of


def small() -> Schedule:
    return schedule_of(options_of("zero-topo"), mesh_of(2, 1, 2), ENGINES["tight"], grad_accum=3)


def test_a_small_schedule_as_text(golden: Golden) -> None:
    golden("zero-topo-outline.txt", render(small(), outline=True))


def test_header_carries_the_digest() -> None:
    schedule = small()
    assert digest(schedule) in render(schedule, outline=True)


def test_runs_and_loops_are_told_with_their_layers() -> None:
    text = render(frontier_20b("zero3", 44, 3), outline=True)
    assert " node 48 × package 4 × gcd 2 = 384 ranks\n" in text
    assert "  forward × 37 (layers 5..41, micro-batch 0): block 6\n" in text
    assert (
        "  2 times over, each time +1 micro-batch; the first time:\n    forward (layer 42, micro-batch 0): block 7\n"
        in text
    )
    assert "    backward × 39 (layers 40..2, micro-batch 0): block 13\n" in text
    assert "  norm.layer × 44 (layers 0..43, micro-batch 0): block" in text


def test_a_block_alone_tells_lane_op_operands_and_what_a_collective_does() -> None:
    lines = [" ".join(line.split()) for line in render(frontier_20b("zeropp"), block=6).splitlines()]
    assert lines[0] == "block 6: forward, 28 ops"
    assert lines[1] == "compute norm ln1 x, ln1.weight, ln1.bias → ln1.out; b=384/node/package/gcd s=2048 h=6144"
    assert (
        "gather all_gather weight_gather qkv.weight.full.forward.sent0[+2] → qkv.weight.full.forward.got0[+2], "
        "fetch.qkv.weight.full.forward[+2]; over node+package+gcd in int8:6144, "
        "[gcd:flat node:flat package:flat] → [replicate], 113.2 M elements, 295.1 kB per rank"
    ) in lines


def test_everything_is_the_outline_and_each_block_once() -> None:
    schedule = small()
    text = render(schedule)
    blocks = {call.block for call in schedule.roles[0].calls}
    assert text.startswith(render(schedule, outline=True))
    assert text.count("\nblock ") == len(blocks)
    assert render(schedule, block=0) in text


def test_a_block_that_is_not_there_is_named() -> None:
    with pytest.raises(InputError, match=r"block 99: the schedule has the blocks 0 to \d+"):
        render(small(), block=99)


def test_counts_have_decimal_prefixes() -> None:
    """Four digits; the largest prefix is T."""
    known = {
        999: "999",
        1000: "1 k",
        12_345: "12.35 k",
        10**6: "1 M",
        10**12: "1 T",
        10**15: "1000 T",
        10**19: "1e+07 T",
    }
    assert {number: _count(number) for number in known} == known
