"""Settings as texts: what `--set` reads back is what was meant."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from simfrontier.explanation.settings_text import setting_text
from simfrontier.scenario import parse_setting

NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**62), 2**62)
# no control characters: neither files nor --set take them
WORDS = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF, exclude_categories=["Cc"]), max_size=12)
VALUES = st.recursive(
    NUMBERS | st.booleans() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)


@given(VALUES)
def test_a_value_is_read_back_as_it_is(value: Any) -> None:
    key, result = parse_setting(setting_text("plans.mine.key", value))
    assert (key, result, type(result)) == ("plans.mine.key", value, type(value))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (50e9, "k=50000000000.0"),
        (8.57e-05, "k=8.57e-05"),
        (True, "k=true"),
        ("int8:6144", "k=int8:6144"),
        ("true", 'k="true"'),
        ({"family": "zero1", "gather_codec": "plain"}, 'k={ family = "zero1", gather_codec = "plain" }'),
        ([{"axes": ["gcd"]}], 'k=[{ axes = ["gcd"] }]'),
    ],
)
def test_how_values_are_written(value: Any, text: str) -> None:
    assert setting_text("k", value) == text
