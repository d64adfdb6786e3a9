"""Sets of ranks as text: short for what is regular, exact for everything, and nothing else is read."""

import pytest
from hypothesis import given, strategies as st

from simfrontier.core.trace.table import ranges_text, ranks_of_text


@pytest.mark.parametrize(
    ("ranks", "text"),
    [
        ((), ""),
        ((5,), "5"),
        ((0, 1), "0-1"),
        ((0, 1, 2, 3, 4, 5, 6, 7, 16), "0-7,16"),
        ((0, 4, 8, 12), "0-12:4"),
        ((0, 2), "0,2"),
        ((0, 2, 3, 4), "0,2-4"),
        ((0, 1, 2, 4, 5, 6, 7), "0-2,4-7"),
        (tuple(range(75264)), "0-75263"),
        (tuple(range(3, 75264, 4)), "3-75263:4"),
    ],
)
def test_ranges_are_short_and_come_back(ranks: tuple[int, ...], text: str) -> None:
    assert ranges_text(ranks) == text
    assert ranks_of_text(text) == ranks


@given(st.sets(st.integers(0, 400)))
def test_any_set_comes_back(ranks: set[int]) -> None:
    assert ranks_of_text(ranges_text(sorted(ranks))) == tuple(sorted(ranks))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a", "'a' is not a rank or a range of ranks, such as 0-7 or 0-28:4"),
        ("7-0", "'7-0': ranks do not ascend"),
        ("0-7,7", "'7': ranks do not ascend"),
    ],
)
def test_what_is_not_ranges_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        ranks_of_text(text)
    assert message in str(caught.value)
