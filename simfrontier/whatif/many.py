"""Numbers with a value for each variation, which formulas for single numbers take as they are.

A formula that compares them goes different ways for different variations. Where a comparison does not come out alike,
the variations are told apart, and each part goes through the formula by itself: what a formula says of many numbers is
what it says of each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NoReturn

import numpy as np
from numpy.typing import NDArray

from simfrontier.arrays import Floats, Ints

SINGLE: Final = "a formula asks for its one value, where what-ifs know sums, products and powers"


class DifferError(Exception):
    """A comparison that comes out differently for the variations that are looked at; `where`: those where it holds."""

    def __init__(self, where: NDArray[np.bool_]) -> None:
        super().__init__("variations differ")
        self.where = where


class UnknownLawError(Exception):
    """A number goes into what ops take in a way that what-ifs cannot follow; says how."""


class Many:
    """One number per variation that is looked at. It has no one value, so that whatever asks for it is refused."""

    __slots__ = ("values",)
    __array_ufunc__ = None  # arrays leave arithmetic to it

    def __init__(self, values: Floats) -> None:
        self.values = values

    def __add__(self, other: Any) -> Many:
        return Many(self.values + plain(other))

    def __radd__(self, other: Any) -> Many:
        return Many(plain(other) + self.values)

    def __sub__(self, other: Any) -> Many:
        return Many(self.values - plain(other))

    def __rsub__(self, other: Any) -> Many:
        return Many(plain(other) - self.values)

    def __mul__(self, other: Any) -> Many:
        return Many(self.values * plain(other))

    def __rmul__(self, other: Any) -> Many:
        return Many(plain(other) * self.values)

    def __truediv__(self, other: Any) -> Many:
        return Many(self.values / plain(other))

    def __rtruediv__(self, other: Any) -> Many:
        return Many(plain(other) / self.values)

    def __pow__(self, other: Any) -> Many:
        return Many(self.values ** plain(other))

    def __rpow__(self, other: Any) -> Many:
        return Many(plain(other) ** self.values)

    def __lt__(self, other: Any) -> bool:
        return _alike(self.values < plain(other))

    def __le__(self, other: Any) -> bool:
        return _alike(self.values <= plain(other))

    def __gt__(self, other: Any) -> bool:
        return _alike(self.values > plain(other))

    def __ge__(self, other: Any) -> bool:
        return _alike(self.values >= plain(other))

    def __eq__(self, other: object) -> bool:
        return _alike(self.values == plain(other))

    def __bool__(self) -> bool:
        return _alike(self.values != 0.0)

    __hash__ = None  # type: ignore[assignment]

    def __float__(self) -> NoReturn:
        raise UnknownLawError(SINGLE)

    def __round__(self) -> NoReturn:
        raise UnknownLawError(SINGLE)

    def exp(self) -> Many:
        """e to the power of each."""
        return Many(np.exp(self.values))

    def log1p(self) -> Many:
        """The natural logarithm of 1 + each."""
        return Many(np.log1p(self.values))


class Variations:
    """The variations of one question, of which formulas look at some (`rows`) at a time."""

    def __init__(self, num: int) -> None:
        self.num = num
        self.rows: slice | Ints = slice(None)

    def number(self, values: Floats) -> Given:
        """A number that has these values [num]."""
        return Given(values, self)

    def apart(self, formula: Callable[[], Any]) -> Iterator[tuple[slice | Ints, Any]]:
        """What a formula says of the variations that are looked at, part by part: the rows, and the result. While a
        part is given, its variations are those that are looked at."""
        before, waiting = self.rows, [self.rows]
        try:
            while waiting:
                self.rows = waiting.pop()
                try:
                    result = formula()
                except DifferError as differ:
                    rows = np.arange(self.num)[self.rows]
                    waiting += [rows[~differ.where], rows[differ.where]]
                else:
                    yield self.rows, result
        finally:
            self.rows = before

    def values(self, formula: Callable[[], Any]) -> Floats:
        """The number that a formula gives, of every variation [num], also of those that are not looked at."""
        out, before = np.empty(self.num), self.rows
        self.rows = slice(None)
        try:
            for rows, result in self.apart(formula):
                out[rows] = plain(result)
        finally:
            self.rows = before
        return out


class Given(Many):
    """A number that is given for all variations; its values are those of the ones that are looked at."""

    __slots__ = ("every", "variations")

    def __init__(self, every: Floats, variations: Variations) -> None:
        self.every, self.variations = every, variations

    @property
    def values(self) -> Floats:  # type: ignore[override]
        looked_at: Floats = self.every[self.variations.rows]
        return looked_at


def plain(value: Any) -> Any:
    """The values of a number with many of them, and any other number as it is."""
    return value.values if isinstance(value, Many) else value


def _alike(holds: NDArray[np.bool_]) -> bool:
    if holds.all():
        return True
    if holds.any():
        raise DifferError(holds)
    return False
