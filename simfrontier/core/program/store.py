"""The stored form of a schedule: canonical JSON, its digest, and files that are never half-written."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from simfrontier.base.io import text_of
from simfrontier.base.wholefile import write_whole
from simfrontier.core.program.ir import Compute, Exchange, Op, Ref, Schedule, Tensor
from simfrontier.core.program.kinds import is_work
from simfrontier.core.program.loops import Item, Loop, RepeatedRefs, folded, runs_of_refs
from simfrontier.core.program.parse import FORMAT, VERSION, from_json

__all__ = ["digest", "from_json", "load", "save", "to_json"]


def to_json(schedule: Schedule) -> str:
    """Canonical JSON: keys sorted, no floats, every op and every block once, calls as nested loops.

    Equal schedules give equal text, in whatever order their parts were made or shared.
    """
    tables = _Tables(schedule)
    roles = [
        {
            "calls": _items(folded(role.calls, tables.block_of), tables.block_of),
            "name": role.name,
            **_without_defaults(at=role.at),
        }
        for role in schedule.roles
    ]
    form = {
        "blocks": tables.blocks,
        "format": FORMAT,
        "mesh": schedule.mesh.axes,
        "meta": dict(schedule.meta),
        "ops": [_op(op) for op in tables.ops],
        "pools": dict(schedule.pools),
        "roles": roles,
        "tensors": {name: _tensor(tensor) for name, tensor in schedule.tensors.items()},
        "version": VERSION,
    }
    return json.dumps(form, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def digest(schedule: Schedule) -> str:
    """SHA-256 of the canonical JSON, in hexadecimal."""
    return hashlib.sha256(to_json(schedule).encode("ascii")).hexdigest()


def save(schedule: Schedule, path: Path) -> None:
    """Write the canonical JSON (and a newline); the file is there as a whole or not at all. Raises InputError."""
    write_whole(path, to_json(schedule) + "\n")


def load(path: Path, large: bool = False) -> Schedule:
    """The schedule of a file; `large` as in `from_json`. Raises InputError with the file and the place in it."""
    return from_json(text_of(path, "schedule"), str(path), large)


class _Tables:
    """Equal ops and equal blocks once, in the order in which the calls first use them; `block_of` gives the stored
    block of each of the schedule's."""

    def __init__(self, schedule: Schedule) -> None:
        ops: dict[Op, int] = {}
        op_of = [ops.setdefault(op, len(ops)) for op in schedule.ops]
        self.ops = list(ops)
        blocks: dict[tuple[int, ...], int] = {}
        listed = (tuple([op_of[op.number] for op in block]) for block in schedule.blocks)
        self.block_of = [blocks.setdefault(block, len(blocks)) for block in listed]
        self.blocks = list(blocks)


def _items(items: Iterable[Item], block_of: Sequence[int]) -> list[Any]:
    """A call as [label, block, layer, micro-batch], a loop with its calls as they are the first time."""
    return [
        {"times": item.times, "layers": item.layers, "micros": item.micros, "calls": _items(item.body, block_of)}
        if isinstance(item, Loop)
        else [item.label, block_of[item.block], item.layer, item.micro]
        for item in items
    ]


def _ref(ref: Ref) -> Any:
    return [ref.name, ref.layer, ref.micro] if ref.layer or ref.micro else ref.name


def _refs(refs: tuple[Ref, ...]) -> list[Any]:
    """A reference as its name or [name, layer, micro-batch], a run over layers as [times, references, layer step]."""
    return [
        [run.times, [_ref(ref) for ref in run.refs], run.layer_step] if isinstance(run, RepeatedRefs) else _ref(run)
        for run in runs_of_refs(refs)
    ]


def _without_defaults(**fields: Any) -> dict[str, Any]:
    """What is empty, zero, false or None is left out; reading puts it back."""
    return {key: value for key, value in fields.items() if value}


def _op(op: Op) -> dict[str, Any]:
    if isinstance(op, Compute):
        return {
            "kind": op.kind,
            "lane": op.lane,
            **_name(op),
            **_without_defaults(
                reads=_refs(op.reads),
                writes=_refs(op.writes),
                accumulates=_refs(op.accumulates),
                iteration=op.iteration,
                split=op.split,
                matmul=op.matmul,
                flops=op.flops,
                max_age=op.max_age,
                kernel=op.kernel,
                piece=op.piece,
            ),
        }
    if isinstance(op, Exchange):
        return _exchange(op)
    return {
        "axes": op.axes,
        "codec": str(op.codec),
        "comm": op.comm,
        "dst": _refs(op.dst),
        "kind": op.kind,
        "lane": op.lane,
        "name": op.name,
        "src": _refs(op.src),
        "via": op.via,
        **_without_defaults(
            blocking=op.blocking,
            per_hop=op.per_hop,
            token=None if op.token is None else _ref(op.token),
            piece=op.piece,
        ),
    }


def _name(op: Compute) -> dict[str, Any]:
    """What an op of the model computes, of which its name is made; the name of any other op."""
    if not is_work(op):
        return {"name": op.name}
    named = op.named
    return {
        "module": named.module,
        **_without_defaults(part=named.part, streams=named.streams),
    }


def _exchange(op: Exchange) -> dict[str, Any]:
    return {
        "axis": op.axis,
        "codec": str(op.codec),
        "comm": op.comm,
        "ends": op.ends,
        "kind": op.kind,
        "lane": op.lane,
        "name": op.name,
        **_without_defaults(
            src=_refs(op.src),
            dst=_refs(op.dst),
            back_src=_refs(op.back_src),
            back_dst=_refs(op.back_dst),
            blocking=op.blocking,
            token=None if op.token is None else _ref(op.token),
        ),
    }


def _tensor(tensor: Tensor) -> dict[str, Any]:
    return {
        "dtype": tensor.dtype,
        "placement": str(tensor.placement),
        "role": tensor.role,
        "shape": tensor.shape,
        **_without_defaults(
            dims=tensor.dims,
            nesting=tensor.nesting,
            stacked=tensor.stacked,
            codec=None if tensor.codec is None else str(tensor.codec),
            per_layer=tensor.per_layer,
            per_micro=tensor.per_micro,
            persistent=tensor.persistent,
            pool=tensor.pool,
            shares=tensor.shares,
            follows=tensor.follows,
            weight=None if tensor.role == "weight" else tensor.weight,
            form_of=tensor.form_of,
            recomputes=tensor.recomputes,
            stage=tensor.stage,
            streams=tensor.streams,
            local=tensor.local,
        ),
    }
