"""What the chosen algorithms move in a step: payload between endpoints by boundary, and bytes on links. Exact
counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from simfrontier.analysis.volumes import Parts, op_need
from simfrontier.collectives import messages_of, sent_share
from simfrontier.network import Kind
from simfrontier.schedule.ir import Collective, Op
from simfrontier.simulate import Cluster, SimulatedStep
from simfrontier.simulate.choice import shares_of

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
    cluster, parts = step.cluster, Parts(step.schedule)
    totals = {boundary: dict.fromkeys(PARTS, Fraction(0)) for boundary in BOUNDARIES}
    volume: dict[str, float] = {}
    for op, count in instances(step):
        if isinstance(op, Collective):
            for boundary, per_byte in zip(BOUNDARIES, sent_per_byte(op, cluster), strict=True):
                for part, size in parts.bytes_of(op).items():
                    totals[boundary][part] += count * per_byte * size
            key = cluster.key_of(op)
            volume[key] = volume.get(key, 0.0) + count * cluster.volume_bytes(op)
    return Traffic(num_bytes=totals, on_link=_on_links(cluster, volume))


def sent_per_byte(op: Collective, cluster: Cluster) -> tuple[Fraction, ...]:
    """Bytes that cross each boundary, summed over the machine, per byte of the op's message, by its algorithm."""
    pattern = cluster.pattern_of(op)
    share = sent_share(op, cluster.algorithms[id(op)], cluster.schedule.mesh)
    return tuple(share * Fraction(edges, pattern.divisor) for edges in pattern.edges.sum(axis=0).tolist())


def _on_links(cluster: Cluster, volume: Mapping[str, float]) -> NDArray[np.float64]:
    loads = np.zeros(cluster.fabric.num_links)
    shares = np.ones(cluster.fabric.num_links)
    for key, size in volume.items():
        pattern = cluster.counted[key]
        wires = slice(0, pattern.num_wire_loads)
        used = shares_of(cluster.library, cluster.machine, key.rsplit("/", 1)[1])
        by_class = np.array([used.get(name, 1.0) for name in cluster.fabric.class_names])
        shares = by_class[cluster.fabric.link_class[pattern.link[wires]]]
        loads += np.bincount(pattern.link[wires], pattern.weight[wires] * shares, minlength=len(loads)) * size
    loads[cluster.fabric.kind != Kind.WIRE] = 0.0
    return loads


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """One kind of move in a step: its calls, and bytes per step into a node, payload and overheads together.

    `need` is what any algorithm has to bring in, None where the mesh's nodes are not the machine's; `link` is what the
    chosen one does bring in.
    """

    name: str
    kind: str
    axes: tuple[str, ...]
    codec: str
    algorithm: str
    calls: int
    message_bytes: int
    need: Fraction | None
    link: Fraction


def _need(op: Collective, cluster: Cluster, count: int) -> Fraction | None:
    if cluster.fabric.num_nodes == 1:
        return Fraction(0)
    schedule = cluster.schedule
    return count * op_need(op, schedule, schedule.mesh.names[0]) if cluster.mesh_is_machine else None


def moves_of(step: SimulatedStep) -> tuple[Moved, ...]:
    """The collectives of a step, equal kinds together, in order of first appearance."""
    cluster, schedule = step.cluster, step.schedule
    found: dict[tuple[str, ...], Moved] = {}
    for op, count in instances(step):
        if not isinstance(op, Collective):
            continue
        size = sum(message.num_bytes for message in messages_of(op, schedule.tensors, schedule.mesh))
        one = Moved(
            name=op.name,
            kind=op.kind,
            axes=op.axes,
            codec=str(op.codec),
            algorithm=cluster.algorithms[id(op)],
            calls=count,
            message_bytes=count * size,
            need=_need(op, cluster, count),
            link=count * size * sent_per_byte(op, cluster)[-1] / cluster.fabric.num_nodes,
        )
        key = (one.name, one.kind, "+".join(one.axes), one.codec, one.algorithm)
        known = found.get(key)
        if known is not None:
            one = replace(
                one,
                calls=one.calls + known.calls,
                message_bytes=one.message_bytes + known.message_bytes,
                need=None if one.need is None or known.need is None else one.need + known.need,
                link=one.link + known.link,
            )
        found[key] = one
    return tuple(found.values())
