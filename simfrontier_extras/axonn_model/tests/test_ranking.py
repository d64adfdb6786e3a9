"""The search over grids: what is listed, in which order, and what cannot run."""

from __future__ import annotations

from math import comb, prod

import pytest
from hypothesis import given, settings, strategies as st

from simfrontier.errors import InputError, SimfrontierError
from simfrontier.workload import MODELS, GptShape
from simfrontier_extras.axonn_model.bandwidth import load_bandwidths
from simfrontier_extras.axonn_model.grid import Grid, grids
from simfrontier_extras.axonn_model.ranking import Ranked, ranked
from simfrontier_extras.axonn_model.transformer import Transformer, transformer_of
from simfrontier_extras.axonn_model.versions import VERSIONS, VersionName

BATCH = 2048  # assumed; the batches of the published runs are not known


def transformer(name: str) -> Transformer:
    shape = MODELS[name]
    assert isinstance(shape, GptShape)
    return transformer_of(shape)


def best(entries: tuple[Ranked, ...]) -> list[tuple[int, int, int, int]]:
    return [entry.grid.sizes for entry in entries[:10]]


# ── golden orders ──


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (
            "axonn-a",
            [
                (1, 1, 1024, 1), (1, 1, 512, 2), (1, 1, 256, 4), (1, 1, 128, 8), (1, 1, 64, 16),
                (1, 2, 512, 1), (1, 4, 256, 1), (1, 4, 128, 2), (1, 2, 256, 2), (1, 4, 64, 4),
            ],
        ),
        (
            "axonn-b",
            [
                (2, 4, 32, 4), (4, 2, 32, 4), (2, 4, 16, 8), (4, 2, 16, 8), (1, 1, 128, 8),
                (2, 4, 64, 2), (4, 2, 64, 2), (1, 1, 256, 4), (2, 4, 8, 16), (4, 2, 8, 16),
            ],
        ),
    ],
)  # fmt: skip
def test_best_grids_of_80b_on_1024_a100(version: VersionName, expected: list[tuple[int, ...]]) -> None:
    entries = ranked(load_bandwidths(version, "perlmutter"), transformer("gpt-80b"), 1024, BATCH, min_tensor=64)
    assert best(entries) == expected


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (
            "axonn-a",
            [
                (1, 1, 512, 1), (1, 1, 256, 2), (1, 1, 128, 4), (1, 1, 64, 8), (1, 1, 32, 16),
                (1, 2, 256, 1), (1, 2, 128, 2), (1, 2, 64, 4), (1, 2, 32, 8), (2, 1, 256, 1),
            ],
        ),
        (
            "axonn-b",
            [
                (1, 1, 32, 16), (1, 1, 64, 8), (1, 1, 16, 32), (1, 2, 32, 8), (1, 2, 16, 16),
                (2, 1, 32, 8), (2, 1, 16, 16), (1, 2, 64, 4), (1, 2, 8, 32), (2, 1, 64, 4),
            ],
        ),
    ],
)  # fmt: skip
def test_best_grids_of_5b_on_512_gcds(version: VersionName, expected: list[tuple[int, ...]]) -> None:
    entries = ranked(load_bandwidths(version, "frontier"), transformer("gpt-5b"), 512, BATCH, min_tensor=4)
    assert best(entries) == expected


def test_the_quirk_changes_the_order() -> None:
    with_it, without = (
        ranked(
            load_bandwidths("axonn-a", "perlmutter"), transformer("gpt-80b"), 1024, BATCH, min_tensor=64, quirk=quirk
        )
        for quirk in (True, False)
    )
    assert {entry.grid for entry in with_it} == {entry.grid for entry in without}
    assert [entry.grid for entry in with_it] != [entry.grid for entry in without]


# ── what is listed ──


@pytest.mark.parametrize("exponent", range(8))
def test_all_powers_of_two_with_the_product_are_tried(exponent: int) -> None:
    # as many as ways to put the exponent into four parts
    result = list(grids(2**exponent))
    assert len(result) == len(set(result)) == comb(exponent + 3, 3)
    assert result == sorted(result)
    assert all(prod(grid.sizes) == grid.num_devices == 2**exponent for grid in result)


@settings(max_examples=60)
@given(
    st.sampled_from(VERSIONS),
    st.sampled_from(["frontier", "perlmutter"]),
    st.sampled_from(["gpt-5b", "gpt-20b", "gpt-neox-20b", "tiny"]),
    st.integers(0, 9),
    st.integers(1, 4096),
    st.integers(0, 9),
    st.booleans(),
)
def test_listed_are_the_grids_that_the_conditions_allow_and_no_others(
    version: VersionName, machine: str, name: str, exponent: int, batch: int, least: int, quirk: bool
) -> None:
    devices, min_tensor = 2**exponent, 2 ** min(least, exponent)
    model = transformer(name)
    entries = ranked(load_bandwidths(version, machine), model, devices, batch, min_tensor=min_tensor, quirk=quirk)
    listed = [entry.grid for entry in entries]
    assert len(listed) == len(set(listed))
    for grid in grids(devices):
        x, y, z, data = grid.sizes
        assert (grid in listed) == (x * y * z >= min_tensor and batch % (data * z) == 0)
    times = [float(f"{entry.times.total_s:.11e}") for entry in entries]
    assert list(zip(times, listed, strict=True)) == sorted(zip(times, listed, strict=True))
    for entry in entries:
        x, y, z, _ = entry.grid.sizes
        divides = model.hidden % x == model.heads % y == model.vocabulary % y == 0
        if entry.runs:
            assert divides and all(
                rows % (y if normal else x) == columns % (x if normal else y) == 0
                and rows * columns // (x * y) % z == 0
                for rows, columns, normal in (
                    (3 * model.hidden, model.hidden, True),
                    (model.hidden, model.hidden, False),
                    (4 * model.hidden, model.hidden, True),
                    (model.hidden, 4 * model.hidden, False),
                )
            )
        elif divides:
            assert "weights does not divide into Z" in entry.obstacle


