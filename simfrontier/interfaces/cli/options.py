"""Options shared by several verbs of the command line, and their parsing."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import typer

from simfrontier.answers.forecast import MOST_BYTES, MOST_S, Forecast
from simfrontier.base.errors import InputError
from simfrontier.base.units import bytes_of
from simfrontier.base.workers import PROCESSES, Local, Place, RunningScheduler, SlurmJobs, load_slurm
from simfrontier.inputs.scenario import Scenario, load_scenario, parse_setting, split_plans

MAX_DIGITS = 9  # of a number of devices

ScenarioPath = Annotated[
    Path, typer.Argument(help="scenario file (TOML) or name of a shipped scenario, e.g. frontier-20b")
]
Settings = Annotated[
    list[str] | None, typer.Option("--set", help="key=value: set a key of the scenario, e.g. training.micro_batch=4")
]
Plans = Annotated[str | None, typer.Option(help="plans to run, e.g. 'zero3; tp 8 pp 2' (default: the scenario's)")]
Devices = Annotated[str | None, typer.Option(help="sizes to run, e.g. 8,64,384 (default: the scenario's)")]
MachineName = Annotated[
    str | None,
    typer.Option(
        help="machine (name or TOML file), instead of a scenario, e.g. lumi-g (default with --model: frontier)"
    ),
]
ModelName = Annotated[str | None, typer.Option(help="model, instead of a scenario, e.g. gpt-13b")]
Batch = Annotated[
    str | None, typer.Option(help="sequences of a step, or its tokens, the same for all plans, e.g. 512 or 4M")
]
Fidelity = Annotated[
    Literal["analytic", "flow", "chunk"] | None,
    typer.Option(
        "--fidelity",
        show_choices=False,
        help="flow (max-min fair sharing), analytic (no contention) or chunk (every message, up to 128 ranks)",
    ),
]

YesLarge = Annotated[
    bool,
    typer.Option("--yes-large", help="run it even if it may take more than half an hour or 8 GB of memory"),
]


Jobs = Annotated[int | None, typer.Option(min=1, max=PROCESSES.most, help="number of processes (default: 1)")]
JobsOfCores = Annotated[
    int | None, typer.Option(min=1, max=PROCESSES.most, help="number of processes (default: all cores)")
]
Scheduler = Annotated[
    str | None, typer.Option(help="use the workers of a running Dask scheduler, e.g. tcp://10.0.0.1:8786")
]
Slurm = Annotated[
    str | None,
    typer.Option(help='run the workers as Slurm jobs: a settings file (TOML), e.g. base = "frontier" and an account'),
]
GroupDevices = Annotated[int | None, typer.Option(min=2, help="devices per group, if the file does not say")]
GroupNodes = Annotated[int | None, typer.Option(min=1, help="nodes per group, if the file does not say")]
GroupPackages = Annotated[
    int | None, typer.Option(min=1, help="packages per group, in logs (default: as many as it fills)")
]
Dashboard = Annotated[bool, typer.Option("--dashboard", help="serve Dask's dashboard of the workers")]


def cores() -> int:
    """Return the number of cores that this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def place_of(jobs: int | None, scheduler: str | None, slurm: str | None, dashboard: bool, usual_jobs: int = 1) -> Place:
    """Return where the worker processes run, as the options select: local processes, a Dask scheduler or Slurm jobs.
    Raises InputError, also if the options select two of them."""
    chosen = {"--jobs": jobs, "--scheduler": scheduler, "--slurm": slurm}
    given = [option for option, value in chosen.items() if value is not None]
    if len(given) > 1:
        raise InputError(f"got {' and '.join(given)}; allowed: one of {', '.join(chosen)}", where=given[1])
    if dashboard and given and given != ["--jobs"]:
        raise InputError(
            f"got it with {given[0]}, whose pages have an address of their own; allowed: with --jobs alone",
            where="--dashboard",
        )
    if scheduler is not None:
        return RunningScheduler(address=scheduler)
    if slurm is not None:
        return SlurmJobs(settings=load_slurm(slurm))
    return Local(jobs=jobs or usual_jobs, dashboard=dashboard)


