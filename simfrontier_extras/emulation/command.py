"""`simfrontier emulate`: simulate a scenario's plans, run them for real in the emulated machine, and compare both."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import typer

from simfrontier.base.errors import InputError, SimfrontierError, nearest
from simfrontier.base.wholefile import ensure_writable, filled, write_whole
from simfrontier.core.trace import (
    Comparison,
    Delta,
    compare,
    crosscheck_of,
    deltas,
    duration,
    read_perfetto,
    step_times,
)
from simfrontier.inputs.scenario import Scenario
from simfrontier.interfaces.cli.console import print_json
from simfrontier.interfaces.cli.verbs.crosscheck import crosscheck_document, print_check
from simfrontier_extras.emulation.added_checks import EmulatedCheck
from simfrontier_extras.emulation.job_file import CHANGED, MadeChange, load_changes
from simfrontier_extras.emulation.jobs import (
    DIP,
    DIP_FACTOR,
    JOBS,
    LOWERED,
    NATIVE,
    PLANS,
    SLOW,
    SLOW_FACTOR,
    SWEEP_PLAN,
    EmulateSettings,
    prepare,
)
from simfrontier_extras.emulation.limits import (
    EMULATED,
    EmulatedRun,
    Implementation,
    SlowLinkEffect,
    SweepPoint,
    save_run,
)
from simfrontier_extras.emulation.scenario_keys import table_of
from simfrontier_extras.emulation.sections import limits_words


def emulate(scenario: Scenario, settings: EmulateSettings, out: Path, as_json: bool) -> bool:
    """Simulate the plans, run them and compare; return whether all limits hold. Raises InputError if the scenario has
    no table `emulation`, and SimfrontierError if the run failed."""
    if table_of(scenario.file) is None:
        keys = "{ scale, packet_bytes, burst_bytes }"
        example = "simfrontier_extras/emulation/scenarios/emulate.toml"
        text = f"missing; allowed: a table {keys}, as in {example}"
        raise InputError(text, where=scenario.where, key=("emulation",))
    _refuse_changes(scenario)
    wires = [wire.name for wire in scenario.machine.node.links]
    if settings.slow_wire not in wires:
        raise InputError(
            f"a node of {scenario.machine.name}: got {settings.slow_wire!r}; {nearest(settings.slow_wire, wires)}",
            where="--slow",
        )
    ensure_writable(out)
    size = max(scenario.file.run.devices)
    typer.echo(f"Simulating {', '.join(scenario.plans)} and single collectives on {size} devices", err=as_json)
    prepare(scenario, settings, out)
    typer.echo(f"Running the same schedules on {size} gloo ranks in network namespaces", err=as_json)
    _run(out / JOBS)
    return report(settings, out, as_json)


def _refuse_changes(scenario: Scenario) -> None:
    """Raise InputError for settings that the message engine or the emulated machine does not support."""
    if scenario.file.perturbation.is_timed:
        text = "got troubles with times; allowed: some that always are: the wire of --slow changes within a step"
        raise InputError(text, where=scenario.where, key=("perturbation",))
    if scenario.file.perturbation.calls_differ:
        text = "got calls that differ; allowed: devices and networks that do"
        raise InputError(text, where=scenario.where, key=("perturbation", "spread"))
    if scenario.file.neighbour is not None:
        raise InputError("no other job is emulated; allowed: none", where=scenario.where, key=("neighbour",))


def _run(jobs: Path) -> None:
    """Run the emulation process, which reports its own errors and ends with this process."""
    command = [sys.executable, "-m", "simfrontier_real", "emulate", str(jobs)]
    done = subprocess.run(command, check=False, env={**os.environ, "SIMFRONTIER_STARTED_BY": str(os.getpid())})
    if done.returncode >= 128:  # stopped by a signal, which is no answer
        raise typer.Exit(done.returncode)
    if done.returncode:
        error = InputError if done.returncode == InputError.exit_code else SimfrontierError
        raise error(f"the run in the emulated machine ended with {done.returncode}; what it said is above")


MIN_BYTES, TOLERANCE = 1 << 20, 0.15


def report(settings: EmulateSettings, out: Path, as_json: bool) -> bool:
    """Compare the simulation with the run, write the page and print the result; return whether all limits hold."""
    from simfrontier.interfaces.report.crosscheck import crosscheck_page

    real, link = out / PLANS / "real", f"node 0 {settings.slow_wire}"
    sweep = (*_points(out, LOWERED, "lowered"), *_points(out, NATIVE, "native"))
    save_run(EmulatedRun(sweep=sweep, slowed=(*_effects(out, link), *_dip_effects(out, link))), real / EMULATED)
    changed = out / DIP / "real" / CHANGED
    made = load_changes(changed) if changed.exists() else ()  # the steps may have ended before
    check = crosscheck_of(out / PLANS / "sim", real, MIN_BYTES, TOLERANCE)
    (emulated,) = [each for each in check.added if isinstance(each, EmulatedCheck)]
    limits = emulated.limits
    with filled(out) as new:
        write_whole(new / "index.html", crosscheck_page(check))
    if as_json:
        document = crosscheck_document(check) | {"limits": [asdict(limit) for limit in limits]}
        print_json(document | {"changes": [change.model_dump() for change in made]})
    else:
        print_check(check, out)
        for line in (*map(_made_words, made), *map(_dip_words, emulated.slowed)):
            if line:
                typer.echo(line)
        typer.echo(limits_words(limits))
    return all(limit.holds for limit in limits)


def _made_words(change: MadeChange) -> str:
    rates = ", ".join(f"{name} at {factor:g} of its rate" for name, factor in change.rates.items())
    return f"Step {change.step + 1}: {rates} from {change.made_s:.3f} s on, planned {change.planned_s:.3f} s."


def _dip_words(effect: SlowLinkEffect) -> str:
    if effect.begin_s is None:
        return ""
    return (
        f"{effect.what} with {effect.condition}: {effect.sim_slowed_s:.3f} s simulated, {effect.real_slowed_s:.3f} s "
        f"real, {effect.real_slowed_s / effect.sim_slowed_s - 1:+.1%}; healthy {effect.sim_s:.3f} and "
        f"{effect.real_s:.3f} s, {effect.real_s / effect.sim_s - 1:+.1%}."
    )


def _sweep(out: Path, job: str) -> Comparison:
    traces = (read_perfetto(out / job / side / f"trace-{SWEEP_PLAN}.json") for side in ("sim", "real"))
    return compare(SWEEP_PLAN, *traces)


def _whole(comparison: Comparison) -> dict[str, tuple[float, float]]:
    """Return the simulated and real time of every collective over all ranks: from the time at which the last rank is
    ready to the time at which the last rank ends. With a slowed link ranks end at different times, so that the median
    over ranks is not meaningful."""
    out: dict[str, tuple[float, float]] = {}
    for pair in comparison.pairs:
        before = out.get(pair.sim.name, (0.0, 0.0))
        out[pair.sim.name] = max(before[0], duration(pair.sim)), max(before[1], duration(pair.real))
    return out


def _points(out: Path, job: str, implementation: Implementation) -> list[SweepPoint]:
    swept = [delta for delta in deltas(_sweep(out, job)) if delta.is_collective]
    ordered = sorted(swept, key=lambda delta: (-delta.group_size, delta.kind, delta.message_bytes))
    return [
        SweepPoint(
            collectives=implementation,
            kind=delta.kind,
            group=_group(delta),
            message_bytes=delta.message_bytes,
            sim_s=delta.sim_s,
            real_s=delta.real_s,
        )
        for delta in ordered
    ]


def _group(delta: Delta) -> str:
    axes = delta.axes.split("+")
    name = "world" if "node" in axes else "node" if "package" in axes else "package"
    return f"{name} ({delta.group_size})"


def _effects(out: Path, link: str) -> list[SlowLinkEffect]:
    """Return the effects of the slowed link on the plan's step and on collectives."""
    usual, slowed = _sweep(out, LOWERED), _sweep(out, SLOW)
    effects = _step_effects(out, link, SLOW)
    before_s, after_s = _whole(usual), _whole(slowed)
    for delta in deltas(slowed):
        what = f"{delta.kind.replace('_', '-')} over {_group(delta)}"
        effects.append(_effect(what, link, before_s[delta.name], after_s[delta.name]))
    return effects


