"""Pieces of a call: where nothing of it is under way on any of its rank classes."""

from __future__ import annotations

import numpy as np

from simfrontier.schedule import ExpandedProgram, Issuer, expand
from simfrontier.simulation.pieces import pieces_of
from simfrontier.simulation.timeline import CallTimes
from tests.simulation.test_segments import kernel, of


def times(*ops: tuple[float, float]) -> CallTimes:
    """Ops that start when they are ready, and end."""
    start, end = np.array(ops).T
    return CallTimes(ready=start, start=start, end=end)


def program() -> ExpandedProgram:
    """Two kernels one after the other, beside the second one of another lane; the last waits for both."""
    ops = kernel("1", writes="a"), kernel("2", "side", reads="a", writes="b"), kernel("3", reads="a", writes="c")
    made = of((*ops, kernel("4", reads="bc", writes="d")))
    return expand(made, made.roles[0])


def test_a_piece_begins_where_nothing_is_under_way() -> None:
    """The side runs from 1 to 3 and the second kernel to 2, so that at 2 the side is under way; 4 is the end."""
    pieces = pieces_of(program(), [times((0, 1), (1, 3), (1, 2), (3, 4))])
    assert pieces.begins == (0.0, 1.0, 3.0)
    assert pieces.done == ((0, 0), (1, 0), (2, 1))  # on `compute` and on the side
    assert pieces.number_of == {(0, 0): 0, (1, 0): 1, (2, 1): 2}


def test_all_rank_classes_are_at_a_piece_together() -> None:
    """The second class begins its side and its second kernel a quarter later, and has the last op with the first."""
    first, second = times((0, 1), (1, 3), (1, 2), (3, 4)), times((0, 1.25), (1.25, 3), (1.25, 2), (3, 4))
    pieces = pieces_of(program(), [first, second])
    assert pieces.begins == (0.0, 3.0) and pieces.done == ((0, 0), (2, 1))


def test_what_takes_no_time_is_done_where_a_piece_begins() -> None:
    pieces = pieces_of(program(), [times((0, 1), (1, 1), (1, 2), (2, 4))])
    assert pieces.begins == (0.0, 1.0, 2.0) and pieces.done == ((0, 0), (1, 1), (2, 1))


def test_an_issuer_goes_on_behind_what_is_done() -> None:
    """It hands out what one that has come that far hands out."""
    made = program()
    far = Issuer(made)
    assert far.is_idle and far.startable() == [0] and not far.is_idle
    far.finish(0)
    assert far.is_idle
    later = Issuer(made, (1, 0))
    assert later.is_idle and later.done == far.done
    assert sorted(later.startable()) == sorted(far.startable()) == [1, 2]
    for issuer in (far, later):
        issuer.finish(1)
        assert not issuer.is_idle and not issuer.is_finished
        issuer.finish(2)
        assert issuer.is_idle and issuer.startable() == [3]
    done = Issuer(made, (3, 1))
    assert done.is_finished and done.is_idle and done.startable() == []
