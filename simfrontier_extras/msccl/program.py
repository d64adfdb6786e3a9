"""An MSCCL algorithm file as a value: what every thread block of every GPU does, step by step.

The elements and attributes are those that ROCm/rccl `src/misc/msccl/msccl_parser.cc` reads (mscclGetAlgoFromXmlFile)
and microsoft/msccl-tools `msccl/language/ir.py` writes (ir_to_xml).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from simfrontier.core.collectives import Meaning
from simfrontier.core.program import CollectiveKind

Collective = Literal["allreduce", "allgather", "reducescatter", "alltoall"]
Protocol = Literal["Simple", "LL", "LL128"]
Buffer = Literal["i", "o", "s"]
StepType = Literal["s", "r", "rcs", "rrs", "rrc", "rrcs", "cpy", "re", "nop"]

COLL: Final[Mapping[CollectiveKind, Collective]] = {
    "all_reduce": "allreduce",
    "all_gather": "allgather",
    "reduce_scatter": "reducescatter",
    "all_to_all": "alltoall",
}
_KINDS: Final = {coll: kind for kind, coll in COLL.items()}
SENDS: Final = frozenset({"s", "rcs", "rrs", "rrcs"})
RECEIVES: Final = frozenset({"r", "rcs", "rrs", "rrc", "rrcs"})
READS: Final = frozenset({"s", "rrs", "rrc", "rrcs", "cpy", "re"})
"""Types of steps that read the chunks at `src` of their own GPU."""
WRITES: Final = frozenset({"r", "rcs", "rrc", "rrcs", "cpy", "re"})
"""Types of steps that write the chunks at `dst` of their own GPU."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A place: a chunk of a GPU's input (`i`), output (`o`) or scratch memory (`s`)."""

    buffer: Buffer
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of a thread block, on `count` chunks from `src` and `dst` on.

    s     send what is at src                    rcs   receive, write to dst, send on
    r     receive to dst                         rrs   receive, add what is at src, send on
    rrc   receive, add what is at src, write the sum to dst
    rrcs  the same, and send the sum on
    cpy   copy src to dst                        re    add src to dst
    nop   only wait

    `after`: another thread block of the GPU, and the number of its step that must be over; `is_awaited`: whether a
    thread block waits for this step (attribute `hasdep`), which is told of no other step.
    """

    type: StepType
    src: Chunk
    dst: Chunk
    count: int
    after: tuple[int, int] | None = None
    is_awaited: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadBlock:
    """Steps one after the other. It sends to one GPU at most, and receives from one, over connections of `channel`."""

    number: int
    send: int | None
    recv: int | None
    channel: int
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A GPU's thread blocks by their number, and how many chunks of each buffer they use."""

    number: int
    input_chunks: int
    output_chunks: int
    scratch_chunks: int
    thread_blocks: tuple[ThreadBlock, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Algo:
    """An algorithm of a collective of `len(gpus)` GPUs, by their number.

    `chunks_per_loop`: into how many equal chunks the call's message is cut: what an all-gather ends with, others begin
    with. A rank's count of elements has to be a multiple of it. RCCL takes the algorithm for messages of `min_bytes` to
    `max_bytes` (0: any size; None: its file does not say), `in_place` or not, as far as it says. `dialect`: how the
    head of its file differs from what RCCL's parser takes, as in files of msccl-tools.
    """

    name: str
    coll: Collective
    protocol: Protocol
    num_channels: int
    chunks_per_loop: int
    in_place: bool
    out_of_place: bool
    min_bytes: int
    max_bytes: int | None
    gpus: tuple[Gpu, ...]
    dialect: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        return len(self.gpus)

    @property
    def meaning(self) -> Meaning:
        """The meaning of its collective, chunk by chunk."""
        return Meaning(_KINDS[self.coll], self.size, self.chunks_per_loop)

    @property
    def input_chunks(self) -> int:
        """Chunks of a rank's input: of an all-gather its piece of the message."""
        return len(self.meaning.input(0))

    @property
    def output_chunks(self) -> int:
        """Chunks of a rank's output: of a reduce-scatter its piece of the message."""
        return len(self.meaning.output(0))

    @property
    def num_thread_blocks(self) -> int:
        return sum(len(gpu.thread_blocks) for gpu in self.gpus)

    @property
    def num_steps(self) -> int:
        return sum(len(block.steps) for gpu in self.gpus for block in gpu.thread_blocks)
