"""Forms that pass between roles: what each has sent at its calls, kept until the others have come as far."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from simfrontier.schedule.forms import Form
from simfrontier.schedule.roles import Sequence


class SentValues:
    """What roles have sent: the values of every role that has reached a call, by call of a sequence."""

    def __init__(self) -> None:
        self.sent: dict[tuple[Sequence, int], dict[int, tuple[Form, ...]]] = defaultdict(dict)
        self.num_reached: dict[tuple[Sequence, int], int] = defaultdict(int)
        self.is_closed = False  # calls that do not match never complete: the order rules report them
        self.num_sent = 0

    def send(self, sequence: Sequence, role: int, values: tuple[Form, ...]) -> dict[int, tuple[Form, ...]]:
        """Record what a role sends at its next call of a sequence. Returns what all have sent at that call so far."""
        call = self.num_reached[sequence, role]
        self.num_reached[sequence, role] += 1
        self.num_sent += 1
        sent = self.sent[sequence, call]
        sent[role] = values
        return sent

    def run(self, walks: list[Iterator[None]]) -> None:
        """Walk all roles to their ends, each as far as it can go; a walk yields where it waits for another role."""
        while walks:
            before = self.num_sent
            left = [walk for walk in walks if next(walk, self) is not self]
            self.is_closed = len(left) == len(walks) and self.num_sent == before
            walks = left
