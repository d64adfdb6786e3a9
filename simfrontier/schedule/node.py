"""A value of a stored schedule with its place in the file: every reader gives it in its type or raises InputError."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import Any, Never, TypeVar

from simfrontier.errors import InputError, nearest
from simfrontier.limits import NAME, TEXT, Limit

T = TypeVar("T")


class Node:
    """A JSON value and its path; every reader either gives the value in its type or raises InputError."""

    __slots__ = ("path", "value", "where")

    def __init__(self, value: Any, where: str, path: str) -> None:
        self.value, self.where, self.path = value, where, path

    def fail(self, said: str) -> Never:
        raise InputError(f"{self.where}: {self.path + ': ' if self.path else ''}{said}")

    def _wrong(self, wanted: str) -> Never:
        shown = json.dumps(self.value)
        self.fail(f"{shown if len(shown) <= 60 else shown[:57] + '...'} is not {wanted}")

    def key(self, name: str) -> Node:
        return Node(self.value[name], self.where, f"{self.path}.{name}" if self.path else name)

    def keys(self, required: Collection[str], optional: Collection[str] = ()) -> dict[str, Node]:
        """The members of an object with exactly these keys."""
        if not isinstance(self.value, dict):
            self._wrong("an object")
        for name in self.value:
            if name not in required and name not in optional:
                self.within(NAME, len(name))
                self.fail(f"unknown key {name!r}; {nearest(name, (*required, *optional))}")
        for name in required:
            if name not in self.value:
                self.fail(f"key {name!r} is missing")
        return {name: self.key(name) for name in self.value}

    def members(self) -> dict[str, Node]:
        if not isinstance(self.value, dict):
            self._wrong("an object")
        return {name: self.key(name) for name in self.value}

    def items(self, size: int | None = None) -> list[Node]:
        if not isinstance(self.value, list):
            self._wrong("a list")
        if size is not None and len(self.value) != size:
            self.fail(f"{len(self.value)} entries; expected {size}")
        return [Node(value, self.where, f"{self.path}[{i}]") for i, value in enumerate(self.value)]

    def text(self) -> str:
        if not isinstance(self.value, str):
            self._wrong("a text")
        return self.value

    def name(self) -> str:
        """A text of at least one character, and of no more than a name has."""
        text = self.text() or self.fail("an empty text")
        self.within(NAME, len(text))
        return text

    def within(self, limit: Limit, count: int) -> None:
        """Raises InputError for a count above a limit."""
        if fault := limit.fault(count):
            self.fail(fault)

    def choice(self, allowed: Collection[str]) -> Any:
        text = self.text()
        if text not in allowed:
            self.within(NAME, len(text))
            self.fail(f"unknown {text!r}; {nearest(text, allowed)}")
        return text

    def whole(self, least: int | None = None, most: int | None = None) -> int:
        """A whole number of at least `least` and at most `most`."""
        if not isinstance(self.value, int) or isinstance(self.value, bool):
            self._wrong("a whole number")
        if (least is not None and self.value < least) or (most is not None and self.value > most):
            shown = str(self.value)
            self.fail(
                f"{shown if len(shown) <= 60 else shown[:57] + '...'} is out of range; allowed: {least} or more"
                + ("" if most is None else f", up to {most}")
            )
        return self.value

    def flag(self) -> bool:
        if not isinstance(self.value, bool):
            self._wrong("true or false")
        return self.value

    def parsed(self, parse: Callable[[str], T]) -> T:
        """What a text means to a parser that raises InputError."""
        text = self.text()
        self.within(TEXT, len(text))  # numbers in it have no more digits than Python reads
        try:
            return parse(text)
        except InputError as error:
            self.fail(str(error))

    def texts(self) -> tuple[str, ...]:
        return tuple([item.name() for item in self.items()])
