"""What can be reached in a graph, as sets of bits: in time that grows with nodes and edges, whatever their order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def reachable(edges: Mapping[str, Iterable[str]], bits: Mapping[str, int]) -> dict[str, int]:
    """Of every node with edges or bits: its own bits and those of all that can be reached from it. Nodes on a cycle
    reach the same (Tarjan's strongly connected components, each finished when all that it leads to is)."""
    out: dict[str, int] = {}
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    open_: list[str] = []
    for root in (*edges, *bits):
        if root in number:
            continue
        number[root] = lowest[root] = len(number)
        open_.append(root)
        path = [(root, iter(tuple(edges.get(root, ()))))]
        while path:
            node, ahead = path[-1]
            for target in ahead:
                if target not in number:
                    number[target] = lowest[target] = len(number)
                    open_.append(target)
                    path.append((target, iter(tuple(edges.get(target, ())))))
                    break
                if target not in out:
                    lowest[node] = min(lowest[node], number[target])
            else:
                path.pop()
                if path:
                    lowest[path[-1][0]] = min(lowest[path[-1][0]], lowest[node])
                if lowest[node] == number[node]:
                    _finish(open_, node, edges, bits, out)
    return out


def _finish(
    open_: list[str], first: str, edges: Mapping[str, Iterable[str]], bits: Mapping[str, int], out: dict[str, int]
) -> None:
    """Take a component from the open nodes; what it reaches outside of it is known."""
    at = len(open_) - 1
    while open_[at] != first:
        at -= 1
    reached = 0
    for node in open_[at:]:
        reached |= bits.get(node, 0)
        for target in edges.get(node, ()):
            reached |= out.get(target, 0)
    for node in open_[at:]:
        out[node] = reached
    del open_[at:]
