"""Controls of the live page and their positions, expressed as a link, as settings of a scenario, and as a scenario
file."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

from simfrontier.base.errors import InputError, nearest
from simfrontier.base.io import comment, toml_document
from simfrontier.core.collectives import environments_of
from simfrontier.core.machine.stack import NONE, stacks_of
from simfrontier.inputs.scenario import Scenario, path_of, scenario_of, without_comparisons
from simfrontier.interfaces.live.control import Control, control
from simfrontier.interfaces.live.job import (
    BATCH,
    DEGREES,
    GRID,
    ON_DATA_KEY,
    batch_controls,
    batch_of,
    grid_controls,
    in_words,
    job_settings,
    model_control,
)
from simfrontier.interfaces.report.phrases import quantity

DEVICES: Final = "run.devices"
SLOW: Final = "perturbation.slow"
OVERRIDES: Final = "library.overrides."
SHARE: Final = OVERRIDES + "shares.nic"
HOP: Final = OVERRIDES + "ring.hop_between_nodes_s"
LIBRARYS: Final = "the library's"  # until an answer says how much that is
_NIC_SHARES: Final = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
_FACTORS: Final = (0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0)
_SLOW: Final = (1.0, 0.95, 0.9, 0.8, 0.7, 0.5, 0.3)
MOST_LISTED: Final = 20  # values of a control in a message
PLAN = "plan"  # in a link: the plan whose step is shown


def controls_of(scenario: Scenario) -> tuple[Control, ...]:
    """Return the controls of a scenario, in the order of the page. Controls without any effect are left out, and those
    of settings that the scenario sets separately for each size."""
    by_size = list(scenario.document.get("at", {}).values())
    found = [each for each in _all(scenario) if len(each.values) > 1]
    return tuple(each for each in found if not any(has(table, path_of(each.key)) for table in by_size))


def has(table: Any, path: Sequence[str]) -> bool:
    """Return whether a table of a document has a value at that path of keys."""
    return not path or (isinstance(table, Mapping) and path[0] in table and has(table[path[0]], path[1:]))


def _all(scenario: Scenario) -> Iterator[Control]:
    file, device = scenario.file, scenario.machine.device_word
    sizes = tuple(sorted(file.run.devices))
    yield from model_control(scenario)
    yield control(DEVICES, f"{device}s", "slider", sizes, [f"{size:,}" for size in sizes], max(sizes))
    yield from batch_controls(scenario)
    levels = ("full", "selective", "none")
    yield control("model.checkpointing", "activation checkpointing", "choice", levels, levels, file.model.checkpointing)
    yield from grid_controls(scenario)
    yield from (replace(each, group="unknown") for each in _unknown(scenario))


def _unknown(scenario: Scenario) -> Iterator[Control]:
    """Yield the controls of settings that a job may not know of its machine."""
    file, device, sizes = scenario.file, scenario.machine.device_word, scenario.file.run.devices
    overlap = "engine.overlap", "overlap of communication and computation"
    yield control(*overlap, "switch", (False, True), ("off", "on"), file.engine.overlap)
    library, given = scenario.library.name, file.library.name
    found = tuple(
        dict.fromkeys([given or library, scenario.machine.library, *environments_of(scenario.machine.library)])
    )
    yield control("library.name", "state of the collective library", "choice", found, found, given or library)
    known = {each.key: each.value for each in scenario.library.provenance()}
    hop = float(known.get(HOP.removeprefix(OVERRIDES), 0.0))
    if max(sizes) > scenario.machine.devices_per_node:
        if SHARE.removeprefix(OVERRIDES) in known:
            words = [f"{100 * value:.3g} %" for value in _NIC_SHARES]
            yield control(
                *(SHARE, "NIC efficiency of collectives", "slider", (None, *_NIC_SHARES)),
                *([LIBRARYS, *words], None),
            )
        if hop > 0.0:
            hops = tuple(factor * hop for factor in _FACTORS)
            words = [LIBRARYS, *(quantity(value, "s") for value in hops)]
            yield control(HOP, "latency of a hop between nodes", "slider", (None, *hops), words, None)
    of_plans = {name: stacks_of(plan.family) for name, plan in scenario.plans.items()}
    stacks = tuple(dict.fromkeys([file.stack or "", NONE, *(name for names in of_plans.values() for name in names)]))
    words = [
        _stack_words(name, [plan for plan, names in of_plans.items() if name in names], of_plans) for name in stacks
    ]
    yield control("stack", "software stack", "choice", stacks, words, file.stack or "")
    if not file.perturbation.slow:
        words = ["none", *(f"at {100 * value:g} % speed" for value in _SLOW[1:])]
        yield control(SLOW, f"a slow {device} (the first)", "slider", _SLOW, words, 1.0)


def _stack_words(name: str, runs: Sequence[str], plans: Collection[str]) -> str:
    """Return the name of a software stack, followed by the plans that it runs unless these are all; the other plans are
    simulated as if it ran them. An empty name means that the scenario names no stack."""
    if not name:
        return "of each plan: what people run it with"
    if name == NONE:
        return "none: kernels as fused as the model"
    return name if len(runs) in (0, len(plans)) else f"{name} (runs {', '.join(runs)})"


def own_words(scenario: Scenario) -> dict[str, str]:
    """Return the values that a scenario leaves open as text, by the keys of their controls: the library's own, and the
    sequences of a step."""
    known = {each.key: float(each.value) for each in scenario.library.provenance()}
    share, hop = known.get(SHARE.removeprefix(OVERRIDES)), known.get(HOP.removeprefix(OVERRIDES))
    words = {SHARE: None if share is None else f"{100 * share:.3g} %", HOP: None if hop is None else quantity(hop, "s")}
    size = scenario.file.run.devices[0]
    samples = {scenario.case(plan, size).samples for plan in scenario.plans if plan not in scenario.searches}
    batch = {BATCH: f"{samples.pop():,}"} if len(samples) == 1 else {}
    return batch | {key: f"{LIBRARYS}: {text}" for key, text in words.items() if text is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveState:
    """State of the page: the value index of every control that was moved, by its key, and the plan that is shown
    (empty: the fastest)."""

    places: Mapping[str, int]
    plan: str = ""


def state_of(query: Mapping[str, str], controls: Sequence[Control], plans: Sequence[str]) -> LiveState:
    """Parse the query string of a link, which has the text of each moved control's value by its key. Raises
    InputError."""
    known = {each.key: each for each in controls}
    places: dict[str, int] = {}
    for key, text in query.items():
        if key == PLAN:
            continue
        if key not in known:
            raise InputError(f"unknown key; {nearest(key, known)}", where="link", key=(key,))
        values = [shown(value) for value in known[key].values]
        if text not in values:
            allowed = f"allowed: {', '.join(values)}" if len(values) <= MOST_LISTED else nearest(text, values)
            raise InputError(f"got {text!r}; {allowed}", where="link", key=(key,))
        places[key] = values.index(text)
    plan = query.get(PLAN, "")
    if plan and plan not in (*plans, *([GRID] if DEGREES.keys() & known.keys() else [])):
        raise InputError(f"got {plan!r}; {nearest(plan, plans)}", where="link", key=(PLAN,))
    moved = {key: place for key, place in places.items() if place != known[key].at}
    return LiveState(places=moved, plan=plan)


def shown(value: Any) -> str:
    """Return a value as text for a link."""
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveScenario:
    """The scenario of a state, with the plans that can be laid out, and why the others cannot, by plan."""

    scenario: Scenario
    left_out: Mapping[str, str] = field(default_factory=dict)


def laid_out(base: Scenario, controls: Sequence[Control], state: LiveState) -> LiveScenario:
    """Return the scenario with the values of all moved controls, at one size. A plan that cannot be laid out is left
    out, as long as another is left; the plan of the moved grid is not. Raises InputError."""
    moved = {each.key: each.values[state.places[each.key]] for each in controls if each.key in state.places}
    size = moved.pop(DEVICES, next((each.values[each.at] for each in controls if each.key == DEVICES), None))
    size = size or max(base.file.run.devices)
    grid = {key: moved.pop(key) for key in (*DEGREES, ON_DATA_KEY) if key in moved}
    settings = job_settings(base, moved)
    if SLOW in settings:
        settings[SLOW] = [{"device": 0, "factor": settings[SLOW]}]
    found = _of_plans(base, settings, list(base.plans), size)
    if not grid:
        return found
    settings |= batch_of(found.scenario, size)
    plans = list(dict.fromkeys([*found.scenario.plans, GRID]))
    with_grid = _of_plans(base, settings, plans, size, {GRID: in_words(grid)})
    return replace(with_grid, left_out={**found.left_out, **with_grid.left_out})


def _of_plans(
    base: Scenario,
    settings: Mapping[str, Any],
    plans: list[str],
    size: int,
    more: Mapping[str, str] = MappingProxyType({}),
) -> LiveScenario:
    """Return the scenario of those of the plans that can be laid out; `more`: plans in words, beside the scenario's."""
    left_out: dict[str, str] = {}
    while True:
        document = without_comparisons(base.document, plans)
        document["plans"] = {**document["plans"], **more}
        try:
            scenario = scenario_of(document, base.where, settings, tuple(plans), (size,))
        except InputError as error:
            name = str(error.key[1]) if error.key[:1] == ("plans",) and len(error.key) > 1 else ""
            if name == GRID:
                raise InputError(error.below(("plans", GRID)), where=GRID) from None
            if name not in plans or len(plans) == 1:
                raise error.outside(base.where) from None
            plans = [plan for plan in plans if plan != name]
            left_out[name] = error.below(("plans", name))
        else:
            return LiveScenario(scenario=scenario, left_out=left_out)


def scenario_file(base: Scenario, controls: Sequence[Control], state: LiveState) -> str:
    """Return the scenario with the values of all moved controls as the text of a scenario file, with a comment on its
    origin."""
    beside = comment(f"Saved by simfrontier serve from {base.where}; the files that it names are beside that one.")
    return f"{beside}\n{toml_document(laid_out(base, controls, state).scenario.document)}"
