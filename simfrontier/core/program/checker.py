"""The checker of schedules: validates tensor references, placements, gradient sums, weight versions, call order and
memory.

It runs on every schedule that is built and on every schedule file that is read. Each finding names the op, the ranks,
and the expected and actual facts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from simfrontier.core.program.alike import one_of_each_kind
from simfrontier.core.program.checks.gradients import check_gradients
from simfrontier.core.program.checks.instances import check_instances
from simfrontier.core.program.checks.layouts import check_layouts
from simfrontier.core.program.checks.meta import check_meta
from simfrontier.core.program.checks.order import check_comms, check_progress
from simfrontier.core.program.checks.placements import check_ops
from simfrontier.core.program.checks.streams import check_streams
from simfrontier.core.program.checks.tensors import check_families, check_tensors
from simfrontier.core.program.checks.values import check_values
from simfrontier.core.program.expansion import UnrolledProgram, unrolled, without_garbage_collection
from simfrontier.core.program.finding import CheckedRole, Finding, Findings, ranks_of_role
from simfrontier.core.program.ir import Schedule
from simfrontier.core.program.lifetime import Peak, peak_bytes
from simfrontier.core.program.pieces import joined
from simfrontier.core.program.roles import faults_of_roles
from simfrontier.core.program.segments import SegmentedProgram

NAMED_HOLDERS = 3


@dataclass(frozen=True, kw_only=True)
class CheckReport:
    """All findings of a check. `walked` is the schedule, or None if faults prevented the interpretation of its
    values; `parts` are the programs of its roles in segments, if there are several roles."""

    findings: tuple[Finding, ...]
    walked: Schedule | None = None
    parts: tuple[SegmentedProgram, ...] = field(default=(), compare=False)

    @cached_property
    def peaks(self) -> tuple[Peak, ...]:
        """The peak memory per rank of each role; empty if the schedule was not interpreted."""
        return () if self.walked is None else tuple(peak_bytes(self.walked, role) for role in self.walked.roles)

    @property
    def peak(self) -> Peak | None:
        """The peak memory per rank of the role that needs most memory; None if the schedule was not interpreted."""
        return max(self.peaks, key=lambda peak: peak.num_bytes, default=None)

    @property
    def is_clean(self) -> bool:
        return not self.findings

    def __str__(self) -> str:
        return "\n".join(map(str, self.findings)) or "no findings"


def check(
    schedule: Schedule, capacity_bytes: int | None = None, programs: Sequence[UnrolledProgram] | None = None
) -> CheckReport:
    """Check a schedule against all rules. Memory is checked only if `capacity_bytes`, the capacity of a rank, is given.

    Ops that are divided into pieces are joined first, because all other rules apply to whole ops. Next, tensors that do
    not fit the mesh, and ops that name undeclared tensors, are reported; the values of the programs are interpreted
    only if there are no such faults. `programs`: the unrolled programs of the roles, if already available.
    """
    findings, given = Findings(), schedule
    without = joined(schedule, findings)
    if without is None:
        return CheckReport(findings=findings.all())
    if without is not schedule:
        schedule, programs = without, None
    fits = _check_sizes(schedule, findings)
    if not fits or any(finding.rule == "references" for finding in findings.all()):
        return CheckReport(findings=findings.all())
    with without_garbage_collection():
        if not _is_clean_by_kind(schedule):
            _walk(schedule, programs or tuple(unrolled(schedule, role) for role in schedule.roles), findings)
            check_comms(schedule, findings)
    parts = check_progress(given, findings)
    if capacity_bytes is not None:
        _check_memory(given, capacity_bytes, findings)
    return CheckReport(findings=findings.all(), walked=given, parts=parts)


def _is_clean_by_kind(schedule: Schedule) -> bool:
    """Return whether checking one representative of each set of equivalent micro-batches finds no fault. If it finds a
    fault, all micro-batches must be checked to report it in full."""
    few = one_of_each_kind(schedule)
    if few is None:
        return False
    findings = Findings()
    check_comms(schedule, findings)
    if not findings:
        _walk(schedule, few.programs, findings, few.num_micro)
    return not findings


def _walk(
    schedule: Schedule, programs: Sequence[UnrolledProgram], findings: Findings, num_micro: int | None = None
) -> None:
    """Apply the rules that follow values and tensor instances through the whole program of each role."""
    roles = [CheckedRole(schedule, *each, findings) for each in zip(schedule.roles, programs, strict=True)]
    check_values(schedule, roles, num_micro)
    for checked in roles:
        check_instances(schedule, checked)


def check_sizes(schedule: Schedule) -> CheckReport:
    """Check only the rules that depend on the sizes of the mesh and of tensors. Used for a schedule that was fully
    checked at other sizes."""
    findings = Findings()
    without = joined(schedule, findings)
    if without is not None:
        _check_sizes(without, findings)
    return CheckReport(findings=findings.all())


def check_calls(schedule: Schedule) -> CheckReport:
    """Check only that all ranks issue the same collectives and exchanges in the same order, and that all programs run
    to their ends (no deadlock)."""
    findings = Findings()
    check_comms(schedule, findings)
    if not findings:
        check_progress(schedule, findings)
    return CheckReport(findings=findings.all())


def _check_sizes(schedule: Schedule, findings: Findings) -> bool:
    """Check the tensors, then each distinct op in isolation. Return whether the tensors fit the mesh; if they do not,
    the ops are not checked."""
    if not schedule.roles:
        findings.add("order", "schedule", "all ranks", "a role that says what they do", "no role")
    for number, _, text in faults_of_roles(schedule.mesh, schedule.roles):
        role = schedule.roles[number].name
        findings.add("order", f"role {role}", f"ranks of role {role}", "roles along one axis", text)
    check_tensors(schedule, findings)
    if findings:
        return False
    check_ops(schedule, findings)
    if not any(finding.rule == "references" for finding in findings.all()):
        check_families(schedule, findings)
        check_gradients(schedule, findings)
        check_layouts(schedule, findings)
        check_streams(schedule, findings)
        check_meta(schedule, findings)
    return True


def _check_memory(schedule: Schedule, capacity_bytes: int, findings: Findings) -> None:
    """Report the role with the highest peak memory if that peak exceeds the capacity; other roles above the capacity
    are only counted."""
    peaks = [peak_bytes(schedule, role) for role in schedule.roles]
    needs = sorted(zip(peaks, schedule.roles, strict=True), key=lambda each: -each[0].num_bytes)
    for peak, role in needs:
        if peak.num_bytes > capacity_bytes:
            most = ", ".join(f"{h.name} × {h.count}: {h.num_bytes}" for h in peak.holders[:NAMED_HOLDERS])
            text = f"{peak.num_bytes} bytes ({peak.persistent_bytes} of them persistent; most in {most})"
            ranks = ranks_of_role(role, schedule.roles)
            findings.add("memory", peak.op, ranks, f"at most {capacity_bytes} bytes", text, key="peak")
