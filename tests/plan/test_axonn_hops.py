"""AxoNN's plan: where the axis z comes in the hops of each move."""

from __future__ import annotations

from simfrontier.plan import make_plan
from tests.plan.grids import axonn

ORDER = {  # gradients are summed over z first, what is gathered comes over z last
    "weight_gather": (("data",), ("z",)),
    "gradient": (("z",), ("data",)),
    "publish": (("data",), ("z",)),
}


def test_z_is_reduced_first_and_gathered_last() -> None:
    options = axonn(2, 1, 2, data="zero3")
    plan = make_plan("axonn", options, options.mesh(16, per_node=1, per_package=1))
    for purpose, axes in ORDER.items():
        assert tuple(hop.axes for hop in plan.hops[purpose]) == axes, purpose  # type: ignore[index]
