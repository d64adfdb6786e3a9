"""Output of `run`: rates, the verdict, and its assumptions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from simfrontier.cli.console import console
from simfrontier.report import (
    NOT_RUN,
    NOTHING,
    SLOWDOWN_FILE,
    assumed,
    distance,
    fitted_words,
    link_word,
    number,
    percent,
    percent_between,
    quantity,
    times_between,
    troubles_in_short,
    verdict,
)
from simfrontier.scenario import Scenario
from simfrontier.study import Study
from simfrontier.units import times

if TYPE_CHECKING:
    from simfrontier.experiments import Environment
    from simfrontier.report import PublishedFigure, SlowdownFindings, StudyFindings, Variations, VariedAtSize


def print_run(found: StudyFindings, study: Study, folder: Path, page: bool) -> None:
    """Print the results of a run written to `folder`."""
    screen = console()
    screen.print(_rates(found, study))
    screen.print(verdict(found.headline), soft_wrap=True)
    screen.print(f"Assumed: {assumed(found.setup)}.", soft_wrap=True)
    if not found.setup.nodes.is_usual:
        screen.print(f"Nodes: {found.setup.nodes.words(max(found.setup.sizes))}.", soft_wrap=True)
    if wrong := study.scenario.file.perturbation:
        word = found.setup.device_word
        screen.print(f"Degraded components: {troubles_in_short(wrong, word)}.", soft_wrap=True)
    if words := study.scenario.beside_words:
        screen.print(f"Beside this job: {words}.", soft_wrap=True)
    for line in _grids(found):
        screen.print(line, soft_wrap=True)
    for line in _bands(found):
        screen.print(line, soft_wrap=True)
    if found.setup.fitted_on:
        text = fitted_words(found.setup.library, found.setup.fitted_on, found.setup.machine)
        screen.print(f"{text}.", soft_wrap=True)
    for plan, outcomes in found.scaling.items():
        big = [one for one in outcomes if one.misfit]
        if big:
            sizes = ", ".join(str(one.devices) for one in big)
            text = f"– {plan} does not fit on {sizes}; on {big[-1].devices} it {big[-1].misfit}."
            screen.print(text, style="dim", soft_wrap=True)
    for plan, words in found.headline.advice.items():
        screen.print(f"– {plan}: {words}.", style="dim", soft_wrap=True)
    if found.sensitivity is not None:
        for at in reversed(found.sensitivity.sizes):
            screen.print(_varied(found.sensitivity, at))
            screen.print(at.strongest + ".")
        for required in found.sensitivity.required:
            screen.print(required.sentence + ".")
    if found.slowdown is not None:
        _print_slowdown(found.slowdown, screen, found.setup.device_word)
    if found.environment is not None:
        for line in _environments(found.environment):
            screen.print(line, soft_wrap=True)
    if found.sensitivity is None and _lacks_plans(study.scenario):
        screen.print("Sensitivity is left out: it needs all plans that the scenario compares.")
    for line in _published(found):
        screen.print(line, soft_wrap=True)
    text = f"Written: {folder / 'index.html'} (open it in a browser), " if page else f"Written to {folder}: "
    more = f"{SLOWDOWN_FILE}, " if found.slowdown is not None else ""
    screen.print(f"{text}results.csv, {more}findings.json, manifest.json, trace-*.json (for Perfetto)", soft_wrap=True)


def _lacks_plans(scenario: Scenario) -> bool:
    """Return whether the run leaves out plans that the scenario compares with published ones."""
    figures = scenario.file.published
    return scenario.file.sensitivity is None and figures is not None and not {*figures.ratios} <= {*scenario.plans}


def _published(found: StudyFindings) -> Iterator[str]:
    """Yield a line per published share of the peak and per ratio, with the prediction and its range."""
    published = found.published
    if published is None or not published.judged:
        return
    for share in published.shares:
        message = f"{share.plan} on {share.devices:,}: published {100 * share.published:g}\u00a0% of the peak"
        if share.predicted is None:
            yield f"{message}, {share.state}"
            continue
        slowest = f" with the slowest of {share.devices:,}" if found.probability.errors.speed_sd else ""
        sampled = f", 90 % interval {percent_between(*share.sampled)}{slowest}" if share.sampled else ""
        unknown = f", {percent_between(*share.unknown)} over unknown settings" if share.unknown else ""
        yield f"{message}, predicted {percent(share.predicted)}{sampled}{unknown}"
    called = "prediction with these settings" if published.changed_settings else "default prediction"
    for ratio in published.ratios[1:]:
        yield _ratio(ratio, published.ratios[0], called)


def _ratio(ratio: PublishedFigure, first: PublishedFigure, called: str) -> str:
    name = f"{ratio.plan} : {first.plan}"
    if ratio.predicted is None:
        states = [(one.plan, f"{'was ' if one.state == NOT_RUN else ''}{one.state}") for one in (ratio, first)]
        why = " and ".join(f"{plan} {state}" for plan, state in states if state)
        return f"{name} was published as {ratio.published:g}; there is no prediction, because {why}."
    ranges = {"90 % interval": ratio.sampled, "over unknown settings": ratio.unknown}
    parts = "; ".join(f"{what} {ends[0]:.3f} to {ends[1]:.3f}" for what, ends in ranges.items() if ends)
    far, within = distance(ratio.predicted, ratio.published), f" ({parts})" if parts else ""
    far += " to" if far.startswith("equal") else ""
    return f"The {called} of {name} is {ratio.predicted:.3f}{within}, {far} the published {ratio.published:g}."


def _rates(found: StudyFindings, study: Study) -> Table:
    table = Table(title=f"{study.scenario.file.title}: {found.headline.rate_unit} ({study.fidelity})")
    table.add_column("plan", no_wrap=True, min_width=max(map(len, found.scaling)))
    table.add_column("stack", no_wrap=True)
    sizes = study.scenario.file.run.devices
    for size in sizes:
        table.add_column(str(size), justify="right")
    for plan, outcomes in found.scaling.items():
        rates = {one.devices: one.rate for one in outcomes}
        table.add_row(
            plan,
            found.setup.stacks[plan],
            *(NOTHING if (rate := rates[size]) is None else number(rate) for size in sizes),
        )
    return table


def _grids(found: StudyFindings) -> Iterator[str]:
    """Yield a line per search: the grid that it found, and the number of candidates."""
    for search in found.ranks.searches if found.ranks else ():
        grid = ", ".join(f"{name.lower()} {value}" for name, value in search.taken.items())
        yield f"{search.plan} on {search.devices:,}: {grid} (best of {len(search.candidates):,})"


def _bands(found: StudyFindings) -> Iterator[str]:
    """Yield, at the largest size, the median of each plan's rate, its 90 % interval and the nominal value; nothing
    without samples."""
    size = max(found.setup.sizes)
    last = {plan: outcomes[-1] for plan, outcomes in found.scaling.items()}
    sampled = [(plan, one) for plan, one in last.items() if one.devices == size and one.sampled_rate]
    if sampled:
        yield f"{found.headline.rate_unit} on {size:,}: median, 90 % interval, nominal (no variation, no model errors):"
    width = max((len(plan) for plan, _ in sampled), default=0)
    for plan, one in sampled:
        if one.nominal_rate is not None and (band := one.sampled_rate) is not None:
            ends = (
                f"{number(band.median)} ({number(band.low)} to {number(band.high)}), nominal {number(one.nominal_rate)}"
            )
            waits = found.time.waiting.get(plan)
            waiting = (
                f"; {quantity(waits.in_step_s.median, 's')} of the step is waiting for stragglers" if waits else ""
            )
            yield f"  {plan:<{width}}  {ends}{waiting}"


def _environments(found: Environment) -> Iterator[str]:
    """Yield the step time of each plan with other stacks and library states, relative to the assumed ones."""
    where = f'With another stack, or library "{found.library}" in another state'
    yield f"{where}, step time on {found.devices:,} relative to the assumed one:"
    width = max(map(len, found.bands))
    keys = dict.fromkeys(each.key for each in found.alternatives)
    for plan in found.bands:
        parts = [part for key in keys if (part := _between(found, key, plan))]
        yield f"  {plan:<{width}}  {'; '.join(parts) or NOTHING}"


def _between(found: Environment, key: str, plan: str) -> str:
    """Return the range of the step time over the values of a key, and values with which the plan does not fit; empty if
    there are none."""
    tried = [(one.factors[plan], one.value) for one in found.alternatives if one.key == key and plan in one.factors]
    known = [(factor, value) for factor, value in tried if factor is not None]
    ends = dict.fromkeys((min(known), max(known))) if known else ()
    words = " to ".join(f"{factor:.2f} ({value})" for factor, value in ends)
    too_big = ", ".join(value for factor, value in tried if factor is None)
    parts = [words, f"does not fit with {too_big}" if too_big else ""]
    name = "stack" if key == "stack" else "library"
    return f"{name} {', '.join(filter(None, parts))}" if tried else ""


def _print_slowdown(found: SlowdownFindings, screen: Console, device: str) -> None:
    screen.print(_slowed(found, device))
    for sentence in found.sentences:
        screen.print(f"{sentence}.", soft_wrap=True)
    if found.verdict:
        screen.print(f"{found.verdict}.", style="bold", soft_wrap=True)
    if found.left_out:
        text = f"{found.left_out:,} kinds of {device}s and links, those with the fewest members, were not simulated."
        screen.print(text, style="dim")


def _slowed(found: SlowdownFindings, device: str) -> Table:
    """Return the table of slowdowns by plan: each case, any one device, and any one link of each class at its worst."""
    table = Table(title=f"Step time relative to a healthy machine, {found.num_devices} devices ({found.fidelity})")
    table.add_column("degraded")
    for plan in found.plans:
        table.add_column(plan, justify="right")
    table.add_row("a healthy step", *(quantity(found.healthy_s[plan], "s") for plan in found.plans), style="bold")
    for row in found.cases:
        cells = (NOTHING if value is None else times(value) for value in row.slowdown.values())
        table.add_row(row.label, *cells, end_section=row is found.cases[-1])
    if found.lagging_devices:
        ranges = (found.lagging_devices[plan] for plan in found.plans)
        table.add_row(f"any one {device} at {found.device_factor:g}", *map(times_between, ranges))
    for name, by_plan in found.lagging_links.items():
        cells = (times_between(by_plan[plan]) if plan in by_plan else NOTHING for plan in found.plans)
        table.add_row(f"any one {link_word(name)} at {found.link_factor:g}", *cells)
    return table


def _varied(found: Variations, at: VariedAtSize) -> Table:
    """Return the table of ratios to the first plan under every variation, or of rates if there is a single plan."""
    is_one = len(found.plans) == 1
    title = "Tokens/s per device" if is_one else f"Relative to {found.plans[0]}"
    table = Table(title=f"{title} at {at.devices} devices ({found.fidelity})")
    table.add_column("setting")
    for plan in found.plans:
        table.add_column(plan, justify="right")

    def cell(value: float | None) -> str:
        return "does not fit" if value is None else number(value) if is_one else f"{value:.3f}"

    table.add_row("the documented defaults", *map(cell, at.default.compared.values()), style="bold")
    if at.published:
        table.add_row("published", *(cell(at.published[plan]) if plan in at.published else "" for plan in found.plans))
    for one in at.varied:
        table.add_row(f"{one.setting} = {one.value}", *map(cell, one.compared.values()))
    return table
