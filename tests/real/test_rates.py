"""Timing products and kernels: what is timed, by which clock, and that the core reads the tables as they were meant."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from simfrontier.measured import KernelRow, RateRow, read_of_device
from simfrontier.plan import build, make_plan
from simfrontier.schedule import Compute, matmul_form, matmul_shape
from simfrontier.workload import MODELS, GptShape, gpt
from simfrontier_real import rates
from simfrontier_real.device_timer import DeviceTimer, Times
from simfrontier_real.kernel_cases import KernelCase, kernel_cases
from simfrontier_real.product_cases import DTYPES, ProductCase, ProductShape, product_cases, shapes_of
from simfrontier_real.rates import CASES, KERNELS, PRODUCTS, RateCases, RateSettings, measure_rates
from tests.invoke import invoke
from tests.real.schedules import PLAIN
from tests.schedule.builders import mesh_of, options_of

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


@pytest.mark.parametrize("name", ["gpt-neox-20b", "llama-3-8b", "gpt-5b"])
def test_the_shapes_of_a_model_are_those_of_its_schedule(name: str) -> None:
    shape = MODELS[name]
    assert isinstance(shape, GptShape)
    mesh = mesh_of(1, 1, 1)
    made = build(gpt(shape, 1, "none"), make_plan("ddp", options_of("ddp"), mesh), mesh, PLAIN, 1)
    products = [op for op in made.distinct_ops() if isinstance(op, Compute) and op.matmul is not None]
    expected = {(matmul_shape(op, mesh), matmul_form(op, made.tensors)) for op in products}
    ours = {((1, each.m, each.n, each.k), each.form) for each in shapes_of(name)}
    assert ours == {(sizes, form) for sizes, form in expected if sizes[0] == 1 and form is not None}


def test_every_shape_comes_once_in_every_type_and_squares_come_first() -> None:
    cases = list(product_cases((64, 32), ("tiny", "tiny"), ("bf16", "fp32")))
    assert [str(case) for case in cases[:3]] == [
        "product bf16 64x64x64 tn",
        "product fp32 64x64x64 tn",
        "product bf16 32x32x32 tn",
    ]
    assert len(cases) == len(set(cases)) == 2 * (2 + 12)
    assert cases[0].shape.flops == 2 * 64**3


def test_what_is_timed_on_a_gpu() -> None:
    """Products of the models of the published runs fit an H100 beside what fills its caches, and exceed no limit."""
    chosen = CASES["cuda"]
    products, kernels = list(chosen.products(chosen.dtypes)), list(chosen.kernels())
    assert {case.dtype for case in products} == {"bf16", "fp16", "tf32", "fp32"} == set(DTYPES)
    assert {case.kernel for case in kernels} == {"copy", "softmax", "layernorm", "adam", "attention"}
    assert set(chosen.product_models) <= set(MODELS)
    hidden = {case.shape.k for case in products if case.shape.form == "tn"}
    assert {6144, 12288, 4096} <= hidden  # GPT-NeoX-20B, GPT-80B, GPT-5B
    for case in products:
        m, n, k = case.shape.m, case.shape.n, case.shape.k
        assert 4 * (m * k + k * n + m * n) < 16e9, case
    assert max(case.num_bytes for case in kernels) < 16e9
    assert all(case.dtype != "tf32" for case in kernels)


@pytest.mark.parametrize("form", ["tn", "nn", "nt"])
def test_a_form_is_how_operands_lie(form: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(torch, "matmul", lambda left, right, out: seen.extend((left, right, out)))
    ProductCase(ProductShape(3, 5, 7, form), "fp32").work("cpu")()
    left, right, out = seen
    assert (left.shape, right.shape, out.shape) == ((3, 7), (7, 5), (3, 5))
    # column-major names: the right operand's letter comes first
    assert right.is_contiguous() == (form[0] == "n") and left.is_contiguous() == (form[1] == "n")


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


def test_attention_gives_the_gradients_of_its_three_operands() -> None:
    gradients: Any = KernelCase("attention", (1, 2, 4, 8), "fp32").work("cpu")()
    assert [tuple(each.shape) for each in gradients] == [(1, 2, 4, 8)] * 3
    assert all(float(each.abs().max()) > 0 for each in gradients)


# ── by which clock ──


def test_the_median_is_of_as_many_times_as_there_is_room_for() -> None:
    calls: list[int] = []
    timer = DeviceTimer("cpu", warmup=2, least=3, most=7, budget_s=100.0, flush_bytes=8)
    assert len(timer.times(lambda: calls.append(0)).seconds) == 7
    assert len(calls) == 2 + 1 + 7
    timer = DeviceTimer("cpu", warmup=0, least=3, most=7, budget_s=0.0, flush_bytes=8)
    assert len(timer.times(lambda: None).seconds) == 3
    times = Times((3.0, 1.0, 2.0))
    assert (times.median, times.least, times.most) == (2.0, 1.0, 3.0)


def test_on_a_gpu_events_stand_around_the_work_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stood in for: caches are filled before the first event, and the host waits at the beginning and the end only."""
    log: list[str] = []

    class Event:
        def __init__(self, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None:
            log.append("event")

        def elapsed_time(self, end: Event) -> float:
            return 2000.0  # ms

    class Filled:
        def zero_(self) -> None:
            log.append("fill")

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: log.append("wait"))
    monkeypatch.setattr(torch, "empty", lambda count, dtype, device: Filled())
    timer = DeviceTimer("cuda", warmup=0, least=2, most=2)
    assert timer.times(lambda: log.append("work")).seconds == (2.0, 2.0)
    once = ["fill", "event", "work", "event"]
    assert log == ["wait", *once, "wait", "wait", *once, *once, "wait"]


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


