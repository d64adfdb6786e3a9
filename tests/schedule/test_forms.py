"""What becomes of values that are added, and which sums are refused."""

import pytest

from simfrontier.schedule.forms import UNKNOWN, ChunkSum, Clash, Contributions, Version


def test_contributions_are_kept_as_often_as_they_are_added() -> None:
    assert Contributions((1,)).plus(Contributions((2, 1))) == Contributions((1, 2, 1))


def test_what_is_no_sum_stays_what_it_is() -> None:
    assert Version(1).plus(Contributions((1,))) == Version(1)
    assert Contributions((1,)).plus(Version(1)) == Contributions((1,))
    assert UNKNOWN.plus(Version(1)) is UNKNOWN


def test_chunks_are_summed_over_ranks() -> None:
    total = ChunkSum(3, 0b001).plus(ChunkSum(3, 0b110))
    assert isinstance(total, ChunkSum) and (total.chunk, total.members) == (3, [0, 1, 2])
    assert ChunkSum(3, 0b001).plus(UNKNOWN) is UNKNOWN


@pytest.mark.parametrize(
    ("other", "twice"), [(ChunkSum(4, 0b100), None), (ChunkSum(3, 0b110), ChunkSum(3, 0b010))], ids=["chunk", "rank"]
)
def test_sums_of_other_chunks_or_of_a_rank_twice_are_refused(other: ChunkSum, twice: ChunkSum | None) -> None:
    with pytest.raises(Clash) as caught:
        ChunkSum(3, 0b011).plus(other)
    assert caught.value.twice == twice
