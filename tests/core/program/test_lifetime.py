"""Lifetimes of tensors and peak memory, computed by hand for a program of four ops."""

from dataclasses import replace

from simfrontier.core.program import Call, Compute, Mesh, Op, Ref, Role, Schedule, Tensor, expand, peak_bytes
from simfrontier.core.program.lifetime import Holder
from simfrontier.core.program.placement import Placement
from tests.core.engine.steps import FOUR_LAYERS, frontier_mesh, schedule

HALF = Tensor(
    name="w", shape=(8,), dtype="fp16", role="weight", placement=Placement(flat=frozenset({"x"})), nesting=("x",)
)


def op(name: str, reads: str, writes: str) -> Op:
    return Compute(kind="slice", name=name, reads=tuple(map(Ref, reads)), writes=tuple(map(Ref, writes)))


def four_ops() -> Schedule:
    """w is persistent (8 bytes on each of two ranks); a, b, c are whole and transient: 20, 40 and 80 bytes."""
    sizes = {"a": 10, "b": 20, "c": 40}
    whole = {
        name: replace(HALF, name=name, shape=(n,), role="gathered", placement=Placement(), nesting=())
        for name, n in sizes.items()
    }
    ops = (op("one", "w", "a"), op("two", "a", "b"), op("three", "b", "c"), op("four", "c", "w"))
    return Schedule(
        mesh=Mesh((("x", 2),)),
        tensors={"w": replace(HALF, persistent=True), **whole},
        roles=(Role("all", (Call("step", 0, 0, ops),)),),
        pools={},
        meta={},
    )


def test_lifetimes_run_from_the_first_write_to_the_last_touch() -> None:
    built = four_ops()
    program = expand(built, built.roles[0])
    assert program.lifetimes == [(Ref("w"), 0, 3), (Ref("a"), 0, 1), (Ref("b"), 1, 2), (Ref("c"), 2, 3)]


def test_peak_counts_what_an_op_reads_and_writes() -> None:
    peak = peak_bytes(four_ops())
    assert (peak.num_bytes, peak.persistent_bytes) == (8 + 40 + 80, 8)
    assert peak.op == "step of layer 0, micro-batch 0: slice three of b"
    assert peak.holders == (Holder("gathered", "c", 1, 80), Holder("gathered", "b", 1, 40), Holder("weight", "w", 1, 8))


def test_ddp_holds_16_bytes_per_parameter() -> None:
    """Weights, gradients and optimizer 2 + 2 + 12: an all-reduce in place makes no second gradient."""
    peak = peak_bytes(schedule("ddp", frontier_mesh(2)))
    states = sum(holder.num_bytes for holder in peak.holders if holder.role not in ("activation", "scalar"))
    assert states == 16 * FOUR_LAYERS.num_parameters
