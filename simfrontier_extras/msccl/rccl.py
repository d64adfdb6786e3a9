"""Rules of RCCL: the sizes of its structures and messages, and what its parser takes; violations of them.

Sources, of github.com/ROCm/rccl: `src/include/msccl/msccl_struct.h` at b463f536 (steps, thread blocks, counts, widths
of fields), `src/include/msccl/msccl_parser.h` at afd26774 (nodes), `src/misc/msccl/msccl_parser.cc` at 4bb0b4a3
(mscclGetAlgoFromXmlFile: rules), `src/device/msccl_kernel_impl.h` at 011110de (how steps and waits are counted);
`src/misc/msccl/msccl_setup.cc` (mscclSetupCount), `src/init.cc` (computeBuffSizes) and `src/include/device.h` at
0cbce2a7 (sizes of messages).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import Final

from simfrontier_extras.msccl.program import NONE, READS, RECEIVES, SENDS, WRITES, Algo, Chunk, Gpu, Step, ThreadBlock

MAX_STEPS: Final = 64  # MSCCL_MAX_NUM_STEPS, of a thread block; before 0088a127: 256
MAX_THREAD_BLOCKS: Final = 64  # MSCCL_MAX_NUM_THREAD_BLOCKS, of a GPU; before: 32 for each channel
MAX_PEERS: Final = 32  # MSCCL_MAX_NUM_THREAD_BLOCKS_PER_CHANNEL: thread blocks of a GPU that send on one channel
MAX_COUNT: Final = 71  # below MSCCL_MAX_COUNT
MAX_OFFSET: Final = (1 << 15) - 1  # mscclTransmission::srcOffset is an int16_t
MAX_NODES: Final = 4_095  # below MSCCL_MAX_NODES: the algo, all gpus, and one GPU's thread blocks and steps
MAX_SUBS: Final = 1_024  # MSCCL_MAX_SUBS: GPUs of an algo
MAX_FUSED: Final = 16  # MSCCL_MAX_REDUCE_FUSION
SLOTS: Final = {"Simple": 2, "LL": 8, "LL128": 8}
"""Messages that a connection holds: of NCCL_STEPS = 8 places each takes MSCCL_CHUNKSTEPS = 4 by protocol Simple, and 1
by the others."""
MESSAGE_BYTES: Final = {"Simple": 2 << 20, "LL": 16 << 10, "LL128": 50_176}
"""The largest message: what is data in the places that it takes, of a buffer of the default size (NCCL_BUFFSIZE,
NCCL_LL_BUFFSIZE, NCCL_LL128_BUFFSIZE): all of 4 of the 8 places of 4 MiB by protocol Simple; half of one of 256 KiB by
LL, whose flags are the other half; 7 of 8 words of one of 448 KiB by LL128."""
MAX_FINDINGS: Final = 20


def chunks_per_message(algo: Algo) -> tuple[int, int]:
    """Return the number of chunks of a step that RCCL puts into one message (maxAllowedCount), for the largest and for
    the smallest calls for which it uses the algorithm. The size of a call is a multiple of the number of chunks, and a
    chunk is an integer number of bytes."""
    room, num_chunks = MESSAGE_BYTES[algo.proto], algo.nchunksperloop
    smallest = max(1, -(-(algo.minBytes or 0) // num_chunks))
    largest = max(smallest, algo.maxBytes // num_chunks if algo.maxBytes else room)
    return min(MAX_COUNT, max(1, room // largest)), min(MAX_COUNT, max(1, room // smallest))


def faults(algo: Algo) -> list[str]:
    """Return faults that keep RCCL from running an algorithm as it is written; at most 20."""
    found = chain(
        _of_algo(algo),
        *(_of_gpu(gpu) for gpu in algo.gpu),
        *(_of_block(algo, gpu, block) for gpu in algo.gpu for block in gpu.tb),
    )
    return list(islice(found, MAX_FINDINGS))


def refusals(algo: Algo) -> list[str]:
    """Return the reasons for which RCCL refuses an algorithm that could be run: its file's dialect, and sizes beyond
    RCCL's structures; at most 20."""
    many = [f"{algo.ngpus} GPUs; RCCL takes up to {MAX_SUBS}"] if algo.ngpus > MAX_SUBS else []
    found = chain(algo.dialect, many, *(_too_large(algo, gpu) for gpu in algo.gpu))
    return list(islice(found, MAX_FINDINGS))


def _too_large(algo: Algo, gpu: Gpu) -> Iterator[str]:
    at, blocks = f"gpu {gpu.id}", gpu.tb
    if len(blocks) > MAX_THREAD_BLOCKS:
        yield f"{at}: {len(blocks)} thread blocks; RCCL takes up to {MAX_THREAD_BLOCKS}"
    nodes = 1 + algo.ngpus + len(blocks) + sum(len(block.step) for block in blocks)
    if nodes > MAX_NODES:
        yield f"{at}: {nodes} elements to read for it; RCCL takes up to {MAX_NODES}"
    for verb, ends in _connections(blocks):
        for channel in sorted({channel for channel, _ in ends}):
            num = sum(1 for other, _ in ends if other == channel)
            if num > MAX_PEERS:
                yield f"{at}: {num} thread blocks {verb} others on channel {channel}; RCCL takes up to {MAX_PEERS}"
    for block in blocks:
        if len(block.step) > MAX_STEPS:
            yield f"{at}, thread block {block.id}: {len(block.step)} steps; RCCL takes up to {MAX_STEPS}"


