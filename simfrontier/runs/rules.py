"""Rules of reading: what the texts of a published run mean as keys of a scenario, one rule a line of a TOML file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, Self

from pydantic import AfterValidator, Field, model_validator

from simfrontier.io import Strict, Text, read_toml, typed
from simfrontier.records import dataclass
from simfrontier.runs.table import COLUMNS, OPTIONAL, Run

RULES: Final = Path(__file__).parent / "readings.toml"
UNKNOWN: Final = 0.05  # spread of a step by one thing that is not told, where a rule says nothing else
_NUMBER: Final = re.compile(r"[0-9][0-9,]*")
_FRACTION: Final = re.compile(r"[0-9]+\.[0-9]+|[0-9.]+e[0-9]+")


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"a regular expression, got {text!r}: {error}") from None
    return text


Pattern = Annotated[str, AfterValidator(_pattern)]


class Rule(Strict):
    """Where every pattern of `where` (column → regular expression) is found in a run, `set` gives values to keys of a
    scenario; named groups of the patterns stand in braces. `assumed`: what the source does not tell and this rule
    takes as given, with the standard deviation of the logarithm of the step that this means (`spread`). `refused`: why
    such a run cannot be expressed."""

    where: dict[str, Pattern] = Field(default_factory=dict)
    set: dict[str, str | int | float | bool] = Field(default_factory=dict)
    assumed: Text | None = None
    spread: Annotated[float, Field(gt=0)] = UNKNOWN
    refused: Text | None = None

    @model_validator(mode="after")
    def _known(self) -> Self:
        for column in self.where:
            if column not in (*COLUMNS, *OPTIONAL):
                raise ValueError(f"where: a column of the table, got {column!r}; allowed: {', '.join(COLUMNS)}")
        return self

    def found(self, run: Run) -> Mapping[str, str] | None:
        """The named groups where the rule holds; None where it does not."""
        groups: dict[str, str] = {}
        for column, pattern in self.where.items():
            match = re.search(pattern, run[column], re.IGNORECASE)
            if match is None:
                return None
            groups.update({name: text or "" for name, text in match.groupdict().items()})
        return groups


class RulesFile(Strict):
    """A file of rules, in the order in which they are tried: of two that set one key, the first one holds."""

    rules: Annotated[list[Rule], Field(min_length=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """What a source does not tell of a run and is taken as given, in words, and the standard deviation of the logarithm
    of the step that this means."""

    text: str
    spread: float = UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What rules make of a run: values of keys, what of them is assumed, and why it cannot be expressed (empty: it
    can)."""

    values: Mapping[str, Any]
    assumed: tuple[Unknown, ...]
    refused: str = ""


@cache
def load_rules(path: Path = RULES) -> tuple[Rule, ...]:
    """The rules of a file. Raises InputError."""
    return tuple(typed(read_toml(path, "readings"), RulesFile, str(path)).rules)


def told(run: Run, rules: Sequence[Rule]) -> Told:
    """What rules make of a run."""
    values: dict[str, Any] = {}
    assumed: list[Unknown] = []
    for rule in rules:
        groups = rule.found(run)
        if groups is None:
            continue
        if rule.refused is not None:
            return Told(values={}, assumed=(), refused=rule.refused)
        new = {key: value for key, value in rule.set.items() if key not in values}
        if not new and rule.set:
            continue
        for key, value in new.items():
            values[key] = _value(value.format(**groups)) if isinstance(value, str) else value
        if rule.assumed is not None:
            assumed.append(Unknown(text=rule.assumed, spread=rule.spread))
    return Told(values=values, assumed=tuple(assumed))


def _value(text: str) -> Any:
    if _NUMBER.fullmatch(text):
        return int(text.replace(",", ""))
    return float(text) if _FRACTION.fullmatch(text) else text
