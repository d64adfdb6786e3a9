"""Writing an MSCCL algorithm as the text that RCCL's parser takes: no XML declaration, one element a line."""

from __future__ import annotations

from collections.abc import Iterator

from simfrontier_extras.msccl.program import Algo, Step


def xml_of(algo: Algo) -> str:
    """The text of the file. Its names hold no character that XML or RCCL's parser, which knows no entities, takes for
    something else."""
    assert not set(algo.name) & set("<>&\"'=/ \n\r\t"), algo.name
    return "\n".join(_lines(algo)) + "\n"


def _lines(algo: Algo) -> Iterator[str]:
    yield (
        f'<algo name="{algo.name}" proto="{algo.protocol}" nchannels="{algo.num_channels}" '
        f'nchunksperloop="{algo.chunks_per_loop}" ngpus="{algo.size}" coll="{algo.coll}" '
        f'inplace="{algo.in_place:d}" outofplace="{algo.out_of_place:d}" '
        f'minBytes="{algo.min_bytes}" maxBytes="{algo.max_bytes}">'
    )
    for gpu in algo.gpus:
        chunks = f'i_chunks="{gpu.input_chunks}" o_chunks="{gpu.output_chunks}" s_chunks="{gpu.scratch_chunks}"'
        yield f'  <gpu id="{gpu.number}" {chunks}>'
        for block in gpu.thread_blocks:
            ends = f'send="{_or_none(block.send)}" recv="{_or_none(block.recv)}" chan="{block.channel}"'
            yield f'    <tb id="{block.number}" {ends}>'
            for number, step in enumerate(block.steps):
                yield _step(number, step)
            yield "    </tb>"
        yield "  </gpu>"
    yield "</algo>"


def _step(number: int, step: Step) -> str:
    block, awaited = (-1, -1) if step.after is None else step.after
    return (
        f'      <step s="{number}" type="{step.type}" srcbuf="{step.src.buffer}" srcoff="{step.src.offset}" '
        f'dstbuf="{step.dst.buffer}" dstoff="{step.dst.offset}" cnt="{step.count}" '
        f'depid="{block}" deps="{awaited}" hasdep="{step.is_awaited:d}"/>'
    )


def _or_none(peer: int | None) -> int:
    return -1 if peer is None else peer
