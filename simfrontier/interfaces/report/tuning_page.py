"""The page of a search and its charts: memory against step time, ranking, simulated against estimated step times,
parts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from html import escape as text
from pathlib import Path
from typing import Any

from simfrontier.answers import search
from simfrontier.answers.step import spread_of
from simfrontier.answers.study import versions
from simfrontier.base.wholefile import MANIFEST, write_whole
from simfrontier.core.workload import sizes_of
from simfrontier.interfaces.report import theme
from simfrontier.interfaces.report.explanation import colours_of, parts_figure, parts_table
from simfrontier.interfaces.report.parts import PARTS, step_bars
from simfrontier.interfaces.report.phrases import as_percent, between, fitted_words, quantity
from simfrontier.interfaces.report.render import page_of
from simfrontier.interfaces.report.results import rows_csv
from simfrontier.interfaces.report.setup import fitted_elsewhere, numbers_of
from simfrontier.interfaces.report.tuning import BEST, KINDS, TuningFindings, kind_of, tuning_manifest

COLOURS = {kind: mark.colour for kind, mark in theme.marks(KINDS).items()}
FAR = 4.0  # of the fullest plan: a capacity above that would press all marks down
MOST = 2.5  # of the best step: what is slower is beyond the first view

Band = tuple[float, float, float]  # low, median and high, seconds


Place = tuple[float, float]  # seconds, and bytes on the fullest device


def front_figure(found: TuningFindings) -> theme.Figure:
    """Plot every plan that fits by its step time and memory, with the Pareto front, the scenario's own plans and the
    memory capacity."""
    outcome = found.outcome
    own = [(each, each.simulated) for each in outcome.own if each.simulated is not None]
    front, slowest = outcome.front(), max(plan.step_s for plan in outcome.plans)
    fullest = max([0.0, *(plan.peak_bytes for plan in outcome.plans), *(one.peak_bytes for _, one in own)])
    traces = [
        _cloud(plans, kind, is_simulated)
        for kind in KINDS
        for all_plans, is_simulated in ((outcome.estimated, False), (outcome.simulated, True))
        if (plans := [plan for plan in all_plans if kind_of(plan.candidate) == kind])
    ]
    if known := _bands(outcome.simulated):
        traces.append(_spreads(known))
    stairs = [*((plan.step_s, plan.peak_bytes) for plan in front), (slowest, front[-1].peak_bytes)]
    traces.append(theme.line("Pareto front", *_places(stairs), line={"shape": "hv", "width": 1.5, "color": theme.LINE}))
    if own:
        traces.append(_stars(own))
    first = min([front[0].step_s, *(one.step_s for _, one in own)])
    last = max([min(slowest, MOST * front[0].step_s), *(one.step_s for _, one in own)])  # of the first view
    margin = 0.05 * ((last - first) or last)
    x = theme.axis("time of one step", range=[first - margin, last + margin], **theme.SECONDS)
    y = theme.axis("memory on the fullest device", rangemode="tozero", **theme.BYTES)
    limit = _capacity(found.capacity_bytes, found.capacity_bytes > FAR * fullest)
    return theme.figure(traces, x, y, 620, hovermode="closest", **limit)


def _places(steps: Iterable[Place]) -> tuple[list[float], list[float]]:
    """Return the coordinates of plans on the two axes, step time and memory."""
    seconds, peaks = zip(*steps, strict=True)
    return list(seconds), list(peaks)


def _cloud(plans: Sequence[search.TunedPlan], kind: str, is_simulated: bool) -> theme.PlotTrace:
    colour, known = COLOURS[kind], "simulated" if is_simulated else "estimated"
    return theme.points(
        f"{kind}, {known}",
        *_places((plan.step_s, plan.peak_bytes) for plan in plans),
        colour,
        "circle" if is_simulated else "circle-open",
        list(map(hover, plans)),
        {
            "size": 10 if is_simulated else 6,
            "opacity": 1.0 if is_simulated else 0.55,
            "line": {"width": 1, "color": colour},
        },
        legendgroup=kind,
    )


def _spreads(known: Sequence[tuple[search.TunedPlan, Band]]) -> theme.PlotTrace:
    """Return 90 % of the sampled step times, as bars around the medians."""
    middles, peaks = _places((band[1], plan.peak_bytes) for plan, band in known)
    bars = {"color": "rgba(127,127,127,0.75)", "thickness": 1.2, "width": 3}
    marker = {"symbol": "line-ns-open", "size": 7, "color": "rgba(127,127,127,0.9)"}
    error_x = theme.error_bars([band for _, band in known], **bars)
    return theme.line("90 % of the samples", middles, peaks, mode="markers", marker=marker, error_x=error_x)


def _stars(own: Sequence[tuple[search.OwnPlan, search.SimulatedPlan]]) -> theme.PlotTrace:
    """Return markers for the scenario's own plans, with their names."""
    return theme.points(
        "the scenario's own",
        *_places((one.step_s, one.peak_bytes) for _, one in own),
        theme.INK,
        "star",
        [
            f"<b>{text(each.name)}</b><br>{quantity(one.step_s, 's')}, "
            f"{quantity(one.peak_bytes, 'bytes')}{'' if each.fits else ', does not fit'}"
            for each, one in own
        ],
        {"size": 12, "line": {"width": 1, "color": theme.INK}},
        mode="markers+text",
        text=[text(each.name) for each, _ in own],
        textposition="top center",
        textfont={"size": 11},
    )


