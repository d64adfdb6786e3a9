"""The interpreter of values: runs a program on forms instead of numbers.

A program's places are whatever it names them: instances of tensors, chunks of ranks' buffers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable
from typing import Final, Generic, NamedTuple, Protocol, TypeVar


class Form(Protocol):
    """What is known of a value."""

    def plus(self, other: Form) -> Form:
        """The form of this value after the other is added to it. Raises Clash where that is never right."""
        ...


class Unknown:
    """A value of which no more is known: an activation, a state, a token, or what went wrong."""

    def plus(self, other: Form) -> Form:
        return self


UNKNOWN: Final = Unknown()


class Version(NamedTuple):
    """A weight after so many steps of its optimizer, counted from the begin of the program."""

    number: int

    @property
    def next(self) -> Version:
        """The weight after one step more."""
        return Version(self.number + 1)

    def plus(self, other: Form) -> Form:
        return self

    def __str__(self) -> str:
        return f"version {self.number}"


class Contributions(NamedTuple):
    """A sum of what `ops` made, each as often as it was added: a gradient, its norm, or LAMB's update of one op."""

    ops: tuple[int, ...] = ()

    def plus(self, other: Form) -> Form:
        return Contributions(self.ops + other.ops) if isinstance(other, Contributions) else self


class ChunkSum(NamedTuple):
    """One chunk of a message, summed over the ranks of which `ranks` has a bit.

    Sums are never taken apart, so that a right one has one chunk's contributions only, each rank's at most once.
    """

    chunk: int
    ranks: int

    @property
    def members(self) -> list[int]:
        """The ranks, in order."""
        return [rank for rank in range(self.ranks.bit_length()) if self.ranks >> rank & 1]

    def plus(self, other: Form) -> Form:
        if not isinstance(other, ChunkSum):
            return other
        if self.chunk != other.chunk or self.ranks & other.ranks:
            raise Clash(self, other)
        return ChunkSum(self.chunk, self.ranks | other.ranks)


class Clash(Exception):
    """Sums that must not be added: of different chunks, or of one with ranks that both have counted."""

    def __init__(self, one: ChunkSum, other: ChunkSum) -> None:
        super().__init__(one, other)
        self.one, self.other = one, other

    @property
    def twice(self) -> ChunkSum | None:
        """The contributions that both sums have; None where they are of different chunks."""
        same = self.one.chunk == self.other.chunk
        return ChunkSum(self.one.chunk, self.one.ranks & self.other.ranks) if same else None


Place = TypeVar("Place", bound=Hashable)


class Interpreter(ABC, Generic[Place]):
    """The forms that places hold while the instructions of a program run, one after the other."""

    def __init__(self) -> None:
        self.held: dict[Place, Form] = {}

    @abstractmethod
    def empty(self, place: Place, adding: bool) -> Form | None:
        """The form in a place that is read, or added to, before anything is written to it; None: there is none, and
        the instruction is left out."""

    def clash(self, clash: Clash) -> None:
        """Report an addition that is never right, and is left out."""
        raise clash

    def copy(self, sources: Iterable[Place], targets: Iterable[Place]) -> None:
        """Targets take on the forms of sources, pair by pair."""
        held = self.held
        for source, target in zip(sources, targets, strict=False):
            form = held.get(source) or self.empty(source, False)
            if form is not None:
                held[target] = form

    def add(self, sources: Iterable[Place], targets: Iterable[Place]) -> None:
        """Sources are added to targets, pair by pair."""
        held = self.held
        for source, target in zip(sources, targets, strict=False):
            form = held.get(source) or self.empty(source, False)
            if form is not None:
                self.add_form(target, form)

    def add_form(self, target: Place, form: Form) -> None:
        """Add a value that is in no place."""
        held = self.held.get(target) or self.empty(target, True)
        if held is None:
            return
        try:
            self.held[target] = held.plus(form)
        except Clash as clash:
            self.clash(clash)
