"""Scenario keys as axes of a study: their types and their values at a point; and filters, which are conditions on the
keys of a point.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any, Final, TypeAlias

from simfrontier.base.errors import InputError, shown, unknown
from simfrontier.base.units import unit_of
from simfrontier.inputs.scenario import Scenario, ScenarioKey, known_keys, path_of

Settings: TypeAlias = Mapping[str, Any]  # of a point: dotted key → value


def is_whole(key: str) -> bool:
    """Return whether a key holds a whole number."""
    if _is_of_a_file(path_of(key)):
        return unit_of(key) == "count"
    form = _form_of(key)
    return form is not None and form.is_whole


def put(settings: Settings) -> dict[str, Any]:
    """Return settings in the form that a scenario takes: for a key that holds a list, a single value becomes a list."""
    return {
        key: [value] if not isinstance(value, list) and (form := _form_of(key)) is not None and form.is_list else value
        for key, value in settings.items()
    }


def _form_of(key: str) -> ScenarioKey | None:
    parts = _at_any_size(key)
    if parts[0] == "plans" and len(parts) > 2:
        parts = ["plans", "NAME", *parts[2:]]
    return known_keys().get(".".join(parts))


def is_of_plan(key: str, plan: str) -> bool:
    """Return whether a setting affects a plan; only settings of another plan do not."""
    parts = _at_any_size(key)
    return parts[0] != "plans" or len(parts) < 3 or parts[1] in ("*", plan)


def _at_any_size(key: str) -> list[str]:
    """Return the parts of a key, without a leading `at.SIZE.`."""
    parts = key.split(".")
    return parts[2:] if parts[0] == "at" and len(parts) > 2 else parts


def value_of(scenario: Scenario, settings: Settings, key: str) -> Any:
    """Return the value of a key at a point: from its settings, from the scenario, or the default. Raises KeyError if
    there is none.
    """
    path = path_of(key)
    of_plan = path[0] == "plans" and len(path) > 2
    same = (key, ".".join(("plans", "*", *path[2:]))) if of_plan else (key,)
    for name in reversed(list(settings)):  # of two that set it, the last one does
        if name in same:
            return _plain(settings[name])
    if key == "scenario":
        return scenario.name
    if of_plan:
        return _followed(scenario.plans[path[1]], path[2:], key)
    if _is_of_a_file(path):
        thing = scenario.machine if path[0] == "machine" else scenario.library
        return {each.key: each.value for each in thing.provenance()}[path[2]]
    return _followed(scenario.file, path, key)


def _followed(value: Any, path: Sequence[str], key: str) -> Any:
    """Return the value at a path of a table. Raises KeyError if there is none."""
    for part in path:
        fields = getattr(type(value), "model_fields", None) or getattr(type(value), "__dataclass_fields__", {})
        if part not in fields:
            raise KeyError(key)
        value = getattr(value, part)
    if value is None or isinstance(value, bool | int | float | str | list | tuple):
        return "" if value is None else _plain(value)
    raise KeyError(key)


def _is_of_a_file(path: Sequence[str]) -> bool:
    """Return whether a key overrides a number of a machine or library file."""
    return len(path) == 3 and path[0] in ("machine", "library") and path[1] == "overrides"


def _plain(value: Any) -> Any:
    """Return a value as used in filters: a list with one entry is replaced by the entry."""
    if isinstance(value, list | tuple):
        return value[0] if len(value) == 1 else list(value)
    return value


Lookup = Callable[[str], Any]  # of a key; raises KeyError where nobody knows it
WORDS: Final[Mapping[str, Any]] = {"true": True, "false": False, "min": min, "max": max, "abs": abs}
FUNCTIONS: Final = ("min", "max", "abs")
OPERATORS: Final = (
    *(ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.USub, ast.UAdd),
    *(ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.In, ast.NotIn, ast.And, ast.Or, ast.Not),
)
PARTS: Final = (
    *(ast.Constant, ast.Name, ast.Load, ast.List, ast.Tuple, ast.Call),
    *(ast.BoolOp, ast.UnaryOp, ast.BinOp, ast.Compare, *OPERATORS),
)
ALLOWED: Final = "numbers, texts, keys, + - * / // %, comparisons, in, and, or, not, min, max, abs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """A condition on keys, in a small part of Python's syntax: numbers, texts, true and false; keys; + - * / // %,
    comparisons, `in` a list, `and`, `or`, `not`; `min`, `max`, `abs`.

    A key is written as it is (`training.micro_batch`), or, where it has hyphens, as `key("plans.zero-topo.publish")`.
    All other syntax is refused when a filter is read, before anything is evaluated. `names`: key → its name in `code`.
    """

    text: str
    names: Mapping[str, str]
    code: CodeType

    def holds(self, lookup: Lookup) -> bool:
        """Return whether a point meets the condition. Raises InputError if the condition cannot be evaluated for the
        point.
        """
        values = {name: _value(lookup, key) for key, name in self.names.items()}
        try:
            answer = eval(self.code, {"__builtins__": {}, **WORDS}, values)  # `_Names` allowed every part of it
        except (ArithmeticError, TypeError, ValueError) as error:
            text = f"{shown(self.text)}: {error}; allowed: what can be computed for every point"
            raise InputError(text) from None
        if not isinstance(answer, bool):
            raise InputError(f"{shown(self.text)} gives {shown(answer)}; allowed: a condition, true or false")
        return answer


def parse_filter(text: str) -> Filter:
    """Parse the text of a filter. Raises InputError."""
    names = _Names()
    try:
        tree = ast.parse(text.strip(), mode="eval")
        tree.body = names.visit(tree.body)
        code = compile(tree, "filter", "eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise InputError(f"{shown(text)} cannot be read; allowed: {ALLOWED}") from None
    return Filter(text=text, names=names.of, code=code)


def refuse_unknown(filters: tuple[Filter, ...], lookup: Lookup) -> None:
    """Raise InputError for a key in a filter that no point has."""
    for number, each in enumerate(filters):
        for key in each.names:
            try:
                _value(lookup, key)
            except InputError as error:
                raise InputError(error.what, key=("filters", number)) from None


def _value(lookup: Lookup, key: str) -> Any:
    try:
        return lookup(key)
    except KeyError:
        raise InputError(unknown(key, ["scenario", *known_keys()])) from None


class _Names(ast.NodeTransformer):
    """Replaces scenario keys in a filter by Python names. Raises InputError for syntax that filters do not allow."""

    def __init__(self) -> None:
        self.of: dict[str, str] = {}

    def visit(self, node: ast.AST) -> Any:
        key = _key(node)
        if key is not None:
            name = self.of.setdefault(key, f"key_{len(self.of)}")
            return ast.copy_location(ast.Name(id=name, ctx=ast.Load()), node)
        if not _is_allowed(node):
            raise InputError(f"got {shown(ast.unparse(node) or type(node).__name__)}; allowed: {ALLOWED}")
        return self.generic_visit(node)


def _is_allowed(node: ast.AST) -> bool:
    """Return whether a node of a filter, other than a key, is part of the filter syntax."""
    match node:
        case ast.Constant(value=value):
            return isinstance(value, bool | int | float | str)
        case ast.Call(func=function, keywords=keywords):
            return isinstance(function, ast.Name) and function.id in FUNCTIONS and not keywords
    return isinstance(node, PARTS)


def _key(node: ast.AST) -> str | None:
    """Return the scenario key that a node of a filter's syntax tree denotes; None if it is not a key."""
    match node:
        case ast.Name(id=name) if name not in WORDS:
            return name
        case ast.Attribute(value=value, attr=name):
            before = _key(value)
            return None if before is None else f"{before}.{name}"
        case ast.Call(func=ast.Name(id="key"), args=[ast.Constant(value=str() as name)], keywords=[]):
            return name
    return None
