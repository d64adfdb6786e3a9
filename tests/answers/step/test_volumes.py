"""Published volumes as exact counts: what each plan's schedule must move across nodes, packages and to a rank.

psi parameters, M = 2 psi bytes, n nodes, N = 8n ranks, g micro-batches. The two scalars of a step are left out.
"""

from fractions import Fraction

import pytest

from simfrontier.core.plan import Engine
from tests.answers.step.volumes import MATRICES, NEOX, PSI, VECTORS, M, foreign, moved, needs

# ── per micro-batch and step, into each node ──


@pytest.mark.parametrize("grad_accum", [1, 3])
@pytest.mark.parametrize("nodes", [2, 3, 8])
def test_zero3_moves_three_models_per_micro_batch(nodes: int, grad_accum: int) -> None:
    need = needs("zero3", nodes, grad_accum)
    assert moved(need, "node") == moved(need, "node", "data") == grad_accum * 3 * M * foreign(nodes)
    assert need.total("node", "weight_gather") == grad_accum * 2 * M * foreign(nodes)
    assert need.total("node", "gradient") == grad_accum * M * foreign(nodes)
    assert need.total("node", "scalar") == 2 * 4 * 2 * foreign(nodes)


@pytest.mark.parametrize("grad_accum", [1, 3])
@pytest.mark.parametrize("nodes", [2, 3, 8])
def test_ddp_moves_two_models_per_step(nodes: int, grad_accum: int) -> None:
    assert moved(needs("ddp", nodes, grad_accum), "node") == 2 * M * foreign(nodes)


@pytest.mark.parametrize(("reduction", "models"), [("all_reduce", 2), ("reduce_scatter", 1)])
@pytest.mark.parametrize("grad_accum", [1, 3])
@pytest.mark.parametrize("nodes", [2, 3, 8])
def test_zero1_reduces_and_publishes_once_per_step(nodes: int, grad_accum: int, reduction: str, models: int) -> None:
    """3 psi as DeepSpeed all-reduces (its default here), 2 psi with a reduce-scatter, as papers count."""
    need = needs("zero1", nodes, grad_accum, reduction=reduction)
    assert need.total("node", "step_reduction") == models * M * foreign(nodes)
    assert need.total("node", "publish") == M * foreign(nodes)
    assert moved(need, "node") == (models + 1) * M * foreign(nodes)
    assert (need == needs("zero1", nodes, grad_accum)) == (reduction == "all_reduce")


@pytest.mark.parametrize(("reduction", "models"), [("all_reduce", 2), ("reduce_scatter", 1)])
@pytest.mark.parametrize("grad_accum", [1, 3])
def test_zero2_reduces_every_micro_batch_and_publishes_once(grad_accum: int, reduction: str, models: int) -> None:
    need = needs("zero2", 3, grad_accum, reduction=reduction)
    assert moved(need, "node") == (models * grad_accum + 1) * M * foreign(3)
    assert (need == needs("zero2", 3, grad_accum)) == (reduction == "all_reduce")


@pytest.mark.parametrize("grad_accum", [1, 3])
def test_hsdp_crosses_nodes_with_the_gradients_of_a_step_only(grad_accum: int) -> None:
    need = needs("hsdp", 3, grad_accum)
    assert moved(need, "node") == need.total("node", "step_reduction") == 2 * M * foreign(3)


@pytest.mark.parametrize("grad_accum", [1, 2])
@pytest.mark.parametrize("nodes", [2, 3, 8])
def test_zeropp_moves_three_quarters_of_a_model_per_micro_batch(nodes: int, grad_accum: int) -> None:
    """qwZ 0.5 M, hpZ 0, qgZ 0.25 M (arXiv 2306.10209), with hpZ as it was published: a world gather in every forward.

    Vectors fall back to an FP16 reduce-scatter: 2 bytes per element instead of 0.5, counted apart.
    """
    need = needs("zeropp", nodes, grad_accum, hpz_version="0.10.0")
    assert need.total("node", "weight_gather", "data") == grad_accum * Fraction(M, 2) * foreign(nodes)
    assert need.total("node", "copy_gather") == 0
    assert need.total("node", "gradient", "data") == grad_accum * Fraction(2 * MATRICES, 4) * foreign(nodes)
    assert need.total("node", "gradient", "fallback") == grad_accum * 2 * VECTORS * foreign(nodes)
    as_if_quantised = need.total("node", "gradient", "fallback") / 4
    assert moved(need, "node", "data") + as_if_quantised == grad_accum * Fraction(3 * M, 4) * foreign(nodes)
    assert moved(need, "node", "padding") == moved(need, "node", "persisted") == 0


