"""Traces played: each node for as long as it takes alone, with all that may run at once."""

from __future__ import annotations

from collections import defaultdict

from simfrontier_extras.chakra.tests.traces import COLL, RECV, SEND, Node, Traces

Place = tuple[int, int]  # rank, node
Key = tuple[object, ...]


def longest_path_s(traces: Traces) -> float:
    """The end of the last node, in seconds, if every node starts as soon as what it waits for has ended; a collective
    when all its ranks are ready, a message when both of its ends are. Fails where nodes wait for each other."""
    keys = _keys(traces)
    members: dict[Key, list[Place]] = defaultdict(list)
    for place, key in keys.items():
        members[key].append(place)
    left = {(rank, node.id): len(set(node.data_deps)) for rank, nodes in traces.nodes.items() for node in nodes}
    after: dict[Place, list[Place]] = defaultdict(list)
    for rank, nodes in traces.nodes.items():
        for node in nodes:
            for other in set(node.data_deps):
                after[rank, other].append((rank, node.id))
    ready = dict.fromkeys(left, 0.0)
    waiting = {key: len(places) for key, places in members.items()}
    free = [place for place, count in left.items() if not count]
    num_done, last = 0, 0.0
    while free:
        key = keys[free.pop()]
        waiting[key] -= 1
        if waiting[key]:
            continue
        start = max(ready[place] for place in members[key])
        for rank, number in members[key]:
            end = start + traces.nodes[rank][number].alone_s
            num_done, last = num_done + 1, max(last, end)
            for place in after[rank, number]:
                ready[place] = max(ready[place], end)
                left[place] -= 1
                if not left[place]:
                    free.append(place)
    assert num_done == len(left), f"{len(left) - num_done} nodes never start"
    return last


def _keys(traces: Traces) -> dict[Place, Key]:
    """What each node is one of: nodes of one key run together."""
    out: dict[Place, Key] = {}
    for rank, nodes in traces.nodes.items():
        count: dict[str, int] = defaultdict(int)
        for node in nodes:
            out[rank, node.id] = (rank, node.id)
            if node.type == COLL:
                group = node.attr["pg_name"]
                out[rank, node.id] = ("call", group, count[group])
                count[group] += 1
            elif node.type in (SEND, RECV):
                out[rank, node.id] = _message(node)
    return out


def _message(node: Node) -> Key:
    return "message", node.attr["comm_src"], node.attr["comm_dst"], node.attr["comm_tag"]
