"""`simfrontier tune`: search for the best plan for a scenario's machine, model and batch, and write its folder."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from simfrontier.answers import search
from simfrontier.answers.forecast import forecast_tune
from simfrontier.answers.study import STORE, forget
from simfrontier.base.errors import InputError, StoppedError, nearest
from simfrontier.base.wholefile import ensure_writable, filled
from simfrontier.inputs.scenario import Listing, grid_orders
from simfrontier.interfaces.cli import options
from simfrontier.interfaces.cli.console import console, print_json, say, tell
from simfrontier.interfaces.cli.options import announce
from simfrontier.interfaces.progress import progress
from simfrontier.interfaces.report.phrases import percent, quantity
from simfrontier.interfaces.report.render import said
from simfrontier.interfaces.report.table import Table
from simfrontier.interfaces.report.tuning import BEST, TUNING_FILES, TuningFindings, tuning_document
from simfrontier.interfaces.report.tuning_page import write_tuning

SEARCHED = ("flow", "analytic")
SHOWN = 10
WIDE = 110  # columns of a terminal that hold everything in one table
_PARTS = {
    "compute": "compute",
    "inter_node": "between nodes",
    "intra_node": "in a node",
    "package": "in a package",
    "codec": "codec",
    "host": "host",
    "idle": "idle",
}
_LEAST = 5e-4  # of a step: a part that no plan has as much of is left out
Column = tuple[str, Callable[[int, search.TunedPlan], str]]


def tune(
    scenario: options.ScenarioPath,
    devices: Annotated[int | None, typer.Option(help="size to tune for (default: the scenario's largest)")] = None,
    set_: options.Settings = None,
    pin: Annotated[
        list[str] | None,
        typer.Option("--pin", help="fix a dimension of the search: dimension=value[,value], e.g. tensor=4,8"),
    ] = None,
    lossy: Annotated[bool, typer.Option("--lossy", help="allow lossy codecs for weights and gradients")] = False,
    max_error: Annotated[
        float | None,
        typer.Option(
            "--max-error",
            help="allow codecs and compression up to this relative error bound (0 to 1), instead of --lossy",
        ),
    ] = None,
    simulate: Annotated[
        int | None,
        typer.Option(min=1, max=1000, help="number of plans to simulate (default: 5 % of those that fit, 5 to 20)"),
    ] = None,
    jobs: options.JobsOfCores = None,
    scheduler: options.Scheduler = None,
    slurm: options.Slurm = None,
    dashboard: options.Dashboard = False,
    out: Annotated[Path | None, typer.Option(help="folder for the results (default: reports/tune-NAME)")] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="start again: discard the results of a stopped search")
    ] = False,
    top: Annotated[
        int | None, typer.Option(min=1, help="number of plans to print (default: 10; grids: 20; with --json all)")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="print the result as JSON")] = False,
    fidelity: Annotated[
        str | None,
        typer.Option(
            "--fidelity",
            help="flow (max-min fair sharing) or analytic (no contention); the name of an extra's "
            "analytical model, e.g. axonn-a, ranks grids by that model",
        ),
    ] = None,
    page: Annotated[bool | None, typer.Option("--page/--no-page", help="write index.html (default: yes)")] = None,
    yes_large: options.YesLarge = False,
) -> None:
    """Search for the fastest plan for a scenario's machine, model and batch: every plan of the space is estimated, the
    best are simulated. A stopped search resumes. Exit code 1 if no plan fits into memory."""
    if fidelity is not None and fidelity not in SEARCHED:
        of_a_search = {
            **{"--pin": pin, "--lossy": lossy, "--simulate": simulate, "--jobs": jobs, "--out": out},
            **{"--fresh": fresh, "--max-error": max_error is not None, "--page": page is not None},
            **{"--scheduler": scheduler, "--slurm": slurm, "--dashboard": dashboard},
        }
        listing = _listing(fidelity, of_a_search)
        raise typer.Exit(0 if listing(options.load(scenario, set_, None, devices), top, json) else 1)
    place = options.place_of(jobs, scheduler, slurm, dashboard, options.cores())
    settings = [*(set_ or ()), *(() if fidelity is None else (f"run.fidelity={fidelity}",))]
    loaded = options.load(scenario, settings, None, devices, laid_out=False)
    if loaded.file.run.fidelity not in SEARCHED:
        text = f"got {loaded.file.run.fidelity!r}; allowed in a search: {', '.join(SEARCHED)} (--fidelity)"
        raise InputError(text, where=str(scenario), key=("run", "fidelity"))
    announce(forecast_tune(loaded, devices, simulate), str(scenario), yes_large)
    folder, pins = out or Path("reports") / f"tune-{loaded.name}", _pins(pin or ())
    ensure_writable(folder)
    if fresh:
        forget(folder)

    def finish(outcome: search.TuningOutcome) -> None:
        try:
            with filled(folder, TUNING_FILES[-1]) as new:
                write_tuning(outcome, new, folder, page is not False)
        except InputError as error:
            raise InputError(f"{error}; {STORE} stays: the same command resumes") from None

    with progress("laying out the space of plans") as report:
        try:
            outcome = search.tune(
                loaded,
                pins=pins,
                lossy=True if lossy else None,
                max_error=max_error,
                simulate=simulate,
                place=place,
                folder=folder,
                progress=report,
                finish=finish,
            )
        except KeyboardInterrupt as stop:
            if not (folder / STORE).exists():
                raise
            text = f"stopped; {folder / STORE} has what is done: the same command resumes"
            raise StoppedError(text, stop) from None
    if json:
        print_json(tuning_document(outcome, top))
    else:
        print_tuning(outcome, folder, SHOWN if top is None else top, page is not False)


def _listing(fidelity: str, of_a_search: Mapping[str, object]) -> Listing:
    """Return the function that lists grids in the order selected by --fidelity. Raises InputError for an unknown
    name, or if options of a search are given too."""
    listed = {name: order.listing for name, order in grid_orders().items() if order.listing is not None}
    if fidelity not in listed:
        raise InputError(f"got {fidelity!r}; {nearest(fidelity, (*SEARCHED, *listed))}", where="--fidelity")
    options.refuse(of_a_search, f"with --fidelity {fidelity}; allowed: only in the search")
    return listed[fidelity]


def _pins(texts: Sequence[str]) -> dict[str, list[search.Value]]:
    """Parse the values of `--pin`, merging the values of a dimension that is given twice. Raises InputError."""
    given: dict[str, list[search.Value]] = {}
    for text in texts:
        name, values = search.parse_pin(text)
        given.setdefault(name, []).extend(values)
    try:
        search.pins_of(given, ())
    except InputError as error:
        raise InputError(error.what, where=" ".join(("--pin", *map(str, error.key)))) from None
    return given


def print_tuning(outcome: search.TuningOutcome, folder: Path, top: int, page: bool) -> None:
    """Print the results of a search, with `top` plans in the table."""
    screen, found = console(), TuningFindings(outcome=outcome)
    say("tune", "searched", found)
    if outcome.pins.values or outcome.loss != search.LossyPolicy():
        say("tune", "given", found)
    shown = outcome.simulated[:top]
    of = f"the best {len(shown)} of {len(outcome.simulated)}" if len(shown) < len(outcome.simulated) else "all"
    title = f"Simulated plans ({of}; fidelity {outcome.scenario.file.run.fidelity})"
    times, parts = _times(found), _shares(shown)
    names: list[Column] = [("plan", lambda _, plan: plan.candidate.name)]
    if screen.width >= WIDE:
        tell(_table(title, shown, [*names, *times, *parts]))
    else:
        tell(_table(title, shown, [*names, *times]))
        tell(_table("Where the time goes", shown, parts))
    tell(f"Stacks: {_stacks(shown)}.", style="dim")
    if found.num_samples:
        text = f"Probability of being the fastest of these {len(outcome.simulated)}, over {found.num_samples} samples"
        tell(f"{text}; steps are their medians, with 90 % of the samples.", style="dim")
    screen.print("Between nodes, in a node, in a package: exposed communication.", style="dim")
    screen.print()
    say("tune", "lead", found)
    if outcome.own:
        tell(_own(found))
    say("tune", "faster_own", found)
    say("tune", "why", found, before="Why: ")
    say("tune", "sure", found)
    screen.print()
    best = shlex.quote(str(folder / BEST))
    first = f"{folder / 'index.html'} (open it in a browser)," if page else f"{folder}:"
    for line in (
        f"Written: {first} results.csv (all plans), {BEST}, manifest.json",
        f"Run the best:     simfrontier run {best}",
        f"Explain the best: simfrontier explain {best} --plan best",
    ):
        tell(line)


def _stacks(shown: Sequence[search.TunedPlan]) -> str:
    """Return the software stacks of the plans with the plans' places in the table: `deepspeed (1, 3), fsdp2 (2)`."""
    places: dict[str, list[str]] = {}
    for place, plan in enumerate(shown, start=1):
        places.setdefault(plan.candidate.stack, []).append(str(place))
    return ", ".join(f"{stack} ({', '.join(each)})" for stack, each in places.items())


