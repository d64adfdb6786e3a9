"""The command line: every verb with its options. Exit codes: 0 good, 1 the answer is no, 2 wrong input, 3 could not."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from simfrontier.cli.options import (
    Devices,
    FidelityOption,
    Plans,
    ScenarioArgument,
    Settings,
    YesLarge,
    byte_sizes,
    fidelity_of,
    load,
    names_of,
    num_bytes,
    refuse_options,
    to_write,
)
from simfrontier.cli.search_verbs import explain, tune
from simfrontier.ending import TRACEBACK, run_to_end
from simfrontier.errors import InputError

app = typer.Typer(
    name="simfrontier",
    help="Simulate how a training plan runs on Frontier's node fabric, and say why one plan wins.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def about(
    version: Annotated[bool, typer.Option("--version", is_eager=True, help="print the version and stop")] = False,
    traceback: Annotated[
        bool, typer.Option(TRACEBACK, help="before the verb: show where a fault of simfrontier itself comes from")
    ] = False,
) -> None:
    """Simulate how a training plan runs on Frontier's node fabric, and say why one plan wins.

    Exit codes: 0 good; 1 the answer is no; 2 wrong input; 3 simfrontier could not go on (out of memory, output that
    cannot be written, a fault of its own). Errors are one line."""
    if version:
        from simfrontier import __version__

        typer.echo(f"simfrontier {__version__}")
        raise typer.Exit


@app.command()
def run(
    scenario: ScenarioArgument,
    out: Annotated[Path | None, to_write("--out", "folder for the results (default: reports/NAME)")] = None,
    set_: Settings = None,
    plans: Plans = None,
    devices: Devices = None,
    fidelity: FidelityOption = None,
    exact: Annotated[bool, typer.Option("--exact", help="simulate every rank: no folding of what is alike")] = False,
    jobs: Annotated[int, typer.Option(min=1, help="processes to use")] = 1,
    sensitivity: Annotated[bool, typer.Option(help="run the scenario's variations of what is unknown")] = True,
    page: Annotated[bool, typer.Option(help="write index.html")] = True,
    json: Annotated[bool, typer.Option("--json", help="print the rows as JSON instead of a table")] = False,
    yes_large: YesLarge = False,
) -> None:
    """Simulate every plan of a scenario at every size; write results.csv, index.html, traces and a manifest."""
    from simfrontier.cli.large import announce
    from simfrontier.forecast import forecast_run

    loaded, chosen = load(scenario, set_, plans, devices), fidelity_of(fidelity)
    announce(forecast_run(loaded, chosen, exact, sensitivity), str(scenario), yes_large)
    from simfrontier.cli.run import run_scenario

    run_scenario(loaded, out, chosen, exact, jobs, sensitivity, page, json)


@app.command()
def show(
    scenario: Annotated[Path, typer.Argument(help="scenario file (TOML), or a schedule file (JSON)")],
    plan: Annotated[str | None, typer.Option(help="plan to show (default: the scenario's first)")] = None,
    devices: Annotated[int | None, typer.Option(help="size to show (default: the scenario's smallest)")] = None,
    set_: Settings = None,
    save: Annotated[
        Path | None, to_write("--save", "also write the schedule, or the routes, to this JSON file")
    ] = None,
    links: Annotated[bool, typer.Option("--links", help="list the machine's links instead")] = False,
    routes: Annotated[
        bool, typer.Option("--routes", help="list the links that messages pass instead, by pair of devices of a node")
    ] = False,
    volumes: Annotated[bool, typer.Option("--volumes", help="list what each move brings into a node instead")] = False,
    yes_large: YesLarge = False,
) -> None:
    """Print a schedule that a person can read, or what an option names instead of it."""
    from simfrontier.cli.large import announce
    from simfrontier.cli.show import show_file, show_links, show_routes, show_schedule, show_volumes

    size = None if devices is None else str(devices)
    chosen = [name for name, given in (("--links", links), ("--routes", routes), ("--volumes", volumes)) if given]
    if len(chosen) > 1:
        raise InputError(f"{chosen[1]}: got it beside {chosen[0]}; allowed: one of --links, --routes, --volumes")
    if save is not None and (links or volumes):
        raise InputError(f"--save: got {str(save)!r} beside {chosen[0]}; allowed: with --routes, or for a schedule")
    if links:
        show_links(load(scenario, set_, None, None))
    elif routes:
        show_routes(load(scenario, set_, None, size), save)
    elif scenario.suffix == ".json" and not volumes:
        refuse_options(scenario, {"--set": set_, "--plan": plan, "--devices": size})
        show_file(scenario, save, yes_large)
    else:
        from simfrontier.forecast import forecast_show

        loaded = load(scenario, set_, plan, size)
        announce(forecast_show(loaded, plan, volumes), str(scenario), yes_large)
        if volumes:
            show_volumes(loaded, plan)
        else:
            show_schedule(loaded, plan, save)


@app.command()
def losses(
    table: Annotated[Path, typer.Argument(help="table (CSV) of loss curves, from `simfrontier-real losses`")],
    baseline: Annotated[str, typer.Option(help="the compression that others are held against")] = "none",
    last: Annotated[int, typer.Option(min=1, help="steps at the end that make a final loss")] = 20,
    json: Annotated[bool, typer.Option("--json", help="print everything as JSON")] = False,
) -> None:
    """Say which policies of compression leave the band of the plain training's losses. Exit code 1 if one does."""
    from simfrontier.cli.losses import print_losses

    raise typer.Exit(0 if print_losses(table, baseline, last, json) else 1)


