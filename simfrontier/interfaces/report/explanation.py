"""The page of an explanation: parts of a step, critical path, waits, tried changes, and the difference to another
plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape as text
from math import fsum
from typing import NamedTuple

import numpy as np

from simfrontier.answers.explain import Explanation, PlanComparison, ShownWait, TriedChange, Waits
from simfrontier.answers.step import (
    IDLE as IDLE_TIME,
    SLOWED,
    WAIT,
    CriticalPath,
    PartDifference,
    PartKey,
    PathLevel,
    TimePart,
    TimeSpent,
    is_equal,
    op_words,
    part_words,
)
from simfrontier.answers.study import versions
from simfrontier.base.arrays import Floats
from simfrontier.core.program import KINDS, WaitKind
from simfrontier.interfaces.report.against_runs import explained_table, rate_words, rates_table, ratio_words
from simfrontier.interfaces.report.phrases import percent, quantity, signed_seconds
from simfrontier.interfaces.report.render import page_of, said
from simfrontier.interfaces.report.table import Table, with_total
from simfrontier.interfaces.report.theme import CODEC, HOST, IDLE, SECONDS, Figure, axis, figure, rows, told_bars

LISTED_SHARE = 0.99  # of a step is listed part by part
LITTLE = 1e-3  # of a step: changes that move it less are only named
APART = 0.05  # of a step: a simulated step that is nearer to the one that is compared with published runs is not named
OTHER = "other"
EQUAL = "equal"
COMPUTE = "compute"
OTHER_COMPUTE = "all other compute"
NUM_BINS = 600  # of the strip: a third of a pixel more or less
MOST_PARTS = 9  # with a colour of their own
_SHADES: Mapping[PathLevel, tuple[str, ...]] = {  # the darker the larger; as everywhere, the warmer the farther
    "inter_node": ("#A4243B", "#C65B6D", "#DE919D", "#EFC3CA"),
    "intra_node": ("#E07A3F", "#EA9F73", "#F3C4A9"),
    "package": ("#F2C14E", "#F6D484", "#FAE7B9"),
    "device": ("#54708C", "#7F96AD", "#A9BACA", "#CBD6E0"),
}
_OF_HOST = {kind.name for kind in KINDS.values() if isinstance(kind, WaitKind)}
_CODED = ("encode", "decode", "decode_sum", "permute", "slice", "merge")  # work that only messages ask for
_CHANGES = {  # name and colour of each kind
    "link": ("links", "#A4243B"),
    "start-up": ("start-up of messages", "#D1495B"),
    "device": ("devices", "#54708C"),
    "host": ("host", "#7F7F7F"),
    "overlap": ("overlap", "#2F7D5B"),
    "codec": ("codecs", CODEC),
}
_REST = "#9A9A9A"
_LESS, _MORE, _TOTAL = "#2F7D5B", "#A4243B", "#54708C"
PathKey = tuple[str, tuple[str, ...], PathLevel]


class ShownPart(NamedTuple):
    """A displayed part of a step's time; the last displayed part may be the sum of all remaining ones."""

    words: str
    seconds: float
    calls: int


class ShownDifference(NamedTuple):
    """Seconds of one part of the step of a plan and of another plan; the last displayed part may be the sum of all
    remaining ones. `is_equal`: whether the two times are equal up to rounding."""

    words: str
    a_s: float
    b_s: float
    is_equal: bool = False

    @property
    def seconds(self) -> float:
        return self.a_s - self.b_s


class StepShares(NamedTuple):
    """Summary of a step: the share of its time in which kernels run, the exposed share (all other time), and the
    largest exposed part in words ("" if nothing is exposed) with its own share."""

    compute: float
    exposed: float
    largest: str
    largest_share: float


def shares_of(time: TimeSpent) -> StepShares:
    """Return the summary of a step's time."""
    largest = next((part for part in time.parts if part.spent != "compute"), None)
    compute = time.compute_s / time.step_s
    words, share = ("", 0.0) if largest is None else (largest.words, largest.seconds / time.step_s)
    return StepShares(compute, 1.0 - compute, words, share)


def shown_parts(parts: Sequence[TimePart]) -> list[ShownPart]:
    """Return the largest parts that together make up 99 % of the step, and the remaining ones as one part; the seconds
    sum to the step time."""
    num_listed = _num_listed([part.seconds for part in parts])
    shown = [ShownPart(part.words, part.seconds, part.calls) for part in parts[:num_listed]]
    if rest := parts[num_listed:]:
        shown.append(ShownPart(OTHER, sum(part.seconds for part in rest), sum(part.calls for part in rest)))
    return shown


