"""Sets of what can be reached, against a walk from every node."""

from __future__ import annotations

from hypothesis import given, strategies as st

from simfrontier.schedule.reachable import reachable

NODES = "abcdefgh"
GRAPHS = st.dictionaries(st.sampled_from(NODES), st.lists(st.sampled_from(NODES), max_size=4), max_size=8)


def walked(edges: dict[str, list[str]], start: str) -> set[str]:
    seen, waiting = {start}, [start]
    while waiting:
        for target in edges.get(waiting.pop(), ()):
            if target not in seen:
                seen.add(target)
                waiting.append(target)
    return seen


@given(GRAPHS, st.permutations(NODES))
def test_every_node_reaches_what_a_walk_from_it_finds(edges: dict[str, list[str]], order: list[str]) -> None:
    bits = {node: 1 << at for at, node in enumerate(order)}
    known = reachable(edges, bits)
    for node in NODES:
        assert {each for each in NODES if known[node] & bits[each]} == walked(edges, node)
