"""Filters: what they compute, and which syntax they refuse."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from simfrontier.errors import InputError
from simfrontier.sweep.filters import parse_filter

POINT = {"a": 3, "b.c": 0.5, "name": "x", "on": True, "sizes": [2, 4], "plans.zero-topo.publish": "flat"}


def holds(text: str) -> bool:
    return parse_filter(text).holds(POINT.__getitem__)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a == 3", True),
        ("a * b.c <= 1.5", True),
        ("a * b.c < 1.5", False),
        ("1 < a <= 3", True),
        ("1 < a < 3", False),
        ("a // 2 == 1 and a % 2 == 1", True),
        ("not on or a > 5", False),
        ("on", True),
        ("on == true and false == False", True),
        ("name in ['x', 'y']", True),
        ("name not in ('x', 'y')", False),
        ("a in [1, 2]", False),
        ("min(a, 7, b.c) == 0.5 and max(a, 7) == 7 and abs(-a) == 3", True),
        ("-a + 4 == 1", True),
        ("key('plans.zero-topo.publish') == 'flat'", True),
        ("sizes == [2, 4]", True),
        ("sizes == 4", False),
        ("a / 2 == 1.5", True),
        ("name != 'x'", False),
    ],
)
def test_a_filter_computes_as_python_would(text: str, value: bool) -> None:
    assert holds(text) is value


@given(a=st.integers(-9, 9), b=st.integers(-9, 9), c=st.integers(1, 9))
def test_arithmetic_and_orders_are_those_of_python(a: int, b: int, c: int) -> None:
    text = "a + b * 2 <= c or (a - b) % c == 1 and not a // c < b"
    lookup: dict[str, Any] = {"a": a, "b": b, "c": c}
    assert parse_filter(text).holds(lookup.__getitem__) == (a + b * 2 <= c or ((a - b) % c == 1 and not a // c < b))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("__import__('os').system('true')", "allowed: numbers, texts, keys"),
        ("(lambda: 1)()", "allowed: numbers"),
        ("[x for x in sizes]", "allowed: numbers"),
        ("a ** 9", "allowed: numbers"),
        ("a if on else 1", "allowed: numbers"),
        ("name[0] == 'x'", "allowed: numbers"),
        ("a << 9 > 1", "allowed: numbers"),
        ("f'{a}' == '3'", "allowed: numbers"),
        ("max(*sizes) > 1", "allowed: numbers"),
        ("min(key='a') > 1", "allowed: numbers"),
        ("[a] * 9 != [1]", "allowed: numbers"),
        ("'a' * 9 != name", "allowed: numbers"),
        ("a(2) == 3", "allowed: numbers"),
        ("a == None", "allowed: numbers"),
        ("-" * 900 + "a > 1", "cannot be read"),
        ("a + " * 300 + "1 > 1", "got 1,205 characters in a filter; allowed: at most 1,000"),
        ("a >", "cannot be read"),
        ("a = 3", "cannot be read"),
        ("", "cannot be read"),
    ],
)
def test_what_is_no_filter_is_refused_when_it_is_read(text: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_filter(text)
    assert said in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a + 1", '"a + 1" gives 4; allowed: a condition, true or false'),
        ("name > 2", "\"name > 2\": '>' not supported between instances of 'str' and 'int'; allowed: what can be"),
        ("a / (a - 3) > 1", '"a / (a - 3) > 1": division by zero; allowed: what can be computed for every point'),
    ],
)
def test_what_cannot_be_computed_of_a_point_is_one_line(text: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        holds(text)
    assert str(caught.value).startswith(said)


def test_a_filter_knows_its_keys() -> None:
    text = "b.c * a < max(a, key('x-y')) and name in ['a.b'] and on == true"
    assert set(parse_filter(text).names) == {"b.c", "a", "x-y", "name", "on"}


@given(st.text(max_size=60))
def test_any_text_is_a_filter_or_one_line(text: str) -> None:
    try:
        parse_filter(text)
    except InputError as error:
        assert "\n" not in str(error)
