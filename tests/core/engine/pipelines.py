"""Hand-made pipelines: a few kernels per layer, tensor groups, exchanges between stages, a step at the end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from simfrontier.core.codecs import Plain
from simfrontier.core.program import OpName, Part
from simfrontier.core.program.ir import Call, Collective, Compute, Exchange, Op, Ref, Role, Schedule, Tensor
from simfrontier.core.program.mesh import Mesh
from simfrontier.core.program.placement import REPLICATE, partial

Order = Literal["gpipe", "1f1b"]
FP16 = Plain("fp16")


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """Sizes of a pipeline; `rows` of activations by `hidden`. `apart`: exchanges on lanes of their own."""

    stages: int = 2
    micros: int = 3
    data: int = 1
    tensor: int = 1
    layers: int = 2  # of a stage
    rows: int = 512
    hidden: int = 256
    message: int | None = None  # elements of an activation in memory; by default rows * hidden
    order: Order = "1f1b"
    apart: bool = False
    reduce_lane: str = "compute"
    axes: tuple[str, ...] = ("stage", "data", "tensor")
    step: bool = True

    @property
    def mesh(self) -> Mesh:
        return Mesh(tuple((axis, {"stage": self.stages}.get(axis, getattr(self, axis, 1))) for axis in self.axes))

    @property
    def _activation(self) -> tuple[int]:
        return (self.rows * self.hidden if self.message is None else self.message,)

    def schedule(self) -> Schedule:
        roles = tuple(
            Role(f"s{stage}", tuple(self._calls(stage)), ("stage", stage) if self.stages > 1 else None)
            for stage in range(self.stages)
        )
        meta: dict[str, str | int] = {
            "plan": "pipeline",
            "num_layers": self.stages * self.layers,
            "grad_accum": self.micros,
        }
        return Schedule(mesh=self.mesh, tensors=self._tensors(), roles=roles, pools={}, meta=meta)

    # ── tensors and blocks ──

    def _tensors(self) -> dict[str, Tensor]:
        def activation(name: str, per_micro: bool = True) -> Tensor:
            return Tensor(
                name=name,
                shape=self._activation,
                dtype="fp16",
                role="activation",
                placement=REPLICATE,
                per_layer=True,
                per_micro=per_micro,
            )

        summed = partial(("tensor",)) if self.tensor > 1 else REPLICATE
        made = [activation(name) for name in ("x", "d.x", "h", "d.h", "kept")]
        made += [
            Tensor(
                name=name,
                shape=self._activation,
                dtype="fp16",
                role="activation",
                placement=summed,
                per_layer=True,
                per_micro=True,
            )
            for name in ("h.partial", "d.h.partial")
        ]
        made += [
            Tensor(
                name=name,
                shape=(self.hidden, self.hidden),
                dtype="fp16",
                role=role,
                placement=REPLICATE,
                per_layer=True,
                persistent=True,
                weight="w",
            )
            for name, role in (("w", "weight"), ("w.grad", "accumulator"))
        ]
        made += [
            Tensor(name=name, shape=(1,), dtype="fp32", role="scalar", placement=placement)
            for name, placement in (("norm", partial(self.axes)), ("norm.sum", REPLICATE))
        ]
        return {tensor.name: tensor for tensor in made}

    def _matmul(self, name: str, part: Part | None = None, **operands: tuple[Ref, ...]) -> Compute:
        sizes = (("m", self.rows), ("n", self.hidden), ("k", self.hidden))
        split = (("tensor", "n"),) if self.tensor > 1 else ()
        flops = 2 * self.rows * self.hidden**2
        return Compute(
            kind="matmul",
            name=name,
            named=OpName(name, part),
            iteration=sizes,
            split=split,
            matmul=((), ("m",), ("n",), ("k",)),
            flops=flops,
            **operands,
        )  # type: ignore[arg-type]

    def _sum(self, name: str) -> list[Op]:
        if self.tensor == 1:
            return [Compute(kind="cast", name=name, reads=(Ref(f"{name}.partial"),), writes=(Ref(name),))]
        return [
            Collective(
                kind="all_reduce",
                name="activation",
                axes=("tensor",),
                src=(Ref(f"{name}.partial"),),
                dst=(Ref(name),),
                codec=FP16,
                comm="tensor",
            )
        ]

    def blocks(self) -> tuple[tuple[Op, ...], tuple[Op, ...]]:
        """Forward and backward of a layer."""
        forward = (
            self._matmul("up", reads=(Ref("x"), Ref("w")), writes=(Ref("h.partial"),)),
            *self._sum("h"),
            Compute(kind="gelu", name="kept", reads=(Ref("h"),), writes=(Ref("kept"),)),
            Compute(kind="add", name="x", reads=(Ref("h"), Ref("x")), writes=(Ref("x", 1),)),
        )
        backward = (
            self._matmul("down", "dgrad", reads=(Ref("d.x", 1), Ref("w")), writes=(Ref("d.h.partial"),)),
            self._matmul("grad", "wgrad", reads=(Ref("d.x", 1), Ref("kept")), accumulates=(Ref("w.grad"),)),
            *self._sum("d.h"),
            Compute(kind="add", name="d.x", reads=(Ref("d.h"), Ref("d.x", 1)), writes=(Ref("d.x"),)),
        )
        return forward, backward

    # ── programs ──

    def _calls(self, stage: int) -> Iterator[Call]:
        forward, backward = self._blocks()
        first = stage * self.layers
        mine = range(first, first + self.layers)
        for step in self._order(stage):
            what, micro = step[0], step[1]
            if what == "F":
                yield from (Call("forward", layer, micro, forward) for layer in mine)
            elif what == "B":
                yield from (Call("backward", layer, micro, backward) for layer in reversed(mine))
            else:
                boundary, x, back = step[2], step[1], step[3]
                yield Call(
                    "exchange",
                    (boundary + 1) * self.layers,
                    max(x, 0) if x >= 0 else back,
                    (self._exchange(boundary, x, back),),
                )
        if self.step:
            yield from self._end(mine)

    def _end(self, mine: range) -> Iterator[Call]:
        if self.data > 1:
            reduce = Collective(
                kind="all_reduce",
                name="gradient",
                axes=("data",),
                src=(Ref("w.grad"),),
                dst=(Ref("w.grad"),),
                codec=FP16,
                lane=self.reduce_lane,
                comm="data",
            )
            for layer in mine:
                yield Call("reduce", layer, 0, (reduce,))
        norm = Compute(
            kind="norm2", name="norm", reads=tuple(Ref("w.grad", layer) for layer in mine), accumulates=(Ref("norm"),)
        )
        whole = Collective(
            kind="all_reduce",
            name="scalar",
            axes=self.axes,
            src=(Ref("norm"),),
            dst=(Ref("norm.sum"),),
            codec=Plain("fp32"),
            comm="world",
        )
        yield Call("norm", 0, 0, (norm, whole))
        adam = Compute(kind="adam", name="adam", reads=(Ref("norm.sum"), Ref("w.grad")), writes=(Ref("w"),))
        for layer in mine:
            yield Call("step", layer, 0, (adam,))

    def _blocks(self) -> tuple[tuple[Op, ...], tuple[Op, ...]]:
        if not hasattr(self, "_made"):
            object.__setattr__(self, "_made", self.blocks())
        return self._made  # type: ignore[attr-defined, no-any-return]

    def _exchange(self, boundary: int, x: int, back: int) -> Exchange:
        """`x` forward and `d.x` back between two stages; -1: not."""
        micro = x if x >= 0 else back
        known = self.__dict__.setdefault("_exchanges", {})
        key = (boundary, x >= 0, back >= 0, back - micro)
        if key not in known:
            ahead, behind = ((Ref("x"),), (Ref("d.x", 0, back - micro),))
            direction = f"{boundary}>{boundary + 1}" if back < 0 else f"{boundary + 1}>{boundary}"
            known[key] = Exchange(
                name="boundary",
                axis="stage",
                ends=(boundary, boundary + 1),
                src=ahead if x >= 0 else (),
                dst=ahead if x >= 0 else (),
                back_src=behind if back >= 0 else (),
                back_dst=behind if back >= 0 else (),
                codec=FP16,
                lane=f"stage.{direction}" if self.apart else "compute",
                comm=f"stage.{direction}" if self.apart else "stage",
            )
        return known[key]  # type: ignore[no-any-return]

    def _order(self, stage: int) -> Iterator[tuple[str, int] | tuple[str, int, int, int]]:
        """("F" | "B", micro) and ("X", micro of x, boundary, micro of d.x), as Megatron-LM orders them."""
        micros, last = self.micros, self.stages - 1

        def ahead(boundary: int, x: int, back: int = -1) -> Iterator[tuple[str, int, int, int]]:
            if 0 <= boundary < last and (x >= 0 or back >= 0):
                if self.apart and x >= 0 and back >= 0:
                    yield "X", x, boundary, -1
                    yield "X", -1, boundary, back
                else:
                    yield "X", x, boundary, back

        warm = micros if self.order == "gpipe" else min(micros, last - stage)
        for micro in range(warm):
            yield from ahead(stage - 1, micro)
            yield "F", micro
            yield from ahead(stage, micro)
        steady = micros - warm
        if steady:
            yield from ahead(stage - 1, warm)
        for i in range(steady):
            yield "F", warm + i
            yield from ahead(stage, warm + i, i)
            yield "B", i
            yield from ahead(stage - 1, warm + i + 1 if i + 1 < steady else -1, i)
        for i in range(steady, micros):
            yield from ahead(stage, -1, i)
            yield "B", i
            yield from ahead(stage - 1, -1, i)


@dataclass(frozen=True, kw_only=True)
class Interleaved(Pipeline):
    """Megatron-LM's interleaved order: of `chunks` layers each stage has every stages-th, one layer each; exchanges are
    on a lane of their own for each boundary and direction."""

    chunks: int = 2

    def _calls(self, stage: int) -> Iterator[Call]:
        total = self.micros * self.chunks
        warm = min(total, 2 * (self.stages - stage - 1) + (self.chunks - 1) * self.stages)
        for i in range(warm):
            yield from self._ahead(stage, i)
        for i in range(total - warm):
            yield from self._ahead(stage, warm + i)
            yield from self._back(stage, i)
        for i in range(total - warm, total):
            yield from self._back(stage, i)

    def _unit(self, i: int) -> tuple[int, int]:
        """(chunk, micro-batch) of the i-th of a stage's forwards."""
        group, place = divmod(i, self.stages * self.chunks)
        return place // self.stages, group * self.stages + place % self.stages

    def _ahead(self, stage: int, i: int) -> Iterator[Call]:
        chunk, micro = self._unit(i)
        layer = chunk * self.stages + stage
        yield from self._pass(layer, micro, "x")
        yield Call("forward", layer, micro, self._blocks()[0])
        yield from self._pass(layer + 1, micro, "x")

    def _back(self, stage: int, i: int) -> Iterator[Call]:
        chunk, micro = self._unit(i)
        layer = (self.chunks - 1 - chunk) * self.stages + stage
        yield from self._pass(layer + 1, micro, "d.x")
        yield Call("backward", layer, micro, self._blocks()[1])
        yield from self._pass(layer, micro, "d.x")

    def _pass(self, layer: int, micro: int, name: str) -> Iterator[Call]:
        """The boundary below a layer."""
        if 0 < layer < self.stages * self.chunks:
            known = self.__dict__.setdefault("_exchanges", {})
            ends = ((layer - 1) % self.stages, layer % self.stages)
            lane = f"{name} {layer}"
            if lane not in known:
                known[lane] = Exchange(
                    name="boundary",
                    axis="stage",
                    ends=ends if name == "x" else ends[::-1],
                    src=(Ref(name),),
                    dst=(Ref(name),),
                    codec=FP16,
                    lane=lane,
                    comm=lane,
                )
            yield Call("exchange", layer, micro, (known[lane],))


