"""Rates of products by form: factors of a machine, what tuning makes of them, and steps that are priced by them."""

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from simfrontier.collectives import load_library
from simfrontier.errors import InputError
from simfrontier.machine import Machine, MatmulForms, catalog, load_machine
from simfrontier.machine.load import CATALOG
from simfrontier.schedule import Call, Compute, Mesh, Role, Schedule, Tensor
from simfrontier.schedule.cost import MatmulForm
from simfrontier.schedule.ir import Ref
from simfrontier.schedule.placement import REPLICATE
from simfrontier.simulation import simulate_step

FORMS: tuple[MatmulForm, ...] = ("tn", "nn", "nt")
FACTORS = st.floats(0.01, 2.0)


@pytest.mark.parametrize("name", catalog())
def test_no_shipped_machine_tells_forms_apart(name: str) -> None:
    machine = load_machine(name)
    assert machine.device.matmul_forms == MatmulForms()
    assert [machine.device.matmul_forms.factor(form) for form in (*FORMS, None)] == [1.0] * 4
    assert not [row for row in machine.provenance() if "matmul_forms" in row.key]


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


def test_overrides_set_forms_that_a_file_does_not_have_and_say_so() -> None:
    machine = load_machine("frontier", {"device.matmul_forms.tn": 0.5, "device.matmul_forms.tuned": 1.0})
    assert machine.device.matmul_forms == MatmulForms(tn=0.5, tuned=True)
    rows = {row.key: row for row in machine.provenance() if "matmul_forms" in row.key}
    assert [(row.value, row.kind, row.source) for row in rows.values()] == [
        (0.5, "assumed", "scenario override"),
        (1.0, "assumed", "scenario override"),
    ]


def test_a_file_may_have_forms(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    text = (CATALOG / "toy-pair.toml").read_text(encoding="utf-8")
    path.write_text(text + '\n[device.matmul_forms]\nnt = { value = 0.25, kind = "measured", source = "toy" }\n')
    machine = load_machine(str(path), {"device.matmul_forms.tn": 0.5})
    assert machine.device.matmul_forms == MatmulForms(tn=0.5, nt=0.25)
    assert {row.key: row.kind for row in machine.provenance()}["device.matmul_forms.nt"] == "measured"


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (
            "nt",
            0.0,
            "device.matmul_forms.nt.value: got 0.0, allowed: more than 0 and at most 1e+30",
        ),
        ("tuned", 0.5, "device.matmul_forms.tuned.value: got 0.5, allowed: 0 or 1"),
        ("tm", 0.5, '"device.matmul_forms.tm" is not a number of this machine; allowed: nn, nt, tn, tuned'),
        # 312 / 271 = 1.1513
        (
            "nn",
            1.2,
            "device.matmul_forms.nn: got 1.2, allowed: at most 1.151, "
            "device.peak_flops_per_s / device.matmul_flops_per_s",
        ),
    ],
)
def test_wrong_forms_are_refused(key: str, value: float, message: str) -> None:
    with pytest.raises(InputError) as caught:
        load_machine("perlmutter", {f"device.matmul_forms.{key}": value})
    assert str(caught.value) == f"perlmutter.toml, with overrides: {message}"


# ── priced ──

EDGE = 1000


def product(first: str, second: str, m: str, n: str, k: str) -> Schedule:
    """One product of edge 1000 on one rank; m, n and k are one label each."""
    tensors = {
        name: Tensor(
            name=name,
            shape=(EDGE, EDGE),
            dtype="fp16",
            role="activation",
            placement=REPLICATE,
            dims=tuple(dims),
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


def test_forms_that_are_all_one_change_no_bit() -> None:
    ones = load_machine("frontier", {f"device.matmul_forms.{key}": 1.0 for key in (*FORMS, "tuned")})
    for form in FORMS:
        assert took_s(form, ones) == took_s(form, load_machine("frontier"))