@pytest.mark.parametrize("grad_accum", [1, 2, 3])
def test_zeropp_gathers_over_the_world_once_per_step_by_default(grad_accum: int) -> None:
    need = needs("zeropp", 3, grad_accum)
    assert need.total("node", "weight_gather", "data") == Fraction(M, 2) * foreign(3)
    assert need.total("node", "copy_gather") == 0
    assert need.total("gcd", "copy_gather", "data") == (2 * grad_accum - 1) * PSI * foreign(8)


@pytest.mark.parametrize("grad_accum", [1, 2, 5])
@pytest.mark.parametrize("nodes", [2, 3, 8])
def test_zero_topo_crosses_nodes_once_per_step(nodes: int, grad_accum: int) -> None:
    need = needs("zero-topo", nodes, grad_accum)
    for purpose in ("weight_gather", "copy_gather", "gradient"):
        assert need.total("node", purpose) == 0
    assert need.total("node", "step_reduction", "data") == Fraction(MATRICES, 2) * foreign(nodes)
    assert need.total("node", "step_reduction", "fallback") == 2 * VECTORS * foreign(nodes)
    assert need.total("node", "publish") == 2 * PSI * foreign(nodes)
    once = needs("zero-topo", nodes, 1)
    assert need.total("node") == once.total("node")


# ── elements that a rank receives: the tables of the papers ──


@pytest.mark.parametrize("nodes", [2, 3])
def test_elements_received_per_gcd_and_step(nodes: int) -> None:
    """ddp, ZeRO-1 and ZeRO-2: 2 psi; ZeRO-3: 3 psi; each times 1 - 1/N (arXiv 1910.02054). ZeRO-1 and -2 that
    all-reduce, as DeepSpeed's do: 3 psi."""
    every = foreign(8 * nodes)
    for family, models in (("ddp", 2), ("zero1", 3), ("zero2", 3), ("zero3", 3)):
        assert moved(needs(family, nodes), "gcd") == models * 2 * PSI * every, family
    for family in ("zero1", "zero2"):
        assert moved(needs(family, nodes, reduction="reduce_scatter"), "gcd") == 2 * 2 * PSI * every, family


@pytest.mark.parametrize("nodes", [2, 3])
def test_elements_received_per_gcd_by_zero_topo(nodes: int) -> None:
    need = needs("zero-topo", nodes)
    assert need.total("gcd", "weight_gather", "data") == 2 * Fraction(PSI, 2)  # forward and backward, one byte each
    gradient = need.total("gcd", "gradient", "data") / Fraction(1, 2) + need.total("gcd", "gradient", "fallback") / 2
    assert gradient == PSI * foreign(8)
    assert need.total("gcd", "step_reduction", "data") / Fraction(1, 2) == Fraction(MATRICES, 8) * foreign(nodes)
    assert need.total("gcd", "step_reduction", "fallback") / 2 == Fraction(VECTORS, 8) * foreign(nodes)
    assert need.total("gcd", "publish") / 2 == Fraction(PSI, 2) - Fraction(PSI, 8 * nodes)


# ── the 20B model on 48 nodes, as it is run ──


def test_volumes_of_the_20b_model_with_persisted_weights_and_fallbacks_apart() -> None:
    nodes = 48
    psi, vectors = NEOX.num_parameters, NEOX.num_layers * 13 * NEOX.hidden + 2 * NEOX.hidden
    matrices, share = psi - vectors, foreign(nodes)
    engine = Engine(reuse_elements=0)  # vectors are below 1e5 elements and stay whole

    zero3 = needs("zero3", nodes, shape=NEOX, engine=engine)
    assert zero3.total("node", "weight_gather") == 2 * 2 * matrices * share
    assert zero3.total("node", "gradient") == 2 * psi * share
    assert zero3.total("node", "publish") == zero3.total("node", "publish", "persisted") == 2 * vectors * share

    zeropp = needs("zeropp", nodes, shape=NEOX, engine=engine)
    assert zeropp.total("node", "weight_gather", "data") == matrices * share
    assert zeropp.total("node", "gradient", "data") == Fraction(matrices, 2) * share
    assert zeropp.total("node", "gradient", "fallback") == 2 * vectors * share
    assert zeropp.total("node", "publish", "persisted") == 2 * vectors * share

    topo = needs("zero-topo", nodes, shape=NEOX, engine=engine)
    assert topo.total("node", "step_reduction", "data") == Fraction(matrices, 2) * share
    assert topo.total("node", "step_reduction", "fallback") == 2 * vectors * share
    assert topo.total("node", "publish", "data") == 2 * matrices * share
    assert topo.total("node", "publish", "persisted") == 2 * vectors * share
    for need in (zero3, zeropp, topo):
        assert need.total("node", part="padding") == 0
