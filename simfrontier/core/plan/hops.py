"""Conversion of moves to collectives: each move becomes encodes, collectives, permutes and decodes on one lane and one
communicator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from simfrontier.base.errors import InputError
from simfrontier.base.io import toml_value
from simfrontier.core.codecs import Codec, Plain
from simfrontier.core.plan.moves import Hop, MoveStep, UncrossedError, steps_of
from simfrontier.core.plan.plan import Groups, Plan, Purpose
from simfrontier.core.plan.program import Hook, Move, Placed, Program, StreamWait
from simfrontier.core.program import (
    LIBRARY,
    RING,
    Collective,
    Compute,
    Mesh,
    Op,
    Placement,
    Ref,
    Tensor,
    TensorRole,
    buffer_name,
)
from simfrontier.core.workload import EXPERTS

VALUES: tuple[Purpose, ...] = ("activation", "input_gradient", "input_gather", "statistic")
_BUFFERS: dict[TensorRole, TensorRole] = {
    "gathered": "gathered",
    "weight": "gathered",
    "activation": "activation",
    "norms": "norms",
    "update": "update",
}  # role of a buffer by the role of the tensor that it becomes; otherwise a gradient


def with_collectives(
    program: Program, mesh: Mesh, plan: Plan, blocking: frozenset[Purpose], ordered: frozenset[Purpose]
) -> Program:
    """Replace every move of a program by collectives. Collectives of the purposes in `blocking` block; values of the
    purposes in `ordered` are copied to keep their element order. Hooks are left out if the plan has none."""
    maker = _MoveLowering(mesh, plan, blocking, ordered, dict(program.tensors))
    out: Placed = []
    for place, item in program.items:
        match item:
            case Move():
                out += [(place, op) for op in maker.ops(item)]
            case Hook():
                if plan.hooks:
                    out.append((place, Compute(kind="hook", name=item.module, reads=item.waits, lane="host")))
            case StreamWait():
                if item.lane != "compute":
                    out.append((place, Compute(kind="hook", name=item.name, reads=item.waits, lane=item.lane)))
            case _:
                out.append((place, item))
    return Program(out, maker.tensors)


_NEEDED_BY: Final[Mapping[Purpose, str]] = {
    "weight_gather": "who reads the weight",
    "copy_gather": "who reads the weight",
    "gradient": "`accumulator`",
    "step_reduction": "`optimizer`",
    "publish": "`weight`",
}


def _more_hops(move: Move, hops: tuple[Hop, ...], before: Tensor, after: Tensor, axes: tuple[str, ...]) -> InputError:
    """Return the error for a move whose hops do not lead to the required placement; the message proposes hops that
    do."""
    wanted = [[*hop.axes] for hop in hops] + [[*axes]]
    shown = toml_value([{"axes": each} for each in wanted])
    named = " and ".join("+".join(hop.axes) for hop in hops) or "nothing"
    needs = _NEEDED_BY.get(move.purpose, "what reads it")
    return InputError(
        f"{move.purpose}: {after.name} comes as [{before.placement}], and {needs} needs [{after.placement}]: "
        f"a hop must cross {', '.join(axes)}, but its hops cross {named}; "
        f"for example {move.purpose} = {shown}"
    )


@dataclass
class _MoveLowering:
    mesh: Mesh
    plan: Plan
    blocking: frozenset[Purpose]
    ordered: frozenset[Purpose]
    tensors: dict[str, Tensor]

    def __post_init__(self) -> None:
        self.world = set(self.mesh.live(self.mesh.names))
        # the steps between two tensors, and the same by all that they depend on
        self.known: dict[tuple[tuple[Hop, ...], str, str], tuple[MoveStep, ...]] = {}
        self.routes: dict[tuple[object, ...], tuple[MoveStep, ...]] = {}

    def ops(self, move: Move) -> list[Op]:
        """Return the ops of one move. If the pairs of tensors need different steps (one is whole, the other sharded),
        their ops follow one another."""
        groups: dict[tuple[MoveStep, ...], list[tuple[Ref, Ref]]] = {}
        for src, dst in zip(move.src, move.dst, strict=True):
            key = move.hops, src.name, dst.name
            if key not in self.known:
                self.known[key] = self._steps(move, src, dst)
            groups.setdefault(self.known[key], []).append((src, dst))
        out: list[Op] = []
        for steps, pairs in groups.items():
            out += self._run(move, steps, pairs)
        if move.token is not None:
            _write_token(out, move.token)
        return out

    def _steps(self, move: Move, src: Ref, dst: Ref) -> tuple[MoveStep, ...]:
        before, after = self.tensors[src.name], self.tensors[dst.name]
        hops = tuple(self._worth_coding(hop, before, after) for hop in move.hops)
        key = (before.nesting or after.nesting, before.placement, after.placement, hops)
        if key not in self.routes:
            nesting = before.nesting or after.nesting
            try:
                self.routes[key] = steps_of(self.mesh, nesting, before.placement, after.placement, hops, dst.name)
            except UncrossedError as error:
                raise _more_hops(move, hops, before, after, error.axes) from None
        return self.routes[key]

    def _worth_coding(self, hop: Hop, before: Tensor, after: Tensor) -> Hop:
        """Return the hop for one tensor: without its codec if the message is too small to be compressed."""
        plain = hop.below or before.codec or Plain(before.dtype)
        elements = max(before.local_elements(self.mesh), after.local_elements(self.mesh))
        return Hop(hop.axes, plain, hop.via, whole=hop.whole) if hop.is_small(plain, elements) else hop

    def _run(self, move: Move, steps: tuple[MoveStep, ...], pairs: list[tuple[Ref, Ref]]) -> list[Op]:
        lane = move.lane
        src, dst = [a for a, _ in pairs], [b for _, b in pairs]
        # the buffers of a move belong to the micro-batch of its source, also where its target has none
        buffers = [Ref(self._name_of_buffers(a, b), b.layer, max(a.micro, b.micro)) for a, b in pairs]
        out: list[Op] = []
        now = src
        for number, step in enumerate(steps):
            ends = number == len(steps) - 1 and not move.accumulate
            after = dst if ends else [self._buffer(way, now[0], step.dst, f"hop{number}") for way in buffers]
            own = f"{lane}.{number}" if self.plan.pipelined and number and lane != "compute" else lane
            out += self._step(move, step, now, after, buffers, own, number)
            now = after
        if not steps:
            stored = self.tensors[src[0].name].codec
            out.append(_local("decode" if stored else "slice", move.purpose, src, dst, lane))
        elif move.accumulate and isinstance(last := out[-1], Compute) and last.kind == "decode_sum":
            out[-1] = replace(last, writes=(), accumulates=tuple(dst))
        elif move.accumulate:
            out.append(_local("accumulate", move.purpose, now, [], lane, added=dst))
        return out

    def _name_of_buffers(self, src: Ref, dst: Ref) -> str:
        """Return the name after which the buffers of a move are named: its target or, for a second gradient of a weight
        in one micro-batch, its source, so that none of its buffers lives since the first gradient."""
        is_second = self.tensors[src.name].role == "gradient" and self.tensors[src.name].form_of is not None
        return src.name if is_second and not self.plan.reduces_each_use else dst.name

    def _step(
        self, move: Move, step: MoveStep, src: list[Ref], dst: list[Ref], buffers: list[Ref], lane: str, number: int
    ) -> list[Op]:
        if step.kind == "slice":
            return [_local("slice", move.purpose, src, dst, lane)]
        codec, stored = step.codec, self.tensors[src[0].name].codec
        assert codec is not None, "the builder says for every hop what it sends"
        if step.kind == "merge":
            return self._merged(move, step, codec, src, dst, buffers, lane)
        if stored and stored != codec:
            raise InputError(
                f"{move.purpose}: {src[0].name} is stored as {stored}, but its hop over {'+'.join(step.axes)} "
                f"sends {codec}; give the hop the codec {stored}"
            )
        if not stored and (step.per_hop or codec.name == self.tensors[src[0].name].dtype):
            return self._native(move, step, src, dst, buffers, lane, number)
        stacked = step.axes if codec.is_opaque and step.kind == "reduce_scatter" else ()
        if codec.is_opaque and step.kind == "all_reduce":
            axes = "+".join(step.axes)
            raise InputError(
                f"{move.purpose}: an all-reduce over {axes} cannot carry {codec}; use fp64, fp32, fp16 or bf16, "
                "or give the state a flat placement so that the reduction is a scatter"
            )
        sent = src  # what is stored in the codec of the hop is sent as it is
        if not stored:
            sent = [self._buffer(w, s, step.src, f"sent{number}", codec) for w, s in zip(buffers, src, strict=True)]
        got = [self._buffer(w, s, step.dst, f"got{number}", codec, stacked) for w, s in zip(buffers, src, strict=True)]
        return [
            *([] if stored else [_local("encode", move.purpose, src, sent, lane)]),
            self._collective(move, step, sent, got, lane),
            _local("decode_sum" if stacked else "decode", move.purpose, got, dst, lane),
        ]

    def _merged(
        self, move: Move, step: MoveStep, codec: Codec, src: list[Ref], dst: list[Ref], buffers: list[Ref], lane: str
    ) -> list[Op]:
        """Return the all-gather of all contributions to every rank, followed by their local merge."""
        own = Plain(self.tensors[src[0].name].dtype)
        if codec != own or step.per_hop:
            raise InputError(
                f"{move.purpose}: {src[0].name} is still to be merged over {'+'.join(step.axes)}, but its hop sends "
                f"{codec}; allowed: its own type, {own}"
            )
        beside = [Ref(a.name, b.layer, b.micro) for a, b in zip(src, buffers, strict=True)]
        stacked = [
            self._buffer(way, a, step.dst, "stacked", stacked=step.axes) for way, a in zip(beside, src, strict=True)
        ]
        return [self._collective(move, step, src, stacked, lane), _local("merge", move.purpose, stacked, dst, lane)]

    def _native(
        self, move: Move, step: MoveStep, src: list[Ref], dst: list[Ref], buffers: list[Ref], lane: str, number: int
    ) -> list[Op]:
        """Return a collective in the tensors' own data type. Interleaved pieces, and the pieces of several tensors in
        one call, are reordered before a reduction and after a gather (DeepSpeed's copies into and out of flat buffers).
        Activations are not reordered, unless their purpose is in `ordered`: the dimension along which they are
        scattered and gathered is their slowest one (the sequence in Megatron-LM), and blocks of a ring apart. Rows of
        several experts that come or go in one all-to-all of the library lie by rank in its buffer."""
        is_ordered = move.purpose in self.ordered and self.plan.ring not in step.axes
        if move.purpose in VALUES and not is_ordered and not self._is_by_expert(step, src):
            return [self._collective(move, step, src, dst, lane)]
        flat = len(src) > 1 and step.kind in ("all_gather", "reduce_scatter")  # several tensors go as one flat buffer
        if not step.permute and not flat:
            return [self._collective(move, step, src, dst, lane)]
        if step.kind in ("reduce_scatter", "all_reduce"):
            ordered = [self._buffer(w, s, step.src, f"ordered{number}") for w, s in zip(buffers, src, strict=True)]
            return [
                _local("permute", move.purpose, src, ordered, lane),
                self._collective(move, step, ordered, dst, lane),
            ]
        mixed = [self._buffer(w, s, step.dst, f"mixed{number}") for w, s in zip(buffers, src, strict=True)]
        return [self._collective(move, step, src, mixed, lane), _local("permute", move.purpose, mixed, dst, lane)]

    def _is_by_expert(self, step: MoveStep, src: list[Ref]) -> bool:
        """Return whether a step is an all-to-all of the library for rows of several experts of a rank."""
        tensor = self.tensors[src[0].name]
        if step.kind != "all_to_all" or step.via != LIBRARY or tensor.dims[:1] != (EXPERTS,):
            return False
        cut = {axis for place in (step.src, step.dst) for axis, dim in place.shards if dim == 0}
        return tensor.shape[0] > self.mesh.size(self.mesh.live(tuple(cut)))

    def _collective(self, move: Move, step: MoveStep, src: list[Ref], dst: list[Ref], lane: str) -> Collective:
        assert step.kind != "slice" and step.codec is not None
        return Collective(
            kind="all_gather" if step.kind == "merge" else step.kind,
            name=move.purpose,
            axes=step.axes,
            src=tuple(src),
            dst=tuple(dst),
            codec=step.codec,
            via=RING if step.per_hop else step.via,
            lane=lane,
            comm=self._communicator(move, step.axes, lane),
            blocking=move.purpose in self.blocking,
            per_hop=step.per_hop,
        )

    def _communicator(self, move: Move, axes: tuple[str, ...], lane: str) -> str:
        if set(axes) == self.world and (self.plan.groups == "world" or move.purpose == "scalar"):
            return "world"
        return communicator(axes, lane, self.plan.groups)

    def _buffer(
        self,
        value: Ref,
        origin: Ref,
        placement: Placement,
        suffix: str,
        codec: Codec | None = None,
        stacked: tuple[str, ...] = (),
    ) -> Ref:
        """Return an intermediate buffer of the move to `value`, with the contents of `origin` under another placement
        or codec."""
        name = buffer_name(value.name, suffix)
        first, known = None, self.tensors.get(name)
        if known is not None and (known.placement, known.codec, known.stacked) != (placement, codec, stacked):
            # made by another move too, e.g. from the second copy of the weights
            first, name = known, buffer_name(name, origin.name)
        if name not in self.tensors:
            source, end = self.tensors[origin.name], self.tensors[value.name]
            role = "encoded" if codec else _BUFFERS.get(end.role, "gradient")
            self.tensors[name] = Tensor(
                name=name,
                shape=end.shape,
                dtype=source.dtype,
                role=role,
                placement=placement,
                dims=end.dims,
                nesting=source.nesting or end.nesting,
                stacked=stacked,
                codec=codec,
                per_layer=end.per_layer,
                per_micro=source.per_micro or end.per_micro,
                weight=end.weight,
                form_of=end.value if role == end.role else (first.value if first else None),
                recomputes=buffer_name(end.recomputes, suffix) if end.recomputes else None,
                stage=end.stage,
                streams=end.streams,
                local=end.local,
            )
        return Ref(name, value.layer, value.micro)


def communicator(axes: tuple[str, ...], lane: str, groups: Groups) -> str:
    """Return the name of the communicator for the groups over these axes: according to `groups`, one communicator for
    all lanes, or one per lane."""
    return "+".join(axes) + ("" if groups == "axes" else f"/{lane}")


def _write_token(ops: list[Op], token: Ref) -> None:
    """Let the last collective, or the last local op if there is no collective, write the token that signals the end of
    the move."""
    for index in reversed(range(len(ops))):
        op = ops[index]
        if isinstance(op, Collective):
            ops[index] = replace(op, token=token)
            return
    last = ops[-1]
    assert isinstance(last, Compute)
    ops[-1] = replace(last, writes=(*last.writes, token))


def _local(kind: str, name: str, src: list[Ref], dst: list[Ref], lane: str, added: list[Ref] | None = None) -> Compute:
    return Compute(kind=kind, name=name, reads=tuple(src), writes=tuple(dst), accumulates=tuple(added or ()), lane=lane)
