"""Rules that translate the texts of a published run into keys of a scenario."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, Field

from simfrontier.answers.accuracy.published_runs.table import Run
from simfrontier.base.io import Strict, Text, read_toml, typed
from simfrontier.core.workload import GptShape, find_model

# What texts of plans turn on by its name; of two that begin alike the longer one stands first.
_FLAGS: Final = (
    r"(?:Megatron[- _]?)?FSDP(?:[12]\b)?",
    *("HSDP", "FULL_SHARD", "HYBRID_SHARD", "SHARD_GRAD_OP", "fully_shard", "MiCS", "DDP"),
    *(r"ZeRO\+\+", r"ZeRO-?Infinity", r"ZeRO(?:[-_ ]*stage)?(?:[-_ =]*[1-3])?[-_ ]*", "qwZ", "hpZ", "qgZ"),
    r"(?:use[-_ ])?dist(?:ributed)?[-_ ]?opt(?:imi[sz]er)?",
    r"optimi[sz]er[-_ ](?:state[-_ ])?shard(?:s|ing)",
    *(r"async(?:hronous)?[-_ ]?TP", r"(?:TP|tensor[-_ ]parallel)[-_ ](?:comm\w*[-_ ]?)?overlap", r"TP[-_ ]comm"),
    *(rf"{axis}[-_ ]parallel(?:ism)?" for axis in ("sequence", "context", "expert", "tensor", "model", "pipeline")),
    *(
        "SP",
        "CP",
        "EP",
        "TP",
        "MP",
        "PP",
        r"interleav(?:ed|ing|e)?(?:[-_ ](?:1F1B|pipeline|schedule))?",
        "zbv",
        "looped",
    ),
    *(r"(?:CPU|optimi[sz]er|activation|parameter|NVMe)?[-_ ]?off-?load(?:ing)?", "NVMe", "QLoRA", "LoRA"),
    *(r"(?:torch[-_. ])?compile", r"Float ?8", "fp8", r"flash(?:[-_ ]?att(?:entio)?n)?"),
)
_DEGREES: Final = (  # of which 1 is none, too
    *(r"dp[-_]shard(?:[-_]degree)?", r"data[-_]parallel[-_]shard(?:[-_]degree)?", "Ulysses"),
    *("vpp?", r"virtual[-_ ](?:pipeline[-_ ]?)?(?:parallel\w*|stages?|size|degree)?"),
)
_DEGREE: Final = rf"(?:{'|'.join(_DEGREES)})"
_FLAG: Final = rf"(?<![a-z])(?:{'|'.join(_FLAGS)}|{_DEGREE})(?![a-z])"
_END: Final = r"(?=\s*(?:[,;)+|]|$))"  # of a part of a text
_OFF: Final = (
    r"(?:[-_]?0+(?:\.0+)?(?![\d.-])|(?:off|none|false|disabled|unused|not (?:used|enabled)|n/?a)(?!\w)"
    rf"|no(?:{_END}|(?=\s+{_FLAG}[\s=:]*[1-9]))|[-–—✗]{_END}|(?<=[=:])\s*{_END})"
)
_SIZE: Final = r"(?:[-_ ](?:size|degree))"


@cache  # compiled when the first run is read, not when the module is imported
def _turned_off() -> tuple[re.Pattern[str], ...]:
    """Return the patterns of flags that words before them, or behind them, turn off."""
    patterns = (
        rf"(?<!\w)(?<!\w-)(?:no|non|without|w/o|not|disabled?)[\s-]+{_FLAG}(?:\s*(?:/|\bn?or\b|\band\b)\s*{_FLAG})*(?![\s=:]*[1-9])",
        rf"{_FLAG}{_SIZE}?[\s=:(]{{0,4}}(?:(?:is|turned|switched|set to) )?{_OFF}"
        rf"|(?<![a-z])(?:{_DEGREE}{_SIZE}?|{_FLAG}{_SIZE})[\s=:(]{{0,4}}1(?![\d.])",
    )
    return tuple(re.compile(each, re.IGNORECASE) for each in patterns)


def without_off(text: str) -> tuple[str, str]:
    """Split a text into the part without the flags that it turns off, and the text of those flags."""
    off: list[str] = []

    def taken(match: re.Match[str]) -> str:
        off.append(match[0])
        return " "

    left = " ".join(text.split())
    for pattern in _turned_off():
        left = pattern.sub(taken, left)
    return left, "; ".join(off)


RULES: Final = Path(__file__).parent / "readings.toml"
OFF: Final = "off"  # beside the columns: the flags that plan and precision turn off, which these do not hold then
UNKNOWN: Final = 0.05  # spread of a step by one thing that is not told, where a rule says nothing else
_BILLIONS: Final = re.compile(  # 13 B, (13B), 13 billion parameters
    r"\(?(?<![\w.])(\d+(?:\.\d+)?)(?: ?billion(?: parameters)?| ?B\b)\)?", re.IGNORECASE
)
_NUMBER: Final = re.compile(r"[0-9][0-9,]{0,17}")
_FRACTION: Final = re.compile(r"[0-9]+\.[0-9]+|[0-9]*\.?[0-9]+e[0-9]+")


def _compiled(pattern: object) -> re.Pattern[str]:
    """Return the compiled pattern, which ignores case: `re` keeps fewer patterns than there are rules. Raises
    ValueError for what is no regular expression."""
    try:
        return re.compile(str(pattern), re.IGNORECASE)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from error


def _named(shape: str) -> str:
    """Return the name of a GPT of the catalog. Raises ValueError for another name."""
    if not isinstance(find_model(shape), GptShape):
        raise ValueError("a model of the catalog that is no GPT")
    return shape


Keys = dict[str, str | int | float | bool | list[str]]
Pattern = Annotated[re.Pattern[str], BeforeValidator(_compiled)]


class Tables(Strict):
    """Values that rules set, by table and key: tables of a scenario, the unit of the run's value (`rate`), the network
    of its nodes, the grid that divides the job (`grid`), and other facts that the source states.
    """

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


class Matched(Strict):
    """What is said of the runs in which all patterns of `where` (column → regular expression) are found."""

    where: dict[str, Pattern] = Field(default_factory=dict)

    def found(self, run: Run) -> Mapping[str, str] | None:
        """Return the named groups if all patterns match the run, else None."""
        groups: dict[str, str] = {}
        for column, pattern in self.where.items():
            match = pattern.search(run[column])
            if match is None:
                return None
            groups.update({name: text or "" for name, text in match.groupdict().items()})
        return groups


class Rule(Matched):
    """A rule: of the runs that it matches, `set` gives values to keys; `{name}` in a value stands for a named group of
    the patterns. `shape`: name of a model of the catalog, all of whose sizes and traits but the length of its sequences
    are given to `model`, unless `set` has another. `assumed`: an assumption of this rule about something the source
    does not state, with the resulting standard deviation of the logarithm of the step time (`spread`). `refused`: why
    such a run cannot be expressed as a scenario.
    """

    set: Tables = Tables()
    shape: Annotated[str, AfterValidator(_named)] | None = None
    assumed: Text | None = None
    spread: Annotated[float, Field(gt=0)] = UNKNOWN
    refused: Text | None = None


class RulesFile(Strict):
    """A file of rules in the order in which they are tried: if two rules set the same key, the first one wins."""

    rules: Annotated[list[Rule], Field(min_length=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """Text of an assumption about a run that its source does not state, and the resulting standard deviation of the
    logarithm of the step time.
    """

    text: str
    spread: float = UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """Result of applying the rules to a run: values of keys by table, the assumptions, and the reason why the run
    cannot be expressed as a scenario (empty if it can).
    """

    values: Mapping[str, Mapping[str, Any]]
    assumed: tuple[Unknown, ...]
    refused: str = ""

    def table(self, name: str) -> dict[str, Any]:
        """Return the values of one table's keys."""
        return dict(self.values.get(name, {}))


