"""The calls that roles share: what each role has brought to them, kept until the others have come as far."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Generic, TypeVar

from simfrontier.core.program.forms import Form
from simfrontier.core.program.roles import CallSequence

Brought = TypeVar("Brought")


class SharedCalls(Generic[Brought]):
    """Of each sequence of calls, call by call, what every role that has reached it has brought."""

    def __init__(self) -> None:
        self.calls: dict[CallSequence, list[dict[int, Brought]]] = defaultdict(list)
        self.num_reached: dict[tuple[CallSequence, int], int] = defaultdict(int)

    def join(self, sequence: CallSequence, role: int, brought: Brought) -> dict[int, Brought]:
        """Record that a role reaches its next call of a sequence. Returns what all have brought to that call so far."""
        call = self.num_reached[sequence, role]
        self.num_reached[sequence, role] += 1
        calls = self.calls[sequence]
        if call == len(calls):
            calls.append({})
        calls[call][role] = brought
        return calls[call]


class SentValues(SharedCalls[tuple[Form, ...]]):
    """The values that roles send at the calls that they share."""

    is_closed = False  # calls that do not match never complete: the order rules report them

    def run(self, walks: list[Iterator[None]]) -> None:
        """Walk all roles to their ends, each as far as it can go; a walk yields where it waits for another role."""
        while walks:
            before = self._num_sent()
            left = [walk for walk in walks if next(walk, self) is not self]
            self.is_closed = len(left) == len(walks) and self._num_sent() == before
            walks = left

    def _num_sent(self) -> int:
        return sum(self.num_reached.values())
