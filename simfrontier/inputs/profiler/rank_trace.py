"""One step of a rank as its trace has it: kernels in the order of their launch, waits of streams, and the groups of its
collectives.

Of a trace without kernels (gloo: work of the host) the outermost events of the host's threads are taken for kernels,
and threads for streams.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le, Len

from simfrontier.base.io import External, Names, Parsed
from simfrontier.core.codecs import Codec, Plain, parse_codec
from simfrontier.core.dtypes import DTYPE_BYTES, INTEGERS
from simfrontier.core.program import VIAS, CollectiveKind
from simfrontier.core.trace import kineto as form
from simfrontier.inputs.profiler.steps import MeasuredBy


def _codec(text: str) -> Codec:
    return Plain(text) if text in INTEGERS else parse_codec(text)


class SimulatedCollective(External):
    """Facts about a collective that only a simulation knows, from the key `simfrontier` of its event."""

    kind: CollectiveKind
    via: Annotated[str, Names(*VIAS)]
    codec: Annotated[Codec, Parsed(_codec)]
    elements: Annotated[tuple[Annotated[int, Ge(0)], ...], Len(1)]
    dtype: Annotated[str, Names(*DTYPE_BYTES)]
    per_hop: bool = False


class SimulatedExchange(External):
    """Simulated facts about a message: the members of the group between which it goes, and its bytes each way."""

    ends: tuple[Annotated[int, Ge(0)], Annotated[int, Ge(0)]]
    there_bytes: Annotated[int, Ge(0)]
    back_bytes: Annotated[int, Ge(0)]


class SimulatedKernel(External):
    """Simulated facts about a kernel: its time alone, the bytes that it moves, and the time of its arithmetic."""

    seconds: Annotated[float, Ge(0), Le(1e6)]
    bytes: Annotated[float, Ge(0), Le(1e18)]
    arithmetic_s: Annotated[float, Ge(0), Le(1e6)]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCall:
    """A collective, or a message to or from another rank.

    Attributes:
        num_bytes: of the whole message (all-gather: the output of a rank; others: its input).
        ranks: of the group, in its order.
        peer: the other rank of a message.
        sequence: number of the call in its group, if the trace has it.
        own: facts that a simulation wrote.
    """

    meaning: form.Meaning
    name: str
    dtype: str
    num_bytes: int
    group: str
    ranks: tuple[int, ...]
    peer: int | None = None
    sequence: int | None = None
    own: SimulatedCollective | SimulatedExchange | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """One op on a stream, from its start on the device; in seconds of the rank's clock. `call`: if it communicates;
    `own`: facts that a simulation wrote; `is_backward`: launched by autograd's thread."""

    name: str
    stream: str
    start_s: float
    end_s: float
    order: float
    call: GroupCall | None = None
    own: SimulatedKernel | None = None
    is_backward: bool = False

    @property
    def is_bare_call(self) -> bool:
        """Whether it is a kernel of NCCL or RCCL that does not say what it moves."""
        return self.call is None and self.name.startswith(form.NCCL_KERNELS) and self.own is None


@dataclass(frozen=True, slots=True)
class EventWait:
    """From the host's call `order` on, a stream waits for what another had been given before the host's call
    `record`."""

    stream: str
    on_stream: str
    record: float
    order: float


@dataclass(frozen=True, slots=True)
class DeviceModel:
    """Product name of a device, with the bytes of its memory and its number of compute units if the trace has them."""

    name: str
    num_bytes: int | None = None
    num_units: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RankTrace:
    """One step of a rank.

    Attributes:
        stands_for: ranks that the trace stands for, as text.
        device: None for work of the host.
        waits: None if the trace has none, so that they have to be inferred from times.
        measured_by: how the step's begin and end were found.
        tick_s: resolution of its times.
    """

    where: str
    step_name: str
    rank: int
    num_ranks: int
    stands_for: str
    device: DeviceModel | None
    kernels: Sequence[Kernel]
    waits: Sequence[EventWait] | None
    begin_s: float
    end_s: float
    measured_by: MeasuredBy
    tick_s: float

    @property
    def step_s(self) -> float:
        return self.end_s - self.begin_s

    @property
    def ends_idle(self) -> bool:
        """Whether the step goes on when its last kernel has ended."""
        return self.end_s - max(kernel.end_s for kernel in self.kernels) >= self.tick_s