@cache
def load_rules() -> tuple[Rule, ...]:
    """Return the shipped rules. Raises InputError."""
    return tuple(typed(read_toml(RULES, "readings"), RulesFile, str(RULES)).rules)


def told(run: Run, rules: Sequence[Rule]) -> Told:
    """Apply the rules to a run. Flags that the run turns off appear in the column `off` and are removed from all
    others.
    """
    run = _with_flags(run)
    values: dict[str, dict[str, Any]] = {}
    assumed: list[Unknown] = []
    for rule in rules:
        groups = rule.found(run)
        if groups is None:
            continue
        if rule.refused is not None:
            return Told(values={}, assumed=(), refused=rule.refused)
        given: list[tuple[str, str, Any]] = [("model", key, value) for key, value in _of_shape(rule.shape)]
        given += [(table, key, value) for table, keys in rule.set for key, value in keys.items()]
        new = [each for each in given if each[1] not in values.get(each[0], {})]
        if given and not new:
            continue
        for table, key, value in new:
            read = _value(value.format(**groups)) if isinstance(value, str) else value
            values.setdefault(table, {})[key] = read
        if rule.assumed is not None:
            assumed.append(Unknown(text=rule.assumed, spread=rule.spread))
    return Told(values=values, assumed=tuple(assumed))


def _of_shape(name: str | None) -> Iterator[tuple[str, Any]]:
    """Yield keys and values of a model of the catalog, those among them that are not set; nothing for None."""
    shape = None if name is None else find_model(name)
    for each in () if shape is None else fields(shape):
        if each.name not in ("name", "source", "sequence"):
            yield each.name, getattr(shape, each.name)


def _with_flags(run: Run) -> Run:
    read = {column: without_off(run[column]) for column in ("plan", "precision", "notes")}
    on = {column: text for column, (text, _) in read.items()}
    off = "; ".join(read[column][1] for column in ("plan", "precision") if read[column][1])
    machine = run["machine_as_told"] or run["machine"]  # what a table without that column tells of it
    shape = _BILLIONS.sub(r"\1B", run["model_shape"])
    return replace(run, cells={**run.cells, **on, "model_shape": shape, "machine_as_told": machine, OFF: off})


def _value(text: str) -> Any:
    if _NUMBER.fullmatch(text):
        return int(text.replace(",", ""))
    return float(text) if _FRACTION.fullmatch(text) else text
