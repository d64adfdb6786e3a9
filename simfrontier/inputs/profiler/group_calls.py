"""Collectives and messages of a trace: from the `args` of their events to what they move among which ranks."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, TypeVar

from simfrontier.base.errors import InputError, nearest, shown
from simfrontier.base.io import External, typed
from simfrontier.core.trace import kineto as form
from simfrontier.inputs.profiler.rank_trace import GroupCall, SimulatedCollective, SimulatedExchange
from simfrontier.inputs.profiler.trace_events import EventArgs

T = TypeVar("T")
Own = TypeVar("Own", bound=External)


def call_of(args: EventArgs, groups: Mapping[str, tuple[int, ...]], rank: int, num_ranks: int, where: str) -> GroupCall:
    """Return the collective of an event; `groups`: ranks of groups by name, as the trace lists them. Raises InputError
    for an unknown one, and for a group whose ranks are not all there."""
    name = _known(form.COLLECTIVE, args.collective, form.COLLECTIVES, where)
    meaning = form.COLLECTIVES[name]
    dtype = _known(f"{form.DTYPE} of {name}", args.dtype, form.DTYPES, where)
    is_output = meaning in ("all_gather", "recv")
    key, elements = (form.OUT_ELEMENTS, args.out_elements) if is_output else (form.IN_ELEMENTS, args.in_elements)
    ranks = _ranks(args, groups, name, num_ranks, where)
    is_message = meaning in ("send", "recv")
    own: SimulatedCollective | SimulatedExchange | None = (
        own_of(args.own, SimulatedExchange, where) if is_message else own_of(args.own, SimulatedCollective, where)
    )
    return GroupCall(
        meaning=meaning,
        name=name,
        dtype=dtype,
        num_bytes=max(_there(elements, f"{key} of {name}", where), name in form.LIKE) * form.DTYPES[dtype],
        group=str(args.group_name),
        ranks=ranks,
        peer=_peer(args, own, meaning, ranks, rank, where) if is_message else None,
        sequence=args.sequence,
        own=own,
    )


def own_of(own: dict[str, Any] | None, form_of_own: type[Own], where: str) -> Own | None:
    """Return what a simulation wrote into an event. Raises InputError."""
    return typed(own, form_of_own, where, (form.OWN,)) if own else None


def ranks_of(value: Any, where: str) -> tuple[int, ...] | None:
    """Return ranks of a list, or of its text `[0, 1, 2]`; None if they are cut short or missing. Raises InputError."""
    if isinstance(value, str):
        if "..." in value or not value.strip("[] "):
            return None
        try:
            value = json.loads(value)
        except ValueError:
            raise InputError(f"{form.GROUP_RANKS}: got {shown(value)}; allowed: [0, 1, ...]", where=where) from None
    if not isinstance(value, list) or not value:
        return None
    if len(set(value)) != len(value):
        raise InputError(f"{form.GROUP_RANKS}: a rank twice; allowed: every rank once", where=where)
    return tuple(value)


def _ranks(
    args: EventArgs, groups: Mapping[str, tuple[int, ...]], name: str, num_ranks: int, where: str
) -> tuple[int, ...]:
    """Return the ranks of a call's group: of its own list, or, where that is cut short, all, or of the trace's list."""
    size = _there(args.group_size, f"{form.GROUP_SIZE} of {name}", where)
    ranks = ranks_of(args.group_ranks, where)
    if ranks is None or len(ranks) != size:
        ranks = tuple(range(size)) if size == num_ranks else groups.get(str(args.group_name))
    if ranks is None or len(ranks) != size:
        raise InputError(
            f"{name}: of its group ({form.GROUP_NAME} {shown(args.group_name)}, {size:,} ranks) not all ranks are in "
            "the trace: PyTorch cuts long lists short; allowed: all of them, there or in distributedInfo.pg_config",
            where=where,
        )
    return ranks


def _peer(
    args: EventArgs,
    own: External | None,
    meaning: form.Meaning,
    ranks: tuple[int, ...],
    rank: int,
    where: str,
) -> int:
    """Return the other rank of a message, by its number in the job."""
    if isinstance(own, SimulatedExchange):
        first, second = (ranks[end] for end in own.ends)
        return second if rank == first else first
    key, peer = (form.TARGET_RANK, args.target_rank) if meaning == "send" else (form.SOURCE_RANK, args.source_rank)
    peer = _there(peer, f"{key} of {meaning}", where)
    if peer in ranks:
        return peer
    raise InputError(f"{key} of {meaning}: got {peer}; allowed: a rank of its group", where=where)


def _known(key: str, name: str | None, names: Collection[str], where: str) -> str:
    if name is None or name not in names:
        raise InputError(f"{key} {shown(name)}: {nearest(str(name), names)}", where=where)
    return name


def _there(value: T | None, key: str, where: str) -> T:
    if value is None:
        raise InputError(f"{key}: missing", where=where)
    return value
