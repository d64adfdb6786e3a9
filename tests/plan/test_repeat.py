"""Schedules of many micro-batches, built of few, equal those of which every micro-batch was built."""

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from simfrontier.plan import Engine, to_schedule
from simfrontier.plan.repeat import repeated
from simfrontier.schedule import Schedule, digest
from tests.plan import grids
from tests.schedule.builders import ENGINES, mesh_of, options_of, schedule_of

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


def built_whole(make: Any) -> Schedule:
    """The schedule with every micro-batch built."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(to_schedule, "repeated", lambda build, num_micro: build(num_micro))
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
)


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(list(FAMILIES)),
    engines,
    st.integers(1, 12),
    st.integers(1, 3),
    st.booleans(),
)
def test_few_micro_batches_make_the_schedule_of_many(
    family: str, engine: Engine, num_micro: int, num_layers: int, checkpointing: bool
) -> None:
    def make() -> Schedule:
        options = options_of(family.split()[0], **FAMILIES[family])
        return schedule_of(options, mesh_of(2, 2, 2), engine, num_micro, checkpointing, num_layers=num_layers)

    assert digest(make()) == digest(built_whole(make))


@pytest.mark.parametrize("oar", [False, True])
def test_few_micro_batches_make_many_of_a_grid(oar: bool) -> None:
    def make() -> Schedule:
        return grids.schedule_of(grids.axonn(x=2, y=2, z=2, oar=oar), 16, micros=7)

    assert digest(make()) == digest(built_whole(make))


def test_a_middle_that_lacks_what_was_fetched_before_is_not_repeated() -> None:
    """The first hook fetches ten micro-batches ahead: only the middle ones of many fetch as much as they use."""
    counts: list[int] = []

    def make() -> Schedule:
        return schedule_of(options_of("zero3"), mesh_of(2, 2, 2), FAR_AHEAD, 40)

    def noted(build: Any, num_micro: int) -> Any:
        return repeated(lambda count: counts.append(count) or build(count), num_micro)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(to_schedule, "repeated", noted)
        few = make()
    assert len(counts) > 1 and counts[0] == 4
    assert digest(few) == digest(built_whole(make))
