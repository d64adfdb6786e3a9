"""Schedule checker: every plan family is clean on every engine, and the memory peak is compared with a capacity."""

import pytest
from hypothesis import given, settings, strategies as st

from simfrontier.core.program import check
from simfrontier.core.workload import Checkpointing
from tests.core.program.builders import ENGINES, mesh_of, options_of, schedule_of, zero3

MESHES = ((1, 2, 2), (2, 4, 2), (3, 4, 2))
VARIANTS = {
    **{family: options_of(family) for family in ("ddp", "zero1", "zero2", "zero3", "hsdp")},
    **{f"zeropp {v}": options_of("zeropp", hpz_version=v) for v in ("0.10.0", "0.10.2", "0.13.2")},
    "zeropp without qwz": options_of("zeropp", qwz=False),
    "zeropp without hpz": options_of("zeropp", hpz=False),
    "zeropp without qgz": options_of("zeropp", qgz=False),
    "zero-topo": options_of("zero-topo"),
    "zero-topo fp16 copy": options_of("zero-topo", second_copy="fp16"),
    "zero-topo int8 copy": options_of("zero-topo", second_copy="int8"),
    "zero-topo int8 copy of fp16": options_of("zero-topo", second_copy="int8", weight_codec="fp16"),
    "zero-topo per micro-batch": options_of("zero-topo", cross_gradients="micro_batch"),
    "zero-topo flat publish": options_of("zero-topo", publish="flat"),
    "ddp fp32 gradients": options_of("ddp", gradient_codec="fp32"),
    "hsdp by gcd": options_of("hsdp", shard=("gcd",)),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_plan_is_clean(variant: str) -> None:
    """With every engine, on meshes, with and without checkpointing and with numbers of micro-batches in turn."""
    turn = [*VARIANTS].index(variant)
    for number, (name, engine) in enumerate(ENGINES.items()):
        recomputes = (turn + number) % 2 == 1
        checkpointing: Checkpointing = "full" if recomputes else "none"
        grad_accum = 1 + (len(name) + recomputes) % 3
        schedule = schedule_of(
            VARIANTS[variant], mesh_of(*MESHES[(turn + number) % 3]), engine, grad_accum, checkpointing
        )
        assert str(check(schedule)) == "no findings", (name, checkpointing, grad_accum)


AXES = ("node", "package", "gcd")
SUBSETS = st.lists(st.sampled_from(AXES), unique=True).map(tuple)


@settings(max_examples=25, deadline=None)
@given(
    sizes=st.tuples(st.integers(1, 3), st.sampled_from([1, 2, 4]), st.integers(1, 2)),
    nesting=st.permutations(AXES).map(tuple),
    weight=SUBSETS,
    accumulator=SUBSETS,
    optimizer=SUBSETS,
    copied=st.none() | SUBSETS,
    codec=st.none() | st.just("int8:64"),
    engine=st.sampled_from(sorted(ENGINES)),
    grad_accum=st.integers(1, 3),
    checkpointing=st.sampled_from(["full", "none"]),
)
def test_any_point_of_the_lattice_is_clean(
    sizes: tuple[int, int, int],
    nesting: tuple[str, ...],
    weight: tuple[str, ...],
    accumulator: tuple[str, ...],
    optimizer: tuple[str, ...],
    copied: tuple[str, ...] | None,
    codec: str | None,
    engine: str,
    grad_accum: int,
    checkpointing: Checkpointing,
) -> None:
    options = options_of(
        "lattice",
        nesting=nesting,
        weight=tuple(set(weight) & set(optimizer)),
        accumulator=tuple(set(accumulator) & set(optimizer)),
        optimizer=optimizer,
        copy_axes=copied,
        copy_codec=None if copied is None else codec,
    )
    schedule = schedule_of(options, mesh_of(*sizes), ENGINES[engine], grad_accum, checkpointing)
    assert str(check(schedule)) == "no findings"


def test_capacity_is_held_against_the_peak() -> None:
    schedule = zero3()
    peak = check(schedule).peak
    assert peak is not None
    assert sum(holder.num_bytes for holder in peak.holders) == peak.num_bytes > peak.persistent_bytes
    assert check(schedule, capacity_bytes=peak.num_bytes).is_clean
    (finding,) = check(schedule, capacity_bytes=peak.num_bytes - 1).findings
    assert finding.rule == "memory"
    assert finding.expected == f"at most {peak.num_bytes - 1} bytes"
    assert finding.found.startswith(f"{peak.num_bytes} bytes ({peak.persistent_bytes} of them persistent; most in ")
