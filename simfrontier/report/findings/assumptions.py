"""What a prediction rests on: every number of machine and library with its source, and the settings used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from simfrontier.machine import Provenance
from simfrontier.plan import HopOptions, Options
from simfrontier.report.view import StudyView
from simfrontier.scenario import Scenario

KINDS = ("assumed", "fitted", "inferred", "measured", "quoted")  # the least certain first


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """The numbers of machine and library with their sources, the least certain first, each with the part that it is
    of."""

    machine: str
    machine_title: str
    library: str
    library_title: str
    numbers: tuple[tuple[str, Provenance], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of all plans. `engine_of_plans`: what plans with an engine of their own have instead, by key and
    plan."""

    fidelity: str
    placement: str
    engine: Mapping[str, Any]
    engine_of_plans: Mapping[str, Mapping[str, Any]]
    slow_devices: Mapping[int, float]
    slow_links: tuple[tuple[int, str, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumptions:
    """What a study rests on. By plan, at the largest size: its options as plain values, without those that are not
    set, and into how many classes its ranks fold."""

    numbers: Numbers
    settings: Settings
    precision: str
    options: Mapping[str, Mapping[str, Any]]
    rank_classes: Mapping[str, int]


def assumptions_of(view: StudyView) -> Assumptions:
    """What a study rests on."""
    scenario = view.scenario
    given = {plan: view.cases[plan, view.largest] for plan in scenario.plans}
    engine = asdict(scenario.file.engine)
    own = {
        key: {plan: now for plan, case in given.items() if (now := getattr(case.engine, key)) != value}
        for key, value in engine.items()
    }
    return Assumptions(
        numbers=numbers_of(scenario),
        settings=settings_of(scenario, view.study.fidelity, {key: plans for key, plans in own.items() if plans}),
        precision=scenario.file.model.precision,
        options={plan: _plain(case.options.in_precision(scenario.precision.model)) for plan, case in given.items()},
        rank_classes={o.plan: int(o.row["rank_classes"]) for o in view.drawn},
    )


def numbers_of(scenario: Scenario) -> Numbers:
    """Every number of a scenario's machine and library."""
    machine, library = scenario.machine, scenario.library
    known = [("machine", p) for p in machine.provenance()] + [("library", p) for p in library.provenance()]
    known.sort(key=lambda entry: KINDS.index(entry[1].kind) if entry[1].kind in KINDS else len(KINDS))
    return Numbers(
        machine=machine.name,
        machine_title=machine.title,
        library=library.name,
        library_title=library.title,
        numbers=tuple(known),
    )


def settings_of(
    scenario: Scenario, fidelity: str, engine_of_plans: Mapping[str, Mapping[str, Any]] | None = None
) -> Settings:
    """The settings of all plans of a scenario."""
    wrong = scenario.file.perturbation
    return Settings(
        fidelity=fidelity,
        placement=scenario.file.run.placement,
        engine=asdict(scenario.file.engine),
        engine_of_plans=engine_of_plans or {},
        slow_devices={slow.device: slow.factor for slow in wrong.slow},
        slow_links=tuple((link.node, link.link, link.factor) for link in wrong.links),
    )


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
