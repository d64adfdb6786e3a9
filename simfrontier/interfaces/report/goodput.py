"""The page of goodput: tokens of useful steps per day against the number of devices, and the shares of the total
time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from html import escape
from typing import Final

from simfrontier.answers.goodput import Goodput, Shares, Yield, goodput_rows
from simfrontier.answers.study import versions
from simfrontier.interfaces.report import theme
from simfrontier.interfaces.report.render import page_of
from simfrontier.interfaces.report.results import rows_csv
from simfrontier.interfaces.report.theme import marks

NAMES: Final[Mapping[str, tuple[str, str]]] = {  # of shares: words, colours
    "useful": ("useful steps", theme.COMPUTE),
    "checkpoints": ("checkpoints", theme.CODEC),
    "lost": ("work that is lost", "#D55E00"),
    "restarts": ("restarts", "#E69F00"),
    "waiting": ("waiting for a node", "#B7B7B7"),
}


def tokens_figure(found: Goodput, marks: Mapping[str, theme.PlanMark], device: str) -> theme.Figure:
    """Plot tokens per day against the number of devices, a line per plan, with the best size marked; dotted lines:
    without any interruption."""
    traces = []
    for plan in dict.fromkeys(each.plan for each in found.yields):
        mine, mark = found.of(plan), marks[plan]
        sizes = [each.step.devices for each in mine]
        look = {"mode": "lines+markers", "line": {"color": mark.colour}, "hovertemplate": "%{hovertext}<extra></extra>"}
        tokens, words = [each.tokens_per_day / 1e9 for each in mine], list(map(_words, mine))
        traces.append(theme.points(plan, sizes, tokens, mark.colour, mark.symbol, words, {"size": 9}, **look))
        without = [each.tokens_per_day / each.shares.useful / 1e9 for each in mine]
        traces.append(
            theme.scatter(f"{plan}, nothing fails", sizes, without, "lines", line={"color": mark.colour, "dash": "dot"})
        )
    best = found.best
    if best is not None:
        ring = {"size": 18, "symbol": "circle-open", "color": "#222222", "line": {"width": 2}}
        traces.append(theme.scatter("most tokens a day", [best.step.devices], [best.tokens_per_day / 1e9], marker=ring))
    x = theme.axis(f"{device}s", type="log") if len(found.scenario.file.run.devices) > 1 else theme.axis(f"{device}s")
    return theme.figure(traces, x, theme.axis("tokens of useful steps a day (billions)", rangemode="tozero"), 460)


def shares_figure(found: Goodput) -> theme.Figure:
    """Plot a bar per plan and size with the shares of the total time, in per cent."""
    labels = [f"{each.plan} on {each.step.devices:,}" for each in found.yields]
    shares = {each.name: [getattr(one.shares, each.name) for one in found.yields] for each in fields(Shares)}
    traces = [theme.bars(NAMES[name][0], labels, values, NAMES[name][1], "%") for name, values in shares.items()]
    x = theme.axis("share of all time", range=[0, 1], tickformat=".0%")
    return theme.figure(
        traces, x, theme.axis("", autorange="reversed"), 150 + 34 * len(labels), barmode="stack", bargap=0.3
    )


def _words(each: Yield) -> str:
    return (
        f"<b>{escape(each.plan)}</b> on {each.step.devices:,}<br>{each.tokens_per_day:.4g} tokens, "
        f"{each.steps_per_day:,.1f} useful steps a day<br>{100 * each.shares.useful:.2f} % of the time is useful"
    )


def goodput_csv(found: Goodput) -> str:
    """Return the rows of goodput.csv."""
    rows = [{key: "" if cell is None else cell for key, cell in row.items()} for row in goodput_rows(found)]
    return rows_csv(tuple(rows[0]), rows)


def goodput_page(found: Goodput) -> str:
    """Return the page of goodput as text."""
    plans, device = list(found.scenario.plans), found.scenario.machine.device_word
    charts = {"tokens": tokens_figure(found, marks(plans), device), "shares": shares_figure(found)}
    figures = charts if found.yields else {}
    return page_of("goodput", found=found, figures=figures, names=NAMES, device=device, versions=versions())
