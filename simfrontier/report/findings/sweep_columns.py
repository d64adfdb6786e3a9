"""What the columns of a sweep's rows are: words and units for people, and which direction is better."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Final

from simfrontier.records import dataclass
from simfrontier.study import RESULTS, Better, Unit
from simfrontier.units import unit_of

if TYPE_CHECKING:
    from simfrontier.scenario import ScenarioKey

OF_POINT: Final = ("point", "digest", "scenario")
ERROR: Final = "error"  # why a row was refused
EXPOSED_SHARE: Final = "exposed_share"  # worked out here, of the step's time
_GENERAL: Final = ("machine.overrides.", "library.overrides.", "training.", "engine.", "run.", "model.", "plans.*.")
_UNITS: Final = (".bytes.per.s", ".flops.per.s", ".per.s", ".bytes", ".flops", ".s")  # ends of keys, _ as .


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """What numbers of a column are: in words, their unit, and whether less or more of it is better."""

    words: str
    unit: Unit
    better: Better = ""


QUANTITIES: Final[Mapping[str, Quantity]] = {
    **{column.name: Quantity(words=column.title, unit=column.unit, better=column.better) for column in RESULTS},
    EXPOSED_SHARE: Quantity(words="exposed, share of the step", unit="share", better="less"),
    ERROR: Quantity(words="why it was refused", unit="text"),
}
KNOWN: Final = (
    *dict.fromkeys((*OF_POINT, *(column.name for column in RESULTS))),
    ERROR,
)  # of every sweep, beside its axes


def axis_quantities(keys: Iterable[str], kinds: Mapping[str, Unit]) -> dict[str, Quantity]:
    """Axes in words, by key: the end of the key, or all of it where two axes end alike. `kinds`: of axes that are no
    numbers, text or truth."""
    keys = list(keys)
    short = {key: _words(_end(key)) for key in keys}
    told = {key: short[key] if list(short.values()).count(short[key]) == 1 else _words(key) for key in keys}
    return {key: Quantity(words=told[key], unit=kinds.get(key) or _unit(key)) for key in keys}


def sentence_of(key: str) -> str:
    """What a key of a scenario means; of numbers of machines and libraries, where they are told."""
    form = _form_of(key)
    if form is not None:
        return form.sentence
    owner = next((name for name in ("machine", "library") if key.startswith(f"{name}.overrides.")), "")
    return f"a number of the {owner}'s file" if owner else ""


def _form_of(key: str) -> ScenarioKey | None:
    parts = key.split(".")
    if parts[0] == "at" and len(parts) > 2:
        parts = parts[2:]
    if parts[0] == "plans" and len(parts) > 2:
        parts = ["plans", "NAME", *parts[2:]]
    return _forms().get(".".join(parts))


@cache
def _forms() -> Mapping[str, ScenarioKey]:
    from simfrontier.scenario import scenario_keys

    return {each.name: each for each in scenario_keys()}


def _end(key: str) -> str:
    return next((key.removeprefix(head) for head in _GENERAL if key.startswith(head)), key)


def _words(key: str) -> str:
    """`host.hook_s` is "host hook": the unit is said apart."""
    dotted = key.replace("_", ".")
    end = next((end for end in _UNITS if dotted.endswith(end) and dotted != end[1:]), "")
    return key[: len(key) - len(end)].replace("plans.", "").replace(".", " ").replace("_", " ")


def _unit(key: str) -> Unit:
    return unit_of(key) or "number"  # type: ignore[return-value]
