"""Tables of what one device computes, products and kernels, read from a user's file and held against a machine."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from simfrontier.accuracy.predictors.kernels import predict_kernel
from simfrontier.accuracy.residual import NotCovered, Prediction
from simfrontier.measured import KernelRow, RateRow, read_of_device
from simfrontier.measured.device_tables import read_kernels
from tests.invoke import invoke, refusal

PRODUCTS = "machine,dtype,m,n,k,statistic,quantity,value,status,source,form"
PRODUCT = "h100-node,bf16,8192,8192,8192,median,seconds,0.0018,measured,lab,tn"
KERNELS = "machine,kernel,dtype,shape,bytes,flops,statistic,time_s,status,source"
COPY = "h100-node,copy,bf16,2048x6144,50331648,,median,0.00002,measured,lab"
ATTENTION = "h100-node,attention,bf16,1x64x2048x96,1000000,400000000000,median,0.0006,measured,lab"


def table(folder: Path, *lines: str) -> Path:
    path = folder / "mine.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_tables_are_told_apart_by_their_columns(tmp_path: Path) -> None:
    products = read_of_device(table(tmp_path, PRODUCTS, PRODUCT))
    assert products is not None and isinstance(products[0], RateRow) and products[0].flops == 2 * 8192**3
    kernels = read_of_device(table(tmp_path, KERNELS, COPY, ATTENTION))
    assert kernels is not None and [type(row) for row in kernels] == [KernelRow, KernelRow]
    assert read_of_device(table(tmp_path, "machine,collective,library,devices,bytes,time_s,source")) is None
    assert read_of_device(tmp_path / "none.csv") is None


def test_kernels_by_hand(tmp_path: Path) -> None:
    """A gap of 5 us, then 3,350 GB/s · 0.85: 50,331,648 bytes take 17.675 us. Attention: 0.4 Tflop at 400 TF, 1 ms."""
    copy, attention = read_kernels(table(tmp_path, KERNELS, COPY, ATTENTION))
    made = predict_kernel(copy)
    assert isinstance(made, Prediction) and math.isnan(made.low)
    assert made.value == pytest.approx(5e-6 + 50331648 / (3350e9 * 0.85), rel=1e-12)
    made = predict_kernel(attention)
    assert isinstance(made, Prediction) and made.value == pytest.approx(5e-6 + 1e-3, rel=1e-12)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (COPY.replace("h100-node", "h100-nod"), "no machine 'h100-nod'; did you mean \"h100-node\"?"),
        (ATTENTION.replace("bf16", "fp32"), "fused attention of fp32 numbers"),
        (ATTENTION.replace("h100-node", "toy-pair"), "toy-pair has no rate of fused attention"),
    ],
)
def test_why_a_kernel_is_not_predicted(tmp_path: Path, line: str, reason: str) -> None:
    (row,) = read_kernels(table(tmp_path, KERNELS, line))
    made = predict_kernel(row)
    assert isinstance(made, NotCovered) and made.reason.startswith(reason), made


def test_validate_holds_both_tables_against_the_machine(tmp_path: Path) -> None:
    products = table(tmp_path, PRODUCTS, PRODUCT, PRODUCT.replace("bf16", "tf32"))
    kernels = tmp_path / "kernels.csv"
    kernels.write_text(f"{KERNELS}\n{COPY}\n{ATTENTION}\n", encoding="utf-8")
    ran = invoke("validate", products, kernels, "--json", "--out", tmp_path / "page")
    assert ran.code == 0, ran.err
    made = json.loads(ran.out)
    assert {name: each["num_rows"] for name, each in made["tables"].items()} == {"mine.csv": 2, "kernels.csv": 2}
    assert [row["predicted_s"] is not None for row in made["rows"]] == [True, False, True, True]
    assert made["not_predicted"][0]["why"].startswith("products of tf32 numbers")
    assert "copy, h100-node, bf16" in (tmp_path / "page" / "index.html").read_text(encoding="utf-8")


def test_options_of_other_files_are_refused(tmp_path: Path) -> None:
    path = table(tmp_path, KERNELS, COPY)
    message = refusal("validate", path, "--devices", "3")
    assert (
        message
        == f"--devices: got 3 beside {path}, a table whose rows say it; allowed: beside output of nccl-tests or OSU"
    )
