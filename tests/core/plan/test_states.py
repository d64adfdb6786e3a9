"""Bytes of model states per rank, counted from a schedule's tensors, against the closed form of every plan."""

from fractions import Fraction

import pytest

from simfrontier.core.plan import FAMILIES, Engine, build, make_plan
from simfrontier.core.program.ir import Schedule
from simfrontier.core.program.mesh import Mesh
from simfrontier.core.workload import GptShape, find_model, gpt

STATES = ("weight", "copy", "accumulator", "optimizer", "master")
NOTHING_WHOLE = Engine(persistence_elements=0)
NEOX = find_model("gpt-neox-20b")
# every weight divides by 8 * 8 and 3 * 8 ranks, so that no padding disturbs the closed forms
EXACT = GptShape(
    name="exact", num_layers=3, hidden=192, heads=4, vocabulary=384, sequence=16, source="made for this test"
)
PSI = EXACT.num_parameters


def built(
    family: str, nodes: int, shape: GptShape = EXACT, engine: Engine = NOTHING_WHOLE, **options: object
) -> Schedule:
    mesh = Mesh((("node", nodes), ("package", 4), ("gcd", 2)))
    chosen = FAMILIES[family][0].model_validate({"family": family, **options})
    plan = make_plan(family, chosen, mesh)
    return build(gpt(shape, mesh.num_ranks, checkpointing="full"), plan, mesh, engine)


def state_bytes(schedule: Schedule) -> dict[str, int]:
    """Bytes of one rank by role, over all layers."""
    out = dict.fromkeys(STATES, 0)
    for tensor in schedule.tensors.values():
        if tensor.role in out:
            count = int(schedule.meta["num_layers"]) if tensor.per_layer else 1
            out[tensor.role] += count * tensor.local_bytes(schedule.mesh)
    return out


def per_parameter(family: str, nodes: int, **options: object) -> Fraction:
    return Fraction(sum(state_bytes(built(family, nodes, **options)).values()), PSI)  # type: ignore[arg-type]


@pytest.mark.parametrize("nodes", [1, 3])
def test_bytes_per_parameter_are_the_closed_forms(nodes: int) -> None:
    n = 8 * nodes
    assert per_parameter("ddp", nodes) == 16
    assert per_parameter("zero1", nodes) == 4 + Fraction(12, n)
    assert per_parameter("zero2", nodes) == 2 + Fraction(14, n)
    assert per_parameter("zero1", nodes, gather="next_forward") == 4 + Fraction(14, n)  # and the shard it is of
    assert per_parameter("zero3", nodes) == Fraction(16, n)
    assert per_parameter("hsdp", nodes) == 2
    assert per_parameter("zero-topo", nodes) == Fraction(5, 4) + Fraction(12, n)


@pytest.mark.parametrize("nodes", [3])
def test_the_second_copy_of_zeropp_costs_a_quarter_byte_per_parameter(nodes: int) -> None:
    assert per_parameter("zeropp", nodes) == Fraction(16, 8 * nodes) + Fraction(2, 8)
    assert per_parameter("zeropp", nodes, hpz=False) == Fraction(16, 8 * nodes)
    assert per_parameter("zeropp", nodes, secondary=("gcd",)) == Fraction(16, 8 * nodes) + 1


@pytest.mark.parametrize(
    ("family", "gigabytes"), [("ddp", "120"), ("zero1", "31.4"), ("zero2", "16.6"), ("zero3", "1.88")]
)
def test_published_check_value_of_zero(family: str, gigabytes: str) -> None:
    """7.5e9 parameters on 64 ranks (arXiv 1910.02054): bytes per parameter do not depend on the model."""
    size = float(per_parameter(family, 8) * Fraction("7.5"))
    assert f"{size:.{len(gigabytes.partition('.')[2])}f}" == gigabytes


def test_persisted_weights_cost_exactly_what_their_partition_would_have_saved() -> None:
    """Weights of up to 1e5 elements stay whole (DeepSpeed's default): here norms and biases, 13h per layer and 2h."""
    nodes = 48
    whole = NEOX.num_layers * 13 * NEOX.hidden + 2 * NEOX.hidden
    for family, kept, copied in (
        ("zero1", 0, 0),
        ("zero3", 2 * whole - Fraction(2 * whole, 384), 0),
        ("zeropp", 2 * whole - Fraction(2 * whole, 384), Fraction(2 * whole, 8)),
        ("hsdp", 2 * whole - Fraction(2 * whole, 8), 0),
        ("zero-topo", 2 * whole - Fraction(2 * whole, 2), 0),
    ):
        default = sum(state_bytes(built(family, nodes, NEOX, Engine())).values())
        nothing_whole = sum(state_bytes(built(family, nodes, NEOX)).values())
        assert default - nothing_whole == kept - copied, family


def test_padding_is_counted_once_per_tensor_and_state() -> None:
    """97 = 4 * 24 + 1 elements on 24 ranks take 5 elements each; 97 on rank pairs take 60 of 120."""
    odd = GptShape(name="odd", num_layers=1, hidden=97, heads=1, vocabulary=97, sequence=4, source="made for this test")
    tensors = built("zero3", 3, odd).tensors
    mesh = Mesh((("node", 3), ("package", 4), ("gcd", 2)))
    assert (tensors["ln1.bias"].local_elements(mesh), tensors["ln1.bias"].padding(mesh)) == (5, 23)
    topo = built("zero-topo", 3, odd).tensors
    assert (topo["ln1.bias"].local_elements(mesh), topo["ln1.bias.master"].local_elements(mesh)) == (60, 5)
