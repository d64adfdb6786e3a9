"""Builder of naive programs: one part of the model under one plan, with each move placed where it is needed.

Gathers precede the op or module that uses the gathered tensor; reductions follow the op that computes the value. The
passes then reorder and merge these moves; `hops` turns them into collectives.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace

from simfrontier.core.codecs import Codec, Plain
from simfrontier.core.plan.layout import BATCH
from simfrontier.core.plan.moves import Hop
from simfrontier.core.plan.plan import Purpose
from simfrontier.core.plan.program import Hook, Item, Move, Place, Placed, Program
from simfrontier.core.plan.tensors import Tensors, as_form
from simfrontier.core.program import ATTENTION, Compute, OpName, Placement, Ref, Stage, gathered_name, value_name
from simfrontier.core.workload import EXPERTS, Phase, Use, Weight, WorkOp

AT_ONCE = ("loss_own",)  # its sum is there before exponentials are formed: Megatron-LM reduces on the compute stream


@dataclass(frozen=True, slots=True)
class ModelPart:
    """Part of a model that one rank runs: some of the layers, and optionally the embedding (`first`) and the head
    (`last`)."""

    layers: range
    first: bool = True
    last: bool = True


@dataclass
class ProgramBuilder:
    """Builder of the program of one part of the model; micro-batch `last_micro` is the last micro-batch of the step.

    With `divided`, the backward leaves products that make only gradients of weights to `weight_gradients`. The uses of
    a weight in `used_apart` are in different parts of the model, so the gradient of each use is reduced separately, and
    their sum at the end of the step.
    """

    tensors: Tensors
    part: ModelPart
    last_micro: int
    divided: bool = False
    used_apart: frozenset[str] = frozenset()
    placed: Placed = field(default_factory=list)
    items: list[Item] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.workload, self.plan, self.mesh = self.tensors.workload, self.tensors.plan, self.tensors.mesh
        self.engine, self.layout = self.tensors.engine, self.tensors.layout
        work = self.workload
        redone = (op for kind in work.kinds for op in work.recomputed(kind))
        self.redone = frozenset(name for op in redone for name, shift in op.writes if shift == 0)
        forward = (op for phase in (work.embedding, *work.kinds, work.head) for op in phase.forward)
        self.made_forward = frozenset(name for op in forward for name, _ in op.writes)
        self.summed = frozenset(name for names in self.layout.summed_late.values() for name in names)
        self.copied: set[Ref] = set()
        self.copies_filled: set[Ref] = set()
        self.sending: dict[tuple[tuple[Hop, ...], Codec, str], tuple[Hop, ...]] = {}
        self.layers = tuple(self.part.layers)  # the layers that the end of the step treats
        self.use = ""  # where in the model the pass is: at the embedding, in a layer, or at the head
        self.owned: defaultdict[str, list[Weight]] = defaultdict(list)  # by unit whose hooks fetch them
        for weight in work.weights.values():
            self.owned[weight.owner].append(weight)
        self.sharded = {
            module: [weight for weight in owned if weight.name in self.tensors.sharded]
            for module, owned in self.owned.items()
        }
        makers = self._makers()
        self.begins = {(weight, ops[0]) for (weight, _), ops in makers.items()}
        self.completes = {(weight, ops[-1]) for (weight, _), ops in makers.items()}

    @property
    def phases(self) -> tuple[Phase, ...]:
        """The phases of the part, each once, in the order of the backward."""
        work = self.workload
        layers = (work.layers[layer] for layer in reversed(self.layers))
        return (
            *([work.head] if self.part.last else ()),
            *dict.fromkeys(layers),
            *([work.embedding] if self.part.first else ()),
        )

    def _makers(self) -> dict[tuple[str, int], list[str]]:
        """Return the names of the ops that add to the gradient of each weight, in the order of the backward; by weight
        and, for weights of layers, the number of the kind of layer."""
        out: dict[tuple[str, int], list[str]] = {}
        ops = [(number, op) for number, phase in enumerate(self.phases) for op in phase.backward]
        for number, op in sorted(ops, key=lambda each: self._follows(each[1])):
            for name in op.gradients:
                key = (name, number if self.workload.weights[name].per_layer else -1)
                out.setdefault(key, []).append(op.name)
        return out

    def _follows(self, op: WorkOp) -> bool:
        """Return whether an op belongs to the second part of a divided backward."""
        return self.divided and op.makes_weight_gradients

    @property
    def program(self) -> Program:
        """The program built so far: all closed calls."""
        return Program(self.placed, self.tensors.by_name)

    def close(self, label: str, layer: int, micro: int) -> None:
        """Close the current call: it contains all items added since the previous close."""
        place = Place(label, layer, micro)
        self.placed += [(place, item) for item in self.items]
        self.items = []

    # ── one micro-batch ──

    def forward(self, micro: int) -> None:
        """Add the forward pass: embedding and layers of the part, then the head; the call that contains the head stays
        open."""
        work = self.workload
        if self.part.first:
            self.use = ""
            self._ops(work.embedding.forward, 0, micro, "forward")
            self.close("embedding", 0, micro)
        for layer in self.part.layers:
            self.use = f".{layer}"
            self._ops(work.layers[layer].forward, layer, micro, "forward")
            self.close("forward", layer, micro)
        if self.part.last:
            self._head(work.head.forward, micro, "forward")

    def backward(self, micro: int) -> None:
        """Add the backward pass: the head, the layers of the part (checkpointed layers recompute their forward first),
        and the embedding."""
        work = self.workload
        if self.part.last:
            self._head(work.head.backward, micro, "backward")
            self.close("head", work.num_layers, micro)
        for layer in reversed(self.part.layers):
            self.use, phase = f".{layer}", work.layers[layer]
            before, after = self._around_recomputation(phase)
            self._ops(before, layer, micro, "backward")
            self._ops(work.recomputed(phase) if work.is_checkpointed(layer) else (), layer, micro, "recompute")
            self._ops(after, layer, micro, "backward")
            self.close("backward", layer, micro)
        if self.part.first:
            self.use = ""
            self._ops(work.embedding.backward, 0, micro, "backward")
            self.close("embedding.backward", 0, micro)

    def weight_gradients(self, micro: int) -> None:
        """Add the second part of a divided backward. It reads what the first part has gathered or recomputed, and no
        weights: no hook fetches any."""
        work = self.workload
        phases = [(work.head, work.num_layers)] if self.part.last else []
        for phase, layer in [*phases, *((work.layers[layer], layer) for layer in reversed(self.part.layers))]:
            self.use = ".head" if phase is work.head else f".{layer}"
            for op in filter(self._follows, self.layout.ops(phase.backward)):
                self._op(op, layer, micro, "backward", [])
            self.close("weight_gradients", layer, micro)

    def _around_recomputation(self, layer: Phase) -> tuple[tuple[WorkOp, ...], tuple[WorkOp, ...]]:
        """Return the backward ops of a layer in two parts: those that run before the recomputation of the layer's
        forward, and those that run after it."""
        ops = layer.backward
        if self.workload.checkpointing == "full":
            return (), ops
        first = (at for at, op in enumerate(ops) if any(name in self.redone for name, _ in op.reads))
        at = next(first, 0)
        while at and ops[at - 1].named.module == ops[at].named.module:  # a module's hook fetches for all of its ops
            at -= 1
        return ops[:at], ops[at:]

    def _head(self, ops: tuple[WorkOp, ...], micro: int, stage: Stage) -> None:
        self.use = ".head"
        self._ops(ops, self.workload.num_layers, micro, stage)

    def _use_of(self, weight: str) -> str:
        """Return the suffix of the names of buffers into which the head, or a layer, gathers a weight of the embedding;
        empty for all other weights. A tied embedding table is gathered twice in a pass, by the embedding and by the
        head, into different buffers."""
        first = next(iter(self.workload.weights.values())).owner
        return self.use if self.workload.weights[weight].owner == first else ""

    def _gathered(self, weight: str, stage: Stage) -> str:
        return gathered_name(weight, stage, self._use_of(weight))

    def _used(self, weight: Weight, layer: int, micro: int, stage: Stage) -> Ref:
        """Return the tensor that a pass reads in place of a sharded weight: the second copy of the weight, or the
        buffer into which the weight is gathered."""
        home = layer if weight.per_layer else 0
        if self.plan.gathers_once:
            return Ref(f"{weight.name}.copy", home)
        return Ref(self._gathered(weight.name, stage), home, micro)

    def _ops(self, ops: tuple[WorkOp, ...], layer: int, micro: int, stage: Stage) -> None:
        entered: set[str] = set()
        for op in self.layout.ops(ops):
            if self._follows(op):
                continue
            fetched: list[Ref] = []
            for weight in (*op.weights, *op.gradients):
                module = self.workload.weights[weight].owner
                if module not in entered:
                    entered.add(module)
                    fetched += self._enter(module, layer, micro, stage)
            self._op(op, layer, micro, stage, fetched)
            self._write_copies(op, layer, micro, stage)

    # ── weights ──

    def _enter(self, module: str, layer: int, micro: int, stage: Stage) -> tuple[Ref, ...]:
        """Add the hook of a module and the gather of its sharded weights. All of them are gathered, even those that
        this stage does not need (the embedding's table in the backward), as in DeepSpeed 0.16.5."""
        owned, sharded = self.owned[module], self.sharded[module]
        if not sharded:
            return ()
        refs = tuple(self._used(w, layer, micro, stage) for w in sharded)
        if self.plan.gathers_once:
            if stage != "forward" or micro > 0 or refs[0] in self.copies_filled:
                return ()
            self.copies_filled.update(refs)
        self.items.append(Hook(module=module, weights=refs, elements=sum(w.num_elements for w in owned)))
        for weight in sharded:
            from_copy = self.plan.reads_copy(stage, micro == 0, self._is_repeated(weight, layer))
            src = Ref(weight.name + (".copy" if from_copy else ""), layer if weight.per_layer else 0)
            purpose: Purpose = "copy_gather" if from_copy else "weight_gather"
            if not self.plan.gathers_once:
                self.tensors.gathered(weight, stage, self._use_of(weight.name))
            dst = self._used(weight, layer, micro, stage)
            self.move(purpose, src, dst, self.plan.hops[purpose])
        return refs

    def _is_repeated(self, weight: Weight, layer: int) -> bool:
        """Return whether the forward of this weight runs twice because of checkpointing: only layers are recomputed,
        never the embedding or the head."""
        work = self.workload
        return work.checkpointing == "full" and weight.per_layer and work.is_checkpointed(layer)

    def _write_copies(self, op: WorkOp, layer: int, micro: int, stage: Stage) -> None:
        for name in op.weights:
            weight = self.workload.weights[name]
            if not self.plan.writes_copy(stage, micro == 0, self._is_repeated(weight, layer)):
                continue
            if f"{name}.copy" in self.tensors:
                home = layer if weight.per_layer else 0
                src, dst = Ref(self._gathered(name, stage), home, micro), Ref(f"{name}.copy", home)
                kind = "encode" if self.tensors.copy_codec else "slice"
                self.items.append(Compute(kind=kind, name=f"{name}.copy", reads=(src,), writes=(dst,)))

    # ── moves ──

    def move(self, purpose: Purpose, src: Ref, dst: Ref, hops: tuple[Hop, ...], accumulate: bool = False) -> None:
        """Add a move at this point of the program; hops without a codec send the tensor as it is stored."""
        self.move_together(purpose, [src], [dst], hops, accumulate)

    def move_together(
        self, purpose: Purpose, src: list[Ref], dst: list[Ref], hops: tuple[Hop, ...], accumulate: bool = False
    ) -> None:
        """Add a move of several tensors of one data type at this point of the program, as one call; `src[i]` moves into
        `dst[i]`."""
        tensor = self.tensors[src[0].name]
        own = tensor.codec or Plain(tensor.dtype)
        sending = self.sending.get((hops, own, tensor.dtype))
        if sending is None:
            sending = tuple(replace(hop, codec=hop.codec.on(tensor.dtype) if hop.codec else own) for hop in hops)
            self.sending[hops, own, tensor.dtype] = sending
        count = sum(self.tensors[ref.name].num_elements for ref in src)
        self.items.append(
            Move(
                purpose=purpose,
                src=tuple(src),
                dst=tuple(dst),
                hops=sending,
                num_elements=count,
                accumulate=accumulate,
            )
        )

    def _value_moves(self, src: Ref, dst: Ref, purpose: Purpose) -> None:
        """Add the move of a value to another placement, as one hop over all axes that cut the model. If the value is
        gathered or summed over samples of the batch, the purpose of the move is `statistic`, whatever `purpose`
        says. In a divided backward there is nothing that could hide the move, so its purpose is `activation` (as in
        github.com/sail-sg/zero-bubble-pipeline-parallelism, megatron/core/tensor_parallel/layers.py)."""
        purpose = "activation" if self.divided else purpose
        before, after = (dict(self.tensors[ref.name].placement.shards) for ref in (src, dst))
        of_samples = {axis for axis in self.plan.axes if before.get(axis) == after.get(axis)}
        axes = tuple(axis for axis in self.mesh.live(self.mesh.names) if axis not in of_samples)
        over_samples = self._samples_crossed(src, dst)
        if over_samples:
            self.move("statistic", src, dst, (Hop(over_samples),))
            return
        coded = self.plan.value_hop is not None and self._may_be_coded(self.plan.value_hop, src, dst)
        given = self.plan.value_hop or Hop(())
        merged = any(op == "merge" for _, op in self.tensors[src.name].placement.partial)
        is_own = self.tensors[src.name].dtype == self.workload.precision.model and not merged
        hop = replace(given, axes=axes) if coded else Hop(axes, given.below if is_own else None)
        if is_own and EXPERTS in self.tensors[src.name].dims:
            hop = replace(hop, via=self.plan.dispatch_via)
        self.move(purpose, src, dst, (hop,))

    def _samples_crossed(self, src: Ref, dst: Ref) -> tuple[str, ...]:
        """Return the batch axes over which a value is gathered or summed, because an op needs the value of all samples
        (not those of rows that go to experts)."""
        before, after = (self.tensors[ref.name].placement for ref in (src, dst))
        cut = {axis for axis, dim in before.shards if self.tensors[src.name].dims[dim] == BATCH}
        left = (cut | before.partial_axes) - {axis for axis, _ in after.shards}
        left -= after.partial_axes | set(self.plan.cuts.get(EXPERTS, ()))
        return tuple(axis for axis in self.mesh.live(self.plan.axes) if axis in left)

    def _may_be_coded(self, hop: Hop, src: Ref, dst: Ref) -> bool:
        """Return whether the messages of this move may be coded (compressed). Only sums in the model's own data type
        may, not maxima or sums in a wider type; and where values are coded as a whole, not an all-reduce whose size is
        not divisible by the number of ranks over which it would be scattered."""
        tensor, after = self.tensors[src.name], self.tensors[dst.name].placement
        partial = tensor.placement.partial
        if tensor.dtype != self.workload.precision.model or any(op != "sum" for _, op in partial):
            return False
        stays = {axis for axis, _ in partial} - {axis for axis, _ in after.shards}
        return not (hop.scatters and stays and not tensor.nesting)

    # ── values ──

    def _home(self, use: Use, layer: int, micro: int, form: str) -> Ref:
        """Return the reference to the tensor `form` of a value, at the layer and micro-batch that a use in an op of
        `layer` refers to."""
        name, shift = use
        return Ref(form, layer + shift if self.workload.values[name].per_layer else 0, micro)

    def _read(self, op: WorkOp, use: Use, layer: int, micro: int, stage: Stage) -> Ref:
        """Return an operand of an op in the placement that the op needs, adding the move to this placement if there is
        none yet. In the backward of a checkpointed layer, the operand is the recomputed value."""
        name = use[0]
        again = name in self.redone and stage != "forward" and self.workload.is_checkpointed(layer)
        value = self.workload.values[name]
        needed = self.layout.needed(op, value)
        source = self._home(use, layer, micro, self.tensors.value(name, again=again))
        if needed == self.layout.kept[name]:
            return source
        from_forward = stage == "backward" and name in self.made_forward
        is_input = from_forward and op.kind not in ATTENTION  # which only a weight's gradient needs again
        keeps = not self.plan.gathers_inputs_again or EXPERTS in value.dims or self._is_exchanged(name, needed)
        kept = self._kept_input(use, layer, micro, again, needed) if from_forward and keeps else None
        if kept is not None:
            return kept
        labels = op.labels_of(value)
        form = self.tensors.value(name, needed, again=again, stage=stage, labels=labels)
        copy = self._home(use, layer, micro, form)
        if copy not in self.copied:
            self.copied.add(copy)
            self._value_moves(source, copy, "input_gather" if is_input else "activation")
        return copy

    def _is_exchanged(self, name: str, needed: Placement) -> bool:
        """Return whether a value reaches this placement by all-to-alls alone, so that keeping it takes no more memory
        than the value itself."""
        return {axis for axis, _ in needed.shards} == {axis for axis, _ in self.layout.kept[name].shards}

    def _kept_input(self, use: Use, layer: int, micro: int, again: bool, needed: Placement) -> Ref | None:
        """Return the gathered value that the recomputation of the layer, or else its forward, left in memory, or the
        value as it was written, if that is what is needed; None if there is neither."""
        stages: tuple[Stage, ...] = ("recompute", "forward") if self.workload.is_checkpointed(layer) else ("forward",)
        forms = [value_name(use[0], again and stage == "recompute", stage) for stage in stages]
        forms.append(value_name(use[0], again, is_partial=True))
        held = (form for form in forms if form in self.tensors and self.tensors[form].placement == needed)
        return next((self._home(use, layer, micro, form) for form in held), None)

    def _write(self, op: WorkOp, use: Use, layer: int, micro: int, stage: Stage) -> tuple[Ref, Ref | None]:
        """Return the tensor to which the op writes a result, and the tensor to which this result must then be moved
        (None if the result needs no move)."""
        name = use[0]
        again = stage == "recompute"
        labels = op.labels_of(self.workload.values[name])
        given = self.layout.given(op, labels)
        kept = self._home(use, layer, micro, self.tensors.value(name, again=again))
        if given == self.layout.kept[name]:
            return kept, None
        made = self.tensors.value(name, given, again=again, is_partial=True, labels=labels)
        return self._home(use, layer, micro, made), kept

    def _branches(self, op: WorkOp, layer: int, micro: int, stage: Stage) -> list[Ref]:
        """Add the local sum of the partial values that an addition reads, and one reduction of this sum in place of one
        reduction per value. Return the reduced sum as the only operand of the addition."""
        late = self.layout.summed_late[op.reads]
        again, value = stage == "recompute", f"{op.name}.branches"
        named = OpName(f"{op.named._replace(streams=()).text}.branches", streams=op.named.streams)
        parts = [self.tensors.value(name, again=again, is_partial=True) for name in late]
        like = self.tensors[parts[0]]
        like = replace(like, local=named.module if like.streams else None)
        whole, total = (as_form(like, value, again, None, is_partial) for is_partial in (False, True))
        self.tensors.declare(total)
        self.tensors.declare(replace(whole, placement=self.layout.kept[late[0]]))
        reads = tuple(self._home((name, 0), layer, micro, part) for name, part in zip(late, parts, strict=True))
        home, target = Ref(whole.name, layer, micro), Ref(total.name, layer, micro)
        cut = tuple(pair for pair in self.layout.split(op) if pair[0] not in like.placement.partial_axes)
        made = Compute(
            kind="add", name=value, named=named, reads=reads, writes=(target,), iteration=op.iteration, split=cut
        )
        self.items.append(made)
        self._value_moves(target, home, "activation")
        return [home]

    # ── ops ──

    def _op(self, op: WorkOp, layer: int, micro: int, stage: Stage, fetched: list[Ref]) -> None:
        """Add an op with its operands; the first op of a module waits until all tensors in `fetched` are available."""
        late = self.layout.summed_late.get(op.reads, ())
        early = tuple(use for use in self.layout.uses(op.reads) if use[0] not in late)
        reads = [self._read(op, use, layer, micro, stage) for use in early]
        if late:
            reads += self._branches(op, layer, micro, stage)
        written = [self._write(op, use, layer, micro, stage) for use in op.writes]
        for name in op.weights:
            weight = self.workload.weights[name]
            is_sharded = name in self.tensors.sharded
            home = Ref(name, layer if weight.per_layer else 0)
            reads.append(self._used(weight, layer, micro, stage) if is_sharded else home)
        reads += [self._state(name, layer) for name in op.states]
        reads += [ref for ref in fetched if ref not in reads]
        stale = any(
            self.plan.is_stale(stage, self._is_repeated(self.workload.weights[name], layer)) for name in op.weights
        )
        made, added = self._gradient_targets(op, layer, micro)
        self.items.append(
            Compute(
                kind=op.kind,
                name=op.name,
                named=op.named,
                reads=tuple(reads),
                writes=(*(ref for ref, _ in written), *made, *(self._state(name, layer) for name in op.written_states)),
                accumulates=tuple(added),
                iteration=op.iteration,
                split=self.layout.split(op),
                matmul=op.matmul,
                flops=op.flops,
                max_age=1 if stale else 0,
                kernel=op.kernel,
            )
        )
        for (source, target), (name, _) in zip(written, op.writes, strict=True):
            if target is not None and name not in self.summed:
                can_wait = stage == "backward" and op.kind not in AT_ONCE  # other work of the layer does not need it
                self._value_moves(source, target, "input_gradient" if can_wait else "activation")
        for name in op.gradients:
            self._reduce(op, self.workload.weights[name], layer, micro)

    def _state(self, name: str, layer: int) -> Ref:
        return Ref(name, layer if self.workload.states[name].per_layer else 0)

    def _gradient_targets(self, op: WorkOp, layer: int, micro: int) -> tuple[list[Ref], list[Ref]]:
        """Return the targets of the weight gradients that an op computes, as two lists: the raw gradients that it
        overwrites, and the raw gradients and accumulators to which it adds. If a pass uses a weight several times, the
        first op of the backward overwrites the gradient and the other ops add to it, unless the gradient of each use is
        reduced separately."""
        made, added = [], []
        for name in op.gradients:
            home = layer if self.workload.weights[name].per_layer else 0
            if f"{name}.grad.raw" not in self.tensors:
                added.append(Ref(f"{name}.grad", home))
            elif self._is_reduced_by_use(name) or (name, op.name) in self.begins:
                made.append(Ref(self._raw(name), home, micro))
            else:
                added.append(Ref(self._raw(name), home, micro))
        return made, added

    def _raw(self, weight: str) -> str:
        """Return the name of the tensor with a weight's gradient before reduction."""
        raw = f"{weight}.grad.raw"
        name = raw + (self._use_of(weight) if self._is_reduced_by_use(weight) else "")
        if name not in self.tensors:
            self.tensors.declare(replace(self.tensors[raw], name=name, form_of=raw))
        return name

    def _is_reduced_by_use(self, weight: str) -> bool:
        return self.plan.reduces_each_use or weight in self.used_apart

    def _reduce(self, op: WorkOp, weight: Weight, layer: int, micro: int) -> None:
        """Add the moves of a gradient that an op has just written: to its accumulator, after the last op of the
        micro-batch that adds to the gradient; and from there to the optimizer, after the last micro-batch.

        Autograd sums all contributions to a parameter before the parameter's hooks run (`InputBuffer` of
        torch/csrc/autograd/engine.cpp), and these hooks reduce the gradient: once, however often the weight is used.
        DeepSpeed refuses a second reduction (`params_already_reduced` of runtime/zero/stage_1_and_2.py and stage3.py);
        in FSDP2 a weight belongs to one group only.
        """
        home = layer if weight.per_layer else 0
        is_complete = (weight.name, op.name) in self.completes
        if f"{weight.name}.grad.raw" in self.tensors and (is_complete or self._is_reduced_by_use(weight.name)):
            src, dst = Ref(self._raw(weight.name), home, micro), Ref(f"{weight.name}.grad", home)
            self.move("gradient", src, dst, self.plan.gradient_hops(weight), accumulate=True)
        if is_complete and micro == self.last_micro and not self.reduces_at_end(weight):
            self.reduce_step(weight, home)

    def reduces_at_end(self, weight: Weight) -> bool:
        """Return whether an accumulated gradient moves to the optimizer at the end of the step, not after the last op
        that adds to it."""
        return self.engine.step_reduction == "end" or weight.name in self.used_apart

    def reduce_step(self, weight: Weight, home: int) -> None:
        """Add the move of an accumulated gradient to the optimizer, if the plan needs such a move."""
        if f"{weight.name}.grad.reduced" in self.tensors:
            src, dst = Ref(f"{weight.name}.grad", home), Ref(f"{weight.name}.grad.reduced", home)
            self.move("step_reduction", src, dst, self.plan.step_hops(weight))
