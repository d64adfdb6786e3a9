"""The page of a cross-check of simulated and real traces: ranking of the plans, step times, collective times, and
timelines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape as text
from statistics import median
from typing import Any

from simfrontier.answers.study import versions
from simfrontier.core.program import is_product
from simfrontier.core.trace import (
    CALIBRATION,
    Comparison,
    CrossCheck,
    OpPair,
    PlanStepTimes,
    Span,
    deltas,
    duration,
    step_times,
)
from simfrontier.interfaces.report import theme
from simfrontier.interfaces.report.phrases import quantity
from simfrontier.interfaces.report.render import as_html, page_of
from simfrontier.interfaces.report.theme import HOST, marks
from simfrontier.interfaces.report.timeline import WAIT, bars_of, lane_bars, lanes_of

SIM, REAL = "#8FB4D0", "#1F5F8B"
OTHER_CALLS = "other collectives"
COLOURS = {
    "matrix products": theme.COMPUTE,
    "other kernels": "#A9BACB",
    "codec and reordering": theme.CODEC,
    **{kind.replace("_", "-"): colour for kind, colour in theme.COLLECTIVES.items()},
    OTHER_CALLS: theme.OTHER_COLLECTIVES,
    "host": HOST,
    WAIT: "#D9D9D9",
}
FAINT = 0.3  # of collectives that are too small to be judged
MAX_BARS = 24_000  # on all timelines: more ranks are drawn while there are fewer


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossCheckFindings:
    """Findings of a cross-check. `num_operations`: compared operations, counted on every rank; `noisy`: plans whose
    real steps vary too much to be judged; `uncalibrated`: machines that were simulated without a calibration;
    `sim_order` and `real_order`: plans by simulated and by real step time, the fastest first."""

    check: CrossCheck
    num_operations: int
    steps: tuple[PlanStepTimes, ...]
    noisy: tuple[PlanStepTimes, ...]
    uncalibrated: tuple[str, ...]
    sim_order: tuple[str, ...]
    real_order: tuple[str, ...]


def crosscheck_findings(check: CrossCheck) -> CrossCheckFindings:
    """Return the findings of a cross-check."""
    steps = tuple(map(step_times, check.comparisons))
    return CrossCheckFindings(
        check=check,
        num_operations=sum(len(each.pairs) for each in check.comparisons),
        steps=steps,
        noisy=tuple(step for step in steps if (step.real_spread or 0.0) > check.verdict.tolerance),
        uncalibrated=tuple(
            dict.fromkeys(
                each.sim.notes["machine"]
                for each in check.comparisons
                if "machine" in each.sim.notes and CALIBRATION not in each.sim.notes
            )
        ),
        sim_order=tuple(step.plan for step in sorted(steps, key=lambda step: step.sim_s)),
        real_order=tuple(step.plan for step in sorted(steps, key=lambda step: step.real_s)),
    )


def call_kind_of(span: Span) -> str:
    """Return the key of an operation's colour in the charts."""
    if span.axes:
        return span.kind.replace("_", "-") if span.kind in theme.COLLECTIVES else OTHER_CALLS
    if span.lane == "host":
        return "host"
    if span.lane != "compute":
        return "codec and reordering"
    return "matrix products" if is_product(span.kind) else "other kernels"


def steps_figure(steps: Sequence[PlanStepTimes]) -> theme.Figure:
    """Return the chart of simulated and real step times of the plans; error bars are half the interquartile range over
    iterations."""
    spread = [(step.real_iqr_s or 0.0) / 2 for step in steps]
    errors = {"error_y": {"type": "data", "array": spread, "visible": any(spread), "color": theme.LINE}}
    traces = [
        {"type": "bar", "name": name, "x": [text(step.plan) for step in steps], "y": times, "marker": {"color": colour}}
        | {"hovertemplate": f"%{{x}}: %{{y:.4~s}}s<extra>{name}</extra>", **more}
        for name, colour, times, more in (
            ("simulated", SIM, [step.sim_s for step in steps], {}),
            ("real", REAL, [step.real_s for step in steps], errors),
        )
    ]
    y = theme.axis("step time", rangemode="tozero", **theme.SECONDS)
    return theme.figure(traces, theme.axis("plan", type="category"), y, 360, barmode="group")


def scatter_figure(check: CrossCheck, marks: Mapping[str, theme.PlanMark]) -> theme.Figure:
    """Plot the real against the simulated time of every collective, medians over ranks, with the line of equality and
    the tolerance."""
    traces: list[dict[str, Any]] = []
    everything: list[float] = []
    kinds: dict[str, None] = {}
    for comparison in check.comparisons:
        for kind, calls in sorted(_calls(comparison).items()):
            known = [(median(duration(p.sim) for p in c), median(duration(p.real) for p in c), c) for c in calls]
            known = [each for each in known if each[0] > 0 and each[1] > 0]
            sims, reals = [sim for sim, _, _ in known], [real for _, real, _ in known]
            everything += sims + reals
            faint = [FAINT if c[0].sim.message_bytes < check.verdict.min_bytes else 1.0 for _, _, c in known]
            words = [_call(comparison.plan, *each) for each in known]
            symbol = marks[comparison.plan].symbol
            traces.append(
                theme.points(kind, sims, reals, COLOURS[kind], symbol, words, {"opacity": faint})
                | {"legendgroup": kind, "showlegend": False}
            )
            kinds[kind] = None
    low, high = min(everything, default=1e-6) / 1.5, max(everything, default=1.0) * 1.5
    legend = [_entry(kind, COLOURS[kind], "circle", kind) for kind in kinds]
    if len(check.comparisons) > 1:
        legend += [_entry(text(each.plan), theme.INK, marks[each.plan].symbol) for each in check.comparisons]
    x, y = (theme.axis(f"{which} time of the call (s)", **theme.LOG_SECONDS) for which in ("simulated", "real"))
    return theme.figure([*_lines(low, high, check.verdict.tolerance), *traces, *legend], x, y, 560)


