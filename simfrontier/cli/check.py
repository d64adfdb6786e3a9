"""`simfrontier check`: the findings of the schedule checker, as lines or JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import typer

from simfrontier.scenario import Scenario
from simfrontier.schedule import Schedule, check, digest, load
from simfrontier.study import schedule_of
from simfrontier.trace import SHOWN_DIGITS
from simfrontier.tuning import GridSearcher


def check_file(path: Path, capacity: float | None, as_json: bool, large: bool = False) -> int:
    """Check a schedule file, also a `large` one; returns the number of findings."""
    return _report([(str(path), load(path, large), capacity)], as_json)


def check_scenario(scenario: Scenario, capacity: float | None, as_json: bool) -> int:
    """Check every plan of a scenario at every size, by default against the machine's memory; returns the number of
    findings."""
    scenario = GridSearcher().complete(scenario)
    cases = [
        (
            f"{plan} on {devices}",
            schedule_of(scenario, plan, devices),
            scenario.of(plan, devices).machine.device.hbm_bytes if capacity is None else capacity,
        )
        for plan in scenario.plans
        for devices in scenario.file.run.devices
    ]
    return _report(cases, as_json)


def _report(cases: Sequence[tuple[str, Schedule, float | None]], as_json: bool) -> int:
    total, rows = 0, []
    for name, schedule, capacity in cases:
        findings = check(schedule, None if capacity is None else int(capacity)).findings
        digested = digest(schedule)
        total += len(findings)
        rows.append({"schedule": name, "digest": digested, "findings": [str(finding) for finding in findings]})
        if not as_json:
            verdict = f"{len(findings)} findings" if findings else "sound"
            typer.echo(f"{name}: {verdict} (digest {digested[:SHOWN_DIGITS]})")
            for finding in findings:
                typer.echo(f"  {finding}")
    if as_json:
        typer.echo(json.dumps(rows, indent=1))
    return total
