"""Reader of Slurm's `topology.conf` (topology/tree): the leaf switch of each node, and the parent of each switch.

Lines are `SwitchName=leaf0 Nodes=node[000-127]` and `SwitchName=spine Switches=leaf[0-3]`, with an optional
`LinkSpeed=...`, which Slurm itself ignores (https://slurm.schedmd.com/topology.conf.html). As in all of Slurm's files
(SchedMD/slurm, `src/common/parse_config.c`), a `#` begins a comment unless a backslash precedes it, a backslash at the
end of the remaining line joins it with the next line, keys are case-insensitive, blanks may surround `=`, and values
may be quoted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from simfrontier.base.errors import InputError, nearest, shown, unknown_key
from simfrontier.base.limits import NODES, SWITCH_LEVELS
from simfrontier.core.machine.job_nodes import compressed, expanded

KEYS: Final = {key.lower(): key for key in ("SwitchName", "Nodes", "Switches", "LinkSpeed")}
_BEFORE_COMMENT: Final = re.compile(r"(?:[^#\\]|\\.?)*")
_PAIR: Final = re.compile(r'([A-Za-z0-9_.]+)\s*=\s*(?:"([^"]*)"|([^\s"]\S*))(?:\s+|$)')


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmTopology:
    """Tree of switches. `switch_of`: leaf switch of every node, in file order; `above`: parent of each switch."""

    where: str
    switch_of: dict[str, str]
    above: dict[str, str]

    def groups(self, level: int) -> tuple[int, ...]:
        """Return the group of every node, in file order: the index in `switches(level)` of the switch above the
        node."""
        of_leaf = self._above(level)
        number = {switch: place for place, switch in enumerate(dict.fromkeys(of_leaf.values()))}
        return tuple(number[of_leaf[leaf]] for leaf in self.switch_of.values())

    def switches(self, level: int) -> tuple[str, ...]:
        """Return the switches that are `level` levels above the leaf switches, in file order."""
        return tuple(dict.fromkeys(self._above(level).values()))

    def _above(self, level: int) -> dict[str, str]:
        """Return the switch `level` levels above each leaf switch. Raises InputError if a leaf switch has none."""
        out: dict[str, str] = {}
        for leaf in dict.fromkeys(self.switch_of.values()):
            switch = leaf
            for up in range(level):
                if switch not in self.above:
                    text = f"got {level}, allowed: 0 to {up} (no switch stands above {shown(switch)} in {self.where})"
                    raise InputError(text, key=("nodes", "group_level"))
                switch = self.above[switch]
            out[leaf] = switch
        return out


def read_topology(path: Path) -> SlurmTopology:
    """Read a `topology.conf` file. Raises InputError with the number of the faulty line."""
    from simfrontier.base.io import text_of

    switch_of: dict[str, str] = {}
    above: dict[str, str] = {}
    switches: dict[str, int] = {}
    for number, line in _lines(text_of(path, "topology.conf")):
        try:
            name, children, are_nodes = _switch(line)
            if name in switches:
                raise InputError(f"got switch {shown(name)} twice (line {switches[name]}), allowed: every switch once")
            switches[name] = number
            known, what = (switch_of, "node") if are_nodes else (above, "switch")
            for child in children:
                if child in known:
                    raise InputError(f"{what} {shown(child)} is below {shown(known[child])} already")
                known[child] = name
            if fault := NODES.fault(len(known)):
                raise InputError(fault)
        except InputError as error:
            raise InputError(f"line {number}: {error}", where=str(path)) from None
    for child in above:
        if child not in switches:
            text = f"line {switches[above[child]]}: switch {shown(child)} has no line; {nearest(child, switches)}"
            raise InputError(text, where=str(path))
    if not switch_of:
        raise InputError("no line SwitchName=... Nodes=...", where=str(path))
    return SlurmTopology(where=str(path), switch_of=switch_of, above=above)


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield each logical line that is not empty (comments removed, continuation lines joined), with the number of its
    first line in the file."""
    begun, first = "", 0
    for number, line in enumerate(text.split("\n"), 1):
        match = _BEFORE_COMMENT.match(line)
        assert match is not None, "it matches no characters, too"
        told = match[0].rstrip()
        first = first or number
        if (len(told) - len(told.rstrip("\\"))) % 2:
            begun += told[:-1]
            continue
        if whole := (begun + told).strip():
            yield first, whole
        begun, first = "", 0
    if begun.strip():
        yield first, begun.strip()


def _switch(line: str) -> tuple[str, tuple[str, ...], bool]:
    """Parse a line into its switch, the children of the switch, and whether these children are nodes."""
    if rest := _PAIR.sub("", line).split():
        raise InputError(f"got {shown(rest[0])}, allowed: KEY=... with the keys {', '.join(KEYS.values())}")
    given: dict[str, str] = {}
    for key, quoted, plain in _PAIR.findall(line):
        known = KEYS.get(key.lower())
        if known is None:
            raise InputError(f"{shown(key)}: {unknown_key(key, KEYS.values())}")
        if known in given:
            raise InputError(f"got {known} twice, allowed: once in a line")
        given[known] = quoted or plain
    names = expanded(given.get("SwitchName", ""))
    if ("Nodes" in given) == ("Switches" in given) or len(names) != 1:
        raise InputError("allowed: SwitchName=..., one switch in a line, and either Nodes=... or Switches=...")
    return names[0], expanded(given.get("Nodes") or given["Switches"]), "Nodes" in given


# ── all levels of a file ──


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchLevel:
    """Switches that are `level` levels above the leaf switches, with the number of nodes below each switch."""

    level: int
    switches: tuple[str, ...]
    num_nodes: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmLevels:
    """All levels of switches of a file; `first_group`: nodes below the first switch of level 0, as a Slurm node
    list."""

    num_nodes: int
    levels: tuple[SwitchLevel, ...]
    first_group: str


def slurm_levels(path: Path) -> SlurmLevels:
    """Return the levels of a file at which every node has a switch above it. Raises InputError with the number of the
    faulty line."""
    read = read_topology(path)
    levels: list[SwitchLevel] = []
    for level in range(SWITCH_LEVELS.most):
        try:
            switches, groups = read.switches(level), read.groups(level)
        except InputError:  # a node has no switch so high
            break
        if any(switches == each.switches for each in levels):  # a circle, which Slurm does not refuse in a file
            break
        below = Counter(groups)
        levels.append(
            SwitchLevel(level=level, switches=switches, num_nodes=tuple(below[at] for at in range(len(switches))))
        )
    first = levels[0].switches[0]
    nodes = [node for node, switch in read.switch_of.items() if switch == first]
    return SlurmLevels(num_nodes=len(read.switch_of), levels=tuple(levels), first_group=compressed(nodes))
