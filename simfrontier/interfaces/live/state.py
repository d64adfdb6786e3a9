"""Controls of the live page and their positions, expressed as a link, as settings of a scenario, and as a scenario
file."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from simfrontier.base.errors import InputError, nearest
from simfrontier.base.io import comment, toml_document
from simfrontier.core.collectives import environments_of
from simfrontier.core.machine.stack import NONE, stacks_of
from simfrontier.inputs.scenario import Scenario, path_of, scenario_of, without_comparisons
from simfrontier.interfaces.report.phrases import quantity

DEVICES: Final = "run.devices"
SLOW: Final = "perturbation.slow"
OVERRIDES: Final = "library.overrides."
SHARE: Final = OVERRIDES + "shares.nic"
HOP: Final = OVERRIDES + "ring.hop_between_nodes_s"
LIBRARYS: Final = "the library's"  # until an answer says how much that is
Kind = Literal["slider", "switch", "choice"]
_NIC_SHARES: Final = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
_FACTORS: Final = (0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0)
_COUNTS: Final = (1, 2, 4, 8)
_SLOW: Final = (1.0, 0.95, 0.9, 0.8, 0.7, 0.5, 0.3)
PLAN = "plan"  # in a link: the plan whose step is shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """A control of the page, for one setting. `values`: the possible values in the order of the slider, with a text for
    each in `words`; `at`: the index of the scenario's own value (the value None: the library's own)."""

    key: str
    label: str
    kind: Kind
    values: tuple[Any, ...]
    words: tuple[str, ...]
    at: int

    def place(self, places: Mapping[str, int]) -> int:
        """Return the index of this control's position, from the moved positions `places` or the scenario's own."""
        return places.get(self.key, self.at)


def controls_of(scenario: Scenario) -> tuple[Control, ...]:
    """Return the controls of a scenario, in the order of the page. Controls without any effect are left out, and those
    of settings that the scenario sets separately for each size."""
    by_size = list(scenario.document.get("at", {}).values())
    found = [control for control in _all(scenario) if len(control.values) > 1]
    return tuple(control for control in found if not any(has(table, path_of(control.key)) for table in by_size))


def has(table: Any, path: Sequence[str]) -> bool:
    """Return whether a table of a document has a value at that path of keys."""
    return not path or (isinstance(table, Mapping) and path[0] in table and has(table[path[0]], path[1:]))


def _all(scenario: Scenario) -> Iterator[Control]:
    file, device = scenario.file, scenario.machine.device_word
    sizes = tuple(sorted(file.run.devices))
    yield _control(DEVICES, f"{device}s", "slider", sizes, [f"{size:,}" for size in sizes], max(sizes))
    if file.training.batch is None:
        for key, label in (("micro_batch", "micro-batch per " + device), ("grad_accum", "accumulation steps")):
            own = getattr(file.training, key)
            values = tuple(sorted({*_COUNTS, own}))
            yield _control(f"training.{key}", label, "slider", values, [str(value) for value in values], own)
    levels = ("full", "selective", "none")
    yield _control(
        "model.checkpointing", "activation checkpointing", "choice", levels, levels, file.model.checkpointing
    )
    overlap = "engine.overlap", "overlap of communication and computation"
    yield _control(*overlap, "switch", (False, True), ("off", "on"), file.engine.overlap)
    library, given = scenario.library.name, file.library.name
    found = tuple(
        dict.fromkeys([given or library, scenario.machine.library, *environments_of(scenario.machine.library)])
    )
    yield _control("library.name", "state of the collective library", "choice", found, found, given or library)
    known = {each.key: each.value for each in scenario.library.provenance()}
    hop = float(known.get(HOP.removeprefix(OVERRIDES), 0.0))
    if max(sizes) > scenario.machine.devices_per_node:
        if SHARE.removeprefix(OVERRIDES) in known:
            words = [f"{100 * value:.3g} %" for value in _NIC_SHARES]
            yield _control(
                *(SHARE, "NIC efficiency of collectives", "slider", (None, *_NIC_SHARES)),
                *([LIBRARYS, *words], None),
            )
        if hop > 0.0:
            hops = tuple(factor * hop for factor in _FACTORS)
            words = [LIBRARYS, *(quantity(value, "s") for value in hops)]
            yield _control(HOP, "latency of a hop between nodes", "slider", (None, *hops), words, None)
    of_plans = {name: stacks_of(plan.family) for name, plan in scenario.plans.items()}
    stacks = tuple(dict.fromkeys([file.stack or "", NONE, *(name for names in of_plans.values() for name in names)]))
    words = [
        _stack_words(name, [plan for plan, names in of_plans.items() if name in names], of_plans) for name in stacks
    ]
    yield _control("stack", "software stack", "choice", stacks, words, file.stack or "")
    if not file.perturbation.slow:
        words = ["none", *(f"at {100 * value:g} % speed" for value in _SLOW[1:])]
        yield _control(SLOW, f"a slow {device} (the first)", "slider", _SLOW, words, 1.0)


def _control(key: str, label: str, kind: Kind, values: Sequence[Any], words: Sequence[str], own: Any) -> Control:
    return Control(
        key=key, label=label, kind=kind, values=tuple(values), words=tuple(words), at=list(values).index(own)
    )


def _stack_words(name: str, runs: Sequence[str], plans: Collection[str]) -> str:
    """Return the name of a software stack, followed by the plans that it runs unless these are all; the other plans are
    simulated as if it ran them. An empty name means that the scenario names no stack."""
    if not name:
        return "of each plan: what people run it with"
    if name == NONE:
        return "none: kernels as fused as the model"
    return name if len(runs) in (0, len(plans)) else f"{name} (runs {', '.join(runs)})"


def own_words(scenario: Scenario) -> dict[str, str]:
    """Return the library's own values as text, by the leading part of the controls' keys."""
    known = {each.key: float(each.value) for each in scenario.library.provenance()}
    share, hop = known.get(SHARE.removeprefix(OVERRIDES)), known.get(HOP.removeprefix(OVERRIDES))
    words = {SHARE: None if share is None else f"{100 * share:.3g} %", HOP: None if hop is None else quantity(hop, "s")}
    return {key: f"{LIBRARYS}: {text}" for key, text in words.items() if text is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveState:
    """State of the page: the value index of every control that was moved, by its key, and the plan that is shown
    (empty: the fastest)."""

    places: Mapping[str, int]
    plan: str = ""


def state_of(query: Mapping[str, str], controls: Sequence[Control], plans: Sequence[str]) -> LiveState:
    """Parse the query string of a link, which has the text of each moved control's value by its key. Raises
    InputError."""
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
    """Return a value as text for a link."""
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)


def scenario_at(base: Scenario, controls: Sequence[Control], state: LiveState) -> Scenario:
    """Return the scenario with the values of all moved controls, at one size. Raises InputError if it is invalid."""
    values = {control.key: control.values[state.places.get(control.key, control.at)] for control in controls}
    size = values.pop(DEVICES, max(base.file.run.devices))
    settings = {key: values[key] for key in state.places if key in values}
    if SLOW in settings:
        settings[SLOW] = [{"device": 0, "factor": settings[SLOW]}]
    document = without_comparisons(base.document, base.plans)
    return scenario_of(document, base.where, settings, tuple(base.plans), (size,))


def scenario_file(base: Scenario, controls: Sequence[Control], state: LiveState) -> str:
    """Return the scenario with the values of all moved controls as the text of a scenario file, with a comment on its
    origin."""
    beside = comment(f"Saved by simfrontier serve from {base.where}; the files that it names are beside that one.")
    return f"{beside}\n{toml_document(scenario_at(base, controls, state).document)}"
