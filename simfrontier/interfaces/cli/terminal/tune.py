"""Output of `tune`: the search, the best plans, the reason, and the certainty."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.table import Table

from simfrontier.answers.search import LossyPolicy, SimulatedPlan, TunedPlan, TuningOutcome
from simfrontier.interfaces.cli.console import console, grid, say
from simfrontier.interfaces.report import BEST, TuningFindings, percent, quantity, said

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
    screen, found = console(), TuningFindings(outcome=outcome)
    say("tune", "searched", found)
    if outcome.pins.values or outcome.loss != LossyPolicy():
        say("tune", "given", found)
    shown = outcome.simulated[:top]
    of = f"the best {len(shown)} of {len(outcome.simulated)}" if len(shown) < len(outcome.simulated) else "all"
    title = f"Simulated plans ({of}; fidelity {outcome.scenario.file.run.fidelity})"
    times, parts = _times(found), _shares(shown)
    names: list[Column] = [("plan", lambda _, plan: plan.candidate.name)]
    if screen.width >= WIDE:
        screen.print(_table(title, shown, [*names, *times, *parts]))
    else:
        screen.print(_table(title, shown, [*names, *times]))
        screen.print(_table("Where the time goes", shown, parts))
    screen.print(f"Stacks: {_stacks(shown)}.", style="dim", soft_wrap=True)
    if found.num_samples:
        text = f"Probability of being the fastest of these {len(outcome.simulated)}, over {found.num_samples} samples"
        screen.print(f"{text}; steps are their medians, with the 90 % interval.", style="dim", soft_wrap=True)
    screen.print("Between nodes, in a node, in a package: exposed communication.", style="dim")
    screen.print()
    say("tune", "lead", found)
    if outcome.own:
        screen.print(_own(found))
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
        screen.print(line, soft_wrap=True)


def _stacks(shown: Sequence[TunedPlan]) -> str:
    """Return the stacks of the plans: `deepspeed (1, 3), fsdp2 (2)`."""
    places: dict[str, list[str]] = {}
    for place, plan in enumerate(shown, start=1):
        places.setdefault(plan.candidate.stack, []).append(str(place))
    return ", ".join(f"{stack} ({', '.join(each)})" for stack, each in places.items())


def _times(found: TuningFindings) -> list[Column]:
    columns: list[Column] = [("step", lambda _, plan: quantity(plan.step_s, "s"))]
    if found.num_samples:
        columns.append(("90 % interval", lambda _, plan: "".join(said("tune", "band", plan.simulated))))
        columns.append(("fastest", lambda place, _: "".join(said("tune", "chance", found, place))))
    return [*columns, ("memory", lambda _, plan: quantity(plan.peak_bytes, "bytes"))]


def _shares(shown: Sequence[TunedPlan]) -> list[Column]:
    def share(name: str, plan: TunedPlan) -> float:
        return plan.simulated.parts[name] / plan.nominal_s if plan.simulated else 0.0

    return [
        (words, lambda _, plan, name=name: percent(share(name, plan)))  # type: ignore[misc]
        for name, words in _PARTS.items()
        if any(share(name, plan) >= _LEAST for plan in shown)
    ]


def _table(title: str, shown: Sequence[TunedPlan], columns: Sequence[Column]) -> Table:
    table = grid(title, ("#",), words=())
    for head, _ in columns:
        if head == "plan":
            table.add_column(head, overflow="fold")
        else:
            table.add_column(head, justify="right", no_wrap=" " not in head)
    for place, plan in enumerate(shown):
        table.add_row(f"{place + 1}", *(cell(place, plan) for _, cell in columns), style="" if place else "bold")
    return table


def _own(found: TuningFindings) -> Table:
    def measures(one: SimulatedPlan | None) -> tuple[str, str]:
        return (quantity(one.step_s, "s"), quantity(one.peak_bytes, "bytes")) if one else ("", "")

    rows = [(own.name, *measures(own.simulated), "".join(said("tune", "own", found, own))) for own in found.outcome.own]
    styles = ["" if own.fits else "dim" for own in found.outcome.own]
    return grid("The scenario's own plans", ("plan", "step", "memory", ""), rows, words=("plan", ""), styles=styles)
