"""What ops cost: sizes and operations on a rank, bytes of device memory pass by pass, and forms of products."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray

from simfrontier.core.plan import Engine, build, make_plan
from simfrontier.core.program import Compute, Mesh, Ref, Schedule, Tensor, traffic_bytes
from simfrontier.core.program.as_text import render
from simfrontier.core.program.cost import (
    Operands,
    as_written,
    every_operand,
    matmul_form,
    picked_rows,
    replaced_entries,
)
from simfrontier.core.program.placement import REPLICATE
from simfrontier.core.program.store import from_json, to_json
from simfrontier.core.workload import Softmax, gpt
from tests.core.plan.grids import SHAPE
from tests.core.plan.test_precision import built
from tests.core.program.builders import mesh_of, options_of
from tests.core.program.mutations import lines


def test_labels_are_divided_by_the_axes_that_split_them() -> None:
    """60 rows over node and gcd are 6; 9 columns over package are 3; 7 stay. A label that the op has not is split in
    vain. Operations are divided by all of that: 2 * 5 * 3 = 30."""
    op = Compute(
        kind="matmul",
        name="product",
        iteration=(("m", 60), ("n", 9), ("k", 7)),
        split=(("node", "m"), ("gcd", "m"), ("package", "n"), ("node", "b")),
        flops=3000.0,
    )
    mesh = Mesh((("node", 2), ("package", 3), ("gcd", 5)))
    assert op.local_sizes(mesh) == {"m": 6, "n": 3, "k": 7}
    assert op.local_flops(mesh) == 100.0


def test_a_slice_reads_no_more_than_it_keeps() -> None:
    """16 of 1,000 numbers of 4 bytes: 64 bytes read and 64 written; a copy by another kernel reads all 4,000."""
    tensors = {
        name: Tensor(name=name, shape=(size,), dtype="fp32", role="activation", placement=REPLICATE)
        for name, size in (("whole", 1000), ("part", 16))
    }
    mesh = Mesh((("gcd", 2),))
    moved = {
        kind: traffic_bytes(Compute(kind=kind, name="x", reads=(Ref("whole"),), writes=(Ref("part"),)), tensors, mesh)
        for kind in ("slice", "add")
    }
    assert moved == {"slice": 2 * 64, "add": 4000 + 64}


def test_rows_that_are_picked_and_entries_that_are_replaced() -> None:
    """Of 1,000 numbers of 4 bytes, 16 are written: a search reads its first operand whole, else no more than it writes;
    of a state only what is replaced moves."""
    roles = (("whole", 1000, "activation"), ("kept", 400, "state"), ("part", 16, "activation"))
    tensors = {
        name: Tensor(name=name, shape=(size,), dtype="fp32", role=role, placement=REPLICATE)  # type: ignore[arg-type]
        for name, size, role in roles
    }

    def operands(*reads: str) -> Operands:
        op = Compute(kind="add", name="x", reads=tuple(map(Ref, reads)), writes=(Ref("part"),))
        return Operands(op, tensors, Mesh((("gcd", 2),)))

    assert every_operand(operands("whole")) == 4000 + 64
    assert picked_rows(operands("whole")) == 64 + 64
    assert picked_rows(operands("whole", "kept")) == 4000 + 64 + 64
    assert replaced_entries(operands("whole", "kept")) == 2 * 4000
    assert as_written(operands("whole")) == 2 * 64


SCALARS = 2 * 4  # overflow and norm, in the wide type
# flatten, cast, unscale, Adam, new weights, of g bytes per number of the model and w of the master
SIXTEEN_BITS = (2 + 2) + (2 + 4) + (4 + 4) + (4 * 4 + 3 * 4) + (4 + 2)
SAME_TYPE = {4: (4 + 4) + (4 + 4) + (4 * 4 + 3 * 4) + (4 + 4), 8: (8 + 8) + (8 + 8) + (4 * 8 + 3 * 8) + (8 + 8)}


def per_parameter(schedule: Schedule, kind: str = "adam", others: int = SCALARS) -> set[float]:
    """Bytes that each op of the optimizer moves for an element that it steps; `others`: those of its scalars."""
    out = set()
    for op in {op.number: op for _, op in schedule.roles[0].instances() if op.kind == kind}.values():
        assert isinstance(op, Compute)
        masters = [schedule.tensors[ref.name] for ref in op.reads if schedule.tensors[ref.name].role == "master"]
        elements = sum(master.local_elements(schedule.mesh) for master in masters)
        norms = 2 * 4 * sum(schedule.tensors[ref.name].role == "norms" for ref in (*op.reads, *op.writes))
        scalars = others * (2 if masters[0].dtype == "fp64" else 1) + norms
        out.add((traffic_bytes(op, schedule.tensors, schedule.mesh) - scalars) / elements)
    return out


@pytest.mark.parametrize("family", ["ddp", "zero2", "zero3", "zero-topo"])
def test_every_plan_moves_52_bytes_a_parameter_of_a_16_bit_model(family: str) -> None:
    assert SIXTEEN_BITS == 52
    assert per_parameter(built(family, "bf16")) == {SIXTEEN_BITS}


@pytest.mark.parametrize(("precision", "size"), [("fp32", 4), ("fp64", 8)])
def test_nothing_is_cast_where_the_master_has_the_model_s_type(precision: str, size: int) -> None:
    assert per_parameter(built("zero1", precision)) == {SAME_TYPE[size]}


@pytest.mark.parametrize("family", ["zero3"])
def test_lamb_moves_64_bytes_a_parameter(family: str) -> None:
    """Before its scale: flatten 4, cast 6, unscale 8; gradient, master and two moments read, update and moments
    written, 7 × 4. After it: update and master read, master written, 3 × 4; new weights 4 + 2."""
    made = built(family, "bf16", optimizer="lamb")
    assert per_parameter(made, "lamb_update") == {4 + 6 + 8 + 7 * 4}
    assert per_parameter(made, "lamb", others=0) == {3 * 4 + 4 + 2}


PASSES = {"": 2, "fused": 2, "two-pass": 3, "three-pass-recompute": 4, "three-pass-reload": 5}


def made(softmax: Softmax) -> Schedule:
    options, mesh = options_of("ddp"), mesh_of(1, 1, 2)
    work = gpt(SHAPE, 2, "full", precision="fp32", softmax=softmax)
    return build(work, make_plan("ddp", options, mesh), mesh, Engine(persistence_elements=0))


@pytest.mark.parametrize("kernel", PASSES)
def test_traffic_by_hand(kernel: str) -> None:
    """Rows of N = 24 FP32 numbers into FP32: 2N, 3N, 4N, 5N numbers (arXiv 2001.04438). Into FP16 the passes over the
    result are half as wide: two-pass 2 · 4 + 2, recompute 3 · 4 + 2, reload 2 · 4 + 3 · 2 bytes. Another operand (of
    24 FP16 numbers) is read once."""
    rows = Tensor(name="x", shape=(3, 8), dtype="fp32", role="activation", placement=REPLICATE)
    tensors = {"x": rows, "y": replace(rows, name="y"), "z": replace(rows, name="z", dtype="fp16")}

    def moved(writes: str, *more: str) -> int:
        reads = tuple(map(Ref, ("x", *more)))
        op = Compute(kind="softmax", name="softmax", reads=reads, writes=(Ref(writes),), kernel=kernel)
        return traffic_bytes(op, tensors, Mesh((("gcd", 1),)))

    assert moved("y") == PASSES[kernel] * 24 * 4
    narrow = {"two-pass": 10, "three-pass-recompute": 14, "three-pass-reload": 14}.get(kernel, 6)
    assert moved("z") == narrow * 24
    assert moved("y", "z") == moved("y") + 24 * 2


@pytest.mark.parametrize("softmax", get_args(Softmax))
def test_kernels_are_of_the_forward_softmax_and_of_the_loss_over_whole_rows(softmax: Softmax) -> None:
    """Recomputed too; the backward's pass is another."""
    schedule = made(softmax)
    ops = [op for _, op in schedule.roles[0].instances() if isinstance(op, Compute)]
    wanted = "" if softmax == "fused" else softmax
    assert {(op.name, op.kernel) for op in ops if op.kind in ("softmax", "loss")} == {
        ("softmax", wanted),
        ("softmax.backward", ""),
        ("loss", wanted),
    }
    assert {op.kernel for op in ops if op.kind not in ("softmax", "loss")} == {""}
    assert lines(schedule) == []
    assert from_json(to_json(schedule), "again") == schedule
    assert ("softmax by" in render(schedule)) == bool(wanted)


