"""Options as people read them: what is not coded has the model's own type as its codec."""

from __future__ import annotations

from typing import Any

import pytest

from simfrontier.codecs import Plain, Quantised
from simfrontier.plan import FAMILIES


@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_what_is_not_coded_is_of_the_models_type(dtype: str) -> None:
    given: Any = FAMILIES["zeropp"][0](family="zeropp", weight_codec=Quantised("int8", 64))
    shown = given.in_precision(dtype)
    assert given.gather_codec is None and shown.gather_codec == shown.gradient_codec == Plain(dtype)
    assert shown.weight_codec == Quantised("int8", 64)


def test_so_are_hops_and_the_options_of_the_data_axes() -> None:
    data: Any = FAMILIES["lattice"][0](
        family="lattice",
        optimizer=("node",),
        weight=("node",),
        accumulator=("node",),
        weight_gather=({"axes": ("node",)},),
    )
    assert data.in_precision("fp16").weight_gather[0].codec == Plain("fp16")
    grid: Any = FAMILIES["megatron"][0](family="megatron", data=FAMILIES["zero3"][0](family="zero3"))
    assert grid.in_precision("fp16").data.gather_codec == Plain("fp16")
