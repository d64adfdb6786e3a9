"""The partition lattice over the data axes: over which ranks weights, gradients and optimizer states are sharded, and
by which hops they are moved.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from itertools import combinations_with_replacement
from typing import Any

from simfrontier.core.plan import structure_of, tensors_of
from simfrontier.core.program import Mesh, Tensor
from simfrontier.inputs.scenario import Case

Axes = tuple[str, ...]
INT8, INT4 = "int8:6144", "int4:6144"  # ZeRO++'s block of 6,144 elements (arXiv 2306.10209)
LEVELS = ("none", "package", "node", "all")  # ranks that share a state: none, a package's, a node's, all
CODECS = ("plain", "weights", "gradients", "both")  # what is sent in fewer bits
ROUTES = ("flat", "two_level")
COMPRESSIONS = (
    "none",
    "naive-mpc",
    "naive-zfp:24",
    "naive-zfp:16",
    "naive-zfp:8",
    "MZHybrid:16",
    "MZHybrid:8",
    "ZHybrid:16/24",
    "ZHybrid:8/16",
)
"""Policies of arXiv 2409.02423 with the rates that it leaves open: 8, 16 and 24 bits per value."""
NAMED = {
    ("none", "none", "none"): "ddp",
    ("none", "none", "all"): "zero1",
    ("none", "all", "all"): "zero2",
    ("all", "all", "all"): "zero3",
    ("node", "node", "node"): "hsdp",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSharding:
    """A point of the partition lattice with its data movements.

    `weight`, `gradient`, `optimizer`: the group of ranks that shares each state (`LEVELS`, each contained in the next).
    `copy`: whether a node keeps a second copy of globally sharded weights for the backward (hpZ of ZeRO++). `route`:
    whether movements that leave the node take one hop, or one hop between nodes and one inside. `codec`: what is sent
    in fewer bits.
    """

    weight: str
    gradient: str
    optimizer: str
    copy: bool = False
    route: str = "flat"
    codec: str = "plain"

    @property
    def spread(self) -> int:
        """Degree of sharding: the higher, the less memory the states take."""
        return sum(map(LEVELS.index, (self.weight, self.gradient, self.optimizer)))

    @property
    def point(self) -> str:
        """Names of the groups that share weights, gradients and optimizer states: `package/node/all`."""
        return "/".join((self.weight, self.gradient, self.optimizer))

    @property
    def plain_name(self) -> str:
        """`zero1`, or the point if it has no name."""
        return NAMED.get((self.weight, self.gradient, self.optimizer), self.point)

    @property
    def name(self) -> str:
        """The plain name, followed by special properties of the data movements."""
        text = self.plain_name
        text += "+copy" if self.copy else ""
        text += "+two-level" if self.route == "two_level" else ""
        return text + {"plain": "", "weights": "+int8 weights", "gradients": "+int4 gradients"}.get(
            self.codec, "+int8 weights+int4 gradients"
        )

    def table(self, mesh: Mesh, data: Axes) -> dict[str, Any]:
        """Return the plan's table on a mesh with these data axes (across nodes, package, gcd): a family's own where it
        has a name, else a point of the lattice. All reduce-scatter gradients of which ranks keep a part each."""
        named = NAMED.get((self.weight, self.gradient, self.optimizer))
        if named is not None and not self.copy and self.route == "flat" and self.codec == "plain":
            return {"family": named} | ({"reduction": "reduce_scatter"} if named in ("zero1", "zero2") else {})
        return self._lattice(mesh, data)

    def _lattice(self, mesh: Mesh, data: Axes) -> dict[str, Any]:
        outer, *inner = mesh.live(data) if mesh[data[0]] > 1 else ("", *mesh.live(data))
        flat = {level: list(axes) for level, axes in levels_of(mesh, data).items()}
        inside, across = list(inner), [outer] if outer else []
        two = self.route == "two_level" and bool(inside) and bool(across)
        weights = INT8 if self.codec in ("weights", "both") else None
        gradients = INT4 if self.codec in ("gradients", "both") else None
        weight, gradient, optimizer = flat[self.weight], flat[self.gradient], flat[self.optimizer]
        mixed = len({self.weight, self.gradient, self.optimizer}) > 1 or two or self.copy
        table: dict[str, Any] = {
            "family": "lattice",
            "weight": weight,
            "accumulator": gradient,
            "optimizer": optimizer,
        }
        if mixed and across and inside:
            table["nesting"] = [*reversed(inside), *across]  # what a hop inside a node gives lies in one piece
        if self.copy:
            table["copy_axes"] = inside
        everything = mesh.live(data)
        grow = (across, inside) if two else (list(everything),)
        shrink = (inside, across) if two else (list(everything),)
        moves = (("weight_gather", grow, weights), ("copy_gather", grow, weights), ("publish", grow, None))
        for key, hops, codec in (*moves, ("gradient", shrink, gradients), ("step_reduction", shrink, gradients)):
            if two or codec is not None:
                table[key] = [{"axes": axes} | ({"codec": codec} if codec else {}) for axes in hops]
        if not self.copy:
            table.pop("copy_gather", None)
        return table


def _spread(data: Axes) -> dict[str, Axes]:
    """Return the mesh axes over which a state of each level is sharded, including axes of size 1."""
    _, package, gcd, *experts = data
    return {"none": (), "package": (gcd, *experts), "node": (package, gcd, *experts), "all": data}


def levels_of(mesh: Mesh, data: Axes) -> dict[str, Axes]:
    """Return the axes larger than 1 over which a state of each level is sharded; levels equal to an earlier one are
    left out, except `all`.
    """
    live = {level: mesh.live(axes) for level, axes in _spread(data).items()}
    every = live.pop("all")
    known: dict[str, Axes] = {}
    for level, axes in live.items():
        if axes not in known.values() and axes != every:
            known[level] = axes
    return known | ({"all": every} if every else {"none": ()})


def point_on(name: str, mesh: Mesh, data: Axes) -> str:
    """Return the lattice point that a name, or a text `weight/gradient/optimizer`, means on a mesh; a level that is
    equal to an earlier one on this mesh is replaced by it.
    """
    named = next((levels for levels, family in NAMED.items() if family == name), tuple(name.split("/")))
    spread = _spread(data)
    known = {axes: level for level, axes in levels_of(mesh, data).items()}
    return "/".join(known[mesh.live(spread[level])] for level in named)


def points(mesh: Mesh, data: Axes, *, codecs: Axes, stages: bool) -> Iterator[StateSharding]:
    """Yield all lattice points: gradients are sharded at least as widely as weights, optimizer states at least as
    widely as gradients. In a pipeline of several `stages` weights and gradients stay whole, since otherwise they would
    be gathered or reduced for every micro-batch in flight.
    """
    levels = levels_of(mesh, data)
    leaves = bool(mesh.live(data[:1])) and bool(mesh.live(data[1:]))  # what all share leaves the node and has an inside
    inside = [*levels][-2:-1]  # the level that has all of a node, where there is one
    for weight, gradient, optimizer in combinations_with_replacement(levels, 3):
        if stages and (weight, gradient) != ("none", "none"):
            continue
        within = {level for level in levels if level not in ("all", *inside)}  # less than all of a node
        ends = optimizer == "all" and (gradient in within or weight in within)
        spans = "all" in (weight, gradient) or ends or optimizer in within  # a move has both parts
        for copy in (False, True) if weight == "all" and leaves else (False,):
            for route in ROUTES if leaves and spans else ROUTES[:1]:
                for codec in codecs if mesh.live(data) else CODECS[:1]:
                    if codec in ("weights", "both") and weight == "none":
                        continue
                    if codec in ("gradients", "both") and optimizer != "all":
                        continue  # what is coded cannot be added up on the way
                    yield StateSharding(
                        weight=weight, gradient=gradient, optimizer=optimizer, copy=copy, route=route, codec=codec
                    )


@dataclass
class LayerStates:
    """The persistent tensors of a layer, built once for each structure of plans."""

    known: dict[Hashable, tuple[Tensor, ...]] = field(default_factory=dict)

    def num_bytes(self, case: Case) -> int:
        """Return the bytes per rank of the persistent states of one stage's layers, of the stage with most."""
        work = case.workload
        key = structure_of(work, case.plan, case.mesh, case.engine, 1)
        if key not in self.known:
            every = tensors_of(work, case.plan, case.mesh, case.engine).by_name.values()
            self.known[key] = tuple(tensor for tensor in every if tensor.persistent and tensor.per_layer)
        held = [(tensor.weight or tensor.follows, tensor.held_bytes(case.mesh)) for tensor in self.known[key]]
        of_kind = {kind: sum([size for weight, size in held if weight in kind.weights]) for kind in work.kinds}
        return max(sum([of_kind[work.layers[n]] for layers in chunks for n in layers]) for chunks in case.groups)
