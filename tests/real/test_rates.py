"""Timing products and kernels: what is timed, by which clock, and that the core reads the tables as they were meant."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
import torch

from simfrontier.inputs.measured import KernelRow, RateRow, read_of_device
from simfrontier_real.measure.cases import KernelCase, ProductShape, kernel_cases, shapes_of
from simfrontier_real.measure.rates import KERNELS, PRODUCTS, RateCases, RateSettings, measure_rates
from tests.invoke import invoke

FEW = RateCases(
    edges=(32, 16), product_models=("tiny",), kernel_models=("tiny",), counts=(1024,), dtypes=("bf16", "tf32", "fp32")
)
KINDS = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def settings(out: Path, kind: str = "cpu", seconds: float = 100.0, machine: str | None = "h100-node") -> RateSettings:
    return RateSettings(kind=kind, out=out, machine=machine, seconds=seconds, when="2026-11-25")


# ── what is timed ──


def test_the_shapes_of_a_model_by_hand() -> None:
    """tiny: 32 tokens, hidden 64, 192 features of qkv, 256 of the MLP, a vocabulary of 256. Forward O = I W^T (tn),
    the inputs' gradient dO W (nn), the weights' dO^T I (nt). The head has the shapes of h_to_4h."""
    t, h, qkv, ffn = 32, 64, 192, 256
    linear = [(h, qkv), (h, h), (h, ffn), (ffn, h)]  # inputs, outputs of qkv, dense, h_to_4h, 4h_to_h
    expected = {ProductShape(t, o, i, "tn") for i, o in linear} | {ProductShape(t, i, o, "nn") for i, o in linear}
    expected |= {ProductShape(o, i, t, "nt") for i, o in linear}
    assert set(shapes_of("tiny")) == expected and len(shapes_of("tiny")) == len(expected) == 12


def test_bytes_and_flops_of_kernels_by_hand() -> None:
    """Attention: 2 sequences, 3 heads, 4 positions of which 10 pairs count, 8 features: 7 products of 2·2·3·8·10."""
    attention = KernelCase("attention", (2, 3, 4, 8), "bf16")
    assert (attention.flops, attention.num_bytes) == (7 * 960, 12 * 2 * 192)
    assert KernelCase("adam", (1000,), "fp32").num_bytes == 28_000  # 4 read, 3 written, of 4 bytes
    assert KernelCase("copy", (1000,), "bf16").num_bytes == 4_000
    assert KernelCase("softmax", (4, 10, 10), "fp32").flops is None
    assert len(set(kernel_cases(("tiny", "tiny"), ("bf16",), (8,)))) == len(
        list(kernel_cases(("tiny",), ("bf16",), (8,)))
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", [*kernel_cases(("tiny",), ("bf16", "fp32"), (64,))], ids=str)
def test_every_kernel_runs(case: KernelCase, kind: str) -> None:
    work = case.work(kind)
    for _ in range(2):
        work()


# ── the tables ──


@pytest.mark.parametrize("kind", KINDS)
def test_the_core_reads_the_tables_as_they_were_meant(kind: str, tmp_path: Path) -> None:
    said: list[str] = []
    assert measure_rates(settings(tmp_path, kind), said.append, FEW), said
    products, kernels = (read_of_device(tmp_path / name) for name in (PRODUCTS, KERNELS))
    assert products is not None and kernels is not None
    dtypes = ("bf16", "fp32") if kind == "cpu" else FEW.dtypes
    expected = [(c.shape.m, c.shape.n, c.shape.k, c.dtype) for c in FEW.products(dtypes)]
    assert [(row.m, row.n, row.k, row.dtype) for row in products if isinstance(row, RateRow)] == expected
    assert all(row.machine == "h100-node" and row.seconds and row.seconds < 1 for row in products)
    for row, case in zip(kernels, FEW.kernels(), strict=True):
        assert isinstance(row, KernelRow)
        assert (row.kernel, row.dtype, row.shape) == (case.kernel, case.dtype, case.shape_text)
        assert (row.num_bytes, row.flops, row.statistic) == (case.num_bytes, case.flops, "median")
    with (tmp_path / PRODUCTS).open(encoding="utf-8") as file:
        for cells in csv.DictReader(file):
            assert float(cells["least_s"]) <= float(cells["value"]) <= float(cells["most_s"])
            assert cells["source"].endswith(("tn", "nn", "nt")) and f"torch {torch.__version__}" in cells["source"]
    ran = invoke("validate", tmp_path / PRODUCTS, tmp_path / KERNELS)
    assert ran.code == 0 and "products.csv" in ran.out and "kernels.csv" in ran.out, ran


def test_without_time_nothing_is_begun_and_no_old_table_stays(tmp_path: Path) -> None:
    said: list[str] = []
    (tmp_path / PRODUCTS).write_text("old", encoding="utf-8")
    assert measure_rates(settings(tmp_path, seconds=-1.0), said.append, FEW)
    assert list(tmp_path.iterdir()) == []
    assert said[-1] == f"{tmp_path / PRODUCTS}: 0 times; {2 * 14} left out, for which there was no time"
    assert "products of tf32 numbers are left out, which this device does not have" in said
