"""Placement rules: the placements that each op requires of its operands, checked once per distinct op of a schedule."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from simfrontier.core.dtypes import num_moments
from simfrontier.core.program.checks.layouts import Layouts, RuleFault, stacked_text, text_of
from simfrontier.core.program.checks.work import OpsByName, Stated, faults_of_work
from simfrontier.core.program.finding import Fault, Findings, ranks_of, ranks_of_role, title_of
from simfrontier.core.program.ir import Call, Collective, Compute, Exchange, Op, Ref, Role, Schedule, Tensor, TensorRole
from simfrontier.core.program.kinds import is_work, kind_of
from simfrontier.core.program.names import RING
from simfrontier.core.program.op_kind import (
    AverageKind,
    CopyKind,
    ModelKind,
    NormKind,
    OrthogonalKind,
    StepKind,
    WaitKind,
)
from simfrontier.core.program.placement import REPLICATE, PartialOp, Placement, partial, placements_of
from simfrontier.core.program.roles import axis_of_roles

_WORDS: Final[dict[TensorRole, str]] = {"master": "master", "optimizer": "optimizer state", "norms": "norms"}


def check_ops(schedule: Schedule, findings: Findings) -> None:
    """Check each distinct op once; a finding names the first role and call that contain the op."""
    rules = _Rules(schedule)
    seen: set[int] = set()
    for role in schedule.roles:
        for call in role.first_calls():
            _check_once(schedule, call, role, findings)
            for op in call.ops:
                if op.number not in seen:
                    seen.add(op.number)
                    for rule, expected, got in rules.of(op):
                        findings.add(rule, title_of(op, call), ranks_of(op, role, schedule.roles), expected, got)


def _check_once(schedule: Schedule, call: Call, role: Role, findings: Findings) -> None:
    """Check that a block does not contain the same writing op twice, because the second run would write the same values
    again."""
    for op in {op.number: op for op in call.ops}.values() if len(set(call.ops)) < len(call.ops) else ():
        times = sum(each is op for each in call.ops)
        if times > 1 and op.writes:
            ranks = ranks_of_role(role, schedule.roles)
            findings.add("facts", title_of(op, call), ranks, "once in its block", f"{times} times")


class _Rules:
    """The placement rules of all kinds of ops."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule, self.tensors, self.mesh = schedule, schedule.tensors, schedule.mesh
        self.layouts = Layouts(schedule)
        self.names = OpsByName(schedule.tensors)
        self.scalars: dict[str, list[str]] = {}  # by kind of optimizer op, those that its first op reads
        self.norm = _NormPlacement(schedule, self.layouts)

    def of(self, op: Op) -> Iterator[RuleFault]:
        """Yield the faults of an op, considered in isolation."""
        unknown = list(self.layouts.unknown(op))
        if unknown:
            yield from unknown
            return
        yield from self.layouts.offsets(op)
        if not isinstance(op, Compute) and op.token is not None and self.tensors[op.token.name].role != "token":
            yield "placements", f"{op.token.name} with role token", f"role {self.tensors[op.token.name].role}"
        if isinstance(op, Collective):
            yield from self._collective(op)
        elif isinstance(op, Exchange):
            yield from self._exchange(op)
        else:
            faults = [*faults_of_work(op, self.tensors, Stated.of(self.schedule.meta))]
            faults += self.names.faults(op) if is_work(op) else ()
            yield from (("facts", *fault) for fault in faults)
            yield from self._compute(op)

    def _compute(self, op: Compute) -> Iterator[RuleFault]:
        match kind_of(op):
            case CopyKind() as kind:
                return self._copying(op, kind)
            case NormKind():
                return self._norm(op)
            case StepKind() as kind:
                return self._step(op, kind)
            case OrthogonalKind():
                return self._whole_matrices(op)
            case AverageKind():
                return self._average(op)
            case WaitKind():
                return self._wait(op)
            case ModelKind() as kind:
                return self._model(op, kind)
        return iter(())

    # ── communication ──

    def _collective(self, op: Collective) -> Iterator[RuleFault]:
        live, layouts = self.mesh.live(op.axes), self.layouts
        if len(set(op.axes)) != len(op.axes) or not op.axes:
            yield "placements", "at least one axis, none of them twice", "+".join(op.axes) or "none"
        if op.kind == "all_reduce" and op.codec.is_opaque and not op.per_hop:
            yield "placements", "an all_reduce in fp64, fp32, fp16 or bf16", f"codec {op.codec}"
        if op.per_hop and (not op.codec.is_opaque or op.via != RING or op.kind == "all_to_all"):
            expected = f"a gather or reduction by {RING} in int8, int4, zfp or mpc"
            yield "placements", expected, f"{op.kind} by {op.via} in {op.codec}"
        yield from layouts.pairs(op, op.src, op.dst)
        for src, dst in zip(op.src, op.dst, strict=False):
            yield from self._one_value(src.name, dst.name)
            yield from self._codecs(op, src.name, dst.name)
            merges = op.kind == "all_gather" and "merge" in self._reductions(src.name, op.axes)
            yield from layouts.stacked(src.name, ())
            yield from layouts.stacked(dst.name, live if op.is_added_later or merges else ())
            yield from self._meaning(op, set(live), src.name, dst.name, merges)

    def _exchange(self, op: Exchange) -> Iterator[RuleFault]:
        """Check that each tensor an exchange delivers matches the tensor that was sent, including its placement on the
        ranks of the receiving role."""
        layouts = self.layouts
        for sources, targets in ((op.src, op.dst), (op.back_src, op.back_dst)):
            yield from layouts.pairs(op, sources, targets) if sources else ()
            for src, dst in zip(sources, targets, strict=False):
                yield from self._one_value(src.name, dst.name)
                yield from self._codecs(op, src.name, dst.name)
                yield from layouts.placed(dst.name, layouts.of[src.name].placement, f" like {src.name}")
                left, right = layouts.tensor(src).dims, layouts.tensor(dst).dims
                if left != right:
                    expected = f"{dst.name} with the labels of {src.name}, {text_of(left)}"
                    yield "placements", expected, text_of(right)
                for name in (src.name, dst.name):
                    yield from layouts.stacked(name, ())

    def _one_value(self, src: str, dst: str) -> Iterator[RuleFault]:
        """Check that a pair of activations, scalars or norms represents the same value, such as `x.partial` and `x`, or
        `norm` and `norm.total`."""
        first, second = self.tensors[src], self.tensors[dst]
        if {first.role, second.role} in ({"activation"}, {"scalar"}, {"norms"}) and not _is_one_value(first, second):
            yield "placements", f"a form of {src}, the value that goes in", dst

    def _codecs(self, op: Collective | Exchange, src: str, dst: str) -> Iterator[RuleFault]:
        """Check the encoding of a source and a target: both are encoded with the codec of the collective or exchange,
        or neither is encoded and the codec is their data type. If every hop is encoded separately, neither is
        encoded."""
        is_plain = self.tensors[src].codec is None and self.tensors[dst].codec is None
        is_per_hop = isinstance(op, Collective) and op.per_hop
        if is_plain and not is_per_hop and self.tensors[src].dtype != op.codec.name:
            yield "placements", f"codec {self.tensors[src].dtype}, the type of {src}", f"codec {op.codec}"
        for name in () if is_plain else (src, dst):
            yield from self.layouts.coded(name, None if is_per_hop else op.codec)

    def _reductions(self, name: str, axes: Iterable[str]) -> set[PartialOp]:
        """Return the kinds of reductions (sum, max, merge) that are still pending for a tensor over some axes."""
        held = dict(self.layouts.of[name].placement.partial)
        return {held[axis] for axis in axes if axis in held}

    def _meaning(self, op: Collective, axes: set[str], src: str, dst: str, merges: bool) -> Iterator[RuleFault]:
        """Check that the placement of the source allows this kind of collective over the op's axes, and that the
        placement of the target is the one the collective produces."""
        before, after = self.layouts.of[src].placement, self.layouts.of[dst].placement
        sharded = {axis for axis, _ in before.shards}
        allowed: tuple[str, Iterable[str]] = "partial", before.partial_axes
        wanted = _reduced_over(op, axes, before, after)
        if merges:
            allowed = "partial(merge)", {axis for axis, reduction in before.partial if reduction == "merge"}
        elif op.kind == "all_gather":
            allowed = "flat or sharded", before.flat | sharded
            left = tuple(shard for shard in before.shards if shard[0] not in axes)
            wanted = replace(before, flat=before.flat - axes, shards=left)
        elif op.kind == "all_to_all":
            allowed = "sharded", sharded
            to = dict(before.shards) | {axis: dim for axis, dim in after.shards if axis in axes}
            moved = tuple((axis, to[axis]) for axis, dim in before.shards if to[axis] != dim)
            # a group divides the shard that the other axes leave, so its cut is the innermost of the dimension
            wanted = replace(before, shards=tuple(s for s in before.shards if to[s[0]] == s[1]) + moved)
            if wanted == before:
                yield "placements", f"{dst} sharded over other dimensions than {src}", f"[{after}]"
        elif "merge" in self._reductions(src, axes):
            yield "placements", f"{src} gathered and merged over {'+'.join(sorted(axes))}", op.kind
        over = "+".join(op.axes)
        if not axes <= set(allowed[1]):
            yield "placements", f"{src} {allowed[0]} over {over}, the axes of the {op.kind}", f"[{before}]"
        else:
            why = f" after the {op.kind} over {over} of {src} [{before}]"
            yield from self.layouts.placed(dst, wanted, why)

    # ── local moves, and waits ──

    def _copying(self, op: Compute, kind: CopyKind) -> Iterator[RuleFault]:
        """Check that the source and the target of each local copy, encoding or decoding represent the same logical
        tensor, with suitable placements and codecs."""
        layouts = self.layouts
        if op.accumulates and not kind.adds:
            yield "references", f"a {op.kind} that accumulates nothing", op.accumulates[0].name
        if op.writes and kind.coding == "plain":
            yield "references", f"an {op.kind} that writes nothing", op.writes[0].name
        targets = (*op.writes, *op.accumulates) if kind.adds else op.writes
        yield from layouts.pairs(op, op.reads, targets)
        for a, b in zip(layouts.without_tokens(op.reads), layouts.without_tokens(targets), strict=False):
            src, dst = layouts.of[a.name], layouts.of[b.name]
            if not kind.narrows:
                yield from layouts.placed(b.name, src.placement, f" like {a.name}")
            elif not _is_slice(src.placement, dst.placement):
                yield "placements", f"{b.name} as a local slice of {a.name} [{src.placement}]", f"[{dst.placement}]"
            coded = {"encodes": dst, "decodes": src}.get(kind.coding)
            if coded is not None and coded.tensor.codec is None:
                yield "placements", f"{coded.tensor.name} coded", "not coded"
            if kind.coding != "encodes":
                yield from layouts.coded(b.name, src.tensor.codec if kind.coding == "keeps" else None)
            if kind.coding == "plain":
                yield from layouts.coded(a.name, None)
            if not kind.combines:
                yield from layouts.stacked(a.name, ())
            elif not src.stacked:
                yield "placements", f"{a.name} stacked: contributions side by side", stacked_text(())
            yield from layouts.stacked(b.name, ())

    def _wait(self, op: Compute) -> Iterator[RuleFault]:
        for ref in (*op.writes, *op.accumulates):
            yield "references", "a hook that writes nothing", ref.name

    # ── work of the model ──

    def _model(self, op: Compute, kind: ModelKind) -> Iterator[RuleFault]:
        """Check that every operand has the placement that follows from the axes that shard the op's iteration space."""
        labels = dict(op.iteration)
        split = {axis: label for axis, label in op.split if label in labels and self.mesh[axis] > 1}
        for label in set(split.values()):
            over = [axis for axis, cut in split.items() if cut == label]
            if labels[label] % math.prod(self.mesh[axis] for axis in over):
                yield "placements", f"a size of {label} that divides over {'+'.join(over)}", str(labels[label])
        read, made = self.layouts.without_tokens(op.reads), (*op.writes, *op.accumulates)
        yield from self._one_micro_batch((*read, *made))
        still = self._partial_sums((*read, *made)) if kind.adds_values else ()
        # a product sums over its k alone: a bias's gradient lacks the labels of the weight's inputs, but sums over none
        summing = set(op.matmul[3]) if op.matmul is not None and kind.products == {} else set(labels)
        for ref in (*read, *made):
            dims, is_result = self.tensors[ref.name].dims, ref in made
            # a state is equal on all ranks: the op that writes it is cut only along labels of the state
            within = set(labels) if self.tensors[ref.name].role == "state" else summing
            summed = [(axis, kind.reduction) for axis, label in split.items() if label in within and label not in dims]
            combined = Placement(partial=tuple(summed) if is_result else ()).on(self.mesh).partial
            wanted = Placement(placements_of(split, dims), partial=still or combined)
            yield from self.layouts.placed(
                ref.name, wanted, _why(split, " as a result" if is_result else " as an operand")
            )
            yield from self.layouts.plain(ref.name)

    def _one_micro_batch(self, refs: tuple[Ref, ...]) -> Iterator[RuleFault]:
        """Check that all operands of an op of the model that exist per micro-batch belong to the same micro-batch."""
        own = [ref for ref in refs if self.tensors[ref.name].per_micro]
        for ref in own:
            if ref.micro != own[-1].micro:
                wanted = f"{ref.name} of the micro-batch of {own[-1].name} ({own[-1].micro:+d} from the call)"
                yield "references", wanted, f"{ref.micro:+d}"

    def _partial_sums(self, refs: tuple[Ref, ...]) -> tuple[tuple[str, PartialOp], ...]:
        """Return the pending sums that all operands and results of an op have in common; empty if they differ. (Partial
        sums may be added before they are reduced.)"""
        held = {self.layouts.of[ref.name].placement.partial for ref in refs}
        alike = held.pop() if len(held) == 1 else ()
        return alike if all(reduction == "sum" for _, reduction in alike) else ()

    # ── the optimizer ──

    def _norm(self, op: Compute) -> Iterator[RuleFault]:
        """Check that gradient norms are computed from fully reduced gradients."""
        for ref in self.layouts.without_tokens(op.reads):
            placement = self.layouts.of[ref.name].placement
            if placement.partial:
                yield "placements", f"{ref.name} fully reduced", f"[{placement}]"
            yield from self.layouts.plain(ref.name)
            if self.tensors[ref.name].weight is None:
                yield "facts", f"gradients of weights, of which a {op.kind} is", ref.name
        for target in op.accumulates:
            yield from self.norm.faults(target.name)

    def _step(self, op: Compute, kind: StepKind) -> Iterator[RuleFault]:
        """Check that the operands of an optimizer op have the placement of the master weight (of an op without masters:
        of the moments) that they belong to, with the same layer. The norms of LAMB are partial over the axes that
        divide the master weight, and reduced before they scale the update."""
        faults = (*_roles_of_step(op, kind, self.tensors), *_size_of_step(op, self.tensors))
        yield from (("facts", *fault) for fault in faults)
        scalars = [ref.name for ref in op.reads if self.tensors[ref.name].role == "scalar"]
        first = self.scalars.setdefault(op.kind, scalars) if kind.reads_gradients else scalars
        if scalars != first:  # all ops of one optimizer clip by the same norm
            yield (
                "facts",
                f"{', '.join(first) or 'none'} read, as by the other {op.kind}s",
                ", ".join(scalars) or "none",
            )
        home: TensorRole = (
            "master" if "master" in kind.reads.states else "optimizer"
        )  # the role whose placement all others have
        homes = [ref for ref in op.reads if self.tensors[ref.name].role == home]
        masters = {(self.tensors[ref.name].weight, ref.layer): ref.name for ref in homes}
        for ref in (*op.reads, *op.writes):
            tensor = self.tensors[ref.name]
            master = masters.get((tensor.weight, ref.layer))
            if tensor.weight is None:
                if ref in op.reads:
                    yield from self.layouts.placed(ref.name, REPLICATE, " (a value for all ranks)")
            elif tensor.role in kind.renewed and (ref in op.reads) != (ref in op.writes):
                got = "read, not written" if ref in op.reads else "written, not read"
                yield "references", f"{ref.name} read and written by the {op.kind}", got
            elif tensor.role == "optimizer" and num_moments(tensor.dtype) != kind.moments:
                yield "facts", f"{ref.name} of {kind.moments} an element, for {op.kind}", f"type {tensor.dtype}"
            elif master is None:
                wanted = f"the {_WORDS[home]} of {tensor.weight}, read by the same {op.kind}"
                yield "references", wanted, f"only {ref.name}"
            elif tensor.role == "norms":
                over = _dividing(self.layouts.of[master].placement) if kind.reads_gradients else ()
                yield from self.layouts.placed(ref.name, partial(over).on(self.mesh), f" (the norms of {master})")
            else:
                yield from self.layouts.like(ref.name, master)

    def _whole_matrices(self, op: Compute) -> Iterator[RuleFault]:
        """Check that a rank has whole matrices of the update that it orthogonalises: it may have some of several."""
        for ref in (*op.reads, *op.writes):
            placement = self.layouts.of[ref.name].placement
            of_experts = len(self.tensors[ref.name].shape) > 2
            shards = tuple(shard for shard in placement.shards if shard[1] == 0 and of_experts)
            yield from self.layouts.placed(ref.name, Placement(shards), " (whole matrices)")
            if tuple((axis, op.iteration[0][0]) for axis, _ in shards) != op.split:
                yield "placements", f"{ref.name} divided as the {op.kind} is", f"split {op.split}"

    def _average(self, op: Compute) -> Iterator[RuleFault]:
        """Check that the op updates a state to be a moving average of the weight that the state follows, with the same
        placement."""
        if len(op.reads) != 2 or op.writes != op.reads[1:] or self.tensors[op.reads[1].name].role != "state":
            got = f"reads {text_of(op.reads)}, writes {text_of(op.writes)}"
            yield "references", "an ema that reads a weight and a state, and writes that state", got
            return
        weight, state = op.reads
        followed = Ref(self.tensors[state.name].follows or "none", state.layer)
        if (weight.name, weight.layer) != followed[:2]:
            expected = f"the weight that {state.name} follows, {followed.name} ({followed.layer:+d})"
            yield "references", expected, f"{weight.name} ({weight.layer:+d})"
        yield from self.layouts.like(state.name, weight.name)


