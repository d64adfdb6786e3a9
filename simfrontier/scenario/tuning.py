"""The form of a scenario's table `tune`: the search, and the options of AxoNN's analytical model."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from simfrontier.io import Strict, Text

Size = Annotated[int, Field(ge=1, le=2**20)]


class TuneTable(Strict):
    """Of the search over plans: `pin`, fixed values of its dimensions; `lossy`, whether plans may send weights
    and gradients in fewer bits; `max_error`, the largest error bound of what they send, relative to the largest value
    coded with it (codecs and policies of compression within it may be chosen); `simulate`, how many of the best are
    simulated (default: 5 % of those that fit, at least 5, at most 20).

    Of AxoNN's analytical model: `min_tensor`, ranks that must at least share the weights (X·Y·Z; the authors' floor for
    memory); `quirk`, the layer down with the widths of the authors' code, or with its own; `accumulation`,
    micro-batches of a step that each gather and scatter the weights (axonn-a); `bandwidth`, the machine whose table of
    bandwidths is taken (default: the scenario's); `swiglu`, `gqa` (query heads that share a key) and `intermediate`
    (feed-forward features, default four times hidden), what a model is that is no plain GPT (axonn-b)."""

    pin: dict[str, int | str | bool | list[int | str | bool]] = Field(default_factory=dict)
    lossy: bool = False
    max_error: Annotated[float, Field(ge=0, lt=1)] | None = None
    simulate: Annotated[int, Field(ge=1, le=1000)] | None = None
    min_tensor: Size = 1
    quirk: bool = True
    accumulation: Annotated[int, Field(ge=1, le=1000)] = 1
    bandwidth: Text | None = None
    swiglu: bool = False
    gqa: Size = 1
    intermediate: Size | None = None
