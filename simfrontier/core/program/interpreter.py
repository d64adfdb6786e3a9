"""The interpreter of values: runs a program on forms instead of numbers.

A program's places are whatever it names them: instances of tensors, chunks of ranks' buffers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

from simfrontier.core.program.forms import Clash, Form

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
