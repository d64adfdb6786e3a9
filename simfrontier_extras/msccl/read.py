"""Reading an MSCCL algorithm file, which is not trusted: bounded, without document types and entities of its own.

Attributes that nothing here reads are passed over, as RCCL's parser does. Files of msccl-tools are read, too, though
RCCL's parser refuses them: they lack some attributes of `algo`, and call a reduce-scatter otherwise
(microsoft/msccl-tools `msccl/language/ir.py`, ir_to_xml, and `collectives.py`, at 0448b1d8).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

from simfrontier.errors import InputError, nearest, shown
from simfrontier.limits import FileLimit, Limit
from simfrontier_extras.msccl.program import BUFFERS, COLLECTIVES, PROTOCOLS, TYPES, Algo, Chunk, Gpu, Step, ThreadBlock

ALGO_FILE: Final = FileLimit(
    most_bytes=16 << 20, why="some 130 bytes a step: a ring of 32 GPUs in 16 channels takes 4 MB, 50,000 steps 7 MB"
)
STEPS: Final = Limit(most=50_000, what="steps", why="8 kB each where 4,096 thread blocks wait for each other: 400 MB")
BLOCKS: Final = Limit(most=4_096, what="thread blocks", why="every step notes which step of each block is over")
MOVED: Final = Limit(most=250_000, what="chunks in all steps", why="some 8 us each to follow, 4 to 16 times: 8 to 32 s")
PLACES: Final = Limit(most=1_000_000, what="chunks of all GPUs", why="every one is compared with what it should hold")
LARGEST: Final = 1 << 50  # of any number in such a file; sizes are in bytes
_DIGITS: Final = 17
_LEVELS: Final = ("algo", "gpu", "tb", "step")
_LACKED: Final = ("outofplace", "minBytes", "maxBytes")  # by files of msccl-tools
_REDUCE_SCATTER: Final = "reduce_scatter"  # as msccl-tools calls it

Named = TypeVar("Named", bound=str)
Attributes = Mapping[str, str]


def read_algo(path: Path) -> Algo:
    """The algorithm of a file. Raises InputError with the file and the line."""
    try:
        data = ALGO_FILE.read(path)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", where=str(path)) from None
    except ValueError as error:
        raise InputError(str(error), where=str(path)) from None
    return parse(data, str(path))


def parse(data: bytes, where: str) -> Algo:
    """The algorithm of a file's bytes; `where`: what errors call the file."""
    from xml.parsers import expat

    try:
        return _Reader(where).read(data)
    except expat.ExpatError as error:
        text = f"is no XML: {expat.ErrorString(error.code)}; allowed: an MSCCL algorithm file"
        raise InputError(text, where=f"{where}:{error.lineno}") from None


