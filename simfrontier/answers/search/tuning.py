"""Tuning: the best plan for a model, a batch and so many devices: the space estimated, the best simulated."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from simfrontier.answers.search.evaluator import PlanEvaluator
from simfrontier.answers.search.grids import NothingFitsError
from simfrontier.answers.search.nothing_fits import refuse_empty
from simfrontier.answers.search.outcome import TuningOutcome
from simfrontier.answers.search.pins import LossyPolicy, Pins, Value, pins_of
from simfrontier.answers.search.runner import Progress, Runner, fitting_of, is_too_big, ordered, without
from simfrontier.answers.search.space import Space
from simfrontier.answers.study import STORE, ResultStore, neighbour_of, store_in
from simfrontier.base.errors import InputError
from simfrontier.base.version import __version__
from simfrontier.base.workers import HERE, LostError, PerProcess, Place, Workers
from simfrontier.core.engine import refuse_unknown
from simfrontier.inputs.scenario import Scenario, scenario_of

SHARE_SIMULATED = 0.05  # of the plans that fit
FEWEST_SIMULATED, MOST_SIMULATED = 5, 20
FIRST_SIMULATED = 2  # of one plan per grid


def tune(
    scenario: Scenario,
    *,
    devices: int | None = None,
    pins: Mapping[str, Value | Sequence[Value]] | None = None,
    lossy: bool | None = None,
    max_error: float | None = None,
    simulate: int | None = None,
    place: Place = HERE,
    folder: Path | None = None,
    progress: Progress = lambda *_: None,
    finish: Callable[[TuningOutcome], None] = lambda _: None,
) -> TuningOutcome:
    """The best plans for a scenario's machine, model and batch on that many devices (by default its largest size).

    Every plan of the space (`Space`) is estimated without contention; those that do not fit are dropped; the best
    are simulated, at most `simulate` of them (by default 5 % of those that fit, at least 5, at most 20), and only as
    long as another may be faster; so are the scenario's own. All
    have the same batch: `training.batch`, or what the scenario's first plan makes of micro-batch and accumulation.

    pins        values to which dimensions are held, e.g. {"tensor": 8, "checkpointing": "full"}; beside those of the
                scenario's table `tune.pin`
    lossy       whether lossy codecs are allowed (default: as `tune.lossy` says)
    max_error   the largest error bound of what is sent, relative to the largest value that is coded with it: any codec
                and policy of compression within it may be chosen (default: as `tune.max_error` says)
    place       where plans are estimated and simulated, e.g. workers.Local(jobs=2); the outcome is the same everywhere
    folder      where a search that is stopped leaves its results, to go on from there when it is called again
    progress    called with what is done, how much of it, and of how much
    finish      called with the outcome before what the folder holds of the search is removed: after an error it stays

    Raises InputError for pins that mean nothing or do not divide, NothingFitsError where no plan fits; both say what
    would help.

    >>> from simfrontier.inputs.scenario import load_scenario
    >>> from simfrontier.answers.search import tune
    >>> found = tune(load_scenario("scenarios/toy.toml"), devices=8)
    >>> found.best.candidate.name, found.why, found.frame()
    """
    size = max(scenario.file.run.devices) if devices is None else devices
    here = scenario.at(size)
    table = here.file.tune
    _refuse_unsearchable(here)
    held = Pins({**pins_of(table.pin).values, **pins_of(pins or {}, ("pins",)).values})
    bound = table.max_error if max_error is None else max_error
    if bound is not None and not 0.0 <= bound < 1.0:
        raise InputError(f"max_error: got {bound:g}; allowed: 0 to below 1")
    loss = LossyPolicy(table.lossy if lossy is None else lossy, bound)
    loss.refuse(held)
    wanted = table.simulate if simulate is None else simulate
    batch = batch_of(scenario, size)
    prepared = with_batch(scenario, size, batch)
    wrong = prepared.file.perturbation  # what no plan can be simulated with is no fault of a plan's
    try:
        refuse_unknown(
            prepared.file.run.fidelity, len(wrong.states(0)), wrong.calls_differ, neighbour_of(prepared, size)
        )
    except InputError as error:
        raise error.within(scenario.where) from None
    space = Space(prepared, size, batch, held, loss)
    digest = _digest(prepared, scenario, size, held, loss)
    with _resumed(folder, digest) as store:
        with Workers(place) as workers:
            runner = Runner(PerProcess(PlanEvaluator, prepared, scenario, size), workers, store, progress)
            outcome = _searched(scenario, space, wanted, runner)
        finish(outcome)
    return outcome


def _searched(scenario: Scenario, space: Space, wanted: int | None, runner: Runner) -> TuningOutcome:
    """Search a space: one plan of each grid first, of which two are simulated, so that their times rule out others."""
    candidates = list(space.candidates())
    outlines = runner.first_outlines(candidates)
    first = 0 if wanted is not None and wanted <= FIRST_SIMULATED else FIRST_SIMULATED
    ahead, misfits = runner.best(fitting_of(outlines), first, [])
    fastest = min((plan.nominal_s for plan in ahead), default=math.inf)
    passed_over = runner.rest_of_outlines(candidates, outlines, fastest)
    fitting = fitting_of(outlines)
    count = wanted or min(MOST_SIMULATED, max(FEWEST_SIMULATED, int(SHARE_SIMULATED * len(fitting))))
    kept, more = runner.best(without(fitting, [*ahead, *misfits]), count, ahead)
    misfits = (*misfits, *more)
    if not kept:
        refuse_empty(space, outlines, misfits, runner.faults)
    running = [plan for plan in fitting if plan.candidate not in runner.faults]
    plans = ordered(kept, running, misfits)
    own = runner.own(scenario, space.size, space.batch)
    spent, why = runner.why(plans)
    return TuningOutcome(
        scenario=scenario,
        devices=space.size,
        batch=space.batch,
        pins=space.pins,
        loss=space.loss,
        plans=plans,
        passed_over=passed_over,
        own=own,
        total=len(candidates),
        too_big=sum(is_too_big(*each) for each in outlines.items()),
        faulty=sum(bool(outline.fault) for outline in outlines.values()) + len(runner.faults),
        misfits=misfits,
        why=why,
        time=spent,
    )


@contextmanager
def _resumed(folder: Path | None, digest: str) -> Iterator[ResultStore]:
    """The store of a search, which stays in the folder where it is stopped, and is removed where it has its answer: the
    best plans, or that there are none."""
    with store_in(folder, f"search {digest[:12]}") as store:
        try:
            yield store
        except LostError as error:
            raise type(error)(f"{error}; {STORE} has what is done: the same command resumes") from None
        except NothingFitsError:
            store.is_done_with = True
            raise
        store.is_done_with = True


def _refuse_unsearchable(here: Scenario) -> None:
    """Raise InputError for a model that has one plan only, and a fidelity that a search has not."""
    if here.shape.families:
        families = " or ".join(here.shape.families)
        raise InputError(
            f"{here.where}: model {here.shape.name}: is trained by {families} only, so there is nothing to search; "
            "allowed in a search: a GPT or an MLP"
        )
    if here.file.run.fidelity == "chunk":
        raise InputError(f"{here.where}: run.fidelity: got 'chunk'; allowed in a search: flow, analytic")


def batch_of(scenario: Scenario, size: int) -> int:
    """Sequences of a step over all devices: as the scenario says, or as its first plan that can run makes them."""
    here = scenario.at(size)
    training = here.file.training
    if training.batch is not None:
        return training.batch
    for plan in scenario.plans:
        if plan not in here.searches:
            try:
                return scenario.case(plan, size).samples
            except InputError:
                continue
    return training.micro_batch * training.grad_accum * size


def with_batch(scenario: Scenario, size: int, batch: int) -> Scenario:
    """The scenario with that batch at that size, and plans that say themselves how they divide it."""
    settings = {"training.batch": batch, "training.micro_batch": 1, "training.grad_accum": 1}
    return scenario_of(scenario.document, scenario.where, settings, devices=(size,), laid_out=False)


def _digest(scenario: Scenario, original: Scenario, size: int, pins: Pins, loss: LossyPolicy) -> str:
    """Of all that the results of a search depend on."""
    named = [repr(value) for value in (scenario.machine, scenario.library, scenario.stack)]
    held = [dict(pins.values), loss.lossy, loss.max_error]
    files = [None if scenario.beside is None else scenario.beside.document, scenario.spread_tables]
    parts = [__version__, scenario.document, original.document, size, *held, *named, *files]
    return sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()
