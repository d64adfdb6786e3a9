"""Published volumes as exact counts: what each plan's schedule must move across nodes, packages and to a rank.

psi parameters, M = 2 psi bytes, n nodes, N = 8n ranks, g micro-batches. The two scalars of a step are left out.
"""

from fractions import Fraction

import pytest

from simfrontier.plan import Engine
from tests.analysis.volumes import ALL, EXACT, IN_NODE, MATRICES, NEOX, PSI, VECTORS, M, foreign, moved, needs

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


@pytest.mark.parametrize("grad_accum", [1, 2])
def test_zeropp_of_the_versions_between_gathers_where_gradients_are_on(grad_accum: int) -> None:
    """With checkpointing: layers read last step's node copy in the forward and the world in the recomputation.

    Embedding and head, which are not recomputed, read the world in the forward. All backwards read the node copy.
    """
    need = needs("zeropp", 3, grad_accum, hpz_version="0.10.2", checkpointing="full")
    layers = EXACT.num_layers * (12 * EXACT.hidden**2 + 13 * EXACT.hidden)
    assert need.total("node", "weight_gather", "data") == grad_accum * Fraction(M, 2) * foreign(3)
    assert need.total("gcd", "copy_gather", "data") == grad_accum * (layers + PSI) * foreign(8)


def test_each_part_of_zeropp_can_be_left_out() -> None:
    share = foreign(3)
    no_qwz = needs("zeropp", 3, qwz=False, hpz_version="0.10.0")
    assert no_qwz.total("node", "weight_gather") == M * share
    no_hpz = needs("zeropp", 3, hpz=False)
    assert no_hpz.total("node", "weight_gather", "data") == 2 * Fraction(M, 2) * share
    no_qgz = needs("zeropp", 3, qgz=False)
    assert no_qgz.total("node", "gradient") == no_qgz.total("node", "gradient", "data") == M * share


def test_one_hop_all_to_all_would_cross_nodes_eight_times_as_often() -> None:
    """Coded pieces cannot be summed on the way, so in one hop each of a node's 8 ranks sends for itself."""
    hops: dict[str, list[tuple[str, ...]]] = {"one": [ALL], "two": [IN_NODE, ("node",)]}
    need = {
        name: needs(
            "lattice",
            3,
            weight=ALL,
            accumulator=ALL,
            optimizer=ALL,
            gradient=tuple({"axes": axes, "codec": "int4:6144"} for axes in route),
        )
        for name, route in hops.items()
    }
    assert need["two"].total("node", "gradient", "data") == Fraction(PSI, 2) * foreign(3)
    assert need["one"].total("node", "gradient", "data") == 8 * need["two"].total("node", "gradient", "data")


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


def test_zero_topo_with_fp16_gradients_across_nodes() -> None:
    need = needs("zero-topo", 3, cross_gradient_codec="fp16")
    assert need.total("node", "step_reduction") == 2 * PSI * foreign(3)


@pytest.mark.parametrize("grad_accum", [1, 3])
def test_zero_topo_with_cross_gradients_per_micro_batch_pays_for_each(grad_accum: int) -> None:
    need = needs("zero-topo", 3, grad_accum, cross_gradients="micro_batch")
    assert need.total("node", "gradient", "data") == grad_accum * Fraction(MATRICES, 2) * foreign(3)
    assert need.total("node", "gradient", "fallback") == grad_accum * 2 * VECTORS * foreign(3)


def test_a_flat_publish_needs_no_more_than_node_then_package() -> None:
    """What the node lacks is the same; how often it comes in is the algorithm's doing (test_needs_of_algorithms)."""
    flat, nested = needs("zero-topo", 3, publish="flat"), needs("zero-topo", 3)
    assert flat.total("node", "publish") == nested.total("node", "publish") == 2 * PSI * foreign(3)
    # a rank ends with psi/2 elements either way; node by node, it receives them once
    received = 2 * (Fraction(PSI, 2) - Fraction(PSI, 24))
    assert flat.total("gcd", "publish") == nested.total("gcd", "publish") == received


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


