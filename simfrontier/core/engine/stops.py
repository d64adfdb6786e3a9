"""Errors of steps that cannot end: ops that wait for each other, and permanently dead components."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simfrontier.base.arrays import Ints
from simfrontier.base.errors import SimfrontierError
from simfrontier.base.units import written
from simfrontier.core.cost import Pricing
from simfrontier.core.network import dead_wires
from simfrontier.core.program import Issuer, Op
from simfrontier.core.trace import ranges_text

MOST_NAMED = 4  # at most as many dead links are named in one line


class JobStopsError(SimfrontierError):
    """Error: a component that the step needs is permanently dead."""


def job_stops(pricing: Pricing, standing: Sequence[tuple[Op, int]], seconds: float) -> JobStopsError:
    """Return the error for ops that stand still permanently, `seconds` after the begin of the step. `standing`: each op
    with the activity class of its pattern that stands still."""
    fabric = pricing.fabric
    is_member, is_loaded = np.zeros(fabric.num_ranks, bool), np.zeros(fabric.num_links, bool)
    for op, group in standing:
        key = pricing.of(op).pattern
        pattern = pricing.counted.get(key, pricing.patterns[key])
        is_one = pricing.folding.activity_class[key] == group
        is_member |= is_one[pattern.group_of]
        mine = slice(0, pattern.num_wire_loads)
        is_loaded[pattern.link[mine][is_one[pattern.act[mine]]]] = True
    ranks = np.flatnonzero(is_member)
    lost = ranks[(fabric.speed[ranks] == 0.0) | (fabric.capacity[fabric.hbm_of[ranks]] == 0.0)]
    why = f"dead: {_things('device', fabric.device_of[lost])}"
    if not len(lost):
        links = np.flatnonzero(is_loaded & dead_wires(fabric))
        lost, why = _behind(pricing, ranks, links), f"dead, with no other way: {_links(pricing, links)}"
    return _stops(standing[0][0], ranks, lost, why, seconds)


def messages_stop(pricing: Pricing, op: Op, ranks: Ints, links: Ints, seconds: float) -> JobStopsError:
    """Return the error for messages of `op` (and possibly other ops) between these ranks that wait for dead links on
    their routes, `seconds` after the begin of the step."""
    why = f"dead, and single messages keep to their routes: {_links(pricing, links)}"
    return _stops(op, ranks, _behind(pricing, ranks, links), why, seconds)


def _links(pricing: Pricing, links: Ints) -> str:
    named = [pricing.fabric.describe(link) for link in links[:MOST_NAMED].tolist()]
    return ", ".join(named) + (f" and {len(links) - MOST_NAMED} more" if len(links) > MOST_NAMED else "")


def _stops(op: Op, ranks: Ints, lost: Ints, why: str, seconds: float) -> JobStopsError:
    others = np.setdiff1d(ranks, lost)
    who = f"{_things('rank', others)} lost {_things('rank', lost)}" if len(others) else f"{_things('rank', lost)} lost"
    return JobStopsError(f"the job stops at {written(seconds, 's')} of the step in {op.name}: {who}; {why}")


def _behind(pricing: Pricing, ranks: Ints, links: Ints) -> Ints:
    """Return those of the ranks that dead links disconnect: the ranks on the device or node of a dead link, or in the
    group of nodes to which a dead pool of links leads."""
    fabric = pricing.fabric
    per_node = fabric.machine.devices_per_node
    devices = fabric.device_of[ranks]
    behind = np.zeros(len(ranks), bool)
    between: dict[int, list[tuple[int, int]]] = {}  # by node: the ends of dead links between devices
    for link in links.tolist():
        if link >= fabric.pool_base:
            groups = fabric.group_of_node[devices // per_node]
            behind |= groups == fabric.pools.leads_to(link - fabric.pool_base)
            continue
        node, wire = divmod(link, fabric.wires_per_node)
        source, target = fabric.machine.node.links[wire].src, fabric.machine.node.links[wire].dst
        if isinstance(source, int) and isinstance(target, int):
            between.setdefault(node, []).append((source, target))
        elif wire < fabric.machine.node.num_inside and (isinstance(source, int) or isinstance(target, int)):
            behind |= devices == node * per_node + (source if isinstance(source, int) else target)
        else:
            behind |= devices // per_node == node
    for node, ends in between.items():
        common = set.intersection(*map(set, ends))
        cut_off = common if len(common) == 1 else {target for _, target in ends}
        behind |= np.isin(devices, [node * per_node + device for device in cut_off])
    return ranks[behind]


def _things(what: str, numbers: Ints) -> str:
    """Return a noun with numbers as text, such as `rank 3` or `ranks 0-7`."""
    return f"{what}{'s' if len(numbers) > 1 else ''} {ranges_text(np.sort(numbers).tolist())}"


def blocked_lines(who: str, issuer: Issuer, ops: Sequence[Op]) -> list[str]:
    """Return one line of text for each blocked op of a rank (or rank class), with the dependencies for which the op
    waits."""
    lines = []
    for op, lacking in issuer.blocked():
        waits = ", ".join(f"{lane} {done}/{needed}" for lane, done, needed in lacking)
        lines.append(f"{who}: {ops[op].name} waits for {waits}")
    return lines
