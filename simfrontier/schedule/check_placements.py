"""The placement rules: what the operands of each op must look like, once per distinct op of a schedule."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from simfrontier.errors import InputError, nearest
from simfrontier.schedule.codec import Codec
from simfrontier.schedule.family import weights_of
from simfrontier.schedule.finding import Findings, Rule, ranks_of, title_of
from simfrontier.schedule.ir import Call, Collective, Compute, Op, Ref, Role, Schedule, Tensor
from simfrontier.schedule.kinds import ADD_KINDS, COPY_KINDS
from simfrontier.schedule.placement import Placement, placements_of

Say = Callable[[Rule, str, str], None]


def check_tensors(schedule: Schedule, found: Findings) -> None:
    """Every tensor's placement, nesting and stacking must make sense on the mesh."""
    for name, tensor in schedule.tensors.items():
        try:
            for axis in (*tensor.nesting, *tensor.stacked, *_axes_of(tensor.placement)):
                schedule.mesh[axis]
            size = tensor.local_bytes(schedule.mesh)
            _check_shared(schedule, tensor, size, found)
        except InputError as error:
            found.add("placements", f"tensor {name}", "all ranks", "a placement that the mesh allows", str(error))


def _check_shared(schedule: Schedule, tensor: Tensor, size: int, found: Findings) -> None:
    """A tensor that lies in another's memory must be of its size."""
    if tensor.shares is None:
        return
    home = schedule.tensors.get(tensor.shares)
    if home is None or home.local_bytes(schedule.mesh) != size:
        said = "which is not declared" if home is None else f"of {home.local_bytes(schedule.mesh)} bytes"
        found.add(
            "placements", f"tensor {tensor.name}", "all ranks", f"to share {size} bytes", f"{tensor.shares}, {said}"
        )


def _axes_of(placement: Placement) -> Iterable[str]:
    return (*(axis for axis, _ in placement.shards), *placement.flat, *(axis for axis, _ in placement.partial))


def check_ops(schedule: Schedule, role: Role, found: Findings) -> None:
    """The rules of each distinct op of a role; a finding names the first call that the op is in."""
    rules = _Rules(schedule)
    seen: set[int] = set()
    blocks: set[int] = set()
    for call in role.calls:
        if id(call.ops) in blocks:
            continue
        blocks.add(id(call.ops))
        for op in call.ops:
            if id(op) not in seen:
                seen.add(id(op))
                _check_op(rules, op, call, role, found)


def _check_op(rules: _Rules, op: Op, call: Call, role: Role, found: Findings) -> None:
    def say(rule: Rule, expected: str, got: str) -> None:
        found.add(rule, title_of(op, call), ranks_of(op, role.name, len(rules.schedule.roles)), expected, got)

    if not rules.knows(op, say):
        return
    if isinstance(op, Collective):
        rules.collective(op, say)
    elif op.kind in COPY_KINDS:
        rules.copying(op, op.writes, say)
    elif op.kind in ADD_KINDS:
        rules.copying(op, (*op.writes, *op.accumulates), say)
    elif op.kind == "norm2":
        rules.norm2(op, say)
    elif op.kind == "adam":
        rules.adam(op, say)
    elif op.kind == "hook":
        rules.hook(op, say)
    else:
        rules.model(op, say)


@dataclass(frozen=True, slots=True)
class _Layout:
    """What the rules compare of a tensor, in canonical form on the mesh."""

    tensor: Tensor
    placement: Placement
    nesting: tuple[str, ...]
    stacked: tuple[str, ...]
    weight: str | None


