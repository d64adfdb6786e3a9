"""A value of a JSON document with its location in the file, for documents that are read value by value (a schedule,
which is counted before it is expanded). Every method returns the value in one type, or raises InputError."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Never, TypeVar

from simfrontier.base.errors import InputError, Key, nearest, shown, unknown_key, wrong

T = TypeVar("T")


class Node:
    """A JSON value, the file that contains it, and its key in the file."""

    __slots__ = ("at", "value", "where")

    def __init__(self, value: Any, where: str, at: Key = ()) -> None:
        self.value, self.where, self.at = value, where, at

    def fail(self, text: str) -> Never:
        raise InputError(text, where=self.where, key=self.at)

    def wrong(self, allowed: str) -> Never:
        self.fail(wrong(self.value, allowed))

    def key(self, name: str) -> Node:
        return Node(self.value[name], self.where, (*self.at, name))

    def keys(self, required: Collection[str], optional: Collection[str] = ()) -> dict[str, Node]:
        """Return the members of a JSON object; an InputError is raised unless it has all `required` keys and no others
        but `optional` ones."""
        members = self.members()
        for name, member in members.items():
            if name not in required and name not in optional:
                member.fail(unknown_key(name, (*required, *optional)))
        for name in required:
            if name not in members:
                raise InputError("missing", where=self.where, key=(*self.at, name))
        return members

    def members(self) -> dict[str, Node]:
        if not isinstance(self.value, dict):
            self.wrong("a table")
        return {name: self.key(name) for name in self.value}

    def member(self, name: str) -> Node:
        """Return a required member of a JSON object that may have other members."""
        if name not in self.members():
            raise InputError("missing", where=self.where, key=(*self.at, name))
        return self.key(name)

    def items(self, size: int | None = None) -> list[Node]:
        if not isinstance(self.value, list):
            self.wrong("a list")
        if size is not None and len(self.value) != size:
            self.fail(f"got {len(self.value)} entries, allowed: {size}")
        return [Node(value, self.where, (*self.at, i)) for i, value in enumerate(self.value)]

    def text(self) -> str:
        if not isinstance(self.value, str):
            self.wrong("a text")
        return self.value

    def name(self) -> str:
        """Return the text of this node, of at least one character."""
        return self.text() or self.wrong("a text of at least one character")

    def choice(self, allowed: Collection[str]) -> Any:
        text = self.text()
        if text not in allowed:
            self.fail(f"got {shown(text)}; {nearest(text, allowed)}")
        return text

    def whole(self, least: int | None = None, most: int | None = None) -> int:
        """Return the whole number of this node, of at least `least` and at most `most`."""
        if not isinstance(self.value, int) or isinstance(self.value, bool):
            self.wrong("a whole number")
        if (least is not None and self.value < least) or (most is not None and self.value > most):
            self.wrong(f"{least} or more" + ("" if most is None else f", up to {most}"))
        return self.value

    def flag(self) -> bool:
        if not isinstance(self.value, bool):
            self.wrong("true or false")
        return self.value

    def parsed(self, parse: Callable[[str], T]) -> T:
        """Return the result of `parse` for the text of this node; an InputError of `parse` gets the location of this
        node."""
        text = self.text()
        return self.placed(lambda: parse(text))

    def placed(self, make: Callable[[], T]) -> T:
        """Return the result of `make`; an InputError that it raises gets the location of this node."""
        try:
            return make()
        except InputError as error:
            raise error.within(self.where, self.at) from None

    def texts(self) -> tuple[str, ...]:
        return tuple([item.name() for item in self.items()])
