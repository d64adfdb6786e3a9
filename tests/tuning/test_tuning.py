"""The search: its pick against all plans, the same answer however it is run, and what it says of empty spaces."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice, pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from simfrontier.errors import InputError
from simfrontier.scenario import Scenario, scenario_of
from simfrontier.scenario.plans import options_of
from simfrontier.study import STORE, ResultStore, ScheduleCache, run_study, simulated, store_in
from simfrontier.tuning import NothingFitsError, TuningOutcome, tune
from simfrontier.tuning.evaluator import PlanEvaluator, PlanOutline, SimulatedPlan
from simfrontier.tuning.lossy import LossyPolicy
from simfrontier.tuning.nothing_fits import refuse_empty
from simfrontier.tuning.outcome import COLUMNS, TunedPlan, rows
from simfrontier.tuning.pins import Pins, pins_of
from simfrontier.tuning.runner import Runner
from simfrontier.tuning.space import Candidate, Space
from simfrontier.tuning.step_estimate import Estimate
from simfrontier.tuning.tuning import _digest
from simfrontier.workers import (
    HERE,
    JobsLostError,
    Local,
    LostError,
    PerProcess,
    SchedulerLostError,
    WorkerLostError,
    Workers,
)
from tests.tuning.exhaustive import Case, judge
from tests.tuning.small import scenario

FEW = {"micro_batch": 2, "family": ["zero", "megatron"], "tensor": [1, 2]}


@pytest.fixture(scope="module")
def outcome() -> TuningOutcome:
    return tune(scenario(16, 32, samples=40, plans={"zero3": {}, "zero-topo": {}}), pins=FEW)


@pytest.mark.parametrize(
    "case",
    [
        Case(
            name="small steps",
            machine="frontier",
            devices=16,
            layers=4,
            hidden=1024,
            heads=16,
            batch=32,
            hbm_bytes=64e9,
            pins={"micro_batch": 2, "checkpointing": "none", "x": 1, "y": 1, "tensor": [1, 2]},
        ),
        Case(
            name="little memory",
            machine="perlmutter",
            devices=8,
            layers=4,
            hidden=4096,
            heads=32,
            batch=16,
            hbm_bytes=10e9,
            pins={"micro_batch": [1, 2], "family": ["zero", "axonn"], "y": 1},
        ),
    ],
    ids=lambda case: case.name,
)
def test_the_pick_is_within_2_percent_of_the_best_of_all_plans(case: Case) -> None:
    """`make exhaustive` does the same on seven larger spaces."""
    verdict = judge(case)
    assert verdict.feasible > 60
    assert verdict.over <= 0.02
    assert verdict.simulated <= verdict.allowed
    assert verdict.tightest <= 1.0


def test_the_best_plan_is_what_a_run_of_it_says(outcome: TuningOutcome) -> None:
    best = outcome.best
    assert best.simulated is not None
    made = outcome.scenario
    case = made.case_with("best", options_of("best", dict(best.candidate.table)), 16)
    step = simulated(made, ScheduleCache().of_case(made, case), "flow")
    assert best.simulated.nominal_s == step.step_s
    assert best.step_s == np.median(best.simulated.samples_s)
    assert case.samples == 32
    assert sum(best.simulated.parts.values()) == pytest.approx(step.step_s, rel=1e-9)
    assert outcome.time.step_s == step.step_s
    assert sum(part.seconds for part in outcome.time.parts) == pytest.approx(step.step_s, rel=1e-9)


def test_plans_come_in_order_and_are_told_apart_by_what_is_known(outcome: TuningOutcome) -> None:
    steps = [plan.step_s for plan in outcome.simulated]
    assert steps == sorted(steps)
    assert 1 < len(steps) <= 20
    assert all(plan.peak_bytes <= 64e9 for plan in outcome.simulated)
    table = rows(outcome)
    assert len(table) == len(outcome.plans) + len(outcome.passed_over)
    assert len(table) + outcome.too_big + outcome.faulty + len(outcome.misfits) == outcome.total
    assert all(tuple(row) == COLUMNS for row in table)
    assert [row["known"] for row in table[: len(steps)]] == ["simulated"] * len(steps)
    known = [chance for chance in outcome.chances if chance is not None]
    assert sum(known) == pytest.approx(1.0)
    assert len(known) == len(steps)


def test_the_scenarios_own_plans_stand_beside(outcome: TuningOutcome) -> None:
    own = {plan.name: plan for plan in outcome.own}
    assert set(own) == {"zero3", "zero-topo"}
    assert all(plan.simulated is not None for plan in own.values())
    assert all(plan.simulated is None or plan.simulated.step_s >= outcome.best.step_s for plan in own.values())


def test_the_front_gets_smaller_as_it_gets_slower(outcome: TuningOutcome) -> None:
    front = outcome.front()
    assert front[0] == outcome.best
    for fast, small in pairwise(front):
        assert fast.step_s <= small.step_s
        assert fast.peak_bytes > small.peak_bytes
    smallest = min(plan.peak_bytes for plan in outcome.plans)
    assert front[-1].peak_bytes == smallest


def test_what_is_said_of_certainty_follows_from_floors_and_estimates(outcome: TuningOutcome) -> None:
    low, high = outcome.errors
    assert low <= high
    floors = [plan.estimate.floor_s for plan in outcome.estimated]
    assert outcome.headroom == max(0.0, 1 - min(floors) / outcome.best.nominal_s)
    assert all(out.floor_s > outcome.best.nominal_s for out in outcome.passed_over)
    assert outcome.why.startswith(("as fast as", f"{outcome.why.split(' faster than')[0]} faster than"))


def test_two_processes_give_the_same_answer(outcome: TuningOutcome) -> None:
    again = tune(scenario(16, 32, samples=40, plans={"zero3": {}, "zero-topo": {}}), pins=FEW, place=Local(jobs=2))
    assert rows(again) == rows(outcome)
    assert again.why == outcome.why
    assert again.own == outcome.own


class Stopped(Exception):
    pass


@pytest.mark.parametrize("lost", [WorkerLostError, SchedulerLostError, JobsLostError])
def test_workers_that_are_lost_leave_what_is_done(lost: type[LostError], tmp_path: Path) -> None:
    def lose(what: str, done: int, total: int) -> None:
        if done:
            raise lost("gone")

    with pytest.raises(lost) as caught:
        tune(scenario(16, 32), pins=FEW, folder=tmp_path, progress=lose)
    assert str(caught.value) == f"gone; {STORE} has what is done: the same command resumes"
    with store_in(tmp_path) as store:
        assert len(store) > 0


@pytest.mark.parametrize("after", [3, pytest.param(40, marks=pytest.mark.long), 48])
def test_a_stopped_search_goes_on_to_the_same_answer(outcome: TuningOutcome, tmp_path: Path, after: int) -> None:
    made = scenario(16, 32, samples=40, plans={"zero3": {}, "zero-topo": {}})
    results: list[tuple[str, int]] = []

    def stop(what: str, done: int, total: int) -> None:
        results.append((what, done))
        if len(results) == after:
            raise Stopped

    folder = tmp_path / "search"
    with pytest.raises(Stopped):
        tune(made, pins=FEW, folder=folder, progress=stop)
    assert (folder / STORE).is_file()
    after_that: list[tuple[str, int]] = []
    again = tune(made, pins=FEW, folder=folder, progress=lambda what, done, _: after_that.append((what, done)))
    assert rows(again) == rows(outcome)
    assert after_that[0][1] > 0  # what was done is not done again
    assert not (folder / STORE).exists()


def test_another_search_is_refused_and_what_was_stopped_stays(tmp_path: Path) -> None:
    made = scenario(16, 32)

    def stop(what: str, done: int, total: int) -> None:
        if done:
            raise Stopped

    with pytest.raises(Stopped):
        tune(made, pins=FEW, folder=tmp_path, progress=stop)
    kept = (tmp_path / STORE).read_bytes()
    for other, pins in ((scenario(16, 32, hidden=512), FEW), (made, {**FEW, "tensor": 1})):
        with pytest.raises(InputError, match=r"has results of search .*; allowed: another --out, or --fresh"):
            tune(other, pins=pins, folder=tmp_path)
        assert (tmp_path / STORE).read_bytes() == kept


def test_another_content_of_a_file_that_is_named_is_another_search(tmp_path: Path) -> None:
    stack = tmp_path / "own.toml"
    text = 'name = "own"\ntitle = "Own"\nbase = "deepspeed"\n[kernels]\npointwise_traffic = {{ value = {}, {} }}\n'
    sourced = 'kind = "assumed", source = "made up"'

    def made(traffic: float) -> Scenario:
        stack.write_text(text.format(traffic, sourced))
        return scenario_of({**scenario(16, 32).document, "stack": str(stack)}, "small.toml", laid_out=False)

    digests = [_digest(one, one, 16, Pins({}), LossyPolicy()) for one in (made(1.5), made(2.5), made(1.5))]
    assert digests[0] == digests[2] != digests[1]


def test_an_own_plan_that_the_library_cannot_run_says_why() -> None:
    plans = {"odd": {"family": "axonn", "z": 6}, "zero3": {}}
    got = tune(
        scenario(48, 48, hidden=1536, plans=plans), pins={"family": "zero", "states": "zero3", "checkpointing": "full"}
    )
    own = {plan.name: plan for plan in got.own}
    assert own["zero3"].simulated is not None
    assert own["odd"].simulated is None
    assert "unevenly" in own["odd"].why


@pytest.mark.parametrize("library", ["hierarchical-mpi-rccl", "recursive-halving-mpi4py"])
def test_other_libraries_are_searched_or_refused(library: str) -> None:
    document = {**scenario(16, 32).document, "library": {"name": library}}
    made = scenario_of(document, "small.toml", laid_out=False)
    pins = {"family": "megatron", "tensor": 2, "pipeline": 1, "micro_batch": 2, "checkpointing": "full"}
    if library.startswith("hierarchical"):
        assert tune(made, pins=pins).plans
    else:
        with pytest.raises(InputError, match="recursive halving is modelled for calls alone"):
            tune(made, pins=pins)


def test_pins_of_the_scenario_and_of_the_call_hold_together() -> None:
    made = scenario(16, 32, tune={"pin": {"micro_batch": 2, "tensor": 2}, "simulate": 2})
    got = tune(made, pins={"pipeline": 1, "checkpointing": "full"})
    assert {plan.candidate.value("tensor") for plan in got.plans} == {2}
    assert {plan.candidate.value("pipeline") for plan in got.plans} == {1}
    assert len(got.simulated) <= 2


def test_codecs_only_where_loss_is_allowed() -> None:
    pins = {"family": "zero", "micro_batch": 2, "checkpointing": "full", "states": "zero3", "codec": "both"}
    with pytest.raises(InputError) as caught:
        tune(scenario(16, 32), pins=pins)
    assert str(caught.value) == (
        "tune.pin.codec: 'both' loses precision; allow it with --lossy (tune.lossy = true), or --max-error"
    )
    assert tune(scenario(16, 32), pins=pins, lossy=True).best.candidate.states.codec == "both"


def test_pins_that_do_not_divide_say_what_does() -> None:
    with pytest.raises(InputError) as caught:
        tune(scenario(16, 32), pins={"tensor": 3})
    assert str(caught.value) == (
        "small.toml: tune: at 16 devices: no plan can run with tensor = 3: tensor = 3 does not divide heads = 16; "
        "nearest that do: 2 and 4; smallest change that opens the space: tensor = 4"
    )


def test_pins_that_exclude_each_other_are_told() -> None:
    with pytest.raises(InputError, match="the pinned dimensions leave nothing"):
        tune(scenario(16, 32), pins={"tensor": 2, "z": 2})


def test_where_nothing_fits_the_need_and_the_smallest_change_are_told() -> None:
    small = scenario(8, 8, hidden=4096, hbm_bytes=8e9)
    with pytest.raises(NothingFitsError) as caught:
        tune(small, pins={"states": "ddp", "family": "zero", "pipeline": 1})
    message = str(caught.value)
    assert caught.value.exit_code == 1
    assert "fits into memory with states = ddp, family = zero, pipeline = 1: the smallest needs at least" in message
    assert "of 8 GB" in message
    assert re.search("smallest change that opens the space: states = (zero2|zero3|.*/all)$", message)
    with pytest.raises(NothingFitsError, match=r"smallest change that opens the space: (16|32|64) devices"):
        tune(scenario(8, 64, hidden=4096, hbm_bytes=1.1e9))


def test_a_search_in_which_plans_fit_ends_with_one() -> None:
    """All steps of this space are nearly their kernels' times: estimates and floors are equal but for rounding."""
    pins = {"family": "zero", "micro_batch": 1, "checkpointing": "full"}
    assert tune(scenario(16, 64, layers=1, hidden=4096), pins=pins, simulate=1).best.simulated is not None


