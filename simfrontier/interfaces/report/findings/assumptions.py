"""Assumptions of a prediction: every number of machine and library with its source, and the settings used."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from simfrontier.core.machine import Provenance
from simfrontier.core.plan import HopOptions, Options
from simfrontier.inputs.scenario import Scenario
from simfrontier.interfaces.report.view import StudyView

KINDS = ("assumed", "fitted", "inferred", "measured", "quoted")  # the least certain first


def assumptions_of(view: StudyView) -> dict[str, Any]:
    """The numbers of a study's machine and library, the settings of the engine, what plans with an engine of their own
    have instead (by key and plan), and the options of each plan at the largest size, without those that are not set."""
    scenario, engine = view.scenario, asdict(view.scenario.file.engine)
    cases = {plan: view.cases[plan, view.largest] for plan in scenario.plans}
    return {
        "numbers": numbers_of(scenario),
        "engine": engine,
        "engine_of_plans": {
            key: {plan: own for plan, case in cases.items() if (own := getattr(case.engine, key)) != value}
            for key, value in engine.items()
        },
        "options": {plan: _plain(case.options.in_precision(scenario.precision.model)) for plan, case in cases.items()},
    }


def numbers_of(scenario: Scenario) -> list[tuple[str, Provenance]]:
    """Every number of a scenario's machine and library behind the part that it is of, the least certain first."""
    parts = {"machine": scenario.machine.provenance(), "library": scenario.library.provenance()}
    known = [(part, number) for part, numbers in parts.items() for number in numbers]
    return sorted(known, key=lambda entry: [*KINDS, entry[1].kind].index(entry[1].kind))


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