SIZES = {"b": 3, "o": 4, "i": 5}


def tensor(name: str, dims: str) -> Tensor:
    shape = tuple(SIZES.get(label, 2) for label in dims)
    return Tensor(name=name, shape=shape, dtype="fp16", role="activation", placement=REPLICATE, dims=tuple(dims))


def product(labels: tuple[str, str, str, str], **reads: str) -> tuple[Compute, dict[str, Tensor]]:
    """An op with those labels of (batch, m, n, k) that reads tensors of those dims, in order."""
    tensors = {name: tensor(name, dims) for name, dims in reads.items()}
    batch, m, n, k = (tuple(each) for each in labels)
    op = Compute(kind="matmul", name="product", reads=tuple(Ref(name) for name in reads), matmul=(batch, m, n, k))
    return op, tensors


@pytest.mark.parametrize(
    ("labels", "reads", "form"),
    [
        (("", "bs", "o", "i"), {"input": "bsi", "weight": "oi", "bias": "o"}, "tn"),  # O = I W^T
        (("", "bs", "i", "o"), {"gradient": "bso", "weight": "oi"}, "nn"),  # dI = dO W
        (("", "o", "i", "bs"), {"gradient": "bso", "input": "bsi"}, "nt"),  # dW = dO^T I
        (("", "o", "i", "bs"), {"fetched": "oi", "gradient": "bso", "input": "bsi"}, "nt"),  # a weight is no operand
        (("", "bs", "o", "i"), {"input": "bsi", "weight": "io"}, "nn"),  # a weight that lies as [inputs, outputs]
        (("", "bs", "i", "o"), {"query": "bso", "key": "bso", "weight": "oi"}, "nn"),  # an operand in pieces
        (("", "bs", "o", "i"), {"input": "ibs", "weight": "oi"}, None),  # both would be transposed
        (("", "bs", "o", "i"), {"input": "bsi"}, None),
        (("ba", "s", "t", "d"), {"query": "basd", "key": "batd"}, None),  # attention's
    ],
)
def test_forms_of_the_products_of_a_linear_module(
    labels: tuple[str, str, str, str], reads: dict[str, str], form: str | None
) -> None:
    assert matmul_form(*product(labels, **reads)) == form