def _of_algo(algo: Algo) -> Iterator[str]:
    if algo.kind != "all_reduce" and algo.nchunksperloop % algo.ngpus:
        yield f"nchunksperloop {algo.nchunksperloop} is no multiple of the {algo.ngpus} GPUs, whose pieces are equal"
    if not algo.ways:
        yield "is neither for calls in place nor for others, so that it is never taken"
    if algo.maxBytes and algo.maxBytes < (algo.minBytes or 0):
        yield f"maxBytes {algo.maxBytes} is less than minBytes {algo.minBytes}, so that it is never taken"


def _of_gpu(gpu: Gpu) -> Iterator[str]:
    at = f"gpu {gpu.id}"
    blocks = gpu.tb
    if [block.id for block in blocks] != list(range(len(blocks))):
        yield f"{at}: its thread blocks are not numbered from 0 on without a gap"
    if not blocks:
        yield f"{at}: has no thread block"
    for verb, ends in _connections(blocks):
        for channel, peer in sorted({end for end in ends if ends.count(end) > 1}):
            yield f"{at}: several thread blocks {verb} gpu {peer} on channel {channel}"


def _connections(blocks: tuple[ThreadBlock, ...]) -> tuple[tuple[str, list[tuple[int, int]]], ...]:
    """Return the ends of connections of a GPU's thread blocks, sending and receiving, as (channel, peer)."""
    return (
        ("send to", [(block.chan, block.send) for block in blocks if block.send != NONE]),
        ("receive from", [(block.chan, block.recv) for block in blocks if block.recv != NONE]),
    )


def _of_block(algo: Algo, gpu: Gpu, block: ThreadBlock) -> Iterator[str]:
    at = f"gpu {gpu.id}, thread block {block.id}"
    for name, peer in (("send", block.send), ("recv", block.recv)):
        if peer == gpu.id or not NONE <= peer < algo.ngpus:
            yield f"{at}: {name} {peer} is no other GPU of 0 to {algo.ngpus - 1}"
    if not 0 <= block.chan < algo.nchannels:
        yield f"{at}: channel {block.chan} is none of 0 to {algo.nchannels - 1}"
    numbers = {other.id: len(other.step) for other in gpu.tb}
    for number, step in enumerate(block.step):
        for text in _of_step(algo, gpu, block, step, numbers):
            yield f"{at}, step {number} ({step.type}): {text}"
    yield from _of_waits(at, block)
    yield from _of_fusion(at, block)


def _of_step(algo: Algo, gpu: Gpu, block: ThreadBlock, step: Step, numbers: dict[int, int]) -> Iterator[str]:
    if step.type in SENDS and block.send == NONE:
        yield "sends, in a thread block that sends to nobody"
    if step.type in RECEIVES and block.recv == NONE:
        yield "receives, in a thread block that receives from nobody"
    if step.waits and not 0 <= step.deps < numbers.get(step.depid, 0):
        yield f"waits for step {step.deps} of thread block {step.depid}, which is not there"
    if step.type == "nop":
        return
    if not 1 <= step.cnt <= MAX_COUNT:
        yield f"{step.cnt} chunks; allowed: 1 to {MAX_COUNT}"
    for is_used, end, name in ((step.type in READS, step.src, "src"), (step.type in WRITES, step.dst, "dst")):
        if is_used and (text := _beyond(algo, gpu, end, step.cnt)):
            yield f"{name} {text}"


def _beyond(algo: Algo, gpu: Gpu, end: Chunk, count: int) -> str:
    stated, real = {
        "i": (gpu.i_chunks, algo.input_chunks),
        "o": (gpu.o_chunks, algo.output_chunks),
        "s": (gpu.s_chunks, gpu.s_chunks),
    }[end.buffer]
    last = end.offset + count - 1
    if end.offset < 0 or last >= min(stated, real):
        return f"{end.buffer} {end.offset} to {last} is not within its {min(stated, real)} chunks"
    return f"{end.buffer} {last} is beyond {MAX_OFFSET}, RCCL's last" if last > MAX_OFFSET else ""


def _of_waits(at: str, block: ThreadBlock) -> Iterator[str]:
    """Yield faults of waits. RCCL attributes the wait of a `nop` to the next step that is not a `nop`, and does not
    count a `nop` without a wait."""
    waiting = False
    for number, step in enumerate(block.step):
        if step.type == "nop" and not step.waits:
            yield f"{at}, step {number} (nop): waits for nothing, and is not counted as a step"
        if waiting and not step.waits and step.type != "nop":
            yield f"{at}, step {number} ({step.type}): the step after a nop that waits has to wait, too"
        waiting = step.type == "nop"
    if waiting:
        yield f"{at}, step {len(block.step) - 1} (nop): nothing follows that could wait"


def _of_fusion(at: str, block: ThreadBlock) -> Iterator[str]:
    """Yield faults of fused steps. RCCL fuses adjacent `re` steps with the same target into one, with the number of
    chunks of the last of them."""
    first, num = None, 0
    for number, step in enumerate(block.step):
        joins = first is not None and step.type == "re" and not step.waits and num < MAX_FUSED
        if joins and first is not None and (step.dst, step.src.buffer) == (first.dst, first.src.buffer):
            if step.cnt != first.cnt:
                yield f"{at}, step {number} (re): {step.cnt} chunks, but {first.cnt} in the step it is joined to"
            num += 1
        elif step.type == "re":
            first, num = step, 1
        elif step.type != "nop":
            first = None
        if step.hasdep:
            first = None
