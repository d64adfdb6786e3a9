"""Bringing several measurements of the same calls together."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median

from simfrontier.core.collectives.calibration import CallTable, Group, MeasuredPoint


def merged(tables: Iterable[CallTable]) -> tuple[CallTable, ...]:
    """One table per group, in order of first appearance, with every size that any of them has.

    A size measured several times gets the median; the residual is then the median over such sizes of their range over
    their median. What was measured once keeps what was known of it.
    """
    groups: dict[Group, list[CallTable]] = {}
    for table in tables:
        groups.setdefault(table.group, []).append(table)
    return tuple(_one(several) for several in groups.values())


def _one(tables: list[CallTable]) -> CallTable:
    if len(tables) == 1:
        return tables[0]
    by_size: dict[int, list[MeasuredPoint]] = {}
    for table in tables:
        for point in table.points:
            by_size.setdefault(point.bytes, []).append(point)
    points, differences = [], []
    for size, several in sorted(by_size.items()):
        if len(several) == 1:
            points.append(several[0])
            continue
        seconds = [point.seconds for point in several]
        middle = median(seconds)
        differences.append((max(seconds) - min(seconds)) / middle)
        spreads = [point.spread for point in several if point.spread is not None]
        points.append(MeasuredPoint(bytes=size, seconds=middle, spread=max(spreads, default=None)))
    known = [table.residual for table in tables if table.residual is not None]
    first = tables[0]
    return CallTable(
        kind=first.kind,
        ranks=first.ranks,
        nodes=first.nodes,
        packages=first.packages,
        points=tuple(points),
        residual=median(differences) if differences else max(known, default=None),
    )
