"""Figures of traces that the documentation quotes."""

from __future__ import annotations

import re
from typing import Any

from tests.documented import Quoted, Results

PAGE = "docs/how-to/chakra.md"
LINE = re.compile(
    r"^(?P<plan>\S+) on (?P<ranks>\d+): traces [\d,]+, nodes in each (?P<nodes>[\d,]+), groups (?P<groups>[\d,]+), "
    r"(?P<bytes>[\d,]+) bytes(?:, (?P<stored>[\d,]+) on disk)?",
    re.MULTILINE,
)


def _exported(results: Results) -> dict[str, Any]:
    """What `export` printed of each plan."""
    found = {match["plan"]: match for match in LINE.finditer(results.out)}
    return {
        name: {plan: int(match[name].replace(",", "")) for plan, match in found.items() if match[name]}
        for name in ("nodes", "groups", "bytes", "stored")
    }


def _row(scenario: str, plan: str, ranks: int, are_one: bool) -> str:
    counts = f"{{nodes[{plan}]:,}} | {{groups[{plan}]}} | {{bytes[{plan}]:,}}"
    return f"| {scenario}, `{plan}` | {ranks} | {counts} | {f'{{stored[{plan}]:,}}' if are_one else 'all'} |"


ADDS = (
    Quoted(
        page=PAGE,
        command="export scenarios/toy.toml --format chakra --devices 16",
        read=_exported,
        sentences=tuple(
            _row("toy", plan, 16, plan in ("ddp", "zero3"))
            for plan in ("ddp", "zero3", "hsdp", "my-own", "zero-topo", "zeropp")
        ),
    ),
    Quoted(
        page=PAGE,
        command="export scenarios/frontier-20b.toml --format chakra --plans zero3 --devices 64",
        read=_exported,
        sentences=(
            _row("frontier-20b", "zero3", 64, True),
            "zero3 on 64: traces 64, nodes in each {nodes[zero3]:,}, groups {groups[zero3]}, {bytes[zero3]:,} bytes,"
            " {stored[zero3]:,} on disk as equal traces are one file",
        ),
    ),
    Quoted(
        page=PAGE,
        command="export scenarios/frontier-20b.toml --format chakra --plans zero3,zeropp,zero-topo --devices 384",
        read=_exported,
        sentences=tuple(_row("frontier-20b", plan, 384, plan == "zero3") for plan in ("zero3", "zeropp", "zero-topo")),
    ),
)