def shown_differences(parts: Sequence[PartDifference]) -> list[ShownDifference]:
    """Return the kinds of kernels that take equal time in both plans as one entry, then the parts that differ most
    until 99 % of all differences are covered, and the remaining ones as one entry."""
    kernels = [part for part in parts if part.spent == "compute" and part.kind != SLOWED]
    equal = [part for part in kernels if is_equal(part)]
    rest = [part for part in parts if part not in equal]
    num_listed = _num_listed([abs(part.seconds) for part in rest])
    shown = []
    if equal:
        seconds = fsum(part.a_s for part in equal)
        words = COMPUTE if len(equal) == len(kernels) else OTHER_COMPUTE
        shown.append(ShownDifference(words, seconds, seconds, is_equal=True))
    shown += [ShownDifference(part.words, part.a_s, part.b_s, is_equal(part)) for part in rest[:num_listed]]
    if left := rest[num_listed:]:
        shown.append(ShownDifference(OTHER, fsum(part.a_s for part in left), fsum(part.b_s for part in left)))
    return shown


def first_that_fits(changes: Sequence[TriedChange]) -> TriedChange | None:
    """Return the change that saves the most time among those that fit into memory."""
    return next((change for change in changes if change.fits), None)


def _num_listed(sizes: Sequence[float]) -> int:
    """Return how many of the sizes to list: as many as make up 99 % of the total; if only one would remain, all of
    them."""
    total, given = sum(sizes), 0.0
    for place, size in enumerate(sizes):
        if given >= LISTED_SHARE * total and len(sizes) - place > 1:
            return place
        given += size
    return len(sizes)


def colours_of(times: Sequence[TimeSpent]) -> dict[PartKey | None, str]:
    """Return a colour for each of the largest parts of the steps, by hardware level, and one for all other parts
    together (key None)."""
    size: dict[PartKey, float] = {}
    for part in (part for time in times for part in time.parts):
        size[part.key] = max(size.get(part.key, 0.0), part.seconds)
    chosen = sorted(size, key=lambda each: (-size[each], each))[:MOST_PARTS]
    return {**dict(zip(chosen, _colours([(kind, level) for _, kind, _, level in chosen]), strict=True)), None: _REST}


def _colours(parts: Sequence[tuple[str, PathLevel]]) -> list[str]:
    """Return a colour for each (kind, level), the largest part first: the level determines the hue, and larger parts
    are darker."""
    out, used = [], Counter[PathLevel]()
    for kind, level in parts:
        if kind in (WAIT, IDLE_TIME) or kind in _OF_HOST or kind in _CODED:
            out.append(HOST if kind in _OF_HOST else CODEC if kind in _CODED else IDLE)
        else:
            out.append(_SHADES[level][min(used[level], len(_SHADES[level]) - 1)])
            used[level] += 1
    return out


def parts_figure(times: Mapping[str, TimeSpent], colours: Mapping[PartKey | None, str]) -> Figure:
    """Plot a stacked bar of the parts of the step for each plan; all bars start at zero."""
    seconds = {name: Counter[PartKey | None]() for name in times}
    for name, time in times.items():
        for part in time.parts:
            seconds[name][part.key if part.key in colours else None] += part.seconds  # type: ignore[assignment]
    traces = []
    for key, colour in colours.items():
        own = {name: float(seconds[name][key]) for name in times}
        title = OTHER if key is None else part_words(*key)
        words = [
            f"<b>{text(name)}</b><br>{text(title)}: {quantity(part_s, 's')}, {percent(part_s / times[name].step_s)}"
            for name, part_s in own.items()
        ]
        if any(own.values()):
            traces.append(told_bars(title, list(own), list(own.values()), colour, words))
    x, y = axis("time of one step", **SECONDS), axis("", **rows(list(times)))
    return figure(traces, x, y, 210 + 56 * len(times), barmode="stack", bargap=0.3)


def strip_figure(path: CriticalPath) -> Figure:
    """Plot the parts of the critical path over the time of the step: the share of each part in every time bin."""
    largest: list[PathKey] = [(part.kind, part.axes, part.level) for part in path.parts()][:MOST_PARTS]
    shades = _colours([(kind, level) for kind, _, level in largest])
    edges = np.linspace(0.0, path.step_s, NUM_BINS + 1)
    width = path.step_s / NUM_BINS
    traces = []
    for key, colour in zip((*largest, None), (*shades, _REST), strict=True):
        shares, title = _in_bins(path, key, largest, edges) / width, OTHER if key is None else op_words(*key)
        if shares.any():
            marker = {"color": colour, "line": {"width": 0}}
            hover = f"%{{y:.0%}} {text(title)}<extra>%{{x:.4~s}}s</extra>"
            bars = {"type": "bar", "name": title, "x": (edges[:-1] + width / 2).tolist(), "y": shares.tolist()}
            traces.append({**bars, "width": width, "marker": marker, "hovertemplate": hover})
    x = axis("time since the start of the step", range=[0, path.step_s], **SECONDS)
    y = axis("", range=[0, 1], showticklabels=False, fixedrange=True, showgrid=False)
    return figure(traces, x, y, 300, barmode="stack", bargap=0, dragmode="zoom")