class ScriptedRunner(Runner):
    """A runner of which the simulations say that only some plans fit, or can run."""

    def __init__(self, fitting: set[Candidate], faulty: set[Candidate]) -> None:
        super().__init__(PerProcess(PlanEvaluator), Workers(HERE), ResultStore(), lambda *_: None)
        self.fitting, self.faulty = fitting, faulty

    def _simulated(self, plans: Sequence[TunedPlan], before: int, count: int) -> list[TunedPlan]:
        self.faults |= dict.fromkeys((plan.candidate for plan in plans if plan.candidate in self.faulty), "it cannot")
        able = [plan for plan in plans if plan.candidate not in self.faulty]
        return [
            replace(
                plan,
                simulated=SimulatedPlan(
                    nominal_s=plan.estimate.step_s,
                    parts={},
                    peak_bytes=1 if plan.candidate in self.fitting else int(plan.candidate.capacity_bytes) + 1,
                    samples_s=(),
                ),
            )
            for plan in able
        ]


def space() -> Space:
    made = scenario(16, 32)
    return Space(made, 16, 32, pins_of(FEW), LossyPolicy())


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_no_search_ends_without_a_plan_while_one_fits(data: st.DataObject) -> None:
    """Whichever plan that is, and whatever was estimated of it."""
    candidates = list(space().candidates())[:60]
    times = st.floats(1e-3, 1e3)
    plans = [
        TunedPlan(
            candidate=candidate,
            estimate=Estimate(step_s=data.draw(times), floor_s=data.draw(times), peak_bytes=data.draw(times)),
        )
        for candidate in candidates
    ]
    fitting, rest = {data.draw(st.sampled_from(candidates))}, st.sets(st.sampled_from(candidates))
    runner = ScriptedRunner(fitting, data.draw(rest) - fitting)
    kept, _ = runner.best(plans, data.draw(st.sampled_from((1, 2, 5, 20))), [])
    assert {plan.candidate for plan in kept} == fitting


