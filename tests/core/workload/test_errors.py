"""Shapes, precisions and sizes that cannot be: each class once."""

from dataclasses import replace
from typing import Any

import pytest

from simfrontier.base.errors import InputError
from tests.core.workload.gpt_shapes import BASE


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"heads": 5}, "hidden = 48 does not divide into heads = 5; nearest that does: heads = 4"),
        ({"kv_heads": 7}, "heads = 24 does not divide into kv_heads = 7; nearest that does: kv_heads = 6"),
        ({"hidden": 72, "positions": "rotary"}, "got 3 of a head; allowed: hidden / heads that is even"),
    ],
)
def test_shapes_that_cannot_be(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        replace(BASE, **changes)
    assert str(caught.value).startswith("model base: ") and words in str(caught.value)
