"""Schedules as text: what a person is shown of states, calls and ops."""

from simfrontier.schedule import Schedule, render
from tests.conftest import Golden
from tests.schedule.builders import ENGINES, frontier_20b, mesh_of, options_of, schedule_of


def small() -> Schedule:
    return schedule_of(options_of("zero-topo"), mesh_of(2, 1, 2), ENGINES["tight"], grad_accum=3)


def test_a_small_schedule_as_text(golden: Golden) -> None:
    golden("zero-topo-outline.txt", render(small(), outline=True))


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
