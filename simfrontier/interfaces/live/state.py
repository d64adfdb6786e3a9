"""Positions of the live page's controls: as a link, as settings of the scenario, as a scenario file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from simfrontier.base.errors import InputError, nearest
from simfrontier.base.io import comment, toml_document
from simfrontier.inputs.scenario import Scenario, scenario_of, without_comparisons
from simfrontier.interfaces.live.controls import DEVICES, SLOW, Control

PLAN = "plan"  # in a link: the plan whose step is shown


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveState:
    """The place of every control that was moved, by its key, and the plan that is shown (empty: the fastest)."""

    places: Mapping[str, int]
    plan: str = ""


def state_of(query: Mapping[str, str], controls: Sequence[Control], plans: Sequence[str]) -> LiveState:
    """Parse the query of a link: the words of a control's value by its key. Raises InputError."""
    known = {control.key: control for control in controls}
    places: dict[str, int] = {}
    for key, text in query.items():
        if key == PLAN:
            continue
        if key not in known:
            raise InputError(f"unknown key; {nearest(key, known)}", where="link", key=(key,))
        values = [shown(value) for value in known[key].values]
        if text not in values:
            raise InputError(f"got {text!r}; allowed: {', '.join(values)}", where="link", key=(key,))
        places[key] = values.index(text)
    plan = query.get(PLAN, "")
    if plan and plan not in plans:
        raise InputError(f"got {plan!r}; {nearest(plan, plans)}", where="link", key=(PLAN,))
    moved = {key: place for key, place in places.items() if place != known[key].at}
    return LiveState(places=moved, plan=plan)


def shown(value: Any) -> str:
    """A value in a link."""
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)


def scenario_at(base: Scenario, controls: Sequence[Control], state: LiveState) -> Scenario:
    """The scenario with everything that was moved, at one size. Raises InputError where it cannot be."""
    values = {control.key: control.values[state.places.get(control.key, control.at)] for control in controls}
    size = values.pop(DEVICES, max(base.file.run.devices))
    settings = {key: values[key] for key in state.places if key in values}
    if SLOW in settings:
        settings[SLOW] = [{"device": 0, "factor": settings[SLOW]}]
    document = without_comparisons(base.document, base.plans)
    return scenario_of(document, base.where, settings, tuple(base.plans), (size,))


def scenario_file(base: Scenario, controls: Sequence[Control], state: LiveState) -> str:
    """The same as the text of a scenario file, which says where it comes from."""
    beside = comment(f"Saved by simfrontier serve from {base.where}; the files that it names are beside that one.")
    return f"{beside}\n{toml_document(scenario_at(base, controls, state).document)}"