def column_major(form: str, first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    """What BLAS computes out of the memory of two row-major matrices, the second before the first."""
    # Row-major memory of a matrix, read column-major, is its transpose; "t" transposes that.
    left, right = (each.ravel().reshape(each.shape[::-1], order="F") for each in (second, first))
    return (left.T if form[0] == "t" else left) @ (right.T if form[1] == "t" else right)


@given(m=st.sampled_from("boi"), k=st.sampled_from("boi"), turned=st.tuples(st.booleans(), st.booleans()))
def test_the_form_makes_blas_compute_the_transposed_product(m: str, k: str, turned: tuple[bool, bool]) -> None:
    if m == k:
        return
    n = next(label for label in "boi" if label not in (m, k))
    dims = (k + m if turned[0] else m + k, k + n if turned[1] else n + k)
    form = matmul_form(*product(("", m, n, k), first=dims[0], second=dims[1]))
    if form is None:
        assert dims[0][-1] == m and dims[1][-1] == k  # "tt"
        return
    generator = np.random.default_rng(1)
    first, second = (generator.integers(-9, 9, [SIZES[label] for label in each]).astype(float) for each in dims)
    wanted = np.einsum(f"{dims[0]},{dims[1]}->{n}{m}", first, second)  # C row-major is C^T column-major
    assert np.array_equal(column_major(form, first, second), wanted)
