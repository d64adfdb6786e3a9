"""The space of plans: every point can be built and checked, is what it says, and pins hold."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from simfrontier.answers.search.pins import LossyPolicy, Pins, pins_of
from simfrontier.answers.search.space import Space
from simfrontier.answers.search.states import COMPRESSIONS, levels_of, points
from simfrontier.answers.study import schedule_of_case
from simfrontier.core.program.checker import check
from simfrontier.inputs.scenario.plans import options_of
from tests.answers.search.small import scenario

AXES = ("node", "package", "gcd")


def test_the_lattice_has_every_chain_of_levels_once() -> None:
    # Levels none < package < node < all: chains weight <= gradient <= optimizer of 4 levels are C(4 + 2, 3) = 20.
    mesh = scenario(16).mesh(16)
    assert list(levels_of(mesh, AXES)) == ["none", "package", "node", "all"]
    known = {states.point for states in points(mesh, AXES, codecs=("plain",), stages=False)}
    assert len(known) == 20
    # On one package there are two levels: C(2 + 2, 3) = 4.
    one = scenario(2, 2).mesh(2)
    assert {states.point for states in points(one, AXES, codecs=("plain",), stages=False)} == {
        "none/none/none",
        "none/none/all",
        "none/all/all",
        "all/all/all",
    }


@pytest.mark.parametrize("family", ["ddp", "zero1", "zero2", "zero3", "hsdp"])
def test_named_points_of_the_lattice_are_the_families(family: str) -> None:
    made = scenario(16)
    mesh = made.mesh(16)
    point = next(s for s in points(mesh, AXES, codecs=("plain",), stages=False) if s.plain_name == family)
    table = point.table(mesh, AXES)
    assert table == {"family": family} | ({"reduction": "reduce_scatter"} if family in ("zero1", "zero2") else {})
    lattice = point._lattice(mesh, AXES)
    lattice.pop("nesting", None)  # that of the families is rank-major
    if family == "hsdp":  # which pads to what shares its states alone
        lattice["nesting"] = ["package", "gcd"]
    schedules = []
    for each in (table, lattice):
        case = made.case_with("tuned", options_of("tuned", each), 16)
        built = schedule_of_case(made, case)
        schedules.append(replace(built, meta={**built.meta, "family": ""}))
    assert schedules[0] == schedules[1]


@pytest.mark.parametrize(("devices", "machine"), [(16, "frontier"), (8, "perlmutter"), (32, "lumi-g")])
def test_plans_of_the_space_are_sound(devices: int, machine: str) -> None:
    """A sample of all plans, codecs and routes beside grids too: built, and checked without a finding."""
    made = scenario(devices, 2 * devices, machine=machine, layers=4)
    asked = pins_of({"route": ["flat", "two_level"], "copy": [False, True]})
    candidates = [*Space(made, devices, 2 * devices, Pins({}), LossyPolicy(True)).candidates()]
    candidates += Space(made, devices, 2 * devices, asked, LossyPolicy()).candidates()
    compressed = [*Space(made, devices, 2 * devices, Pins({}), LossyPolicy(max_error=0.7)).candidates()]
    compressed = [one for one in compressed if one.value("compression") != "none"]
    for candidate in (*random.Random(11).sample(candidates, 30), *random.Random(12).sample(compressed, 10)):
        assert candidate.case.samples == 2 * devices, candidate.name
        report = check(schedule_of_case(made, candidate.case))
        assert not report.findings, (candidate.name, report.findings[0])


def test_a_bound_on_the_error_chooses_codecs_and_policies() -> None:
    """int8 is off by 1/254 = 0.0039 of the largest value at most, int4 by 1/14 = 0.071; zfp by 20 · 2^(3 - rate): 0.625
    at 8 bits, 0.0024 at 16, 9.5e-6 at 24; mpc by nothing."""
    made = scenario(16, 32)
    zfp24, zfp16 = {"none", "naive-mpc", "naive-zfp:24"}, {"naive-zfp:16", "MZHybrid:16", "ZHybrid:16/24"}
    for bound, codecs, policies in (
        (0.0, {"plain"}, {"none", "naive-mpc"}),
        (1e-5, {"plain"}, zfp24),
        (0.003, {"plain"}, zfp24 | zfp16),
        (0.004, {"plain", "weights"}, zfp24 | zfp16),
        (0.1, {"plain", "weights", "gradients", "both"}, zfp24 | zfp16),
        (0.7, {"plain", "weights", "gradients", "both"}, set(COMPRESSIONS)),
    ):
        results = [*Space(made, 16, 32, Pins({}), LossyPolicy(max_error=bound)).candidates()]
        assert {candidate.states.codec for candidate in results} == codecs
        assert {candidate.value("compression") for candidate in results} == policies
        assert not [one for one in results if one.states.codec != "plain" and one.value("compression") != "none"]


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("family", ("axonn", "megatron")),
        ("pipeline", (2,)),
        ("sequence_parallel", (True,)),
        ("states", ("zero1", "package/node/all")),
        ("copy", (True,)),
        ("codec", ("weights",)),
        ("compression", ("naive-mpc", "ZHybrid:8/16")),
    ],
)
def test_pins_hold_and_leave_something(name: str, values: tuple[int | str | bool, ...]) -> None:
    made = scenario(16, 32)
    pinned = [*Space(made, 16, 32, Pins({name: values}), LossyPolicy(True)).candidates()]
    assert pinned
    assert {candidate.value(name) for candidate in pinned} <= set(values)


def test_pins_only_restrict_unless_they_ask_for_more() -> None:
    made = scenario(16, 32)
    free = {*Space(made, 16, 32, Pins({}), LossyPolicy()).candidates()}
    for pins in ({"copy": (False,)}, {"route": ("flat",)}, {"copy": (False,), "route": ("flat",)}):
        assert {*Space(made, 16, 32, Pins(pins), LossyPolicy()).candidates()} < free
    asked = {*Space(made, 16, 32, Pins({"copy": (True,), "family": ("megatron",)}), LossyPolicy()).candidates()}
    assert asked
    assert not asked & free  # beside a grid, where they are asked for


@pytest.mark.parametrize(("layers", "uneven"), [(31, {2, 4, 8, 16}), (30, {4, 8, 16}), (6, set()), (8, set())])
def test_stages_as_even_as_the_layers_allow(layers: int, uneven: set[int]) -> None:
    """Where 4 does not divide the layers, powers of two with at most a tenth more layers than the mean."""
    made = scenario(16, 32, layers=layers)
    pins = Pins({"family": ("megatron",), "tensor": (1,), "micro_batch": (1,)})
    found = {
        candidate.value("pipeline"): len(
            set(map(len, candidate.case.plan.pipeline.groups(layers, candidate.case.stages)))
        )
        for candidate in Space(made, 16, 32, pins, LossyPolicy()).candidates()
        if candidate.case.plan.pipeline is not None
    }
    assert {depth for depth, sizes in found.items() if sizes == 2} == uneven
