"""Products in tiles and waves: hand-worked times, and what no product does."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from simfrontier.machine import Matmul, load_machine
from simfrontier.machine.tiles import SHAPES, Tiles, misaligned

FREE = Tiles(start=0.0, loads=0.0)
SIZES = st.integers(1, 5000)


def test_one_full_wave_runs_at_full_rate() -> None:
    # 4 tiles of 256 × 128 on 4 units: 512 × 256 in one wave
    assert FREE.slowdown(512, 256, 64, batch=1, units=4) == 1.0


def test_one_tile_more_takes_a_wave_more() -> None:
    # 1024 × 128 are 4 tiles of 256 × 128 for 4 units; 1025 rows need a fifth and thereby a second wave. Smaller tiles
    # waste less: 17 · 2 = 34 of 64 × 64 in nine waves of 4, 36 · 4096 / (1025 · 128) = 1.124
    assert FREE.slowdown(1024, 128, 64, batch=1, units=4) == 1.0
    assert FREE.slowdown(1025, 128, 64, batch=1, units=4) == pytest.approx(36 * 64 * 64 / (1025 * 128))


def test_start_and_loads_by_hand() -> None:
    # one tile of 256 × 128 on one unit, k = 100: (100 + 25) / 100 by the start. One of 64 × 64 besides by the loads:
    # 1 + 3 · (1/64 + 1/64) = 1.09375 over 1 + 3 · (1/256 + 1/128) = 1.03515625
    law = Tiles(start=25.0, loads=3.0)
    assert law.slowdown(256, 128, 100, batch=1, units=1) == pytest.approx(1.25)
    assert law.slowdown(64, 64, 100, batch=1, units=1) == pytest.approx(1.25 * 1.09375 / 1.03515625)


def test_a_batch_fills_units_that_one_product_leaves_idle() -> None:
    alone = FREE.slowdown(128, 128, 64, batch=1, units=8)
    assert alone == 2.0  # four tiles of 64 × 64 on eight units
    assert FREE.slowdown(128, 128, 64, batch=2, units=8) == 1.0


@given(SIZES, SIZES, SIZES, st.integers(1, 64), st.integers(1, 132))
def test_nothing_is_faster_than_the_full_rate_nor_worse_than_one_tile_a_wave(
    m: int, n: int, k: int, batch: int, units: int
) -> None:
    slow = FREE.slowdown(m, n, k, batch, units)
    assert slow >= 1.0 - 1e-12
    rows, columns = SHAPES[-1]
    padded = batch * -(-m // rows) * rows * -(-n // columns) * columns
    assert slow <= (padded + units * rows * columns) / (batch * m * n) + 1e-9


@given(SIZES, SIZES, SIZES)
def test_rows_and_columns_are_alike(m: int, n: int, k: int) -> None:
    law = Tiles(start=100.0, loads=5.0)
    assert law.slowdown(m, n, k, 1, 108) == pytest.approx(law.slowdown(n, m, k, 1, 108))


@pytest.mark.parametrize(
    ("sizes", "halvings"),
    [((64, 128, 4096), 0), ((1800, 4096, 4096), 3), ((96, 64, 64), 1), ((63, 64, 64), 6), ((86, 64, 64), 5)],
)
def test_each_halving_below_64_costs(sizes: tuple[int, int, int], halvings: int) -> None:
    # 1800 = 8 · 225: three halvings from 64 to 8
    assert misaligned(0.1, *sizes) == pytest.approx(1.0 + 0.1 * halvings)


def test_tiles_take_the_place_of_the_half_edge() -> None:
    law = Matmul(peak_flops_per_s=2e12, matmul_flops_per_s=1e12, matmul_half_edge=1e6, tiles=FREE, num_compute_units=4)
    assert law.rate(512, 256, 64) == 1e12


def test_a_shipped_device_is_slower_with_few_rows_and_with_odd_heads() -> None:
    device = load_machine("a100-node").device
    assert device.matmul_rate(8192, 8192, 8192) > 0.85 * device.matmul_flops_per_s
    assert device.matmul_rate(64, 8192, 8192) < 0.6 * device.matmul_rate(8192, 8192, 8192)
    assert device.matmul_rate(8192, 1800, 8192) < 0.7 * device.matmul_rate(8192, 1792, 8192)
