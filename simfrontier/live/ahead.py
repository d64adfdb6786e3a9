"""Answers made beforehand: while nobody asks, those of the states that lie one move away from the last question."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError, Future
from typing import Any, Final

from simfrontier.live.answer import Answerer
from simfrontier.live.controls import Control
from simfrontier.live.state import LiveState

IDLE_S: Final = 0.3  # without a question
FAR: Final = 2  # moves of the control that was moved last; of the others one


class LookAhead:
    """Answers questions, and between them what may be asked next."""

    def __init__(self, answerer: Answerer) -> None:
        self._answerer = answerer
        self._asked, self._turn = threading.Event(), threading.Lock()
        self._last, self._before = LiveState(places={}), LiveState(places={})
        self._tasks: list[Future[Any]] = []
        threading.Thread(target=self._work, daemon=True).start()

    def answer(self, state: LiveState) -> bytes:
        """As Answerer.answer, one question after another, before anything that nobody has asked for."""
        self._asked.set()
        for task in self._tasks:
            task.cancel()
        with self._turn:
            made = self._answerer.answer(state)
            self._before, self._last = self._last, state
        self._asked.set()
        return made

    def _work(self) -> None:
        while True:
            self._asked.wait()
            self._asked.clear()
            if not self._asked.wait(IDLE_S) and not self._turn.locked():
                self._answer_beside()

    def _answer_beside(self) -> None:
        for state in beside(self._last, self._before, self._answerer.controls):
            if not self._is_made(state):
                return

    def _is_made(self, state: LiveState) -> bool:
        """Whether there was time for the answer of a state: nobody asks."""
        if self._asked.is_set():
            return False
        self._tasks = []
        try:
            self._answerer.answer_ahead(state, self._tasks.append)
        except CancelledError:
            return False
        except Exception:
            return True  # whoever asks for this state hears of it
        return True


def beside(last: LiveState, before: LiveState, controls: Sequence[Control]) -> Iterator[LiveState]:
    """The states one move away: those of the control that was moved last come first, and reach further."""
    moved = [each for each in controls if each.place(last.places) != each.place(before.places)]
    for control in [*moved, *(each for each in controls if each not in moved)]:
        at, reach = control.place(last.places), FAR if control in moved else 1
        for place in sorted(range(len(control.values)), key=lambda each: abs(each - at)):
            if 0 < abs(place - at) <= reach:
                yield last.moved(control, place)
