"""Every algorithm of collectives becomes a file that computes the collective by the transfers of its lowering."""

from __future__ import annotations

from math import gcd

import pytest

from simfrontier.core.collectives import Lowered, lower
from simfrontier.core.program import CollectiveKind
from simfrontier_extras.msccl.evaluate import Run, verdict
from simfrontier_extras.msccl.from_lowered import algo_of
from simfrontier_extras.msccl.program import Algo, Chunk, parse, xml_of
from simfrontier_extras.msccl.rccl import MAX_STEPS, faults, refusals
from simfrontier_extras.msccl.tests.made import keys, lowered, made
from simfrontier_extras.msccl.tests.played import plays
from tests.core.collectives.lowering_runs import PAIRS, recipe

Sent = dict[tuple[int, int, int], list[tuple[int, int]]]


@pytest.mark.parametrize(("algorithm", "kind"), PAIRS)
def test_what_is_right_is_right_on_numbers_in_any_order(algorithm: str, kind: CollectiveKind) -> None:
    for key in keys([2, 3, 4, 6]):
        if key[:2] == (algorithm, kind):
            assert plays(made(key), times=3), key


@pytest.mark.parametrize(("algorithm", "kind"), PAIRS)
def test_every_size_is_right_and_sends_what_the_lowering_sends(algorithm: str, kind: CollectiveKind) -> None:
    for key in keys([2, 3, 4, 5, 6, 8, 9]):
        if key[:2] != (algorithm, kind):
            continue
        assert verdict(made(key)).findings == (), key
        read = parse(xml_of(made(key)).encode(), "a file")
        assert read == made(key)
        run = Run(read, in_place=False, most=1)
        whole, unit = sent_by(lowered(key)), unit_of(lowered(key))
        wanted = {line: [(chunk // unit, who) for chunk, who in all_of[::unit]] for line, all_of in whole.items()}
        assert run.messages == wanted, key
        assert sum(run.sent_chunks) * unit == sum(map(len, whole.values()))


def sent_by(lowered: Lowered) -> Sent:
    """What goes over each connection by the transfers one after the other: (chunk of the message, whose sums)."""
    channels = {number: place for place, number in enumerate(sorted({each.channel for each in lowered.transfers}))}
    lines: list[dict[int, tuple[int, int]]] = [
        {
            chunk: (chunk, 1 << member)
            for chunk in range(lowered.num_message_chunks)
            if lowered.kind != "all_gather" or chunk // lowered.parts == member
        }
        for member in range(lowered.size)
    ]
    sent: Sent = {}
    for each in lowered.transfers:
        for at in range(each.count):
            what = lines[each.src][each.chunk + at]
            if each.src != each.dst:
                sent.setdefault((each.src, each.dst, channels[each.channel]), []).append(what)
            if each.add:
                there = lines[each.dst][each.to + at]
                lines[each.dst][each.to + at] = (there[0], there[1] | what[1])
            else:
                lines[each.dst][each.to + at] = what
    return sent


def unit_of(lowered: Lowered) -> int:
    """Chunks that always move together."""
    numbers = [number for each in lowered.transfers for number in (each.chunk, each.to, each.count)]
    whole = lowered.num_message_chunks if lowered.kind == "all_reduce" else lowered.parts
    return gcd(whole, len(lowered.like), *numbers)


def test_a_ring_is_what_one_would_write_by_hand() -> None:
    # All-reduce of 4 in a ring, a message of 4 chunks. GPU g passes its chunk g - 1 on first. What GPU g receives as
    # the k-th message is chunk g - 2 - k (mod 4):
    #
    #   step   0        1          2          3             4             5             6
    #          send     receive, add own, send on           keep and send on            receive
    #   gpu 0  i3       i2         i1         i0 -> o0      o3            o2            o1
    #   gpu 1  i0       i3         i2         i1 -> o1      o0            o3            o2
    #
    # The third message that is added to (step 3) is complete: it is kept in the output, and goes around as it is.
    algo = algo_of(lower("all_reduce", recipe("ring", 4)), "by-hand")
    kinds = ("s", "rrs", "rrs", "rrcs", "rcs", "rcs", "r")
    for gpu in algo.gpu:
        (block,) = gpu.tb
        assert (block.send, block.recv, block.chan) == ((gpu.id + 1) % 4, (gpu.id - 1) % 4, 0)
        assert [step.type for step in block.step] == list(kinds)
        chunks = [(gpu.id - 1 - step) % 4 for step in range(7)]
        read = [Chunk("i", chunk) for chunk in chunks[:4]]
        written = [Chunk("o", chunk) for chunk in chunks[3:]]
        assert [step.src for step in block.step[:4]] == read
        assert [step.dst for step in block.step[3:]] == written
        assert all(step.cnt == 1 and not step.waits and not step.hasdep for step in block.step)
    assert (algo.nchunksperloop, algo.nchannels, algo.ways) == (4, 1, (False, True))
    assert verdict(algo).sent_chunks == (6, 6, 6, 6)  # 2 (n - 1) chunks of n: 1.5 times the message


def test_rings_of_up_to_32_gpus_fit_into_a_thread_block() -> None:
    # 2 (n - 1) sends and as many receives, of which all but one each are one step: 2 n - 1 steps
    fits = algo_of(lower("all_reduce", recipe("ring", 32)), "fits")
    assert [*faults(fits), *refusals(fits)] == [] and steps_of(fits) == 63 <= MAX_STEPS
    beyond = algo_of(lower("all_reduce", recipe("ring", 33)), "beyond")
    assert refusals(beyond)[0] == "gpu 0, thread block 0: 65 steps; RCCL takes up to 64"


def steps_of(algo: Algo) -> int:
    return max(len(block.step) for gpu in algo.gpu for block in gpu.tb)
