"""Reading a pickle of plain values, without unpickling it: a pickle is a program, and Python's reader runs it.

Only opcodes that build None, true and false, numbers, texts, lists, tuples and tables with names are followed; all
others, which call or import something, are refused. Values may stand in a pickle once and be referred to many times:
what they would be written out is counted before it is given away. Opcodes: Python's pickletools.
"""

from __future__ import annotations

import math
import pickletools
from collections.abc import Callable
from typing import Any, Final

from simfrontier.limits import RANK_DEPTH, RANK_VALUES

STARTS: Final = tuple(b"\x80" + bytes([protocol]) for protocol in range(2, 6))  # of pickles of protocols 2 to 5
_CONSTANTS: Final[dict[str, object]] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_VALUES: Final = frozenset(
    {
        *("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT"),
        *("SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"),
    }
)
_TUPLES: Final = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_IGNORED: Final = frozenset({"PROTO", "FRAME"})
_PUTS: Final = frozenset({"BINPUT", "LONG_BINPUT"})
_GETS: Final = frozenset({"BINGET", "LONG_BINGET"})


class Unfit(ValueError):
    """A pickle that is not of plain values, or of too many."""


def plain_pickle(data: bytes) -> Any:
    """The value of a pickle, tuples as lists. Raises Unfit."""
    made, end = _Machine(), -1
    try:
        for count, (opcode, argument, place) in enumerate(pickletools.genops(data), 1):
            if fault := RANK_VALUES.fault(count):
                raise Unfit(fault)
            made.follow(opcode.name, argument, place or 0)
            end = place or 0
    except Unfit:
        raise
    except (ValueError, IndexError) as error:  # of pickletools: what is cut short, or no pickle
        raise Unfit(f"not a whole pickle: {error}") from None
    if end + 1 != len(data):
        raise Unfit(f"byte {end + 1}: more behind the end of the pickle")
    return _counted(made.result)


class _Machine:
    """The stack and the memory of a pickle while it is followed."""

    def __init__(self) -> None:
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memory: dict[int, Any] = {}
        self._steps: dict[str, Callable[[], None]] = {
            "EMPTY_LIST": lambda: self._stack.append([]),
            "EMPTY_DICT": lambda: self._stack.append({}),
            "MARK": lambda: self._marks.append(len(self._stack)),
            "APPEND": lambda: self._append([self._pop()]),
            "APPENDS": lambda: self._append(self._since_mark()),
            "SETITEM": lambda: self._set([self._pop(), self._pop()][::-1]),
            "SETITEMS": lambda: self._set(self._since_mark()),
            "TUPLE": lambda: self._stack.append(self._since_mark()),
            "MEMOIZE": lambda: self._put(len(self._memory)),
            "STOP": lambda: None,
        }

    @property
    def result(self) -> Any:
        """The one value that is left. Raises Unfit."""
        if len(self._stack) != 1 or self._marks:
            raise Unfit(f"not a whole pickle: {len(self._stack)} values at its end")
        return self._stack[0]

    def follow(self, name: str, argument: Any, place: int) -> None:
        """One opcode. Raises Unfit."""
        if name in _CONSTANTS:
            self._stack.append(_CONSTANTS[name])
        elif name in _VALUES:
            self._stack.append(argument)
        elif name in _PUTS:
            self._put(argument)
        elif name in _GETS:
            if argument not in self._memory:
                raise Unfit(f"byte {place}: refers to value {argument}, which is not there")
            self._stack.append(self._memory[argument])
        elif name in _TUPLES:
            self._stack.append([self._pop() for _ in range(_TUPLES[name])][::-1])
        elif name in self._steps:
            self._steps[name]()
        elif name not in _IGNORED:
            raise Unfit(f"byte {place}: opcode {name}; allowed: those of plain values")

    def _pop(self) -> Any:
        if len(self._stack) <= (self._marks[-1] if self._marks else 0):
            raise Unfit("not a whole pickle: a value is missing")
        return self._stack.pop()

    def _since_mark(self) -> list[Any]:
        if not self._marks:
            raise Unfit("not a whole pickle: a mark is missing")
        mark = self._marks.pop()
        values, self._stack[mark:] = self._stack[mark:], []
        return values

    def _top(self, sort: type) -> Any:
        if len(self._stack) <= (self._marks[-1] if self._marks else 0) or not isinstance(self._stack[-1], sort):
            raise Unfit(f"not a whole pickle: no {sort.__name__} to add to")
        return self._stack[-1]

    def _put(self, index: int) -> None:
        self._memory[index] = self._top(object)

    def _append(self, values: list[Any]) -> None:
        self._top(list).extend(values)

    def _set(self, values: list[Any]) -> None:
        table = self._top(dict)
        for key, value in zip(values[::2], values[1::2], strict=True):
            if not isinstance(key, str) or key in table:
                raise Unfit("a table with a key that is no text, or stands twice")
            table[key] = value


def _counted(value: Any) -> Any:
    """The value. Raises Unfit where it is too much or too deep once written out, as one that holds itself is, and for a
    number that is none."""
    waiting, count = [(value, 0)], 0
    while waiting:
        each, depth = waiting.pop()
        count += 1
        if fault := RANK_VALUES.fault(count + len(waiting)) or RANK_DEPTH.fault(depth):
            raise Unfit(fault)
        if isinstance(each, dict):
            waiting += [(inner, depth + 1) for inner in each.values()]
        elif isinstance(each, list):
            waiting += [(inner, depth + 1) for inner in each]
        elif isinstance(each, float) and not math.isfinite(each):
            raise Unfit(f"{each} is not a number")
    return value
