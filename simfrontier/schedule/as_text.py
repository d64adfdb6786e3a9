"""A schedule as text that a person can read: what lies where, which calls run, and what each of their blocks does."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from simfrontier.errors import InputError
from simfrontier.schedule.algorithms import LIBRARY
from simfrontier.schedule.ir import LASTING_ROLES, Collective, Compute, Exchange, Op, Piece, Ref, Role, Schedule, Tensor
from simfrontier.schedule.repeats import CallLoop, Item, RelativeCall, folded, num_steps, steps_of_calls
from simfrontier.schedule.store import digest
from simfrontier.units import written

MAX_NAMED = 3
PREFIXES = ("", " k", " M", " G", " T")


def render(schedule: Schedule, block: int | None = None, outline: bool = False) -> str:
    """The whole schedule, or only its `outline` (states and calls), or only the ops of one block.

    Raises InputError where there is no such block.
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
        self.schedule = schedule
        self.mesh = schedule.mesh
        known: dict[tuple[Op, ...], int] = {}
        self.number = [known.setdefault(block, len(known)) for block in schedule.blocks]  # equal blocks are one
        self.blocks = list(known)
        self.labels: dict[int, str] = {}
        for role in schedule.roles:
            for call in role.calls:
                self.labels.setdefault(self.number[call.block], call.label)

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
        """The persistent states of a role's ranks by kind and placement: how many tensors, their elements, and bytes on
        one rank."""
        instances = self._num_instances(role)
        groups: dict[tuple[int, str, str, str], list[Tensor]] = defaultdict(list)
        for tensor in self.schedule.tensors.values():
            if (
                tensor.persistent
                and tensor.role in LASTING_ROLES
                and (len(self.schedule.roles) == 1 or instances[tensor.name])
            ):
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

    def _num_instances(self, role: Role) -> dict[str, int]:
        """How many instances of each persistent tensor a role's program touches."""
        held: dict[str, set[tuple[int, int]]] = defaultdict(set)
        for call, op in role.instances():
            for ref in self._touched(op, role):
                tensor = self.schedule.tensors.get(ref.name)
                if tensor is not None and tensor.persistent:
                    layer = ref.layer + call.layer if tensor.per_layer else 0
                    held[ref.name].add((layer, ref.micro + call.micro if tensor.per_micro else 0))
        return defaultdict(int, {name: len(result) for name, result in held.items()})

    def _touched(self, op: Op, role: Role) -> Iterable[Ref]:
        if isinstance(op, Exchange) and role.at is not None:
            reads, writes = op.at(role.at[1])
            return (*reads, *writes)
        return (*op.reads, *op.writes, *op.accumulates)

    def title(self, role: Role) -> str:
        place = "" if role.at is None else f" at {role.at[0]} {role.at[1]}"
        return f"role {role.name}{place}: {sum(len(call.ops) for call in role.calls)} ops in {len(role.calls)} calls"

    # ── calls ──

    def calls(self, role: Role) -> list[str]:
        steps = folded(steps_of_calls(role.calls, self.number))
        return self._items(steps, 0, 0, "  ")

    def _items(self, items: tuple[Item, ...], layer: int, micro: int, indent: str) -> list[str]:
        """Lines of some items that begin after a call of (layer, micro)."""
        lines = []
        at = 0
        while at < len(items):
            item = items[at]
            begin = (layer + _first(item).layer, micro + _first(item).micro)
            moved_layer, moved_micro = _direction((item,))
            times = num_steps((item,))
            run = _only_step(item)
            if run is not None and at + 1 < len(items) and _same_run(run, items[at + 1]):
                at += 1  # the first call of a run stands alone, because the step to it is another
                more_layer, more_micro = _direction((items[at],))
                moved_layer, moved_micro = moved_layer + more_layer, moved_micro + more_micro
                times += num_steps((items[at],))
            end = (layer + moved_layer, micro + moved_micro)
            if run is not None:
                lines.append(f"{indent}{_run(run, times, begin, end)}")
            else:
                assert isinstance(item, CallLoop)
                lines.append(f"{indent}{item.times} times over, up to micro-batch {end[1]}; the first time:")
                lines += self._items(item.body, layer, micro, indent + "  ")
            layer, micro = end
            at += 1
        return lines

    # ── blocks ──

    def block_lines(self, number: int) -> list[str]:
        """The ops of a block: lane, op, operands, and after a semicolon how the op is cut or what a collective does."""
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
        """`x; stage 0→1 in fp16, blocking, …`, and after `back` what goes in the other direction."""
        parts = []
        for prefix, src, dst in (("", op.src, op.dst), ("back ", op.back_src, op.back_dst)):
            if src:
                to = "" if src == dst else f" → {_names(dst)}"
                parts.append(f"{prefix}{_names(src)}{to}, {self._size(src)}")
        token = "" if op.token is None else f", {op.token.name}"
        held = ", blocking" if op.blocking else ""
        return f"{'; '.join(parts)}{token}; {op.axis} {op.ends[0]}→{op.ends[1]} in {op.codec}{held}"

    def _change(self, op: Collective) -> str:
        """From which placement to which; operands of one call may differ."""
        tensors = self.schedule.tensors
        moves = dict.fromkeys(
            f"[{tensors[a.name].placement.on(self.mesh)}] → [{tensors[b.name].placement.on(self.mesh)}]"
            for a, b in zip(op.src, op.dst, strict=True)
        )
        return " and ".join(moves)

    def _size(self, refs: tuple[Ref, ...], piece: Piece | None = None) -> str:
        """Of all of the tensors, or of a piece of them."""
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