class _NormPlacement:
    """The required placement of a gradient norm (a sum of squares): partial over all axes that divide the gradients it
    covers.

    If a gradient is sharded or there are several roles, the norm may be partial over more axes: each weight is then
    counted on the ranks at coordinate 0 of the axes that do not divide it.
    """

    def __init__(self, schedule: Schedule, layouts: Layouts) -> None:
        self.layouts, self.mesh = layouts, schedule.mesh
        ops = [op for op in schedule.ops if isinstance(kind_of(op), NormKind)]
        held = [layouts.of[ref.name].placement for op in ops for ref in op.reads if ref.name in layouts.of]
        axis = axis_of_roles(schedule)
        self.over = frozenset(axis for p in held for axis in _dividing(p))
        self.over |= set() if axis is None else set(self.mesh.live((axis,)))
        self.is_exact = len(schedule.roles) == 1 and not any(p.shards for p in held)
        self.first = next((ref.name for op in ops for ref in op.accumulates), "")

    def faults(self, name: str) -> Iterator[RuleFault]:
        """Yield the faults in the placement of the tensor that holds a norm."""
        got = self.layouts.of[name].placement
        if self.is_exact or got != partial(got.partial_axes).on(self.mesh) or not self.over <= got.partial_axes:
            wanted = partial([axis for axis in self.mesh.names if axis in self.over])
            yield from self.layouts.placed(name, wanted, " (the axes that divide the gradients of the norm)")
        elif self.first in self.layouts.of:
            yield from self.layouts.placed(name, self.layouts.of[self.first].placement, f" like {self.first}")


