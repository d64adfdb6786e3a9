"""The placement rules of communication: what a collective makes of a tensor, and what an exchange sends."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from simfrontier.core.program.checks.operands import Operands, Report, text_of
from simfrontier.core.program.ir import Collective, Exchange, Tensor
from simfrontier.core.program.names import RING
from simfrontier.core.program.placement import Placement


class MoveRules(Operands):
    """What collectives and exchanges do to placements."""

    def collective(self, op: Collective, report: Report) -> None:
        live = self.mesh.live(op.axes)
        if len(set(op.axes)) != len(op.axes) or not op.axes:
            report("placements", "at least one axis, none of them twice", "+".join(op.axes) or "none")
        self._token(op, report)
        if op.kind == "all_reduce" and op.codec.is_opaque and not op.per_hop:
            report("placements", "an all_reduce in fp64, fp32, fp16 or bf16", f"codec {op.codec}")
        for src, dst in self.pairs(op, op.src, op.dst, report):
            self._one_value(src.name, dst.name, report)
            if op.per_hop:
                self._per_hop(op, src.name, dst.name, report)
            else:
                self._codecs(op, src.name, dst.name, report)
            self.stacked(src.name, (), report)
            merged_later = op.kind == "all_gather" and self._to_merge(op, src.name)
            self.stacked(dst.name, live if op.is_added_later or merged_later else (), report)
            self._meaning(op, set(live), src.name, dst.name, report)

    def exchange(self, op: Exchange, report: Report) -> None:
        """What arrives is what was sent: the same tensor, in the same placement on the ranks of the other role."""
        self._token(op, report)
        for src, dst in ((op.src, op.dst), (op.back_src, op.back_dst)):
            for a, b in self.pairs(op, src, dst, report) if src or dst else ():
                self._one_value(a.name, b.name, report)
                self._codecs(op, a.name, b.name, report)
                self.placed(b.name, self.of[a.name].placement, report, f" like {a.name}")
                left, right = self.of[a.name].tensor.dims, self.of[b.name].tensor.dims
                if left != right:
                    report("placements", f"{b.name} with the labels of {a.name}, {text_of(left)}", text_of(right))
                for name in (a.name, b.name):
                    self.stacked(name, (), report)

    def _to_merge(self, op: Collective, src: str) -> bool:
        """Whether a gather brings contributions that are then merged: of a value that is partial(merge) over its
        axes."""
        held = dict(self.of[src].placement.partial)
        return any(held.get(axis) == "merge" for axis in op.axes)

    def _token(self, op: Collective | Exchange, report: Report) -> None:
        if op.token is not None and self.of[op.token.name].tensor.role != "token":
            report("placements", f"{op.token.name} with role token", f"role {self.of[op.token.name].tensor.role}")

    def _one_value(self, src: str, dst: str, report: Report) -> None:
        """Activations, scalars or norms that pair up are forms of one value: `x.partial` and `x`, `norm` and
        `norm.total`."""
        first, second = (self.of[name].tensor for name in (src, dst))
        if {first.role, second.role} in ({"activation"}, {"scalar"}, {"norms"}) and not _is_one_value(first, second):
            report("placements", f"a form of {src}, the value that goes in", dst)

    def _codecs(self, op: Collective | Exchange, src: str, dst: str, report: Report) -> None:
        """Either both ends are encoded with the op's codec, or neither is and the codec is their own type."""
        if self.of[src].tensor.codec is None and self.of[dst].tensor.codec is None:
            if self.of[src].tensor.dtype != op.codec.name:
                report("placements", f"codec {self.of[src].tensor.dtype}, the type of {src}", f"codec {op.codec}")
            return
        for name in (src, dst):
            self.coded(name, op.codec, report)

    def _per_hop(self, op: Collective, src: str, dst: str, report: Report) -> None:
        """What is coded between two ranks is plain at both ends, on a ring, in a codec that leaves something to be
        decoded."""
        for name in (src, dst):
            self.coded(name, None, report)
        if not op.codec.is_opaque or op.via != RING or op.kind == "all_to_all":
            report(
                "placements",
                f"a gather or reduction by {RING} in int8, int4, zfp or mpc",
                f"{op.kind} by {op.via} in {op.codec}",
            )

    def _meaning(self, op: Collective, axes: set[str], src: str, dst: str, report: Report) -> None:
        """The source must allow the kind over the op's axes; the target must be what the kind makes of it."""
        before, after = self.of[src].placement, self.of[dst].placement
        sharded = {axis for axis, _ in before.shards}
        allowed: tuple[str, Iterable[str]]
        match op.kind:
            case "all_gather" if self._to_merge(op, src):
                allowed = "partial(merge)", {axis for axis, reduction in before.partial if reduction == "merge"}
                wanted = self._reduced_over(op, axes, before, after)
            case "all_gather":
                allowed = "flat or sharded", before.flat | sharded
                left = tuple(s for s in before.shards if s[0] not in axes)
                wanted = replace(before, flat=before.flat - axes, shards=left)
            case "all_to_all":
                allowed = "sharded", sharded
                to = dict(before.shards) | {axis: dim for axis, dim in after.shards if axis in axes}
                moved = tuple((axis, to[axis]) for axis, dim in before.shards if to[axis] != dim)
                # the ranks of a group share what the other axes leave: their cut is the innermost of its dimension
                wanted = replace(before, shards=tuple(s for s in before.shards if to[s[0]] == s[1]) + moved)
                if wanted == before:
                    report("placements", f"{dst} sharded over other dimensions than {src}", f"[{after}]")
            case "reduce_scatter" | "all_reduce":
                allowed = "partial", before.partial_axes
                wanted = self._reduced_over(op, axes, before, after)
                if merged := sorted(
                    axis for axis, reduction in before.partial if axis in axes and reduction == "merge"
                ):
                    report("placements", f"{src} gathered and merged over {'+'.join(merged)}", op.kind)
        if not axes <= set(allowed[1]):
            report(
                "placements", f"{src} {allowed[0]} over {'+'.join(op.axes)}, the axes of the {op.kind}", f"[{before}]"
            )
        else:
            self.placed(dst, wanted, report, f" after the {op.kind} over {'+'.join(op.axes)} of {src} [{before}]")

    def _reduced_over(self, op: Collective, axes: set[str], before: Placement, after: Placement) -> Placement:
        """What a reduction leaves; a scatter shards over the axes that the target shards, and is flat over the rest."""
        left = tuple((axis, reduction) for axis, reduction in before.partial if axis not in axes)
        scattered = axes & before.partial_axes if op.kind == "reduce_scatter" else set()
        shards = tuple(s for s in after.shards if s[0] in scattered)
        flat = scattered - {axis for axis, _ in shards}
        return Placement(before.shards + shards, before.flat | flat, left)


def _is_one_value(src: Tensor, dst: Tensor) -> bool:
    """Whether the second is a form of the value that the first is: of the same pass, where both are of one; what is
    computed again stays so, and only a value as it is kept may take the place of one that is computed again."""
    is_one_pass = None in (src.stage, dst.stage) or src.stage == dst.stage
    is_again = (src.recomputes is not None, dst.recomputes is not None)
    stays = is_again in ((False, False), (True, True)) or (is_again == (False, True) and src.name == src.value)
    return src.value == dst.value and is_one_pass and stays