def _step_effects(out: Path, link: str, job: str) -> list[SlowLinkEffect]:
    """Return the effects of the slowed link on the plans whose steps were run with it."""
    effects = []
    for trace in sorted((out / job / "sim").glob("trace-*.json")):
        plan = trace.stem.removeprefix("trace-")
        if plan != SWEEP_PLAN:
            usual, slowed = (
                step_times(compare(plan, *(read_perfetto(out / each / side / trace.name) for side in ("sim", "real"))))
                for each in (PLANS, job)
            )
            effects.append(_effect(f"step of {plan}", link, (usual.sim_s, usual.real_s), (slowed.sim_s, slowed.real_s)))
    return effects


def _dip_effects(out: Path, link: str) -> list[SlowLinkEffect]:
    """Return the effects on the plan whose step was run with the link slowed during its middle third."""
    return [
        each.model_copy(update={"factor": DIP_FACTOR, "begin_s": each.sim_s / 3, "end_s": 2 * each.sim_s / 3})
        for each in _step_effects(out, link, DIP)
    ]


def _effect(what: str, link: str, usual_s: tuple[float, float], slowed_s: tuple[float, float]) -> SlowLinkEffect:
    """Return the effect of a slowed link, given (simulated, real) times in seconds without and with the slowdown."""
    return SlowLinkEffect(
        what=what,
        link=link,
        factor=SLOW_FACTOR,
        sim_s=usual_s[0],
        sim_slowed_s=slowed_s[0],
        real_s=usual_s[1],
        real_slowed_s=slowed_s[1],
    )
