"""Findings of the checker for several roles: the order in which they call their communicators."""

from dataclasses import replace

from simfrontier.core.codecs import Plain
from simfrontier.core.program import Call, Collective, Mesh, Op, Ref, Role, Schedule, Tensor
from simfrontier.core.program.placement import REPLICATE
from tests.core.program.mutations import lines

TOKEN = Tensor(name="t", shape=(8,), dtype="fp16", role="activation", placement=REPLICATE, persistent=True)


def reduction(comm: str, name: str, lane: str = "compute") -> Collective:
    return Collective(
        kind="all_to_all",
        name=name,
        axes=("stage",),
        src=(Ref("t"),),
        dst=(Ref("u"),),
        codec=Plain("fp16"),
        lane=lane,
        comm=comm,
    )


def two_roles(first: tuple[Op, ...], second: tuple[Op, ...]) -> list[str]:
    """Only the order findings; the collectives of these roles mean nothing."""
    schedule = Schedule(
        mesh=Mesh((("stage", 2),)),
        tensors={"t": TOKEN, "u": replace(TOKEN, name="u")},
        roles=(
            Role("a", (Call("step", 0, 0, first),), ("stage", 0)),
            Role("b", (Call("step", 0, 0, second),), ("stage", 1)),
        ),
        pools={},
        meta={},
    )
    return [line for line in lines(schedule) if line.startswith("order")]


def test_roles_that_call_their_communicators_alike_are_clean() -> None:
    ops = (reduction("x", "one"), reduction("y", "two"), reduction("x", "three"))
    assert two_roles(ops, ops) == []


def test_crossed_communicators_are_a_deadlock() -> None:
    one, two = reduction("x", "one"), reduction("y", "two")
    names = two_roles((one, two), (two, one))
    assert len(names) == 2
    assert names[0] == (
        "order: step of layer 0, micro-batch 0: all_to_all one of t (ranks of role a): "
        "expected a run to the end; found blocked: role b (in step of layer 0, micro-batch 0: all_to_all two of t) "
        "does not join it"
    )


def test_a_call_too_many_is_named() -> None:
    one = reduction("x", "one")
    names = two_roles((one, one), (one,))
    assert "order: communicator x (ranks of role b): expected 2 calls, as in role a; found 1 calls" in names


def test_calls_of_another_size_are_named() -> None:
    one = reduction("x", "one")
    (line,) = two_roles((one,), (replace(one, codec=Plain("bf16")),))
    assert "expected call 0 of communicator x to be all_to_all over stage of 16 bytes (fp16, library)" in line
    assert "found all_to_all over stage of 16 bytes (bf16, library)" in line
