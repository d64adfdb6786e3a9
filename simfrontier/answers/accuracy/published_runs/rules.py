"""Rules of reading: what the texts of a published run mean as keys of a scenario, one rule a line of a TOML file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field

from simfrontier.answers.accuracy.published_runs.switches import without_off
from simfrontier.answers.accuracy.published_runs.table import Run
from simfrontier.base.io import Strict, Text, read_toml, typed

RULES: Final = Path(__file__).parent / "readings.toml"
OFF: Final = "off"  # beside the columns: the flags that plan and precision turn off, which these do not hold then
UNKNOWN: Final = 0.05  # spread of a step by one thing that is not told, where a rule says nothing else
_NUMBER: Final = re.compile(r"[0-9][0-9,]{0,17}")
_FRACTION: Final = re.compile(r"[0-9]+\.[0-9]+|[0-9]*\.?[0-9]+e[0-9]+")


def _compiled(pattern: str) -> str:
    """A pattern that compiles. Raises ValueError."""
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from error
    return pattern


Keys = dict[str, str | int | float | bool]
Pattern = Annotated[str, AfterValidator(_compiled)]


class Tables(Strict):
    """Values of keys: of the tables of a scenario, of what the value of a run counts (`rate`), of the network of its
    nodes, of what its scenario divides (`grid`), and of what its source states beside the value."""

    machine: Keys = Field(default_factory=dict)
    network: Keys = Field(default_factory=dict)
    library: Keys = Field(default_factory=dict)
    stack: Keys = Field(default_factory=dict)
    model: Keys = Field(default_factory=dict)
    training: Keys = Field(default_factory=dict)
    engine: Keys = Field(default_factory=dict)
    plan: Keys = Field(default_factory=dict)
    grid: Keys = Field(default_factory=dict)
    rate: Keys = Field(default_factory=dict)
    stated: Keys = Field(default_factory=dict)


class Rule(Strict):
    """Where every pattern of `where` (column → regular expression) is found in a run, `set` gives values to keys;
    named groups of the patterns stand in braces. `assumed`: what the source does not tell and this rule takes as given,
    with the standard deviation of the logarithm of the step that this means (`spread`). `refused`: why such a run
    cannot be expressed."""

    where: dict[str, Pattern] = Field(default_factory=dict)
    set: Tables = Tables()
    assumed: Text | None = None
    spread: Annotated[float, Field(gt=0)] = UNKNOWN
    refused: Text | None = None

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
    """Assumption about what a source does not tell of a run, in words, and the standard deviation of the logarithm of
    the step that it means."""

    text: str
    spread: float = UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """Result of the rules for a run: values of keys by table, what of them is assumed, and why it cannot be expressed
    (empty: it can)."""

    values: Mapping[str, Mapping[str, Any]]
    assumed: tuple[Unknown, ...]
    refused: str = ""

    def table(self, name: str) -> dict[str, Any]:
        """The values of one table's keys."""
        return dict(self.values.get(name, {}))


@cache
def load_rules(path: Path = RULES) -> tuple[Rule, ...]:
    """The rules of a file. Raises InputError."""
    return tuple(typed(read_toml(path, "readings"), RulesFile, str(path)).rules)


def told(run: Run, rules: Sequence[Rule]) -> Told:
    """Apply rules to a run; flags that are off are column `off`, and in no other one."""
    run = _with_flags(run)
    values: dict[str, dict[str, Any]] = {}
    assumed: list[Unknown] = []
    for rule in rules:
        groups = rule.found(run)
        if groups is None:
            continue
        if rule.refused is not None:
            return Told(values={}, assumed=(), refused=rule.refused)
        given = [(table, key, value) for table, keys in rule.set for key, value in keys.items()]
        new = [each for each in given if each[1] not in values.get(each[0], {})]
        if given and not new:
            continue
        for table, key, value in new:
            read = _value(value.format(**groups)) if isinstance(value, str) else value
            values.setdefault(table, {})[key] = read
        if rule.assumed is not None:
            assumed.append(Unknown(text=rule.assumed, spread=rule.spread))
    return Told(values=values, assumed=tuple(assumed))


def _with_flags(run: Run) -> Run:
    read = {column: without_off(run[column]) for column in ("plan", "precision", "notes")}
    on = {column: text for column, (text, _) in read.items()}
    off = "; ".join(read[column][1] for column in ("plan", "precision") if read[column][1])
    return replace(run, cells={**run.cells, **on, OFF: off})


def _value(text: str) -> Any:
    if _NUMBER.fullmatch(text):
        return int(text.replace(",", ""))
    return float(text) if _FRACTION.fullmatch(text) else text
