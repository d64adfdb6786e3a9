"""Schedules of single collectives are valid and have the message sizes that were asked for."""

from simfrontier.core.collectives import messages_of
from simfrontier.core.program import Mesh
from simfrontier.core.program.checker import check
from simfrontier.core.program.ir import Collective
from simfrontier.core.program.sweep_calls import SweepCall, sweep

MESH = Mesh((("node", 2), ("package", 4), ("gcd", 2)))
WORLD = ("node", "package", "gcd")


def test_a_sweep_is_sound_and_has_the_messages_asked_for() -> None:
    probes = [
        SweepCall(kind=kind, axes=axes, num_bytes=size)
        for kind in ("all_gather", "reduce_scatter", "all_reduce")
        for axes in (WORLD, ("package", "gcd"), ("gcd",))
        for size in (4096, 1 << 20)
    ]
    made = sweep(MESH, probes)
    assert check(made).is_clean
    ops = [op for _, op in made.roles[0].instances()]
    assert [op.kind for op in ops] == [probe.kind for probe in probes]
    for probe, op in zip(probes, ops, strict=True):
        assert isinstance(op, Collective) and op.axes == probe.axes
        (message,) = messages_of(op, made.tensors, MESH)
        assert message.num_bytes == probe.num_bytes
        assert made.tensors[op.src[0].name].persistent and not made.tensors[op.dst[0].name].persistent


def test_sizes_are_rounded_down_to_whole_pieces() -> None:
    """1,000 bytes are 250 numbers, 15 for each of 16 members: 240 numbers, 960 bytes. Of 4 bytes each still gets a
    number."""
    for asked, got in ((1000, 960), (4, 64)):
        made = sweep(MESH, [SweepCall(kind="all_gather", axes=WORLD, num_bytes=asked)])
        ((_, op),) = made.roles[0].instances()
        assert isinstance(op, Collective)
        assert messages_of(op, made.tensors, MESH)[0].num_bytes == got
