"""Plans in the words of launch scripts: the tables that they mean, and words that mean none."""

from __future__ import annotations

from typing import Any

import pytest

from simfrontier.base.errors import InputError
from simfrontier.inputs.scenario.plan_words import is_in_words, plans_in_words

ZERO_1 = {"family": "zero1"}


@pytest.mark.parametrize(
    ("text", "name", "table"),
    [
        ("zero3;", "zero3", {"family": "zero3"}),
        ("FSDP2;", "fsdp2", {"family": "zero3"}),
        ("tp 2 ep 8", "tp2-ep8", {"tensor": 2, "sequence_parallel": True, "expert": 8, "data": ZERO_1}),
        ("EP=16", "ep16", {"expert": 16, "data": ZERO_1}),
        (
            "pp4 vp2 zero3",
            "pp4-vp2-zero3",
            {"pipeline": 4, "layers": "even", "chunks": 2, "order": "interleaved", "data": {"family": "zero3"}},
        ),
        ("pipeline 2, cp 4", "pipeline2-cp4", {"pipeline": 2, "layers": "even", "context": 4, "data": ZERO_1}),
    ],
)
def test_words_are_tables(text: str, name: str, table: dict[str, Any]) -> None:
    assert is_in_words(text)
    family = {} if "family" in table else {"family": "megatron"}
    assert plans_in_words(text) == {name: {**family, **table}}


@pytest.mark.parametrize("text", ["zero3", "zero3,zero-topo", "zero-topo", "mine"])
def test_names_are_no_words(text: str) -> None:
    assert not is_in_words(text)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("tp", "tp ; allowed: tp once, with a number of ranks"),
        ("tp 2 tp 4", "tp 4; allowed: tp once"),
        ("ep 8 dispatch deepep", "other keys: --set plans.NAME.KEY=VALUE"),
        ("tp 0", "tp 0; allowed"),
        ("tp 2 zero1 zero3", "'zero3'"),
        ("tp 2 zro3", 'did you mean "zero3"?'),
        ("tp 2; tp2", "'tp2' twice"),
        (";", "plans separated by ;"),
    ],
)
def test_other_words_are_refused_in_one_line(text: str, line: str) -> None:
    with pytest.raises(InputError) as caught:
        plans_in_words(text)
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)
