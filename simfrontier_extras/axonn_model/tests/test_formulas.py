"""AxoNN's analytical model: both versions' formulas on cases worked by hand, and how they depend on what goes in."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from simfrontier.errors import InputError
from simfrontier.workload import MODELS, GptShape
from simfrontier_extras.axonn_model.bandwidth import load_bandwidths
from simfrontier_extras.axonn_model.formulas import CommTimes, comm_times
from simfrontier_extras.axonn_model.grid import Grid
from simfrontier_extras.axonn_model.transformer import Transformer, transformer_of
from simfrontier_extras.axonn_model.versions import VERSIONS, VersionName

MACHINES = ("frontier", "perlmutter")

# One layer of h = 1024 with 1024 tokens a step (batch 8, sequence 128): every volume below is a small multiple of
# h² = 2^20 elements, M = 2 MiB = 2/1024 GiB in BF16. In units of M, before the shares (p-1)/p:
#   weights: qkv 3, projection 1, up 4, down 4; rows (batch/(data z) sequence = r): r h = r/1024 of M
SMALL = Transformer(num_layers=1, hidden=1024, heads=16, vocabulary=1024, sequence=128, intermediate=4096)
M = 2 / 1024


def predicted(
    version: VersionName, machine: str, sizes: tuple[int, int, int, int], quirk: bool = True, accumulation: int = 1
) -> CommTimes:
    x, y, z, data = sizes
    grid = Grid(x=x, y=y, z=z, data=data)
    return comm_times(load_bandwidths(version, machine), SMALL, grid, 8, quirk=quirk, accumulation=accumulation)


def assert_parts(times: CommTimes, *, x: float = 0.0, y: float = 0.0, z: float = 0.0, data: float = 0.0) -> None:
    got = (times.x_s, times.y_s, times.z_s, times.data_s, times.total_s)
    assert got == pytest.approx((x, y, z, data, x + y + z + data), rel=1e-9, abs=0.0)


# ── Version A ──


@pytest.mark.parametrize(("machine", "gib_per_s"), [("perlmutter", 225.0), ("frontier", 52.0)])
def test_version_a_along_data_alone(machine: str, gib_per_s: float) -> None:
    # 4 * 3/4 * (3 + 1 + 4 + 4) M = 36 M over bw(1, 4)
    assert_parts(predicted("axonn-a", machine, (1, 1, 1, 4)), data=36 * M / gib_per_s)


@pytest.mark.parametrize(("machine", "gib_per_s"), [("perlmutter", 80.0), ("frontier", 135.0)])
def test_version_a_along_z_alone_counts_every_accumulation_step(machine: str, gib_per_s: float) -> None:
    # 3 * 7/8 * 12 M = 31.5 M over bw(1, 8); three micro-batches move it three times
    assert_parts(predicted("axonn-a", machine, (1, 1, 8, 1)), z=31.5 * M / gib_per_s)
    assert_parts(predicted("axonn-a", machine, (1, 1, 8, 1), accumulation=3), z=94.5 * M / gib_per_s)


def test_accumulation_changes_nothing_but_z() -> None:
    once, thrice = (predicted("axonn-a", "frontier", (2, 2, 2, 4), accumulation=steps) for steps in (1, 3))
    assert (thrice.x_s, thrice.y_s, thrice.data_s) == (once.x_s, once.y_s, once.data_s)
    assert thrice.z_s == pytest.approx(3 * once.z_s, rel=1e-9)


@pytest.mark.parametrize(("machine", "gib_per_s"), [("perlmutter", 76.0), ("frontier", 129.0)])
def test_version_a_along_x_alone(machine: str, gib_per_s: float) -> None:
    # r = 8 * 128 = 1024 rows, so r h = 1 M. Over X a normal layer sums its output in forward and recompute, a
    # transposed one the gradient of its input:
    #   qkv 4 * 1/2 * 3 = 6, projection 2 * 1/2 * 1 = 1, up 4 * 1/2 * 4 = 8, down 2 * 1/2 * 4 = 4;
    # with the quirk the layer down has an input of width 1: 2 * 1/2 * 1 = 1
    assert_parts(predicted("axonn-a", machine, (2, 1, 1, 1), quirk=False), x=19 * M / gib_per_s)
    assert_parts(predicted("axonn-a", machine, (2, 1, 1, 1)), x=16 * M / gib_per_s)


@pytest.mark.parametrize(("machine", "gib_per_s"), [("perlmutter", 76.0), ("frontier", 129.0)])
def test_version_a_along_y_alone(machine: str, gib_per_s: float) -> None:
    # Over Y a normal layer sums the gradient of its input, a transposed one its output twice:
    #   qkv 2 * 1/2 * 1 = 1, projection 4 * 1/2 * 1 = 2, up 2 * 1/2 * 1 = 1, down 4 * 1/2 * 1 = 2;
    # with the quirk the layer down has an output of width 4: 4 * 1/2 * 4 = 8
    assert_parts(predicted("axonn-a", machine, (1, 2, 1, 1), quirk=False), y=6 * M / gib_per_s)
    assert_parts(predicted("axonn-a", machine, (1, 2, 1, 1)), y=12 * M / gib_per_s)


@pytest.mark.parametrize(
    ("machine", "bw_x", "bw_y", "bw_z", "bw_data"),
    # bw(1, 2), bw(2, 4), bw(8, 2), bw(16, 2)
    [("perlmutter", 76.0, 40.0, 20.0, 20.0), ("frontier", 129.0, 72.0, 5.0, 5.0)],
)
@pytest.mark.parametrize("quirk", [True, False])
def test_version_a_along_all_four(
    machine: str, bw_x: float, bw_y: float, bw_z: float, bw_data: float, quirk: bool
) -> None:
    # x = 2, y = 4, z = 2, data = 2: r = 8/4 * 128 = 256 rows, so r h = M/4.
    # data: 4 * 1/2 * 12/16 = 1.5; z: 3 * 1/2 * 12/8 = 2.25
    # x, normal (output over y = 4): 4 * 1/2 * (3 + 4) * 1/4 / 4 = 0.875
    # x, transposed (input over y = 4): 2 * 1/2 * (1 + 4) * 1/4 / 4 = 0.3125, with the quirk (1 + 1): 0.125
    # y, normal (input over x = 2): 2 * 3/4 * (1 + 1) * 1/4 / 2 = 0.375
    # y, transposed (output over x = 2): 4 * 3/4 * (1 + 1) * 1/4 / 2 = 0.75, with the quirk (1 + 4): 1.875
    x, y = (0.875 + 0.125, 0.375 + 1.875) if quirk else (0.875 + 0.3125, 0.375 + 0.75)
    assert_parts(
        predicted("axonn-a", machine, (2, 4, 2, 2), quirk=quirk),
        x=x * M / bw_x,
        y=y * M / bw_y,
        z=2.25 * M / bw_z,
        data=1.5 * M / bw_data,
    )


# ── Version B ──

LATENCY_S = {"perlmutter": 9e-6, "frontier": 39e-6}


@pytest.mark.parametrize(("machine", "gib_per_s"), [("perlmutter", 59.52), ("frontier", 135.0)])
def test_version_b_along_one_dimension_has_a_latency_per_rank_and_layer(machine: str, gib_per_s: float) -> None:
    # Eight ranks are two nodes of Perlmutter (59.52 / min(4, 1)) and one of Frontier (the table's 135).
    # Four linear layers, each 8 ranks' latency: 32 a. data: 4 * 7/8 * 12 = 42, z: 3 * 7/8 * 12 = 31.5
    latency = 32 * LATENCY_S[machine]
    assert_parts(predicted("axonn-b", machine, (1, 1, 1, 8)), data=latency + 42 * M / gib_per_s)
    assert_parts(predicted("axonn-b", machine, (1, 1, 8, 1)), z=latency + 31.5 * M / gib_per_s)


@pytest.mark.parametrize(("machine", "gib_per_s"), [("perlmutter", 225.0), ("frontier", 52.0)])
def test_version_b_does_not_count_the_recomputed_forward(machine: str, gib_per_s: float) -> None:
    # x = 4, r h = M, all 2 * 3/4: qkv 3, projection 1, up 4, down 4 (with the quirk 1), four layers' latency of 4 ranks
    latency = 16 * LATENCY_S[machine]
    assert_parts(predicted("axonn-b", machine, (4, 1, 1, 1), quirk=False), x=latency + 18 * M / gib_per_s)
    assert_parts(predicted("axonn-b", machine, (4, 1, 1, 1)), x=latency + 13.5 * M / gib_per_s)
    # y = 4, all 2 * 3/4: inputs of the normal ones 1 and 1, outputs of the transposed ones 1 and 1 (with the quirk 4)
    assert_parts(predicted("axonn-b", machine, (1, 4, 1, 1), quirk=False), y=latency + 6 * M / gib_per_s)
    assert_parts(predicted("axonn-b", machine, (1, 4, 1, 1)), y=latency + 10.5 * M / gib_per_s)


@pytest.mark.parametrize(
    ("machine", "bw_1_2", "bw_2_4", "bw_1_4", "bw_4_2", "bw_8"),
    # between nodes 59.52 / min(4, inner) and 109.98 / min(8, inner)
    [("perlmutter", 76.0, 29.76, 225.0, 14.88, 14.88), ("frontier", 129.0, 72.0, 52.0, 36.0, 13.7475)],
)
@pytest.mark.parametrize("quirk", [True, False])
def test_version_b_nests_the_other_way_in_transposed_layers(
    machine: str, bw_1_2: float, bw_2_4: float, bw_1_4: float, bw_4_2: float, bw_8: float, quirk: bool
) -> None:
    # x = 2, y = 4, z = 2, data = 2, r h = M/4. Normal layers look up bw(1, x) and bw(x, y), transposed ones bw(1, y)
    # and bw(y, x); z and data stand outside both: bw(8, 2), bw(16, 2).
    # data: 4 * 1/2 * 12/16 = 1.5; z: 3 * 1/2 * 12/8 = 2.25; four layers' latency of 2 ranks each: 8 a
    # x, normal: 2 * 1/2 * (3 + 4)/4/4 = 0.4375; transposed (input over y): 2 * 1/2 * (1 + 4)/4/4 = 0.3125, quirk 0.125
    # y, normal: 2 * 3/4 * (1 + 1)/4/2 = 0.375; transposed (output over x): 2 * 3/4 * (1 + 1)/4/2 = 0.375, quirk
    # 2 * 3/4 * (1 + 4)/4/2 = 0.9375
    a = LATENCY_S[machine]
    x, y = (0.125, 0.9375) if quirk else (0.3125, 0.375)
    assert_parts(
        predicted("axonn-b", machine, (2, 4, 2, 2), quirk=quirk),
        x=8 * a + 0.4375 * M / bw_1_2 + x * M / bw_4_2,
        y=16 * a + 0.375 * M / bw_2_4 + y * M / bw_1_4,
        z=8 * a + 2.25 * M / bw_8,
        data=8 * a + 1.5 * M / bw_8,
    )


def test_a_llama_has_narrower_keys_and_two_layers_up() -> None:
    # z = 2: 3 * 1/2 of the weights of each layer, over bw(1, 2) = 129, and two ranks' latency. h = 1024, f = 2048:
    # qkv 1024 * (1024 + 2 * 1024 // 10 = 1228), projection 1024², up 2 * 1024 * 2048, down 2048 * 1024; latency of
    # five layers
    llama = replace(SMALL, intermediate=2048, gqa=10, swiglu=True)
    times = comm_times(load_bandwidths("axonn-b", "frontier"), llama, Grid(x=1, y=1, z=2, data=1), 8)
    elements = 1024 * 1228 + 1024**2 + 3 * 1024 * 2048
    assert_parts(times, z=10 * 39e-6 + 1.5 * elements * 2 / 1024**3 / 129.0)


def test_layers_add_up() -> None:
    one = predicted("axonn-b", "frontier", (2, 2, 2, 1))
    bandwidths, grid = load_bandwidths("axonn-b", "frontier"), Grid(x=2, y=2, z=2, data=1)
    many = comm_times(bandwidths, replace(SMALL, num_layers=42), grid, 8)
    assert many.total_s == pytest.approx(42 * one.total_s, rel=1e-12)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("machine", MACHINES)
def test_one_device_communicates_nothing(version: VersionName, machine: str) -> None:
    assert predicted(version, machine, (1, 1, 1, 1)) == CommTimes(data_s=0.0, z_s=0.0, y_s=0.0, x_s=0.0)


# ── properties ──

power = st.integers(0, 5).map(lambda exponent: 2**exponent)
any_grid = st.builds(Grid, x=power, y=power, z=power, data=power)
any_gpt = st.sampled_from(
    [
        shape
        for shape in MODELS.values()
        if isinstance(shape, GptShape) and shape == replace(shape, gated=False, kv_heads=None, ffn_hidden=None)
    ]
).map(transformer_of)  # those that version A has formulas for
version_names = st.sampled_from(VERSIONS)
machines = st.sampled_from(MACHINES)


@given(version_names, machines, any_grid, any_gpt, st.booleans(), st.floats(1.01, 10.0))
def test_more_bandwidth_is_never_slower(
    version: VersionName, machine: str, grid: Grid, gpt: Transformer, quirk: bool, factor: float
) -> None:
    slow = load_bandwidths(version, machine)
    fast = replace(
        slow,
        in_node={key: rate * factor for key, rate in slow.in_node.items()},
        between_nodes_gib_per_s=slow.between_nodes_gib_per_s * factor,
    )
    before, after = (comm_times(known, gpt, grid, 1024, quirk=quirk) for known in (slow, fast))
    for name, size in zip(("x_s", "y_s", "z_s", "data_s"), grid.sizes, strict=True):
        assert getattr(after, name) < getattr(before, name) if size > 1 else getattr(before, name) == 0.0


@given(version_names, machines, any_grid, any_gpt, st.booleans())
def test_parts_are_finite_and_the_quirk_is_not_in_weights(
    version: VersionName, machine: str, grid: Grid, gpt: Transformer, quirk: bool
) -> None:
    bandwidths = load_bandwidths(version, machine)
    one, other = (comm_times(bandwidths, gpt, grid, 1024, quirk=way) for way in (quirk, not quirk))
    assert all(math.isfinite(t) and t >= 0.0 for t in (one.x_s, one.y_s, one.z_s, one.data_s))
    assert (one.z_s, one.data_s) == pytest.approx((other.z_s, other.data_s), rel=1e-12)


@given(machines, st.sampled_from([2, 4, 8, 16, 64]), any_gpt, st.integers(1, 4096))
def test_without_the_quirk_a_doubled_batch_doubles_what_x_and_y_move(
    machine: str, size: int, gpt: Transformer, batch: int
) -> None:
    bandwidths = load_bandwidths("axonn-a", machine)
    for grid in (Grid(x=size, y=1, z=1, data=1), Grid(x=1, y=size, z=1, data=1)):
        once, twice = (comm_times(bandwidths, gpt, grid, n, quirk=False).total_s for n in (batch, 2 * batch))
        assert twice == pytest.approx(2 * once, rel=1e-12)


# ── mistakes ──


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"swiglu": True}, "swiglu: got true, allowed: false with axonn-a (only axonn-b has others)"),
        ({"gqa": 8}, "gqa: got 8, allowed: 1 with axonn-a (only axonn-b has others)"),
        ({"intermediate": 11008}, "intermediate: got 11008, allowed: 4096 with axonn-a (only axonn-b has others)"),
    ],
)
def test_version_a_refuses_what_is_no_plain_gpt(change: dict[str, int], message: str) -> None:
    with pytest.raises(InputError) as refused:
        comm_times(load_bandwidths("axonn-a", "frontier"), replace(SMALL, **change), Grid(x=1, y=1, z=1, data=1), 1)
    assert str(refused.value) == message


def test_version_b_refuses_accumulation() -> None:
    with pytest.raises(InputError) as refused:
        predicted("axonn-b", "frontier", (1, 1, 2, 1), accumulation=4)
    assert str(refused.value) == "accumulation: got 4, allowed: 1 with axonn-b (only axonn-a has others)"


@pytest.mark.parametrize(
    ("sizes", "message"), [((3, 1, 1, 1), "x = 3"), ((1, 1, 0, 1), "z = 0"), ((1, 1, 1, -2), "data = -2")]
)
def test_a_grid_has_powers_of_two(sizes: tuple[int, int, int, int], message: str) -> None:
    with pytest.raises(InputError) as refused:
        Grid(x=sizes[0], y=sizes[1], z=sizes[2], data=sizes[3])
    assert str(refused.value) == f"grid: got {message}, allowed: a power of two"
