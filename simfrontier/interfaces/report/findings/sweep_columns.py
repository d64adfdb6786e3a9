"""The columns of a sweep's rows: those of results, and one for each axis, in words for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Final

from simfrontier.answers.study import RESULTS, Column, Unit
from simfrontier.base.units import unit_of

if TYPE_CHECKING:
    from simfrontier.inputs.scenario import ScenarioKey

ERROR: Final = "error"  # why a row was refused
EXPOSED_SHARE: Final = "exposed_share"  # worked out here, of the step's time
_GENERAL: Final = ("machine.overrides.", "library.overrides.", "training.", "engine.", "run.", "model.", "plans.*.")
_UNITS: Final = (".bytes.per.s", ".flops.per.s", ".per.s", ".bytes", ".flops", ".s")  # ends of keys, _ as .


def _column(name: str, title: str, unit: Unit, meaning: str = "") -> Column:
    return Column(name=name, title=title, unit=unit, meaning=meaning, of=None)


QUANTITIES: Final[Mapping[str, Column]] = {
    **{column.name: column for column in RESULTS},
    EXPOSED_SHARE: _column(EXPOSED_SHARE, "exposed, share of the step", "share"),
    ERROR: _column(ERROR, "why it was refused", "text"),
}


def axis_quantities(keys: Iterable[str], kinds: Mapping[str, Unit]) -> dict[str, Column]:
    """Axes in words, by key: the end of the key, or all of it where two axes end alike. `kinds`: of axes that are no
    numbers, text or truth."""
    keys = list(keys)
    short = [_words(next((key.removeprefix(head) for head in _GENERAL if key.startswith(head)), key)) for key in keys]
    titles = [words if short.count(words) == 1 else _words(key) for key, words in zip(keys, short, strict=True)]
    return {
        key: _column(key, title, kinds.get(key) or _unit(key), _meaning(key))
        for key, title in zip(keys, titles, strict=True)
    }


def _meaning(key: str) -> str:
    """Return the meaning of a key of a scenario; of numbers of machines and libraries, where they are told."""
    parts = key.split(".")
    if parts[0] == "at" and len(parts) > 2:
        parts = parts[2:]
    if parts[0] == "plans" and len(parts) > 2:
        parts = ["plans", "NAME", *parts[2:]]
    known = _forms().get(".".join(parts))
    if known is not None:
        return known.sentence
    is_override = parts[0] in ("machine", "library") and parts[1:2] == ["overrides"]
    return f"a number of the {parts[0]}'s file" if is_override else ""


@cache
def _forms() -> Mapping[str, ScenarioKey]:
    from simfrontier.inputs.scenario import scenario_keys

    return {each.name: each for each in scenario_keys()}


def _words(key: str) -> str:
    """`host.hook_s` is "host hook": the unit is said apart."""
    dotted = key.replace("_", ".")
    end = next((end for end in _UNITS if dotted.endswith(end) and dotted != end[1:]), "")
    return key[: len(key) - len(end)].replace("plans.", "").replace(".", " ").replace("_", " ")


def _unit(key: str) -> Unit:
    return unit_of(key) or "number"  # type: ignore[return-value]
