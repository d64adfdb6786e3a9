"""Keys of this extra in a scenario's table `tune`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from simfrontier.base.io import Strict, Text

Size = Annotated[int, Field(ge=1, le=2**20)]


class AxonnKeys(Strict):
    """Keys of a scenario's table `tune`. `min_tensor`: minimum number of ranks that share the weights (X·Y·Z; the
    authors' limit for memory); `quirk`: use the dimensions of the down projection as in the authors' code, instead of
    the correct ones; `accumulation`: micro-batches per step, each of which gathers and scatters the weights (axonn-a);
    `bandwidth`: the machine whose table of bandwidths is used (default: the scenario's); `swiglu`, `gqa` (query heads
    that share a key) and `intermediate` (feed-forward features, default four times hidden): properties of a model that
    is not a plain GPT (axonn-b)."""

    min_tensor: Size = 1
    quirk: bool = True
    accumulation: Annotated[int, Field(ge=1, le=1000)] = 1
    bandwidth: Text | None = None
    swiglu: bool = False
    gqa: Size = 1
    intermediate: Size | None = None


ADDS = (AxonnKeys,)
