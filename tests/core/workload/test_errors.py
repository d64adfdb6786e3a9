"""Shapes, precisions and sizes that cannot be: each class once."""

from dataclasses import replace
from typing import Any

import pytest

from simfrontier.base.errors import InputError
from tests.core.workload.gpt_shapes import BASE

LATENT = {"kv_rank": 8, "nope_features": 4, "rope_features": 4, "value_features": 4, "positions": "rotary"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"heads": 5}, "hidden = 48 does not divide into heads = 5; nearest that does: heads = 4"),
        ({"kv_heads": 7}, "heads = 24 does not divide into kv_heads = 7; nearest that does: kv_heads = 6"),
        ({"rope_features": 4}, "rope_features belongs to latent attention; missing: kv_rank"),
        ({"kv_rank": 8, "rope_features": 4}, "kv_rank = 8 of latent attention; missing: nope_features, value_features"),
        ({**LATENT, "kv_heads": 8}, "kv_heads of a model with kv_rank = 8; allowed: heads"),
        (LATENT | {"rope_features": 3}, "rotates pairs of features, got 3 of a head"),
        ({"full_every": 2}, "full_every = 2 of layers with a window; missing: window"),
        ({"experts": 4, "dense_layers": 2}, "dense_layers = 2; allowed: 0 to 1, so that a layer has experts"),
        ({"experts": 4, "expert_every": 3}, "expert_every = 3; allowed: 1 to 2, so that a layer has experts"),
        ({"mtp_layers": 1, "positions": "learned"}, "positions of a model with mtp_layers = 1; allowed: without"),
        ({"qk_norm": True}, 'allowed: positions = "rotary" without kv_rank'),
        ({"hidden": 72, "positions": "rotary"}, "got 3 of a head; allowed: hidden / heads that is even"),
    ],
)
def test_shapes_that_cannot_be(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        replace(BASE, **changes)
    assert str(caught.value).startswith("model base: ") and words in str(caught.value)
