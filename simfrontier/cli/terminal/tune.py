"""Output of `tune`: the search, the best plans, the reason, and the certainty."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.table import Table

from simfrontier.cli.console import console, grid, say
from simfrontier.report import BEST, TuningFindings, percent, quantity, said, tuning_findings
from simfrontier.tuning import LossyPolicy, TunedPlan, TuningOutcome

WIDE = 110  # columns of a terminal that hold everything in one table
_PARTS = {
    "compute": "compute",
    "inter_node": "between nodes",
    "intra_node": "in a node",
    "package": "in a package",
    "codec": "codec",
    "idle": "idle",
}
_LEAST = 5e-4  # of a step: a part that no plan has as much of is left out

Column = tuple[str, Callable[[int, TunedPlan], str]]


def print_tuning(outcome: TuningOutcome, folder: Path, top: int, page: bool) -> None:
    """Print the results, with `top` plans in the table."""
    screen, found = console(), tuning_findings(outcome)
    _say("searched", found)
    if outcome.pins.values or outcome.loss != LossyPolicy():
        _say("given", found)
    shown = outcome.simulated[:top]
    of = f"the best {len(shown)} of {len(outcome.simulated)}" if len(shown) < len(outcome.simulated) else "all"
    title = f"Simulated plans ({of}; fidelity {outcome.scenario.file.run.fidelity})"
    times, parts = _times(found), _shares(shown)
    if screen.width >= WIDE:
        screen.print(_table(title, shown, [*times, *parts]))
    else:
        screen.print(_table(title, shown, times))
        screen.print(_table("Where the time goes", shown, parts, named=False))
    screen.print(f"Stacks: {_stacks(shown)}.", style="dim", soft_wrap=True)
    if found.num_samples:
        text = f"Probability of being the fastest of these {len(outcome.simulated)}, over {found.num_samples} samples"
        screen.print(f"{text}; steps are their medians, with the 90 % interval.", style="dim", soft_wrap=True)
    screen.print("Between nodes, in a node, in a package: exposed communication.", style="dim")
    screen.print()
    _say("lead", found)
    if outcome.own:
        screen.print(_own(found))
    _say("faster_own", found)
    if outcome.why:
        _say("why", found, "Why: ")
    _say("sure", found)
    screen.print()
    for line in _files(folder, page):
        screen.print(line, soft_wrap=True)


def _stacks(shown: tuple[TunedPlan, ...]) -> str:
    """Return the stacks of the plans: `deepspeed (1, 3), fsdp2 (2)`."""
    places: dict[str, list[str]] = {}
    for place, plan in enumerate(shown, start=1):
        places.setdefault(plan.candidate.stack, []).append(str(place))
    return ", ".join(f"{stack} ({', '.join(each)})" for stack, each in places.items())


def _say(name: str, found: TuningFindings, before: str = "") -> None:
    say("tune", name, found, before=before, soft_wrap=True)


def _files(folder: Path, page: bool) -> Iterator[str]:
    best = shlex.quote(str(folder / BEST))
    first = f"{folder / 'index.html'} (open it in a browser)" if page else f"{folder}:"
    yield f"Written: {first}{',' if page else ''} results.csv (all plans), {BEST}, manifest.json"
    yield f"Run the best:     simfrontier run {best}"
    yield f"Explain the best: simfrontier explain {best} --plan best"


def _times(found: TuningFindings) -> list[Column]:
    def chance(place: int, _: TunedPlan) -> str:
        return "".join(said("tune", "chance", found, place))

    def band(_: int, plan: TunedPlan) -> str:
        return "".join(said("tune", "band", plan.simulated))

    columns: list[Column] = [("step", lambda _, plan: quantity(plan.step_s, "s"))]
    if found.num_samples:
        columns += [("90 % interval", band), ("fastest", chance)]
    return [*columns, ("memory", lambda _, plan: quantity(plan.peak_bytes, "bytes"))]


def _shares(shown: tuple[TunedPlan, ...]) -> list[Column]:
    columns: list[Column] = []
    for name, words in _PARTS.items():

        def share(_: int, plan: TunedPlan, name: str = name) -> str:
            return percent(plan.simulated.parts[name] / plan.nominal_s) if plan.simulated else ""

        if any(p.simulated is not None and p.simulated.parts[name] >= _LEAST * p.nominal_s for p in shown):
            columns.append((words, share))
    return columns


def _table(title: str, shown: tuple[TunedPlan, ...], columns: list[Column], named: bool = True) -> Table:
    table = grid(title, ("#", "plan") if named else ("#",), words=("plan",))
    for head, _ in columns:
        table.add_column(head, justify="right", no_wrap=" " not in head)
    for place, plan in enumerate(shown):
        cells = [cell(place, plan) for _, cell in columns]
        name = [plan.candidate.name] if named else []
        table.add_row(f"{place + 1}", *name, *cells, style="bold" if place == 0 else "")
    return table


def _own(found: TuningFindings) -> Table:
    table = grid("The scenario's own plans", ("plan", "step", "memory", ""), words=("plan", ""))
    for own in found.outcome.own:
        cells = ["", ""]
        if own.simulated is not None:
            cells = [quantity(own.simulated.step_s, "s"), quantity(own.simulated.peak_bytes, "bytes")]
        table.add_row(
            own.name,
            *cells,
            "".join(said("tune", "own", found, own)),
            style="" if own.fits else "dim",
        )
    return table
