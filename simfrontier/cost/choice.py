"""Which algorithm carries a collective, and its pattern on a machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from simfrontier.collectives import GroupShape, Library, algorithm as algorithm_of, candidate_algorithms, messages_of
from simfrontier.cost.rates import group_shape, seconds_alone
from simfrontier.errors import InputError
from simfrontier.network import Fabric, Pattern, wait_pattern
from simfrontier.schedule import Collective, Mesh, Schedule

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
    shapes: dict[tuple[str, ...], GroupShape] = field(default_factory=dict)

    def shape(self, axes: tuple[str, ...]) -> GroupShape:
        """Of the groups over `axes`; InputError as `group_shape`, where no pattern is written for them."""
        if axes not in self.shapes:
            self.shapes[axes] = group_shape(self.fabric, self.mesh, axes)
        return self.shapes[axes]

    def get(self, axes: tuple[str, ...], algorithm: str) -> Pattern:
        if (axes, algorithm) not in self.known:
            groups = self.mesh.groups(axes)
            shape = self.shape(axes)
            if algorithm == GROUP_WAIT:
                made = wait_pattern(self.fabric, groups)
            else:
                refuse_alone(self.library, (algorithm,))
                by = algorithm_of(algorithm)
                self.library = by.knowing(self.library, self.fabric, groups, shape)
                made = by.loads(self.fabric, groups, self.library)
            self.known[axes, algorithm] = made
        return self.known[axes, algorithm]

    def choose(self, op: Collective, schedule: Schedule) -> str:
        """The algorithm the library takes: by its own rule, or else the one that is fastest alone, of those it has."""
        largest = max(message.num_bytes for message in messages_of(op, schedule.tensors, self.mesh))
        options = candidate_algorithms(self.library, op.kind, op.is_added_later, op.via, largest, self.shape(op.axes))
        if len(options) == 1:
            return options[0]
        patterns = {algorithm: self.get(op.axes, algorithm) for algorithm in options}
        return min(options, key=lambda a: seconds_alone(op, a, schedule, self.library, self.fabric, patterns[a]))
