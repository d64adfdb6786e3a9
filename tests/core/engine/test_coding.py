"""Time of coded messages: encode and decode kernels, and coding at every hop of a ring, by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from simfrontier.core.codecs import parse_codec
from simfrontier.core.collectives import HopTimes, Library, load_library
from simfrontier.core.collectives.laws import RingTimes
from simfrontier.core.engine import Fidelity, simulate_step
from simfrontier.core.machine import Machine, load_machine
from simfrontier.core.program.ir import Call, Collective, CollectiveKind, Compute, Op, Ref, Role, Schedule, Tensor
from simfrontier.core.program.mesh import Mesh
from simfrontier.core.program.placement import REPLICATE

TOY = load_machine("toy-cluster")
MESH = Mesh((("node", 1), ("package", 2), ("gcd", 2)))
ELEMENTS = 2_000_000
GAP = 1e-6
SPEED = 25e9  # bytes of 32-bit values per second, to encode and to decode


def tensor(name: str, codec: str = "", stacked: tuple[str, ...] = (), elements: int = ELEMENTS) -> Tensor:
    coded: dict[str, Any] = {"role": "encoded", "codec": parse_codec(codec)} if codec else {"role": "gathered"}
    return Tensor(name=name, shape=(elements,), dtype="fp16", placement=REPLICATE, stacked=stacked, **coded)


def of(tensors: tuple[Tensor, ...], *ops: Op, mesh: Mesh = MESH) -> Schedule:
    """A step of some ops and nothing else."""
    role = Role("all", (Call("step", 0, 0, ops),))
    return Schedule(mesh=mesh, tensors={each.name: each for each in tensors}, roles=(role,), pools={}, meta={})


def local(kind: str, src: str, dst: str, lane: str = "compute") -> Compute:
    return Compute(kind=kind, name=f"{kind} {src}", reads=(Ref(src),), writes=(Ref(dst),), lane=lane)


def seconds(
    schedule: Schedule, machine: Machine = TOY, library: Library | None = None, how: Fidelity = "flow"
) -> float:
    return simulate_step(schedule, machine, library or load_library("rccl"), how).step_s


def one_kernel(kind: str, codec: str, machine: Machine = TOY, stacked: tuple[str, ...] = ()) -> float:
    """An encode of 2 M numbers, or a decode of as many (`stacked`: of as many from each rank of an axis)."""
    coded, plain = tensor("coded", codec, stacked), tensor("plain")
    ends = ("plain", "coded") if kind == "encode" else ("coded", "plain")
    return seconds(of((coded, plain), local(kind, *ends)), machine)


# ── at once ──


@pytest.mark.parametrize("kind", ["encode", "decode"])
@pytest.mark.parametrize("codec", ["zfp:8", "zfp:24", "mpc:fp16:1.03", "mpc:fp32:1.89"])
def test_arithmetic_holds_a_codec_up_on_the_toy(kind: str, codec: str) -> None:
    """2 M values are 8 MB as 32-bit ones: 320 us at 25 GB/s. Memory: 4 MB plain, and at most 6 MB coded, 100 us."""
    assert one_kernel(kind, codec) == pytest.approx(GAP + 4 * ELEMENTS / SPEED, rel=1e-9)


@pytest.mark.parametrize("kind", ["encode", "decode"])
def test_memory_holds_a_fast_codec_up(kind: str) -> None:
    """4 MB plain and 2 MB coded at 8 bits per value: 60 us at 100 GB/s, while 8 MB at 1 TB/s take 8 us."""
    fast = {f"device.codecs.zfp.{way}_bytes_per_s": 1e12 for way in ("encode", "decode")}
    assert one_kernel(kind, "zfp:8", load_machine("toy-cluster", fast)) == pytest.approx(GAP + 60e-6, rel=1e-9)


@pytest.mark.parametrize(("kind", "factor"), [("encode", 8.0), ("decode", 2.0)])
def test_each_way_has_its_own_speed(kind: str, factor: float) -> None:
    machine = load_machine(
        "toy-cluster",
        {"device.codecs.zfp.encode_bytes_per_s": SPEED / 8, "device.codecs.zfp.decode_bytes_per_s": SPEED / 2},
    )
    assert one_kernel(kind, "zfp:8", machine) == pytest.approx(GAP + factor * 4 * ELEMENTS / SPEED, rel=1e-9)


def test_a_sum_decodes_what_every_rank_sent() -> None:
    """Pieces of 2 M values of two ranks: 16 MB of 32-bit values, 640 us."""
    assert one_kernel("decode_sum", "zfp:8", stacked=("gcd",)) == pytest.approx(GAP + 16e6 / SPEED, rel=1e-9)


def test_kernels_of_codecs_share_a_device() -> None:
    """Each keeps all compute units busy for 320 us: two at a time take twice as long, less the gap that one uses while
    the other waits; and both go as fast as alone one after the other."""
    coded = [tensor(f"coded{number}", "zfp:8") for number in (0, 1)]
    plain = [tensor(f"plain{number}") for number in (0, 1)]
    beside, after = (
        of((*coded, *plain), local("encode", "plain0", "coded0"), local("decode", "coded1", "plain1", lane))
        for lane in ("other", "compute")
    )
    math_s = 4 * ELEMENTS / SPEED
    assert seconds(beside) == pytest.approx(2 * math_s, rel=1e-9)
    assert seconds(after) == pytest.approx(2 * (math_s + GAP), rel=1e-9)


# ── at every hop ──

NO_TIME = HopTimes(base_s=0.0, hop_in_node_s=0.0, hop_between_nodes_s=0.0)


def free(hops: HopTimes = NO_TIME) -> Library:
    """A library whose rings start up in `hops`, without LL, and take no compute units."""
    return replace(
        load_library("rccl"),
        ring=RingTimes(
            base_s=hops.base_s,
            hop_in_node_s=hops.hop_in_node_s,
            hop_between_nodes_s=hops.hop_between_nodes_s,
            forwarded_share=1.0,
        ),
        ring_ll=None,
        tuning=None,
        shares={"xgmi": 1.0, "pcie": 1.0, "nic": 1.0, "global": 1.0},
        ring_caps={},
        units_per_channel=0.0,
    )


def ring(kind: CollectiveKind, codec: str, per_hop: bool = True, elements: int = ELEMENTS, ranks: int = 2) -> Schedule:
    """A collective of the first ranks, of fp16 numbers."""
    mesh = Mesh((("gcd", ranks),))
    op = Collective(
        kind=kind,
        name="ring",
        axes=("gcd",),
        src=(Ref("a"),),
        dst=(Ref("b"),),
        codec=parse_codec(codec),
        via="ring",
        lane="ring",
        per_hop=per_hop,
    )
    return of((tensor("a", elements=elements), tensor("b", elements=elements)), op, mesh=mesh)


@pytest.mark.parametrize(
    ("kind", "codec", "gaps", "volume", "values"),
    [
        # 2 MB at 8 bits per value; an all-reduce of two ranks sends each half twice, in 2 messages of 2 kernels each
        ("all_reduce", "zfp:8", 4, 2e6, 1.0),
        ("reduce_scatter", "zfp:8", 2, 1e6, 1.0),
        ("all_gather", "zfp:8", 2, 1e6, 1.0),
        ("all_reduce", "zfp:16", 4, 4e6, 0.5),  # a byte on the wire is half a value
        ("all_gather", "mpc:fp32:2", 2, 2e6, 0.5),
    ],
)
@pytest.mark.parametrize("how", ["flow", "analytic", "chunk"])
def test_a_ring_that_codes_every_message(
    kind: CollectiveKind, codec: str, gaps: int, volume: float, values: float, how: Fidelity
) -> None:
    """Seconds of a byte: 1/10 GB/s on the link, and values · 4 B · 2 / 25 GB/s in the devices at its ends."""
    per_byte = 1 / 10e9 + values * 4 * 2 / SPEED
    got = seconds(ring(kind, codec), library=free(), how=how)
    assert got == pytest.approx(gaps * GAP + volume * per_byte, rel=1e-9)


@pytest.mark.parametrize(("kind", "gaps", "share"), [("all_reduce", 12, 1.5), ("all_gather", 6, 0.75)])
def test_a_ring_of_four_codes_at_each_of_its_hops(kind: CollectiveKind, gaps: int, share: float) -> None:
    """Once or twice three messages, each with two kernels, beside 2 MB that go as fast as 2 MB of plain numbers."""
    plain = seconds(ring(kind, "fp16", False, ELEMENTS // 2, ranks=4), library=free())
    coded = seconds(ring(kind, "zfp:8", ranks=4), library=free())
    assert coded == pytest.approx(plain + gaps * GAP + share * 2e6 * 4 * 2 / SPEED, rel=1e-9)


@pytest.mark.parametrize("codec", ["zfp:8", "zfp:16"])
def test_a_ring_codes_on_the_units_of_its_channels_first(codec: str) -> None:
    """Eight channels hold 8 of the toy's 10 units. 320 ns of coding in every 420 ns on all units are 7.6 of 10 on
    average, with zfp:16 160 ns of every 260 ns 6.2: less than the ring holds, so it takes what it takes alone."""
    holding = replace(free(), num_channels=8, units_per_channel=1.0)
    made = ring("all_reduce", codec)
    flow, alone = seconds(made, library=holding), seconds(made, library=holding, how="analytic")
    assert flow == pytest.approx(alone, rel=1e-9)
