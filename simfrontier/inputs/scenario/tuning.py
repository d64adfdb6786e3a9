"""The form of a scenario's table `tune`: the search over plans."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from simfrontier.base.io import Strict


class TuneTable(Strict):
    """`pin`: fixed values of dimensions; `lossy`: whether lossy codecs are allowed; `max_error`: the largest allowed
    error bound of codecs and compression, relative to the largest value in a block; `simulate`: the number of best
    plans to simulate (default: 5 % of those that fit, at least 5, at most 20).

    Extras add keys by their module `tune_keys`."""

    pin: dict[str, int | str | bool | list[int | str | bool]] = Field(default_factory=dict)
    lossy: bool = False
    max_error: Annotated[float, Field(ge=0, lt=1)] | None = None
    simulate: Annotated[int, Field(ge=1, le=1000)] | None = None
