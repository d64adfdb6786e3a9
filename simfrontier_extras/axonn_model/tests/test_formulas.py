"""AxoNN's analytical model: both versions' formulas on cases worked by hand, and how they depend on what goes in."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simfrontier_extras.axonn_model.formulas import (
    VERSIONS,
    CommTimes,
    Grid,
    Transformer,
    VersionName,
    comm_times,
    load_bandwidths,
)

MACHINES = ("frontier", "perlmutter")

# One layer of h = 1024 with 1024 tokens a step (batch 8, sequence 128): every volume below is a small multiple of
# h² = 2^20 elements, M = 2 MiB = 2/1024 GiB in BF16. In units of M, before the shares (p-1)/p:
#   weights: qkv 3, projection 1, up 4, down 4; rows (batch/(data z) sequence = r): r h = r/1024 of M
SMALL = Transformer(num_layers=1, hidden=1024, heads=16, vocabulary=1024, sequence=128, intermediate=4096)
M = 2 / 1024


def predicted(
    version: VersionName, machine: str, sizes: tuple[int, int, int, int], quirk: bool = True, accumulation: int = 1
) -> CommTimes:
    x, y, z, data = sizes
    grid = Grid(x=x, y=y, z=z, data=data)
    return comm_times(load_bandwidths(version, machine), SMALL, grid, 8, quirk=quirk, accumulation=accumulation)


def assert_parts(times: CommTimes, *, x: float = 0.0, y: float = 0.0, z: float = 0.0, data: float = 0.0) -> None:
    got = (times.x_s, times.y_s, times.z_s, times.data_s, times.total_s)
    assert got == pytest.approx((x, y, z, data, x + y + z + data), rel=1e-9, abs=0.0)


# ── Version A ──


@pytest.mark.parametrize(("machine", "gib_per_s"), [("perlmutter", 80.0), ("frontier", 135.0)])
def test_version_a_along_z_alone_counts_every_accumulation_step(machine: str, gib_per_s: float) -> None:
    # 3 * 7/8 * 12 M = 31.5 M over bw(1, 8); three micro-batches move it three times
    assert_parts(predicted("axonn-a", machine, (1, 1, 8, 1)), z=31.5 * M / gib_per_s)
    assert_parts(predicted("axonn-a", machine, (1, 1, 8, 1), accumulation=3), z=94.5 * M / gib_per_s)


@pytest.mark.parametrize(
    ("machine", "bw_x", "bw_y", "bw_z", "bw_data"),
    # bw(1, 2), bw(2, 4), bw(8, 2), bw(16, 2)
    [("perlmutter", 76.0, 40.0, 20.0, 20.0), ("frontier", 129.0, 72.0, 5.0, 5.0)],
)
@pytest.mark.parametrize("quirk", [True, False])
def test_version_a_along_all_four(
    machine: str, bw_x: float, bw_y: float, bw_z: float, bw_data: float, quirk: bool
) -> None:
    # x = 2, y = 4, z = 2, data = 2: r = 8/4 * 128 = 256 rows, so r h = M/4.
    # data: 4 * 1/2 * 12/16 = 1.5; z: 3 * 1/2 * 12/8 = 2.25
    # x, normal (output over y = 4): 4 * 1/2 * (3 + 4) * 1/4 / 4 = 0.875
    # x, transposed (input over y = 4): 2 * 1/2 * (1 + 4) * 1/4 / 4 = 0.3125, with the quirk (1 + 1): 0.125
    # y, normal (input over x = 2): 2 * 3/4 * (1 + 1) * 1/4 / 2 = 0.375
    # y, transposed (output over x = 2): 4 * 3/4 * (1 + 1) * 1/4 / 2 = 0.75, with the quirk (1 + 4): 1.875
    x, y = (0.875 + 0.125, 0.375 + 1.875) if quirk else (0.875 + 0.3125, 0.375 + 0.75)
    assert_parts(
        predicted("axonn-a", machine, (2, 4, 2, 2), quirk=quirk),
        x=x * M / bw_x,
        y=y * M / bw_y,
        z=2.25 * M / bw_z,
        data=1.5 * M / bw_data,
    )


# ── Version B ──

LATENCY_S = {"perlmutter": 9e-6, "frontier": 39e-6}


@pytest.mark.parametrize(
    ("machine", "bw_1_2", "bw_2_4", "bw_1_4", "bw_4_2", "bw_8"),
    # between nodes 59.52 / min(4, inner) and 109.98 / min(8, inner)
    [("perlmutter", 76.0, 29.76, 225.0, 14.88, 14.88), ("frontier", 129.0, 72.0, 52.0, 36.0, 13.7475)],
)
@pytest.mark.parametrize("quirk", [True, False])
def test_version_b_nests_the_other_way_in_transposed_layers(
    machine: str, bw_1_2: float, bw_2_4: float, bw_1_4: float, bw_4_2: float, bw_8: float, quirk: bool
) -> None:
    # x = 2, y = 4, z = 2, data = 2, r h = M/4. Normal layers look up bw(1, x) and bw(x, y), transposed ones bw(1, y)
    # and bw(y, x); z and data stand outside both: bw(8, 2), bw(16, 2).
    # data: 4 * 1/2 * 12/16 = 1.5; z: 3 * 1/2 * 12/8 = 2.25; four layers' latency of 2 ranks each: 8 a
    # x, normal: 2 * 1/2 * (3 + 4)/4/4 = 0.4375; transposed (input over y): 2 * 1/2 * (1 + 4)/4/4 = 0.3125, quirk 0.125
    # y, normal: 2 * 3/4 * (1 + 1)/4/2 = 0.375; transposed (output over x): 2 * 3/4 * (1 + 1)/4/2 = 0.375, quirk
    # 2 * 3/4 * (1 + 4)/4/2 = 0.9375
    a = LATENCY_S[machine]
    x, y = (0.125, 0.9375) if quirk else (0.3125, 0.375)
    assert_parts(
        predicted("axonn-b", machine, (2, 4, 2, 2), quirk=quirk),
        x=8 * a + 0.4375 * M / bw_1_2 + x * M / bw_4_2,
        y=16 * a + 0.375 * M / bw_2_4 + y * M / bw_1_4,
        z=8 * a + 2.25 * M / bw_8,
        data=8 * a + 1.5 * M / bw_8,
    )


def test_a_llama_has_narrower_keys_and_two_layers_up() -> None:
    # z = 2: 3 * 1/2 of the weights of each layer, over bw(1, 2) = 129, and two ranks' latency. h = 1024, f = 2048:
    # qkv 1024 * (1024 + 2 * 1024 // 10 = 1228), projection 1024², up 2 * 1024 * 2048, down 2048 * 1024; latency of
    # five layers
    llama = replace(SMALL, intermediate=2048, gqa=10, swiglu=True)
    times = comm_times(load_bandwidths("axonn-b", "frontier"), llama, Grid(x=1, y=1, z=2, data=1), 8)
    elements = 1024 * 1228 + 1024**2 + 3 * 1024 * 2048
    assert_parts(times, z=10 * 39e-6 + 1.5 * elements * 2 / 1024**3 / 129.0)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("machine", MACHINES)
def test_one_device_communicates_nothing(version: VersionName, machine: str) -> None:
    assert predicted(version, machine, (1, 1, 1, 1)) == CommTimes(data_s=0.0, z_s=0.0, y_s=0.0, x_s=0.0)