def _first(item: Item) -> RelativeCall:
    return item if isinstance(item, RelativeCall) else _first(item.body[0])


def _only_step(item: Item) -> RelativeCall | None:
    """The step of an item that is one, or a loop of one."""
    if isinstance(item, RelativeCall):
        return item
    return _only_step(item.body[0]) if len(item.body) == 1 else None


def _same_run(step: RelativeCall, item: Item) -> bool:
    """Whether a loop goes on with the same block of the same label."""
    other = _only_step(item)
    return other is not None and isinstance(item, CallLoop) and (other.label, other.block) == (step.label, step.block)


def _direction(items: Iterable[Item]) -> tuple[int, int]:
    """How far the items lead: layers and micro-batches."""
    layer = micro = 0
    for item in items:
        inside = (item.layer, item.micro) if isinstance(item, RelativeCall) else _direction(item.body)
        times = 1 if isinstance(item, RelativeCall) else item.times
        layer, micro = layer + times * inside[0], micro + times * inside[1]
    return layer, micro


def _run(step: RelativeCall, times: int, begin: tuple[int, int], end: tuple[int, int]) -> str:
    layers = f"layer {begin[0]}" if begin[0] == end[0] else f"layers {begin[0]}..{end[0]}"
    batches = f"micro-batch {begin[1]}" if begin[1] == end[1] else f"micro-batches {begin[1]}..{end[1]}"
    often = f" × {times}" if times > 1 else ""
    return f"{step.label}{often} ({layers}, {batches}): block {step.block}"


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
    """Operands with their distance from the call: `qkv.weight[+2]`; a micro-batch other than the call's as `m-1`."""
    shown = [ref.name + _distance(ref) for ref in refs[: MAX_NAMED if len(refs) > MAX_NAMED + 1 else None]]
    more = len(refs) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _distance(ref: Ref) -> str:
    parts = [f"{ref.layer:+d}"] if ref.layer else []
    parts += [f"m{ref.micro:+d}"] if ref.micro else []
    return f"[{' '.join(parts)}]" if parts else ""


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    """Rows with aligned columns."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))] if rows else []
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _count(number: int) -> str:
    """A number of elements with a decimal prefix."""
    power = 0
    while number >= 1000 ** (power + 1) and power < len(PREFIXES) - 1:
        power += 1
    return f"{number / 1000**power:.4g}{PREFIXES[power]}" if power else str(number)
