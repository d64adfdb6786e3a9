"""A schedule that runs single collectives one after the other, as a benchmark of a network."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from simfrontier.core.codecs import Plain
from simfrontier.core.program.ir import Call, Collective, CollectiveKind, Op, Ref, Role, Schedule, Tensor
from simfrontier.core.program.mesh import Mesh
from simfrontier.core.program.placement import REPLICATE, Placement, flat, partial

DTYPE, BYTES = "fp32", 4
LANE = "sweep"


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepCall:
    """One collective over `axes` with a message of about `num_bytes` bytes (rounded to whole chunks of FP32
    numbers)."""

    kind: CollectiveKind
    axes: tuple[str, ...]
    num_bytes: int

    @property
    def name(self) -> str:
        return f"{self.kind}-{'+'.join(self.axes)}-{self.num_bytes}"


def sweep(mesh: Mesh, probes: Iterable[SweepCall]) -> Schedule:
    """Return a schedule that runs the collectives `probes` in order on one lane, each on its own tensors. The inputs
    are persistent: the shards for an all-gather, or the contributions of the ranks to a reduction."""
    tensors: dict[str, Tensor] = {}
    ops: list[Op] = []
    for probe in probes:
        members = mesh.size(probe.axes)
        elements = max(1, probe.num_bytes // BYTES // members) * members
        before, after = _placements(probe)
        for name, placement, is_there in ((f"{probe.name}.from", before, True), (probe.name, after, False)):
            tensors[name] = Tensor(
                name=name,
                shape=(elements,),
                dtype=DTYPE,
                role="gathered",
                placement=placement,
                nesting=probe.axes,
                persistent=is_there,
            )
        ops.append(
            Collective(
                kind=probe.kind,
                name=probe.name,
                axes=probe.axes,
                src=(Ref(f"{probe.name}.from"),),
                dst=(Ref(probe.name),),
                codec=Plain(DTYPE),
                lane=LANE,
                comm="+".join(probe.axes),
            )
        )
    call = Call("sweep", 0, 0, tuple(ops))
    return Schedule(mesh=mesh, tensors=tensors, roles=(Role("all", (call,)),), pools={}, meta={"plan": "sweep"})


def _placements(probe: SweepCall) -> tuple[Placement, Placement]:
    match probe.kind:
        case "all_gather":
            return flat(probe.axes), REPLICATE
        case "reduce_scatter":
            return partial(probe.axes), flat(probe.axes)
        case "all_reduce":
            return partial(probe.axes), REPLICATE
        case "all_to_all":
            raise ValueError("an all-to-all moves shards from one dimension to another: no plan here has that")
