"""Programs of pipeline stages, assembled from forward and backward passes that are built once and shifted to other
layers and micro-batches."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field, replace

from simfrontier.base.errors import InputError
from simfrontier.core.codecs import Codec, Plain
from simfrontier.core.plan.alternate import Alternation
from simfrontier.core.plan.builder import ModelPart, ProgramBuilder
from simfrontier.core.plan.offload import Kept, kept_for_backward
from simfrontier.core.plan.optimizer import end_of_step
from simfrontier.core.plan.orders import Boundary, PassKind, StagePass, events_of
from simfrontier.core.plan.plan import Pipeline
from simfrontier.core.plan.program import Compressor, Place, Program
from simfrontier.core.plan.tensors import Tensors
from simfrontier.core.program import Call, Compute, Exchange, Op, Ref, Role, buffer_name

DIVIDED: tuple[PassKind, ...] = ("input_gradient", "weight_gradient")  # the parts of a backward
STREAM, STREAM_GRADIENT = "x", "d.x"  # what a layer takes over from the one before, and gives back to it
TIED = "tied"
Lower = Callable[[Program, Tensors], Program]


def roles_of(tensors: Tensors, pipeline: Pipeline, num_micro: int, lower: Lower) -> tuple[Role, ...]:
    """Return one role (program of a group of ranks) for each pipeline stage; `lower` turns a naive program into ops."""
    maker = _Stages(tensors, pipeline, num_micro, lower)
    return tuple(maker.role(stage) for stage in range(maker.num_stages))


def refuse_periods(groups: Iterable[range], every: int) -> None:
    """Raise InputError if a group of layers is not a whole number of checkpointing periods of `every` layers."""
    for layers in groups:
        if len(layers) % every:
            raise InputError(
                f"model.checkpoint_every = {every} does not divide the {len(layers)} layers that follow one another on "
                "a stage"
            )


@dataclass
class _Stages:
    """Builder of the programs of all pipeline stages.

    Each pass contains the forward or backward of a single chunk, or one of the two parts of a divided backward: no
    fetch or reduction crosses an exchange between stages. `likes` has for each chunk, in the order of the layers, the
    first one that differs from it only by the numbers of its layers: that one is built, and shifted for the others.
    """

    tensors: Tensors
    pipeline: Pipeline
    num_micro: int
    lower: Lower
    compressor: Compressor = field(default_factory=Compressor)
    built: dict[tuple[ModelPart, PassKind, int], tuple[Call, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        work, mesh = self.tensors.workload, self.tensors.mesh
        self.num_stages = mesh[self.pipeline.axis]
        groups = self.pipeline.groups(work.num_layers, self.num_stages)
        refuse_periods(groups, work.checkpoint_every)
        self.parts = [ModelPart(layers, layers is groups[0], layers is groups[-1]) for layers in groups]
        known: dict[Hashable, ModelPart] = {}
        forms = ([(work.layers[n], work.is_checkpointed(n)) for n in layers] for layers in groups)
        self.likes = [
            known.setdefault((part.first, part.last, *form), part) for part, form in zip(self.parts, forms, strict=True)
        ]
        self.alternation = Alternation(self.compressor, self.tensors.plan.groups, self.pipeline.alternates)
        self.tied = [w.name for w in work.weights.values() if self._is_in(w.name, True) and self._is_in(w.name, False)]
        self.tensors.kept = self._kept() if self.tensors.plan.offloaded_layers else {}

    def _kept(self) -> Kept:
        """Return what backwards read from the host's memory, by forwards and backwards that are built for this alone: a
        pass is lowered before the next one is built."""
        out: dict[int, tuple[str, ...]] = {}
        for part in dict.fromkeys(self.likes):
            builder = ProgramBuilder(self.tensors, part, self.num_micro - 1, used_apart=self.used_apart)
            builder.forward(0)
            builder.backward(0)
            kept = kept_for_backward(builder.program, self.tensors)
            out |= {layer: kept[layer] for layer in part.layers if layer in kept}
        return out

    @property
    def used_apart(self) -> frozenset[str]:
        """Tied weights whose two uses are in different chunks of one stage."""
        return frozenset(self.tied) if self.pipeline.is_v else frozenset()

    def _is_in(self, weight: str, first: bool) -> bool:
        """Return whether the embedding (`first` true), or else the head or multi-token prediction, computes a gradient
        of this weight, which belongs to no layer."""
        work = self.tensors.workload
        phases = (work.embedding,) if first else (*work.kinds, work.head)
        return not work.weights[weight].per_layer and any(
            weight in op.gradients for phase in phases for op in phase.backward
        )

    def role(self, stage: int) -> Role:
        """Return the program of one stage as a role."""
        calls: list[Call] = []
        for event in events_of(self.pipeline, self.num_stages, stage, self.num_micro):
            if isinstance(event, Boundary):
                calls.append(self._exchange(stage, event))
            elif isinstance(event, StagePass):
                calls += self._work(stage, event)
            else:
                calls += self.alternation.calls(*(self._work(stage, work) for work in event))
        calls += self._end(stage)
        return Role(f"stage{stage}", tuple(calls), (self.pipeline.axis, stage))

    def _number(self, stage: int, chunk: int) -> int:
        return self.pipeline.number_of(stage, chunk, self.num_stages)

    # ── forwards and backwards ──

    def _work(self, stage: int, work: StagePass) -> tuple[Call, ...]:
        """Return the calls of a pass: built once for an equivalent chunk and micro-batch, and shifted to this chunk and
        micro-batch."""
        number = self._number(stage, work.chunk)
        part, like, micro = self.parts[number], self.likes[number], self._micro_like(work)
        key = (like, work.kind, micro)
        if key not in self.built:
            self._build(like, work.kind, micro)
        layers, micros = part.layers.start - like.layers.start, work.micro - micro
        if not layers and not micros:
            return self.built[key]
        return tuple([Call(c.label, c.layer + layers, c.micro + micros, c.ops, c.block) for c in self.built[key]])

    def _micro_like(self, work: StagePass) -> int:
        """Return a micro-batch with an equal pass: only the first forward fills second copies of weights, and only the
        last backward reduces accumulated gradients."""
        if work.kind == "forward":
            return 0 if self.tensors.plan.copy is None else min(work.micro, 1)
        return work.micro if work.micro == self.num_micro - 1 else 0

    def _build(self, part: ModelPart, kind: PassKind, micro: int) -> None:
        """Build a pass; of a divided backward, both parts: the second one reads what the first one gathered."""
        kinds = DIVIDED if kind in DIVIDED else (kind,)
        builder = ProgramBuilder(self.tensors, part, self.num_micro - 1, kinds == DIVIDED, self.used_apart)
        for each in kinds:
            builder.placed = []
            if each == "forward":
                builder.forward(micro)
                builder.close("head", self.tensors.workload.num_layers, micro)
            elif each == "weight_gradient":
                builder.weight_gradients(micro)
            else:
                builder.backward(micro)
            self.built[part, each, micro] = self._lowered(builder)

    def _lowered(self, builder: ProgramBuilder) -> tuple[Call, ...]:
        return self.compressor.calls_of(self.lower(builder.program, self.tensors))

    # ── between stages ──

    def _exchange(self, stage: int, boundary: Boundary) -> Call:
        """Return the call of an exchange at a stage boundary, including the stage's encoding and decoding of the
        messages; the layer of the call is the first layer after the boundary."""
        number = self._number(boundary.upper, boundary.chunk) + 1
        (lower, _), layer = self.pipeline.home_of(number, self.num_stages), self.parts[number].layers.start
        there, back = boundary.direction != "backward", boundary.direction != "forward"
        micro = boundary.forward if there else boundary.backward
        forward, backward = Ref(STREAM), Ref(STREAM_GRADIENT, 0, boundary.backward - micro)
        codec = self._codec()
        sent, got = (self._coded(name, codec) for name in ("sent", "got"))
        lane = "compute"
        if self.pipeline.overlap:
            ends = (boundary.upper, lower) if there else (lower, boundary.upper)
            lane = f"{boundary.direction}.{ends[0]}>{ends[1]}"
        op = Exchange(
            name=boundary.direction,
            axis=self.pipeline.axis,
            ends=(boundary.upper, lower),
            src=(sent(forward),) if there else (),
            dst=(got(forward),) if there else (),
            back_src=(sent(backward),) if back else (),
            back_dst=(got(backward),) if back else (),
            codec=codec or Plain(self.tensors.workload.precision.model),
            lane=lane,
            comm=lane if self.pipeline.overlap else f"{self.pipeline.axis}.{boundary.upper}>{lower}",
        )
        ops: tuple[Op, ...] = (op,)
        if codec is not None:
            (outgoing, sends), (incoming, gets) = ((forward, there), (backward, back))[
                :: 1 if stage == boundary.upper else -1
            ]
            encode = Compute(
                kind="encode", name=boundary.direction, reads=(outgoing,), writes=(sent(outgoing),), lane=lane
            )
            decode = Compute(
                kind="decode", name=boundary.direction, reads=(got(incoming),), writes=(incoming,), lane=lane
            )
            ops = (*((encode,) if sends else ()), op, *((decode,) if gets else ()))
        return self.compressor.call(Place("exchange", layer, micro), ops)

    def _codec(self) -> Codec | None:
        """Return the codec of messages between stages; None if they are sent as stored."""
        hop, like = self.tensors.plan.exchange_hop, self.tensors[STREAM]
        if hop is None or hop.codec is None:
            return None
        plain = hop.below or Plain(like.dtype)
        codec = plain if hop.is_small(plain, like.local_elements(self.tensors.mesh)) else hop.codec.on(like.dtype)
        return None if codec.name == like.dtype else codec

    def _coded(self, suffix: str, codec: Codec | None) -> Callable[[Ref], Ref]:
        """Return a function that maps the reference of a sent or received tensor to that of its coded buffer; without a
        codec, the function returns the reference unchanged."""

        def coded(ref: Ref) -> Ref:
            if codec is None:
                return ref
            name = buffer_name(ref.name, f"exchange.{suffix}")
            if name not in self.tensors:
                made = replace(self.tensors[ref.name], name=name, role="encoded", codec=codec, persistent=False)
                self.tensors.declare(made)
            return Ref(name, ref.layer, ref.micro)

        return coded

    # ── the end of the step ──

    def _end(self, stage: int) -> tuple[Call, ...]:
        """Return the calls at the end of a stage's step: gradient reductions, exchange of the gradients of tied weights
        between the first and the last stage, and optimizer."""
        parts = [self.parts[self._number(stage, chunk)] for chunk in range(self.pipeline.chunks)]
        first, last = any(part.first for part in parts), any(part.last for part in parts)
        ends = ModelPart(range(0), first, last)
        builder = ProgramBuilder(self.tensors, ends, self.num_micro - 1, used_apart=self.used_apart)
        builder.layers = tuple(layer for part in parts for layer in part.layers)
        end_of_step(
            builder,
            self._swap if self.tied and first != last else None,
            frozenset(self.tied if last and not first else ()),
        )
        return self._lowered(builder)

    def _swap(self, builder: ProgramBuilder) -> None:
        """Exchange the gradients of tied weights between the two stages that have these weights; each stage adds the
        gradient that it receives to its own."""
        for name in self.tied:
            weight = self.tensors.workload.weights[name]
            own = self.tensors.optimizer_gradient(weight)
            other = f"{name}.grad.other"
            like = self.tensors[own]
            self.tensors.declare(replace(like, name=other, role="gradient", persistent=False, shares=None))
            refs, got = (Ref(own),), (Ref(other),)
            builder.items.append(
                Exchange(
                    name=TIED,
                    axis=self.pipeline.axis,
                    ends=(0, self.num_stages - 1),
                    src=refs,
                    dst=got,
                    back_src=refs,
                    back_dst=got,
                    codec=Plain(like.dtype),
                    comm=TIED,
                )
            )
            builder.items.append(Compute(kind="accumulate", name=TIED, reads=got, accumulates=refs))
        builder.close(TIED, 0, 0)
