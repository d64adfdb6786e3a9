"""Predictor of collective calls: the collective alone on the row's machine, and its harness."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, get_args

from simfrontier.answers.accuracy.predictors.grouped import grouped_seconds
from simfrontier.answers.accuracy.predictors.harness import Harness, harnesses_of, shipped_harnesses
from simfrontier.answers.accuracy.residual import NotCovered, Prediction, around, unknown_name
from simfrontier.base.errors import InputError
from simfrontier.core.collectives import Library, libraries, load_library
from simfrontier.core.cost import EqualGroups
from simfrontier.core.machine import catalog, changed_ns, is_machine, machine_named
from simfrontier.core.program import CollectiveKind
from simfrontier.inputs.measured import CallRow, Pathology, fault_of

KINDS: Final[dict[str, CollectiveKind]] = {kind: kind for kind in get_args(CollectiveKind)}


def predict_call(
    row: CallRow, harnesses: tuple[Harness, ...] | None = None, library: Library | None = None
) -> Prediction | NotCovered:
    """The time of the row's call with its 90 % interval, or why there is no model of it.

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
    """All devices of the first nodes in one group. Raises InputError where the machine cannot hold it."""
    return _groups(machine, devices, changed_ns(machine))


@lru_cache(maxsize=256)
def _groups(machine: str, devices: int, changed: int) -> EqualGroups:
    return EqualGroups(machine_named(machine), devices)


def lacking(row: CallRow) -> NotCovered | None:
    """Why no shipped model covers a row; None where one does."""
    if not is_machine(row.machine):
        return unknown_name(f"no model of machine {row.machine!r}", row.machine, catalog())
    if row.library not in libraries():
        return unknown_name(f"no model of library {row.library!r}", row.library, libraries())
    if row.collective not in KINDS:
        return unknown_name(f"no model of {row.collective!r}", row.collective, KINDS)
    return None


def other_place(row: CallRow) -> NotCovered | None:
    """Return what is wrong with the place of a row's ranks: models are of devices that fill one node after another.
    None where nothing is."""
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
    """Why a row of a user's is a known fault; None where it is none.

    Faults are known from others' runs: a row that one of them covers is none where its time is as the shipped models
    predict, inside their interval or without one.
    """
    why = fault_of(row, faults)
    if why is None:
        return None
    made = predict_call(row)
    return None if isinstance(made, Prediction) and made.covers(row.seconds) is not False else why
