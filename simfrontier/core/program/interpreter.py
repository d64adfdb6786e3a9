"""Interpreter of values: runs a program on symbolic forms instead of numbers.

Places are any hashable names that a program uses: instances of tensors, or chunks of ranks' buffers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable
from typing import Final, Generic, NamedTuple, Protocol, TypeVar


class Form(Protocol):
    """Symbolic description of a value."""

    def plus(self, other: Form) -> Form:
        """Return the form of the sum of this value and another. Raises Clash if the sum is never valid."""
        ...


class Unknown:
    """A value about which nothing is known: an activation, a state, a token, or the result of a fault."""

    def plus(self, other: Form) -> Form:
        return self


UNKNOWN: Final = Unknown()


class Version(NamedTuple):
    """A weight after `number` steps of its optimizer, counted from the start of the program."""

    number: int

    @property
    def next(self) -> Version:
        """The weight after one more step."""
        return Version(self.number + 1)

    def plus(self, other: Form) -> Form:
        return self

    def __str__(self) -> str:
        return f"version {self.number}"


class Contributions(NamedTuple):
    """A sum of the results of `ops`, each listed once per addition: a gradient, its norm, or LAMB's update of one
    op."""

    ops: tuple[int, ...] = ()

    def plus(self, other: Form) -> Form:
        return Contributions(self.ops + other.ops) if isinstance(other, Contributions) else self


class ChunkSum(NamedTuple):
    """One chunk of a message, summed over the ranks whose bit is set in `ranks`.

    Sums are never split again, so a valid one contains contributions of one chunk only, and those of each rank at most
    once.
    """

    chunk: int
    ranks: int

    @property
    def members(self) -> list[int]:
        """The ranks, in ascending order."""
        return [rank for rank in range(self.ranks.bit_length()) if self.ranks >> rank & 1]

    def plus(self, other: Form) -> Form:
        if not isinstance(other, ChunkSum):
            return other
        if self.chunk != other.chunk or self.ranks & other.ranks:
            raise Clash(self, other)
        return ChunkSum(self.chunk, self.ranks | other.ranks)


class Clash(Exception):
    """Invalid addition: the sums are of different chunks, or both include the same ranks."""

    def __init__(self, one: ChunkSum, other: ChunkSum) -> None:
        super().__init__(one, other)
        self.one, self.other = one, other

    @property
    def twice(self) -> ChunkSum | None:
        """The contributions that both sums include; None if the sums are of different chunks."""
        same = self.one.chunk == self.other.chunk
        return ChunkSum(self.one.chunk, self.one.ranks & self.other.ranks) if same else None


Place = TypeVar("Place", bound=Hashable)


class Interpreter(ABC, Generic[Place]):
    """The forms of the values in all places while the instructions of a program run in order."""

    def __init__(self) -> None:
        self.held: dict[Place, Form] = {}

    @abstractmethod
    def empty(self, place: Place, adding: bool) -> Form | None:
        """Return the form of a place that is read, or added to, before it is written; None to skip the instruction."""

    def clash(self, clash: Clash) -> None:
        """Report an invalid addition, which is skipped."""
        raise clash

    def copy(self, sources: Iterable[Place], targets: Iterable[Place]) -> None:
        """Copy the forms of sources to targets, pair by pair."""
        held = self.held
        for source, target in zip(sources, targets, strict=False):
            form = held.get(source) or self.empty(source, False)
            if form is not None:
                held[target] = form

    def add(self, sources: Iterable[Place], targets: Iterable[Place]) -> None:
        """Add the forms of sources to targets, pair by pair."""
        held = self.held
        for source, target in zip(sources, targets, strict=False):
            form = held.get(source) or self.empty(source, False)
            if form is not None:
                self.add_form(target, form)

    def add_form(self, target: Place, form: Form) -> None:
        """Add a form that is in no place to a target."""
        held = self.held.get(target) or self.empty(target, True)
        if held is None:
            return
        try:
            self.held[target] = held.plus(form)
        except Clash as clash:
            self.clash(clash)