def _capacity(capacity_bytes: float, is_far: bool) -> dict[str, Any]:
    """Return a line at the memory capacity of a device, or only its label if all plans need far less."""
    words = f"memory of a device: {quantity(capacity_bytes, 'bytes')}{', far above' if is_far else ''}"
    place = {"yref": "paper", "y": 1, "yanchor": "top"} if is_far else {"y": capacity_bytes, "yanchor": "bottom"}
    label = {"xref": "paper", "x": 1, "xanchor": "right", **place, "text": words, "showarrow": False}
    label["font"] = {"color": theme.CAPACITY, "size": 12}
    dashes = {"dash": "dash", "width": 2, "color": theme.CAPACITY}
    ends = {"xref": "paper", "x0": 0, "x1": 1, "y0": capacity_bytes, "y1": capacity_bytes}
    return {"shapes": [] if is_far else [{"type": "line", **ends, "line": dashes}], "annotations": [label]}


def order(found: TuningFindings) -> theme.Figure:
    """Plot the simulated plans, the fastest on top: nominal step time, and median and 90 % of the samples."""
    plans, labels = found.outcome.simulated, _labels(found.outcome.simulated)
    named = {plan.candidate: label for plan, label in zip(plans, labels, strict=True)}
    bands = [(named[plan.candidate], band) for plan, band in _bands(plans)]
    traces = [_medians(bands)] if bands else []
    colours = [COLOURS[kind_of(plan.candidate)] for plan in plans]
    steps = [plan.nominal_s for plan in plans]
    traces.append(theme.points("nominal", steps, labels, colours, "circle", list(map(hover, plans)), {"size": 11}))
    at_right = {"xref": "paper", "x": 1.0, "xanchor": "right", "showarrow": False, "font": {"size": 12}}
    notes = [
        {**at_right, "y": label, "text": as_percent(chance, found.num_samples)}
        for label, chance in zip(labels, found.outcome.chances, strict=True)
        if chance is not None
    ]
    if notes:
        notes.append({**at_right, "yref": "paper", "y": 1.0, "yanchor": "bottom", "text": "fastest in"})
    ends = [end for _, (low, _, high) in bands for end in (low, high)] + steps
    width = (max(ends) - min(ends)) or 0.1 * max(ends)
    x = theme.axis("time of one step", range=[min(ends) - 0.04 * width, max(ends) + 0.16 * width], **theme.SECONDS)
    y = theme.axis("", **theme.rows(labels), tickfont={"size": 11})
    return theme.figure(traces, x, y, 120 + 40 * len(labels), annotations=notes, hovermode="closest")


def _medians(bands: Sequence[tuple[str, Band]]) -> theme.PlotTrace:
    words = [
        f"{label}<br>median {quantity(middle, 's')}, 90 % of the samples {between(low, high, 's')}"
        for label, (low, middle, high) in bands
    ]
    return theme.points(
        "median, 90 % of the samples",
        [middle for _, (_, middle, _) in bands],
        [label for label, _ in bands],
        theme.INK,
        "line-ns-open",
        words,
        {"size": 14, "line": {"width": 2, "color": theme.INK}},
        error_x=theme.error_bars([band for _, band in bands], color=theme.LINE, thickness=5, width=0),
    )


