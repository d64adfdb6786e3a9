"""Nodes of the machine on which a job runs, and the network group of each node."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final, Literal

from simfrontier.base.errors import InputError, shown
from simfrontier.base.limits import NODES

NodePlacement = Literal["contiguous", "spread", "random", "list"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobNodes:
    """Placement of a job on nodes; the nodes of the machine are numbered 0, 1 ...

    placement  contiguous: the lowest-numbered nodes; spread: one node of each group in turn; random: any nodes,
               by `seed`; all three in the order of node numbers, as Slurm orders the nodes of a job; list:
               the nodes in `listed`, in that order; a smaller job has the first nodes of the list
    group_of   [nodes of the machine] group (dragonfly) or leaf (fat tree) of each node; empty: nodes fill the
               groups in order, with as many nodes per group as in the machine's file
    names      names of the nodes of `listed`, if they have names
    """

    placement: NodePlacement = "contiguous"
    seed: int = 1
    listed: tuple[int, ...] = ()
    group_of: tuple[int, ...] = ()
    names: tuple[str, ...] = ()


FIRST_NODES: Final = JobNodes()


# Syntax of Slurm's node lists (`scontrol show hostnames`, https://slurm.schedmd.com/scontrol.html).
_NAME = r"[A-Za-z0-9_.-]*"
_RANGE = r"[0-9]{1,18}(?:-[0-9]{1,18})?"
_ENTRY = re.compile(rf"(?=[A-Za-z0-9_\[])(?:{_NAME}\[{_RANGE}(?:,{_RANGE})*\])*{_NAME}")
_OUTSIDE = re.compile(r",(?![^\[]*\])")  # commas outside brackets
_PARTS = re.compile(r"\[([^\]]*)\]")
_NUMBERED = re.compile(r"(.*?)([0-9]{1,18})")


def expanded(text: str) -> tuple[str, ...]:
    """Return the node names in a Slurm node list, in its order. Raises InputError if the text is not such a list."""
    names: list[str] = []
    for entry in _OUTSIDE.split(text):
        if not _ENTRY.fullmatch(entry):
            raise InputError(f"got {shown(entry)}, allowed: names of nodes as Slurm writes them, e.g. node[001-004,7]")
        around = _PARTS.split(entry)  # text and, at odd places, what is in brackets
        count, choices = 1, list[list[str]]()
        for place, part in enumerate(around):
            options = [part] if place % 2 == 0 else list(_numbers(part, entry))
            choices.append(options)
            count *= len(options)
            if fault := NODES.fault(len(names) + count):
                raise InputError(f"{shown(entry)}: {fault}")
        names.extend("".join(parts) for parts in product(*choices))
    return tuple(names)


def compressed(names: Sequence[str]) -> str:
    """Return the shortest Slurm node list, such as `node[001-004,007]`, that expands to these names in their order."""
    runs: list[tuple[str, list[list[str]]]] = []  # prefix, and the numbers under it as [first, last]
    for name in names:
        match = _NUMBERED.fullmatch(name)
        prefix, digits = match.groups() if match else (name, "")
        if runs and digits and runs[-1][0] == prefix and runs[-1][1]:
            last = runs[-1][1][-1]
            if digits == str(int(last[1]) + 1).zfill(len(last[0])) and len(digits) >= len(last[0]):
                last[1] = digits
            else:
                runs[-1][1].append([digits, digits])
        else:
            runs.append((prefix, [[digits, digits]] if digits else []))
    return ",".join(_written(prefix, numbers) for prefix, numbers in runs)


def _written(prefix: str, numbers: list[list[str]]) -> str:
    if not numbers:
        return prefix
    ends = [first if first == last else f"{first}-{last}" for first, last in numbers]
    return prefix + (ends[0] if len(ends) == 1 and "-" not in ends[0] else f"[{','.join(ends)}]")


def _numbers(part: str, entry: str) -> Iterator[str]:
    """Yield the numbers in a text such as `00001-00128,00200`, each padded to the width of the first number of its
    range."""
    for ends in part.split(","):
        low, _, high = ends.partition("-")
        first, last = int(low), int(high or low)
        if last < first:
            raise InputError(f"{shown(entry)}: got {ends}, allowed: the smaller number first")
        if fault := NODES.fault(last - first + 1):
            raise InputError(f"{shown(entry)}: {fault}")
        yield from (str(number).zfill(len(low)) for number in range(first, last + 1))
