"""Reading an MSCCL algorithm file: its elements as tables, checked by forms.

Attributes that nothing here reads are passed over, as RCCL's parser does. Files of msccl-tools are read, too, though
RCCL's parser refuses them: they lack some attributes of `algo`, and call a reduce-scatter otherwise
(microsoft/msccl-tools `msccl/language/ir.py`, ir_to_xml, and `collectives.py`, at 0448b1d8).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from annotated_types import Ge
from pydantic import BaseModel

from simfrontier.base.errors import InputError, nearest, shown
from simfrontier.base.io import checked
from simfrontier.base.limits import FileLimit, Limit
from simfrontier_extras.msccl.program import Algo, Buffer, Chunk, Gpu, Protocol, Step, StepType, ThreadBlock

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

ALGO_FILE: Final = FileLimit(
    most_bytes=16 << 20, why="some 130 bytes a step: a ring of 32 GPUs in 16 channels takes 4 MB, 50,000 steps 7 MB"
)
STEPS: Final = Limit(most=50_000, what="steps", why="8 kB each where 4,096 thread blocks wait for each other: 400 MB")
MOVED: Final = Limit(most=250_000, what="chunks in all steps", why="some 8 us each to follow, 4 to 16 times: 8 to 32 s")
_LEVELS: Final = ("algo", "gpu", "tb", "step")

Count = Annotated[int, Ge(0)]
AtLeastOne = Annotated[int, Ge(1)]
OrNone = Annotated[int, Ge(-1)]  # -1 stands for none
Flag = Literal["0", "1"]


class StepForm(BaseModel):
    """The element `step`."""

    s: Count
    type: StepType
    srcbuf: Buffer
    srcoff: OrNone
    dstbuf: Buffer
    dstoff: OrNone
    cnt: Count
    depid: OrNone
    deps: OrNone
    hasdep: Flag

    def step(self) -> Step:
        return Step(
            type=self.type,
            src=Chunk(self.srcbuf, self.srcoff),
            dst=Chunk(self.dstbuf, self.dstoff),
            count=self.cnt,
            after=None if self.depid < 0 else (self.depid, self.deps),
            is_awaited=self.hasdep == "1",
        )


class BlockForm(BaseModel):
    """The element `tb`, a thread block."""

    id: Count
    send: OrNone
    recv: OrNone
    chan: Count
    step: tuple[StepForm, ...]

    def block(self) -> ThreadBlock:
        return ThreadBlock(
            number=self.id,
            send=None if self.send < 0 else self.send,
            recv=None if self.recv < 0 else self.recv,
            channel=self.chan,
            steps=tuple(each.step() for each in self.step),
        )


class GpuForm(BaseModel):
    """The element `gpu`."""

    id: Count
    i_chunks: Count
    o_chunks: Count
    s_chunks: Count
    tb: tuple[BlockForm, ...]

    def gpu(self) -> Gpu:
        return Gpu(
            number=self.id,
            input_chunks=self.i_chunks,
            output_chunks=self.o_chunks,
            scratch_chunks=self.s_chunks,
            thread_blocks=tuple(sorted((each.block() for each in self.tb), key=lambda block: block.number)),
        )


class AlgoForm(BaseModel):
    """The element `algo`; files of msccl-tools lack `outofplace`, `minBytes` and `maxBytes`."""

    name: str = ""
    proto: Protocol
    nchannels: AtLeastOne
    nchunksperloop: AtLeastOne
    ngpus: AtLeastOne
    coll: Literal["allreduce", "allgather", "reducescatter", "alltoall", "reduce_scatter"]
    inplace: Flag
    outofplace: Flag | None = None
    minBytes: Count | None = None
    maxBytes: Count | None = None
    gpu: tuple[GpuForm, ...]

    def algo(self) -> Algo:
        in_place = self.inplace == "1"
        return Algo(
            name=self.name,
            coll="reducescatter" if self.coll == "reduce_scatter" else self.coll,
            protocol=self.proto,
            num_channels=self.nchannels,
            chunks_per_loop=self.nchunksperloop,
            in_place=in_place,
            out_of_place=not in_place if self.outofplace is None else self.outofplace == "1",
            min_bytes=self.minBytes or 0,
            max_bytes=self.maxBytes,
            gpus=tuple(sorted((each.gpu() for each in self.gpu), key=lambda gpu: gpu.number)),
            dialect=tuple(self._dialect()),
        )

    def _dialect(self) -> list[str]:
        """Differences from what RCCL's parser takes."""
        lacked = [key for key in ("outofplace", "minBytes", "maxBytes") if getattr(self, key) is None]
        out = [f"it lacks {', '.join(lacked)}, which RCCL asks for"] if lacked else []
        if self.coll == "reduce_scatter":
            out.append(f"its coll is {shown(self.coll)}, which RCCL calls {shown('reducescatter')}")
        return out


def read_algo(path: Path) -> Algo:
    """Read the algorithm of a file. Raises InputError with the file and the place."""
    try:
        return parse(ALGO_FILE.read(path), str(path))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", where=str(path)) from None


def parse(data: bytes, where: str) -> Algo:
    """Read the algorithm of a file's bytes; `where`: what errors call the file."""
    from xml.etree import ElementTree

    if b"<?" in data or b"<!DOCTYPE" in data:  # so that there are no entities either
        text = "got an XML declaration or a document type, which RCCL's parser refuses; allowed: <algo first"
        raise InputError(text, where=where)
    try:
        table = _table(ElementTree.fromstring(data), 0)
        form: AlgoForm = checked(table, AlgoForm)
        _refuse_numbers(form)
    except ElementTree.ParseError as error:
        raise InputError(f"is no XML: {error}; allowed: an MSCCL algorithm file", where=where) from None
    except InputError as error:
        raise error.within(where) from None
    return form.algo()


def _table(element: Element, level: int) -> dict[str, Any]:
    """The attributes of an element, and the elements in it under their name."""
    if element.tag != _LEVELS[level]:
        raise InputError(f"got an element {shown(element.tag)}; {nearest(element.tag, _LEVELS[level : level + 1])}")
    if any((text or "").strip() for text in (element.text, element.tail)):
        raise InputError(f"got text in or behind an element {element.tag}; allowed: spaces and ends of lines")
    if level == len(_LEVELS) - 1:
        return element.attrib
    return {**element.attrib, _LEVELS[level + 1]: [_table(child, level + 1) for child in element]}


def _refuse_numbers(form: AlgoForm) -> None:
    if sorted(gpu.id for gpu in form.gpu) != list(range(form.ngpus)):
        text = f"ngpus: got {form.ngpus}, and {len(form.gpu)} gpu elements"
        raise InputError(f"{text}; allowed: one for each of 0 to ngpus - 1")
    blocks = [block for gpu in form.gpu for block in gpu.tb]
    if any(step.s != number for block in blocks for number, step in enumerate(block.step)):
        raise InputError("s: got another number; allowed: steps counted from 0 as they stand in their thread block")
    counts = [step.cnt for block in blocks for step in block.step]
    for limit, got in ((STEPS, len(counts)), (MOVED, sum(counts))):
        if fault := limit.fault(got):
            raise InputError(fault)