@app.command()
def softmax(
    table: Annotated[Path, typer.Argument(help="table (CSV) of times, from `simfrontier-real softmax`")],
    out: Annotated[Path | None, to_write("--out", "folder for index.html and results.csv (default: no page)")] = None,
    json: Annotated[bool, typer.Option("--json", help="print everything as JSON")] = False,
) -> None:
    """Say where softmax by two passes over memory beats three, and why. Exit code 1 if it is not the fastest for rows
    that are larger than the last cache."""
    from simfrontier.cli.softmax import print_softmax

    raise typer.Exit(0 if print_softmax(table, out, json) else 1)


@app.command()
def check(
    scenario: Annotated[Path, typer.Argument(help="schedule (JSON), or scenario (TOML): every plan at every size")],
    set_: Settings = None,
    plans: Plans = None,
    devices: Devices = None,
    capacity: Annotated[float | None, typer.Option(help="bytes of memory per device (default: the machine's)")] = None,
    json: Annotated[bool, typer.Option("--json", help="print the findings as JSON")] = False,
    yes_large: YesLarge = False,
) -> None:
    """Check schedules: placements, versions, sums, order, deadlock, memory. Exit code 1 if there is a finding."""
    from simfrontier.cli.check import check_file, check_scenario

    if capacity is not None and not 0 < capacity < math.inf:
        raise InputError(f"--capacity: got {capacity}; allowed: a number of bytes greater than 0, e.g. 64e9")
    if scenario.suffix == ".json":
        refuse_options(scenario, {"--set": set_, "--plans": plans, "--devices": devices})
        count = check_file(scenario, capacity, json, yes_large)
    else:
        from simfrontier.cli.large import announce
        from simfrontier.forecast import forecast_check

        loaded = load(scenario, set_, plans, devices)
        announce(forecast_check(loaded), str(scenario), yes_large)
        count = check_scenario(loaded, capacity, json)
    raise typer.Exit(1 if count else 0)


@app.command()
def calibrate(
    data: Annotated[
        list[Path],
        typer.Argument(help="CSV tables, output of nccl-tests, rccl-tests or OSU, calibrations (.toml), real traces"),
    ],
    out: Annotated[Path, to_write("--out", "calibration file to write (.toml)")],
    fit: Annotated[
        bool | None,
        typer.Option(
            "--fit/--tables",
            help="fit the library's free parameters, or keep the times as tables (default: fit where there is a CSV)",
        ),
    ] = None,
    machine: Annotated[
        str | None, typer.Option(help="machine, where the data are of several or do not say it; a,b fits both at once")
    ] = None,
    library: Annotated[str | None, typer.Option(help="library, where the data are of several or do not say it")] = None,
    devices: Annotated[int | None, typer.Option(min=2, help="devices of a group, in output of OSU")] = None,
    nodes: Annotated[int | None, typer.Option(min=1, help="nodes that a group is on, in output of OSU")] = None,
    packages: Annotated[
        int | None, typer.Option(min=1, help="packages that a group is on, in logs (default: what it fills)")
    ] = None,
    min_bytes: Annotated[str | None, typer.Option(help="fit to messages of at least this size, e.g. 64KiB")] = None,
    page: Annotated[Path | None, to_write("--page", "page with the plots of a fit (default: OUT.html)")] = None,
    where: Annotated[str | None, typer.Option(help="where it was measured (default: hosts in logs, machines)")] = None,
    when: Annotated[str | None, typer.Option(help="when it was measured (default: the dates of the files)")] = None,
    title: Annotated[str | None, typer.Option(help="title of the calibration")] = None,
    json: Annotated[bool, typer.Option("--json", help="print what was written as JSON")] = False,
) -> None:
    """Make a calibration, which a scenario names as library.calibration, out of measured times of collectives: tables
    of times, or a library's free parameters fitted to them, with 90 % intervals and errors on points left out."""
    from simfrontier.cli.calibrate import Labels, calibrate as make_tables
    from simfrontier.cli.calibrate_rows import is_table
    from simfrontier.measured import Setup

    if out.suffix != ".toml":
        raise InputError(f"--out: got {str(out)!r}; allowed: a name that ends in .toml")
    given = {
        "--machine": machine,
        "--library": library,
        "--devices": devices,
        "--nodes": nodes,
        "--packages": packages,
        "--min-bytes": min_bytes,
    }
    data = list(dict.fromkeys(data))
    options = "" if fit is None else (" --fit" if fit else " --tables")
    options += "".join(f" {option} {value}" for option, value in given.items() if value is not None)
    labels = Labels(where=where, when=when, title=title, options=options)
    machines = names_of("--machine", machine, "frontier,lumi-g")
    alone = machines[0] if len(machines) == 1 else None
    setup = Setup(machine=alone, library=library, devices=devices, nodes=nodes, packages=packages)
    if any(map(is_table, data)) if fit is None else fit:
        from simfrontier.cli.calibrate_fit import calibrate_fit

        least = 0 if min_bytes is None else num_bytes("--min-bytes", min_bytes)
        calibrate_fit(data, out, page, setup, labels, machines, least, json)
        return
    for option, value in (("--min-bytes", min_bytes), ("--page", page)):
        if value is not None:
            raise InputError(f"{option}: got {str(value)!r} for tables of times; allowed: only with a fit (--fit)")
    if len(machines) > 1:
        raise InputError(f"--machine: got {machine!r} for tables of times; allowed: one machine")
    make_tables(data, out, setup, labels, json)


