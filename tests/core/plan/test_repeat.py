"""Schedules of many layers and micro-batches, built from few, equal those built in full; on other meshes, those built
there."""

from typing import Any

import pytest
from hypothesis import example, given, settings, strategies as st

from simfrontier.core.plan import Engine, build, make_plan, rebound, rebound_program, to_schedule
from simfrontier.core.plan.program import Compressor
from simfrontier.core.program import Schedule, digest, expand
from simfrontier.core.workload import Checkpointing, find_model, gpt
from tests.core.program.builders import ENGINES, mesh_of, options_of, schedule_of

FAMILIES: dict[str, dict[str, Any]] = {
    "ddp": {},
    "zero2": {},
    "zero3": {},
    "hsdp": {},
    "zeropp": {},
    "zeropp 0.10.0": {"hpz_version": "0.10.0"},
    "zeropp 0.10.2": {"hpz_version": "0.10.2"},
    "zero-topo": {"pipelined": True},
    "zero-topo int8": {"second_copy": "int8", "cross_gradients": "micro_batch"},
}
FAR_AHEAD = Engine(persistence_elements=0, prefetch_elements=1_000_000, outstanding_fetches=60)
# No hook waits before the fourth micro-batch: then for a fetch of the first.
LATE_WAITS = Engine(persistence_elements=1000, prefetch_elements=0, live_elements=1000, outstanding_fetches=40)


def built_whole(make: Any) -> Schedule:
    """The schedule with every layer and micro-batch built."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(to_schedule, "repeated", lambda build, num_micro, _: build(num_micro))
        patched.setattr(to_schedule, "repeated_layers", lambda build, num_layers, *_: build(num_layers, Compressor()))
        schedule: Schedule = make()
        return schedule


engines = st.sampled_from([*ENGINES.values(), FAR_AHEAD]) | st.builds(
    Engine,
    persistence_elements=st.sampled_from([0, 1000]),
    prefetch_elements=st.sampled_from([0, 1000, 20_000, 1_000_000]),
    live_elements=st.sampled_from([1000, 60_000, 1_000_000]),
    reuse_elements=st.sampled_from([0, 10_000, 1_000_000]),
    reduce_bucket_elements=st.sampled_from([1, 30_000, 1_000_000]),
    outstanding_fetches=st.sampled_from([1, 5, 40]),
    granularity=st.sampled_from(["module", "layer"]),
    overlap=st.booleans(),
    step_reduction=st.sampled_from(["overlap", "end"]),
    synchronise=st.sampled_from(["never", "experts", "layer"]),
    copies=st.sampled_from(["collective", "compute"]),
)


@settings(max_examples=15, deadline=None)
@example("zero3", LATE_WAITS, 5, 1, "none")
@given(
    st.sampled_from(list(FAMILIES)),
    engines,
    st.integers(1, 12),
    st.integers(1, 3),
    st.sampled_from(["full", "selective", "none"]),
)
def test_few_micro_batches_make_the_schedule_of_many(
    family: str, engine: Engine, num_micro: int, num_layers: int, checkpointing: Checkpointing
) -> None:
    def make() -> Schedule:
        options = options_of(family.split()[0], **FAMILIES[family])
        return schedule_of(options, mesh_of(2, 2, 2), engine, num_micro, checkpointing, num_layers=num_layers)

    assert digest(make()) == digest(built_whole(make))


@settings(max_examples=4, deadline=None)
@given(
    st.sampled_from(list(FAMILIES)),
    st.builds(
        Engine,
        persistence_elements=st.sampled_from([0, 1000]),
        prefetch_elements=st.sampled_from([0, 1000, 20_000, 200_000]),
        live_elements=st.sampled_from([60_000, 1_000_000]),
        reuse_elements=st.sampled_from([0, 60_000]),
        reduce_bucket_elements=st.sampled_from([1, 30_000, 100_000, 1_000_000]),
        gather_bucket_elements=st.sampled_from([20_000, 100_000, 1_000_000]),
        outstanding_fetches=st.sampled_from([1, 2, 40, 70, 200]),
        granularity=st.sampled_from(["module", "layer"]),
        overlap=st.booleans(),
        step_reduction=st.sampled_from(["overlap", "end"]),
        synchronise=st.sampled_from(["never", "experts", "layer"]),
        copies=st.sampled_from(["collective", "compute"]),
    ),
    st.integers(35, 42),
    st.integers(1, 2),
    st.sampled_from(["full", "selective", "none"]),
)
def test_few_layers_make_the_schedule_of_many(
    family: str, engine: Engine, num_layers: int, num_micro: int, checkpointing: Checkpointing
) -> None:
    def make() -> Schedule:
        options = options_of(family.split()[0], **FAMILIES[family])
        return schedule_of(options, mesh_of(2, 2, 2), engine, num_micro, checkpointing, num_layers=num_layers)

    assert digest(make()) == digest(built_whole(make))


SHAPE = find_model("gpt-neox-20b")
NAMED = ("ddp", "zero1", "zero2", "zero3", "hsdp", "zeropp", "zero-topo")


@pytest.mark.parametrize("family", NAMED)
def test_rebound_equals_built(family: str) -> None:
    options = options_of(family)
    small, large = mesh_of(2, 4, 2), mesh_of(48, 4, 2)
    built = {}
    for mesh, batch in ((small, small.num_ranks), (large, 3 * large.num_ranks)):
        work = gpt(SHAPE, batch, checkpointing="full")
        built[mesh] = build(work, make_plan(family, options, mesh), mesh, Engine())
    other = rebound(built[small], large, 3 * large.num_ranks)
    assert digest(other) == digest(built[large])
    program = rebound_program(expand(built[small], built[small].roles[0]), other)
    fresh = expand(built[large], built[large].roles[0])
    assert program.waits == fresh.waits
    assert program.ops == fresh.ops
    assert program.calls == fresh.calls
