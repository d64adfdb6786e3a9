"""What `simfrontier emulate` has to do: the simulated side, written, and the jobs of the real side as a file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simfrontier.commands.export import write_simulated
from simfrontier.commands.folder import filled
from simfrontier.machine.wiring import save_wiring
from simfrontier.network.wiring import wiring_of
from simfrontier.scenario import Scenario, scenario_of
from simfrontier.schedule.expand import expand
from simfrontier.schedule.ir import CollectiveKind
from simfrontier.schedule.sweep import Probe, sweep
from simfrontier.simulate import SimulatedStep
from simfrontier.study import Built, Shop, simulated

KINDS: tuple[CollectiveKind, ...] = ("all_gather", "reduce_scatter", "all_reduce")
GROUPS = {"world": ("node", "package", "gcd"), "node": ("package", "gcd"), "package": ("gcd",)}
PLANS, LOWERED, NATIVE, SLOW = "plans", "sweep-lowered", "sweep-native", "slow"
SWEEP_PLAN = "sweep"
JOBS, WIRING = "jobs.json", "wiring.json"
NATIVE_LIBRARY = "gloo"
SLOW_FACTOR = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Emulating:
    """What to run: iterations of the plans and of the sweep as transfers (after one to warm up; native collectives and
    what a slowed link does take long, and are timed once), message sizes of the sweeps in bytes, and the wire of node 0
    that is slowed to half for the last job."""

    iterations: int
    lowered_sizes: tuple[int, ...]
    native_sizes: tuple[int, ...]
    slow_wire: str


def prepare(scenario: Scenario, how: Emulating, out: Path) -> None:
    """Simulate all that will be run, and write it into `out`: a folder per job, the wiring, the jobs. Raises
    InputError where the machine has no wire of that name."""
    size, shop = max(scenario.file.run.devices), Shop()
    plans = {plan: shop.get(scenario, plan, size) for plan in scenario.plans}
    first = next(iter(plans))
    world = {"world": GROUPS["world"]}
    slowed = [{"node": 0, "link": how.slow_wire, "factor": SLOW_FACTOR}]
    native = scenario_of(scenario.document, scenario.where, {"library.name": NATIVE_LIBRARY})
    slow = scenario_of(scenario.document, scenario.where, {"perturbation.links": slowed})
    jobs = [
        _job(scenario, PLANS, "lowered", plans, how.iterations, out),
        _job(scenario, LOWERED, "lowered", _swept(scenario, size, how.lowered_sizes), how.iterations, out),
        _job(native, NATIVE, "native", _swept(native, size, how.native_sizes), 1, out),
        _job(
            slow,
            SLOW,
            "lowered",
            {first: plans[first]} | _swept(slow, size, how.lowered_sizes[:1], world),
            1,
            out,
            {f"node 0 {how.slow_wire}": SLOW_FACTOR},
        ),
    ]
    fabric = _simulated(scenario, plans[first]).cluster.fabric
    with filled(out) as new:
        save_wiring(wiring_of(fabric, scenario.machine.title), new / WIRING)
        (new / JOBS).write_text(json.dumps({"wiring": WIRING, "jobs": jobs}, indent=1) + "\n")


def _swept(
    scenario: Scenario, num_devices: int, sizes: tuple[int, ...], groups: Mapping[str, tuple[str, ...]] = GROUPS
) -> dict[str, Built]:
    mesh = scenario.mesh(num_devices)
    live = [mesh.live(axes) for axes in groups.values()]
    probes = [Probe(kind=kind, axes=axes, num_bytes=size) for axes in live for size in sizes for kind in KINDS]
    schedule = sweep(mesh, probes)
    return {SWEEP_PLAN: Built(schedule=schedule, program=expand(schedule, schedule.roles[0]))}


def _simulated(scenario: Scenario, built: Built) -> SimulatedStep:
    return simulated(scenario, built, "chunk")


def _job(
    scenario: Scenario,
    name: str,
    collectives: str,
    built: Mapping[str, Built],
    iterations: int,
    out: Path,
    rates: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """Simulate the schedules of a job into its folder; what the real side is told of it, with paths from `out`."""
    folder = out / name / "sim"
    with filled(folder) as new:
        for title, each in built.items():
            write_simulated(scenario, title, _simulated(scenario, each), new)
    return {
        "out": f"{name}/real",
        "schedules": [f"{name}/sim/schedule-{title}.json" for title in built],
        "waits": f"{name}/sim",
        "collectives": collectives,
        "iterations": iterations,
        "rates": dict(rates or {}),
    }
