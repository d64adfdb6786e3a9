"""Rates of matrix products: tiles and waves by hand, and factors of the three forms of a product."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from simfrontier.core.collectives import load_library
from simfrontier.core.engine import simulate_step
from simfrontier.core.machine import Machine, MatmulForms, load_machine
from simfrontier.core.machine.device import SHAPES, Kernels, Tiles, mean_tiles, misaligned
from simfrontier.core.program import Call, Compute, Mesh, Role, Schedule, Tensor
from simfrontier.core.program.cost import MatmulForm
from simfrontier.core.program.ir import Ref
from simfrontier.core.program.placement import REPLICATE

FREE = Tiles(start=0.0, loads=0.0)
SIZES = st.integers(1, 5000)


def test_rows_by_chance_take_half_a_tile_more_than_whole_tiles() -> None:
    """Half of the products with 1,024 rows in the mean have more, and need a fifth tile of 256; 1,100 rows are more
    than two standard deviations above. 64 products by tiles of 256 x 128 on 288 units: one wave of 64 x 4.5 tiles,
    where 64 x 4 have work."""
    assert mean_tiles(1024, 256) == pytest.approx(4.5)
    assert mean_tiles(1100, 256) == pytest.approx(5.0 - 0.011, abs=1e-3)
    assert FREE.slowdown(1024, 128, 64, 64, 288, by_chance=True) == pytest.approx(4.5 / 4)


@given(st.integers(64, 20_000), st.sampled_from([64, 128, 256]))
def test_mean_tiles_lie_between_the_rows_and_a_tile_more(rows: int, tile: int) -> None:
    assert rows / tile <= mean_tiles(rows, tile) + 1e-9 <= rows / tile + 1.0


def test_fused_attention_is_slower_for_few_keys_and_narrow_heads() -> None:
    """A start as long as 4,096 keys is half of the time for as many keys, two thirds for 2,048; that of 128 features
    the same. More keys and wider heads gain nothing."""
    kernels = Kernels(attention_keys=4096.0, attention_features=128.0)
    assert kernels.attention_share(2048, 128) == pytest.approx(2 / 3)
    assert kernels.attention_share(4096, 64) == pytest.approx(2 / 3)
    assert kernels.attention_share(2048, 64) == pytest.approx(4 / 9)
    assert kernels.attention_share(8192, 256) == 1.0 == Kernels().attention_share(1, 1)


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


def test_a_shipped_device_is_slower_with_few_rows_and_with_odd_heads() -> None:
    device = load_machine("a100-node").device
    assert device.matmul_rate(8192, 8192, 8192) > 0.85 * device.matmul_flops_per_s
    assert device.matmul_rate(64, 8192, 8192) < 0.6 * device.matmul_rate(8192, 8192, 8192)
    assert device.matmul_rate(8192, 1800, 8192) < 0.7 * device.matmul_rate(8192, 1792, 8192)


FORMS: tuple[MatmulForm, ...] = ("tn", "nn", "nt")
FACTORS = st.floats(0.01, 2.0)


def test_tuned_forward_and_input_products_run_as_the_fastest_form_and_those_of_weights_as_they_are() -> None:
    plain = MatmulForms(tn=0.5, nn=0.8, nt=0.6)
    assert [plain.factor(form) for form in (*FORMS, None)] == [0.5, 0.8, 0.6, 1.0]
    tuned = MatmulForms(tn=0.5, nn=0.8, nt=0.6, tuned=True)
    assert [tuned.factor(form) for form in (*FORMS, None)] == [0.8, 0.8, 0.6, 1.0]


@given(tn=FACTORS, nn=FACTORS, nt=FACTORS)
def test_tuning_never_slows_and_leaves_equal_forms_alone(tn: float, nn: float, nt: float) -> None:
    plain, tuned = MatmulForms(tn=tn, nn=nn, nt=nt), MatmulForms(tn=tn, nn=nn, nt=nt, tuned=True)
    for form in FORMS:
        assert tuned.factor(form) >= plain.factor(form)
    assert tuned.factor("nt") == nt
    assert tuned.factor("tn") == tuned.factor("nn") in (tn, nn, nt)
    assert MatmulForms(tn=tn, nn=tn, nt=tn, tuned=True).factor("tn") == tn


# ── priced ──

EDGE = 1000


def product(first: str, second: str, m: str, n: str, k: str, *, per_layer: bool = True) -> Schedule:
    """One product of edge 1000 on one rank, in a layer or outside the layers; m, n and k are one label each."""
    tensors = {
        name: Tensor(
            name=name,
            shape=(EDGE, EDGE),
            dtype="fp16",
            role="activation",
            placement=REPLICATE,
            dims=tuple(dims),
            per_layer=per_layer,
        )
        for name, dims in (("first", first), ("second", second), ("out", m + n))
    }
    op = Compute(
        kind="matmul",
        name="product",
        reads=(Ref("first"), Ref("second")),
        writes=(Ref("out"),),
        iteration=tuple((label, EDGE) for label in "boi"),
        matmul=((), (m,), (n,), (k,)),
        flops=2 * EDGE**3,
    )
    roles = (Role("all", (Call("step", 0, 0, (op,)),)),)
    return Schedule(mesh=Mesh((("gcd", 1),)), tensors=tensors, roles=roles, pools={}, meta={})


PRODUCTS = {
    "tn": product("bi", "oi", "b", "o", "i"),
    "nn": product("bo", "oi", "b", "i", "o"),
    "nt": product("bo", "bi", "o", "i", "b"),
}
HEAD = product("bi", "oi", "b", "o", "i", per_layer=False)


def took_s(form: str, machine: Machine) -> float:
    return simulate_step(PRODUCTS[form], machine, load_library("rccl"), "analytic").step_s


@pytest.mark.parametrize(("tuned", "factors"), [(0.0, (0.1, 0.4, 0.25)), (1.0, (0.4, 0.4, 0.25))])
def test_a_product_takes_its_time_over_the_factor_of_its_form(tuned: float, factors: tuple[float, ...]) -> None:
    # toy-pair: 2e12 flop/s * 1000 / (1000 + 100); 2e9 flops take 1.1 ms, and 6 MB of memory traffic far less
    asked = {"tn": 0.1, "nn": 0.4, "nt": 0.25, "tuned": tuned}
    plain = load_machine("toy-pair")
    formed = load_machine("toy-pair", {f"device.matmul_forms.{key}": value for key, value in asked.items()})
    gap_s = plain.device.kernel_gap_s
    for form, factor in zip(FORMS, factors, strict=True):
        assert took_s(form, plain) == pytest.approx(gap_s + 1.1e-3, rel=1e-9)
        assert took_s(form, formed) == pytest.approx(gap_s + 1.1e-3 / factor, rel=1e-9)


# ── in fewer bits ──


def test_a_start_of_tiles_is_a_matter_of_bytes() -> None:
    # one full wave of 148 tiles of 256 x 128: k + start multiplications, with 4 numbers of NVFP4 in 16 bits
    machine = load_machine("b200-node", {"device.tiles.start": 100.0})
    sizes = (148 * 256, 128, 1000)
    for dtype, start in (("bf16", 100), ("mxfp8", 200), ("nvfp4", 400)):
        matmul = machine.matmul(dtype)
        aligned = misaligned(matmul.misaligned, *sizes)
        assert matmul.rate(*sizes) == pytest.approx(matmul.matmul_flops_per_s / aligned / (1.0 + start / 1000))


def test_products_of_layers_are_cast_before_and_the_head_is_not() -> None:
    # 1e6 inputs (forward) or gradients of outputs (backward) of 5 bytes each; products of weights find them cast
    machine = load_machine("b200-node")
    narrow = replace(machine, kernels=Kernels(linear="mxfp8", cast_bytes={"mxfp8": 5.0}))
    rates = [machine.matmul(dtype).rate(EDGE, EDGE, EDGE) for dtype in ("fp16", "mxfp8")]
    cast_s = 5e6 / (machine.device.hbm_bytes_per_s * machine.device.hbm_share)
    gap_s = machine.device.kernel_gap_s
    for form in FORMS:
        expected = gap_s + 2e9 / rates[1] + (0.0 if form == "nt" else cast_s)
        assert took_s(form, narrow) == pytest.approx(expected, rel=1e-9)
    head = simulate_step(HEAD, narrow, load_library("rccl"), "analytic").step_s
    assert head == pytest.approx(gap_s + 2e9 / rates[0], rel=1e-9)
