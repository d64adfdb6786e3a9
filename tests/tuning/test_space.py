"""The space of plans: every point can be built and checked, is what it says, and pins hold."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from itertools import product

import pytest

from simfrontier.errors import InputError
from simfrontier.scenario import scenario_of
from simfrontier.scenario.plans import options_of
from simfrontier.schedule.checker import check
from simfrontier.study import schedule_of_case
from simfrontier.tuning.lossy import LossyPolicy
from simfrontier.tuning.pins import DIMENSIONS, Pins, parse_pin, pins_of
from simfrontier.tuning.space import Space
from simfrontier.tuning.states import COMPRESSIONS, StateSharding, levels_of, points
from tests.tuning.small import scenario

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


def test_a_move_takes_two_hops_only_where_that_is_another_plan() -> None:
    mesh = scenario(16).mesh(16)
    routes: dict[str, set[str]] = {}
    for states in points(mesh, AXES, codecs=("plain",), stages=False):
        routes.setdefault(states.point, set()).add(states.route)
    assert routes["none/none/node"] == {"flat"}  # reduce-scatter in the node, all-reduce between nodes: two hops anyway
    assert routes["node/node/node"] == {"flat"}
    assert routes["all/all/all"] == {"flat", "two_level"}
    assert routes["none/none/all"] == {"flat", "two_level"}


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


def test_names_and_keys_tell_plans_apart() -> None:
    made = scenario(16, 32)
    candidates = list(Space(made, 16, 32, Pins({}), LossyPolicy(True)).candidates())
    assert len(candidates) > 200
    assert len({candidate.key for candidate in candidates}) == len(candidates)
    assert len({candidate.name for candidate in candidates}) == len(candidates)


def test_nothing_loses_precision_unless_that_is_allowed() -> None:
    made = scenario(16, 32)
    for lossy, codecs in ((False, {"plain"}), (True, {"plain", "weights", "gradients", "both"})):
        known = {candidate.states.codec for candidate in Space(made, 16, 32, Pins({}), LossyPolicy(lossy)).candidates()}
        assert known == codecs


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


def test_pins_that_lose_too_much_are_refused_with_the_bound() -> None:
    for pin, loss, message in (
        (
            {"codec": "both"},
            LossyPolicy(),
            "'both' loses precision; allow it with --lossy (tune.lossy = true), or --max-error",
        ),
        (
            {"codec": "both"},
            LossyPolicy(max_error=0.01),
            "'both' may be off by 0.071 of the largest value; allowed: max_error",
        ),
        ({"compression": "ZHybrid:8/16"}, LossyPolicy(), "'ZHybrid:8/16' loses precision; allow it with --lossy"),
        (
            {"compression": "naive-zfp:8"},
            LossyPolicy(True, 0.5),
            "'naive-zfp:8' may be off by 0.62 of the largest value",
        ),
    ):
        with pytest.raises(InputError, match=rf"^tune.pin.{next(iter(pin))}: {re.escape(message)}"):
            loss.refuse(pins_of(pin))
    LossyPolicy().refuse(pins_of({"compression": "naive-mpc"}))


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("family", ("zero",)),
        ("family", ("axonn", "megatron")),
        ("tensor", (2,)),
        ("x", (2, 4)),
        ("pipeline", (2,)),
        ("pipeline", (1,)),
        ("order", ("gpipe",)),
        ("sequence_parallel", (True,)),
        ("states", ("zero1", "package/node/all")),
        ("route", ("two_level",)),
        ("copy", (True,)),
        ("codec", ("weights",)),
        ("micro_batch", (2,)),
        ("checkpointing", ("none",)),
        ("compression", ("naive-mpc", "ZHybrid:8/16")),
    ],
)
def test_pins_hold_and_leave_something(name: str, values: tuple[int | str | bool, ...]) -> None:
    made = scenario(16, 32)
    pinned = [*Space(made, 16, 32, Pins({name: values}), LossyPolicy(True)).candidates()]
    assert pinned
    assert {candidate.value(name) for candidate in pinned} <= set(values)


def test_a_pin_leaves_out_nothing_that_has_its_value() -> None:
    made = scenario(16, 32)
    free = [*Space(made, 16, 32, Pins({}), LossyPolicy()).candidates()]
    for name, value in product(("tensor", "pipeline", "micro_batch", "z"), (1, 2)):
        wanted = {candidate for candidate in free if candidate.value(name) == value}
        pinned = {*Space(made, 16, 32, Pins({name: (value,)}), LossyPolicy()).candidates()}
        assert wanted <= pinned, (name, value)


def test_pins_only_restrict_unless_they_ask_for_more() -> None:
    made = scenario(16, 32)
    free = {*Space(made, 16, 32, Pins({}), LossyPolicy()).candidates()}
    for pins in ({"copy": (False,)}, {"route": ("flat",)}, {"copy": (False,), "route": ("flat",)}):
        assert {*Space(made, 16, 32, Pins(pins), LossyPolicy()).candidates()} < free
    asked = {*Space(made, 16, 32, Pins({"copy": (True,), "family": ("megatron",)}), LossyPolicy()).candidates()}
    assert asked
    assert not asked & free  # beside a grid, where they are asked for


def test_states_mean_what_is_left_of_them_on_a_small_mesh() -> None:
    two = scenario(2, 4)
    known = {
        candidate.states.plain_name
        for candidate in Space(two, 2, 4, Pins({"states": ("hsdp",), "family": ("zero",)}), LossyPolicy()).candidates()
    }
    assert known == {"zero3"}  # a node's ranks are all ranks


@pytest.mark.parametrize(
    ("pins", "message"),
    [
        ({"family": ("megatron",), "tensor": (1,), "pipeline": (1,)}, "tensor × pipeline = 1: allowed with megatron"),
        ({"family": ("axonn",), "x": (4,), "y": (4,), "z": (4,)}, "x × y × z × pipeline = 64: allowed with axonn"),
    ],
)
def test_grids_that_are_none_say_why(pins: dict[str, tuple[int | str | bool, ...]], message: str) -> None:
    space = Space(scenario(16, 32), 16, 32, Pins(pins), LossyPolicy())
    assert not list(space.candidates())
    assert space.refused[0].startswith(message)


def test_a_pin_may_go_beyond_what_is_tried_unasked() -> None:
    made = scenario(64, 64)
    unasked = max(int(c.value("tensor")) for c in Space(made, 64, 64, Pins({}), LossyPolicy()).candidates())
    assert unasked < 32  # 16 heads
    pinned = [*Space(scenario(64, 64, hidden=2048), 64, 64, Pins({"z": (64,)}), LossyPolicy()).candidates()]
    assert {candidate.value("z") for candidate in pinned} == {64}


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"tenser": 2}, "tune.pin: 'tenser' is no dimension of a plan; did you mean \"tensor\"?"),
        ({"tensor": 0}, "tune.pin.tensor: got '0'; allowed: numbers from 1 to 1,048,576"),
        ({"tensor": "two"}, "tune.pin.tensor: got 'two'; allowed: numbers from 1 to 1,048,576"),
        ({"tensor": True}, "tune.pin.tensor: got 'true'; allowed: numbers from 1 to 1,048,576"),
        ({"tensor": []}, "tune.pin.tensor: got nothing; allowed: numbers from 1 to 1,048,576"),
        ({"copy": 1}, "tune.pin.copy: got '1'; allowed: true, false"),
        ({"states": "zero4"}, "tune.pin.states: got 'zero4'; did you mean \"zero3\"?"),
        ({"softmax": "two-passes"}, "tune.pin.softmax: got 'two-passes'; did you mean \"two-pass\"?"),
        (
            {"cross_entropy": "mn"},
            "tune.pin.cross_entropy: got 'mn'; did you mean \"mn-merge\"?",
        ),
        ({"checkpointing": "some"}, "tune.pin.checkpointing: got 'some'; allowed: full, none, selective"),
    ],
)
def test_pins_that_mean_nothing_are_refused(table: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as caught:
        pins_of(table)  # type: ignore[arg-type]
    assert str(caught.value) == message


def test_kernels_and_ways_are_tried_where_they_are_asked_for() -> None:
    """Unasked, plans are as the model says; a plan without a grid cuts no classes."""
    made = scenario(16, 32)
    plain = [*Space(made, 16, 32, Pins({}), LossyPolicy()).candidates()]
    assert {(c.value("softmax"), c.value("cross_entropy")) for c in plain} == {("fused", "fused-two")}
    pins = {"softmax": ("two-pass", "fused"), "cross_entropy": ("mn-merge", "fused-two")}
    asked = [*Space(made, 16, 32, Pins(pins), LossyPolicy()).candidates()]
    assert {(c.value("softmax"), c.value("cross_entropy")) for c in asked if c.family != "zero"} == {
        (kernel, way) for kernel in pins["softmax"] for way in pins["cross_entropy"]
    }
    assert {c.value("cross_entropy") for c in asked if c.family == "zero"} == {"fused-two"}
    assert len(asked) == 2 * sum(1 if c.family == "zero" else 2 for c in plain)
    two = [*Space(made, 16, 32, Pins({"softmax": pins["softmax"]}), LossyPolicy()).candidates()]
    assert len({c.core for c in two}) == 2 * len({c.core for c in plain})
    only = [*Space(made, 16, 32, Pins({"cross_entropy": ("mn-merge",)}), LossyPolicy()).candidates()]
    assert {c.family for c in only} == {"megatron", "axonn"} and all("mn-merge" in c.name for c in only)


def test_pins_of_the_command_line() -> None:
    assert parse_pin("tensor=4, 8") == ("tensor", [4, 8])
    assert parse_pin("copy=true") == ("copy", [True])
    assert parse_pin("states=package/node/all") == ("states", ["package/node/all"])
    for text in ("tensor", "=4", "tensor="):
        with pytest.raises(InputError, match="write dimension=value"):
            parse_pin(text)


def test_a_plan_without_sequence_parallelism_has_none_under_a_stack_that_has_it_by_default() -> None:
    """Megatron-Core's plans have sequence parallelism unless a table says otherwise."""
    pins = Pins({"family": ("megatron",), "tensor": (2,)})
    made = scenario_of({**scenario(16, 32).document, "stack": "megatron-core"}, "small.toml", laid_out=False)
    tables = [
        each.table | {"value": each.value("sequence_parallel")}
        for each in Space(made, 16, 32, pins, LossyPolicy()).candidates()
    ]
    assert {table["sequence_parallel"] for table in tables} == {False, True}
    assert all(table["sequence_parallel"] == table["value"] for table in tables)


def test_every_dimension_has_a_value_in_every_plan() -> None:
    candidate = next(Space(scenario(16, 32), 16, 32, Pins({}), LossyPolicy()).candidates())
    assert {name: candidate.value(name) for name in DIMENSIONS} == {
        "family": "zero",
        "tensor": 1,
        "sequence_parallel": False,
        "x": 1,
        "y": 1,
        "z": 1,
        "pipeline": 1,
        "order": "1f1b",
        "states": "ddp",
        "copy": False,
        "route": "flat",
        "codec": "plain",
        "compression": "none",
        "cross_entropy": "fused-two",
        "softmax": "fused",
        "micro_batch": 1,
        "checkpointing": "full",
    }


def test_states_say_what_is_special() -> None:
    assert StateSharding(weight="all", gradient="all", optimizer="all", copy=True, codec="both").name == (
        "zero3+copy+int8 weights+int4 gradients"
    )
    assert StateSharding(weight="package", gradient="node", optimizer="all", route="two_level").name == (
        "package/node/all+two-level"
    )