def _roles_of_step(op: Compute, kind: StepKind, tensors: Mapping[str, Tensor]) -> Iterator[Fault]:
    """Check that an optimizer op reads and writes, for every weight, each tensor that its kind requires exactly once.
    All its other operands must be scalars or tokens, and no operand except a token may exist per micro-batch."""
    for access, wanted, refs in (("read", kind.reads, op.reads), ("written", kind.writes, op.writes)):
        held: dict[tuple[str, int], list[TensorRole]] = {}
        for ref in refs:
            tensor = tensors[ref.name]
            if tensor.per_micro and tensor.role != "token":
                yield f"{ref.name} to be of the step", "one for every micro-batch"
            if tensor.weight is not None:
                held.setdefault((tensor.weight, ref.layer), []).append(tensor.role)
            elif tensor.role not in ("scalar", "token"):
                yield f"{ref.name} with role scalar", f"role {tensor.role}"
        for (weight, _), roles in held.items():
            rest = sorted(role for role in roles if role not in wanted.one_of)
            if rest != sorted(wanted.states) or len(roles) != 1 + len(wanted.states):
                *first, last = (wanted.title, *(_WORDS[role] for role in wanted.states))
                yield f"{', '.join(first)} and {last} of {weight} {access} once", ", ".join(sorted(roles))


