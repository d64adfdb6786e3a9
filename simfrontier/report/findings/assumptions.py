"""What a prediction rests on: every number of machine and library with its source, and the settings used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from simfrontier.machine import Provenance
from simfrontier.plan import HopOptions, Options
from simfrontier.records import dataclass
from simfrontier.report.view import StudyView
from simfrontier.scenario import Scenario

KINDS = ("assumed", "fitted", "inferred", "measured", "quoted")  # the least certain first


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumptions:
    """What a study rests on: every number of its machine and its library, the settings of the engine, and what plans
    with an engine of their own have instead, by key and plan. By plan, at the largest size: its options as plain
    values, without those that are not set, and into how many classes its ranks fold."""

    numbers: tuple[tuple[str, Provenance], ...]
    engine: Mapping[str, Any]
    engine_of_plans: Mapping[str, Mapping[str, Any]]
    options: Mapping[str, Mapping[str, Any]]
    rank_classes: Mapping[str, int]


def assumptions_of(view: StudyView) -> Assumptions:
    """What a study rests on."""
    scenario, engine = view.scenario, asdict(view.scenario.file.engine)
    given = {plan: view.cases[plan, view.largest] for plan in scenario.plans}
    return Assumptions(
        numbers=numbers_of(scenario),
        engine=engine,
        engine_of_plans={
            key: {plan: own for plan, case in given.items() if (own := getattr(case.engine, key)) != value}
            for key, value in engine.items()
        },
        options={plan: _plain(case.options.in_precision(scenario.precision.model)) for plan, case in given.items()},
        rank_classes={o.plan: int(o.row["rank_classes"]) for o in view.drawn},
    )


def numbers_of(scenario: Scenario) -> tuple[tuple[str, Provenance], ...]:
    """Every number of a scenario's machine and library behind the part that it is of, the least certain first."""
    parts = {"machine": scenario.machine.provenance(), "library": scenario.library.provenance()}
    known = [(part, number) for part, numbers in parts.items() for number in numbers]
    order = {kind: place for place, kind in enumerate(KINDS)}
    return tuple(sorted(known, key=lambda entry: order.get(entry[1].kind, len(order))))


def _plain(value: Any) -> Any:
    """A value of a plan's options as plain values of JSON, without options that are not set."""
    match value:
        case Options() | HopOptions():
            return {key: _plain(given) for key, given in value if given is not None}
        case tuple():
            return [_plain(each) for each in value]
        case bool() | int() | float():
            return value
        case _:
            return str(value)
