"""The page of a search: the best plan and why, memory against time, how sure the order is, and what was searched."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from simfrontier.analysis import spread_of
from simfrontier.report.figures.breakdown import PARTS
from simfrontier.report.figures.explanation import colours_of, parts_figure
from simfrontier.report.figures.tuning import COLOURS, against_estimates, order, parts, scatter
from simfrontier.report.findings.assumptions import numbers_of
from simfrontier.report.findings.explanation import shown_parts
from simfrontier.report.findings.setup import fitted_elsewhere
from simfrontier.report.findings.tuning import kind_of, tuning_findings
from simfrontier.report.manifest import versions
from simfrontier.report.phrases import fitted_words
from simfrontier.report.render import page_of
from simfrontier.tuning import DIMENSIONS, SLACK, TuningOutcome, Value, written
from simfrontier.wholefile import write_whole
from simfrontier.workload import sizes_of


def tuning_page(outcome: TuningOutcome) -> str:
    """The page as text; the same outcome gives the same text."""
    found, scenario = tuning_findings(outcome), outcome.scenario.at(outcome.devices)
    known = [plan.candidate for plan in (*outcome.plans, *outcome.misfits)]
    known += [plan.candidate for plan in outcome.passed_over]
    return page_of(
        "tune",
        found=found,
        figures={
            "front": scatter(found),
            "order": order(found),
            "estimates": against_estimates(found),
            "time": parts(found),
            "best": parts_figure({"best": outcome.time}, colours_of([outcome.time])),
        },
        colours=COLOURS,
        kind_of=kind_of,
        parts=[(part.short, part.colour) for part in PARTS.values()],
        best_parts=shown_parts(outcome.time.parts),
        dimensions=DIMENSIONS,
        values={name: list(map(written, _ordered({each.value(name) for each in known}))) for name in DIMENSIONS},
        spread=spread_of(scenario.machine, scenario.library),
        slack=SLACK - 1,
        elsewhere=fitted_words(scenario.library.name, fitted_elsewhere(scenario), scenario.machine.name),
        sizes=[f"{name} {getattr(scenario.shape, name):,}" for name in sizes_of(scenario.shape)],
        numbers=numbers_of(scenario),
        engine=asdict(scenario.file.engine),
        versions=versions(),
    )


def write_tuning_page(outcome: TuningOutcome, path: Path) -> None:
    """Write the page. Raises InputError where the file cannot be written."""
    write_whole(path, tuning_page(outcome))


def _ordered(values: Iterable[Value]) -> list[Value]:
    """Numbers before words."""
    return sorted(values, key=lambda value: (0, value, "") if isinstance(value, int) else (1, 0, str(value)))