@dataclass(frozen=True, kw_only=True)
class Crossed(Pipeline):
    """Sums along one of two tensor axes, products, sums along the other, more products, sums along the first again: on
    a slow device's account one pair ends a call before the other that it met in it."""

    axes: tuple[str, ...] = ("stage", "data", "y", "x")

    @property
    def mesh(self) -> Mesh:
        return Mesh((("stage", self.stages), ("data", self.data), ("y", 2), ("x", 2)))

    def blocks(self) -> tuple[tuple[Op, ...], tuple[Op, ...]]:
        def summed(axis: str) -> Collective:
            src, dst = (Ref("h.partial"),), (Ref("h"),)
            return Collective(
                kind="all_reduce", name="activation", axes=(axis,), src=src, dst=dst, codec=FP16, comm=axis
            )

        products = [self._matmul("up", reads=(Ref("h"), Ref("w")), writes=(Ref("h.partial"),)) for _ in range(4)]
        forward: tuple[Op, ...] = (
            Compute(kind="cast", name="in", reads=(Ref("x"),), writes=(Ref("h.partial"),)),
            summed("y"),
            products[0],
            summed("x"),
            *products[1:],
            summed("y"),
            Compute(kind="add", name="x", reads=(Ref("h"),), writes=(Ref("x", 1),)),
        )
        backward = (
            self._matmul("down", "dgrad", reads=(Ref("d.x", 1), Ref("w")), writes=(Ref("d.h.partial"),)),
            Compute(kind="add", name="d.x", reads=(Ref("d.h.partial"), Ref("d.x", 1)), writes=(Ref("d.x"),)),
        )
        return forward, backward