class _Reader:
    """Elements as they come: at each level the attributes of the one that is open, and what was in it so far."""

    def __init__(self, where: str) -> None:
        from xml.parsers import expat

        self.where = where
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._begin
        self.parser.EndElementHandler = self._end
        self.parser.StartDoctypeDeclHandler = self._refuse_type
        self.parser.XmlDeclHandler = self._refuse_declaration
        self.parser.ProcessingInstructionHandler = self._refuse_instruction
        self.parser.CharacterDataHandler = self._refuse_text
        self.open: list[tuple[str, Attributes]] = []
        self.steps: list[Step] = []
        self.blocks: list[ThreadBlock] = []
        self.gpus: list[Gpu] = []
        self.algo: Algo | None = None
        self.num_steps = self.num_blocks = self.num_moved = 0

    def read(self, data: bytes) -> Algo:
        self.parser.Parse(data, True)
        assert self.algo is not None, "XML that holds together has one element around all others"
        return self.algo

    def _fault(self, text: str) -> InputError:
        return InputError(text, where=f"{self.where}:{self.parser.CurrentLineNumber}")

    def _refuse_type(self, *_: object) -> None:
        raise self._fault("got a document type (<!DOCTYPE); allowed: algo, gpu, tb and step elements")

    def _refuse_declaration(self, *_: object) -> None:
        raise self._fault("got an XML declaration (<?xml), which RCCL's parser refuses; allowed: <algo first")

    def _refuse_instruction(self, *_: object) -> None:
        raise self._fault("got a processing instruction (<?), which RCCL's parser refuses; allowed: elements")

    def _refuse_text(self, text: str) -> None:
        rest = text.strip(" \r\n")
        if rest:
            raise self._fault(f"got {shown(rest)} between elements; allowed: spaces and ends of lines")

    def _begin(self, name: str, attributes: Attributes) -> None:
        level = len(self.open)
        allowed = _LEVELS[level : level + 1]
        if name not in allowed:
            raise self._fault(f"got an element {shown(name)}; {nearest(name, allowed)}")
        self.open.append((name, dict(attributes)))

    def _end(self, name: str) -> None:
        _, attributes = self.open.pop()
        match name:
            case "step":
                self._step(attributes)
            case "tb":
                self._block(attributes)
            case "gpu":
                self._gpu(attributes)
            case _:
                self.algo = self._whole(attributes)

    def _text(self, attributes: Attributes, key: str) -> str:
        if key not in attributes:
            raise self._fault(f"lacks the attribute {key}, which RCCL asks for")
        return attributes[key]

    def _int(self, attributes: Attributes, key: str, least: int = 0) -> int:
        text = self._text(attributes, key)
        digits = text.removeprefix("-")
        is_number = digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS
        if not is_number or not least <= int(text) <= LARGEST:
            raise self._fault(f"{key}: got {shown(text)}, allowed: a whole number from {least} to {LARGEST}")
        return int(text)

    def _one_of(self, attributes: Attributes, key: str, allowed: Sequence[Named]) -> Named:
        text = self._text(attributes, key)
        for each in allowed:
            if each == text:
                return each
        raise self._fault(f"{key}: got {shown(text)}; {nearest(text, allowed)}")

    def _peer(self, attributes: Attributes, key: str) -> int | None:
        number = self._int(attributes, key, least=-1)
        return None if number < 0 else number

    def _bool(self, attributes: Attributes, key: str) -> bool:
        return self._one_of(attributes, key, ("0", "1")) == "1"

    def _count(self, limit: Limit, got: int) -> None:
        if fault := limit.fault(got):
            raise self._fault(fault)

    def _step(self, attributes: Attributes) -> None:
        number = self._int(attributes, "s")
        if number != len(self.steps):
            raise self._fault(f"s: got {number}, allowed: {len(self.steps)}, because steps are counted as they stand")
        block, awaited = self._int(attributes, "depid", least=-1), self._int(attributes, "deps", least=-1)
        step = Step(
            type=self._one_of(attributes, "type", TYPES),
            src=self._chunk(attributes, "src"),
            dst=self._chunk(attributes, "dst"),
            count=self._int(attributes, "cnt"),
            after=None if block < 0 else (block, awaited),
            is_awaited=self._bool(attributes, "hasdep"),
        )
        self.steps.append(step)
        self.num_steps += 1
        self.num_moved += step.count
        self._count(STEPS, self.num_steps)
        self._count(MOVED, self.num_moved)

    def _chunk(self, attributes: Attributes, end: str) -> Chunk:
        return Chunk(self._one_of(attributes, f"{end}buf", BUFFERS), self._int(attributes, f"{end}off", least=-1))

    def _block(self, attributes: Attributes) -> None:
        block = ThreadBlock(
            number=self._int(attributes, "id"),
            send=self._peer(attributes, "send"),
            recv=self._peer(attributes, "recv"),
            channel=self._int(attributes, "chan"),
            steps=tuple(self.steps),
        )
        self.steps = []
        self.blocks.append(block)
        self.num_blocks += 1
        self._count(BLOCKS, self.num_blocks)

    def _gpu(self, attributes: Attributes) -> None:
        gpu = Gpu(
            number=self._int(attributes, "id"),
            input_chunks=self._int(attributes, "i_chunks"),
            output_chunks=self._int(attributes, "o_chunks"),
            scratch_chunks=self._int(attributes, "s_chunks"),
            thread_blocks=tuple(sorted(self.blocks, key=lambda block: block.number)),
        )
        self.blocks = []
        self.gpus.append(gpu)
        self._count(BLOCKS, len(self.gpus))

    def _whole(self, attributes: Attributes) -> Algo:
        size = self._int(attributes, "ngpus", least=1)
        gpus = tuple(sorted(self.gpus, key=lambda gpu: gpu.number))
        if [gpu.number for gpu in gpus] != list(range(len(gpus))) or len(gpus) != size:
            raise self._fault(
                f"ngpus: got {size}, and {len(gpus)} gpu elements; allowed: one for each of 0 to ngpus - 1"
            )
        chunks = self._int(attributes, "nchunksperloop", least=1)
        self._count(PLACES, chunks * size)
        lacked = [key for key in _LACKED if key not in attributes]
        dialect = [f"it lacks {', '.join(lacked)}, which RCCL asks for"] if lacked else []
        coll = attributes.get("coll", "")
        if coll == _REDUCE_SCATTER:
            dialect.append(f"its coll is {shown(coll)}, which RCCL calls {shown('reducescatter')}")
            attributes = {**attributes, "coll": "reducescatter"}
        in_place = self._bool(attributes, "inplace")
        return Algo(
            name=attributes.get("name", ""),
            coll=self._one_of(attributes, "coll", COLLECTIVES),
            protocol=self._one_of(attributes, "proto", PROTOCOLS),
            num_channels=self._int(attributes, "nchannels", least=1),
            chunks_per_loop=chunks,
            in_place=in_place,
            out_of_place=self._bool(attributes, "outofplace") if "outofplace" in attributes else not in_place,
            min_bytes=self._int(attributes, "minBytes") if "minBytes" in attributes else 0,
            max_bytes=self._int(attributes, "maxBytes") if "maxBytes" in attributes else None,
            gpus=gpus,
            dialect=tuple(dialect),
        )
