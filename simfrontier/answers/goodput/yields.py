"""Goodput of each plan of a scenario at each size, from its simulated step, its checkpoint size and its upkeep."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Final, TypeAlias

from simfrontier.answers.goodput.model import (
    DAY_S,
    Failures,
    FewerNodes,
    Played,
    Shares,
    SizedStep,
    interval_steps,
    is_hopeless,
    load_failures,
    play,
    read_s,
    shares,
    spares_for,
    upkeep_of,
    with_fewer,
)
from simfrontier.answers.search import GridSearcher
from simfrontier.answers.study import ScheduleCache, different, simulated
from simfrontier.base.errors import InputError, SimfrontierError
from simfrontier.core.engine import Fidelity, fullest
from simfrontier.core.program import saved_bytes
from simfrontier.inputs.scenario import Case, GoodputTable, Scenario

LITTLE: Final = 0.01  # of all time


@dataclass(frozen=True, slots=True, kw_only=True)
class Yield:
    """Goodput of a plan at a size.

    `write_s`, `read_s`: seconds to write and to read a checkpoint; `between_s`: mean time between interruptions of the
    job; `interval_steps`: steps between two checkpoints; `shares`: shares of time in closed form; `played`: the same by
    Monte Carlo simulation; `enough_spares`: number of spare nodes with which the job waits for at most LITTLE of all
    time; `fewer`: goodput with fewer nodes when no spare is left, None if no smaller size works.
    """

    plan: str
    step: SizedStep
    write_s: float
    read_s: float
    between_s: float
    interval_steps: int
    shares: Shares
    played: Played
    enough_spares: int
    fewer: FewerNodes | None

    @property
    def interval_s(self) -> float:
        return self.interval_steps * self.step.step_s

    @property
    def steps_per_day(self) -> float:
        """Useful steps per day."""
        return self.shares.useful * DAY_S / self.step.step_s

    @property
    def tokens_per_day(self) -> float:
        """Tokens of useful steps per day."""
        return self.steps_per_day * self.step.tokens

    @property
    def fewer_tokens_per_day(self) -> float | None:
        """Tokens of useful steps per day if the job continues with fewer nodes instead of waiting; None if no smaller
        size works.
        """
        return None if self.fewer is None else self.fewer.tokens_per_s * DAY_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Goodput:
    """The yields of a scenario, in its order of plans, then sizes; `left_out`: cases that do not fit into memory."""

    scenario: Scenario
    fidelity: Fidelity
    failures: Failures
    given: GoodputTable
    yields: tuple[Yield, ...]
    left_out: tuple[tuple[str, int], ...]

    def of(self, plan: str) -> list[Yield]:
        """Return the yields of a plan."""
        return [each for each in self.yields if each.plan == plan]

    @property
    def best(self) -> Yield | None:
        """Yield with the most training tokens per day; None if there are no yields."""
        return max(self.yields, key=lambda each: each.tokens_per_day, default=None)

    def best_per_device(self) -> Yield | None:
        """Yield with the most training tokens per day and device; None if there are no yields."""
        return max(self.yields, key=lambda each: each.tokens_per_day / each.step.devices, default=None)


def find_goodput(
    scenario: Scenario,
    fidelity: Fidelity | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Goodput:
    """Return the goodput of every plan at every size; `progress` is called with a short text as each case ends. Raises
    InputError where the scenario has no table `goodput`, and as simulations do."""
    given = scenario.file.goodput
    if given is None:
        raise InputError(
            "missing, give { failures, write_bytes_per_s, restart_s, repair_s }",
            where=str(scenario.where),
            key=("goodput",),
        )
    try:
        failures = load_failures(given.failures, Path(scenario.where).parent)
    except InputError as error:
        raise error.within(str(scenario.where), ("goodput", "failures")) from None
    chosen = fidelity or scenario.file.run.fidelity
    searcher = GridSearcher()
    scenario = searcher.complete(scenario)
    out, left_out = [], []

    def sized(case: Case) -> SizedStep:
        return _sized(scenario, case, chosen, searcher.schedule_cache)

    for plan, devices in product(scenario.plans, scenario.file.run.devices):
        step = sized(scenario.case(plan, devices))
        if step.fits:
            is_elastic = given.fewer_nodes and failures.rate_per_s(step.packages, step.nodes, broken=True) > 0.0
            fewer = _fewer(scenario, plan, step) if is_elastic else None
            out.append(_yield(given, failures, plan, step, None if fewer is None else sized(fewer)))
        else:
            left_out.append((plan, devices))
        progress(f"{plan} on {devices}")
    return Goodput(
        scenario=scenario,
        fidelity=chosen,
        failures=failures,
        given=given,
        yields=tuple(out),
        left_out=tuple(left_out),
    )


def _fewer(scenario: Scenario, plan: str, step: SizedStep) -> Case | None:
    """Return the case of the next smaller size, in whole nodes, that the plan can be laid out on; None if there is
    none.
    """
    for nodes in range(step.nodes - 1, step.nodes // 2 - 1, -1):
        with suppress(InputError):
            return scenario.case(plan, nodes * scenario.machine.devices_per_node)
    return None


def _sized(scenario: Scenario, case: Case, fidelity: Fidelity, schedule_cache: ScheduleCache) -> SizedStep:
    """Simulate the distinct steps of a case and return its step with the mean step time."""
    built = schedule_cache.of_case(scenario, case)
    counts = dict(different(scenario.file.perturbation, scenario.file.run.steps))
    here = scenario.of(case.name, case.devices)
    steps = {number: simulated(here, built, fidelity, number=number) for number in counts}
    step, machine = next(iter(steps.values())), here.machine
    return SizedStep(
        devices=case.devices,
        nodes=step.pricing.fabric.num_nodes,
        packages=-(-case.devices // machine.devices_per_package),
        step_s=sum(counts[number] * each.step_s for number, each in steps.items()) / sum(counts.values()),
        tokens=float(case.samples * case.shape.sequence),
        checkpoint=saved_bytes(built.schedule),
        fits=fullest(step, built.peaks).peak_bytes <= machine.device.hbm_bytes,
    )


def _yield(given: GoodputTable, failures: Failures, plan: str, step: SizedStep, smaller: SizedStep | None) -> Yield:
    """Return the goodput of a plan with a step; `smaller`: the plan's step on fewer nodes, used when no
    spare is left.
    """
    upkeep = upkeep_of(given, failures, step)
    steps = interval_steps(given, upkeep, step)
    interval_s = steps * step.step_s
    if is_hopeless(upkeep, interval_s):
        raise SimfrontierError(
            f"{plan} on {step.devices}: no step is ever done: interrupted every {1.0 / upkeep.rate_per_s:.3g} s on "
            f"average, it needs {upkeep.restart_s:.3g} s to restart and {interval_s + upkeep.checkpoint_s:.3g} s to "
            "the next checkpoint"
        )
    return Yield(
        plan=plan,
        step=step,
        write_s=step.checkpoint.total / given.write_bytes_per_s,
        read_s=read_s(given, step),
        between_s=1.0 / upkeep.rate_per_s,
        interval_steps=steps,
        shares=shares(upkeep, interval_s),
        played=play(upkeep, interval_s, given.interruptions, given.trainings, given.seed),
        enough_spares=spares_for(upkeep, LITTLE),
        fewer=with_fewer(given, failures, step, smaller) if smaller is not None and smaller.fits else None,
    )


Cell: TypeAlias = str | int | float | None


def goodput_rows(found: Goodput) -> list[dict[str, Cell]]:
    """Return a row per plan and size: times in seconds, checkpoints in bytes, shares of all time; cells that mean
    nothing are None."""
    return [_row(each) for each in found.yields]


def _row(each: Yield) -> dict[str, Cell]:
    step, fewer = each.step, each.fewer
    return {
        "plan": each.plan,
        "devices": step.devices,
        "nodes": step.nodes,
        "step_time_s": step.step_s,
        "tokens_per_step": step.tokens,
        "checkpoint_bytes": step.checkpoint.total,
        "checkpoint_bytes_per_rank": step.checkpoint.largest,
        "write_s": each.write_s,
        "read_s": each.read_s,
        "between_interruptions_s": each.between_s,
        "interval_s": each.interval_s,
        "interval_steps": each.interval_steps,
        **{f"share_{name}": share for name, share in asdict(each.shares).items()},
        "played_useful": each.played.useful,
        "played_error": each.played.error,
        "steps_per_day": each.steps_per_day,
        "tokens_per_day": each.tokens_per_day,
        "enough_spares": each.enough_spares,
        "fewer_devices": None if fewer is None else fewer.step.devices,
        "fewer_share": None if fewer is None else fewer.fewer_share,
        "fewer_tokens_per_day": each.fewer_tokens_per_day,
    }
