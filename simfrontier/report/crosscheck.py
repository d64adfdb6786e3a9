"""The page of a cross-check: whether simulated and real traces agree, and where they do not."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from simfrontier.report.crosscheck_figures import scatter_figure, steps_figure, timelines_figure
from simfrontier.report.crosscheck_text import applied_limits, crosscheck_findings, crosscheck_lead, differences
from simfrontier.report.ending import how_to_read
from simfrontier.report.fabric import fabric_section
from simfrontier.report.limits import limits_section, slowed_section
from simfrontier.report.markup import Figure, cards, items, panels, paragraph, plot, section, table, text
from simfrontier.report.phrases import number, percent, quantity, signed
from simfrontier.report.render import whole_page
from simfrontier.report.sweep import sweep_section
from simfrontier.report.theme import marks
from simfrontier.trace import WITHIN, Comparison, CrossCheck, Delta, deltas, step_times
from simfrontier.wholefile import write_whole

CONTENTS = {
    "headline": "In short",
    "differences": "Differences",
    "steps": "Steps",
    "limits": "Limits",
    "links": "Links",
    "sweep": "Message sizes",
    "slowed": "A slowed link",
    "calls": "Collectives",
    "timelines": "Timelines",
    "deltas": "Deltas",
    "measured": "How measured",
    "reading": "How to read",
}
MAX_BARS = 24_000  # on all timelines: more ranks are drawn while there are fewer
_HEAD = ("call", "over", "message", "calls", "simulated", "real", "real / sim", "waits, sim", "waits, real")
_LOCAL_HEAD = ("local work", "calls", "simulated", "real", "real / sim")


def crosscheck_page(check: CrossCheck) -> str:
    """The page as text; the same traces give the same text."""
    sections = {
        "headline": _headline(check),
        "differences": _differences(check),
        "steps": _steps(check),
        "limits": limits_section(applied_limits(check)),
        "links": fabric_section(check.links),
        "sweep": sweep_section(check.sweep),
        "slowed": slowed_section(check.slowed),
        "calls": _calls(check),
        "timelines": _timelines(check),
        "deltas": _deltas(check),
        "measured": _measured(check),
        "reading": _reading(check),
    }
    plans = ", ".join(each.plan for each in check.comparisons)
    num_ranks = max(len(each.by_rank) for each in check.comparisons)
    heading = "The same schedule, simulated and real"
    subtitle = (
        f"Two traces of each schedule ({plans}), joined operation by operation on {num_ranks:,} ranks. Both carry the "
        "digest of the schedule that was run."
    )
    return whole_page(heading, f"{heading}: simfrontier crosscheck", subtitle, CONTENTS, sections)


def write_crosscheck_page(check: CrossCheck, path: Path) -> None:
    """Write the page. Raises InputError where the file cannot be written."""
    write_whole(path, crosscheck_page(check))


def _headline(check: CrossCheck) -> str:
    verdict = check.verdict
    total = sum(len(each.pairs) for each in check.comparisons)
    shown = [
        (f"{verdict.num_different:,}", "operations differ", f"of {total:,}, counted on every rank"),
        (
            percent(verdict.apart),
            "apart, median collective",
            f"{verdict.judged:,} of {quantity(verdict.min_bytes, 'bytes')} up; {percent(verdict.tolerance)} allowed",
        ),
        (number(verdict.ratio), "real / simulated", "median of the same collectives"),
    ]
    judged = [pair for each in check.links for pair in each.judged]
    if judged:
        worst = max(judged, key=lambda pair: pair.apart)
        shown.append((signed(worst.ratio - 1), "counted on the worst link", f"{worst.name}; {percent(WITHIN)} allowed"))
    for each in check.comparisons:
        step = step_times(each)
        shown.append((number(step.ratio), f"{each.plan}: step, real / sim", _pair(step.real_s, step.sim_s)))
    return section(
        "headline",
        "In short",
        paragraph(crosscheck_lead(check), "lead"),
        items((text(message) for message in crosscheck_findings(check)), "plain"),
        cards(shown),
    )


def _pair(real_s: float, sim_s: float) -> str:
    return f"{quantity(real_s, 's')} / {quantity(sim_s, 's')}"


def _differences(check: CrossCheck) -> str:
    """Only there where something differs that must not."""
    if check.verdict.is_exact:
        return ""
    parts = []
    for each in check.comparisons:
        if each.differences:
            parts.append(f"<h3>{text(each.plan)}</h3>")
            parts.append(items(text(message) for message in differences(each)))
    return section("differences", "What differs", *parts)


def _steps(check: CrossCheck) -> str:
    steps = [step_times(each) for each in check.comparisons]
    rows = [
        [
            text(step.plan),
            quantity(step.sim_s, "s"),
            quantity(step.real_s, "s"),
            "–" if step.real_iqr_s is None else quantity(step.real_iqr_s, "s"),
            number(step.ratio),
        ]
        for step in steps
    ]
    return section(
        "steps",
        "One step of each plan",
        plot("fig-steps", {"steps": steps_figure(steps)}, "Step time of each plan, simulated and real"),
        table(["plan", "simulated", "real (median)", "spread", "real / sim"], rows),
    )


def _calls(check: CrossCheck) -> str:
    drawn = scatter_figure(check, marks([each.plan for each in check.comparisons]))
    return section(
        "calls",
        "Every collective, real against simulated",
        paragraph(
            "A point for every call: the median over ranks of its time since the last rank of its group was ready. "
            "Above the line reality is slower than simulated. Calls whose messages are too small to be judged (below "
            f"{quantity(check.verdict.min_bytes, 'bytes')}) are faint."
        ),
        plot("fig-calls", {"calls": drawn}, "Real against simulated time of every collective"),
    )


def _timelines(check: CrossCheck) -> str:
    parts = []
    for number_, each in enumerate(check.comparisons):
        figures = _figures(each, MAX_BARS // len(check.comparisons))
        if figures:
            parts.append(f"<h3>{text(each.plan)}</h3>")
            parts.append(plot(f"fig-timeline-{number_}", figures, f"Timelines of {each.plan}, simulated above real"))
    return section(
        "timelines",
        "Two timelines, one axis of time",
        paragraph(
            "One rank’s step, simulated above, real below; first the rank that really ends last. Drag to zoom both, "
            "double-click for the whole step; point at a bar for its name, layer, micro-batch, time and bytes."
        ),
        *parts,
    )


def _figures(comparison: Comparison, max_bars: int) -> Mapping[str, Figure]:
    """Timelines by rank, the slowest first; as many ranks as there is room for, at least one."""
    slowest = comparison.slowest_rank
    ranks = [slowest, *(rank for rank in comparison.by_rank if rank != slowest)] if comparison.by_rank else []
    out: dict[str, Figure] = {}
    room = max_bars
    for rank in ranks:
        room -= 2 * len(comparison.by_rank[rank])
        if out and room < 0:
            break
        name = f"rank {rank} (the slowest)" if rank == slowest else f"rank {rank}"
        out[name] = timelines_figure(comparison, rank)
    return out


def _deltas(check: CrossCheck) -> str:
    known = {each.plan: deltas(each) for each in check.comparisons}
    return section(
        "deltas",
        "Deltas by kind of call",
        paragraph("Medians over calls and ranks, the longest in all first. Waits are for the group’s last rank."),
        panels({plan: table(_HEAD, map(_delta_row, _collectives(several))) for plan, several in known.items()}),
        paragraph("Work of one rank, without communication:"),
        panels({plan: table(_LOCAL_HEAD, map(_local_row, _locals(several))) for plan, several in known.items()}),
    )


def _collectives(several: tuple[Delta, ...]) -> list[Delta]:
    return [delta for delta in several if delta.is_collective]


def _locals(several: tuple[Delta, ...]) -> list[Delta]:
    return [delta for delta in several if not delta.is_collective]


def _delta_row(delta: Delta) -> list[str]:
    size = f"<small>{delta.group_size:,} ranks</small>" if delta.group_size else ""
    return [
        f"{text(delta.name)}<small>{text(delta.kind.replace('_', '-'))}</small>",
        f"{text(delta.axes)}{size}",
        quantity(delta.message_bytes, "bytes"),
        f"{delta.calls:,}",
        quantity(delta.sim_s, "s"),
        quantity(delta.real_s, "s"),
        number(delta.ratio),
        quantity(delta.sim_wait_s, "s"),
        quantity(delta.real_wait_s, "s"),
    ]


def _local_row(delta: Delta) -> list[str]:
    times = (quantity(delta.sim_s, "s"), quantity(delta.real_s, "s"), number(delta.ratio))
    return [text(delta.kind), f"{delta.calls:,}", *times]


def _measured(check: CrossCheck) -> str:
    made = {each.plan: _notes(each) for each in check.comparisons}
    return section(
        "measured",
        "How each was simulated and measured",
        paragraph("What the traces themselves note."),
        panels(made),
    )


def _notes(comparison: Comparison) -> str:
    sim, real = comparison.sim, comparison.real
    rows = [["title", text(sim.title), text(real.title)]]
    for name in dict.fromkeys((*sim.notes, *real.notes)):
        rows.append([f"<code>{text(name)}</code>", text(sim.notes.get(name, "–")), text(real.notes.get(name, "–"))])
    rows.append(["schedule", f"<code>{text(sim.digest)}</code>", "the same"])
    return table(["note", "simulated", "real"], rows, "words")


def _reading(check: CrossCheck) -> str:
    meanings = {
        "time of a call": "From the moment when the last rank of its group was ready to its end on a rank.",
        "waits": "From a rank’s own readiness to that of its group’s last rank.",
        "real": (
            "Median over the iterations of a real run, each op and rank by itself; the step is the median of whole "
            "steps where the trace notes it."
        ),
        "spread": "The interquartile range of the real run’s steps.",
        "apart": "The median over calls and ranks of | real / simulated − 1 |.",
        "rank alike": (
            "The plans’ step times stand in the same order. Two real steps that differ by less than the mean of their "
            "interquartile ranges are within their noise."
        ),
        "message": "Bytes of the call’s messages, scales included, whatever the algorithm.",
    }
    return how_to_read(meanings)
