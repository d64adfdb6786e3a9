"""The format `chakra` of `simfrontier export`: a trace for each rank, and a file with the groups of ranks that
communicate."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from simfrontier.answers.study import ExportFormat
from simfrontier.base.wholefile import write_json
from simfrontier.core.engine import SimulatedStep, Walk, trace_notes
from simfrontier.core.program import Collective, Communicator, CommunicatorGroups, digest
from simfrontier.inputs.scenario import Scenario
from simfrontier_extras.chakra.nodes import Peer, comms_of, communicator_of
from simfrontier_extras.chakra.schema import attribute_bytes, ensure_protobuf, framed, message_class
from simfrontier_extras.chakra.template import Own, Template, template_of

SCHEMA_VERSION: Final = "0.0.4"  # of the schema: what mlcommons/chakra's own writers put into GlobalMetadata
MOST_GROUPS: Final = 499  # that ASTRA-sim keeps apart by the tags of their messages (see README.md)


def write_traces(scenario: Scenario, plan: str, step: SimulatedStep, folder: Path) -> str:
    """Write chakra-PLAN.RANK.et for every rank and groups-PLAN.json; return a description of the files.

    Ranks that run the same nodes with the same durations share a template; only the names of groups and the peers of
    messages are filled in for each rank. Ranks whose traces have the same bytes share one file by hard links, if the
    file system supports them. Raises InputError if an op needs a component that is dead in the machine state that lasts
    longest in the step.
    """
    groups = groups_of(step)
    metadata = _metadata(scenario, plan, step)
    num_nodes: list[int] = []
    num_bytes = stored_bytes = 0
    for template, ranks in _templates(step):
        num_nodes.append(template.num_nodes)
        files: dict[tuple[bytes, ...], Path] = {}
        for rank in ranks:
            own = {each: _own_bytes(each, rank, groups) for each in template.owns}
            path = folder / f"chakra-{plan}.{rank}.et"
            first = files.setdefault(tuple(own.values()), path)
            if first is path or not _linked(first, path):
                stored_bytes += _write(path, chain((metadata,), template.written(own)))
            num_bytes += path.stat().st_size
    write_json({str(number): members for number, members in groups.members.items()}, folder / f"groups-{plan}.json")
    return _sentence(num_nodes, step.schedule.mesh.num_ranks, len(groups.members), num_bytes, stored_bytes)


def _templates(step: SimulatedStep) -> Iterator[tuple[Template, list[int]]]:
    """Yield each template with its ranks, which run the same role with the same durations."""
    comms = comms_of(step.schedule)
    alike: dict[tuple[int, bytes], tuple[Walk, list[int]]] = {}
    for cls in range(step.pricing.folding.num_rank_classes):
        walk = Walk(step=step, cls=cls)
        seconds = np.array([walk.alone_s(place) for place in range(walk.num_ops)])
        alike.setdefault((walk.role, seconds.tobytes()), (walk, []))[1].extend(walk.members)
    for (_, seconds_bytes), (walk, ranks) in alike.items():
        yield template_of(walk, np.frombuffer(seconds_bytes).tolist(), comms), sorted(ranks)


def groups_of(step: SimulatedStep) -> CommunicatorGroups:
    """Return the groups of all collectives and the ranks in them."""
    schedule, pricing = step.schedule, step.pricing
    callers: dict[Communicator, NDArray[np.bool_]] = {}
    for op in schedule.ops:
        if isinstance(op, Collective):
            known = callers.setdefault(communicator_of(op, schedule), np.zeros(schedule.mesh.num_ranks, bool))
            known |= pricing.has_part(op)[pricing.folding.rank_class]
    return CommunicatorGroups(schedule.mesh, list(callers), callers)


# ── bytes ──


def _metadata(scenario: Scenario, plan: str, step: SimulatedStep) -> bytes:
    """Return the metadata message at the beginning of a trace."""
    metadata = message_class("GlobalMetadata")(version=SCHEMA_VERSION)
    facts = {
        "producer": "simfrontier",
        "scenario": scenario.name,
        "plan": plan,
        "schedule_digest": digest(step.schedule),
        **trace_notes(step),
    }
    for name, value in facts.items():
        metadata.attr.add(name=name, string_val=value)
    return framed(metadata.SerializeToString(deterministic=True))


def _own_bytes(own: Own, rank: int, groups: CommunicatorGroups) -> bytes:
    """Return the attributes of a node whose values differ between ranks, as bytes."""
    match own:
        case Communicator():
            return attribute_bytes((("pg_name", "string_val", str(groups.of(own, rank))),))
        case Peer():
            ends = (rank + own.offset, rank) if own.receives else (rank, rank + own.offset)
            return attribute_bytes((("comm_src", "int32_val", ends[0]), ("comm_dst", "int32_val", ends[1])))


def _write(path: Path, parts: Iterable[bytes]) -> int:
    """Write a file; return its size in bytes."""
    with path.open("wb") as file:
        file.writelines(parts)
        return file.tell()


def _linked(first: Path, path: Path) -> bool:
    """Create `path` as a hard link to the file `first`; return False if the file system does not support it."""
    with suppress(OSError):
        os.link(first, path)
        return True
    return False


# ── words ──


def _sentence(num_nodes: Sequence[int], num_ranks: int, num_groups: int, num_bytes: int, stored_bytes: int) -> str:
    least, most = min(num_nodes), max(num_nodes)
    nodes = f"{most:,}" if least == most else f"{least:,} to {most:,}"
    sizes = f"{num_bytes:,} bytes"
    if stored_bytes < num_bytes:
        sizes += f", {stored_bytes:,} on disk as equal traces are one file"
    many = f"; ASTRA-sim keeps {MOST_GROUPS} groups apart" if num_groups > MOST_GROUPS else ""
    return f"traces {num_ranks:,}, nodes in each {nodes}, groups {num_groups:,}, {sizes}{many}"


ADDS = (
    ExportFormat(
        name="chakra",
        sentence="execution traces of MLCommons Chakra, one for each rank, for simulators such as ASTRA-sim",
        write=write_traces,
        check=ensure_protobuf,
    ),
)
