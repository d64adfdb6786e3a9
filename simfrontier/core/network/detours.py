"""Detours around dead links: the load of a pattern on a fabric in which some links have no capacity.

Senders and receivers stay the same: the traffic of a dead link takes the best remaining path between the two ends of
that link, as in networks with local rerouting. The traffic of a dead NIC, or of the link to that NIC, uses another NIC
of the node. If no such path exists, the load stays on the dead link, and its activities make no progress.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from simfrontier.base.arrays import Floats, Ints
from simfrontier.core.machine import way
from simfrontier.core.network.fabric import Fabric, ResourceKind
from simfrontier.core.network.pattern import Pattern, achieved_shares
from simfrontier.core.network.pools import RESIDUE, summed


@dataclass(frozen=True, slots=True, kw_only=True)
class _Detour:
    """Reroute of a fraction `part` of the traffic on the dead link `broken`: the links `to` replace the links
    `instead_of`."""

    broken: int
    instead_of: tuple[int, ...]
    to: tuple[int, ...]
    part: float = 1.0


def dead_wires(fabric: Fabric) -> NDArray[np.bool_]:
    """Return a mask [num_links] of the wires and pools whose capacity is 0."""
    dead: NDArray[np.bool_] = (fabric.capacity == 0.0) & (fabric.kind == ResourceKind.WIRE)
    return dead


def around_dead(fabric: Fabric, pattern: Pattern, shares: Mapping[str, float]) -> Pattern:
    """Return the pattern with the loads of dead wires and pools moved to detours. `shares`: the achieved share of each
    link class with which the pattern was built."""
    dead, wires = dead_wires(fabric), slice(0, pattern.num_wire_loads)
    act, link = pattern.act[wires], pattern.link[wires]
    used = np.unique(link[dead[link]])
    if not len(used):
        return pattern
    share = _shares_of_links(fabric, shares)
    payload = pattern.weight[wires] * share[link]
    acts, links, amounts = [act], [link], [payload]
    for detour in _detours(fabric, dead, used):
        mine = np.flatnonzero(link == detour.broken)
        amount = payload[mine] * detour.part
        for sign, path in ((1.0, detour.to), (-1.0, detour.instead_of)):
            acts.append(np.tile(act[mine], len(path)))
            links.append(np.repeat(np.array(path, np.int64), len(mine)))
            amounts.append(np.tile(sign * amount, len(path)))
    key, load = summed(np.concatenate(acts) * fabric.num_links + np.concatenate(links), np.concatenate(amounts))
    keep = load > RESIDUE * load.max()
    act, link, load = key[keep] // fabric.num_links, key[keep] % fabric.num_links, load[keep]
    peak = np.zeros(pattern.num)
    np.maximum.at(peak, act, load)
    rest = slice(pattern.num_wire_loads, None)
    return replace(
        pattern,
        act=np.concatenate([act, pattern.act[rest]]),
        link=np.concatenate([link, pattern.link[rest]]),
        weight=np.concatenate([load / share[link], pattern.weight[rest]]),
        num_wire_loads=len(act),
        peak=np.where(peak > 0.0, peak, 1.0),
    )


def _shares_of_links(fabric: Fabric, shares: Mapping[str, float]) -> Floats:
    """Return for each link the share of its nominal capacity that payload achieves [num_links]."""
    wire_share, pool_share = achieved_shares(fabric, shares)
    out = np.ones(fabric.num_links)
    out[: fabric.hbm_base] = np.tile(wire_share, fabric.num_nodes)
    out[fabric.pool_base :] = pool_share
    return out


def _detours(fabric: Fabric, dead: NDArray[np.bool_], used: Ints) -> Iterator[_Detour]:
    """Yield the detours around those dead links that carry load; `used`: ids of these links, `dead`: mask of all links
    [num_links]."""
    in_nodes = used[used < fabric.hbm_base]
    by_node = np.split(in_nodes, np.flatnonzero(np.diff(in_nodes // fabric.wires_per_node)) + 1)
    for links in by_node if len(in_nodes) else ():
        node = int(links[0]) // fabric.wires_per_node
        first = node * fabric.wires_per_node
        yield from _in_node(fabric, first, dead[first : first + fabric.wires_per_node], links.tolist())
    for link in used[used >= fabric.pool_base].tolist():
        dead_pools = dead[fabric.pool_base :]
        pairs = fabric.pools.around(link - fabric.pool_base, dead_pools)
        for pair in pairs:
            over = tuple(fabric.pool_base + pool for pool in pair)
            yield _Detour(broken=link, instead_of=(link,), to=over, part=1.0 / len(pairs))


def _in_node(fabric: Fabric, first: int, dead: NDArray[np.bool_], used: list[int]) -> Iterator[_Detour]:
    """Yield the detours around the dead links of one node. `first`: id of the node's first link; `dead`: mask of the
    node's links, in order of id; `used`: ids of the dead links that carry load."""
    node = fabric.machine.node
    alive = np.flatnonzero(~dead).tolist()
    inside = [wire for wire in alive if wire < node.num_inside]
    done = set[int]()
    for wire in [link - first for link in used]:
        leg = node.leg(wire)
        found = way(node.links, inside if len(leg) == 1 else alive, node.links[leg[0]].src, node.links[leg[-1]].dst)
        if found and wire not in done:  # the same bytes pass both links of a leg
            done.update(leg)
            yield _Detour(
                broken=first + wire,
                instead_of=tuple(first + each for each in leg),
                to=tuple(first + each for each in found),
            )
