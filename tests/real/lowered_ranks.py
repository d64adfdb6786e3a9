"""What one real rank does in the tests of lowered collectives: every kind by every algorithm, beside the library's own.

python -m tests.real.lowered_ranks MILLISECONDS: so long is one rank late before each collective. Prints a line per
collective that differs, and at the end how many were compared.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator

from simfrontier.core.codecs import Plain
from simfrontier.core.collectives import LoweredSchedule, Recipe, all_algorithms
from simfrontier.core.program import Call, Collective, Mesh, Op, Ref, Role, Schedule, Tensor
from simfrontier.core.program.ir import CollectiveKind
from simfrontier.core.program.placement import REPLICATE
from simfrontier_real.ops.arrays import Array
from simfrontier_real.ranks.lowered import LoweredTransport
from simfrontier_real.ranks.processes import TorchTransport
from simfrontier_real.ranks.world import World, join, leave, place_of
from tests.real.lowerings import recipe_of

MESH = Mesh((("node", 2), ("gcd", 2)))
AXES = (("gcd",), ("gcd", "node"))  # pairs, and all four in an order that is not the ranks'
ELEMENTS = (7, 70_001)  # of 7 most chunks are empty


def cases() -> Iterator[tuple[Collective, Recipe]]:
    for algorithm, kinds in ((each.name, each.collectives) for each in all_algorithms()):
        for kind in kinds:
            for axes in AXES:
                size = MESH.size(axes)
                yield (
                    Collective(
                        kind=kind,
                        name=algorithm,
                        axes=axes,
                        src=(Ref("x"),),
                        dst=(Ref("x"),),
                        codec=Plain("fp32"),
                        lane="lane",
                        comm="+".join(axes),
                    ),
                    recipe_of(algorithm, size, channels=2, slices=2, per_node=size // 2),
                )


def schedule_of(ops: list[Op]) -> Schedule:
    tensor = Tensor(name="x", shape=(1,), dtype="fp32", role="scalar", placement=REPLICATE, persistent=True)
    return Schedule(
        mesh=MESH, tensors={"x": tensor}, roles=(Role("all", (Call("all", 0, 0, tuple(ops)),)),), pools={}, meta={}
    )


def message(kind: CollectiveKind, size: int, elements: int, rank: int) -> Array:
    """Whole numbers that differ by rank and place."""
    import torch

    shape = (elements,) if kind in ("all_gather", "all_reduce") else (size, elements)
    count = elements * (1 if len(shape) == 1 else size)
    return ((torch.arange(count) * 7 + rank * 1001) % 4999).to(torch.float32).reshape(shape)


def main() -> None:
    """Compare, and say what differs."""
    late_s = float(sys.argv[1]) / 1e3
    world = join(place_of(os.environ), "gloo", 30.0, 60.0)
    native = TorchTransport(world, 60.0)
    listed = list(cases())
    made = schedule_of([op for op, _ in listed])
    native.prepare(made)
    listed = [(op, recipe) for op, (_, recipe) in zip(made.ops, listed, strict=True)]  # numbered, as in the schedule
    recipes = tuple((recipe,) * (4 // MESH.size(op.axes)) for op, recipe in listed)
    lowered = LoweredSchedule(digest="", recipes=recipes)
    apart = TorchTransport(world, 60.0)  # groups of their own, in which the library's calls do not mix with messages
    apart.prepare(made)
    ours = LoweredTransport(made, lowered, world.rank, apart.wire, apart)
    compared = _compared(listed, world, native, ours, late_s)
    sys.stdout.write(f"rank {world.rank}: {compared} compared\n")
    leave(world)


def _compared(
    listed: list[tuple[Collective, Recipe]],
    world: World,
    native: TorchTransport,
    ours: LoweredTransport,
    late_s: float,
) -> int:
    import torch

    compared = 0
    for number, (op, recipe) in enumerate(listed):
        for elements in ELEMENTS:
            if number % 4 == world.rank:
                time.sleep(late_s)
            given = message(op.kind, MESH.size(op.axes), elements, world.rank)
            right = native.begin(op, given.clone()).wait()
            first, second = ours.begin(op, given.clone()), ours.begin(op, given.clone() + 1)  # as data and scales go
            result, again = first.wait(), second.wait()
            more = MESH.size(op.axes) if op.kind in ("reduce_scatter", "all_reduce") else 1
            compared += 1
            if not (torch.equal(result, right) and torch.equal(again, right + more)):
                sys.stdout.write(f"rank {world.rank}: {op.kind} by {recipe.algorithm} of {elements} differs\n")
    return compared


if __name__ == "__main__":
    main()
