"""Predictor of copies between two devices: by link classes inside a node, by messages between nodes."""

from __future__ import annotations

import re
from typing import Final

from simfrontier.answers.accuracy.residual import NotCovered, Prediction, around, unknown_name
from simfrontier.base.errors import InputError
from simfrontier.core.machine import LinkClass, Machine, catalog, is_machine, machine_named
from simfrontier.inputs.measured import CopyRow

KIB: Final = 1024
# The sizes that the shipped numbers were fitted to, by scope and benchmark; all others are left to check the laws.
FITTED_BYTES: Final = {
    ("intra-node", "osu_bw"): (KIB**2, 32 * KIB**2),
    ("inter-node", "osu_bw"): (KIB, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, 4 * KIB**2),
    ("inter-node", "osu_latency"): (256, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB),
}
FITTED_SOURCE: Final = "zerefwayne/thesis-benchmarks"
ENGINE_SOURCE: Final = "amd/amd-lab-notes"


def copy_seconds(machine: Machine, row: CopyRow) -> float:
    """Return the predicted seconds of the row's copy, per message as in `CopyRow.seconds`; the row must not be
    `lacking`.

    Inside a node, S bytes over a route whose narrowest link copies at B take (S / r + half_bytes) / B, where r is
    `routed_share` if the route has several links; a copy engine takes S / min(B, engine_bytes_per_s). The two
    directions of a bidirectional copy (osu_bibw) use separate links. Between nodes, see machine.copies.
    """
    copies = machine.copies
    assert copies is not None, "a machine without copies lacks a law"
    if row.scope == "inter-node":
        if row.benchmark == "osu_latency":
            return copies.alone_s(row.library, row.num_bytes)
        return copies.libraries[row.library].streamed_s(row.num_bytes)
    link, hops = narrowest(machine, *_ends(machine, row))
    bytes_per_s = link.share * link.bytes_per_s
    if row.benchmark == "sdma_copy":
        return row.num_bytes / min(bytes_per_s, copies.engine_bytes_per_s)
    share = copies.routed_share if hops > 1 else 1.0
    return (row.num_bytes / share + link.half_bytes) / bytes_per_s


def copy_sd(machine: Machine, row: CopyRow) -> float:
    """Return the standard deviation of the natural logarithm of measured times around `copy_seconds`."""
    assert machine.copies is not None
    return machine.copies.in_node_sd if row.scope == "intra-node" else machine.copies.between_nodes_sd


def predict_copy(row: CopyRow) -> Prediction | NotCovered:
    """Return the predicted time of the row's message on the shipped machine with its 90 % interval, or why there is
    none.
    """
    if not is_machine(row.machine):
        return unknown_name(f"no machine {row.machine!r}", row.machine, catalog())
    machine = machine_named(row.machine)
    if (missing := lacking(machine, row)) is not None:
        return missing
    return around(copy_seconds(machine, row), copy_sd(machine, row))


def copy_fitted(row: CopyRow) -> bool:
    """Return whether the shipped numbers were fitted to this row."""
    if row.benchmark == "sdma_copy":
        return row.source.startswith(ENGINE_SOURCE) and row.path_class in ("4 links", "2 links")
    sizes = FITTED_BYTES.get((row.scope, row.benchmark), ())
    return row.source.startswith(FITTED_SOURCE) and row.num_bytes in sizes


def lacking(machine: Machine, row: CopyRow) -> NotCovered | None:
    """Return the reason why no model covers a row; None if one does."""
    copies = machine.copies
    if copies is None:
        return NotCovered(reason=f"machine {machine.name} says nothing of single copies (copies)")
    if row.scope == "intra-node":
        if row.benchmark == "osu_latency":
            what = "no law of small messages inside a node"
            return NotCovered(reason=f"{what}: two sizes were measured, which leave nothing to check it by")
        try:
            _ends(machine, row)
        except InputError as error:
            return NotCovered(reason=str(error))
        return None
    if row.benchmark not in ("osu_bw", "osu_bibw", "osu_latency"):
        return NotCovered(reason=f"no law of {row.benchmark} between nodes")
    if row.library not in copies.libraries:
        what = f"no messages between nodes by library {row.library!r}"
        return unknown_name(what, row.library, copies.libraries)
    return None


def narrowest(machine: Machine, a: int, b: int) -> tuple[LinkClass, int]:
    """Return the class of the narrowest link on the route from device a to device b, and the number of links of the
    route.
    """
    node = machine.node
    way = [machine.link_classes[node.links[link].link_class] for link in node.route(a, b)]
    return min(way, key=lambda link: link.share * link.bytes_per_s), len(way)


def _ends(machine: Machine, row: CopyRow) -> tuple[int, int]:
    """Return the pair of devices named by the row; if the row names a link class instead, the first pair of devices
    joined by that many links. Raises InputError.
    """
    match = re.fullmatch(r"(\d+)-(\d+)", row.pair)
    if match is not None:
        a, b = int(match[1]), int(match[2])
        if a == b or not max(a, b) < machine.devices_per_node:
            last = machine.devices_per_node - 1
            raise InputError(f"pair: got {row.pair}, allowed: two different devices of 0..{last}")
        return a, b
    wires = row.path_class.removesuffix("s").removesuffix(" link")
    for link in machine.node.links:
        joins = isinstance(link.src, int) and isinstance(link.dst, int)
        if joins and re.sub(r"^\D+", "", link.link_class) == wires:  # a number at the end of a class counts wires
            return int(link.src), int(link.dst)
    raise InputError(f"no pair of {machine.name} is told by pair {row.pair!r} and class {row.path_class!r}")
