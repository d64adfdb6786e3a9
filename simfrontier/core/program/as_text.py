"""Readable text of a schedule: placements of states, the calls of each role, and the ops of each block."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from simfrontier.base.errors import InputError
from simfrontier.base.units import written
from simfrontier.core.program.ir import (
    LASTING_ROLES,
    Call,
    Collective,
    Compute,
    Exchange,
    Op,
    Piece,
    Ref,
    Role,
    Schedule,
    Tensor,
)
from simfrontier.core.program.lifetime import lifetimes
from simfrontier.core.program.loops import Item, Loop, folded
from simfrontier.core.program.names import LIBRARY
from simfrontier.core.program.store import StoredBlocks, digest

MAX_NAMED = 3
PREFIXES = ("", " k", " M", " G", " T")


def render(schedule: Schedule, block: int | None = None, outline: bool = False) -> str:
    """Return the text of the whole schedule, or only its `outline` (states and calls), or only the ops of one block.

    Raises InputError for an unknown block.
    """
    page = _Page(schedule)
    if block is not None:
        if not 0 <= block < len(page.blocks):
            raise InputError(f"block {block}: the schedule has the blocks 0 to {len(page.blocks) - 1}")
        return "\n".join(page.block_lines(block)) + "\n"
    lines = page.header()
    if len(schedule.roles) == 1:
        lines += ["", *page.states(schedule.roles[0])]
    for role in schedule.roles:
        lines += ["", page.title(role)]
        if len(schedule.roles) > 1:
            lines += [*(f"  {line}" for line in page.states(role)), ""]
        lines += page.calls(role)
    if not outline:
        for number in range(len(page.blocks)):
            lines += ["", *page.block_lines(number)]
    return "\n".join(lines) + "\n"


class _Page:
    def __init__(self, schedule: Schedule) -> None:
        self.schedule, self.mesh = schedule, schedule.mesh
        stored = StoredBlocks(schedule)
        self.number = stored.block_of  # equal blocks are one
        self.blocks = [[stored.ops[number] for number in block] for block in stored.blocks]
        calls = [call for role in reversed(schedule.roles) for call in reversed(role.calls)]
        self.labels = {self.number[call.block]: call.label for call in calls}  # of the first call

    # ── header and states ──

    def header(self) -> list[str]:
        meta = self.schedule.meta
        mesh = " × ".join(f"{name} {size}" for name, size in self.mesh.axes)
        rows: list[tuple[str, ...]] = [
            ("digest", digest(self.schedule)),
            ("mesh", f"{mesh} = {self.mesh.num_ranks} ranks"),
            *((key, str(value)) for key, value in sorted(meta.items()) if key != "plan"),
            *((f"pool {name}", f"{_count(size)} elements") for name, size in sorted(self.schedule.pools.items())),
        ]
        return [f"schedule {meta.get('plan', '')}".rstrip(), *(f"  {line}" for line in _table(rows))]

    def states(self, role: Role) -> list[str]:
        """Return a table of the persistent states of a role's ranks, grouped by kind and placement, with the number of
        tensors, elements, and bytes per rank."""
        lives = lifetimes(self.schedule, role)
        instances = dict(zip(lives.names, np.bincount(lives.tensor, minlength=len(lives.names)).tolist(), strict=True))
        is_shared = len(self.schedule.roles) == 1
        groups: dict[tuple[int, str, str, str], list[Tensor]] = defaultdict(list)
        for tensor in self.schedule.tensors.values():
            if tensor.persistent and tensor.role in LASTING_ROLES and (is_shared or instances[tensor.name]):
                form = str(tensor.codec or tensor.dtype)
                key = (LASTING_ROLES.index(tensor.role), tensor.role, form, str(tensor.placement.on(self.mesh)))
                groups[key].append(tensor)
        rows: list[tuple[str, ...]] = [("state", "form", "placement", "tensors", "elements", "bytes per rank")]
        for (_, kind, form, placement), tensors in sorted(groups.items()):
            count = sum(instances[t.name] for t in tensors)
            elements = sum(instances[t.name] * t.num_elements for t in tensors)
            size = sum(instances[t.name] * t.local_bytes(self.mesh) for t in tensors)
            rows.append((kind, form, placement, str(count), _count(elements), written(size, "bytes")))
        return _table(rows)

    def title(self, role: Role) -> str:
        place = "" if role.at is None else f" at {role.at[0]} {role.at[1]}"
        return f"role {role.name}{place}: {sum(len(call.ops) for call in role.calls)} ops in {len(role.calls)} calls"

    # ── calls ──

    def calls(self, role: Role) -> list[str]:
        return self._items(folded(role.calls, self.number), "  ")

    def _items(self, items: tuple[Item, ...], indent: str) -> list[str]:
        lines = []
        for item in items:
            inside = item.body if isinstance(item, Loop) else ()
            if isinstance(item, Call):
                lines.append(indent + self._run(item, 1, 0, 0))
            elif len(inside) == 1 and isinstance(inside[0], Call):
                lines.append(indent + self._run(inside[0], item.times, item.layers, item.micros))
            else:
                lines.append(f"{indent}{item.times} times over{_each_time(item)}; the first time:")
                lines += self._items(inside, indent + "  ")
        return lines

    def _run(self, call: Call, times: int, layers: int, micros: int) -> str:
        """Return the text line for a call that is repeated `times` times; layer and micro-batch advance by `layers` and
        `micros` per repetition."""
        often = f" × {times}" if times > 1 else ""
        places = (
            _places("layer", "layers", call.layer, call.layer + (times - 1) * layers),
            _places("micro-batch", "micro-batches", call.micro, call.micro + (times - 1) * micros),
        )
        return f"{call.label}{often} ({', '.join(places)}): block {self.number[call.block]}"

    # ── blocks ──

    def block_lines(self, number: int) -> list[str]:
        """Return the text lines of a block, one per op: the lane, the op, its operands, and after a semicolon the
        sharding of the iteration space (compute op) or the change of placement (collective)."""
        ops = self.blocks[number]
        heads = _table([(op.lane, _op_text(op)) for op in ops])
        width = max(map(len, heads), default=0)
        title = f"block {number}: {self.labels[number]}, {len(ops)} op{'s' if len(ops) > 1 else ''}"
        return [title, *(f"  {head.ljust(width)}  {self._body(op)}" for head, op in zip(heads, ops, strict=True))]

    def _body(self, op: Op) -> str:
        if isinstance(op, Exchange):
            return self._exchange(op)
        details = self._cut(op) if isinstance(op, Compute) else self._call(op)
        return f"{self._operands(op)}; {details}" if details else self._operands(op)

    def _cut(self, op: Compute) -> str:
        over: dict[str, list[str]] = defaultdict(list)
        for axis, label in op.split:
            over[label].append(axis)
        return " ".join(f"{label}={_cut_size(size, over.get(label, []))}" for label, size in op.iteration)

    def _call(self, op: Collective) -> str:
        details = f"over {'+'.join(op.axes)} in {op.codec}"
        details += ", coded per hop" if op.per_hop else ""
        details += "" if op.via == LIBRARY else f" by {op.via}"
        details += ", blocking" if op.blocking else ""
        return f"{details}, {self._change(op)}, {self._size(op.src, op.piece)}"

    def _exchange(self, op: Exchange) -> str:
        """Return the text of an exchange, `x; stage 0→1 in fp16, blocking, …`; tensors sent in the opposite direction
        follow the word `back`."""
        parts = []
        for prefix, src, dst in (("", op.src, op.dst), ("back ", op.back_src, op.back_dst)):
            if src:
                to = "" if src == dst else f" → {_names(dst)}"
                parts.append(f"{prefix}{_names(src)}{to}, {self._size(src)}")
        token = "" if op.token is None else f", {op.token.name}"
        held = ", blocking" if op.blocking else ""
        return f"{'; '.join(parts)}{token}; {op.axis} {op.ends[0]}→{op.ends[1]} in {op.codec}{held}"

    def _change(self, op: Collective) -> str:
        """Return the text of a collective's change of placement, `[from] → [to]`, once for each distinct change among
        its operands."""
        tensors = self.schedule.tensors
        moves = dict.fromkeys(
            f"[{tensors[a.name].placement.on(self.mesh)}] → [{tensors[b.name].placement.on(self.mesh)}]"
            for a, b in zip(op.src, op.dst, strict=True)
        )
        return " and ".join(moves)

    def _size(self, refs: tuple[Ref, ...], piece: Piece | None = None) -> str:
        """Return the text of the total number of elements, and of the bytes per rank, of some tensors or of a `piece`
        of each."""
        parts = [
            (tensor := self.schedule.tensors[ref.name], 1 if piece is None else piece.share_of(tensor)) for ref in refs
        ]
        elements = sum(tensor.num_elements // share for tensor, share in parts)
        sent = sum(tensor.local_bytes(self.mesh) // share for tensor, share in parts)
        return f"{_count(elements)} elements, {written(sent, 'bytes')} per rank"

    def _operands(self, op: Op) -> str:
        parts = [_names(op.reads)] if op.reads else []
        if op.writes:
            parts.append(f"→ {_names(op.writes)}")
        if op.accumulates:
            parts.append(f"+→ {_names(op.accumulates)}")
        return " ".join(parts)


def _each_time(loop: Loop) -> str:
    """Return the text that says by how many layers and micro-batches a loop advances per iteration."""
    further = ((loop.layers, "layer", "layers"), (loop.micros, "micro-batch", "micro-batches"))
    parts = [f"{count:+d} {one if abs(count) == 1 else several}" for count, one, several in further if count]
    return f", each time {' and '.join(parts)}" if parts else ""


def _places(one: str, several: str, first: int, last: int) -> str:
    return f"{one} {first}" if first == last else f"{several} {first}..{last}"


def _op_text(op: Op) -> str:
    text = op.kind if op.name == op.kind else f"{op.kind} {op.name}"
    text += "" if op.piece is None else f", piece {op.piece.number} of {op.piece.parts}"
    if not isinstance(op, Compute):
        return text
    text += f" by {op.kernel}" if op.kernel else ""
    return f"{text} (up to {op.max_age} step old)" if op.max_age else text


def _cut_size(size: int, axes: list[str]) -> str:
    return f"{size}/{'/'.join(axes)}" if axes else str(size)


def _names(refs: tuple[Ref, ...]) -> str:
    """Return the names of operands, each with its layer offset from the call, `qkv.weight[+2]`, and its micro-batch
    offset, `x[m-1]`."""
    shown = [ref.name + _distance(ref) for ref in refs[: MAX_NAMED if len(refs) > MAX_NAMED + 1 else None]]
    more = len(refs) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _distance(ref: Ref) -> str:
    parts = [f"{ref.layer:+d}"] if ref.layer else []
    parts += [f"m{ref.micro:+d}"] if ref.micro else []
    return f"[{' '.join(parts)}]" if parts else ""


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    """Return the lines of a table with aligned columns."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))] if rows else []
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _count(number: int) -> str:
    """Return the text of a number of elements with a decimal prefix (k, M, G, T)."""
    power = 0
    while number >= 1000 ** (power + 1) and power < len(PREFIXES) - 1:
        power += 1
    return f"{number / 1000**power:.4g}{PREFIXES[power]}" if power else str(number)
