"""Data classes for an MSCCL algorithm file, with reader and writer: the steps of every thread block of every GPU.

Elements and attributes have the names used in the file: those that ROCm/rccl `src/misc/msccl/msccl_parser.cc` reads
(mscclGetAlgoFromXmlFile) and microsoft/msccl-tools `msccl/language/ir.py` writes (ir_to_xml). Unused attributes are
ignored, as in RCCL's parser. Files of msccl-tools can be read as well, although RCCL's parser rejects them: they lack
some attributes of `algo`, and name the reduce-scatter differently (`collectives.py`, at 0448b1d8).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple

from annotated_types import Ge, Le
from pydantic import AfterValidator, BaseModel, ConfigDict

from simfrontier.base.errors import InputError, nearest, shown
from simfrontier.base.io import checked
from simfrontier.base.limits import FileLimit, Limit
from simfrontier.core.collectives import Meaning
from simfrontier.core.program import CollectiveKind

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

ALGO_FILE: Final = FileLimit(
    most_bytes=16 << 20, why="some 130 bytes a step: a ring of 32 GPUs in 16 channels takes 4 MB, 50,000 steps 7 MB"
)
STEPS: Final = Limit(most=50_000, what="steps", why="8 kB each where 4,096 thread blocks wait for each other: 400 MB")
MOVED: Final = Limit(most=250_000, what="chunks in all steps", why="some 8 us each to follow, 4 to 16 times: 8 to 32 s")
NONE: Final = -1  # in the place of a GPU, thread block or step that there is not
Coll = Literal["allreduce", "allgather", "reducescatter", "alltoall"]
COLL: Final[Mapping[CollectiveKind, Coll]] = {
    "all_reduce": "allreduce",
    "all_gather": "allgather",
    "reduce_scatter": "reducescatter",
    "all_to_all": "alltoall",
}
_KINDS: Final[Mapping[str, CollectiveKind]] = {
    **{coll: kind for kind, coll in COLL.items()},
    "reduce_scatter": "reduce_scatter",
}
_LEVELS: Final = ("algo", "gpu", "tb", "step")

Buffer = Literal["i", "o", "s"]
StepType = Literal["s", "r", "rcs", "rrs", "rrc", "rrcs", "cpy", "re", "nop"]
SENDS: Final = frozenset({"s", "rcs", "rrs", "rrcs"})
RECEIVES: Final = frozenset({"r", "rcs", "rrs", "rrc", "rrcs"})
READS: Final = frozenset({"s", "rrs", "rrc", "rrcs", "cpy", "re"})
"""Types of steps that read the chunks at `src` of their own GPU."""
WRITES: Final = frozenset({"r", "rcs", "rrc", "rrcs", "cpy", "re"})
"""Types of steps that write the chunks at `dst` of their own GPU."""

Count = Annotated[int, Ge(0)]
AtLeastOne = Annotated[int, Ge(1)]
OrNone = Annotated[int, Ge(NONE)]
Flag = Annotated[int, Ge(0), Le(1)]


class Chunk(NamedTuple):
    """The address of a chunk: its index in a GPU's input (`i`), output (`o`) or scratch memory (`s`)."""

    buffer: Buffer
    offset: int


class _Part(BaseModel):
    """Base class of the elements of the file."""

    model_config = ConfigDict(frozen=True)


class Step(_Part):
    """Step `s` of a thread block, on `cnt` chunks from `src` and `dst` on.

    s     send what is at src                    rcs   receive, write to dst, send on
    r     receive to dst                         rrs   receive, add what is at src, send on
    rrc   receive, add what is at src, write the sum to dst
    rrcs  the same, and send the sum on
    cpy   copy src to dst                        re    add src to dst
    nop   only wait

    `depid`, `deps`: another thread block of the GPU, and its step that must be over; `hasdep`: whether a thread block
    waits for this step, which is told of no other step.
    """

    s: Count
    type: StepType
    srcbuf: Buffer
    srcoff: OrNone
    dstbuf: Buffer
    dstoff: OrNone
    cnt: Count
    depid: OrNone = NONE
    deps: OrNone = NONE
    hasdep: Flag = 0

    @property
    def src(self) -> Chunk:
        return Chunk(self.srcbuf, self.srcoff)

    @property
    def dst(self) -> Chunk:
        return Chunk(self.dstbuf, self.dstoff)

    @property
    def waits(self) -> bool:
        return self.depid != NONE


class ThreadBlock(_Part):
    """A thread block: steps executed one after another. It sends to at most one GPU and receives from at most one GPU,
    over connections of channel `chan`."""

    id: Count
    send: OrNone
    recv: OrNone
    chan: Count
    step: tuple[Step, ...]


