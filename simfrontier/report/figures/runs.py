"""The chart of published training runs: measured against predicted steps, with what is at the pointer."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape as text

from simfrontier.accuracy import HeldRun
from simfrontier.report.phrases import percent, signed
from simfrontier.report.theme import Figure, axis, decades, error_bars, figure, line, points

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C8C00", "#7A5195")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "triangle-down", "pentagon", "hexagon", "star")
LEVELS = ((1.0, "measured = predicted", "solid"), (1.1, "± 10 %", "dash"), (1.25, "± 25 %", "dot"))


def runs_figure(held: Sequence[HeldRun]) -> Figure:
    """Measured against predicted seconds of a step, each run with its 90 % interval, on two logarithmic axes."""
    seconds = [s for each in held for s in (each.step_s, each.measured_s)]
    ends = min(seconds) / 1.4, max(seconds) * 1.4
    traces = [
        line(name, ends, [end * each for end in ends], dash, legendgroup=name, showlegend=place == 0)
        for factor, name, dash in LEVELS
        for place, each in enumerate(dict.fromkeys((factor, 1 / factor)))
    ]
    for number, machine in enumerate(dict.fromkeys(each.run["machine"] for each in held)):
        some = [each for each in held if each.run["machine"] == machine]
        colour, symbol = COLOURS[number % len(COLOURS)], SYMBOLS[(number // len(COLOURS) + number) % len(SYMBOLS)]
        bands = [(each.step_s / each.factor, each.step_s, each.step_s * each.factor) for each in some]
        bars = error_bars(bands, color=colour + "40", thickness=1, width=0)
        predicted, measured = [each.step_s for each in some], [each.measured_s for each in some]
        words = [_hover(each) for each in some]
        look = {"size": 7, "opacity": 0.8}
        traces.append(points(machine, predicted, measured, colour, symbol, words, look, error_x=bars))
    ticks = decades(*ends)
    scale = {"type": "log", "tickvals": ticks, "ticktext": [f"{tick:g}" for tick in ticks]}
    return figure(traces, axis("predicted step (s)", **scale), axis("measured step (s)", **scale), 620)


def _hover(held: HeldRun) -> str:
    run = held.run
    unknown = "; ".join(each.text for each in held.job.unknown)
    lines = [
        run.title,
        f"{run['system']}; batch {run['batch'] or '–'}, micro-batch {run['micro_batch'] or '–'}, sequence {run['seq']}",
        f"measured {run.value:.4g}, predicted {held.predicted:.4g} ({held.low:.4g} to {held.high:.4g}) {run.unit}",
        f"error {signed(held.error)}, interval ± {percent(held.factor - 1)}",
        *([f"assumed: {unknown}"] if unknown else []),
    ]
    return "<br>".join(text(each) for each in lines)