def _in_bins(path: CriticalPath, key: PathKey | None, largest: Sequence[PathKey], edges: Floats) -> Floats:
    """Return the seconds of a part in each time bin, as differences of the cumulative time at the bin edges."""
    own = [(link.kind, link.axes, link.level) for link in path.links]
    is_own = np.array([(each if each in largest else None) == key for each in own], bool)
    lengths = np.array([link.seconds for link in path.links])
    so_far = np.concatenate([[0.0], np.cumsum(np.where(is_own, lengths, 0.0))])
    return np.diff(np.interp(edges, [0.0, *(link.end_s for link in path.links)], so_far))


def changes_figure(explanation: Explanation) -> Figure:
    """Plot for each change a bar of the seconds that it saves; the bar is hollow if the changed plan does not fit into
    memory."""
    traces = []
    for kind, (name, colour) in _CHANGES.items():
        if changes := [change for change in explanation.changes if change.kind == kind]:
            fill = [colour if change.fits else "rgba(0,0,0,0)" for change in changes]
            labels, saved = [change.label for change in changes], [change.saved_s for change in changes]
            marker = {"color": fill, "line": {"color": colour, "width": 1}}
            traces.append(told_bars(name, labels, saved, colour, list(map(_hover, changes)), marker=marker))
    labels = [change.label for change in explanation.changes]
    x = axis(f"saved of a step of {quantity(explanation.step_s, 's')}", zeroline=True, **SECONDS)
    return figure(traces, x, axis("", **rows(labels)), 150 + 26 * len(labels), barmode="overlay", bargap=0.25)


def waits_figure(waits: Waits) -> Figure:
    """Plot a matrix of the rank pairs with the longest waits: waiting ranks as rows, late ranks as columns, coloured by
    the seconds that a rank waits."""
    waiting = list(dict.fromkeys(pair.waiting for pair in waits.pairs))
    late = list(dict.fromkeys(pair.late for pair in waits.pairs))
    seconds = {(pair.waiting, pair.late): pair for pair in waits.pairs}
    cells = [[seconds.get((row, column)) for column in late] for row in waiting]
    words = [["" if pair is None else _waited(pair) for pair in row] for row in cells]
    matrix = {
        "type": "heatmap",
        "x": late,
        "y": waiting,
        "z": [[None if pair is None else pair.seconds for pair in row] for row in cells],
        "hovertext": words,
        "hovertemplate": "%{hovertext}<extra></extra>",
        "hoverongaps": False,
        "colorscale": [[0.0, "#FBEFD9"], [0.5, "#E07A3F"], [1.0, "#4A1030"]],
        "zmin": 0.0,
        "colorbar": {"title": {"text": "waited"}, "thickness": 14, **SECONDS},
        "xgap": 2,
        "ygap": 2,
    }
    x, y = axis("for whom", type="category"), axis("who waited", **rows(waiting))
    return figure([matrix], x, y, 170 + 30 * len(waiting))


def _waited(pair: ShownWait) -> str:
    return (
        f"<b>{text(pair.waiting)}</b> waited for {text(pair.late)}<br>{quantity(pair.seconds, 's')} each in "
        f"{pair.calls:,} calls, {quantity(pair.exposed_s, 's')} with no kernel<br>{'<br>'.join(map(text, pair.names))}"
    )


def waterfall_figure(explanation: Explanation, other: PlanComparison) -> Figure:
    """Plot a waterfall chart from the other plan's step time to the explained plan's, with one bar per difference."""
    falls = [each for each in shown_differences(other.differences) if not each.is_equal]
    names = [f"a step of {other.plan}", *(each.words for each in falls), f"a step of {explanation.plan}"]
    ends = [quantity(step_s, "s") for step_s in (other.step_s, explanation.step_s)]
    words = [ends[0], *(signed_seconds(each.seconds) for each in falls), ends[1]]
    falls_s = [each.seconds for each in falls]
    bars = {
        "type": "waterfall",
        "orientation": "h",
        "measure": ["absolute", *["relative"] * len(falls), "total"],
        "y": names,
        "x": [other.step_s, *falls_s, explanation.step_s],
        "decreasing": {"marker": {"color": _LESS}},
        "increasing": {"marker": {"color": _MORE}},
        "totals": {"marker": {"color": _TOTAL}},
        "connector": {"visible": False},
        "hovertext": [f"<b>{text(name)}</b><br>{size}" for name, size in zip(names, words, strict=True)],
        "hovertemplate": "%{hovertext}<extra></extra>",
        "showlegend": False,
    }
    x, y = axis("time of one step", **SECONDS), axis("", **rows(names))
    return figure([bars], x, y, 110 + 30 * len(names), bargap=0.3)


