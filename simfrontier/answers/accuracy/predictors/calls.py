"""Predictor of collective calls: the time of the collective alone on the row's machine, plus the overhead of the
measuring program.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Final, get_args

import numpy as np

from simfrontier.answers.accuracy.residual import NotCovered, Prediction, around, unknown_name
from simfrontier.base.errors import InputError, nearest
from simfrontier.base.io import SOURCED, Derived, NotNegative, Positive, Text, read_toml, typed
from simfrontier.core.collectives import Library, algorithm, candidate_algorithms, libraries, load_library
from simfrontier.core.cost import EqualGroups, FoldedPattern
from simfrontier.core.machine import Machine, Provenance, catalog, changed_ns, is_machine, machine_named, sources_of
from simfrontier.core.network import Fabric
from simfrontier.core.program import LIBRARY, RING, CollectiveKind
from simfrontier.inputs.measured import CallRow, Pathology, fault_of

FILE = Path(__file__).parent / "harnesses.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Harness:
    """Overhead of a measuring program: a time per call, and a copy of the block of every rank.

    The n blocks are copied one after another; each copy takes the longer of its launch time and its transfer time.
    """

    name: Annotated[str, Derived("")]  # its key in the file
    title: Text
    source: str
    library: Text
    machine: Text
    collectives: tuple[str, ...]
    base_s: Annotated[NotNegative, SOURCED]
    per_rank_s: Annotated[NotNegative, SOURCED] = 0.0
    copy_bytes_per_s: Annotated[Positive, SOURCED] = math.inf
    provenance: Annotated[tuple[Provenance, ...], Derived(())] = ()

    def covers(self, row: CallRow) -> bool:
        """Return whether the row was measured by this program."""
        return row.source.startswith(self.source) and self.may_cover(row)

    def may_cover(self, row: CallRow) -> bool:
        """Return whether this program could have measured the row, whatever source the row states."""
        return (row.library, row.machine) == (self.library, self.machine) and row.collective in self.collectives

    def seconds(self, devices: int, num_bytes: float) -> float:
        """Return the overhead in seconds: base + n max(per rank, c / copy), with c = S/n for n devices and S bytes."""
        block_s = num_bytes / devices / self.copy_bytes_per_s
        return self.base_s + devices * max(self.per_rank_s, block_s)


@lru_cache(maxsize=1)
def shipped_harnesses() -> tuple[Harness, ...]:
    """Return the harnesses of the shipped tables."""
    document = read_toml(FILE, "harness file")
    return tuple(
        replace(harness, name=name, provenance=tuple(sources_of(document[name], f"harness.{name}.")))
        for name, harness in typed(document, dict[str, Harness], str(FILE)).items()
    )


def named_harnesses(text: str) -> tuple[Harness, ...]:
    """Return the shipped harnesses named in a comma-separated text, applicable to rows of any source; for "none" an
    empty tuple. Raises InputError.
    """
    shipped = {harness.name: harness for harness in shipped_harnesses()}
    names = [name.strip() for name in text.split(",")]
    if names == ["none"]:
        return ()
    for name in names:
        if name not in shipped:
            raise InputError(f"--harness: got {name!r}; {nearest(name, [*shipped, 'none'])}")
    return tuple(replace(shipped[name], source="") for name in dict.fromkeys(names))


def harnesses_of(row: CallRow, harnesses: tuple[Harness, ...]) -> tuple[Harness, ...]:
    """Return the harnesses whose overhead is included in the time of a row."""
    return tuple(harness for harness in harnesses if harness.covers(row))


Devices = tuple[tuple[int, ...], ...]


def grouped_seconds(
    machine: Machine, library: Library, groups: Devices, kind: CollectiveKind, num_bytes: float
) -> float:
    """Return the time of a collective call in the first group while all groups make the same call concurrently. Devices
    are numbered within the node.

    Raises InputError if the node has no such devices, and for calls whose algorithm is not a ring.
    """
    most = machine.devices_per_node
    if max(map(max, groups)) >= most:
        raise InputError(f"groups: got device {max(map(max, groups))}, allowed: 0..{most - 1}, of one node")
    shape = _laid_out(machine, groups).shape
    taken = candidate_algorithms(library, kind, False, LIBRARY, num_bytes, shape)
    if taken != (RING,):
        raise InputError(f"groups of devices: got {kind} by {', '.join(taken)}, allowed: rings")
    rate = _sent_per_s(machine, library, groups)
    return algorithm(RING).seconds_at(library, kind, num_bytes, shape, rate)


@lru_cache(maxsize=64)
def _laid_out(machine: Machine, groups: Devices) -> EqualGroups:
    devices = np.array(groups)
    fabric = Fabric.build(machine, 1, num_devices=devices.size, placement=devices.ravel())
    return EqualGroups.of(fabric, np.arange(devices.size).reshape(devices.shape))


def _sent_per_s(machine: Machine, library: Library, groups: Devices) -> float:
    """Return the send rate of a rank of the first group; ranks of other groups may be slower or faster."""
    at = _laid_out(machine, groups)
    pattern = algorithm(RING).loads(at.fabric, at.groups, library)
    cap = algorithm(RING).cap_bytes_per_s(library, at.shape)
    return float(FoldedPattern.alone(at.fabric, pattern, exact=True).sent_per_s(cap)[0])


KINDS: Final[dict[str, CollectiveKind]] = {kind: kind for kind in get_args(CollectiveKind)}


def predict_call(
    row: CallRow, harnesses: tuple[Harness, ...] | None = None, library: Library | None = None
) -> Prediction | NotCovered:
    """Return the predicted time of the row's collective call with its 90 % interval, or the reason why no model covers
    it.

    `harnesses` and `library`: those of a user or of a fit (None: the shipped ones).
    """
    missing = lacking(row) or (None if row.groups else other_place(row))
    if missing is not None:
        return missing
    library = library or _shipped_library(row.library)
    if row.num_bytes < library.least_bytes:
        least = f"{library.least_bytes:,.0f} bytes"
        return NotCovered(reason=f"the model of {library.name} is of messages of {least} and more")
    kind, nodes, added_s = KINDS[row.collective], 1, 0.0
    try:
        if row.groups:
            alone_s = grouped_seconds(machine_named(row.machine), library, row.groups, kind, row.num_bytes)
        else:
            groups = groups_of(row.machine, row.devices)
            alone_s, nodes = groups.seconds(library, kind, row.num_bytes), groups.shape.num_nodes
            known = shipped_harnesses() if harnesses is None else harnesses
            added_s = sum(each.seconds(row.devices, row.num_bytes) for each in harnesses_of(row, known))
    except InputError as error:
        return NotCovered(reason=str(error))
    sd = library.residual.sd(kind, row.num_bytes, nodes) if library.residual is not None else math.nan
    return around(alone_s + added_s, sd, harness_s=added_s)


@lru_cache(maxsize=16)
def _shipped_library(name: str) -> Library:
    return load_library(name)


def groups_of(machine: str, devices: int) -> EqualGroups:
    """Return all devices of the first nodes in one group. Raises InputError where the machine cannot hold it."""
    return _groups(machine, devices, changed_ns(machine))


@lru_cache(maxsize=256)
def _groups(machine: str, devices: int, changed: int) -> EqualGroups:
    return EqualGroups(machine_named(machine), devices)


def lacking(row: CallRow) -> NotCovered | None:
    """Return why no shipped model covers a row; None if one does."""
    if not is_machine(row.machine):
        return unknown_name(f"no model of machine {row.machine!r}", row.machine, catalog())
    if row.library not in libraries():
        return unknown_name(f"no model of library {row.library!r}", row.library, libraries())
    if row.collective not in KINDS:
        return unknown_name(f"no model of {row.collective!r}", row.collective, KINDS)
    return None


def other_place(row: CallRow) -> NotCovered | None:
    """Return the fault in a row's placement of ranks, since the models assume ranks that fill one node after another;
    None if there is none.
    """
    if row.groups:
        reason = f"{len(row.groups)} groups of devices of one node, where all devices are one group"
        return NotCovered(reason=reason)
    try:
        shape = groups_of(row.machine, row.devices).shape
    except InputError as error:
        return NotCovered(reason=str(error))
    given = row.nodes or shape.num_nodes, row.packages or shape.num_packages
    if given == (shape.num_nodes, shape.num_packages):
        return None
    return NotCovered(
        reason=f"{row.devices} ranks on {given[0]} nodes and {given[1]} packages, where {row.machine} has them on "
        f"{shape.num_nodes} and {shape.num_packages} (--packages)"
    )


def shown_fault(row: CallRow, faults: Sequence[Pathology]) -> str | None:
    """Return why a row of a user's table is a known fault; None if it is not.

    Faults are known from measurements by others. A user's row that matches one is no fault if its time agrees with the
    prediction of the shipped models (inside the interval, or if there is no interval).
    """
    why = fault_of(row, faults)
    if why is None:
        return None
    made = predict_call(row)
    return None if isinstance(made, Prediction) and made.covers(row.seconds) is not False else why
