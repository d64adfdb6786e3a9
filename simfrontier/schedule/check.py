"""The type checker of schedules: references, placements, sums, versions, order, memory.

It runs on every schedule that is built and on any schedule file, and says which op, which ranks, what was expected and
what was found.
"""

from __future__ import annotations

from dataclasses import dataclass

from simfrontier.schedule.check_order import check_comms, check_progress
from simfrontier.schedule.check_placements import check_ops, check_tensors
from simfrontier.schedule.check_values import check_values
from simfrontier.schedule.expand import Expanded, expand
from simfrontier.schedule.finding import Finding, Findings
from simfrontier.schedule.ir import Schedule
from simfrontier.schedule.lifetimes import Peak, peak_bytes

NAMED_HOLDERS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All findings; `peak` is missing where the schedule was not walked."""

    findings: tuple[Finding, ...]
    peak: Peak | None

    @property
    def is_clean(self) -> bool:
        return not self.findings

    def __str__(self) -> str:
        return "\n".join(map(str, self.findings)) or "no findings"


def check(
    schedule: Schedule, capacity_bytes: int | None = None, programs: tuple[Expanded, ...] | None = None
) -> Report:
    """Check a schedule against all rules; memory only against a given capacity per rank.

    Tensors that do not fit the mesh, then ops that name what does not exist, are said first; only without such faults
    is there a program to walk (`programs`: the expansions of the roles, if they are at hand).
    """
    found = Findings()
    fits = _check_sizes(schedule, found)
    if not fits or any(finding.rule == "references" for finding in found.all()):
        return Report(findings=found.all(), peak=None)
    if programs is None:
        programs = tuple(expand(schedule, role) for role in schedule.roles)
    walked = list(zip(schedule.roles, programs, strict=True))
    for role, program in walked:
        check_values(schedule, role, program, found)
    check_comms(schedule, walked, found)
    check_progress(walked, found)
    peaks = [peak_bytes(schedule, role, program) for role, program in walked]
    peak = max(peaks, key=lambda each: each.num_bytes)
    if capacity_bytes is not None and peak.num_bytes > capacity_bytes:
        _too_much(peak, capacity_bytes, found)
    return Report(findings=found.all(), peak=peak)


def check_sizes(schedule: Schedule) -> Report:
    """Check only what depends on the sizes of the mesh and of tensors, for a schedule whose like has been checked."""
    found = Findings()
    _check_sizes(schedule, found)
    return Report(findings=found.all(), peak=None)


def _check_sizes(schedule: Schedule, found: Findings) -> bool:
    """Tensors, then each distinct op by itself; whether the tensors fit the mesh, so that the ops could be looked
    at."""
    if not schedule.roles:
        found.add("order", "schedule", "all ranks", "a role that says what they do", "no role")
    check_tensors(schedule, found)
    if found:
        return False
    for role in schedule.roles:
        check_ops(schedule, role, found)
    return True


def _too_much(peak: Peak, capacity_bytes: int, found: Findings) -> None:
    most = ", ".join(f"{h.name} × {h.count}: {h.num_bytes}" for h in peak.holders[:NAMED_HOLDERS])
    said = f"{peak.num_bytes} bytes ({peak.persistent_bytes} of them persistent; most in {most})"
    found.add("memory", peak.op, "all ranks", f"at most {capacity_bytes} bytes", said)
