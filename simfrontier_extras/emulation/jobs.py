"""Preparation of `simfrontier emulate`: simulate the steps, write the results, and write the jobs to run as a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from simfrontier.answers.study import BuiltSchedule, ScheduleCache, simulated, write_simulated
from simfrontier.base.errors import InputError
from simfrontier.base.wholefile import MANIFEST, filled, write_json
from simfrontier.core.engine import SimulatedStep
from simfrontier.core.network import joining_links
from simfrontier.core.program import CollectiveKind, SweepCall, sweep
from simfrontier.inputs.scenario import Scenario, scenario_of
from simfrontier_extras.emulation.job_file import JobFile, RateChange, ReplayJob
from simfrontier_extras.emulation.wiring import save_wiring, wiring_of

KINDS: tuple[CollectiveKind, ...] = ("all_gather", "reduce_scatter", "all_reduce")
GROUPS = {"world": ("node", "package", "gcd"), "node": ("package", "gcd"), "package": ("gcd",)}
PLANS, LOWERED, NATIVE, SLOW, DIP = "plans", "sweep-lowered", "sweep-native", "slow", "dip"
SWEEP_PLAN = "sweep"
JOBS, WIRING = "jobs.json", "wiring.json"
NATIVE_LIBRARY = "gloo"
SLOW_FACTOR, DIP_FACTOR = 0.5, 0.1
SWEEPS = 3  # short collectives among few ranks: one that is disturbed must not count


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulateSettings:
    """Parameters of an emulated run: timed iterations of the plans, after one warm-up iteration; message sizes of the
    sweeps in bytes; and the wire of node 0 that is slowed to half its rate for one job, and to a tenth during the
    middle third of the steps of the last job."""

    iterations: int
    sizes: tuple[int, ...]
    slow_wire: str


def prepare(scenario: Scenario, settings: EmulateSettings, out: Path) -> None:
    """Simulate all steps of the run, and write into `out` a folder per job, the wiring and the jobs. Raises InputError
    if the wire to slow carries no traffic."""
    size, schedule_cache = max(scenario.file.run.devices), ScheduleCache()
    native = scenario_of(scenario.document, scenario.where, {"library.name": NATIVE_LIBRARY})
    slow = _with_slow_wire(scenario, settings.slow_wire)
    built = {plan: schedule_cache.get(scenario, plan, size) for plan in scenario.plans}
    plans = {plan: simulated(scenario.of(plan, size), each, "chunk") for plan, each in built.items()}
    _refuse_idle(settings.slow_wire, plans)
    slowed_plans = {plan: simulated(slow.of(plan, size), each, "chunk") for plan, each in built.items()}
    most = max(plans, key=lambda plan: slowed_plans[plan].step_s / plans[plan].step_s)  # where the link matters most
    slowest = {most: slowed_plans[most]}
    third_s = plans[most].step_s / 3
    dip = _with_slow_wire(scenario, settings.slow_wire, DIP_FACTOR, (third_s, 2 * third_s))
    dipped = {most: simulated(dip.of(most, size), built[most], "chunk")}
    world, sizes = {"world": GROUPS["world"]}, settings.sizes
    rates = {f"node 0 {settings.slow_wire}": SLOW_FACTOR}
    swept = _swept(scenario, size, sizes, GROUPS)
    warm = (0, settings.iterations)
    jobs = (
        _job(scenario, PLANS, "lowered", plans, (1, settings.iterations), out),
        _job(scenario, LOWERED, "lowered", swept, (1, max(SWEEPS, settings.iterations)), out),
        # these take long; their connections are warm by now
        _job(native, NATIVE, "native", _swept(native, size, sizes[:1], GROUPS), warm, out),
        _job(slow, SLOW, "lowered", slowest | _swept(slow, size, sizes[:1], world), warm, out, rates),
        _job(dip, DIP, "lowered", dipped, warm, out),
    )
    with filled(out) as new:
        save_wiring(wiring_of(plans[most].pricing.fabric, scenario.machine.title), new / WIRING)
        write_json(JobFile(wiring=WIRING, jobs=jobs).model_dump(), new / JOBS)


def _with_slow_wire(
    scenario: Scenario, wire: str, factor: float = SLOW_FACTOR, during: tuple[float, float] | None = None
) -> Scenario:
    """Return the scenario with a wire of node 0 slowed, always or `during` an interval (seconds after the begin of the
    step); other degraded components of the scenario remain."""
    links = {(each.node, each.link): each.factor for each in scenario.file.perturbation.links}
    own = links.pop((0, wire), 1.0)
    listed = [{"node": node, "link": link, "factor": each} for (node, link), each in links.items()]
    mine: dict[str, Any] = {"node": 0, "link": wire}
    if during is None:
        listed.append(mine | {"factor": factor * own})
    else:
        begin_s, end_s = during
        listed.append(mine | {"factor": factor * own, "from_s": begin_s, "until_s": end_s})
        if own < 1.0:
            listed += [mine | {"factor": own, "until_s": begin_s}, mine | {"factor": own, "from_s": end_s}]
    return scenario_of(scenario.document, scenario.where, {"perturbation.links": listed})


def _changes(steps: Mapping[str, SimulatedStep]) -> Iterator[RateChange]:
    """Yield the rate changes within each of the steps, as factors on the rates at the begin of the step."""
    first, *later = next(iter(steps.values())).states
    before = first.pricing.fabric.capacity
    names = {link: first.pricing.fabric.describe(link) for link in joining_links(first.pricing.fabric)}
    laid = before
    for state in later:
        now = state.pricing.fabric.capacity
        rates = {name: float(now[link] / laid[link]) for link, name in names.items() if now[link] != before[link]}
        yield RateChange(at_s=state.begin_s, rates=rates)
        before = now


def _refuse_idle(wire: str, plans: Mapping[str, SimulatedStep]) -> None:
    """Raise InputError if the wire to slow carries no traffic, such as a NIC's wire with a single node: slowing it
    would have no effect."""
    fabric = next(iter(plans.values())).pricing.fabric
    names = [each.name for each in fabric.machine.node.links]
    loads = [step.link_bytes for step in plans.values() if step.link_bytes is not None]
    carried = {name: max(float(load[fabric.link_named(0, name)]) for load in loads) for name in names}
    if not carried[wire]:
        most = max(names, key=carried.__getitem__)
        raise InputError(
            f"{wire!r} of node 0 carries nothing in any plan; allowed: one that does, e.g. {most!r}",
            where="--slow",
        )


def _swept(
    scenario: Scenario, num_devices: int, sizes: tuple[int, ...], groups: Mapping[str, tuple[str, ...]]
) -> dict[str, SimulatedStep]:
    """Return the simulated collectives by name: every kind over every group that has more than one rank, for every
    message size."""
    mesh = scenario.mesh(num_devices)
    live = dict.fromkeys(axes for axes in map(mesh.live, groups.values()) if axes)
    probes = [SweepCall(kind=kind, axes=axes, num_bytes=size) for axes in live for size in sizes for kind in KINDS]
    schedule = sweep(mesh, probes)
    built = BuiltSchedule(schedule=schedule)
    return {SWEEP_PLAN: simulated(scenario, built, "chunk")}


def _job(
    scenario: Scenario,
    name: str,
    collectives: Literal["native", "lowered"],
    steps: Mapping[str, SimulatedStep],
    repeats: tuple[int, int],
    out: Path,
    rates: Mapping[str, float] | None = None,
) -> ReplayJob:
    """Write the simulated steps of a job into its folder, and remove the results of an earlier run; return the job to
    run, with paths relative to `out`. `repeats`: numbers of warm-up and of timed iterations."""
    for kind in ("trace-*", "links-*", "emulated", "changes"):
        for old in (out / name / "real").glob(f"{kind}.json"):
            old.unlink()
    with filled(out / name / "sim", MANIFEST) as new:
        for title, step in steps.items():
            write_simulated(scenario, title, step, new)
    return ReplayJob(
        out=f"{name}/real",
        schedules=tuple(f"{name}/sim/schedule-{title}.json" for title in steps),
        waits=f"{name}/sim",
        collectives=collectives,
        warmup=repeats[0],
        iterations=repeats[1],
        rates=rates or {},
        changes=tuple(_changes(steps)),
    )
