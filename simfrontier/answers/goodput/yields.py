"""What each plan of a scenario yields at each size: its step simulated, its checkpoint counted, its upkeep by the
model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
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
    """What a plan yields at a size.

    `write_s`, `read_s`: of a checkpoint; `between_s`: mean time between interruptions of the job; `interval_steps`
    steps lie between two checkpoints; `shares`: where time goes, by the closed form; `played`: the same at random;
    `enough_spares`: so many spare nodes that the job waits for at most LITTLE of all time; `fewer`: with fewer nodes
    where no spare one is left, None where no smaller size works.
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
        """Useful steps of a day."""
        return self.shares.useful * DAY_S / self.step.step_s

    @property
    def tokens_per_day(self) -> float:
        """Tokens of useful steps of a day."""
        return self.steps_per_day * self.step.tokens

    @property
    def fewer_tokens_per_day(self) -> float | None:
        """The same where the job goes on with fewer nodes rather than wait."""
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
        """Those of a plan."""
        return [each for each in self.yields if each.plan == plan]

    @property
    def best(self) -> Yield | None:
        """Where the most tokens a day are trained on."""
        return max(self.yields, key=lambda each: each.tokens_per_day, default=None)

    def best_per_device(self) -> Yield | None:
        """Where each device trains on the most tokens a day."""
        return max(self.yields, key=lambda each: each.tokens_per_day / each.step.devices, default=None)


def find_goodput(
    scenario: Scenario,
    fidelity: Fidelity | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Goodput:
    """The goodput of every plan at every size; `progress` is called with a short text as each case ends. Raises
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
    sizes, out, left_out = Sizes(scenario, chosen, searcher.schedule_cache), [], []
    for plan in scenario.plans:
        for devices in scenario.file.run.devices:
            step = sizes.step(plan, devices)
            if step.fits:
                out.append(_yield(given, failures, plan, step, sizes))
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


class Sizes:
    """Steps of a scenario's plans, each simulated once."""

    def __init__(self, scenario: Scenario, fidelity: Fidelity, schedule_cache: ScheduleCache) -> None:
        self.scenario, self.fidelity, self.schedule_cache = scenario, fidelity, schedule_cache

    def step(self, plan: str, devices: int) -> SizedStep:
        """The step of a plan at a size. Raises InputError where the plan has no such size."""
        return self._of_case(self.scenario.case(plan, devices))

    def smaller(self, plan: str, step: SizedStep) -> SizedStep | None:
        """The step of the next smaller size, in whole nodes, that the plan can be laid out on; None where none is."""
        per_node = self.scenario.machine.devices_per_node
        for nodes in range(step.nodes - 1, step.nodes // 2 - 1, -1):
            try:
                case = self.scenario.case(plan, nodes * per_node)
            except InputError:
                continue
            return self._of_case(case)
        return None

    def _of_case(self, case: Case) -> SizedStep:
        built = self.schedule_cache.of_case(self.scenario, case)
        counts = dict(different(self.scenario.file.perturbation, self.scenario.file.run.steps))
        here = self.scenario.of(case.name, case.devices)
        steps = {number: simulated(here, built, self.fidelity, number=number) for number in counts}
        step, num_steps = next(iter(steps.values())), sum(counts.values())
        machine = here.machine
        return SizedStep(
            devices=case.devices,
            nodes=step.pricing.fabric.num_nodes,
            packages=-(-case.devices // machine.devices_per_package),
            step_s=sum(counts[number] * each.step_s for number, each in steps.items()) / num_steps,
            tokens=float(case.samples * case.shape.sequence),
            checkpoint=saved_bytes(built.schedule),
            fits=fullest(step, built.peaks).peak_bytes <= machine.device.hbm_bytes,
        )


def _yield(given: GoodputTable, failures: Failures, plan: str, step: SizedStep, sizes: Sizes) -> Yield:
    upkeep = upkeep_of(given, failures, step)
    steps = interval_steps(given, upkeep, step)
    interval_s = steps * step.step_s
    if is_hopeless(upkeep, interval_s):
        raise SimfrontierError(
            f"{plan} on {step.devices}: no step is ever done: interrupted every {1.0 / upkeep.rate_per_s:.3g} s on "
            f"average, it needs {upkeep.restart_s:.3g} s to restart and {interval_s + upkeep.checkpoint_s:.3g} s to "
            "the next checkpoint"
        )
    smaller = sizes.smaller(plan, step) if given.fewer_nodes and upkeep.broken_per_s else None
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
        fewer=None if smaller is None or not smaller.fits else with_fewer(given, failures, step, smaller),
    )


Cell: TypeAlias = str | int | float | None


def goodput_rows(found: Goodput) -> list[dict[str, Cell]]:
    """A row per plan and size: times in seconds, checkpoints in bytes, shares of all time; cells that mean nothing are
    None."""
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
