"""Symbolic interpreter of programs: computes with symbolic values (which weight version, which gradient contributions)
instead of numbers.

A place is any hashable name of a storage location in a program: a tensor instance, or a chunk of a rank's buffer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable
from typing import Final, Generic, NamedTuple, Protocol, TypeVar


class Form(Protocol):
    """A symbolic value: it describes what a tensor or buffer contains."""

    def plus(self, other: Form) -> Form:
        """Return the symbolic value of the sum of this value and another. Raises Clash if no valid program adds these
        two values."""
        ...


class Unknown:
    """Symbolic value about which nothing is known: an activation, a state, a token, or the result of a fault."""

    def plus(self, other: Form) -> Form:
        return self


UNKNOWN: Final = Unknown()


class Version(NamedTuple):
    """Symbolic value of a weight after `number` optimizer steps since the start of the program."""

    number: int

    @property
    def next(self) -> Version:
        """The version of the weight after one more optimizer step."""
        return Version(self.number + 1)

    def plus(self, other: Form) -> Form:
        return self

    def __str__(self) -> str:
        return f"version {self.number}"


class Contributions(NamedTuple):
    """Symbolic value of a sum of the results of `ops`, each listed as often as it was added: a gradient, the norm of
    gradients, or LAMB's update by one op."""

    ops: tuple[int, ...] = ()

    def plus(self, other: Form) -> Form:
        return Contributions(self.ops + other.ops) if isinstance(other, Contributions) else self


class ChunkSum(NamedTuple):
    """Symbolic value of one chunk of a message, summed over the ranks whose bit is set in `ranks`.

    Sums are never split again. So a valid sum contains contributions to one chunk only, and at most one contribution of
    each rank.
    """

    chunk: int
    ranks: int

    @property
    def members(self) -> list[int]:
        """The ranks whose contributions the sum includes, in ascending order."""
        return [rank for rank in range(self.ranks.bit_length()) if self.ranks >> rank & 1]

    def plus(self, other: Form) -> Form:
        if not isinstance(other, ChunkSum):
            return other
        if self.chunk != other.chunk or self.ranks & other.ranks:
            raise Clash(self, other)
        return ChunkSum(self.chunk, self.ranks | other.ranks)


class Clash(Exception):
    """Raised for an invalid addition: the two sums belong to different chunks, or both include the contribution of a
    rank."""

    def __init__(self, one: ChunkSum, other: ChunkSum) -> None:
        super().__init__(one, other)
        self.one, self.other = one, other

    @property
    def twice(self) -> ChunkSum | None:
        """The contributions that both sums include; None if the two sums belong to different chunks."""
        same = self.one.chunk == self.other.chunk
        return ChunkSum(self.one.chunk, self.one.ranks & self.other.ranks) if same else None


Place = TypeVar("Place", bound=Hashable)


class Interpreter(ABC, Generic[Place]):
    """The symbolic values in all storage places, while the instructions of a program are interpreted in order."""

    def __init__(self) -> None:
        self.held: dict[Place, Form] = {}

    @abstractmethod
    def empty(self, place: Place, adding: bool) -> Form | None:
        """Return the symbolic value of a place that is read, or added to, before it is written; None to skip the
        instruction."""

    def clash(self, clash: Clash) -> None:
        """Handle an invalid addition; by default, raise the exception. If the method returns, the addition is
        skipped."""
        raise clash

    def copy(self, sources: Iterable[Place], targets: Iterable[Place]) -> None:
        """Copy the symbolic values of the sources to the targets, pair by pair."""
        held = self.held
        for source, target in zip(sources, targets, strict=False):
            form = held.get(source) or self.empty(source, False)
            if form is not None:
                held[target] = form

    def add(self, sources: Iterable[Place], targets: Iterable[Place]) -> None:
        """Add the symbolic values of the sources to those of the targets, pair by pair."""
        held = self.held
        for source, target in zip(sources, targets, strict=False):
            form = held.get(source) or self.empty(source, False)
            if form is not None:
                self.add_form(target, form)

    def add_form(self, target: Place, form: Form) -> None:
        """Add a symbolic value, which is not stored in any place, to the value of a target."""
        held = self.held.get(target) or self.empty(target, True)
        if held is None:
            return
        try:
            self.held[target] = held.plus(form)
        except Clash as clash:
            self.clash(clash)
