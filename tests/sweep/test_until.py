"""What --until may say."""

from __future__ import annotations

import pytest

from simfrontier.errors import InputError
from simfrontier.sweep.until import Until, parse_until


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("500", Until(points=500)),
        ("500 points", Until(points=500)),
        ("90s", Until(seconds=90.0)),
        ("1.5 min", Until(seconds=90.0)),
        ("2h", Until(seconds=7200.0)),
        ("0.5%", Until(precision=0.005)),
    ],
)
def test_until(text: str, meant: Until) -> None:
    assert parse_until(text) == meant


@pytest.mark.parametrize("text", ["", "soon", "0", "-3", "1e3", "2 days", "nan", "5%%", "9" * 400, "0%"])
def test_what_is_none_of_them_is_one_line(text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_until(text)
    message = str(caught.value)
    assert message.startswith("--until: got ") and message.count("\n") == 0 and len(message) < 300
    assert "allowed: a number of points (500), a time (90s, 30min, 2h) or a precision (1%)" in message


def test_points_are_whole() -> None:
    with pytest.raises(InputError, match=r'^--until: got "2.5"; allowed: a whole number of points$'):
        parse_until("2.5")
