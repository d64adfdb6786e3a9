"""Time of coded messages: encode and decode kernels, and coding at every hop of a ring, by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from simfrontier.codecs import parse_codec
from simfrontier.collectives import HopTimes, Library, load_library
from simfrontier.collectives.ring_law import RingTimes
from simfrontier.cost import Prices, price
from simfrontier.machine import Machine, load_machine
from simfrontier.schedule.ir import Call, Collective, CollectiveKind, Compute, Op, Ref, Role, Schedule, Tensor
from simfrontier.schedule.mesh import Mesh
from simfrontier.schedule.placement import REPLICATE
from simfrontier.schedule.segments import segmented
from simfrontier.simulation import Fidelity, simulate_step
from simfrontier.simulation.role_view import view_of
from simfrontier.simulation.which_engine import simulate
from tests.perturbed import perturbed
from tests.plan.grids import megatron, other, schedule_of

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
        link_shares={"xgmi": 1.0, "pcie": 1.0, "nic": 1.0, "global": 1.0},
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
@pytest.mark.parametrize("how", ["flow", "analytic"])
def test_a_ring_that_codes_every_message(
    kind: CollectiveKind, codec: str, gaps: int, volume: float, values: float, how: Fidelity
) -> None:
    """Seconds of a byte: 1/10 GB/s on the link, and values · 4 B · 2 / 25 GB/s in the devices at its ends."""
    per_byte = 1 / 10e9 + values * 4 * 2 / SPEED
    got = seconds(ring(kind, codec), library=free(), how=how)
    assert got == pytest.approx(gaps * GAP + volume * per_byte, rel=1e-9)


# ── whole steps ──

SHAPE = other(num_layers=4, hidden=384, sequence=240)


def compressed(policy: str, ranks: int = 16, **keys: Any) -> Schedule:
    """Two-way tensor parallelism, two stages, and replicas with ZeRO-1; two micro-batches."""
    base: dict[str, Any] = {"data": "zero1", "compress_from": 4096} | keys
    return schedule_of(
        megatron(2, base.pop("pipeline", 2), compression=policy, **base), ranks, shape=SHAPE, micros=2, node=(8, 2)
    )


@pytest.mark.parametrize(
    ("policy", "keys"),
    [
        ("naive-mpc", {"compress_per_hop": True}),
        ("MZHybrid:8", {"message_dtype": "fp32"}),
        ("ZHybrid:8/16", {"compress_per_hop": True, "data": "ddp", "pipeline": 1}),
        ("naive-mpc", {"sequence_parallel": True, "compress_per_hop": True, "data": "hsdp"}),
    ],
    ids=str,
)
def test_prices_are_those_of_the_ops_alone(policy: str, keys: dict[str, Any]) -> None:
    machine, library = load_machine("frontier"), load_library("rccl")
    schedule = compressed(policy, 32, **keys)
    pricing, prices = price(schedule, machine, library), Prices(machine, library, 32)
    coded = 0
    for op in schedule.distinct_ops():
        slowest = max(work.alone_s for work in pricing.of(op).works)
        assert prices.seconds(op, schedule) == pytest.approx(slowest, rel=1e-9), op.name
        coded += op.kind in ("encode", "decode_sum") or getattr(op, "per_hop", False)
    assert coded > 3


FAULTS = perturbed(slow={11: 0.7}, links={(3, "xgmi 0>2"): 0.4, (0, "nic1>net"): 0.5})


@pytest.mark.parametrize(("policy", "per_hop"), [("MZHybrid:8", False), ("naive-zfp:8", True)])
def test_folded_is_exact(policy: str, per_hop: bool) -> None:
    """Starts and ends of all ops on the slowest rank of each stage; calls as a whole where the ranks are folded."""
    schedule = compressed(policy, 32, compress_per_hop=per_hop, data="zero3")
    results = []
    for exact in (False, True):
        pricing = price(schedule, load_machine("frontier"), load_library("rccl"), FAULTS, exact)
        role_timelines = simulate([segmented(schedule, role, not exact) for role in schedule.roles], pricing, True)
        lines = [view_of(one).timeline for one in role_timelines]
        results.append([getattr(line, what).max(axis=0) for line in lines for what in ("ready", "start", "end")])
        assert (pricing.folding.num_rank_classes == 32) is exact
    step_s = max(ends.max() for ends in results[1])
    assert max(np.abs(a - b).max() for a, b in zip(*results, strict=True)) <= 1e-9 * step_s
