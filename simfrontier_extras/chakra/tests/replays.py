"""Traces played: each node for as long as it takes alone, with all that may run at once, or as ASTRA-sim runs them."""

from __future__ import annotations

import heapq
from collections import defaultdict

from simfrontier_extras.chakra.tests.traces import COLL, COMP, RECV, SEND, Node, Traces

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


class OneAtATime:
    """As ASTRA-sim issues nodes: on each rank one of the host, one kernel, and one collective or send at a time, of
    those that are free the lowest number first; receives hold nothing. A collective starts when all its ranks have
    issued it, a message goes when it is sent. The k-th call that each rank issues to a group is one call."""

    def __init__(self, traces: Traces) -> None:
        self.traces = traces
        self.left = {rank: [len(set(node.data_deps)) for node in nodes] for rank, nodes in traces.nodes.items()}
        self.after: dict[int, dict[int, list[int]]] = {rank: defaultdict(list) for rank in traces.nodes}
        for rank, nodes in traces.nodes.items():
            for node in nodes:
                for other in set(node.data_deps):
                    self.after[rank][other].append(node.id)
        self.free = {rank: {n for n, count in enumerate(left) if not count} for rank, left in self.left.items()}
        self.busy: set[tuple[int, str]] = set()
        self.issued: dict[Key, list[Place]] = defaultdict(list)
        self.calls: dict[tuple[int, str], int] = defaultdict(int)
        self.arrived: dict[Key, float] = {}
        self.awaited: dict[Key, Place] = {}
        self.events: list[tuple[float, Place]] = []
        self.now, self.num_done = 0.0, 0

    def step_s(self) -> float:
        """The end of the last node. Fails where ranks wait for each other for ever."""
        for rank in self.free:
            self._issue(rank)
        while self.events:
            self.now, (rank, number) = heapq.heappop(self.events)
            self.num_done += 1
            node = self.traces.nodes[rank][number]
            self.busy.discard((rank, _resource(node)))
            if node.type == SEND:
                self._arrive(_message(node))
            for other in self.after[rank][number]:
                self.left[rank][other] -= 1
                if not self.left[rank][other]:
                    self.free[rank].add(other)
            self._issue(rank)
        total = sum(map(len, self.traces.nodes.values()))
        assert self.num_done == total, f"{total - self.num_done} nodes never end"
        return self.now

    def _issue(self, rank: int) -> None:
        for number in sorted(self.free[rank]):
            node = self.traces.nodes[rank][number]
            resource = _resource(node)
            if resource and (rank, resource) in self.busy:
                continue
            if resource:
                self.busy.add((rank, resource))
            self.free[rank].remove(number)
            self._begin(rank, node)

    def _begin(self, rank: int, node: Node) -> None:
        place = rank, node.id
        if node.type in (COMP, SEND):
            self._end(place, self.now)
        elif node.type == RECV:
            key = _message(node)
            self.awaited[key] = place
            if key in self.arrived:
                heapq.heappush(self.events, (self.now, place))
        else:
            group = node.attr["pg_name"]
            key = ("call", group, self.calls[rank, group])
            self.calls[rank, group] += 1
            self.issued[key].append(place)
            if len(self.issued[key]) == len(self.traces.groups[group]):
                assert len({_call(self.traces.nodes[r][n]) for r, n in self.issued[key]}) == 1, key
                for each in self.issued[key]:
                    self._end(each, self.now)

    def _end(self, place: Place, start: float) -> None:
        heapq.heappush(self.events, (start + self.traces.nodes[place[0]][place[1]].alone_s, place))

    def _arrive(self, key: Key) -> None:
        self.arrived[key] = self.now
        if key in self.awaited:
            heapq.heappush(self.events, (self.now, self.awaited[key]))


def _resource(node: Node) -> str:
    """What a node holds while it runs: nothing of a receive."""
    if node.type == COMP:
        return "host" if node.attr["is_cpu_op"] else "kernels"
    return "" if node.type == RECV else "network"


def _call(node: Node) -> tuple[int, int]:
    return node.attr["comm_type"], node.attr["comm_size"]