def test_a_case_that_cannot_run_is_said_and_the_others_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: Any, **options: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate much")

    monkeypatch.setattr(torch, "softmax", refuse)
    said: list[str] = []
    assert not measure_rates(settings(tmp_path), said.append, FEW)
    assert [line for line in said if line.startswith("not timed")] == [
        f"not timed: softmax {dtype} 4x32x32: CUDA out of memory." for dtype in ("bf16", "fp32")
    ]
    rows = read_of_device(tmp_path / KERNELS)
    assert rows is not None and len(rows) == len(list(FEW.kernels())) - 2


def test_without_time_nothing_is_begun_and_no_old_table_stays(tmp_path: Path) -> None:
    said: list[str] = []
    (tmp_path / PRODUCTS).write_text("old", encoding="utf-8")
    assert measure_rates(settings(tmp_path, seconds=-1.0), said.append, FEW)
    assert list(tmp_path.iterdir()) == []
    assert said[-1] == f"{tmp_path / PRODUCTS}: 0 times; {2 * 14} left out, for which there was no time"
    assert "products of tf32 numbers are left out, which this device does not have" in said


def test_the_machine_is_the_catalogs_where_the_devices_name_says_which(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, machine in (("NVIDIA H100 80GB HBM3", "h100-node"), ("Some GPU", "Some GPU")):
        monkeypatch.setattr(rates, "device_name", lambda kind, name=name: name)
        assert rates.RateTables(settings(tmp_path, machine=None), print).machine == machine
    assert rates.RateTables(settings(tmp_path), print).machine == "h100-node"


def test_fp32_numbers_are_multiplied_as_the_row_says() -> None:
    before = torch.get_float32_matmul_precision()
    with rates.multiplied_as("tf32"):
        assert torch.get_float32_matmul_precision() == "high"
    with rates.multiplied_as("fp32"):
        assert torch.get_float32_matmul_precision() == "highest"
    assert torch.get_float32_matmul_precision() == before


def test_products_are_products() -> None:
    """The work of a case is the product of its operands, whatever their form."""
    for form in ("tn", "nn", "nt"):
        made: Any = ProductCase(ProductShape(3, 5, 7, form), "fp32").work("cpu")()  # type: ignore[arg-type]
        assert made.shape == (3, 5) and math.isfinite(float(made.sum()))
