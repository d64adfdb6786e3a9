"""Gradients that are reduced one by one: none before its bucket is full, and what their calls hold up."""

from __future__ import annotations

import pytest

from simfrontier.core.engine import SimulatedStep
from simfrontier.core.plan import Engine
from simfrontier.core.program import Collective, Ref, check, is_product
from tests.core.engine.steps import frontier_mesh, schedule, step


def of(family: str, nodes: int = 4, **engine: object) -> SimulatedStep:
    """A step of four layers of the 20B model, each of 453 million elements: a bucket holds several tensors."""
    built = schedule(family, frontier_mesh(nodes), **engine)  # type: ignore[arg-type]
    assert check(built).is_clean
    return step(built)


def buckets(done: SimulatedStep) -> list[list[int]]:
    """The ops that first read gradients of a bucket, as they are issued: work of the model comes between two buckets,
    or the next gradient would not have had room."""
    out: list[list[int]] = [[]]
    total, seen = 0, set[Ref]()
    for index, op in enumerate(done.program.ops):
        fresh = [ref for ref in done.program.reads[index] if ref.name.endswith(".grad.raw") and ref not in seen]
        if op.lane == "compute" or op.kind == "hook":
            out, total = ([*out, []], 0) if out[-1] and op.lane == "compute" else (out, total)
        elif fresh:
            seen.update(fresh)
            elements = sum(done.schedule.tensors[ref.name].num_elements for ref in fresh)
            if total + elements > Engine().reduce_bucket_elements:
                out, total = [*out, []], 0
            out[-1].append(index)
            total += elements
    return [ops for ops in out if ops]


def test_no_gradient_is_reduced_before_all_of_its_bucket_are_made() -> None:
    done = of("zeropp")
    start, end = done.timeline.start[0], done.timeline.end[0]
    made = {ref: at for at, refs in enumerate(done.program.writes) for ref in refs if ref.name.endswith(".grad.raw")}
    results = buckets(done)
    for ops in results:
        makers = {made[ref] for at in ops for ref in done.program.reads[at] if ref in made}
        assert min(start[at] for at in ops) >= max(end[at] for at in makers) - 1e-12
    assert len(results) > 3 and max(map(len, results)) > 3


def held_up(done: SimulatedStep) -> int:
    """Products that are issued behind a reduction of a gradient and begin before it has ended."""
    start, end = done.timeline.start[0], done.timeline.end[0]
    ended, count = 0.0, 0
    for index, op in enumerate(done.program.ops):
        if isinstance(op, Collective) and op.name == "gradient" and op.codec.is_opaque:
            ended = max(ended, float(end[index]))
        count += is_product(op.kind) and float(start[index]) < ended - 1e-12
    return count


def test_calls_hold_their_stream_unless_they_hold_the_host() -> None:
    """Over NCCL a synchronous call holds its stream; with the host held, nothing is issued before it ends. On 48 nodes
    reductions of a bucket take longer than the products until the host comes to the next."""
    stream, host = (of("zeropp", 48, blocking=blocking) for blocking in ("stream", "host"))
    assert held_up(stream) > 0 and held_up(host) == 0
    assert stream.step_s < host.step_s


@pytest.mark.parametrize("family", ["zero3", "zeropp", "zero-topo"])
def test_nothing_is_under_way_around_a_layer_where_the_host_waits_for_the_device(family: str) -> None:
    """Embedding, four layers, head, the layers back, and the embedding back: ten boundaries, at each of which all that
    was issued has ended before anything else begins."""
    done, free = of(family, synchronise="layer"), of(family)
    start, end = done.timeline.start[0], done.timeline.end[0]
    waits = [index for index, op in enumerate(done.program.ops) if op.kind == "hook" and op.name == "synchronise"]
    assert len(waits) == 10
    for wait in waits:
        assert end[:wait].max() <= end[wait] + 1e-12 and start[wait + 1 :].min() >= end[wait] - 1e-12
    alone = of(family, overlap=False)  # less contention makes up for little: zero-topo's step is a thousandth shorter
    assert (
        0.99 * free.step_s < done.step_s < alone.step_s
        and of(family, overlap=False, synchronise="layer").step_s == alone.step_s
    )


def test_copies_into_and_out_of_buffers_take_turns_with_products() -> None:
    """FSDP2's copies are kernels of the compute lane: of gathered weights and of gradients to be reduced, none but
    these; the step is longer, at most by the time that they take."""
    beside, between = of("zero3"), of("zero3", copies="compute")
    copies = [at for at, op in enumerate(between.program.ops) if op.kind in ("permute", "encode")]
    lanes = {op.name: op.lane for at in copies for op in (between.program.ops[at],)}
    assert lanes["weight_gather"] == lanes["gradient"] == "compute"
    start, end = between.timeline.start[0], between.timeline.end[0]
    assert beside.step_s < between.step_s < beside.step_s + sum(end[at] - start[at] for at in copies)