def _size_of_step(op: Compute, tensors: Mapping[str, Tensor]) -> Iterator[Fault]:
    """Check that the iteration space of an optimizer op, if it has one, has as many elements as its master weights."""
    of_weights = (ref for ref in (*op.reads, *op.writes) if tensors[ref.name].role in ("master", "optimizer"))
    held = {(tensors[ref.name].weight, ref.layer): tensors[ref.name].num_elements for ref in of_weights}
    elements = sum(held.values())
    stated = math.prod(size for _, size in op.iteration)
    if op.iteration and stated != elements:
        yield f"{elements} elements, of its masters", str(stated)


# ── placements ──


def _dividing(placement: Placement) -> frozenset[str]:
    """Return the axes along which ranks hold different parts of a tensor."""
    return placement.flat | {axis for axis, _ in placement.shards}


def _reduced_over(op: Collective, axes: set[str], before: Placement, after: Placement) -> Placement:
    """Return the placement after an all-reduce or reduce-scatter over `axes`. The result of a reduce-scatter is sharded
    over those axes that shard the target, and flat over the other axes."""
    left = tuple((axis, reduction) for axis, reduction in before.partial if axis not in axes)
    scattered = axes & before.partial_axes if op.kind == "reduce_scatter" else set()
    shards = tuple(s for s in after.shards if s[0] in scattered)
    flat = scattered - {axis for axis, _ in shards}
    return Placement(before.shards + shards, before.flat | flat, left)


