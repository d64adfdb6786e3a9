"""Moves: the collectives that the difference of two placements is, hop by hop."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from simfrontier.errors import InputError
from simfrontier.schedule.codec import Codec
from simfrontier.schedule.ir import Via
from simfrontier.schedule.mesh import Mesh
from simfrontier.schedule.placement import Placement

StepKind = Literal["slice", "reduce_scatter", "all_reduce", "all_to_all", "all_gather"]


@dataclass(frozen=True, slots=True)
class Hop:
    """One leg of a move: the axes it crosses, how messages are written on it, and by which algorithm.

    `hierarchical` takes the first axis as the outer level: a gather crosses it first, a reduction last.
    """

    axes: tuple[str, ...]
    codec: Codec
    via: Via | Literal["hierarchical"] = "library"


@dataclass(frozen=True, slots=True)
class Step:
    """One collective (or local slice) of a move, with the placements before and after it.

    `permute` says that the members' pieces do not lie side by side in the larger block: a local reordering is needed,
    after a gather or before a scatter.
    """

    kind: StepKind
    axes: tuple[str, ...]
    src: Placement
    dst: Placement
    codec: Codec
    via: Via = "library"
    permute: bool = False


def steps_of(
    mesh: Mesh, nesting: tuple[str, ...], src: Placement, dst: Placement, hops: tuple[Hop, ...], name: str
) -> tuple[Step, ...]:
    """The steps from `src` to `dst`: slices, reduce-scatters, all-reduces, all-to-alls, all-gathers, in this order.

    `hops` says over which axes, in which order and with which codec; every axis that communicates must be in one.
    Raises InputError where the hops do not cover the move, or no sequence of these steps leads there.
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

    def steps(self) -> tuple[Step, ...]:
        self.now = self.src
        self.out: list[Step] = []
        self._slice()
        self._reduce_scatter()
        self._all_reduce()
        self._all_to_all()
        self._all_gather()
        if self.now != self.dst:
            raise InputError(f"{self.name}: no way from [{self.src}] to [{self.dst}] (reached [{self.now}])")
        return tuple(self.out)

    def _add(self, kind: StepKind, axes: tuple[str, ...], to: Placement, hop: Hop | None, permute: bool = False) -> None:
        codec = hop.codec if hop else Codec("fp16")
        via: Via = hop.via if hop and hop.via != "hierarchical" else "library"
        self.out.append(Step(kind, axes, self.now, to, codec, via, permute))
        self.now = to

    def _legs(self, axes: list[str], inner_first: bool) -> list[tuple[tuple[str, ...], Hop]]:
        """The hops that cross these axes, in order, each with its share of them; a hierarchical one as its two levels."""
        left, out = list(axes), []
        for hop in self.hops:
            mine = tuple(a for a in left if a in hop.axes)
            left = [a for a in left if a not in mine]
            levels = [mine]
            if hop.via == "hierarchical":
                outer = tuple(a for a in mine if a == hop.axes[0])
                inner = tuple(a for a in mine if a != hop.axes[0])
                levels = [inner, outer] if inner_first else [outer, inner]
            out += [(level, hop) for level in levels if level]
        if left:
            named = "; ".join("+".join(hop.axes) for hop in self.hops) or "none"
            raise InputError(
                f"{self.name}: the move from [{self.src}] to [{self.dst}] crosses {', '.join(left)}, but its hops cross: {named}"
            )
        return out

    def _slice(self) -> None:
        partial = self.now.partial_axes
        flats = [a for a in self.nesting if a in self.dst.flat - self.now.flat and a not in partial]
        before = {axis for axis, _ in self.now.shards}
        shards = tuple(s for s in self.dst.shards if s[0] not in before and s[0] not in partial)
        if flats or shards:
            to = replace(self.now, flat=self.now.flat | set(flats), shards=self.now.shards + shards)
            self._add("slice", (*flats, *(a for a, _ in shards)), to, None)

    def _reduce_scatter(self) -> None:
        wanted = [a for a in self.nesting if a in self.dst.flat and a in self.now.partial_axes]
        for axes, hop in self._legs(wanted, inner_first=True):
            to = replace(self.now, flat=self.now.flat | set(axes), partial=self._without(axes))
            self._add("reduce_scatter", axes, to, hop, permute=self._scattered(axes, self.now))
        for axis, dim in self.dst.shards:
            if axis in self.now.partial_axes:
                ((_, hop),) = self._legs([axis], inner_first=True)
                to = replace(self.now, shards=(*self.now.shards, (axis, dim)), partial=self._without((axis,)))
                self._add("reduce_scatter", (axis,), to, hop)

    def _all_reduce(self) -> None:
        """All-reduce what is left; the inner level of a hierarchical hop is scattered here and gathered again at the end."""
        wanted = [a for a in self.mesh.names if a in self.now.partial_axes - self.dst.partial_axes]
        for axes, hop in self._legs(wanted, inner_first=True):
            inner = hop.via == "hierarchical" and hop.axes[0] not in axes and hop.axes[0] in wanted
            if inner and set(axes) <= set(self.nesting):
                to = replace(self.now, flat=self.now.flat | set(axes), partial=self._without(axes))
                self._add("reduce_scatter", axes, to, hop, permute=self._scattered(axes, self.now))
            else:
                self._add("all_reduce", axes, replace(self.now, partial=self._without(axes)), hop)

    def _all_to_all(self) -> None:
        target = dict(self.dst.shards)
        for axis, dim in self.now.shards:
            if axis in target and target[axis] != dim:
                ((_, hop),) = self._legs([axis], inner_first=True)
                shards = tuple((a, target[axis] if a == axis else d) for a, d in self.now.shards)
                self._add("all_to_all", (axis,), replace(self.now, shards=shards), hop)

    def _all_gather(self) -> None:
        target = {axis for axis, _ in self.dst.shards}
        wanted = [a for a in self.nesting if a in self.now.flat - self.dst.flat]
        wanted += [a for a, _ in self.now.shards if a not in target]
        for axes, hop in self._legs(wanted, inner_first=False):
            shards = tuple(s for s in self.now.shards if s[0] not in axes)
            to = replace(self.now, flat=self.now.flat - set(axes), shards=shards)
            self._add("all_gather", axes, to, hop, permute=self._scattered(axes, to))

    def _without(self, axes: tuple[str, ...]) -> tuple[tuple[str, Literal["sum", "max", "merge"]], ...]:
        return tuple((axis, op) for axis, op in self.now.partial if axis not in axes)

    def _scattered(self, axes: tuple[str, ...], whole: Placement) -> bool:
        """Whether the pieces along `axes` are interleaved in the block that `whole` describes.

        They lie side by side exactly if, among the nesting's digits that are free in `whole`, those of `axes` come first.
        """
        free = [a for a in self.nesting if a not in whole.flat]
        mine = [a for a in free if a in axes]
        return free[: len(mine)] != mine
