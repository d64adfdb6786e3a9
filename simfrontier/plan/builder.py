"""The builder: a workload, a plan and a mesh become a naive program, each move right where it is needed.

Gathers stand before the module that uses them, gradient reductions after the op that made the gradient. The passes then
move and merge them; `hops` turns the moves into collectives.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from simfrontier.plan.moves import Hop
from simfrontier.plan.plan import Engine, Plan, Purpose, Stage, States
from simfrontier.plan.program import Hook, Item, Move, Piece, Program
from simfrontier.schedule.codec import Codec
from simfrontier.schedule.ir import Compute, Ref, Tensor, TensorRole
from simfrontier.schedule.mesh import Mesh
from simfrontier.schedule.placement import Placement, partial, placements_of
from simfrontier.workload import Use, Weight, Workload, WorkOp

SCALARS = ("overflow", "gradient_norm")


def naive_program(workload: Workload, plan: Plan, mesh: Mesh, engine: Engine, grad_accum: int) -> Program:
    """The program of one step of `grad_accum` micro-batches, before any pass."""
    return _Builder(workload, plan, mesh, engine, grad_accum).build()


def gathered_name(weight: str, stage: Stage) -> str:
    return f"{weight}.full.{stage}"


@dataclass
class _Builder:
    workload: Workload
    plan: Plan
    mesh: Mesh
    engine: Engine
    grad_accum: int
    tensors: dict[str, Tensor] = field(default_factory=dict)
    pieces: list[Piece] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)
    states: dict[str, States] = field(default_factory=dict)
    sharded: set[str] = field(default_factory=set)

    def build(self) -> Program:
        self.split = tuple((axis, "b") for axis in self.plan.axes)
        self.made_in_layer = frozenset(
            name for op in self.workload.layer.forward for name, shift in op.writes if shift == 0
        )
        for value in self.workload.values.values():
            self._declare_value(value.name)
        for weight in self.workload.weights.values():
            self._declare_states(weight)
        for micro in range(self.grad_accum):
            self._micro_batch(micro)
        self._step()
        return Program(pieces=tuple(self.pieces), tensors=self.tensors)

    # ── tensors ──

    def _declare(self, tensor: Tensor) -> None:
        self.tensors[tensor.name] = tensor

    def _declare_value(self, name: str, suffix: str = "") -> str:
        value = self.workload.values[name]
        placement = Placement(shards=placements_of(dict(self.split), value.dims))
        self._declare(
            Tensor(
                name=name + suffix,
                shape=value.shape,
                dtype=value.dtype,
                role="activation",
                placement=placement.on(self.mesh),
                dims=value.dims,
                per_layer=value.per_layer,
                per_micro=True,
                persistent=value.persistent,
            )
        )
        return name + suffix

    @property
    def _copy_codec(self) -> Codec | None:
        """How second copies are coded; a codec that is the model's own type codes nothing."""
        codec = self.plan.copy_codec
        return None if codec is None or codec.name == self.workload.precision.model else codec

    def _is_whole(self, weight: Weight) -> bool:
        return weight.num_elements <= self.engine.persistence_elements

    def _declare_states(self, weight: Weight) -> None:
        states = self.plan.states(weight, self._is_whole(weight))
        self.states[weight.name] = states
        if states.weight.on(self.mesh).flat:
            self.sharded.add(weight.name)
        precision = self.workload.precision
        self._state(weight, "", precision.model, "weight", states.weight)
        self._state(weight, ".grad", precision.model, "accumulator", states.accumulator)
        self._state(weight, ".moments", precision.moments, "optimizer", states.optimizer)
        self._state(weight, ".master", precision.wide, "master", states.optimizer)
        if states.copy is not None and states.weight.on(self.mesh).flat:  # what is whole is never gathered
            self._state(weight, ".copy", precision.model, "copy", states.copy)
        if states.accumulator.on(self.mesh) != partial(self.plan.axes).on(self.mesh):
            self._transient(weight, ".grad.raw", "gradient", partial(self.plan.axes), per_micro=True)
        if states.accumulator.on(self.mesh) != states.optimizer.on(self.mesh):
            in_place = states.accumulator.on(self.mesh).flat == states.optimizer.on(self.mesh).flat
            home = f"{weight.name}.grad" if in_place else None
            self._transient(weight, ".grad.reduced", "gradient", states.optimizer, per_micro=False, shares=home)
        if states.weight.on(self.mesh) != states.optimizer.on(self.mesh):
            self._transient(weight, ".new", "gradient", states.optimizer, per_micro=False)

    def _state(self, weight: Weight, suffix: str, dtype: str, role: TensorRole, placement: Placement) -> None:
        codec = self._copy_codec if role == "copy" else None
        self._declare(
            Tensor(
                name=weight.name + suffix,
                shape=weight.shape,
                dtype=dtype,
                role=role,
                placement=placement.on(self.mesh),
                dims=weight.dims,
                nesting=self.mesh.live(self.plan.nesting),
                codec=codec,
                per_layer=weight.per_layer,
                persistent=True,
            )
        )

    def _transient(
        self,
        weight: Weight,
        suffix: str,
        role: TensorRole,
        placement: Placement,
        per_micro: bool,
        shares: str | None = None,
    ) -> None:
        self._declare(
            Tensor(
                name=weight.name + suffix,
                shape=weight.shape,
                dtype=self.workload.precision.model,
                role=role,
                placement=placement.on(self.mesh),
                dims=weight.dims,
                nesting=self.mesh.live(self.plan.nesting),
                per_layer=weight.per_layer,
                per_micro=per_micro,
                pool="live" if role == "gathered" else None,
                shares=shares,
            )
        )

    # ── calls ──

    def _close(self, label: str, layer: int, micro: int) -> None:
        if self.items:
            self.pieces.append(Piece(label, layer, micro, tuple(self.items)))
        self.items = []

    def _micro_batch(self, micro: int) -> None:
        work, layers = self.workload, self.workload.num_layers
        self._ops(work.embedding.forward, 0, micro, "forward")
        self._close("embedding", 0, micro)
        for layer in range(layers):
            self._ops(work.layer.forward, layer, micro, "forward")
            self._close("forward", layer, micro)
        self._ops(work.head.forward, layers, micro, "forward")
        self._ops(work.head.backward, layers, micro, "backward")
        self._close("head", layers, micro)
        for layer in reversed(range(layers)):
            if work.checkpointing:
                self._ops(work.layer.forward, layer, micro, "recompute")
            self._ops(work.layer.backward, layer, micro, "backward")
            self._close("backward", layer, micro)
        self._ops(work.embedding.backward, 0, micro, "backward")
        self._close("embedding.backward", 0, micro)

    def _ops(self, ops: tuple[WorkOp, ...], layer: int, micro: int, stage: Stage) -> None:
        entered: set[str] = set()
        for op in ops:
            fetched: list[Ref] = []
            for weight in (*op.weights, *op.gradients):
                module = self.workload.weights[weight].module
                if module not in entered:
                    entered.add(module)
                    fetched += self._enter(module, layer, micro, stage)
            self._op(op, layer, micro, stage, fetched)
            self._write_copies(op, layer, micro, stage)

    def _enter(self, module: str, layer: int, micro: int, stage: Stage) -> tuple[Ref, ...]:
        """The hook of a module, and the gather of its weights that are not whole: of all of them, also of those that
        this stage could do without (the embedding's table in the backward), as DeepSpeed 0.16.5 does."""
        mine = [w for w in self.workload.weights.values() if w.module == module]
        sharded = [w for w in mine if w.name in self.sharded]
        if not sharded:
            return ()
        refs = tuple(Ref(gathered_name(w.name, stage), layer if w.per_layer else 0, micro) for w in sharded)
        self.items.append(Hook(module=module, weights=refs, elements=sum(w.num_elements for w in mine)))
        for weight in sharded:
            from_copy = self.plan.reads_copy(stage, micro == 0, self._is_redone(weight))
            self._transient_gathered(weight, stage)
            src = Ref(weight.name + (".copy" if from_copy else ""), layer if weight.per_layer else 0)
            purpose: Purpose = "copy_gather" if from_copy else "weight_gather"
            dst = Ref(gathered_name(weight.name, stage), src.layer, micro)
            self._move(purpose, weight, src, dst, self.plan.hops[purpose])
        return refs

    def _is_redone(self, weight: Weight) -> bool:
        """Whether checkpointing runs the weight's forward twice: that of the layers, never that of embedding and
        head."""
        return self.workload.checkpointing and weight.per_layer

    def _transient_gathered(self, weight: Weight, stage: Stage) -> None:
        if gathered_name(weight.name, stage) not in self.tensors:
            self._transient(weight, f".full.{stage}", "gathered", Placement(), per_micro=True)

    def _move(
        self, purpose: Purpose, weight: Weight, src: Ref, dst: Ref, hops: tuple[Hop, ...], accumulate: bool = False
    ) -> None:
        self.items.append(
            Move(
                purpose=purpose,
                src=(src,),
                dst=(dst,),
                hops=self._sending(src, hops),
                num_elements=weight.num_elements,
                accumulate=accumulate,
            )
        )

    def _sending(self, src: Ref, hops: tuple[Hop, ...]) -> tuple[Hop, ...]:
        """Hops that all say what they send: those without a codec send what is moved as it is stored."""
        tensor = self.tensors[src.name]
        own = tensor.codec or Codec(tensor.dtype)
        return tuple(replace(hop, codec=hop.codec or own) for hop in hops)

    def _value(self, use: Use, layer: int, micro: int, again: bool) -> Ref:
        """The instance an op means; `again` is the one that recomputation makes."""
        name, shift = use
        if again and f"{name}.again" not in self.tensors:
            self._declare_value(name, ".again")
        return Ref(f"{name}.again" if again else name, layer + shift if self.tensors[name].per_layer else 0, micro)

    def _op(self, op: WorkOp, layer: int, micro: int, stage: Stage, fetched: list[Ref]) -> None:
        """An op with its operands; the first of a module waits for all that was `fetched` for the module."""
        redone = self.made_in_layer if self.workload.checkpointing and stage != "forward" else frozenset()
        reads = [self._value(use, layer, micro, again=use[0] in redone) for use in op.reads]
        writes = [self._value(use, layer, micro, again=stage == "recompute") for use in op.writes]
        for name in op.weights:
            weight = self.workload.weights[name]
            home = layer if weight.per_layer else 0
            reads.append(Ref(gathered_name(name, stage), home, micro) if name in self.sharded else Ref(name, home))
        reads += [ref for ref in fetched if ref not in reads]
        late = any(self.plan.is_stale(stage, self._is_redone(self.workload.weights[name])) for name in op.weights)
        made, added = self._gradient_targets(op, layer, micro)
        self.items.append(
            Compute(
                kind=op.kind,
                name=op.name,
                reads=tuple(reads),
                writes=(*writes, *made),
                accumulates=tuple(added),
                iteration=op.iteration,
                split=self.split,
                matmul=op.matmul,
                flops=op.flops,
                max_age=1 if late else 0,
            )
        )
        for name in op.gradients:
            self._reduce(self.workload.weights[name], layer, micro)

    def _gradient_targets(self, op: WorkOp, layer: int, micro: int) -> tuple[list[Ref], list[Ref]]:
        """Where the gradients of an op go: (raw gradients that it writes, accumulators that it adds to)."""
        made, added = [], []
        for name in op.gradients:
            home = layer if self.workload.weights[name].per_layer else 0
            if f"{name}.grad.raw" in self.tensors:
                made.append(Ref(f"{name}.grad.raw", home, micro))
            else:
                added.append(Ref(f"{name}.grad", home))
        return made, added

    def _reduce(self, weight: Weight, layer: int, micro: int) -> None:
        """The moves of a gradient that was just made: to its accumulator, and at the last micro-batch to the
        optimizer."""
        home = layer if weight.per_layer else 0
        if f"{weight.name}.grad.raw" in self.tensors:
            src, dst = Ref(f"{weight.name}.grad.raw", home, micro), Ref(f"{weight.name}.grad", home)
            self._move("gradient", weight, src, dst, self.plan.gradient_hops(weight), accumulate=True)
        if micro == self.grad_accum - 1 and self.engine.step_reduction == "overlap":
            self._reduce_step(weight, home)

    def _reduce_step(self, weight: Weight, home: int) -> None:
        if f"{weight.name}.grad.reduced" in self.tensors:
            src, dst = Ref(f"{weight.name}.grad", home), Ref(f"{weight.name}.grad.reduced", home)
            self._move("step_reduction", weight, src, dst, self.plan.step_hops(weight))

    def _write_copies(self, op: WorkOp, layer: int, micro: int, stage: Stage) -> None:
        for name in op.weights:
            weight = self.workload.weights[name]
            if not self.plan.writes_copy(stage, micro == 0, self._is_redone(weight)):
                continue
            if f"{name}.copy" in self.tensors:
                home = layer if weight.per_layer else 0
                src, dst = Ref(gathered_name(name, stage), home, micro), Ref(f"{name}.copy", home)
                kind = "encode" if self._copy_codec else "slice"
                self.items.append(Compute(kind=kind, name=f"{name}.copy", reads=(src,), writes=(dst,)))

    # ── the optimizer step ──

    def _step(self) -> None:
        places = self._weights_by_place()
        if self.engine.step_reduction == "end":
            for label, layer, weights in reversed(places):
                for weight in weights:
                    self._reduce_step(weight, layer)
                self._close(f"reduce.{label}", layer, 0)
        for scalar in SCALARS:
            for suffix, placement in (("", partial(self.plan.optimizer)), (".total", Placement())):
                self._declare(
                    Tensor(
                        name=scalar + suffix,
                        shape=(1,),
                        dtype=self.workload.precision.wide,
                        role="scalar",
                        placement=placement.on(self.mesh),
                    )
                )
        for label, layer, weights in places:
            grads = tuple(self._optimizer_gradient(w, layer) for w in weights)
            self.items.append(
                Compute(kind="norm2", name="gradient_norm", reads=grads, accumulates=tuple(Ref(s) for s in SCALARS))
            )
            self._close(f"norm.{label}", layer, 0)
        for scalar in SCALARS:
            self._scalar(scalar)
        self._close("clip", 0, 0)
        for label, layer, weights in places:
            self._adam(weights, layer)
            self._close(f"step.{label}", layer, 0)

    def _weights_by_place(self) -> list[tuple[str, int, list[Weight]]]:
        weights = list(self.workload.weights.values())
        layered = [w for w in weights if w.per_layer]
        ends = {
            m: [w for w in weights if w.module == m]
            for m in dict.fromkeys(w.module for w in weights if not w.per_layer)
        }
        first, *rest = list(ends.items())
        return [
            (first[0], 0, first[1]),
            *(("layer", layer, layered) for layer in range(self.workload.num_layers)),
            *((module, 0, mine) for module, mine in rest),
        ]

    def _optimizer_gradient(self, weight: Weight, layer: int) -> Ref:
        reduced = f"{weight.name}.grad.reduced"
        return Ref(reduced if reduced in self.tensors else f"{weight.name}.grad", layer)

    def _scalar(self, name: str) -> None:
        if self.tensors[name].placement == Placement():
            self.items.append(Compute(kind="slice", name=name, reads=(Ref(name),), writes=(Ref(f"{name}.total"),)))
        else:
            self.items.append(
                Move(
                    purpose="scalar",
                    src=(Ref(name),),
                    dst=(Ref(f"{name}.total"),),
                    hops=self._sending(Ref(name), self.plan.hops["scalar"]),
                    num_elements=1,
                )
            )

    def _adam(self, weights: list[Weight], layer: int) -> None:
        reads, writes = [Ref(f"{s}.total") for s in SCALARS], []
        for weight in weights:
            reads.append(self._optimizer_gradient(weight, layer))
            state = [Ref(weight.name + part, layer) for part in (".moments", ".master")]
            new = f"{weight.name}.new"
            reads += state
            writes += [*state, Ref(new if new in self.tensors else weight.name, layer)]
        elements = sum(math.prod(w.shape) for w in weights)
        self.items.append(
            Compute(kind="adam", name="adam", reads=tuple(reads), writes=tuple(writes), iteration=(("w", elements),))
        )
        for weight in weights:
            if f"{weight.name}.new" in self.tensors:
                src, dst = Ref(f"{weight.name}.new", layer), Ref(weight.name, layer)
                self._move("publish", weight, src, dst, self.plan.hops["publish"])
