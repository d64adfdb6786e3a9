"""A job beside a published run: the same predictions as of all published runs, and factors that multiply to their
ratio."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import simfrontier as sf
from simfrontier.answers.accuracy import ListedRun, job_of, listed_runs, run_named
from simfrontier.answers.accuracy.published_runs.step import step_of
from simfrontier.answers.explain.job_groups import GROUPS, JobGroups, job_groups, own_job_groups
from simfrontier.answers.explain.published import _Path, against_published, distance
from simfrontier.base.errors import InputError
from simfrontier.inputs.scenario import Scenario, scenario_of
from tests.invoke import TOY, invoke

ONE = "runs_2026.csv line 126"  # Llama 3.1 70B by NeMo on 128 H100


def named(name: str) -> ListedRun:
    found = run_named(name)
    assert found is not None
    return found


@cache
def groups(name: str) -> JobGroups:
    return job_groups(job_of(named(name).run))


def own(**settings: Any) -> Scenario:
    document = {
        "name": "own",
        "title": "own",
        "machine": {"name": "h100-node"},
        "model": {"name": "llama-3-8b", "precision": "bf16", "attention": "fused"},
        "run": {"devices": [8]},
        "training": {"batch": 16},
        "plans": {"mine": {"family": "zero3"}},
    }
    return scenario_of(document, "a test", settings)


def test_the_published_run_is_predicted_as_by_make_accuracy() -> None:
    """Its step, and so its value, is the one that `validate` gives it with the shipped parameters."""
    run = named(ONE)
    found = against_published(own_job_groups(own(), "mine", 8), run)
    timed = step_of(run.run).timed
    assert found.theirs.facts == timed.facts
    assert found.theirs.predicted == pytest.approx(timed.facts.tflops_per_device(timed.step_s))
    assert found.theirs.measured == pytest.approx(timed.facts.tflops_per_device(timed.measured_s), rel=1e-4)


def test_an_own_job_is_that_of_the_scenario() -> None:
    """Of one batch and, by small schedules, nearly one step with the simulated one."""
    scenario = own()
    job, case = own_job_groups(scenario, "mine", 8), scenario.case("mine", 8)
    assert (job.facts.batch, job.facts.micro_batch, job.facts.sequence) == (16, case.micro_batch, 8192)
    assert (job.stack, job.facts.shape, job.facts.data) == ("deepspeed", "llama-3-8b", "zero3")
    assert job.step_s == pytest.approx(sf.simulate(scenario, "mine").step_s, rel=0.05)


@pytest.mark.parametrize("name", [ONE, "end_to_end.csv line 2", "end_to_end.csv line 196", "runs_2026.csv line 251"])
def test_a_job_of_the_groups_of_a_run_is_that_run(name: str) -> None:
    """Laid out anew from all its groups, from whatever job they replace those of another."""
    run, other = groups(name), own_job_groups(own(), "mine", 8)
    made = other.with_groups(run, tuple(GROUPS))
    assert made is not None and made.step_s / made.facts.tokens == pytest.approx(run.step_s / run.facts.tokens)
    assert (made.machine, made.stack) == (run.machine, run.stack)


def test_a_run_is_its_own_nearest_and_differs_in_nothing() -> None:
    run = groups(ONE)
    found = against_published(run, None, measured=2.0 * 1120.0)
    assert (found.run, found.distance, found.differences) == (ONE, 0.0, ())
    assert found.unit == "tokens/s" and found.predicted_ratio == 1.0
    theirs = found.theirs.measured
    assert theirs is not None and found.unexplained == pytest.approx(2240.0 / theirs)
    assert found.is_within_error is False
    assert 1.0 < found.error < 1.6


def test_one_difference_explains_all() -> None:
    """The same job with half the sequences of a micro-batch, or with full recomputation."""
    mine = own_job_groups(own(), "mine", 8)
    for settings in ({"training.micro_batch": 2}, {"model.checkpointing": "none"}):
        other = own_job_groups(own(**settings), "mine", 8)
        (factor,) = _Path(mine, other, "tokens/s").factors().values()
        assert factor == pytest.approx(other.step_s / mine.step_s) and factor < 1.0


@pytest.mark.parametrize("name", [ONE, "end_to_end.csv line 196"])
def test_factors_multiply_to_the_predicted_ratio(name: str) -> None:
    found = against_published(own_job_groups(own(), "mine", 8), named(name))
    assert math.prod(each.factor for each in found.differences) == pytest.approx(found.predicted_ratio)
    assert all(each.yours != each.theirs for each in found.differences)
    sizes = [abs(math.log(each.factor)) for each in found.differences]
    assert sizes == sorted(sizes, reverse=True) and len(sizes) > 2


def path(rates: dict[str, float], *differing: str) -> _Path:
    """A path between jobs with these rates, by the first letters of the groups that they have of the second; jobs
    without a rate cannot be laid out."""
    made = object.__new__(_Path)
    made.differing = differing
    letters = {name[0]: name for name in differing}
    made._rates = dict.fromkeys(_subsets(differing), 0.0)
    made._rates |= {frozenset(letters[letter] for letter in key): rate for key, rate in rates.items()}
    return made


def _subsets(names: tuple[str, ...]) -> list[frozenset[str]]:
    return [frozenset(n for bit, n in enumerate(names) if 1 << bit & which) for which in range(1 << len(names))]


def test_factors_are_means_of_two_orders() -> None:
    """First devices, then sequence: 1 to 2, 2 to 6; the other way: 1 to 4, 4 to 6."""
    found = path({"": 1.0, "d": 2.0, "s": 4.0, "ds": 6.0}, "devices", "sequence").factors()
    assert found == {
        ("devices",): pytest.approx(math.sqrt(1 / 2 * 4 / 6)),
        ("sequence",): pytest.approx(math.sqrt(2 / 6 * 1 / 4)),
    }


def test_groups_that_cannot_change_alone_change_together() -> None:
    """Neither the plan nor the devices alone give a job that can be laid out; the sequence does, before and after."""
    rates = {"": 1.0, "s": 3.0, "dp": 5.0, "dsp": 8.0}
    found = path(rates, "devices", "sequence", "plan").factors()
    assert found == {
        ("devices", "plan"): pytest.approx(math.sqrt(3 / 8 * 1 / 5)),
        ("sequence",): pytest.approx(math.sqrt(1 / 3 * 5 / 8)),
    }


def test_factors_of_exchanged_jobs_are_inverse() -> None:
    """Also where not every job between can be laid out: here none with the first's devices and the second's plan."""
    rates = {"": 1.0, "d": 2.0, "s": 3.0, "ds": 5.0, "dp": 7.0, "dsp": 11.0}
    exchanged = {"".join(letter for letter in "dsp" if letter not in key): rate for key, rate in rates.items()}
    found = path(rates, "devices", "sequence", "plan").factors()
    other = path(exchanged, "devices", "sequence", "plan").factors()
    assert found == {names: pytest.approx(1.0 / factor) for names, factor in other.items()}
    assert math.prod(found.values()) == pytest.approx(1.0 / 11.0) and len(found) == 3


def test_distance_grows_with_each_difference() -> None:
    """8 devices instead of 128: four doublings of 0.5; another precision: 1; another model of twice the size: 3 + 3."""
    run, job = named(ONE), groups(ONE)
    far = {
        2.0: replace(job.facts, devices=8, batch=16),
        1.0: replace(job.facts, precision="fp8"),
        6.0: replace(job.facts, shape="", layers=2, billions=2.0 * run.facts.billions),
    }
    for expected, facts in far.items():
        assert distance(replace(job, facts=facts), run) == pytest.approx(expected, abs=1e-3)


# ── what the command prints ──


def test_explain_against_runs(tmp_path: Path) -> None:
    ran = invoke(
        "explain", TOY, "--plan", "zero3", "--devices", "8", "--against", "runs", "--measured", "100", "--json"
    )
    assert ran.code == 0
    told = json.loads(ran.out)["published"]
    mine, theirs = told["yours"], told["theirs"]
    assert mine["predicted"] / theirs["predicted"] == pytest.approx(told["predicted_ratio"])
    assert told["unexplained"] == pytest.approx(mine["measured"] / theirs["measured"] / told["predicted_ratio"])
    assert json.loads(ran.out)["changes"] == []  # as by default, beside runs

    out = tmp_path / "page"
    ran = invoke("explain", TOY, "--plan", "zero3", "--devices", "8", "--against", told["run"], "--out", str(out))
    page = (out / "index.html").read_text()
    for text in (told["run"], "all of these"):
        assert text in ran.out and text in page


@pytest.mark.parametrize(("run", "is_outside"), [("runs_2026.csv line 85", True), (ONE, False)])
def test_a_published_run_that_is_far_off_itself_is_called_so(run: str, is_outside: bool) -> None:
    """What is left of the ratio is then of their job, not of yours."""
    ran = invoke("explain", TOY, "--plan", "zero3", "--devices", "8", "--against", run, "--measured", "100")
    assert ran.code == 0 and ("outside its interval" in ran.out) is is_outside


@pytest.mark.parametrize(
    ("model", "plan", "is_apart"), [("llama-3-8b", "hsdp", True), ("qwen3-30b-a3b", "ep 8", False)]
)
def test_a_simulated_step_that_is_another_one_is_called_so(model: str, plan: str, is_apart: bool) -> None:
    """FSDP2's products are slower beside its gathers than simulated; a host that is slower than the device because of
    experts with few tokens is simulated."""
    job = ("--model", model, "--machine", "h100-node", "--nodes", "8", "--plan", plan, "--batch", "128")
    settings = ("--set", "model.precision=bf16", "--set", "training.micro_batch=1")
    ran = invoke("explain", *job, *settings, "--against", "runs")
    assert ran.code == 0 and ("The simulated step is ×0." in ran.out) is is_apart


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--measured", "100"), "beside against = runs"),
        (("--against", "runs_2026.csv line 1260"), "no published run"),
        (("--against", "runs", "--machine", "toy-cluster"), "one of the two"),
        (("--against", "runs", "--measured", "0"), "--measured"),
        (("--devices", "8", "--against", "RUNS", "--measured", "1e9"), "not of the job: at its peak a device reaches"),
    ],
)
def test_wrong_questions_are_one_line(options: tuple[str, ...], said: str) -> None:
    ran = invoke("explain", TOY, "--plan", "zero3", *options)
    assert ran.code == 2 and said in ran.err and ran.out == ""


def test_only_gpts_are_compared() -> None:
    scenario = own(model={"name": "tiny-mlp"})
    with pytest.raises(InputError, match="no GPT"):
        own_job_groups(scenario, "mine", 8)


def test_all_runs_are_listed_but_those_of_a_layer() -> None:
    assert len(listed_runs()) > 650 and all(run.facts.layers > 1 for run in listed_runs())