def _times(found: TuningFindings) -> list[Column]:
    columns: list[Column] = [("step", lambda _, plan: quantity(plan.step_s, "s"))]
    if found.num_samples:
        columns.append(("90 % of the samples", lambda _, plan: "".join(said("tune", "band", plan.simulated))))
        columns.append(("fastest", lambda place, _: "".join(said("tune", "chance", found, place))))
    return [*columns, ("memory", lambda _, plan: quantity(plan.peak_bytes, "bytes"))]


def _shares(shown: Sequence[search.TunedPlan]) -> list[Column]:
    def share(name: str, plan: search.TunedPlan) -> float:
        return plan.simulated.parts[name] / plan.nominal_s if plan.simulated else 0.0

    return [
        (words, lambda _, plan, name=name: percent(share(name, plan)))  # type: ignore[misc]
        for name, words in _PARTS.items()
        if any(share(name, plan) >= _LEAST for plan in shown)
    ]


def _table(title: str, shown: Sequence[search.TunedPlan], columns: Sequence[Column]) -> Table:
    rows = [(f"{place + 1}", *(cell(place, plan) for _, cell in columns)) for place, plan in enumerate(shown)]
    return Table(title, ("#", *(head for head, _ in columns)), rows, words=("plan",), styles=["bold"])


def _own(found: TuningFindings) -> Table:
    def measures(one: search.SimulatedPlan | None) -> tuple[str, str]:
        return (quantity(one.step_s, "s"), quantity(one.peak_bytes, "bytes")) if one else ("", "")

    rows = [(own.name, *measures(own.simulated), "".join(said("tune", "own", found, own))) for own in found.outcome.own]
    styles = ["" if own.fits else "dim" for own in found.outcome.own]
    return Table("The scenario's own plans", ("plan", "step", "memory", ""), rows, words=("plan", ""), styles=styles)
