"""Moves of tensors between placements: derivation of the collectives, hop by hop."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

from simfrontier.base.errors import InputError
from simfrontier.core.codecs import Codec
from simfrontier.core.program import LIBRARY, Mesh, Placement, by_dimension

HIERARCHICAL: Final = "hierarchical"  # a hop that crosses its axes in two levels, as collectives of their own
StepKind = Literal["slice", "reduce_scatter", "all_reduce", "merge", "all_to_all", "all_gather"]


@dataclass(frozen=True, slots=True)
class Hop:
    """One leg of a move: the mesh axes that it crosses, the codec of its messages, and its algorithm.

    Without a codec, elements are sent as they are stored: in the tensor's own data type, or in the codec of a coded
    tensor. A tensor of fewer than `least_bytes` bytes per rank is also sent without the hop's codec, or in the codec
    `below` if that is set. With `per_hop`, a collective encodes every point-to-point message separately; otherwise a
    tensor is encoded once, and a reduction is an all-to-all of coded pieces. `hierarchical` treats the first axis as
    the outer level: a gather crosses it first, a reduction last. With `whole`, a value to be reduced and then cut is
    all-reduced, after which every rank keeps its own piece, instead of reduce-scattered (DeepSpeed's ZeRO-1 and
    ZeRO-2).
    """

    axes: tuple[str, ...]
    codec: Codec | None = None
    via: str = LIBRARY
    least_bytes: int = 0
    per_hop: bool = False
    below: Codec | None = None
    whole: bool = False

    def is_small(self, plain: Codec, elements: int) -> bool:
        """Return whether a tensor of `elements` elements per rank, in the codec `plain`, has fewer than `least_bytes`
        bytes and is therefore not coded."""
        return plain.wire_bytes(elements) < self.least_bytes

    @property
    def scatters(self) -> bool:
        """True if an all-reduce runs as a scatter and a gather, because coded messages cannot be added up on the
        way."""
        return self.codec is not None and self.codec.is_opaque and not self.per_hop


@dataclass(frozen=True, slots=True)
class MoveStep:
    """One collective (or local slice) of a move, with the placements before and after it; its codec is that of the hop.

    `merge` is an all-gather of contributions, followed by their local merge. With `permute`, the pieces of the group's
    ranks are not contiguous in the larger block: a local reordering is needed after a gather or before a reduction.
    """

    kind: StepKind
    axes: tuple[str, ...]
    src: Placement
    dst: Placement
    codec: Codec | None
    via: str = LIBRARY
    permute: bool = False
    per_hop: bool = False


class UncrossedError(InputError):
    """Error: a move must cross `axes`, but none of its hops does."""

    def __init__(self, what: str, axes: tuple[str, ...]) -> None:
        super().__init__(what)
        self.axes = axes


def steps_of(
    mesh: Mesh, nesting: tuple[str, ...], src: Placement, dst: Placement, hops: tuple[Hop, ...], name: str
) -> tuple[MoveStep, ...]:
    """Return the steps that move a tensor from placement `src` to placement `dst`, in this order: slices,
    reduce-scatters, all-reduces and merges, all-to-alls, all-gathers.

    `hops` gives the axes, their order and codecs; every axis that communicates must be in one hop. Raises InputError if
    the hops do not cover the move, or if no sequence of these steps leads to `dst`.
    """
    builder = _Builder(mesh, tuple(mesh.live(nesting)), src.on(mesh), dst.on(mesh), hops, name)
    return builder.steps()


@dataclass
class _Builder:
    mesh: Mesh
    nesting: tuple[str, ...]
    src: Placement
    dst: Placement
    hops: tuple[Hop, ...]
    name: str

    def steps(self) -> tuple[MoveStep, ...]:
        self.now = self.src
        self.out: list[MoveStep] = []
        self._know_hops()
        self._shrink()
        self._all_reduce()
        self._all_to_all()
        self._all_gather()
        if self.now != self.dst:
            raise InputError(f"{self.name}: no way from [{self.src}] to [{self.dst}] (reached [{self.now}])")
        return tuple(self.out)

    def _know_hops(self) -> None:
        """Raise InputError for hops over an axis that the mesh lacks, or that another hop also crosses."""
        crossed: set[str] = set()
        for hop in self.hops:
            for axis in self.mesh.live(hop.axes):
                if axis in crossed:
                    raise InputError(f"{self.name}: hops cross {axis} twice; every axis belongs to one hop")
                crossed.add(axis)

    def _add(
        self, kind: StepKind, axes: tuple[str, ...], to: Placement, hop: Hop | None, permute: bool = False
    ) -> None:
        codec = hop.codec if hop else None
        via = hop.via if hop and hop.via != HIERARCHICAL else LIBRARY
        self.out.append(MoveStep(kind, axes, self.now, to, codec, via, permute, hop is not None and hop.per_hop))
        self.now = to

    def _legs(self, axes: list[str], inner_first: bool) -> list[tuple[tuple[str, ...], Hop]]:
        """Return the hops that cross any of these axes, in order, each with those of the axes that it crosses; a
        hierarchical hop is returned as two levels."""
        left, out = list(axes), []
        for hop in self.hops:
            own = tuple(a for a in left if a in hop.axes)
            left = [a for a in left if a not in own]
            levels = [own]
            if hop.via == HIERARCHICAL:
                outer = tuple(a for a in own if a == hop.axes[0])
                inner = tuple(a for a in own if a != hop.axes[0])
                levels = [inner, outer] if inner_first else [outer, inner]
            out += [(level, hop) for level in levels if level]
        if left:
            named = "; ".join("+".join(hop.axes) for hop in self.hops) or "none"
            text = f"{self.name}: the move from [{self.src}] to [{self.dst}] crosses {', '.join(left)}, "
            raise UncrossedError(f"{text}but its hops cross: {named}", tuple(left))
        return out

    def _shrink(self) -> None:
        """Add slices and reduce-scatters. Reductions to shards come first, because flat digits count within the block
        that remains."""
        self._refuse_merged_pieces()
        partial = self.now.partial_axes
        held = {axis for axis, _ in self.now.shards}
        flats = tuple(a for a in self.nesting if a in self.dst.flat - self.now.flat and a not in partial | held)
        shards = tuple(s for s in self.dst.shards if s[0] not in held | partial)
        reduced = tuple(s for s in self.dst.shards if s[0] in partial)
        if reduced:
            self._slice((), shards)
            for axis, dim in reduced:
                self._block_changes((axis,), self.now)
                ((_, hop),) = self._legs([axis], inner_first=True)
                to = replace(self.now, shards=(*self.now.shards, (axis, dim)), partial=self._without((axis,)))
                self._add("reduce_scatter", (axis,), to, hop, permute=dim > 0)
            self._slice(flats, ())
        else:
            self._slice(flats, shards)
        wanted = [a for a in self.nesting if a in self.dst.flat and a in self.now.partial_axes]
        for axes, hop in self._legs(wanted, inner_first=True):
            if hop.whole:
                self._keep_own(axes, hop)
            else:
                self._scatter(axes, hop)

    def _refuse_merged_pieces(self) -> None:
        """Raise InputError if the move would scatter a value with pending merges: such a value must be gathered and
        merged as a whole."""
        cut = self.dst.flat | {axis for axis, _ in self.dst.shards}
        merged = [axis for axis, reduction in self.now.partial if reduction == "merge" and axis in cut]
        if merged:
            raise InputError(
                f"{self.name}: the move from [{self.src}] to [{self.dst}] would scatter over {', '.join(merged)} what "
                "is still to be merged; allowed: to gather and merge it whole"
            )

    def _slice(self, flats: tuple[str, ...], shards: tuple[tuple[str, int], ...]) -> None:
        if shards:
            self._block_changes(tuple(axis for axis, _ in shards), self.now)
        if flats or shards:
            to = replace(self.now, flat=self.now.flat | set(flats), shards=self.now.shards + shards)
            self._add("slice", (*flats, *(a for a, _ in shards)), to, None)

    def _scatter(self, axes: tuple[str, ...], hop: Hop) -> None:
        self._one_op(axes)
        to = replace(self.now, flat=self.now.flat | set(axes), partial=self._without(axes))
        self._add("reduce_scatter", axes, to, hop, permute=self._scattered(axes, self.now))

    def _keep_own(self, axes: tuple[str, ...], hop: Hop) -> None:
        """Add an all-reduce of the whole tensor, after which each rank keeps its own piece; several tensors are first
        copied into one buffer."""
        if hop.scatters:
            raise InputError(
                f'{self.name}: reduction = "all_reduce" over {", ".join(axes)} cannot carry {hop.codec}, which cannot '
                'be added up on its way; allowed: reduction = "reduce_scatter", or fp64, fp32, fp16 or bf16'
            )
        self._one_op(axes)
        self._add("all_reduce", axes, replace(self.now, partial=self._without(axes)), hop, permute=True)
        self._slice(axes, ())

    def _all_reduce(self) -> None:
        """Add all-reduces over the remaining partial axes, or gathers with merges. The inner level of a hierarchical
        sum, and values coded as a whole, are reduce-scattered here and all-gathered at the end of the move."""
        wanted = [a for a in self.mesh.names if a in self.now.partial_axes - self.dst.partial_axes]
        for axes, hop in self._legs(wanted, inner_first=True):
            if "merge" in {op for axis, op in self.now.partial if axis in axes}:
                self._one_op(axes)
                self._add("merge", axes, replace(self.now, partial=self._without(axes)), hop)
                continue
            inner = hop.via == HIERARCHICAL and hop.axes[0] not in axes and hop.axes[0] in wanted
            if (inner or hop.scatters) and set(axes) <= set(self.nesting):
                self._scatter(tuple(a for a in self.nesting if a in axes), hop)
            else:
                self._one_op(axes)
                self._add("all_reduce", axes, replace(self.now, partial=self._without(axes)), hop)

    def _all_to_all(self) -> None:
        """Add all-to-alls over the axes that cut another dimension afterwards: one call per hop, or one per axis where
        an axis comes to cut a dimension that another axis of the hop leaves."""
        held, target = dict(self.now.shards), dict(self.dst.shards)
        changed = [axis for axis, dim in self.now.shards if target.get(axis, dim) != dim]
        together = {held[axis] for axis in changed}.isdisjoint(target[axis] for axis in changed)
        for wanted in [changed] if together else [[axis] for axis in changed]:
            for axes, hop in self._legs(wanted, inner_first=True):
                self._block_changes(axes, self.now)
                self._innermost(axes)
                # a group divides the shards that the other axes leave: its new cuts are the innermost of the dimension
                shards = tuple(shard for shard in self.now.shards if shard[0] not in axes)
                shards += tuple((axis, target[axis]) for axis, _ in self.now.shards if axis in axes)
                # one of the two dimensions is not the outermost: pieces are cut from, or put, between others
                self._add("all_to_all", axes, replace(self.now, shards=self._as_wanted(shards)), hop, permute=True)

    def _as_wanted(self, shards: tuple[tuple[str, int], ...]) -> tuple[tuple[str, int], ...]:
        """Return the shards in the order of those of the destination, if they divide every dimension alike."""
        is_alike = by_dimension(Placement(shards)) == by_dimension(Placement(self.dst.shards))
        return self.dst.shards if is_alike else shards

    def _all_gather(self) -> None:
        target = {axis for axis, _ in self.dst.shards}
        wanted = [a for a in self.nesting if a in self.now.flat - self.dst.flat]
        wanted += [a for a, _ in self.now.shards if a not in target]
        for axes, hop in self._legs(wanted, inner_first=False):
            shards = tuple(s for s in self.now.shards if s[0] not in axes)
            gathered = tuple(s for s in self.now.shards if s[0] in axes)
            to = replace(self.now, flat=self.now.flat - set(axes), shards=shards)
            mixed = False
            if gathered:
                self._block_changes(tuple(axis for axis, _ in gathered), to)
                self._innermost(axes)
                mixed = len(gathered) < len(axes) or any(dim > 0 for _, dim in gathered)
            self._add("all_gather", axes, to, hop, permute=mixed or self._scattered(axes, to))

    def _block_changes(self, axes: tuple[str, ...], placement: Placement) -> None:
        """Raise InputError if shards would change while the placement is flat over an axis: flat digits count within
        the block of the shards."""
        if placement.flat:
            raise InputError(
                f"{self.name}: the move from [{self.src}] to [{self.dst}] would change the shards over "
                f"{', '.join(axes)} while the block is flat over {', '.join(sorted(placement.flat))}; make it two moves"
            )

    def _innermost(self, axes: tuple[str, ...]) -> None:
        """Raise InputError unless the cuts over `axes` are the innermost cuts of their dimensions: only innermost cuts
        can be removed without affecting the others."""
        outer: set[int] = set()
        for axis, dim in self.now.shards:
            if axis in axes:
                outer.add(dim)
            elif dim in outer:
                raise InputError(
                    f"{self.name}: the move from [{self.src}] to [{self.dst}] crosses {', '.join(axes)}, but {axis} "
                    f"cuts dimension {dim} inside it; cross {axis} first, or in the same hop"
                )

    def _one_op(self, axes: tuple[str, ...]) -> None:
        ops = {op for axis, op in self.now.partial if axis in axes}
        if len(ops) > 1:
            raise InputError(
                f"{self.name}: one hop over {', '.join(axes)} would reduce by {' and '.join(sorted(ops))}; "
                "give each its own hop"
            )

    def _without(self, axes: tuple[str, ...]) -> tuple[tuple[str, Literal["sum", "max", "merge"]], ...]:
        return tuple((axis, op) for axis, op in self.now.partial if axis not in axes)

    def _scattered(self, axes: tuple[str, ...], whole: Placement) -> bool:
        """Return whether the pieces along `axes` are interleaved in the block that `whole` describes.

        The pieces are contiguous exactly if `axes` come first among the axes of the nesting over which `whole` is not
        flat.
        """
        free = [a for a in self.nesting if a not in whole.flat]
        own = [a for a in free if a in axes]
        return free[: len(own)] != own