class _Rules:
    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.mesh = mesh = schedule.mesh
        weights = weights_of(schedule.tensors)
        self.of = {
            name: _Layout(t, t.placement.on(mesh), mesh.live(t.nesting), mesh.live(t.stacked), weights[name])
            for name, t in schedule.tensors.items()
        }

    def knows(self, op: Op, say: Say) -> bool:
        """Whether all tensors and axes that an op names exist."""
        known = True
        for ref in (*op.reads, *op.writes, *op.accumulates):
            if ref.name not in self.of:
                say("references", f"a declared tensor; {nearest(ref.name, self.of)}", f"{ref.name!r}")
                known = False
        for axis in op.axes if isinstance(op, Collective) else [axis for axis, _ in op.split]:
            if axis not in self.mesh.names:
                say("references", f"an axis of the mesh; {nearest(axis, self.mesh.names)}", f"{axis!r}")
                known = False
        return known

    # ── pairs: what goes in comes out ──

    def pairs(self, op: Op, dst: tuple[Ref, ...], say: Say) -> list[tuple[Ref, Ref]]:
        """The operands in pairs of one logical tensor each; what does not pair up is said."""
        src = op.src if isinstance(op, Collective) else op.reads
        dst = tuple(ref for ref in dst if self.of[ref.name].tensor.role != "token")  # a token may come with them
        if len(src) != len(dst) or not src:
            say("references", "as many sources as targets, at least one", f"{len(src)} sources and {len(dst)} targets")
        for a, b in zip(src, dst, strict=False):
            self._same_tensor(op, a, b, say)
        return list(zip(src, dst, strict=False))

    def _same_tensor(self, op: Op, a: Ref, b: Ref, say: Say) -> None:
        x, y = self.of[a.name], self.of[b.name]
        for what, left, right in (
            ("shape", x.tensor.shape, y.tensor.shape),
            ("nesting", x.nesting, y.nesting),
            ("weight", x.weight, y.weight),
        ):
            if left != right:
                say("placements", f"{b.name} with the {what} of {a.name}, {_text(left)}", _text(right))
        if x.tensor.dtype != y.tensor.dtype and op.kind != "accumulate":
            say("placements", f"{b.name} as {x.tensor.dtype}, like {a.name}", y.tensor.dtype)
        if x.tensor.per_layer and y.tensor.per_layer and a.layer != b.layer:
            say("references", f"{b.name} of the layer of {a.name} ({a.layer:+d} from the call)", f"{b.layer:+d}")
        if x.tensor.per_micro and y.tensor.per_micro and a.micro != b.micro:
            say("references", f"{b.name} of the micro-batch of {a.name} ({a.micro:+d} from the call)", f"{b.micro:+d}")

    def placed(self, name: str, wanted: Placement, say: Say, why: str = "") -> None:
        got = self.of[name].placement
        if got != wanted:
            say("placements", f"{name} as [{wanted}]{why}", f"[{got}]")

    def coded(self, name: str, wanted: Codec | None, say: Say) -> None:
        got = self.of[name].tensor.codec
        if got != wanted:
            say("placements", f"{name} {_coded(wanted)}", _coded(got))

    def stacked(self, name: str, wanted: tuple[str, ...], say: Say) -> None:
        got = self.of[name].stacked
        if set(got) != set(wanted):
            say("placements", f"{name} {_stacked(wanted)}", _stacked(got))

    # ── collectives ──

    def collective(self, op: Collective, say: Say) -> None:
        live = self.mesh.live(op.axes)
        if len(set(op.axes)) != len(op.axes) or not op.axes:
            say("placements", "at least one axis, none of them twice", "+".join(op.axes) or "none")
        if op.token is not None and self.of[op.token.name].tensor.role != "token":
            say("placements", f"{op.token.name} with role token", f"role {self.of[op.token.name].tensor.role}")
        if op.kind == "all_reduce" and op.codec.is_quantised:
            say("placements", "an all_reduce in fp64, fp32, fp16 or bf16", f"codec {op.codec}")
        for src, dst in self.pairs(op, op.dst, say):
            self._codecs(op, src.name, dst.name, say)
            self.stacked(src.name, (), say)
            summed_later = op.kind == "reduce_scatter" and op.codec.is_quantised
            self.stacked(dst.name, live if summed_later else (), say)
            self._meaning(op, set(live), src.name, dst.name, say)

    def _codecs(self, op: Collective, src: str, dst: str, say: Say) -> None:
        """Either both ends are encoded with the op's codec, or neither is and the codec is their own type."""
        if self.of[src].tensor.codec is None and self.of[dst].tensor.codec is None:
            if self.of[src].tensor.dtype != op.codec.name:
                say("placements", f"codec {self.of[src].tensor.dtype}, the type of {src}", f"codec {op.codec}")
            return
        for name in (src, dst):
            self.coded(name, op.codec, say)

    def _meaning(self, op: Collective, axes: set[str], src: str, dst: str, say: Say) -> None:
        """The source must allow the kind over the op's axes; the target must be what the kind makes of it."""
        before, after = self.of[src].placement, self.of[dst].placement
        sharded = {axis for axis, _ in before.shards}
        allowed: tuple[str, Iterable[str]]
        match op.kind:
            case "all_gather":
                allowed = "flat or sharded", before.flat | sharded
                left = tuple(s for s in before.shards if s[0] not in axes)
                wanted = replace(before, flat=before.flat - axes, shards=left)
            case "all_to_all":
                allowed = "sharded", sharded
                to = dict(after.shards)
                wanted = replace(before, shards=tuple((a, to.get(a, d) if a in axes else d) for a, d in before.shards))
                if wanted == before:
                    say("placements", f"{dst} sharded over other dimensions than {src}", f"[{after}]")
            case "reduce_scatter" | "all_reduce":
                allowed = "partial", before.partial_axes
                wanted = self._reduced_over(op, axes, before, after)
        if not axes <= set(allowed[1]):
            say("placements", f"{src} {allowed[0]} over {'+'.join(op.axes)}, the axes of the {op.kind}", f"[{before}]")
        else:
            self.placed(dst, wanted, say, f" after the {op.kind} over {'+'.join(op.axes)} of {src} [{before}]")

    def _reduced_over(self, op: Collective, axes: set[str], before: Placement, after: Placement) -> Placement:
        """What a reduction leaves; a scatter shards over the axes that the target shards, and is flat over the rest."""
        left = tuple((axis, how) for axis, how in before.partial if axis not in axes)
        scattered = axes & before.partial_axes if op.kind == "reduce_scatter" else set()
        shards = tuple(s for s in after.shards if s[0] in scattered)
        flat = scattered - {axis for axis, _ in shards}
        return Placement(before.shards + shards, before.flat | flat, left)

    # ── local ops ──

    def copying(self, op: Compute, dst: tuple[Ref, ...], say: Say) -> None:
        """encode, decode, decode_sum, slice, permute, accumulate: one tensor in another form."""
        if op.kind in COPY_KINDS and op.accumulates:
            say("references", f"a {op.kind} that accumulates nothing", op.accumulates[0].name)
        if op.kind == "accumulate" and op.writes:
            say("references", "an accumulate that writes nothing", op.writes[0].name)
        for a, b in self.pairs(op, dst, say):
            src, end = self.of[a.name], self.of[b.name]
            if op.kind in ("slice", "encode"):
                self._sliced(a.name, b.name, say)
            else:
                self.placed(b.name, src.placement, say, f" like {a.name}")
            if op.kind == "encode" and end.tensor.codec is None:
                say("placements", f"{b.name} coded", _coded(None))
            if op.kind in ("decode", "decode_sum"):
                if src.tensor.codec is None:
                    say("placements", f"{a.name} coded", _coded(None))
                self.coded(b.name, None, say)
            if op.kind in ("slice", "permute"):
                self.coded(b.name, src.tensor.codec, say)
            if op.kind == "accumulate":
                self.coded(a.name, None, say)
                self.coded(b.name, None, say)
            if op.kind == "decode_sum" and not src.stacked:
                say("placements", f"{a.name} stacked: contributions side by side", _stacked(()))
            if op.kind != "decode_sum":
                self.stacked(a.name, (), say)
            self.stacked(b.name, (), say)

    def _sliced(self, src: str, dst: str, say: Say) -> None:
        """A slice may shard or flatten further over axes that replicate, and do nothing else."""
        before, after = self.of[src].placement, self.of[dst].placement
        if (
            after.partial != before.partial
            or not before.flat <= after.flat
            or after.shards[: len(before.shards)] != before.shards
        ):
            say("placements", f"{dst} as a local slice of {src} [{before}]", f"[{after}]")

    def hook(self, op: Compute, say: Say) -> None:
        for ref in op.reads:
            if self.of[ref.name].tensor.role != "token":
                say("references", "a hook that waits for tokens only", ref.name)
        for ref in (*op.writes, *op.accumulates):
            say("references", "a hook that writes nothing", ref.name)

    def model(self, op: Compute, say: Say) -> None:
        """Work of the model: the axes that cut its iteration space say where every operand must lie."""
        labels = dict(op.iteration)
        split = {axis: label for axis, label in op.split if label in labels and self.mesh[axis] > 1}
        for label in set(split.values()):
            over = [axis for axis, cut in split.items() if cut == label]
            if labels[label] % math.prod(self.mesh[axis] for axis in over):
                say("placements", f"a size of {label} that divides over {'+'.join(over)}", str(labels[label]))
        for ref in op.reads:
            dims = self.of[ref.name].tensor.dims
            self.placed(ref.name, Placement(placements_of(split, dims)), say, _why(split, " as an operand"))
            self._plain(ref.name, say)
        for ref in (*op.writes, *op.accumulates):
            dims = self.of[ref.name].tensor.dims
            summed = Placement((), frozenset(), tuple((a, "sum") for a, label in split.items() if label not in dims))
            wanted = replace(summed.on(self.mesh), shards=placements_of(split, dims))
            self.placed(ref.name, wanted, say, _why(split, " as a result"))
            self._plain(ref.name, say)

    def _plain(self, name: str, say: Say) -> None:
        self.coded(name, None, say)
        self.stacked(name, (), say)

    # ── the optimizer step ──

    def norm2(self, op: Compute, say: Say) -> None:
        """Squares of reduced gradients; the sum is partial over the axes over which they are flat."""
        for ref in op.reads:
            self._reduced(ref.name, say)
            flat = self.of[ref.name].placement.flat
            wanted = Placement((), frozenset(), tuple((axis, "sum") for axis in self.mesh.names if axis in flat))
            for target in op.accumulates:
                self.placed(target.name, wanted, say, f" (the axes over which {ref.name} is flat)")

    def _reduced(self, name: str, say: Say) -> None:
        placement = self.of[name].placement
        if placement.partial:
            say("placements", f"{name} fully reduced", f"[{placement}]")
        self._plain(name, say)

    def adam(self, op: Compute, say: Say) -> None:
        """Per weight: gradient, moments and master lie like the new weight, and all are of one layer."""
        for ref in op.reads:
            if self.of[ref.name].weight is None:
                self.placed(ref.name, Placement(), say, " (a value for all ranks)")
        states = [ref for ref in (*op.reads, *op.writes) if self.of[ref.name].weight is not None]
        masters = {(self.of[r.name].weight, r.layer): r for r in op.reads if self.of[r.name].tensor.role == "master"}
        for ref in states:
            master = masters.get((self.of[ref.name].weight, ref.layer))
            if master is None:
                say(
                    "references", f"the master of {self.of[ref.name].weight}, read by the same adam", f"only {ref.name}"
                )
                continue
            if self.of[ref.name].placement.partial:
                self._reduced(ref.name, say)
            else:
                self._same_shape(ref.name, master.name, say)

    def _same_shape(self, name: str, master: str, say: Say) -> None:
        self.placed(name, self.of[master].placement, say, f" like {master}")
        self._plain(name, say)
        if self.of[name].tensor.shape != self.of[master].tensor.shape:
            say("placements", f"{name} with the shape of {master}", _text(self.of[name].tensor.shape))


def _text(value: object) -> str:
    return "×".join(map(str, value)) or "()" if isinstance(value, tuple) else str(value)


def _coded(codec: Codec | None) -> str:
    return "not coded" if codec is None else f"coded as {codec}"


def _stacked(axes: tuple[str, ...]) -> str:
    return f"stacked over {'+'.join(axes)}" if axes else "not stacked"


def _why(split: dict[str, str], role: str) -> str:
    cuts = ", ".join(f"{axis} cuts {label}" for axis, label in split.items())
    return f"{role}, because {cuts}" if cuts else role
