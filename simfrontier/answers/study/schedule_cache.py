"""Cache of the schedules of a scenario's cases, each built and checked once."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import cached_property

from simfrontier.answers.step import RequiredBytes, step_needs
from simfrontier.base.errors import InputError, SimfrontierError
from simfrontier.core.plan import build, rebound, rebound_program, structure_of
from simfrontier.core.program import (
    ExpandedProgram,
    Peak,
    Schedule,
    SegmentedProgram,
    check,
    check_sizes,
    digest,
    expand,
    segmented_roles,
)
from simfrontier.inputs.scenario import Case, Scenario


def schedule_of(scenario: Scenario, plan: str, devices: int) -> Schedule:
    """Return the schedule of a scenario's plan at a size. Raises InputError if one of its data movements cannot be
    built.
    """
    return schedule_of_case(scenario, scenario.case(plan, devices))


def schedule_of_case(scenario: Scenario, case: Case) -> Schedule:
    """Return the schedule of a case of a scenario. Raises InputError if one of its data movements cannot be built."""
    try:
        return build(case.workload, case.plan, case.mesh, case.engine, case.grad_accum)
    except InputError as error:
        raise InputError(f"{scenario.where}: plans.{case.name}: at {case.devices} devices: {error}") from None


@dataclass(frozen=True, kw_only=True)
class BuiltSchedule:
    """A checked schedule, with its expanded program if it has one role, or the peak memory and the segments of each
    role if it has several.
    """

    schedule: Schedule
    program: ExpandedProgram | None = None
    peaks: tuple[Peak, ...] = ()
    segments: tuple[SegmentedProgram, ...] = ()

    @cached_property
    def digest(self) -> str:
        return digest(self.schedule)

    @cached_property
    def needs(self) -> RequiredBytes:
        """Bytes that any algorithm must move for the schedule's collectives."""
        return step_needs(self.schedule)

    @cached_property
    def parts(self) -> tuple[SegmentedProgram, ...]:
        """Programs of the roles as nodes to simulate; a call is kept as one node where that is possible."""
        return self.segments or segmented_roles(self.schedule, self.program)


@dataclass
class ScheduleCache:
    """Builds and checks schedules. Schedules with one role that differ only in mesh sizes and batch are built once and
    rebound to the sizes.
    """

    known: dict[Hashable, BuiltSchedule] = field(default_factory=dict)

    def get(self, scenario: Scenario, plan: str, devices: int) -> BuiltSchedule:
        """Return the schedule of a plan at a size. Raises InputError if one of its data movements cannot be built, and
        SimfrontierError if the check of the schedule finds an error.
        """
        return self.of_case(scenario, scenario.case(plan, devices))

    def of_case(self, scenario: Scenario, case: Case) -> BuiltSchedule:
        """Return the schedule of a case of a scenario. Raises as `get`."""
        work = case.workload
        structure: Hashable = structure_of(work, case.plan, case.mesh, case.engine, case.grad_accum)
        if case.plan.pipeline is not None:
            structure = structure, case.mesh, work.batch
        like = self.known.get(structure)
        program: ExpandedProgram | None = None
        peaks: tuple[Peak, ...] = ()
        segments: tuple[SegmentedProgram, ...] = ()
        if like is None:
            schedule = schedule_of_case(scenario, case)
            if len(schedule.roles) == 1:
                program = expand(schedule, schedule.roles[0])
            report = check(schedule, programs=None if program is None else (program,))
            peaks, segments = report.peaks if program is None else (), report.parts
        elif (like.schedule.mesh, like.schedule.meta["batch"]) == (case.mesh, work.batch):
            return like
        else:
            schedule = rebound(like.schedule, case.mesh, work.batch)
            if like.program is not None:
                program = rebound_program(like.program, schedule)
            report = check_sizes(schedule)
        if report.findings:
            where = f"{scenario.where}: plans.{case.name}: at {case.devices} devices"
            raise SimfrontierError(f"{where}: the schedule is not sound: {report.findings[0]}")
        built = BuiltSchedule(schedule=schedule, program=program, peaks=peaks, segments=segments)
        self.known[structure] = built  # the size that is asked for next is most often the same
        return built
