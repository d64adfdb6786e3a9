"""Conversion of a traced job to a schedule: the ops of the ranks' programs, with the waits between streams.

A kernel becomes an op of kind `measured`, whose time is part of the machine's data; a pause before it becomes an op of
kind `pause`. A hook on the lane of a stream reads the tokens for which the stream waits; the ops for which it waits
write these tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Final

from simfrontier.base.errors import InputError
from simfrontier.core.codecs import Codec, Plain
from simfrontier.core.machine import MeasuredKernel
from simfrontier.core.program import (
    LIBRARY,
    MEASURED,
    PAUSE,
    REPLICATE,
    Call,
    Collective,
    CollectiveKind,
    Compute,
    Exchange,
    Op,
    Ref,
    Role,
    Schedule,
    Tensor,
)
from simfrontier.core.trace import kineto as form
from simfrontier.inputs.profiler.mesh import GroupAxes
from simfrontier.inputs.profiler.programs import CallKey, ProgramOp, RankProgram
from simfrontier.inputs.profiler.rank_trace import SimulatedCollective, SimulatedExchange

TOKEN: Final = "done"
_DTYPES: Final = {1: "uint8", 2: "bf16", 4: "fp32", 8: "fp64"}  # of plain numbers, by their bytes
_SAME: Final = 1e-12  # what differs by less, relative, took as long


@dataclass
class JobSchedule:
    """The schedule of a job under construction, with further inputs of its simulation.

    `alike`: for each role, the ranks that have the same number of kernels and calls on each lane, and the same n-th
    kernel or call; the time of a kernel or pause is the mean over these ranks. `kernels`: the kernels by the names of
    their ops. `places`: for each role, the op index of every kernel of its program. `times`: for each rank, the times
    of its kernels and pauses relative to the mean, by op index.
    """

    axis: str | None
    alike: Sequence[Sequence[RankProgram]]
    on: GroupAxes
    tensors: dict[str, Tensor] = field(default_factory=dict)
    kernels: dict[str, MeasuredKernel] = field(default_factory=dict)
    places: list[list[int]] = field(default_factory=list)
    times: dict[int, dict[int, float]] = field(default_factory=dict)
    _shared: dict[tuple[str, int], tuple[Collective | Exchange, CallKey]] = field(default_factory=dict)
    _number: int = 0

    def made(self) -> Schedule:
        """Return the schedule of the job. Raises InputError for communication calls that a schedule cannot contain."""
        self.tensors[TOKEN] = Tensor(
            name=TOKEN, shape=(1,), dtype="token", role="token", placement=REPLICATE, per_layer=True
        )
        roles = []
        for number, several in enumerate(self.alike):
            place = None if self.axis is None else (self.axis, number)
            name = "rank" if place is None else f"{place[0]}{number}"
            roles.append(Role(name, (Call("step", 0, 0, tuple(self._ops(several, name))),), place))
        return Schedule(mesh=self.on.mesh, tensors=self.tensors, roles=tuple(roles), pools={}, meta={})

    def _ops(self, several: Sequence[RankProgram], role: str) -> list[Op]:
        program = several[0]
        seconds = _matched(several, lambda op: op.kernel.seconds)
        pauses = _matched(several, lambda op: op.pause_s)
        targets = {other for op in program.ops for other in op.waits}
        ops: list[Op] = []
        places: list[int] = []
        tokens: dict[int, Ref] = {}
        counts: dict[str, int] = {}
        for index, each in enumerate(program.ops):
            kernel = each.kernel
            if each.waits:
                reads = tuple(tokens[other] for other in each.waits)
                ops.append(Compute(kind="hook", name="wait", lane=each.lane, reads=reads))
            if pause_s := self._mean(several, pauses[index], len(ops)):
                pause = MeasuredKernel(seconds=pause_s)
                ops.append(self._measured(PAUSE.name, f"{role} pause {index}", each.lane, pause, None))
            places.append(len(ops))
            token = self._token() if index in targets else None
            if kernel.call is not None:
                call = self._call(program, each, token, counts)
                op: Op = call
                token = call.token
            elif kernel.own is not None:
                load = kernel.own
                took = MeasuredKernel(seconds=load.seconds, num_bytes=load.bytes, arithmetic_s=load.arithmetic_s)
                op = self._measured(MEASURED.name, f"{role} {kernel.name} {index}", each.lane, took, token)
            else:
                took = MeasuredKernel(seconds=self._mean(several, seconds[index], len(ops)))
                op = self._measured(MEASURED.name, f"{role} {kernel.name} {index}", each.lane, took, token)
            ops.append(op)
            if token is not None:
                tokens[index] = token
        self.places.append(places)
        return ops

    def _mean(self, several: Sequence[RankProgram], values: Sequence[float], place: int) -> float:
        """Return the mean of the times of these ranks; if they differ, record each rank's time relative to the mean for
        the op at this place."""
        if max(values) - min(values) <= _SAME * max(values):
            return values[0]
        mean = fmean(values)
        for program, own in zip(several, values, strict=True):
            self.times.setdefault(program.rank, {})[place] = own / mean
        return mean

    def _measured(self, kind: str, name: str, lane: str, kernel: MeasuredKernel, token: Ref | None) -> Compute:
        self.kernels[name] = kernel
        return Compute(kind=kind, name=name, lane=lane, writes=() if token is None else (token,))

    def _call(
        self, program: RankProgram, each: ProgramOp, token: Ref | None, counts: dict[str, int]
    ) -> Collective | Exchange:
        """Return the op of a communication call. Roles that share a call share one op, with a token for which each of
        these roles may wait."""
        ends, mine, where = each.ends, each.call_key, program.trace.where
        if ends is None and self.axis not in each.axes:
            return self._collective(each, f"{'+'.join(each.axes)} {each.lane}", token)
        comm = f"{'+'.join(each.axes)} of all"
        if ends is not None:
            is_both = each.kernel.call is not None and isinstance(each.kernel.call.own, SimulatedExchange)
            comm = f"{each.axes[0]} {min(ends)}-{max(ends)}" if is_both else f"{each.axes[0]} {ends[0]}>{ends[1]}"
        counts[comm] = counts.get(comm, 0) + 1
        key = comm, counts[comm]
        if key not in self._shared:
            made = self._collective(each, comm, self._token()) if ends is None else self._exchange(each, ends, comm)
            self._shared[key] = made, mine
        op, known = self._shared[key]
        if mine != known:
            text = f"call {counts[comm]} over {comm}: {mine}, but {known} on other ranks; allowed: the same on all"
            raise InputError(text, where=where)
        if op.lane != each.lane:
            beside = f"({each.lane}), and by themselves in another"
            raise InputError(f"calls {op.lane} run on a stream with others in one program {beside}", where=where)
        return op

    def _collective(self, each: ProgramOp, comm: str, token: Ref | None) -> Collective:
        call = each.kernel.call
        assert call is not None, "a collective is a call"
        own, kind = call.own, call.meaning
        width, dtype = form.DTYPES[call.dtype], ""
        codec: Codec = Plain(_DTYPES[width])
        elements = [call.num_bytes // width]
        via, per_hop = LIBRARY, False
        if isinstance(own, SimulatedCollective):
            via, per_hop = own.via, own.per_hop
            codec, elements, dtype = own.codec, list(own.elements), own.dtype
        named: CollectiveKind = own.kind if isinstance(own, SimulatedCollective) else kind  # type: ignore[assignment]
        refs = [
            self._tensor(count, dtype or codec.name, each.kernel.is_backward) for count in elements for _ in range(2)
        ]
        return Collective(
            kind=named,
            name=call.name,
            axes=each.axes,
            src=tuple(refs[::2]),
            dst=tuple(refs[1::2]),
            codec=codec,
            via=via,
            lane=each.lane,
            comm=comm,
            token=token,
            per_hop=per_hop,
        )

    def _exchange(self, each: ProgramOp, ends: tuple[int, int], comm: str) -> Exchange:
        """Return the op of a message from the first end to the second; for a simulated job, also of a message back."""
        call = each.kernel.call
        assert call is not None, "a message is a call"
        there, back = call.num_bytes, 0
        if isinstance(call.own, SimulatedExchange):
            there, back = call.own.there_bytes, call.own.back_bytes
        forth, home = ((self._tensor(size, "uint8"),) if size else () for size in (there, back))
        return Exchange(
            name="message",
            axis=each.axes[0],
            ends=ends,
            src=forth,
            dst=forth,
            back_src=home,
            back_dst=home,
            codec=Plain("uint8"),
            lane=each.lane,
            comm=comm,
            token=self._token(),
        )

    def _tensor(self, elements: int, dtype: str, is_backward: bool = False) -> Ref:
        """Return a new instance of a tensor of `elements` elements, whole on every rank."""
        name = f"{elements} of {dtype}{' in the backward' if is_backward else ''}"
        if name not in self.tensors:
            self.tensors[name] = Tensor(
                name=name,
                shape=(elements,),
                dtype=dtype,
                role="gathered",
                placement=REPLICATE,
                per_layer=True,
                stage="backward" if is_backward else None,
            )
        return self._instance(name)

    def _token(self) -> Ref:
        return self._instance(TOKEN)

    def _instance(self, name: str) -> Ref:
        """Return a new instance of a tensor."""
        self._number += 1
        return Ref(name, self._number)


def _matched(several: Sequence[RankProgram], value: Callable[[ProgramOp], float]) -> list[list[float]]:
    """Return, for each kernel of the first rank, the values of all ranks; 0 where a rank does not have one part of a
    kernel."""
    first = several[0]
    out: list[list[float]] = [[] for _ in first.ops]
    for lane, indices in first.indices_of_lanes.items():
        for number, index in enumerate(indices):
            out[index] = [value(one.ops[one.indices_of_lanes[lane][number]]) for one in several]
    for lane, index in first.parts.items():
        out[index] = [value(one.ops[one.parts[lane]]) if lane in one.parts else 0.0 for one in several]
    return out
