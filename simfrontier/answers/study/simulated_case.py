"""A case of a scenario with its simulated step and the quantities from which its results are computed; the concurrent
job on other nodes of the machine; and the output files of a step.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import median

import numpy as np

from simfrontier.answers.step import (
    Exposure,
    Traffic,
    Waits,
    band_of,
    bounds,
    exposure,
    sampled_step_s,
    sampled_waits,
    traffic,
)
from simfrontier.answers.study.schedule_cache import BuiltSchedule, ScheduleCache
from simfrontier.base.arrays import Floats, Ints
from simfrontier.base.errors import InputError
from simfrontier.core.collectives import save_lowered
from simfrontier.core.engine import (
    Fidelity,
    JobStopsError,
    MemoryTimeline,
    Neighbour,
    SimulatedStep,
    fullest,
    lowered_schedule,
    simulate_step,
    trace_of,
)
from simfrontier.core.machine import JobNodes, Machine, Perturbation
from simfrontier.core.network import nodes_of_job
from simfrontier.core.plan import Options, TensorOptions
from simfrontier.core.program import digest, peak_bytes, save, segmented_roles
from simfrontier.core.trace import CALIBRATION, CALIBRATION_RESIDUAL, save_links, write_perfetto
from simfrontier.inputs.scenario import Case, Scenario
from simfrontier.inputs.scenario.words import PLAN_KEYS

KEY = "neighbour"
GRID_WORDS = ("tp", "cp", "pp", "vp", "ep", "etp")
_BUILT = ScheduleCache()


def neighbour_of(scenario: Scenario, num_devices: int) -> Neighbour | None:
    """Return the concurrent job for a job of `num_devices` devices, placed on the first free nodes of the machine or on
    the nodes that it lists; None if the scenario has none. Raises InputError if it cannot be placed.
    """
    other = scenario.beside
    if other is None:
        return None
    ((plan, _),), (devices,) = other.plans.items(), other.file.run.devices
    try:
        nodes = _nodes(scenario.machine, num_devices, other.machine, devices)
        built = _BUILT.get(other, plan, devices)
    except InputError as error:
        raise error.within(key=(KEY,) if error.key[:1] != (KEY,) else ()) from None
    perturbation = scenario.file.perturbation
    return Neighbour(
        schedule=built.schedule,
        machine=replace(
            other.of(plan, devices).machine,
            job_nodes=JobNodes(
                placement="list", listed=tuple(nodes.tolist()), group_of=scenario.machine.job_nodes.group_of
            ),
        ),
        library=other.library,
        perturbation=Perturbation(pools=perturbation.pools, background=perturbation.background),
        placement=other.file.run.placement,
        parts=built.parts,
    )


def _nodes(machine: Machine, num_devices: int, others: Machine, other_devices: int) -> Ints:
    """Return the machine's node numbers of the concurrent job."""
    per_node = machine.devices_per_node
    mine, needed = nodes_of_job(machine, -(-num_devices // per_node)), -(-other_devices // per_node)
    count = len(machine.job_nodes.group_of) or machine.num_nodes
    job = others.job_nodes
    if job.placement == "list":
        listed = np.array(job.listed)
        if len(listed) < needed:
            text = f"got {other_devices} devices, which need {needed} nodes; its nodes.list has {len(listed)}"
            raise InputError(text, key=(KEY, "devices"))
        if listed.max() >= count:
            text = f"its nodes.list has node {listed.max()}; this scenario's machine has 0 to {count - 1}"
            raise InputError(text, key=(KEY, "scenario"))
        shared = np.intersect1d(listed[:needed], mine)
        if len(shared):
            text = f"node {shared[0]} is of both jobs; allowed: others in its nodes.list"
            raise InputError(text, key=(KEY, "scenario"))
        return listed[:needed]
    free = np.setdiff1d(np.arange(count), mine)
    if len(free) < needed:
        text = f"got {other_devices} devices on {needed} nodes; {machine.name} has {len(free)} left"
        raise InputError(text, key=(KEY, "devices"))
    return free[:needed]


def simulated(
    scenario: Scenario,
    built: BuiltSchedule,
    fidelity: Fidelity,
    exact: bool = False,
    number: int = 0,
    perturbation: Perturbation | None = None,
) -> SimulatedStep:
    """Simulate one step of a schedule on the scenario's machine, in its state at that step or with another
    `perturbation`; `number`: index of the step in the training. Raises InputError if the machine cannot run the step,
    and JobStopsError if the step needs a component that has failed permanently.
    """
    schedule = built.schedule
    by_ops = exact or fidelity == "chunk"
    parts = segmented_roles(schedule, built.program, whole=False) if by_ops else built.parts
    try:
        return simulate_step(
            schedule,
            scenario.machine,
            scenario.library,
            fidelity,
            scenario.file.perturbation if perturbation is None else perturbation,
            exact,
            scenario.file.run.placement,
            parts,
            number,
            neighbour_of(scenario, schedule.mesh.num_ranks),
        )
    except (InputError, JobStopsError) as error:
        where = f"{scenario.where}: plans.{schedule.meta['plan']}: at {schedule.mesh.num_ranks} devices"
        raise type(error)(f"{where}: {error}") from None


def stream_of(options: Options) -> str:
    """Return the name of a plan's own random stream: its options, so that it has the same samples under any plan name,
    in a scenario or in a search; without `data_ranks`, which says nothing that the other options do not.
    """
    return options.model_dump_json(exclude={"data_ranks": True, "data": {"data_ranks"}})


@dataclass(frozen=True, kw_only=True)
class SimulatedCase:
    """A plan at a size with its simulated step. `with_waits`: whether sampled steps include the waiting times between
    devices.
    """

    scenario: Scenario
    case: Case
    built: BuiltSchedule
    step: SimulatedStep
    with_waits: bool = False

    @classmethod
    def of(
        cls,
        scenario: Scenario,
        plan: str,
        devices: int,
        fidelity: Fidelity,
        schedules: ScheduleCache,
        perturbation: Perturbation | None = None,
    ) -> SimulatedCase:
        """Build, check and simulate a nominal step of a plan of the scenario, on the machine as the scenario states it
        or with another `perturbation`. Raises as `simulated` and `ScheduleCache.of_case`.
        """
        case = scenario.case(plan, devices)
        built = schedules.of_case(scenario, case)
        step = simulated(scenario.of(plan, devices), built, fidelity, perturbation=perturbation)
        return cls(scenario=scenario, case=case, built=built, step=step)

    @cached_property
    def here(self) -> Scenario:
        """The scenario with the settings of the plan's software stack and size."""
        return self.scenario.of(self.case.name, self.case.devices)

    @cached_property
    def memory(self) -> MemoryTimeline:
        """The memory of the fullest device."""
        return fullest(self.step, self.built.peaks)

    @property
    def host_bytes(self) -> int:
        """Bytes of a device's activations in the host's memory."""
        is_used = self.case.plan.offloaded_layers
        return peak_bytes(self.built.schedule, on_host=True).num_bytes if is_used else 0

    @property
    def capacity_bytes(self) -> float:
        """Bytes of a device that the plan's stack leaves to tensors."""
        return self.step.pricing.machine.device.hbm_bytes

    @property
    def fits(self) -> bool:
        return self.memory.peak_bytes <= self.capacity_bytes

    @cached_property
    def exposure(self) -> Exposure:
        """Breakdown of the nominal step."""
        return exposure(self.step)

    @cached_property
    def traffic(self) -> Traffic:
        return traffic(self.step)

    @property
    def bound_s(self) -> float:
        """Lower bound of the step in seconds."""
        return bounds(self.step).step_s

    @cached_property
    def waits(self) -> Waits | None:
        """Waiting times in the sampled steps; None if not requested, or if no variation between devices is known."""
        if not self.with_waits:
            return None
        return sampled_waits(self.step, self._stream, self._num_samples, self.scenario.file.uncertainty.seed)

    @cached_property
    def samples_s(self) -> Floats | None:
        """Sampled step times in seconds, paired with those of other plans at the same size; None if the plan does not
        fit into memory, no uncertainty is known, or no samples are requested.
        """
        if self.waits is not None:
            return self.waits.step_s
        return sampled_step_s(self.step, self._stream, self._num_samples, self.scenario.file.uncertainty.seed)

    @property
    def _stream(self) -> str:
        return stream_of(self.case.options)

    @property
    def _num_samples(self) -> int:
        return self.scenario.file.uncertainty.samples if self.step.may_be_sampled and self.fits else 0

    @cached_property
    def _band(self) -> tuple[float, float, float] | None:
        return None if self.samples_s is None else band_of(self.samples_s)

    def of_samples(self, number: int) -> float | str:
        """Return the lower end (`number` 0), the median (1) or the upper end (2) of 90 % of the sampled step times
        in seconds; "" without samples.
        """
        return "" if self._band is None else self._band[number]

    @property
    def step_s(self) -> float:
        """Median step time in seconds; the nominal step time if there are no samples."""
        return self.step.step_s if self._band is None else self._band[1]

    @property
    def tokens(self) -> int:
        """Tokens per step."""
        return self.case.samples * self.case.shape.sequence

    @property
    def peak_flops_per_s(self) -> float:
        """Peak rate of all devices at the model's precision."""
        return self.case.devices * self.here.peak_flops_per_s

    @property
    def mesh_text(self) -> str:
        """The mesh axes that have several ranks: `data 16 × tensor 8`."""
        return " × ".join(f"{axis} {self.case.mesh[axis]}" for axis in self.case.mesh.live(self.case.mesh.names))

    @property
    def grid_text(self) -> str:
        """The ranks along each dimension of the plan's grid, in the words of launch scripts, without dimensions of one
        rank: `tp 8 pp 2 dp 4`. Whatever is not model-parallel is data-parallel.
        """
        options = self.case.options
        if not isinstance(options, TensorOptions):
            return f"dp {self.case.devices}"
        keys = {axis: axis for axis in ("x", "y", "z")} | {word: PLAN_KEYS[word] for word in GRID_WORDS}
        ranks = {word: getattr(options, key, None) or 1 for word, key in keys.items()}
        data = self.case.devices // (options.pipeline * math.prod(size for _, size in options.inside))
        return " ".join([*(f"{word} {count}" for word, count in ranks.items() if count > 1), f"dp {data}"])

    @property
    def need_inter_node(self) -> float | str:
        """Bytes that any algorithm must move between nodes; "" if the nodes of the mesh are not contiguous blocks on
        machine nodes.
        """
        num_nodes = self.step.pricing.fabric.num_nodes
        if num_nodes == 1:
            return 0.0
        if self.scenario.file.run.placement != "block" or not self.step.pricing.mesh_is_machine:
            return ""
        return float(self.built.needs.total(self.step.schedule.mesh.names[0])) * num_nodes


def write_simulated(scenario: Scenario, name: str, step: SimulatedStep, folder: Path) -> str:
    """Write a schedule and the trace of its simulated step, and return the schedule's digest. If single messages were
    simulated also write the recipes of its collectives and the bytes on every link; the recipes also for a schedule
    that encodes per hop, which can only be executed by recipes.
    """
    digested = digest(step.schedule)
    title = f"{scenario.name} {name} {step.schedule.mesh.num_ranks}"
    save(step.schedule, folder / f"schedule-{name}.json")
    write_perfetto(trace_of(step, digested, title, notes=notes_of(scenario)), folder / f"trace-{name}.json")
    if step.link_bytes is not None or step.schedule.codes_per_hop:
        save_lowered(lowered_schedule(step.pricing, digested), folder / f"lowered-{name}.json")
    if step.link_bytes is not None:
        save_links(step.link_table(digested, title), folder / f"links-{name}.json")
    return digested


def notes_of(scenario: Scenario) -> dict[str, str]:
    """Return the notes of a simulated trace about its scenario."""
    notes = {"scenario": scenario.name}
    if scenario.file.library.calibration:
        notes[CALIBRATION] = Path(scenario.file.library.calibration).name
        residuals = [each.residual for each in scenario.library.tables.values() if each.residual is not None]
        if residuals:
            notes[CALIBRATION_RESIDUAL] = f"{median(residuals):.4g}"
    return notes


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportFormat:
    """A format of `simfrontier export --format`, provided by the module `export_formats` of an extra.

    `write` writes the step of the named plan into a folder and returns a line that describes the output; `check` raises
    InputError before the simulation if a library that the format needs is not installed.
    """

    name: str
    sentence: str
    write: Callable[[Scenario, str, SimulatedStep, Path], str]
    check: Callable[[], None] = lambda: None
