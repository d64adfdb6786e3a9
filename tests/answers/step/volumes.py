"""Schedules whose weights divide exactly, and what they must move: psi parameters, M = 2 psi bytes."""

from collections.abc import Iterator
from fractions import Fraction

from simfrontier.answers.step import RequiredBytes, step_needs
from simfrontier.core.collectives.volume import Part
from simfrontier.core.plan import FAMILIES, Engine, build, make_plan
from simfrontier.core.program.ir import Call, Collective, Schedule
from simfrontier.core.program.mesh import Mesh
from simfrontier.core.workload import Checkpointing, GptShape, find_model, gpt

NAMED = ("ddp", "zero1", "zero2", "zero3", "hsdp", "zeropp", "zero-topo")
# every weight divides by 16, 24 and 64 ranks, and every matrix by twice as many
EXACT = GptShape(
    name="exact", num_layers=3, hidden=384, heads=4, vocabulary=384, sequence=16, source="made for this test"
)
PSI = EXACT.num_parameters
M = 2 * PSI
# vectors (norms and biases) take the fallback route of quantised gradients
VECTORS = EXACT.num_layers * 13 * EXACT.hidden + 2 * EXACT.hidden
MATRICES = PSI - VECTORS
NEOX = find_model("gpt-neox-20b")
# everything is sharded, and nothing that was gathered is kept for a second use
PLAIN = Engine(persistence_elements=0, reuse_elements=0)
IN_NODE, ALL = ("package", "gcd"), ("node", "package", "gcd")


def mesh_of(nodes: int) -> Mesh:
    return Mesh((("node", nodes), ("package", 4), ("gcd", 2)))


def built(
    family: str,
    nodes: int,
    grad_accum: int = 1,
    *,
    shape: GptShape = EXACT,
    engine: Engine = PLAIN,
    checkpointing: Checkpointing = "none",
    **options: object,
) -> Schedule:
    mesh = mesh_of(nodes)
    plan = make_plan(family, FAMILIES[family][0].model_validate({"family": family, **options}), mesh)
    return build(gpt(shape, mesh.num_ranks, checkpointing=checkpointing), plan, mesh, engine, grad_accum)


def needs(family: str, nodes: int, grad_accum: int = 1, **options: object) -> RequiredBytes:
    return step_needs(built(family, nodes, grad_accum, **options))  # type: ignore[arg-type]


def moved(need: RequiredBytes, boundary: str, part: Part | None = None) -> Fraction:
    """All but the scalars."""
    return need.total(boundary, part=part) - need.total(boundary, "scalar", part)


def foreign(count: int) -> Fraction:
    """1 - 1/count: what of a whole that is split evenly lies elsewhere."""
    return 1 - Fraction(1, count)


def collectives(schedule: Schedule) -> Iterator[tuple[Call, Collective]]:
    for call, op in schedule.roles[0].instances():
        if isinstance(op, Collective):
            yield call, op
