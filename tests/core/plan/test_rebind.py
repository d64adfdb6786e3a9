"""A rebound schedule equals the one that a build gives, to the last byte of its stored form."""

import pytest

from simfrontier.core.plan.families import FAMILIES, make_plan
from simfrontier.core.plan.plan import Engine
from simfrontier.core.plan.repeat import rebound, rebound_program
from simfrontier.core.plan.to_schedule import build
from simfrontier.core.program.expansion import expand
from simfrontier.core.program.mesh import Mesh
from simfrontier.core.program.store import digest
from simfrontier.core.workload import find_model, gpt

SHAPE = find_model("gpt-neox-20b")
NAMED = ("ddp", "zero1", "zero2", "zero3", "hsdp", "zeropp", "zero-topo")


def mesh_of(nodes: int) -> Mesh:
    return Mesh((("node", nodes), ("package", 4), ("gcd", 2)))


@pytest.mark.parametrize("family", NAMED)
def test_rebound_equals_built(family: str) -> None:
    options = FAMILIES[family][0](family=family)
    small, large = mesh_of(2), mesh_of(48)
    built = {}
    for mesh, batch in ((small, small.num_ranks), (large, 3 * large.num_ranks)):
        work = gpt(SHAPE, batch, checkpointing="full")
        built[mesh] = build(work, make_plan(family, options, mesh), mesh, Engine())
    other = rebound(built[small], large, 3 * large.num_ranks)
    assert digest(other) == digest(built[large])
    program = rebound_program(expand(built[small], built[small].roles[0]), other)
    fresh = expand(built[large], built[large].roles[0])
    assert program.waits == fresh.waits
    assert program.ops == fresh.ops
    assert program.calls == fresh.calls