def test_asked_again_the_order_is_the_same() -> None:
    one, again = (ranked(load_bandwidths("axonn-b", "frontier"), transformer("gpt-40b"), 4096, BATCH) for _ in range(2))
    assert one == again


def test_equally_fast_grids_come_by_their_sizes() -> None:
    # With W bytes of weights, 16 GCDs and Y = 2 the weights' terms of Version A are the same in
    #   Z = 4, data = 2: 3 * 3/4 * W/2 / 72 + 4 * 1/2 * W/8 / 5 = W/64 + W/20 = 0.065625 W
    #   Z = 8:           3 * 7/8 * W/2 / 20                                 = 0.065625 W
    # and both cut the rows 8 ways. On 512 it is W/64 + 63/640 W = 21/320 W + 31/640 W, where sums of floats come out
    # smaller for the second.
    entries = ranked(load_bandwidths("axonn-a", "frontier"), transformer("tiny"), 16, 1024)
    tied = [entry for entry in entries if entry.grid.sizes in ((1, 2, 4, 2), (1, 2, 8, 1))]
    assert tied[0].times.total_s == pytest.approx(tied[1].times.total_s, rel=1e-14)
    assert [entry.grid.sizes for entry in tied] == [(1, 2, 4, 2), (1, 2, 8, 1)]

    entries = ranked(load_bandwidths("axonn-a", "frontier"), transformer("gpt-40b"), 512, BATCH)
    tied = [entry for entry in entries if entry.grid.sizes in ((1, 2, 4, 64), (1, 2, 8, 32))]
    assert tied[1].times.total_s < tied[0].times.total_s < tied[1].times.total_s * (1 + 1e-14)
    assert [entry.grid.sizes for entry in tied] == [(1, 2, 4, 64), (1, 2, 8, 32)]


# ── what cannot run ──


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((16, 4, 1, 1), ""),
        ((128, 1, 1, 1), "hidden = 64 does not divide into X = 128"),
        ((1, 8, 1, 1), "heads = 4 does not divide into Y = 8"),
        ((64, 4, 32, 1), "a block of 64 x 192 weights does not divide into Z = 32"),
    ],
)
def test_a_grid_must_divide_the_model(sizes: tuple[int, int, int, int], message: str) -> None:
    x, y, z, data = sizes
    assert transformer("tiny").obstacle(Grid(x=x, y=y, z=z, data=data)) == message


def test_what_cannot_run_keeps_its_place() -> None:
    # 72 heads divide into 8, not into 16; the authors' search does not ask
    entries = ranked(load_bandwidths("axonn-a", "frontier"), transformer("gpt-40b"), 512, BATCH)
    wide = [entry for entry in entries if entry.grid.y == 16]
    assert wide and {entry.obstacle for entry in wide} == {"heads = 72 does not divide into Y = 16"}
    assert not any(entry.runs for entry in wide)
    assert all(entry.runs for entry in entries if entry.grid.y <= 8 and entry.grid.x <= 8)


def test_micro_batches_must_share_the_batch_evenly() -> None:
    entries = ranked(load_bandwidths("axonn-a", "frontier"), transformer("gpt-5b"), 8, 8, accumulation=4)
    obstacles = {entry.grid.sizes: entry.obstacle for entry in entries}
    assert obstacles[1, 4, 2, 1] == ""
    assert obstacles[1, 2, 2, 2] == "batch = 8 does not divide into data x Z x accumulation = 16"


# ── no grid ──


@pytest.mark.parametrize(
    ("devices", "min_tensor", "message"),
    [
        (
            8,
            16,
            "no grid of 8 devices is allowed: X·Y·Z of at least min_tensor = 16 excludes all 20; "
            "allowed: min_tensor up to 8",
        ),
        (
            384,
            1,
            "no grid of 384 devices is allowed: sizes are powers of two, so their product is none of that; "
            "nearest number of devices: 256",
        ),
        (
            400,
            1,
            "no grid of 400 devices is allowed: sizes are powers of two, so their product is none of that; "
            "nearest number of devices: 512",
        ),
    ],
)
def test_no_grid_is_one_line_that_names_the_condition(devices: int, min_tensor: int, message: str) -> None:
    with pytest.raises(SimfrontierError) as refused:
        ranked(load_bandwidths("axonn-a", "frontier"), transformer("gpt-5b"), devices, 16, min_tensor=min_tensor)
    assert not isinstance(refused.value, InputError)
    assert str(refused.value) == message


@given(st.integers(0, 12), st.integers(1, 10_000))
def test_no_batch_leaves_nothing(exponent: int, batch: int) -> None:
    # X alone takes any batch
    entries = ranked(load_bandwidths("axonn-a", "frontier"), transformer("tiny"), 2**exponent, batch)
    assert Grid(x=2**exponent, y=1, z=1, data=1) in [entry.grid for entry in entries]