def against_estimates(found: TuningFindings) -> theme.Figure:
    """Plot nominal simulated step times against estimated ones, with the diagonal."""
    all_plans = found.outcome.simulated
    values = [value for plan in all_plans for value in (plan.nominal_s, plan.estimate.step_s)]
    margin = 0.06 * ((max(values) - min(values)) or max(values))
    ends = [min(values) - margin, max(values) + margin]
    traces = [theme.line("equal", ends, ends, "dot")]
    for kind, colour in COLOURS.items():
        if plans := [plan for plan in all_plans if kind_of(plan.candidate) == kind]:
            estimated = [plan.estimate.step_s for plan in plans]
            simulated = [plan.nominal_s for plan in plans]
            traces.append(
                theme.points(kind, estimated, simulated, colour, "circle", list(map(hover, plans)), {"size": 10})
            )
    x = theme.axis("estimated, no sharing of links", range=ends, **theme.SECONDS)
    return theme.figure(
        traces, x, theme.axis("simulated, nominal", range=ends, **theme.SECONDS), 460, hovermode="closest"
    )


def parts(found: TuningFindings) -> theme.Figure:
    """Plot stacked bars of the parts of each simulated plan's step, the fastest on top."""
    named = zip(_labels(found.outcome.simulated), found.outcome.simulated, strict=True)
    return step_bars(
        [
            {"plan": label, "fits": True, "bound_s": plan.estimate.floor_s}
            | {part.column: plan.simulated.parts[key] for key, part in PARTS.items()}
            for label, plan in named
            if plan.simulated
        ]
    )


def hover(plan: search.TunedPlan) -> str:
    """Return the hover text of a plan."""
    words = f"<b>{text(plan.candidate.name)}</b><br>{quantity(plan.step_s, 's')}, {quantity(plan.peak_bytes, 'bytes')}"
    if plan.simulated is None:
        return f"{words}, estimated; floor {quantity(plan.estimate.floor_s, 's')}"
    band = plan.simulated.band_s
    sampled = f"; 90 % of the samples {between(band[0], band[2], 's')}" if band else ""
    return f"{words}, simulated{sampled}<br>estimated {quantity(plan.estimate.step_s, 's')}"


def _bands(plans: Sequence[search.TunedPlan]) -> list[tuple[search.TunedPlan, Band]]:
    """Return the plans that have samples, with the low end, median and high end of 90 % of their step times."""
    return [(plan, plan.simulated.band_s) for plan in plans if plan.simulated and plan.simulated.band_s]


def _labels(plans: Sequence[search.TunedPlan]) -> list[str]:
    """Return labels of rows for plans, each in two lines."""
    named = enumerate((plan.candidate for plan in plans), start=1)
    return [f"{place}. {text(one.layout)}<br>{text(one.of_the_batch)}" for place, one in named]


def tuning_page(outcome: search.TuningOutcome) -> str:
    """Return the page as text; the same outcome gives the same text."""
    found, scenario = TuningFindings(outcome=outcome), outcome.scenario.at(outcome.devices)
    known = [plan.candidate for plan in (*outcome.plans, *outcome.misfits)]
    known += [plan.candidate for plan in outcome.passed_over]

    def numbers_first(value: search.Value) -> tuple[int, int, str]:
        return (0, value, "") if isinstance(value, int) else (1, 0, str(value))

    values = {name: sorted({each.value(name) for each in known}, key=numbers_first) for name in search.DIMENSIONS}
    return page_of(
        "tune",
        found=found,
        figures={
            "front": front_figure(found),
            "order": order(found),
            "estimates": against_estimates(found),
            "time": parts(found),
            "best": parts_figure({"best": outcome.time}, colours_of([outcome.time])),
        },
        colours=COLOURS,
        kind_of=kind_of,
        parts=[(part.short, part.colour) for part in PARTS.values()],
        best_parts=parts_table("best", outcome.time),
        dimensions=search.DIMENSIONS,
        values={name: list(map(search.written, own)) for name, own in values.items()},
        spread=spread_of(scenario.machine, scenario.library),
        slack=search.SLACK - 1,
        elsewhere=fitted_words(scenario.library.name, fitted_elsewhere(scenario), scenario.machine.name),
        sizes=[f"{name} {getattr(scenario.shape, name):,}" for name in sizes_of(scenario.shape)],
        numbers=numbers_of(scenario),
        engine=asdict(scenario.file.engine),
        versions=versions(),
    )


def write_tuning(outcome: search.TuningOutcome, new: Path, folder: Path, page: bool) -> None:
    """Write all files of a search into `new`, whose files will be moved to `folder`. Raises InputError if they cannot
    be written."""
    write_whole(new / "results.csv", rows_csv(search.COLUMNS, search.rows(outcome)))
    write_whole(new / BEST, search.best_toml(outcome, folder))
    text = json.dumps(tuning_manifest(outcome), indent=1, default=str, ensure_ascii=False)
    write_whole(new / MANIFEST, text + "\n")
    if page:
        write_whole(new / "index.html", tuning_page(outcome))
