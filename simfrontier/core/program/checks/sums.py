"""What all roles have summed: whether gradients and their norm hold every contribution exactly once."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate

from simfrontier.core.program.finding import CheckedRole, ref_text
from simfrontier.core.program.interpreter import Contributions
from simfrontier.core.program.ir import Call, Ref, Schedule

Home = tuple[str, int]  # a weight and its layer

MAX_NAMED = 6


class ContributionRecord:
    """The record of all walks: which ops contributed to which gradient, and where sums of them were used.

    An op is known by its number through all roles: `base[role] + index`.
    """

    def __init__(self, schedule: Schedule, roles: Sequence[CheckedRole], num_micro: int | None = None) -> None:
        self.schedule, self.roles = schedule, roles
        self.base = list(accumulate((checked.program.num_ops for checked in roles), initial=0))
        self.gradients: dict[Home, list[int]] = {}  # every op that has made a gradient of a weight
        self.holders: dict[Home, list[int]] = {}  # the roles whose optimizer updates a weight
        self.used: dict[tuple[Home, Contributions], tuple[int, Ref]] = {}  # gradients that were used, and first where
        self.normed: dict[Contributions, int] = {}  # sums of norms that the optimizer reads, and its first op that does
        self.optimizer = schedule.meta.get("optimizer", "adam")
        micro = schedule.meta.get("grad_accum")
        most = max((call.micro for checked in roles for call in checked.role.calls), default=0) + 1
        self.num_micro = num_micro or (micro if isinstance(micro, int) else most)

    def place(self, number: int) -> tuple[int, int]:
        """The role and the index of an op in it."""
        role = bisect_right(self.base, number) - 1
        return role, number - self.base[role]

    def call(self, number: int) -> Call:
        role, index = self.place(number)
        return self.roles[role].program.calls[index]

    # ── rules ──

    def check(self) -> None:
        """To be called when all roles have been walked to their ends."""
        for (home, value), (number, ref) in self.used.items():
            self._is_complete(home, value, number, ref)
        for value, number in self.normed.items():
            self._is_whole_norm(value, number)

    def _is_complete(self, home: Home, value: Contributions, number: int, ref: Ref) -> None:
        """A gradient that is used must sum every contribution to its weight, from every micro-batch, exactly once."""
        made = self.gradients.get(home, [])
        roles = self._roles(home, made) or [self.place(number)[0]]
        of_role: dict[int, list[int]] = {role: [] for role in roles}
        for each in made:
            of_role[self.place(each)[0]].append(each)
        if all(self._is_from_all(own_role, role) for role, own_role in of_role.items()) and sorted(value.ops) == sorted(
            made
        ):
            return
        every = "micro-batch 0" if self.num_micro == 1 else f"each of the micro-batches 0..{self.num_micro - 1}"
        if len(roles) > 1:
            every += f" of the roles {', '.join(self.roles[role].role.name for role in roles)}"
        expected = f"the gradient of {self._title(home)} from {every}, once"
        role, index = self.place(number)
        key = (self.roles[role].program.ops[index].number, ref.name)
        self._report(number, expected, f"in {ref.name}: {self._contributions_text(value, roles)}", key)

    def _roles(self, home: Home, made: list[int]) -> list[int]:
        """The roles that must contribute: all that update the weight, and all that have made a gradient of it."""
        by = {0} if len(self.roles) == 1 else {self.place(number)[0] for number in made}
        return sorted(by | set(self.holders.get(home, ())))

    def _is_from_all(self, ops: list[int], role: int) -> bool:
        """Whether a role has contributed from every micro-batch, each of its ops (of that name) once; `ops`: those of
        its ops that have made a gradient of the weight."""
        begin, program = self.base[role], self.roles[role].program
        times = Counter((program.ops[at - begin].name, program.calls[at - begin].micro) for at in ops)
        names = {name for name, _ in times}
        return len(times) == max(1, len(names)) * self.num_micro and len(times) == len(ops)

    def _contributions_text(self, value: Contributions, roles: list[int]) -> str:
        """Contributions by micro-batch, of each role: `micro-batch 0 twice, micro-batch 1 once`."""
        counted = Counter((self.place(number)[0], self.call(number).micro) for number in value.ops)
        if len(roles) == 1:
            return _micros(counted, roles[0])
        return "; ".join(f"of role {self.roles[role].role.name} {_micros(counted, role)}" for role in roles)

    def _is_whole_norm(self, value: Contributions, number: int) -> None:
        """A norm counts every weight that any role updates once; one that two roles hold in one of them."""
        counted = Counter(home for norm in value.ops for home in self._normed_by(norm))
        for home in sorted(set(self.holders) | set(counted)):
            times = counted.get(home, 0)
            if times != 1:
                self._report(number, f"a norm that counts {self._title(home)} once", _times(times), (home[0], "norm"))

    def _normed_by(self, number: int) -> Iterator[Home]:
        role, index = self.place(number)
        for ref in self.roles[role].program.reads[index]:
            weight = self.schedule.tensors[ref.name].weight
            if weight is not None:
                yield weight, ref.layer

    # ── words ──

    def _title(self, home: Home) -> str:
        return ref_text(Ref(*home), self.schedule.tensors[home[0]].per_layer, False)

    def _report(self, number: int, expected: str, got: str, key: object) -> None:
        role, index = self.place(number)
        self.roles[role].report("sums", index, expected, got, key)


def _micros(counted: Counter[tuple[int, int]], role: int) -> str:
    parts = [f"micro-batch {micro} {_times(n)}" for (at, micro), n in sorted(counted.items()) if at == role]
    return ", ".join(parts[:MAX_NAMED] + [f"and {len(parts) - MAX_NAMED} more"] * (len(parts) > MAX_NAMED)) or "nothing"


def _times(count: int) -> str:
    return {0: "not at all", 1: "once", 2: "twice"}.get(count, f"{count} times")
