"""The schedule of a job: the ops of its ranks' programs, which wait for each other as its streams did.

A kernel is an op of kind `measured`, of which the machine knows how long it took; a pause before it one of kind
`pause`. What a stream waits for is read by a hook on its lane, from tokens that the ops write which it waits for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
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
from simfrontier.inputs.profiler.programs import CallKey, RankProgram, Roles, call_key
from simfrontier.inputs.profiler.rank_trace import GroupCall, Kernel, SimulatedCollective, SimulatedExchange

TOKEN: Final = "done"
_DTYPES: Final = {1: "uint8", 2: "bf16", 4: "fp32", 8: "fp64"}  # of plain numbers, by their bytes


@dataclass
class JobSchedule:
    """The schedule while it is made; `kernels` by the names of their ops, and `places`: of each role, the op of every
    kernel of its program, `pause_places` of the pauses before them, `names` the names of kernels; `pauses`: how long
    these are, of each role before each kernel, in seconds."""

    roles: Roles
    on: GroupAxes
    pauses: Sequence[Sequence[float]]
    tensors: dict[str, Tensor] = field(default_factory=dict)
    kernels: dict[str, MeasuredKernel] = field(default_factory=dict)
    places: list[list[int]] = field(default_factory=list)
    pause_places: list[dict[int, int]] = field(default_factory=list)
    names: list[dict[int, str]] = field(default_factory=list)
    _shared: dict[tuple[str, int], Collective | Exchange] = field(default_factory=dict)
    _said: dict[tuple[str, int], CallKey] = field(default_factory=dict)
    _number: int = 0

    def made(self) -> Schedule:
        """Return the schedule of the job. Raises InputError for calls that no schedule has."""
        self.tensors[TOKEN] = Tensor(
            name=TOKEN, shape=(1,), dtype="token", role="token", placement=REPLICATE, per_layer=True
        )
        roles = []
        for number, several in enumerate(self.roles.programs):
            place = None if self.roles.axis is None else (self.roles.axis, number)
            name = "rank" if place is None else f"{place[0]}{number}"
            ops = self._ops(several[0], name, self.pauses[number])
            roles.append(Role(name, (Call("step", 0, 0, tuple(ops)),), place))
        return Schedule(mesh=self.on.mesh, tensors=self.tensors, roles=tuple(roles), pools={}, meta={})

    def _ops(self, program: RankProgram, role: str, pauses: Sequence[float]) -> list[Op]:
        targets = {other for each in program.placed for other in each.waits}
        ops: list[Op] = []
        places: list[int] = []
        tokens: dict[int, Ref] = {}
        counts: dict[str, int] = {}
        names: dict[int, str] = {}
        paused: dict[int, int] = {}
        for index, each in enumerate(program.placed):
            lane, kernel = program.lanes[index], each.kernel
            if each.waits:
                reads = tuple(tokens[other] for other in each.waits)
                ops.append(Compute(kind="hook", name="wait", lane=lane, reads=reads))
            if pauses[index]:
                pause = MeasuredKernel(seconds=pauses[index])
                paused[index] = len(ops)
                ops.append(self._measured(PAUSE.name, f"{role} pause {index}", lane, pause, ()))
            places.append(len(ops))
            token = self._next() if index in targets else None
            if kernel.call is None:
                took, names[index] = _kernel(kernel), f"{role} {kernel.name} {index}"
                ops.append(self._measured(MEASURED.name, names[index], lane, took, () if token is None else (token,)))
            else:
                op = self._call(program, index, kernel.call, token, counts)
                ops.append(op)
                token = op.token
            if token is not None:
                tokens[index] = token
        self.places.append(places)
        self.names.append(names)
        self.pause_places.append(paused)
        return ops

    def _measured(self, kind: str, name: str, lane: str, kernel: MeasuredKernel, writes: tuple[Ref, ...]) -> Compute:
        self.kernels[name] = kernel
        return Compute(kind=kind, name=name, lane=lane, writes=writes)

    def _call(
        self, program: RankProgram, index: int, call: GroupCall, token: Ref | None, counts: dict[str, int]
    ) -> Collective | Exchange:
        """Return the op of a call. One that roles share is made once, with a token that each of them may wait for."""
        ends, axes, lane = program.ends[index], program.axes[index], program.lanes[index]
        if ends is None and self.roles.axis not in axes:
            return self._collective(program, index, call, f"{'+'.join(axes)} {lane}", token)
        comm = f"{'+'.join(axes)} of all"
        if ends is not None:
            is_both = isinstance(call.own, SimulatedExchange)
            comm = f"{axes[0]} {min(ends)}-{max(ends)}" if is_both else f"{axes[0]} {ends[0]}>{ends[1]}"
        counts[comm] = counts.get(comm, 0) + 1
        key = comm, counts[comm]
        if key not in self._shared:
            self._shared[key] = (
                self._collective(program, index, call, comm, self._next())
                if ends is None
                else self._exchange(call, axes[0], ends, comm, lane)
            )
            self._said[key] = call_key(call, axes, ends)
        op = self._shared[key]
        if (mine := call_key(call, axes, ends)) != self._said[key]:
            other = f"{self._said[key]} on other ranks; allowed: the same on all"
            text = f"call {counts[comm]} over {comm}: {mine}, but {other}"
            raise InputError(text, where=program.trace.where)
        if op.lane != lane:
            text = f"calls {op.lane} run on a stream with others in one program ({lane}), and by themselves in another"
            raise InputError(text, where=program.trace.where)
        return op

    def _collective(
        self, program: RankProgram, index: int, call: GroupCall, comm: str, token: Ref | None
    ) -> Collective:
        axes, own = program.axes[index], call.own
        kind: CollectiveKind = call.meaning  # type: ignore[assignment]
        width, dtype = form.DTYPES[call.dtype], ""
        codec: Codec = Plain(_DTYPES[width])
        elements = [call.num_bytes // width]
        via, per_hop = LIBRARY, False
        if isinstance(own, SimulatedCollective):
            kind, via, per_hop = own.kind, own.via, own.per_hop
            codec, elements, dtype = own.codec, list(own.elements), own.dtype
        is_backward = program.placed[index].kernel.is_backward
        each = [count for count in elements for _ in range(2)]
        refs = [self._tensor(count, dtype or codec.name, is_backward) for count in each]
        return Collective(
            kind=kind,
            name=call.name,
            axes=axes,
            src=tuple(refs[::2]),
            dst=tuple(refs[1::2]),
            codec=codec,
            via=via,
            lane=program.lanes[index],
            comm=comm,
            token=token,
            per_hop=per_hop,
        )

    def _exchange(self, call: GroupCall, axis: str, ends: tuple[int, int], comm: str, lane: str) -> Exchange:
        """Return a message from the first end to the second; of a simulated job also one back."""
        there, back = call.num_bytes, 0
        if isinstance(call.own, SimulatedExchange):
            there, back = call.own.there_bytes, call.own.back_bytes
        byte = Plain("uint8")
        forth, home = ((self._tensor(size, "uint8"),) if size else () for size in (there, back))
        return Exchange(
            name="message",
            axis=axis,
            ends=ends,
            src=forth,
            dst=forth,
            back_src=home,
            back_dst=home,
            codec=byte,
            lane=lane,
            comm=comm,
            token=self._next(),
        )

    def _tensor(self, elements: int, dtype: str, is_backward: bool = False) -> Ref:
        """Return a new instance of a tensor of so many elements, whole on every rank."""
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
        return Ref(name, self._next_number())

    def _next(self) -> Ref:
        return Ref(TOKEN, self._next_number())

    def _next_number(self) -> int:
        self._number += 1
        return self._number


def _kernel(kernel: Kernel) -> MeasuredKernel:
    """Return the time of a kernel, and, of a simulated one, its load on the device."""
    own = kernel.own
    if own is None:
        return MeasuredKernel(seconds=kernel.end_s - kernel.start_s)
    return MeasuredKernel(seconds=own.seconds, num_bytes=own.bytes, arithmetic_s=own.arithmetic_s)


_SAME: Final = 1e-12  # what differs by less, relative, took as long


def mean_pauses(alike: Sequence[RankProgram]) -> list[float]:
    """Return the pause before each kernel of the first rank's program, in seconds: the mean over ranks with as many
    kernels and calls on each lane, whose n-th on a lane is the same."""
    return [_mean(own) for own in _matched(alike, [[each.pause_s for each in one.placed] for one in alike])]


def rank_times(
    alike: Sequence[Sequence[RankProgram]], making: JobSchedule
) -> tuple[dict[str, MeasuredKernel], dict[int, dict[int, float]]]:
    """Kernels that take another time on the mean of their ranks than on the first of them; and how many times as long
    as that kernels and pauses take on each rank, by their op's place in the program."""
    means: dict[str, MeasuredKernel] = {}
    times: dict[int, dict[int, float]] = {}
    for role, several in enumerate(alike):
        lengths = [[each.kernel.end_s - each.kernel.start_s for each in one.placed] for one in several]
        pauses = [[each.pause_s for each in one.placed] for one in several]
        for index, (took, paused) in enumerate(zip(_matched(several, lengths), _matched(several, pauses), strict=True)):
            kernel = several[0].placed[index].kernel
            if kernel.call is None and kernel.own is None and not _are_same(took):
                name = making.names[role][index]
                means[name] = replace(making.kernels[name], seconds=fmean(took))
                _note(times, several, making.places[role][index], took)
            if (place := making.pause_places[role].get(index)) is not None and not _are_same(paused):
                _note(times, several, place, paused)
    return means, times


def _note(
    times: dict[int, dict[int, float]], several: Sequence[RankProgram], place: int, took: Sequence[float]
) -> None:
    mean = fmean(took)
    for program, own in zip(several, took, strict=True):
        times.setdefault(program.rank, {})[place] = own / mean


def _matched(several: Sequence[RankProgram], values: Sequence[Sequence[float]]) -> list[list[float]]:
    """Return the values of all ranks for each kernel of the first; 0 where a rank does not have a part of one."""
    places = [one.indices_of_lanes for one in several]
    out: list[list[float]] = [[] for _ in values[0]]
    for lane, indices in places[0].items():
        for number, index in enumerate(indices):
            out[index] = [own[its[lane][number]] for own, its in zip(values, places, strict=True)]
    for lane, index in several[0].parts.items():
        parts = (one.parts.get(lane) for one in several)
        out[index] = [0.0 if its is None else own[its] for own, its in zip(values, parts, strict=True)]
    return out


def _mean(values: Sequence[float]) -> float:
    return values[0] if _are_same(values) else fmean(values)


def _are_same(values: Sequence[float]) -> bool:
    return max(values) - min(values) <= _SAME * max(values)