def _is_slice(before: Placement, after: Placement) -> bool:
    """Return whether a rank can cut a tensor with placement `after` locally out of one with placement `before`: `after`
    may only be sharded or flat over additional axes."""
    axes = {dim: [axis for axis, own in before.shards if own == dim] for _, dim in before.shards}
    further = {dim: [axis for axis, own in after.shards if own == dim] for dim in axes}
    is_within = all(further[dim][: len(own)] == own for dim, own in axes.items())
    return after.partial == before.partial and before.flat <= after.flat and is_within


def _is_one_value(src: Tensor, dst: Tensor) -> bool:
    """Return whether the tensors `src` and `dst` represent the same value, for the same pass if both were gathered for
    one. A copy of a recomputed tensor is recomputed, too; a recomputed target may also have the original, stored value
    as its source."""
    is_one_pass = None in (src.stage, dst.stage) or src.stage == dst.stage
    is_again = (src.recomputes is not None, dst.recomputes is not None)
    stays = is_again in ((False, False), (True, True)) or (is_again == (False, True) and src.name == src.value)
    return src.value == dst.value and is_one_pass and stays


def _why(split: dict[str, str], role: str) -> str:
    cuts = ", ".join(f"{axis} cuts {label}" for axis, label in split.items())
    return f"{role}, because {cuts}" if cuts else role