def _by_id(parts: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(sorted(parts, key=lambda part: part.id))


class Gpu(_Part):
    """A GPU's thread blocks by number, and the number of chunks in each of its buffers."""

    id: Count
    i_chunks: Count
    o_chunks: Count
    s_chunks: Count
    tb: Annotated[tuple[ThreadBlock, ...], AfterValidator(_by_id)]


class Algo(_Part):
    """An algorithm for a collective of `ngpus` GPUs, by GPU number.

    `nchunksperloop`: number of equal chunks into which the call's message is divided; the message is the output of an
    all-gather, and the input of other collectives. A rank's number of elements must be a multiple of it. RCCL uses the
    algorithm for messages of `minBytes` to `maxBytes` (0: any size), in place and out of place as far as the file
    states; files of msccl-tools state neither.
    """

    name: str = ""
    proto: Literal["Simple", "LL", "LL128"]
    nchannels: AtLeastOne
    nchunksperloop: AtLeastOne
    ngpus: AtLeastOne
    coll: Coll | Literal["reduce_scatter"]
    inplace: Flag
    outofplace: Flag | None = None
    minBytes: Count | None = None
    maxBytes: Count | None = None
    gpu: Annotated[tuple[Gpu, ...], AfterValidator(_by_id)]

    @property
    def kind(self) -> CollectiveKind:
        return _KINDS[self.coll]

    @property
    def ways(self) -> tuple[bool, ...]:
        """The ways in which the algorithm is called: out of place (False) and in place (True)."""
        out_of_place = not self.inplace if self.outofplace is None else bool(self.outofplace)
        return tuple(way for way, is_for in ((False, out_of_place), (True, bool(self.inplace))) if is_for)

    @property
    def dialect(self) -> Iterator[str]:
        """Yield the differences between the file's root element and what RCCL's parser accepts."""
        lacked = [key for key in ("outofplace", "minBytes", "maxBytes") if getattr(self, key) is None]
        if lacked:
            yield f"it lacks {', '.join(lacked)}, which RCCL asks for"
        if self.coll == "reduce_scatter":
            yield f"its coll is {shown(self.coll)}, which RCCL calls {shown('reducescatter')}"

    @property
    def meaning(self) -> Meaning:
        """The result of the collective, chunk by chunk."""
        return Meaning(self.kind, self.ngpus, self.nchunksperloop)

    @property
    def input_chunks(self) -> int:
        """Number of chunks in a rank's input; for an all-gather its piece of the message."""
        return len(self.meaning.input(0))

    @property
    def output_chunks(self) -> int:
        """Number of chunks in a rank's output; for a reduce-scatter its piece of the message."""
        return len(self.meaning.output(0))

    @property
    def blocks(self) -> list[ThreadBlock]:
        """The thread blocks of all GPUs."""
        return [block for gpu in self.gpu for block in gpu.tb]

    @property
    def num_steps(self) -> int:
        return sum(len(block.step) for block in self.blocks)

    def too_large(self) -> str:
        """The reason why the algorithm is too large to be evaluated, "" if it is not."""
        moved = sum(step.cnt for block in self.blocks for step in block.step)
        return STEPS.fault(self.num_steps) or MOVED.fault(moved) or ""


# ── the file ──


def read_algo(path: Path) -> Algo:
    """Read an algorithm from a file. Raises InputError with the file and the position in it."""
    try:
        return parse(ALGO_FILE.read(path), str(path))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", where=str(path)) from None


def parse(data: bytes, where: str) -> Algo:
    """Parse an algorithm from the bytes of a file; `where`: name of the file in error messages."""
    from xml.etree import ElementTree

    if b"<?" in data or b"<!DOCTYPE" in data:  # so that there are no entities either
        text = "got an XML declaration or a document type, which RCCL's parser refuses; allowed: <algo first"
        raise InputError(text, where=where)
    try:
        algo: Algo = checked(_table(ElementTree.fromstring(data), 0), Algo)
        _refuse_numbers(algo)
    except ElementTree.ParseError as error:
        raise InputError(f"is no XML: {error}; allowed: an MSCCL algorithm file", where=where) from None
    except InputError as error:
        raise error.within(where) from None
    return algo


def _table(element: Element, level: int) -> dict[str, Any]:
    """Return the attributes of an element, and its child elements by name."""
    if element.tag != _LEVELS[level]:
        raise InputError(f"got an element {shown(element.tag)}; {nearest(element.tag, _LEVELS[level : level + 1])}")
    if any((text or "").strip() for text in (element.text, element.tail)):
        raise InputError(f"got text in or behind an element {element.tag}; allowed: spaces and ends of lines")
    if level == len(_LEVELS) - 1:
        return element.attrib
    return {**element.attrib, _LEVELS[level + 1]: [_table(child, level + 1) for child in element]}


def _refuse_numbers(algo: Algo) -> None:
    if [gpu.id for gpu in algo.gpu] != list(range(algo.ngpus)):
        text = f"ngpus: got {algo.ngpus}, and {len(algo.gpu)} gpu elements"
        raise InputError(f"{text}; allowed: one for each of 0 to ngpus - 1")
    if any(step.s != number for block in algo.blocks for number, step in enumerate(block.step)):
        raise InputError("s: got another number; allowed: steps counted from 0 as they stand in their thread block")
    if text := algo.too_large():
        raise InputError(text)


def xml_of(algo: Algo) -> str:
    """Return the XML text in the form that RCCL's parser accepts: no XML declaration, one element per line. Names must
    contain no characters that are special in XML, since RCCL's parser knows no entities."""
    assert not set(algo.name) & set("<>&\"'=/ \n\r\t"), algo.name
    return "\n".join(_lines(algo.model_dump(), 0)) + "\n"


def _lines(table: Mapping[str, Any], level: int) -> Iterator[str]:
    tag, inner = _LEVELS[level], (*_LEVELS, "")[level + 1]
    head = f"{'  ' * level}<{tag} " + " ".join(f'{key}="{value}"' for key, value in table.items() if key != inner)
    if not inner:
        yield f"{head}/>"
        return
    yield f"{head}>"
    for part in table[inner]:
        yield from _lines(part, level + 1)
    yield f"{'  ' * level}</{tag}>"