def load(
    scenario: Path, settings: list[str] | None, plans: str | None, devices: str | int | None, laid_out: bool = True
) -> Scenario:
    """Load a scenario and apply the settings of the command line; `laid_out` as in `scenario.load_scenario`. Raises
    InputError."""
    changes = dict(map(parse_setting, settings or ()))
    return load_scenario(scenario, changes, plans_of(plans), sizes_of(devices), laid_out)


def with_batch(settings: list[str] | None, batch: str | None) -> list[str]:
    """Return the settings of --set, with that of --batch."""
    return [*(settings or ()), *(() if batch is None else (f"training.batch={batch}",))]


def refuse(given: Mapping[str, object], why: str) -> None:
    """Raise InputError if options that select plans or sizes of a scenario are given although the file is a
    schedule."""
    for option, value in given.items():
        if value not in (None, False, []):
            raise InputError(f"got {str(value) if isinstance(value, Path) else value!r} {why}", where=option)


def names_of(option: str, text: str | None, example: str) -> tuple[str, ...]:
    names = tuple(part.strip() for part in (text or "").split(",") if part.strip())
    if (text is not None and not names) or any(len(name.split()) > 1 for name in names):
        raise InputError(f"got {text!r}; allowed: names separated by commas, e.g. {example}", where=option)
    return names


def plans_of(text: str | None) -> tuple[str, ...]:
    """Return the plans that --plans names; empty if the option is not set."""
    plans = split_plans(text or "")
    if text is not None and not plans:
        raise InputError(f"got {text!r}; allowed: plans separated by ;, e.g. 'zero3; tp 8 pp 2'", where="--plans")
    return plans


def one_plan(option: str, name: str | None) -> str | None:
    """Return the name of one plan, or None. Raises InputError for an empty text or several names."""
    if name is not None and (not name.strip() or "," in name):
        raise InputError(f"got {name!r}; allowed: the name of one plan", where=option)
    return name


def sizes_of(given: str | int | None, option: str = "--devices") -> tuple[int, ...]:
    """Return the numbers of devices, or of nodes, given by an option; empty if the option is not set."""
    if given is None:
        return ()
    text, what = str(given), "nodes" if option == "--nodes" else "devices"
    units = ("node", "nodes") if option == "--nodes" else ("gcds", "gpus", "devices", "ranks")
    parts = [part.strip().rpartition(" ") for part in text.split(",") if part.strip()]
    sizes = [number.strip() if unit.lower() in units else f"{number}{unit}" for number, _, unit in parts]
    if not sizes or not all(size.isdecimal() and len(size) <= MAX_DIGITS and int(size) > 0 for size in sizes):
        raise InputError(f"got {text!r}; allowed: numbers of {what} separated by commas, e.g. 8,64,384", where=option)
    return tuple(map(int, sizes))


def num_bytes(option: str, text: str) -> int:
    """Parse a number of bytes such as 4096, 64kB or 1MiB."""
    try:
        return bytes_of(text)
    except ValueError:
        raise InputError(f"got {text!r}; allowed: a number of bytes, e.g. 4096, 64kB, 1MiB", where=option) from None


def byte_sizes(option: str, text: str) -> tuple[int, ...]:
    """Parse distinct numbers of bytes, in ascending order."""
    sizes = {num_bytes(option, part.strip()) for part in text.split(",")}
    if min(sizes) < 1:
        raise InputError(f"got {text!r}; allowed: sizes of at least 1 byte, e.g. 1MiB,4MiB", where=option)
    return tuple(sorted(sizes))


def announce(forecast: Forecast, where: str, agreed: bool) -> None:
    """Print one line on standard error if a job is large. Raises InputError if it is too large and the user has not
    `agreed` (--yes-large)."""
    if forecast.is_too_large and not agreed:
        most = f"{MOST_S / 60:.0f} minutes and {MOST_BYTES / 1e9:.0f} GB"
        raise InputError(
            f"would take about {forecast}; allowed: up to {most}, or any size with --yes-large", where=where
        )
    if forecast.is_large:
        typer.echo(f"simfrontier: {where}: will take about {forecast}", err=True)
