"""Filters of a study: conditions on the keys of a point, as a small language that is read and never executed.

Python's own syntax, of which little is taken: numbers, texts, true and false; keys; + - * / // %, comparisons, `in` a
list, `and`, `or`, `not`; `min`, `max`, `abs`. A key is written as it is (`training.micro_batch`), or, where it has
hyphens, as `key("plans.zero-topo.publish")`. What is taken cannot grow beyond its text, as powers would.
"""

from __future__ import annotations

import ast
import operator
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Final

from simfrontier.errors import InputError, shown, unknown
from simfrontier.limits import FILTER, FILTER_PARTS
from simfrontier.records import dataclass

Lookup = Callable[[str], Any]  # of a key; raises KeyError where nobody knows it
WORDS: Final[Mapping[str, bool]] = {"true": True, "false": False, "True": True, "False": False}
KEY: Final = "key"
FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {"min": min, "max": max, "abs": abs}
ARITHMETIC: Final[Mapping[type[ast.AST], Callable[[Any, Any], Any]]] = {
    **{ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv},
    **{ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod},
}
ORDERS: Final[Mapping[type[ast.AST], Callable[[Any, Any], bool]]] = {
    **{ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge}
}
EQUALS: Final[Mapping[type[ast.AST], Callable[[Any, Any], bool]]] = {ast.Eq: operator.eq, ast.NotEq: operator.ne}
ALLOWED: Final = "numbers, texts, keys, + - * / // %, comparisons, in, and, or, not, min, max, abs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """A condition, and the keys that it looks at."""

    text: str
    tree: ast.expr
    keys: tuple[str, ...]

    def holds(self, lookup: Lookup) -> bool:
        """Whether a point is in the study. Raises InputError for what is no condition of it."""
        answer = _value(self.tree, lookup)
        if not isinstance(answer, bool):
            raise InputError(f"{shown(self.text)} gives {shown(answer)}; allowed: a condition, true or false")
        return answer


def parse_filter(text: str) -> Filter:
    """The filter that a text means. Raises InputError."""
    if fault := FILTER.fault(len(text)):
        raise InputError(fault)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of texts that a reader of programs would wonder about
            tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        at = f" at character {error.offset}" if error.offset else ""
        raise InputError(f"{shown(text)} cannot be read{at}; allowed: {ALLOWED}") from None
    except (ValueError, RecursionError, MemoryError):
        raise InputError(f"{shown(text)} cannot be read; allowed: {ALLOWED}") from None
    if fault := FILTER_PARTS.fault(sum(1 for _ in ast.walk(tree))):
        raise InputError(fault)
    _refuse_others(tree)
    return Filter(text=text, tree=tree, keys=tuple(dict.fromkeys(_keys(tree))))


def _refuse_others(node: ast.expr) -> None:
    """Raise InputError for a part of Python that is no part of this language."""
    match node:
        case ast.Constant(value=bool() | int() | float() | str()):
            return
        case ast.Name():  # a key, true or false
            return
        case _ if _key(node) is not None:
            return
        case ast.BinOp(left=left, op=op, right=right) if type(op) in ARITHMETIC:
            inner = [left, right]
        case ast.BoolOp(values=values):
            inner = values
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.UAdd(), operand=operand):
            inner = [operand]
        case ast.Compare(left=left, ops=ops, comparators=others) if all(map(_is_comparison, ops)):
            inner = [left, *others]
        case ast.List(elts=inner) | ast.Tuple(elts=inner):
            pass
        case ast.Call(func=ast.Name(id=name), args=[_, *_] as inner, keywords=[]) if name in FUNCTIONS:
            pass
        case _:
            raise InputError(f"got {shown(ast.unparse(node))}; allowed: {ALLOWED}")
    for each in inner:
        _refuse_others(each)


def _is_comparison(op: ast.cmpop) -> bool:
    return type(op) in ORDERS or type(op) in EQUALS or isinstance(op, ast.In | ast.NotIn)


def _key(node: ast.expr) -> str | None:
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


def _keys(tree: ast.expr) -> list[str]:
    key = _key(tree)
    if key is not None:
        return [key]
    inner = tree.args if isinstance(tree, ast.Call) else ast.iter_child_nodes(tree)
    return [each for node in inner if isinstance(node, ast.expr) for each in _keys(node)]


def _value(node: ast.expr, lookup: Lookup) -> Any:
    key = _key(node)
    if key is not None:
        return lookup(key)
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return WORDS[name]
        case ast.BinOp(left=left, op=op, right=right):
            return _computed(ARITHMETIC[type(op)], _number(left, lookup), _number(right, lookup), node)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _truth(operand, lookup)
        case ast.UnaryOp(op=op, operand=operand):
            number = _number(operand, lookup)
            return -number if isinstance(op, ast.USub) else number
        case ast.BoolOp(op=ast.And(), values=values):
            return all(_truth(each, lookup) for each in values)
        case ast.BoolOp(values=values):
            return any(_truth(each, lookup) for each in values)
        case ast.Compare():
            return _compared(node, lookup)
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            return [_value(each, lookup) for each in parts]
        case ast.Call(func=ast.Name(id=name), args=parts):
            return _called(name, [_number(each, lookup) for each in parts], node)
    raise AssertionError("other parts are refused when a filter is read")


def _number(node: ast.expr, lookup: Lookup) -> int | float:
    value = _value(node, lookup)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"{shown(ast.unparse(node))} is {shown(value)}; allowed: a number")
    return value


def _truth(node: ast.expr, lookup: Lookup) -> bool:
    value = _value(node, lookup)
    if not isinstance(value, bool):
        raise InputError(f"{shown(ast.unparse(node))} is {shown(value)}; allowed: a condition, true or false")
    return value


def _called(name: str, numbers: list[int | float], node: ast.expr) -> Any:
    if (name == "abs") != (len(numbers) == 1):
        many = "one number" if name == "abs" else "two numbers and more"
        raise InputError(f"got {shown(ast.unparse(node))}; allowed: {name} of {many}")
    return FUNCTIONS[name](*numbers)


def _computed(function: Callable[[Any, Any], Any], left: Any, right: Any, node: ast.expr) -> Any:
    try:
        return function(left, right)
    except (ArithmeticError, ValueError) as error:
        raise InputError(
            f"{shown(ast.unparse(node))}: {error}; allowed: what can be computed for every point"
        ) from None


def _compared(node: ast.Compare, lookup: Lookup) -> bool:
    """A chain of comparisons, each between neighbours."""
    left, at = _value(node.left, lookup), node.left
    for op, right_node in zip(node.ops, node.comparators, strict=True):
        right = _value(right_node, lookup)
        if type(op) in ORDERS:
            holds = ORDERS[type(op)](_number_of(left, at), _number_of(right, right_node))
        elif type(op) in EQUALS:
            holds = EQUALS[type(op)](left, right)
        else:
            if not isinstance(right, list):
                raise InputError(f"{shown(ast.unparse(right_node))} is {shown(right)}; allowed: a list after `in`")
            holds = (left in right) == isinstance(op, ast.In)
        if not holds:
            return False
        left, at = right, right_node
    return True


def _number_of(value: Any, node: ast.expr) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"{shown(ast.unparse(node))} is {shown(value)}; allowed: a number, before and after < or >")
    return value


def refuse_unknown(filters: tuple[Filter, ...], lookup: Lookup, names: Callable[[], list[str]]) -> None:
    """Raise InputError for a key in a filter that no point has; `names`: those that there are."""
    for number, each in enumerate(filters):
        for key in each.keys:
            try:
                lookup(key)
            except KeyError:
                raise InputError(unknown(key, names()), key=("filters", number)) from None
