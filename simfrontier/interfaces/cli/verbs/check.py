"""`simfrontier check`: the findings of the schedule checker, as lines or JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from simfrontier.answers.forecast import forecast_check
from simfrontier.answers.search import GridSearcher
from simfrontier.answers.study import schedule_of
from simfrontier.core.program import Schedule, check as findings_of, digest, load as load_schedule
from simfrontier.core.trace import SHOWN_DIGITS
from simfrontier.inputs.scenario import Scenario
from simfrontier.interfaces.cli import options
from simfrontier.interfaces.cli.console import print_json
from simfrontier.interfaces.cli.options import announce

Case = tuple[str, "Schedule", float | None]  # a schedule, what it is called, and the bytes that a device has


def check(
    scenario: Annotated[Path, typer.Argument(help="schedule (JSON), or scenario (TOML): every plan at every size")],
    set_: options.Settings = None,
    plans: options.Plans = None,
    devices: options.Devices = None,
    capacity: Annotated[
        float | None,
        typer.Option(min=1, max=1e15, help="memory per device in bytes, e.g. 64e9 (default: the machine's)"),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="print the findings as JSON")] = False,
    yes_large: options.YesLarge = False,
) -> None:
    """Check schedules: placements, weight versions, sums, order, deadlock, memory. Exit code 1 if a check fails."""
    if scenario.suffix == ".json":
        of_a_scenario = {"--set": set_, "--plans": plans, "--devices": devices}
        options.refuse(of_a_scenario, f"for {scenario}, a schedule; allowed: only with a scenario (TOML)")
        cases = [(str(scenario), load_schedule(scenario, yes_large), capacity)]
    else:
        loaded = options.load(scenario, set_, plans, devices)
        announce(forecast_check(loaded), str(scenario), yes_large)
        cases = _cases(loaded, capacity)
    raise typer.Exit(1 if _report(cases, json) else 0)


def _cases(scenario: Scenario, capacity: float | None) -> list[Case]:
    """Return a case (schedule and memory limit) for every plan at every size; the default limit is the machine's
    memory."""
    scenario = GridSearcher().complete(scenario)
    return [
        (
            f"{plan} on {devices}",
            schedule_of(scenario, plan, devices),
            scenario.of(plan, devices).machine.device.hbm_bytes if capacity is None else capacity,
        )
        for plan in scenario.plans
        for devices in scenario.file.run.devices
    ]


def _report(cases: list[Case], as_json: bool) -> int:
    """Print the findings and return their number."""
    total, rows = 0, []
    for name, schedule, capacity in cases:
        findings = findings_of(schedule, None if capacity is None else int(capacity)).findings
        digested = digest(schedule)
        total += len(findings)
        rows.append({"schedule": name, "digest": digested, "findings": [str(finding) for finding in findings]})
        if not as_json:
            verdict = f"{len(findings)} findings" if findings else "passed"
            typer.echo(f"{name}: {verdict} (digest {digested[:SHOWN_DIGITS]})")
            for finding in findings:
                typer.echo(f"  {finding}")
    if as_json:
        print_json(rows)
    return total
