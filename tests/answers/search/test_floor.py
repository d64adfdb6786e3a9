"""No floor is above a simulated time, whatever the plan; and estimates lie close to simulations."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from simfrontier.answers.search.pins import LossyPolicy, pins_of
from simfrontier.answers.search.small_steps import SmallSchedules
from simfrontier.answers.search.space import Candidate, Space
from simfrontier.answers.search.states import LayerStates
from simfrontier.answers.search.step_estimate import estimate
from simfrontier.answers.study import BuiltSchedule, ScheduleCache, schedule_of_case, simulated
from simfrontier.base.errors import InputError
from simfrontier.core.cost import Prices
from simfrontier.core.engine import fullest
from simfrontier.core.program import peak_bytes
from simfrontier.inputs.scenario import Scenario, options_of
from tests.answers.search.small import scenario

SIZES = {"frontier": (8, 16, 24, 64), "perlmutter": (4, 16, 32), "lumi-g": (16, 32)}


@lru_cache(maxsize=32)
def coded(
    machine: str, devices: int, layers: int, hidden: int, batch: int, **pins: str
) -> tuple[Scenario, list[Candidate]]:
    """All plans of a scenario with these pins, those with codecs too."""
    made = scenario(devices, batch, machine=machine, layers=layers, hidden=hidden)
    return made, list(Space(made, devices, batch, pins_of(pins), LossyPolicy(True)).candidates())


@lru_cache(maxsize=32)
def routed(
    machine: str, devices: int, layers: int, hidden: int, batch: int, **pins: str
) -> tuple[Scenario, list[Candidate]]:
    """All plans of a scenario with these pins, by both routes, and without codecs."""
    made = scenario(devices, batch, machine=machine, layers=layers, hidden=hidden)
    by = pins_of({**pins, "route": ["flat", "two_level"]})
    return made, list(Space(made, devices, batch, by, LossyPolicy()).candidates())


def coded_or_routed(
    machine: str, devices: int, layers: int, hidden: int, batch: int
) -> tuple[Scenario, list[Candidate]]:
    """All of both."""
    made, candidates = coded(machine, devices, layers, hidden, batch)
    return made, [*dict.fromkeys(candidates + routed(machine, devices, layers, hidden, batch)[1])]


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from([(machine, size) for machine, sizes in SIZES.items() for size in sizes]),
    st.sampled_from((1, 2, 3, 4, 6)),
    st.sampled_from((512, 2048)),
    st.sampled_from((1, 2, 4)),
    st.sampled_from((coded, routed)),
    st.sampled_from(("full", "none")),
    st.floats(0, 1, exclude_max=True),
)
def test_no_floor_is_above_a_simulated_time(
    where: tuple[str, int],
    layers: int,
    hidden: int,
    each: int,
    plans: Callable[..., tuple[Scenario, list[Candidate]]],
    checkpointing: str,
    place: float,
) -> None:
    machine, devices = where
    made, candidates = plans(machine, devices, layers, hidden, each * devices, checkpointing=checkpointing)
    is_no_less_than_its_floor(made, candidates[int(place * len(candidates))], devices)


def is_no_less_than_its_floor(made: Scenario, candidate: Candidate, devices: int) -> None:
    """The simulated time of a plan, in both fidelities; or nobody can run it."""
    small_schedules = SmallSchedules(Prices(made.machine, made.library, devices))
    try:
        result = estimate(candidate.case, small_schedules)
    except InputError as error:  # groups that the library cannot run, which no simulation can either
        with pytest.raises(InputError):
            simulated(made, BuiltSchedule(schedule=schedule_of_case(made, candidate.case)), "flow")
        assert "unevenly" in str(error)
        return
    built = BuiltSchedule(schedule=schedule_of_case(made, candidate.case))
    for fidelity in ("flow", "analytic"):
        step = simulated(made, built, fidelity)
        assert result.floor_s <= step.step_s * (1 + 1e-12), (candidate.name, fidelity)
    assert result.floor_s <= result.step_s * (1 + 1e-9)


MIXED = {"experts": 8, "experts_per_token": 2, "expert_ffn": 2048, "residual": "sequential", "causal": True}


@pytest.mark.parametrize(
    ("model", "table"),
    [
        ({}, {"pipeline": 4, "layers": "even"}),
        ({}, {"pipeline": 4, "layers": [0, 3, 5, 2]}),
        ({}, {"pipeline": 2, "layers": [4, 1, 2, 3], "chunks": 2, "order": "interleaved"}),
        ({}, {"pipeline": 2, "layers": [4, 1, 2, 3], "chunks": 2, "order": "zb-v"}),
        ({**MIXED, "dense_layers": 2}, {"tensor": 2}),
        ({**MIXED, "dense_layers": 3}, {"pipeline": 2}),
        ({**MIXED, "dense_layers": 1}, {"pipeline": 4, "layers": "even", "expert": 2}),
        ({"mtp_layers": 1}, {"tensor": 2}),
        ({**MIXED, "dense_layers": 1, "mtp_layers": 1}, {"pipeline": 4, "layers": "even", "expert": 2}),
        ({**MIXED, "expert_every": 2}, {"pipeline": 2, "order": "interleaved", "layers": "even", "chunks": 2}),
    ],
    ids=str,
)
def test_uneven_stages_and_layers_of_two_kinds(model: dict[str, Any], table: dict[str, Any]) -> None:
    """No floor is above a simulated time, and estimates are near it: of time, and of the bytes of the fullest rank."""
    made = scenario(16, 64, layers=10, model=model)
    case = made.case_with(
        "tried", options_of("tried", {"family": "megatron", "data": {"family": "zero1"}, **table}), 16
    )
    result = estimate(case, SmallSchedules(Prices(made.machine, made.library, 16)))
    built = ScheduleCache().of_case(made, case)
    step = simulated(made, built, "analytic")
    assert result.floor_s <= step.step_s
    assert result.step_s == pytest.approx(step.step_s, rel=0.15)
    assert result.peak_bytes == pytest.approx(fullest(step, built.peaks).peak_bytes, rel=0.1)
    assert LayerStates().num_bytes(case) <= fullest(step, built.peaks).peak_bytes


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from([(machine, size) for machine, sizes in SIZES.items() for size in sizes]),
    st.sampled_from((1, 2, 5, 24, 48)),
    st.sampled_from((512, 4096)),
    st.sampled_from((1, 2, 8)),
    st.sampled_from(("zero", "megatron", "axonn")),
    st.sampled_from(("full", "none")),
    st.floats(0, 1, exclude_max=True),
)
def test_no_estimate_is_below_its_floor(
    where: tuple[str, int], layers: int, hidden: int, each: int, family: str, checkpointing: str, place: float
) -> None:
    """However many layers and micro-batches are taken for like those of the small schedules."""
    machine, devices = where
    pins = {"family": family, "checkpointing": checkpointing}
    made, candidates = coded(machine, devices, layers, hidden, each * devices, **pins)
    small_schedules = SmallSchedules(Prices(made.machine, made.library, devices))
    for number in range(4):
        candidate = candidates[int((place + number / 4) % 1.0 * len(candidates))]
        with suppress(InputError):  # groups that the library cannot run
            result = estimate(candidate.case, small_schedules)
            assert result.step_s >= result.floor_s, candidate.name


@pytest.mark.parametrize(("devices", "layers", "batch"), [(16, 8, 64)])
def test_estimates_lie_close_to_simulations_without_contention(devices: int, layers: int, batch: int) -> None:
    """Without a pipeline a step is the same sum in both; a pipeline's bubble is a closed form (stages that wait for one
    another are not told apart)."""
    made, candidates = coded_or_routed("frontier", devices, layers, 2048, batch)
    small_schedules = SmallSchedules(Prices(made.machine, made.library, devices))
    apart: dict[bool, list[float]] = {False: [], True: []}
    for candidate in random.Random(3).sample(candidates, 24):
        case = candidate.case
        built = BuiltSchedule(schedule=schedule_of_case(made, case))
        result = estimate(case, small_schedules).step_s / simulated(made, built, "analytic").step_s - 1.0
        apart[case.stages > 1].append(abs(result))
    alone, piped = apart[False], apart[True]
    assert sorted(alone)[len(alone) // 2] < 0.005
    assert sorted(alone)[9 * len(alone) // 10] < 0.12  # buckets of a few layers say little of those of many
    assert max(piped, default=0.0) < 0.12


@pytest.mark.parametrize("order", ["interleaved", "zb-h1", "zb-v", "dualpipev"])
def test_orders_of_pipelines_are_estimated_as_they_are_simulated(order: str) -> None:
    """The closed forms of their bubbles leave out what does not overlap, and weight gradients that no longer hide a
    reduction."""
    made = scenario(16, 64, machine="frontier", layers=8, hidden=4096)
    pins = pins_of({"order": order, "pipeline": 4, "tensor": 2, "micro_batch": 2, "checkpointing": "none"})
    candidate = next(Space(made, 16, 64, pins, LossyPolicy()).candidates())
    is_no_less_than_its_floor(made, candidate, 16)
    schedule = schedule_of_case(made, candidate.case)
    result = estimate(candidate.case, SmallSchedules(Prices(made.machine, made.library, 16)))
    step = simulated(made, BuiltSchedule(schedule=schedule), "flow")
    assert result.step_s == pytest.approx(step.step_s, rel=0.08)
    assert result.peak_bytes == pytest.approx(peak_bytes(schedule).num_bytes, rel=0.05)