def test_elements_received_per_gcd_by_hsdp() -> None:
    need = needs("hsdp", 3)
    assert need.total("gcd", "weight_gather") == 2 * 2 * PSI * foreign(8)
    assert need.total("gcd", "gradient") == 2 * PSI * foreign(8)
    assert need.total("gcd", "step_reduction") == 2 * 2 * Fraction(PSI, 8) * foreign(3)


def test_elements_received_per_gcd_by_zeropp() -> None:
    need = needs("zeropp", 3)
    assert need.total("gcd", "weight_gather", "data") == PSI * foreign(24)  # one byte each
    assert need.total("gcd", "copy_gather", "data") == PSI * foreign(8)
    hops = Fraction(MATRICES, 1) * foreign(8) + Fraction(MATRICES, 8) * foreign(3)
    assert need.total("gcd", "gradient", "data") == hops / 2  # half a byte each


@pytest.mark.parametrize("nodes", [2, 3])
def test_elements_received_per_gcd_by_zero_topo(nodes: int) -> None:
    need = needs("zero-topo", nodes)
    assert need.total("gcd", "weight_gather", "data") == 2 * Fraction(PSI, 2)  # forward and backward, one byte each
    gradient = need.total("gcd", "gradient", "data") / Fraction(1, 2) + need.total("gcd", "gradient", "fallback") / 2
    assert gradient == PSI * foreign(8)
    assert need.total("gcd", "step_reduction", "data") / Fraction(1, 2) == Fraction(MATRICES, 8) * foreign(nodes)
    assert need.total("gcd", "step_reduction", "fallback") / 2 == Fraction(VECTORS, 8) * foreign(nodes)
    assert need.total("gcd", "publish") / 2 == Fraction(PSI, 2) - Fraction(PSI, 8 * nodes)


def test_a_second_copy_moves_the_backward_gather_of_zero_topo_to_the_node() -> None:
    need = needs("zero-topo", 3, second_copy="fp16")
    assert need.total("gcd", "weight_gather", "data") == Fraction(PSI, 2)
    assert need.total("gcd", "copy_gather", "data") == PSI * foreign(8)


def test_pair_gathers_stay_in_the_package() -> None:
    need = needs("zero-topo", 2)
    assert need.total("package", "weight_gather") == 0
    # the node's reduction: each rank sends 3/4 of psi/2 bytes to other packages; a package has two
    assert need.total("package", "gradient", "data") == 2 * Fraction(MATRICES, 2) * foreign(4)


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


def test_what_deepspeed_keeps_of_the_20b_model_instead_of_gathering_it_again() -> None:
    """Defaults with checkpointing: two world gathers per matrix, but one where it is needed again within 1e9 elements.

    The head is (at once), and of the last layer all but dense: between the two uses of dense lie the two matrices of
    the MLP, the head twice and the recomputed qkv, 1.03e9 elements; between those of the others at most 0.96e9.
    """
    h, head = NEOX.hidden, NEOX.vocabulary * NEOX.hidden
    assert (4 + 4 + 3) * h * h + 2 * head > 1_000_000_000 > (1 + 4 + 4) * h * h + 2 * head
    need = needs("zero3", 48, shape=NEOX, engine=Engine(), checkpointing="full")
    matrices = NEOX.num_parameters - NEOX.num_layers * 13 * h - 2 * h
    kept = head + 11 * h * h
    assert need.total("node", "weight_gather") == 2 * (2 * matrices - kept) * foreign(48)


def test_quantised_scales_are_a_thousandth() -> None:
    """One FP32 scale for 6144 elements of one byte, or of half a byte."""
    need = needs("zeropp", 48, shape=NEOX, engine=Engine())
    data, scales = need.total("node", "weight_gather", "data"), need.total("node", "weight_gather", "scales")
    assert scales / data == pytest.approx(4 / 6144, rel=0.02)
