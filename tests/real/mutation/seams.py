"""The seams at which a fault enters a rank: an op that runs, what a collective sends and brings, the data of a step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from unittest.mock import patch

import numpy as np

from simfrontier.core.program.ir import Collective, Compute, Exchange, Op, Ref
from simfrontier.core.program.placement import PartialOp
from simfrontier_real.ops.arrays import Array
from simfrontier_real.ops.codecs import Encoded, quantised
from simfrontier_real.ops.op_runner import OpRunner
from simfrontier_real.ops.programs import RankContext
from simfrontier_real.ranks.transport import group_of
from simfrontier_real.train.train import TrainingRank

Messages = tuple[Array, ...]
SMALL: Final = ("× 1.0001", "× 1.001", "narrower type")


@dataclass
class Memory:
    """What a fault keeps between its calls, of one rank: how often it changed a value, and whatever it wants."""

    fired: int = 0
    kept: dict[Any, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Place:
    """One op of one step on one rank."""

    rank: TrainingRank
    index: int
    step: int
    memory: Memory
    sent: Messages = ()

    @property
    def context(self) -> RankContext:
        return self.rank.context

    @property
    def op(self) -> Op:
        return self.context.program.ops[self.index]

    @property
    def micro(self) -> int:
        return self.context.program.calls[self.index].micro

    @property
    def layer(self) -> int:
        return self.context.program.calls[self.index].layer

    @property
    def members(self) -> tuple[int, ...]:
        """The ranks of a collective's group."""
        assert isinstance(self.op, Collective)
        mesh = self.context.schedule.mesh
        return group_of(mesh, mesh.live(self.op.axes), self.context.rank)[1]

    @property
    def number(self) -> int:
        """The place of this rank in a collective's group."""
        return self.members.index(self.context.rank)

    def changed(self, before: Any, after: Any) -> Any:
        """`after`; counted where it is not `before`."""
        self.memory.fired += not same(before, after)
        return after


@dataclass(frozen=True)
class Fault:
    """A fault by what it does at each seam (nothing: as it should be). `run` gets the op and what runs it, `sends` and
    `brings` the messages of a collective or exchange, `loads` a rank and the number of the step, after its data;
    `codec` has functions that stand in for those of these names in simfrontier_real.ops.codecs.quantised, and get those
    first. A schedule without ops that it `concerns` need not be run to know that the fault is not applicable."""

    name: str
    run: Callable[[Place, Callable[[], None]], None] | None = None
    sends: Callable[[Place, Messages], Messages] | None = None
    brings: Callable[[Place, Messages], Messages] | None = None
    reduction: Callable[[Place, PartialOp], PartialOp] | None = None
    loads: Callable[[TrainingRank, int, Memory], None] | None = None
    codec: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    concerns: Callable[[Op], bool] = lambda op: True

    @property
    def is_small(self) -> bool:
        """Whether it changes numbers by no more than rounding to 16 bits does: less than codecs lose anyway."""
        return self.name.endswith(SMALL)


@contextmanager
def codec_of(fault: Fault, memory: Memory) -> Iterator[None]:
    """int8 and int4 with the fault's own functions; each call counts."""

    def instead(sound: Callable[..., Any], wrong: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            memory.fired += 1
            return wrong(sound, *arguments)

        return call

    with ExitStack() as stack:
        for name, wrong in fault.codec.items():
            stack.enter_context(patch.object(quantised, name, instead(getattr(quantised, name), wrong)))
        yield


class Faulty(OpRunner):
    """A rank's work with a fault in it."""

    def __init__(self, rank: TrainingRank, fault: Fault, memory: Memory) -> None:
        self._rank, self._fault, self._memory = rank, fault, memory
        self._inner: OpRunner = rank.step.op_runner
        self._step = -1
        self._sent: dict[int, Messages] = {}
        self.room, self.measures = self._inner.room, self._inner.measures  # type: ignore[method-assign]
        self.read_by, self.done = self._inner.read_by, self._inner.done  # type: ignore[method-assign]

    def begin_step(self) -> None:
        self._step += 1
        self._inner.begin_step()

    def run(self, index: int, ready_s: float) -> None:
        def go() -> None:
            self._inner.run(index, ready_s)

        if self._fault.run is None:
            go()
        else:
            self._fault.run(self._place(index), go)

    def outgoing(self, index: int) -> Messages:
        messages = self._inner.outgoing(index)
        if self._fault.sends is not None and isinstance(self._rank.context.program.ops[index], Collective):
            messages = self._fault.sends(self._place(index), messages)
        if self._fault.brings is not None:
            self._sent[index] = tuple(copied(message) for message in messages)
        return messages

    def reduction(self, index: int) -> PartialOp:
        how = self._inner.reduction(index)
        return how if self._fault.reduction is None else self._fault.reduction(self._place(index), how)

    def incoming(self, index: int, results: Messages) -> None:
        if self._fault.brings is not None:
            results = self._fault.brings(self._place(index), results)
        self._inner.incoming(index, results)

    def _place(self, index: int) -> Place:
        return Place(self._rank, index, self._step, self._memory, self._sent.get(index, ()))


def put_in(rank: TrainingRank, fault: Fault) -> Memory:
    """Put a fault into a rank."""
    memory = Memory()
    rank.step.op_runner = Faulty(rank, fault, memory)
    if fault.loads is not None:
        load, loads = rank.load, fault.loads

        def loaded(number: int) -> None:
            load(number)
            loads(rank, number, memory)

        rank.load = loaded  # type: ignore[method-assign]
    return memory


def copied(values: Any) -> Any:
    """A copy of an array of either library, of coded pieces, or of nothing."""
    if isinstance(values, Encoded):
        return Encoded(copied(values.data), copied(values.scales))
    if values is None:
        return None
    return values.clone() if hasattr(values, "clone") else values.copy()


def same(a: Any, b: Any) -> bool:
    """Whether two arrays, pieces, tuples of them or numbers are equal bit for bit."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, Encoded) and isinstance(b, Encoded):
        return same(a.parts, b.parts)
    return (a is None) == (b is None) and np.array_equal(np.asarray(a), np.asarray(b), equal_nan=True)


def outputs(at: Place) -> tuple[Ref, ...]:
    """What an op writes or adds to, tokens left out."""
    _, writes, added = at.context.operands(at.index)
    return tuple(ref for ref in (*writes, *added) if at.context.schedule.tensors[ref.name].role != "token")


def values_of(at: Place, refs: tuple[Ref, ...]) -> tuple[Any, ...]:
    """Copies of what is held of them, None where nothing is."""
    return tuple(copied(at.context.buffers.by_ref.get(ref)) for ref in refs)


def is_compute(at: Place, *kinds: str) -> bool:
    """Whether an op is computed and of one of these kinds."""
    return isinstance(at.op, Compute) and at.op.kind in kinds


def is_exchange(at: Place) -> bool:
    return isinstance(at.op, Exchange)
