"""The form of a product: what BLAS would be told, held against column-major products, and every module's by name."""

from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray

from simfrontier.plan import FAMILIES, Engine, build, make_plan
from simfrontier.schedule import Compute, Mesh, Schedule, Tensor
from simfrontier.schedule.cost import matmul_form
from simfrontier.schedule.ir import Ref
from simfrontier.schedule.placement import REPLICATE
from simfrontier.workload import find_model, workload_of

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


def of_modules(schedule: Schedule) -> Iterable[Compute]:
    for role in schedule.roles:
        for _, op in role.instances():
            if isinstance(op, Compute) and op.matmul is not None and not op.matmul[0]:
                yield op


@pytest.mark.parametrize("model", ["tiny", "tiny-mlp"])
@pytest.mark.parametrize("family", ["ddp", "zero3", "zeropp", "zero-topo"])
def test_modules_run_tn_forward_nn_for_inputs_and_nt_for_weights(family: str, model: str) -> None:
    mesh = Mesh((("node", 2), ("package", 2), ("gcd", 2)))
    blocks = {"zeropp": {"weight_codec": "int8:64", "quantised_gradient_codec": "int4:64"}}
    if family == "zero-topo":
        blocks = {family: {f"{each}_codec": "int8:64" for each in ("weight", "node_gradient", "cross_gradient")}}
    options = FAMILIES[family][0].model_validate({"family": family, **blocks.get(family, {})})
    work = workload_of(find_model(model), mesh.num_ranks, checkpointing="full")
    schedule = build(work, make_plan(family, options, mesh), mesh, Engine(persistence_elements=100))
    ends = {"dgrad": "nn", "wgrad": "nt"}
    known = {op.name: matmul_form(op, schedule.tensors) for op in of_modules(schedule)}
    assert set(known.values()) == {"tn", "nn", "nt"}
    assert known == {name: ends.get(name.rpartition(".")[2], "tn") for name in known}
