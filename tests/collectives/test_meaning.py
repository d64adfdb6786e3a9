"""What ranks begin and end with, written out for two ranks and a message of four chunks."""

import pytest

from simfrontier.collectives import Meaning
from simfrontier.schedule import CollectiveKind

Sums = list[tuple[int, int]]  # (chunk, a bit for each rank)


@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [
        ("all_gather", [(2, 2), (3, 2)], [(0, 1), (1, 1), (2, 2), (3, 2)]),
        ("reduce_scatter", [(0, 2), (1, 2), (2, 2), (3, 2)], [(2, 3), (3, 3)]),
        ("all_reduce", [(0, 2), (1, 2), (2, 2), (3, 2)], [(0, 3), (1, 3), (2, 3), (3, 3)]),
        ("all_to_all", [(0, 2), (1, 2), (2, 2), (3, 2)], [(2, 1), (3, 1), (2, 2), (3, 2)]),
    ],
)
def test_the_second_of_two_ranks(kind: CollectiveKind, before: Sums, after: Sums) -> None:
    meaning = Meaning(kind, 2, 4)
    assert (list(meaning.before(1)), list(meaning.after(1))) == (before, after)
    assert (len(meaning.input(1)), len(meaning.output(1))) == (len(before), len(after))


def test_a_message_of_an_all_reduce_need_not_be_equal_pieces() -> None:
    assert list(Meaning("all_reduce", 2, 3).after(0)) == [(0, 3), (1, 3), (2, 3)]
