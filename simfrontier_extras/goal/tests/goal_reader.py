"""GOAL text read by its grammar (spcl/LogGOPSim `src/LogGOPSim/txt2bin.re` at d5bb14a8), and played to its end."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field

LABEL = r"[a-zA-Z][a-zA-Z0-9_]*"
OP = re.compile(
    rf"({LABEL}): (?:calc (?P<time>\d+)|(?P<way>send|recv) (?P<bytes>\d+)b (?:to|from) (?P<peer>\d+) tag (?P<tag>\d+))"
    r" cpu (?P<cpu>\d+)"
)
WAIT = re.compile(rf"({LABEL}) requires ({LABEL})")


@dataclass
class Node:
    """An op of a rank: `way` is calc, send or recv."""

    way: str
    amount: int  # ns of a calc, bytes of a message
    peer: int
    tag: int
    cpu: int
    waits: list[str] = field(default_factory=list)


def read(text: str) -> list[dict[str, Node]]:
    """Per rank its ops by label. Fails where txt2bin would."""
    first, *lines = text.splitlines()
    num = int(re.fullmatch(r"num_ranks (\d+)", first)[1])  # type: ignore[index]
    ranks: list[dict[str, Node]] = []
    inside = False
    for line in lines:
        if not inside:
            assert line == f"rank {len(ranks)} {{", line  # txt2bin writes them as they come, and ends after the last
            inside = True
            ranks.append({})
        elif line == "}":
            inside = False
        elif wait := WAIT.fullmatch(line):
            assert wait[2] in ranks[-1], line  # a label that comes later is not known
            ranks[-1][wait[1]].waits.append(wait[2])
        else:
            op = OP.fullmatch(line)
            assert op is not None and op[1] not in ranks[-1], line
            assert ("to" in line.split()) == (op["way"] == "send"), line
            amount = int(op["time"] or op["bytes"] or 0)
            node = Node(op["way"] or "calc", amount, int(op["peer"] or 0), int(op["tag"] or 0), int(op["cpu"]))
            assert node.cpu < 256 and node.tag < (1 << 32) - 1
            assert node.way == "calc" or node.amount > 0, "LogGOPSim counts a message's bytes less one"
            ranks[-1][op[1]] = node
    assert not inside and len(ranks) == num
    return ranks


def unmatched(ranks: list[dict[str, Node]]) -> list[tuple[int, int, int]]:
    """Messages (from, to, tag) without exactly one send and one receive of the same size."""
    ends: dict[tuple[int, int, int], dict[str, list[int]]] = defaultdict(lambda: {"send": [], "recv": []})
    for rank, nodes in enumerate(ranks):
        for node in nodes.values():
            if node.way != "calc":
                key = (rank, node.peer, node.tag) if node.way == "send" else (node.peer, rank, node.tag)
                ends[key][node.way].append(node.amount)
    return [key for key, each in ends.items() if each["send"] != each["recv"] or len(each["send"]) != 1]


def left_over(ranks: list[dict[str, Node]]) -> int:
    """How many ops never end where every message waits for its receive to begin (LogGOPSim's S = 0)."""
    begun: set[tuple[int, str]] = set()
    ended: set[tuple[int, str]] = set()
    other = {}
    for rank, nodes in enumerate(ranks):
        for label, node in nodes.items():
            if node.way != "calc":
                key = (rank, node.peer, node.tag) if node.way == "send" else (node.peer, rank, node.tag)
                other.setdefault(key, []).append((rank, label))
    peer = {end: ends[1 - at] for ends in other.values() for at, end in enumerate(ends)}
    needs = {(rank, label): len(node.waits) for rank, nodes in enumerate(ranks) for label, node in nodes.items()}
    followers = defaultdict(list)
    for rank, nodes in enumerate(ranks):
        for label, node in nodes.items():
            for wait in node.waits:
                followers[rank, wait].append((rank, label))
    free = [op for op, count in needs.items() if not count]
    while free:
        op = free.pop()
        begun.add(op)
        ends = [op] if ranks[op[0]][op[1]].way == "calc" else [op, peer[op]] if peer[op] in begun else []
        for end in ends:
            ended.add(end)
            for follower in followers[end]:
                needs[follower] -= 1
                if not needs[follower]:
                    free.append(follower)
    return len(needs) - len(ended)