def _hover(change: TriedChange) -> str:
    note = f"<br>{text(change.note)}" if change.note else ""
    return (
        f"<b>{text(change.label)}</b><br>step {quantity(change.step_s, 's')}, saved {signed_seconds(change.saved_s)} "
        f"({percent(change.share)}){note}<br>{'<br>'.join(map(text, change.settings[:4]))}"
    )


def parts_table(plan: str, time: TimeSpent) -> Table:
    """Return the table of the parts of a plan's step."""
    rows = [
        (
            part.words,
            quantity(part.seconds, "s"),
            percent(part.seconds / time.step_s),
            f"{part.calls:,}" if part.calls else "",
        )
        for part in shown_parts(time.parts)
    ]
    total = ("the step", quantity(time.step_s, "s"), percent(1.0), "")
    return with_total(rows, total, f"Where a step of {plan} goes", ("part", "time", "of the step", "ops"))


def waits_table(waits: Waits) -> Table:
    """Return the table of the pairs of ranks with the longest waits."""
    rows = []
    for each in waits.pairs:
        times = quantity(each.seconds, "s"), quantity(each.exposed_s, "s")
        rows.append((each.waiting, each.late, *times, f"{each.calls:,}", "; ".join(each.names)))
    heads = ("waiting", "for", "each waits", "no kernel", "calls", "in")
    return Table("Who waited for whom to arrive", heads, rows, words=("waiting", "for", "in"))


def differences_table(it: Explanation, other: PlanComparison) -> Table:
    """Return the table of the times of each part in the explained plan's step and in another plan's step."""
    rows = []
    for each in shown_differences(other.differences):
        difference = EQUAL if each.is_equal else signed_seconds(each.seconds)
        rows.append((each.words, quantity(each.a_s, "s"), quantity(each.b_s, "s"), difference))
    steps = (quantity(it.step_s, "s"), quantity(other.step_s, "s"), signed_seconds(it.step_s - other.step_s))
    title = f"{it.plan} against {other.plan}: where their steps go"
    return with_total(rows, ("the step", *steps), title, ("part", it.plan, other.plan, "difference"))


def ranking_table(it: Explanation) -> Table:
    """Return the table of the step times of all plans, each compared with the next best plan."""
    rows = []
    for each in it.ranking:
        step_s, compute_s = each.time.step_s, each.time.compute_s
        difference = "" if each.next is None else signed_seconds(step_s - each.next.step_s)
        rows.append((each.plan, *(quantity(s, "s") for s in (step_s, compute_s, step_s - compute_s)), difference))
    heads = ("plan", "step", "compute", "exposed", "than the next")
    return Table(f"The {len(it.ranking)} plans, each against the next best", heads, rows, words=("plan",))


def published_sentences(it: Explanation) -> list[str]:
    """Return the sentences on a plan beside a published run; empty if it was not compared with one."""
    if it.published is None:
        return []
    simulated = it.step_s / it.published.yours.step_s
    apart = simulated if abs(simulated - 1.0) >= APART else None
    return said("explain", "published", it.published, apart, it.device_word, rate_words, ratio_words)


def explanation_page(it: Explanation) -> str:
    """Return the page as text; the same explanation gives the same text."""
    figures = {
        "parts": parts_figure({it.plan: it.time}, colours_of([it.time])),
        "strip": strip_figure(it.path),
        "changes": changes_figure(it),
    }
    if it.waits.pairs:
        figures["waits"] = waits_figure(it.waits)
    if it.against is not None:
        times = {it.plan: it.time, it.against.plan: it.against.time}
        figures["both"] = parts_figure(times, colours_of(list(times.values())))
        figures["waterfall"] = waterfall_figure(it, it.against)
    best = first_that_fits(it.changes)
    return page_of(
        "explain",
        it=it,
        shares=shares_of(it.time),
        parts=shown_parts(it.time.parts),
        best=best,
        moves=best is not None and best.share >= LITTLE,
        steps=parts_table(it.plan, it.time),
        waits=waits_table(it.waits),
        differences=differences_table(it, it.against) if it.against else None,
        told=published_sentences(it),
        rates=rates_table(it.published, it.device_word) if it.published else None,
        explained=explained_table(it.published) if it.published else None,
        ranking=ranking_table(it),
        figures=figures,
        versions=versions(),
    )