@app.command()
def export(
    scenario: ScenarioArgument,
    out: Annotated[Path, to_write("--out", "folder for schedule-PLAN.json, trace-PLAN.json ...")],
    set_: Settings = None,
    plans: Plans = None,
    devices: Annotated[int | None, typer.Option(help="size to export (default: the scenario's largest)")] = None,
    fidelity: FidelityOption = None,
    exact: Annotated[bool, typer.Option("--exact", help="every rank by itself: no folding of what is alike")] = False,
    yes_large: YesLarge = False,
) -> None:
    """Write the schedule of every plan at one size, and the trace of its simulated step with all ranks; with
    --fidelity chunk also how its collectives are lowered, and the bytes of every link."""
    from simfrontier.cli.export import export_scenario
    from simfrontier.cli.large import announce
    from simfrontier.forecast import forecast_export

    size = None if devices is None else str(devices)
    loaded, chosen = load(scenario, set_, plans, size), fidelity_of(fidelity)
    announce(forecast_export(loaded, chosen, exact), str(scenario), yes_large)
    export_scenario(loaded, out, chosen, exact)


@app.command()
def replay(
    schedule: Annotated[Path, typer.Argument(help="schedule file (JSON), e.g. of simfrontier export or show --save")],
    scenario: Annotated[Path, typer.Option(help="scenario (TOML) whose machine, library and placement are used")],
    set_: Settings = None,
    fidelity: FidelityOption = None,
    exact: Annotated[bool, typer.Option("--exact", help="every rank by itself: no folding of what is alike")] = False,
    out: Annotated[Path | None, to_write("--out", "also write the trace to this file")] = None,
    json: Annotated[bool, typer.Option("--json", help="print the result as JSON")] = False,
    yes_large: YesLarge = False,
) -> None:
    """Check a schedule file and simulate it on a scenario's machine. Exit code 1 if the check has a finding."""
    from simfrontier.cli.replay import replay_file

    loaded = load(scenario, set_, None, None)
    count = replay_file(schedule, loaded, fidelity_of(fidelity), exact, out, json, yes_large)
    raise typer.Exit(1 if count else 0)


@app.command()
def crosscheck(
    sim: Annotated[Path, typer.Argument(help="simulated trace, or a folder of trace-PLAN.json (simfrontier export)")],
    real: Annotated[Path, typer.Argument(help="real trace, or a folder of files of the same names")],
    out: Annotated[Path | None, to_write("--out", "folder for the page index.html (default: no page)")] = None,
    json: Annotated[bool, typer.Option("--json", help="print everything as JSON")] = False,
    min_bytes: Annotated[str, typer.Option(help="collectives of at least this size are judged")] = "1MiB",
    tolerance: Annotated[float, typer.Option(help="how far their times may lie apart, as a share (median)")] = 0.25,
) -> None:
    """Hold simulated traces against real ones of the same schedules. Exit code 1 where they do not agree."""
    from simfrontier.cli.crosscheck import crosscheck_paths

    if not 0 < tolerance < math.inf:
        raise InputError(f"--tolerance: got {tolerance}; allowed: a share greater than 0, e.g. 0.25")
    agree = crosscheck_paths(sim, real, out, num_bytes("--min-bytes", min_bytes), tolerance, json)
    raise typer.Exit(0 if agree else 1)


