"""Filters of a study: conditions on the keys of a point, in a small part of Python's syntax.

Numbers, texts, true and false; keys; + - * / // %, comparisons, `in` a list, `and`, `or`, `not`; `min`, `max`, `abs`.
A key is written as it is (`training.micro_batch`), or, where it has hyphens, as `key("plans.zero-topo.publish")`. All
other syntax is refused when a filter is read, before anything is evaluated.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import CodeType
from typing import Any, Final

from simfrontier.answers.sweep.keys import key_names
from simfrontier.base.errors import InputError, shown, unknown

Lookup = Callable[[str], Any]  # of a key; raises KeyError where nobody knows it
WORDS: Final[Mapping[str, Any]] = {"true": True, "false": False, "min": min, "max": max, "abs": abs}
FUNCTIONS: Final = ("min", "max", "abs")
MOST_CHARACTERS: Final = 1_000
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
    """A condition on keys. `names`: key → its name in `code`."""

    text: str
    names: Mapping[str, str]
    code: CodeType

    def holds(self, lookup: Lookup) -> bool:
        """Return whether a point meets the condition. Raises InputError where it cannot be evaluated for one."""
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
    """Return the filter that a text means. Raises InputError."""
    if len(text) > MOST_CHARACTERS:
        raise InputError(f"got {len(text):,} characters in a filter; allowed: at most {MOST_CHARACTERS:,}")
    names = _Names()
    try:
        with warnings.catch_warnings(action="ignore"):  # Python's own on dubious syntax
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
        raise InputError(unknown(key, key_names())) from None


class _Names(ast.NodeTransformer):
    """Replaces keys by names of Python, `of` each key. Raises InputError for syntax that filters do not have."""

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
    """Whether a part of a filter, which is no key, is of its syntax: there is no arithmetic with lists and texts."""
    match node:
        case ast.Constant(value=value):
            return isinstance(value, bool | int | float | str)
        case ast.Call(func=function, keywords=keywords):
            return isinstance(function, ast.Name) and function.id in FUNCTIONS and not keywords
        case ast.BinOp(left=left, right=right):
            texts = (isinstance(each, ast.Constant) and isinstance(each.value, str) for each in (left, right))
            return not any(texts) and not any(isinstance(each, ast.List | ast.Tuple) for each in (left, right))
    return isinstance(node, PARTS)


def _key(node: ast.AST) -> str | None:
    """The key that a part of a filter is, if it is one."""
    match node:
        case ast.Name(id=name) if name not in WORDS:
            return name
        case ast.Attribute(value=value, attr=name):
            before = _key(value)
            return None if before is None else f"{before}.{name}"
        case ast.Call(func=ast.Name(id="key"), args=[ast.Constant(value=str() as name)], keywords=[]):
            return name
    return None
