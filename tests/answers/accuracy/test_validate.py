"""`validate`: the stated bounds of the shipped tables, their rows and averages, and a user's own tables."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from simfrontier.answers.accuracy import validation
from simfrontier.answers.accuracy.predictors.rates import predict_kernel
from simfrontier.answers.accuracy.residual import Prediction
from simfrontier.answers.accuracy.validation import ErrorBound, load_bounds
from simfrontier.inputs.measured import load_table, read_of_device
from simfrontier.inputs.measured.rows import CallRow
from tests.inputs.measured.tables import shipped as shipped_rows, write_calls
from tests.invoke import Ran, invoke


@pytest.fixture(scope="module")
def shipped() -> dict[str, Any]:
    """What `validate --json` says of the shipped tables by the shipped parameters."""
    ran = invoke("validate", "--no-cross", "--json")
    assert ran.code in (0, 1) and ran.err == ""
    document: dict[str, Any] = json.loads(ran.out)
    return document


def calls(name: str = "rccl_frontier") -> list[CallRow]:
    return shipped_rows(name, CallRow)


def words(ran: Ran) -> str:
    return " ".join(ran.out.split())


def test_the_stated_bounds_of_the_shipped_tables_hold(shipped: dict[str, Any]) -> None:
    missed = [bound for bound in shipped["bounds"] if not bound["holds"]]
    assert missed == [] and shipped["holds"] is True
    assert len(shipped["bounds"]) == len(load_bounds())


def test_a_missed_bound_ends_with_1_and_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    tight = ErrorBound(table="rccl_frontier", series="everything", mean_abs=1e-6)
    monkeypatch.setattr(validation, "load_bounds", lambda: (tight,))
    ran = invoke("validate", "--no-cross")
    assert (ran.code, ran.err) == (1, "")
    assert "Bound missed: RCCL on Frontier, 8 to 1,024 GCDs, everything:" in words(ran)
    assert "0.0 % allowed" in words(ran)
    assert json.loads(invoke("validate", "--no-cross", "--json").out)["holds"] is False


@pytest.mark.long
def test_fitted_rows_are_predicted_by_fits_that_left_them_out(
    shipped: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One number of devices stands for all: each fit costs a second. What it was not shown it predicts otherwise."""
    from simfrontier.answers.accuracy import fit_rows as cross
    from simfrontier.answers.accuracy.predictors import Fit

    rows = [
        row for row in calls() if row.devices in (32, 128) and load_table("rccl_frontier").pathology_of(row) is None
    ]
    monkeypatch.setattr(cross, "FITS", (Fit(libraries=("rccl",), tables={}),))
    monkeypatch.setattr(cross, "fitted_rows", lambda name: tuple(rows))
    crossed = json.loads(invoke("validate", "--json").out)
    by_place = {row["place"]: row for row in shipped["rows"]}
    mine = [row for row in crossed["rows"] if row["use"] == "left out"]
    assert [row["place"] for row in mine] == [str(row.place) for row in rows]
    assert all(row["predicted_s"] != by_place[row["place"]]["predicted_s"] for row in mine)
    assert crossed["tables"]["rccl_frontier"]["by_use"]["left out"]["count"] == len(rows)
    [bound] = [bound for bound in crossed["bounds"] if bound["table"] == "rccl_frontier"]
    assert bound["rows"] == ["left out"]  # the fitted rows of the same series do not judge it
    large = [row for row in mine if row["bytes"] >= 4 << 20]
    assert bound["errors"]["count"] == len(large)
    assert crossed["overall"]["unseen"]["count"] == len(mine) + sum(row["use"] == "held" for row in crossed["rows"])


def test_a_users_rows_are_held_and_never_fitted_to(tmp_path: Path) -> None:
    """10 % slower than the shipped ones: other measurements, and no bound to leave."""
    rows = [replace(row, seconds=1.1 * row.seconds) for row in calls() if row.devices == 32]
    ran = invoke("validate", "--data", write_calls(tmp_path / "mine.csv", rows), "--json")
    document = json.loads(ran.out)
    assert (ran.code, ran.err) == (0, "") and document["bounds"] == []
    assert [row["table"] for row in document["rows"]] == ["mine.csv"] * len(rows)
    assert {row["use"] for row in document["rows"]} == {"held"}
    assert [row["time_s"] for row in document["rows"]] == [row.seconds for row in rows]


def test_predictions_do_not_depend_on_whose_file_a_row_is_in(shipped: dict[str, Any], tmp_path: Path) -> None:
    document = json.loads(invoke("validate", "--data", write_calls(tmp_path / "mine.csv", calls()), "--json").out)
    same = ("machine", "bytes", "devices", "predicted_s", "low_s", "high_s", "error", "use", "why", "harness_s")
    mine, its = document["rows"], [row for row in shipped["rows"] if row["table"] == "rccl_frontier"]
    assert [[row[name] for name in same] for row in mine] == [[row[name] for name in same] for row in its]


PRODUCTS = "machine,dtype,m,n,k,statistic,quantity,value,status,source,form"
PRODUCT = "h100-node,bf16,8192,8192,8192,median,seconds,0.0018,measured,lab,tn"
KERNELS = "machine,kernel,dtype,shape,bytes,flops,statistic,time_s,status,source"
COPY = "h100-node,copy,bf16,2048x6144,50331648,,median,0.00002,measured,lab"
ATTENTION = "h100-node,attention,bf16,1x64x2048x96,1000000,400000000000,median,0.0006,measured,lab"


def table(folder: Path, *lines: str) -> Path:
    path = folder / "mine.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_kernels_by_hand(tmp_path: Path) -> None:
    """A gap of 5 us, then 3,350 GB/s · 0.85: 50,331,648 bytes take 17.675 us. Attention: 0.4 Tflop at 310 TF."""
    copy, attention = read_of_device(table(tmp_path, KERNELS, COPY, ATTENTION))
    made = predict_kernel(copy)
    assert isinstance(made, Prediction) and math.isnan(made.low)
    assert made.value == pytest.approx(5e-6 + 50331648 / (3350e9 * 0.85), rel=1e-12)
    made = predict_kernel(attention)
    assert isinstance(made, Prediction) and made.value == pytest.approx(5e-6 + 4e11 / 310e12, rel=1e-12)


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
