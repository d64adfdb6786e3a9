"""Steps of small kernels on one role, whose tensors have one letter as a name."""

from __future__ import annotations

from simfrontier.core.program.ir import Call, Compute, Op, Ref, Role, Schedule, Tensor
from simfrontier.core.program.mesh import Mesh
from simfrontier.core.program.placement import REPLICATE

NAMES = ("a", "b", "c", "d")


def kernel(name: str, lane: str = "compute", reads: str = "", writes: str = "", adds: str = "") -> Compute:
    def refs(names: str) -> tuple[Ref, ...]:
        return tuple(map(Ref, names))

    return Compute(kind="add", name=name, reads=refs(reads), writes=refs(writes), accumulates=refs(adds), lane=lane)


def of(*calls: tuple[Op, ...]) -> Schedule:
    """One role on two devices; tensors of one name each, of different sizes."""
    tensors = {
        name: Tensor(name=name, shape=(10_000 * 3**i,), dtype="fp32", role="activation", placement=REPLICATE)
        for i, name in enumerate(NAMES)
    }
    blocks: dict[tuple[Op, ...], tuple[Op, ...]] = {}
    made = tuple(Call("call", 0, 0, blocks.setdefault(ops, ops)) for ops in calls)
    mesh = Mesh((("gcd", 2),))
    return Schedule(mesh=mesh, tensors=tensors, roles=(Role("all", made),), pools={}, meta={"num_layers": 1})
