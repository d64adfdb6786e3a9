"""What the chosen algorithms move in a step: payload between endpoints by boundary, and bytes on links. Exact
counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from simfrontier.collectives import messages_of, overheads_of, sent_share
from simfrontier.network import Kind
from simfrontier.schedule.ir import Collective, Op
from simfrontier.simulate import Cluster, SimulatedStep

BOUNDARIES = ("package", "intra_node", "inter_node")
PARTS = ("data", "scales", "padding", "fallback", "persisted")


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Endpoint payload of one step, summed over the machine: bytes[boundary][part]; and total bytes on every link."""

    num_bytes: Mapping[str, Mapping[str, Fraction]]
    on_link: NDArray[np.float64]

    def total(self, boundary: str, part: str = "data") -> float:
        return float(self.num_bytes[boundary][part])


def instances(step: SimulatedStep) -> list[tuple[Op, int]]:
    """Every distinct op with how often it runs in the step."""
    counts = Counter(map(id, step.program.ops))
    ops = {id(op): op for op in step.program.ops}
    return [(ops[number], count) for number, count in counts.items()]


def traffic(step: SimulatedStep) -> Traffic:
    """Counted from the patterns' edges and loads; `on_link` is in wire bytes of payload, not divided by shares."""
    cluster = step.cluster
    totals = {boundary: dict.fromkeys(PARTS, Fraction(0)) for boundary in BOUNDARIES}
    volume: dict[str, float] = {}
    for op, count in instances(step):
        if isinstance(op, Collective):
            _count(op, count, cluster, totals)
            key = cluster.key_of(op)
            volume[key] = volume.get(key, 0.0) + count * cluster.volume_bytes(op)
    return Traffic(num_bytes=totals, on_link=_on_links(cluster, volume))


def _count(op: Collective, count: int, cluster: Cluster, totals: dict[str, dict[str, Fraction]]) -> None:
    mesh, tensors = cluster.schedule.mesh, cluster.schedule.tensors
    pattern = cluster.pattern_of(op)
    share = sent_share(op, cluster.algorithms[id(op)], mesh)
    parts = overheads_of(op, tensors, mesh)
    for boundary, edges in zip(BOUNDARIES, pattern.edges.sum(axis=0).tolist(), strict=True):
        per_byte = count * share * Fraction(edges, pattern.divisor)
        for part, size in parts.items():
            where = kind_of_payload(op, cluster) if part == "data" else part
            totals[boundary][where] += per_byte * size


def kind_of_payload(op: Collective, cluster: Cluster) -> str:
    """Whether a collective carries ordinary data, a gradient that fell back to a plain codec, or weights that stay
    whole."""
    tensors = cluster.schedule.tensors
    if op.name == "gradient" and not op.codec.is_quantised and cluster.schedule.meta.get("quantised_gradients"):
        return "fallback"
    final = tensors[op.dst[0].name]
    if (
        op.name == "publish"
        and final.role == "weight"
        and not final.placement.flat
        and cluster.schedule.meta.get("sharded_weights")
    ):
        return "persisted"
    return "data"


def _on_links(cluster: Cluster, volume: Mapping[str, float]) -> NDArray[np.float64]:
    loads = np.zeros(cluster.fabric.num_links)
    shares = np.ones(cluster.fabric.num_links)
    for key, size in volume.items():
        pattern = cluster.counted[key]
        wires = slice(0, pattern.num_wire_loads)
        used = cluster.library.shares(key.rsplit("/", 1)[1])  # type: ignore[arg-type]
        classes = cluster.machine.link_classes
        by_class = np.array(
            [used.get(n, classes[n].share) if n in classes else 1.0 for n in cluster.fabric.class_names]
        )
        shares = by_class[cluster.fabric.link_class[pattern.link[wires]]]
        loads += np.bincount(pattern.link[wires], pattern.weight[wires] * shares, minlength=len(loads)) * size
    loads[cluster.fabric.kind != Kind.WIRE] = 0.0
    return loads


def payload_bytes(op: Collective, cluster: Cluster) -> int:
    """All bytes of a collective's messages."""
    return sum(m.num_bytes for m in messages_of(op, cluster.schedule.tensors, cluster.schedule.mesh))