def _calls(comparison: Comparison) -> dict[str, list[list[OpPair]]]:
    """Return the (simulated, real) pairs of collectives by colour, then by op: each list has the pairs of all ranks."""
    out: dict[str, dict[int, list[OpPair]]] = {}
    for pair in comparison.pairs:
        if pair.sim.axes:
            out.setdefault(call_kind_of(pair.sim), {}).setdefault(pair.sim.op, []).append(pair)
    return {kind: list(calls.values()) for kind, calls in out.items()}


def _call(plan: str, sim_s: float, real_s: float, pairs: list[OpPair]) -> str:
    span = pairs[0].sim
    return (
        f"<b>{text(plan)}: {text(span.name)}</b> over {text(span.axes)}<br>op {span.op}, {text(span.call)} of layer "
        f"{span.layer}, "
        f"{quantity(span.message_bytes, 'bytes')}<br>simulated {quantity(sim_s, 's')}, real {quantity(real_s, 's')} "
        f"(× {real_s / sim_s:.3g})"
    )


def _lines(low: float, high: float, tolerance: float) -> list[dict[str, Any]]:
    """Return the line of equality and the lines of the tolerance."""
    wanted = [("real = simulated", 1.0, "solid"), (f"± {100 * tolerance:g} %", 1 + tolerance, "dot")]
    if tolerance < 1:
        wanted.append(("", 1 - tolerance, "dot"))
    return [theme.line(name, [low, high], [low * factor, high * factor], dash) for name, factor, dash in wanted]


def _entry(name: str, colour: str, symbol: str, group: str = "") -> dict[str, Any]:
    """Return an entry of the legend; with a group, clicking it toggles the points of that group."""
    mark = {"color": colour, "line": {"color": colour}, "symbol": symbol, "size": 8}
    return theme.scatter(name, [None], [None], legendgroup=group or f"plan {name}", marker=mark)


def timelines_figure(comparison: Comparison, rank: int) -> theme.Figure:
    """Plot the step of one rank on a common time axis, the simulated step above the real one, with lanes as rows."""
    pairs = comparison.by_rank[rank]
    sim, real = [pair.sim for pair in pairs], [pair.real for pair in pairs]
    longest = max(span.end_s for span in (*sim, *real))
    lanes = lanes_of(sim + real)
    above = lane_bars(bars_of(sim, call_kind_of), lanes, COLOURS)
    below = lane_bars(bars_of(real, call_kind_of), lanes, COLOURS)
    traces = []
    for kind in COLOURS:
        first = True
        for bars, y in ((above, "y"), (below, "y2")):
            if kind in bars:
                traces.append({**bars[kind], "yaxis": y, "legendgroup": kind, "showlegend": first})
                first = False
    x = theme.axis("time since the start of the step", range=[0, longest], anchor="y2", **theme.SECONDS)
    return theme.figure(
        traces,
        x,
        theme.lanes_axis("simulated", lanes, domain=[0.53, 1.0]),
        200 + 104 * len(lanes),
        yaxis2=theme.lanes_axis("real", lanes, domain=[0.0, 0.47], anchor="x"),
        barmode="overlay",
        dragmode="zoom",
    )


def crosscheck_page(check: CrossCheck) -> str:
    """Return the page as text; the same traces give the same text."""
    found = crosscheck_findings(check)
    added = {name: section for each in check.added for name, section in each.sections().items()}
    return page_of(
        "crosscheck",
        found=found,
        steps=steps_figure(found.steps),
        calls=scatter_figure(check, marks([each.plan for each in check.comparisons])),
        timelines={each.plan: _timelines(each, MAX_BARS // len(check.comparisons)) for each in check.comparisons},
        deltas={each.plan: deltas(each) for each in check.comparisons},
        titles={name: title for name, (title, _) in added.items()},
        added={name: as_html(section) for name, (_, section) in added.items()},
        versions=versions(),
    )


def _timelines(comparison: Comparison, max_bars: int) -> dict[str, theme.Figure]:
    """Plot timelines by rank, the slowest ranks first: as many ranks as fit in `max_bars` bars, at least one."""
    slowest = comparison.slowest_rank
    ranks = [slowest, *(rank for rank in comparison.by_rank if rank != slowest)] if comparison.by_rank else []
    figures: dict[str, theme.Figure] = {}
    room = max_bars
    for rank in ranks:
        room -= 2 * len(comparison.by_rank[rank])
        if figures and room < 0:
            break
        name = f"rank {rank} (the slowest)" if rank == slowest else f"rank {rank}"
        figures[name] = timelines_figure(comparison, rank)
    return figures
