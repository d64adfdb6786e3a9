"""Which algorithm carries a collective, and its pattern on a machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from simfrontier.base.errors import InputError
from simfrontier.core.collectives import Library, algorithm as algorithm_of
from simfrontier.core.cost.alone import EqualGroups
from simfrontier.core.cost.call import Call
from simfrontier.core.network import Fabric, Pattern, wait_pattern
from simfrontier.core.program import Collective, Mesh, Schedule

GROUP_WAIT = "wait"


def pattern_key(axes: tuple[str, ...], algorithm: str) -> str:
    return "+".join(axes) + "/" + algorithm


def refuse_alone(library: Library, names: Sequence[str]) -> None:
    """Raise InputError for an algorithm by which single calls are modelled, but no schedule."""
    for by in map(algorithm_of, names):
        if by.not_as_loads:
            raise InputError(f"library {library.name}: {by.not_as_loads}")


@dataclass
class AlgorithmChoices:
    """The library's choices for the ops of one mesh; patterns by axes and algorithm, built on first use."""

    fabric: Fabric
    mesh: Mesh
    library: Library
    known: dict[tuple[tuple[str, ...], str], Pattern] = field(default_factory=dict)
    laid_out: dict[tuple[str, ...], EqualGroups] = field(default_factory=dict)

    def over(self, axes: tuple[str, ...]) -> EqualGroups:
        """The groups over `axes`; InputError as `EqualGroups.over`, where no pattern is written for them."""
        if axes not in self.laid_out:
            self.laid_out[axes] = EqualGroups.over(self.fabric, self.mesh, axes)
        return self.laid_out[axes]

    def get(self, axes: tuple[str, ...], algorithm: str) -> Pattern:
        if (axes, algorithm) not in self.known:
            calls = self.over(axes)
            if algorithm == GROUP_WAIT:
                made = wait_pattern(self.fabric, calls.groups)
            else:
                refuse_alone(self.library, (algorithm,))
                by = algorithm_of(algorithm)
                self.library = by.knowing(self.library, calls)
                made = by.loads(self.fabric, calls.groups, self.library)
            self.known[axes, algorithm] = made
        return self.known[axes, algorithm]

    def choose(self, op: Collective, schedule: Schedule) -> str:
        """The algorithm the library takes: by its own rule, or else the one that is fastest alone, of those it has."""
        calls = self.over(op.axes)
        call = Call.of(op, schedule, calls.shape)
        options = call.algorithms(self.library)
        if len(options) == 1:
            return options[0]
        refuse_alone(self.library, options)
        return calls.fastest(call, self.library, options)[1]