def test_an_empty_answer_names_what_was_found_of_the_plans() -> None:
    """Memory where plans do not fit, as they were simulated if they were; otherwise why they cannot run."""
    spaces, estimated = space(), Estimate(step_s=1.0, floor_s=1.0, peak_bytes=60e9)
    first, second = islice(spaces.candidates(), 2)
    outlines = {first: PlanOutline(estimate=estimated), second: PlanOutline(estimate=estimated)}
    with pytest.raises(InputError, match=r"no plan can run with .*: it cannot; smallest change") as caught:
        refuse_empty(spaces, outlines, (), dict.fromkeys(outlines, "it cannot"))
    assert "memory" not in str(caught.value) and not str(caught.value).endswith("micro_batch = 2")  # as it is pinned
    simulated_plan = SimulatedPlan(nominal_s=1.0, parts={}, peak_bytes=70 * 10**9, samples_s=())
    misfit = TunedPlan(candidate=first, estimate=estimated, simulated=simulated_plan)
    with pytest.raises(NothingFitsError) as refused:
        refuse_empty(spaces, outlines, (misfit,), {second: "it cannot"})
    assert f"at least 70 GB of 64 GB ({first.name}); 1 more cannot run: it cannot" in str(refused.value)


def test_where_only_fused_attention_fits_it_is_the_smallest_change() -> None:
    """16 heads × 8,192² scores of two bytes are 2.1 GB each, several of which are alive in a backward."""
    small = scenario_of(scenario(1, 1).document, "small.toml", {"model.sequence": 8192}, laid_out=False)
    settings = {"machine.overrides.device.hbm_bytes": 4e9}
    with pytest.raises(NothingFitsError, match=r'smallest change that opens the space: model.attention = "fused"$'):
        tune(scenario_of(small.document, "small.toml", settings, laid_out=False))
    assert tune(
        scenario_of(small.document, "small.toml", {**settings, "model.attention": "fused"}, laid_out=False)
    ).plans


def test_every_plan_is_run_by_the_stack_of_its_family_with_the_memory_that_this_leaves() -> None:
    """Where the scenario names no stack: FSDP2's contexts take 2.5 GB, and its kernels are its own."""
    document = {name: table for name, table in scenario(16, 32).document.items() if name != "stack"}
    made = scenario_of(document, "small.toml", laid_out=False)
    pins = pins_of({"family": "zero", "states": ["hsdp", "zero3"], "copy": False, "route": "flat", "micro_batch": 2})
    by_stack = {each.stack: each for each in Space(made, 16, 32, pins, LossyPolicy()).candidates()}
    assert {name: each.states.name for name, each in by_stack.items()} == {"fsdp2": "hsdp", "deepspeed": "zero3"}
    assert by_stack["deepspeed"].capacity_bytes - by_stack["fsdp2"].capacity_bytes == 2.5e9
    found = tune(made, pins={"family": "zero", "states": "hsdp", "micro_batch": 2, "checkpointing": "none"}).best
    run = run_study(scenario_of({**document, "plans": {"hsdp": dict(found.candidate.table)}}, "small.toml"))
    assert found.step_s == run.outcomes[0].row["step_time_s"]