@app.command()
def emulate(
    scenario: Annotated[Path, typer.Argument(help="scenario (TOML) with a table `emulation`")],
    out: Annotated[Path | None, to_write("--out", "folder for everything (default: reports/NAME)")] = None,
    set_: Settings = None,
    plans: Plans = None,
    nodes: Annotated[int | None, typer.Option(min=1, help="nodes to emulate (default: the scenario's size)")] = None,
    scale: Annotated[
        float | None, typer.Option(help="of the machine's rates, e.g. 2.5e-5 (default: the scenario's)")
    ] = None,
    iterations: Annotated[int, typer.Option(min=1, help="timed runs of every plan, after one to warm up")] = 1,
    sizes: Annotated[
        str, typer.Option(help="messages of collectives measured alone, as explicit transfers")
    ] = "1MiB,2MiB",
    native_sizes: Annotated[str, typer.Option(help="the same, as the library's own calls")] = "1MiB",
    slow: Annotated[str, typer.Option(help="wire of node 0 that has half its rate in the last job")] = "nic0>net",
    json: Annotated[bool, typer.Option("--json", help="print everything as JSON")] = False,
) -> None:
    """Lay the machine out in network namespaces, run a scenario's plans in it, and hold them against the simulation.
    Exit code 1 where a limit is missed."""
    from simfrontier.cli.emulate import emulate as run_emulated
    from simfrontier.cli.emulate_jobs import EmulateSettings

    settings = [*(set_ or ()), *(() if scale is None else (f"emulation.scale={scale!r}",))]
    loaded = load(scenario, settings, plans, None)
    if nodes is not None:
        loaded = load(scenario, settings, plans, str(nodes * loaded.machine.devices_per_node))
    how = EmulateSettings(
        iterations=iterations,
        lowered_sizes=byte_sizes("--sizes", sizes),
        native_sizes=byte_sizes("--native-sizes", native_sizes),
        slow_wire=slow,
    )
    good = run_emulated(loaded, how, out or Path("reports") / loaded.name, json)
    raise typer.Exit(0 if good else 1)


@app.command()
def validate(
    data: Annotated[
        list[Path] | None,
        typer.Option(help="your own measured times instead: CSV, nccl-tests, OSU, calibration, real trace"),
    ] = None,
    cross: Annotated[
        bool | None,
        typer.Option(
            "--cross/--no-cross",
            help="predict fitted rows by fits without their number of devices (default), or by the shipped parameters",
        ),
    ] = None,
    out: Annotated[Path | None, to_write("--out", "folder for the page index.html (default: no page)")] = None,
    json: Annotated[bool, typer.Option("--json", help="print every row and its prediction as JSON")] = False,
    machine: Annotated[str | None, typer.Option(help="machine of --data, where the file does not say it")] = None,
    library: Annotated[str | None, typer.Option(help="library of --data, where the file does not say it")] = None,
    devices: Annotated[int | None, typer.Option(help="devices of --data, where the file does not say it")] = None,
    nodes: Annotated[int | None, typer.Option(min=1, help="nodes that a group is on, in output of OSU")] = None,
    packages: Annotated[
        int | None, typer.Option(min=1, help="packages that a group is on, in logs (default: what it fills)")
    ] = None,
    harness: Annotated[
        str | None,
        typer.Option(help="programs whose own time is in --data, e.g. frontier_call,frontier_list; or none"),
    ] = None,
) -> None:
    """Hold measured tables against the shipped models. Exit code 1 where a table leaves its stated bound."""
    from simfrontier.cli.validate import validate_tables
    from simfrontier.measured import Setup

    setup = Setup(machine=machine, library=library, devices=devices, nodes=nodes, packages=packages)
    raise typer.Exit(0 if validate_tables(data or (), setup, harness, cross, out, json) else 1)


app.command()(tune)
app.command()(explain)


@app.command()
def algorithms(json: Annotated[bool, typer.Option("--json", help="print the matrix as JSON")] = False) -> None:
    """Say which algorithm carries which collective, and where: in libraries, plans, simulations and real runs."""
    from simfrontier.cli.algorithms import print_algorithms

    print_algorithms(json)


@app.command()
def doctor(json: Annotated[bool, typer.Option("--json", help="print the findings as JSON")] = False) -> None:
    """Say what is installed and what works."""
    from simfrontier.cli.doctor import diagnose

    raise typer.Exit(0 if diagnose(json) else 1)


def main() -> None:
    """Entry point: whatever comes up ends in one line and an exit code, never in a traceback."""
    run_to_end("simfrontier", app)


if __name__ == "__main__":
    main()
