"""What kernels wait for: by events of streams, and, without these, by times; all worked by hand, in microseconds."""

from __future__ import annotations

from pathlib import Path

import pytest

from simfrontier.inputs.profiler.programs import placed
from simfrontier.inputs.profiler.read_rank import read_rank
from tests.inputs.profiler.traces import Event, kernel, record, wait, written


def waits_of(tmp_path: Path, *events: Event) -> dict[str, tuple[list[str], float]]:
    """By name, what each kernel waits for beside its stream, and the pause before it in microseconds."""
    each = placed(read_rank(written(tmp_path / "trace.json", events)))
    names = [one.kernel.name for one in each]
    return {one.kernel.name: ([names[i] for i in one.waits], round(one.pause_s * 1e6, 6)) for one in each}


def test_a_stream_waits_for_what_was_put_on_another_before_the_event(tmp_path: Path) -> None:
    """Stream 20: a (1), event 2, b (3). Stream 7 waits for event 2, then runs c (5): c waits for a, not for b."""
    events = [*kernel("a", 20, 0, 10, 1), record(2), *kernel("b", 20, 10, 30, 3), wait(7, 20, 2, 4)]
    assert waits_of(tmp_path, *events, *kernel("c", 7, 10, 20, 5)) == {"a": ([], 0), "b": ([], 0), "c": (["a"], 0)}


def test_an_event_brings_what_its_own_stream_waits_for(tmp_path: Path) -> None:
    """Stream 21 waits for a (event 2), and records event 4 without a kernel since; stream 7, waiting for it, waits for
    a."""
    events = [*kernel("a", 20, 0, 10, 1), record(2), wait(21, 20, 2, 3), record(4), wait(7, 21, 4, 5)]
    assert waits_of(tmp_path, *events, *kernel("c", 7, 10, 20, 6))["c"] == (["a"], 0)


def test_a_later_event_is_waited_for_although_an_earlier_one_is_waited_for_after_it(tmp_path: Path) -> None:
    """Stream 20: a (1), event 2, b (3), event 4. Stream 7 waits for event 4 and then for event 2: c waits for b, which
    ends behind a, and so does stream 21, which waits for what stream 7 does (event 7)."""
    events = [*kernel("a", 20, 0, 10, 1), record(2), *kernel("b", 20, 10, 30, 3), record(4)]
    events += [wait(7, 20, 4, 5), wait(7, 20, 2, 6), record(7), wait(21, 7, 7, 8)]
    found = waits_of(tmp_path, *events, *kernel("c", 7, 30, 40, 9), *kernel("d", 21, 30, 40, 10))
    assert found["c"] == (["b"], 0) and found["d"] == (["b"], 0)


def test_what_is_left_between_the_last_end_and_the_start_is_a_pause(tmp_path: Path) -> None:
    """c starts at 17; its stream is free at 5, and what it waits for ends at 10: a pause of 7."""
    events = [*kernel("a", 20, 0, 10, 1), record(2), *kernel("b", 7, 0, 5, 3), wait(7, 20, 2, 4)]
    assert waits_of(tmp_path, *events, *kernel("c", 7, 17, 20, 5))["c"] == (["a"], 7)


def test_without_events_the_last_end_on_another_stream_while_idle_is_waited_for(tmp_path: Path) -> None:
    """Stream 7 is idle from 5 to 17. On others d ended at 4, before, and a and b at 10 and 12: b was waited for, and
    the pause is 5."""
    others = [*kernel("a", 20, 0, 10, 1), *kernel("b", 21, 0, 12, 2), *kernel("d", 22, 0, 4, 3)]
    found = waits_of(tmp_path, *others, *kernel("e", 7, 0, 5, 4), *kernel("c", 7, 17, 20, 5))
    assert found["c"] == (["b"], 5) and found["e"] == ([], 0)


def test_without_events_a_busy_stream_waits_for_nobody(tmp_path: Path) -> None:
    events = [*kernel("a", 20, 0, 10, 1), *kernel("b", 7, 0, 12, 2), *kernel("c", 7, 12, 20, 3)]
    assert waits_of(tmp_path, *events)["c"] == ([], 0)


@pytest.mark.parametrize("recorded", [99, -1])
def test_an_event_from_before_the_profiler_began_is_waited_for_by_nobody(tmp_path: Path, recorded: int) -> None:
    """Of event 99 nothing is known but that it comes later than c: c is not made to wait for what comes later."""
    events = [*kernel("c", 7, 0, 5, 3), wait(20, 7, recorded, 1), *kernel("a", 20, 0, 10, 2)]
    assert waits_of(tmp_path, *events)["a"] == ([], 0)
