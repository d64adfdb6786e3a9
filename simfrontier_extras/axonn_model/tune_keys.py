"""Keys of this extra in a scenario's table `tune`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from simfrontier.base.io import Strict, Text

Size = Annotated[int, Field(ge=1, le=2**20)]


class AxonnKeys(Strict):
    """`min_tensor`, ranks that must at least share the weights (X·Y·Z; the authors' floor for memory); `quirk`, the
    layer down with the widths of the authors' code, or with its own; `accumulation`, micro-batches of a step that each
    gather and scatter the weights (axonn-a); `bandwidth`, the machine whose table of bandwidths is taken (default: the
    scenario's); `swiglu`, `gqa` (query heads that share a key) and `intermediate` (feed-forward features, default four
    times hidden), what a model is that is no plain GPT (axonn-b)."""

    min_tensor: Size = 1
    quirk: bool = True
    accumulation: Annotated[int, Field(ge=1, le=1000)] = 1
    bandwidth: Text | None = None
    swiglu: bool = False
    gqa: Size = 1
    intermediate: Size | None = None


ADDS = (AxonnKeys,)
