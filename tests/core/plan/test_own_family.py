"""Plan families defined by a user: the plan, its options as keys, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import pytest

import simfrontier as sf
from simfrontier.answers.study import schedule_of
from simfrontier.base.errors import InputError
from simfrontier.core.plan.families import FAMILIES, own_families, plan_family
from simfrontier.core.plan.zero import ZERO
from simfrontier.core.program import digest
from simfrontier.inputs.scenario import Scenario

STATES = {
    "weight": ["package", "gcd"],
    "accumulator": ["gcd"],
    "optimizer": ["node", "package", "gcd"],
    "nesting": ["gcd", "package", "node"],
}


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """Families that a test makes end with it."""
    yield
    for name in own_families():
        del FAMILIES[name], ZERO[name]


def scenario(plans: Any, devices: int = 8) -> Scenario:
    return sf.new_scenario("toy-cluster", "tiny", plans, devices=devices)


def test_a_function_of_keys_is_the_lattice_of_these_keys() -> None:
    @plan_family
    def my_own(mesh: Any, *, where: Literal["gcd", "package"] = "gcd", codec: str = "plain") -> dict[str, Any]:
        return {**STATES, "accumulator": [where], "gather_codec": codec}

    made = scenario({"my-own": {}, "coded": {"family": "my-own", "codec": "int8:64"}, "same": STATES})
    plain, coded, same = (made.case(plan, 8).plan for plan in ("my-own", "coded", "same"))
    assert (plain.weight, plain.accumulator, plain.hops) == (same.weight, same.accumulator, same.hops)
    assert [hop.codec is not None for hop in coded.hops["weight_gather"]] == [True]
    assert plain.family == "my-own" and own_families() == {"my-own"}


def test_the_function_sees_the_mesh_and_may_give_a_whole_plan() -> None:
    seen = []

    @plan_family
    def like_zero3(mesh: Any) -> Any:
        seen.append(mesh.num_ranks)
        return FAMILIES["zero3"][1]("x", FAMILIES["zero3"][0](family="zero3"), mesh, mesh.names)

    made = scenario(["like-zero3", "zero3"])
    assert set(seen) == {8}
    mine, theirs = (schedule_of(made, plan, 8) for plan in ("like-zero3", "zero3"))
    assert mine.tensors == theirs.tensors and mine.roles == theirs.roles and digest(mine) != digest(theirs)


def test_it_is_compared_and_may_be_the_plan_on_the_data_axes_of_a_grid() -> None:
    @plan_family
    def whole(mesh: Any) -> dict[str, Any]:
        return {"weight": [], "accumulator": [], "optimizer": []}

    table = {"grid": {"family": "megatron", "tensor": 2, "data": "whole"}, "ddp": {}, "whole": {}}
    rows = sf.compare("toy-cluster", "tiny", table, devices=8, settings={"stack": "none"}).frame()
    assert rows["fits"].all()
    ddp, own = (rows.loc[rows["plan"] == plan, "step_time_nominal_s"].item() for plan in ("ddp", "whole"))
    assert own == pytest.approx(ddp)
    with pytest.raises(InputError, match="jobs: got 2, but plan 'whole' is of a family of this process; allowed: 1"):
        sf.compare("toy-cluster", "tiny", table, devices=8, jobs=2)


def test_what_is_no_family_is_refused_in_one_line() -> None:
    def zero3(mesh: Any) -> dict[str, Any]:
        return {}

    with pytest.raises(InputError, match="plan family 'zero3': simfrontier has one of this name"):
        plan_family(zero3)

    def taken(mesh: Any, micro_batch: int = 1) -> dict[str, Any]:
        return {}

    with pytest.raises(InputError, match="plan family 'taken': micro_batch is a key of every plan"):
        plan_family(taken)

    @plan_family
    def misspelt(mesh: Any) -> dict[str, Any]:
        return {**STATES, "wieght": ["gcd"]}

    with pytest.raises(InputError, match=r'plans.misspelt.wieght: .*unknown key; did you mean "weight"'):
        scenario(["misspelt"])
