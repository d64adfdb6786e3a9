"""AxoNN's grids: what every linear layer communicates, in which group, counted from the schedule, is the table of the
authors' code (axonn-ai/axonn, intra_layer/fully_connected.py and communication.py)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pytest

from simfrontier.errors import InputError
from simfrontier.schedule import Schedule
from tests.plan.grids import NO_LAYER, SHAPE, Moved, axonn, moved, other, schedule_of

BF16, FP32 = 2, 4
SEQUENCES, MICROS = 2, 2  # of one rank of the batch in a micro-batch; micro-batches of a step
H, V, S = SHAPE.hidden, SHAPE.vocabulary, SHAPE.sequence
LINEAR = {"qkv": (H, 3 * H), "dense": (H, H), "h_to_4h": (H, 4 * H), "4h_to_h": (4 * H, H)}  # inputs and outputs
TRANSPOSED = ("dense", "4h_to_h")
OUTPUT = {"qkv": "qkv.out", "dense": "attention.out", "h_to_4h": "h_to_4h.out", "4h_to_h": "mlp.out"}
INPUT = {"qkv": "ln1.out", "dense": "context", "h_to_4h": "ln2.out", "4h_to_h": "gelu.out"}
INPUT_GRADIENT = {"qkv": "d.ln1", "dense": "d.context", "h_to_4h": "d.ln2", "4h_to_h": "d.gelu"}


@dataclass(frozen=True)
class Grid:
    """Sizes of the four axes (Gc, Gr, Gd and Gdata of the authors' code)."""

    x: int
    y: int
    z: int
    data: int

    def __str__(self) -> str:
        return f"{self.x}x{self.y}x{self.z}x{self.data}"

    @property
    def num_ranks(self) -> int:
        return self.x * self.y * self.z * self.data

    @property
    def rows(self) -> int:
        """m / (Gdata Gd), m being samples × positions of a micro-batch over all ranks."""
        samples = SEQUENCES * self.data * self.z
        return samples * S // (self.data * self.z)

    def schedule(self, **keys: bool) -> Schedule:
        options = axonn(self.x, self.y, self.z, **keys)
        return schedule_of(options, self.num_ranks, micros=MICROS, micro_batch=SEQUENCES)


GRIDS = [
    Grid(*sizes)
    for sizes in (
        (1, 1, 1, 2),
        (2, 1, 1, 1),
        (1, 2, 1, 1),
        (1, 1, 2, 1),
        (2, 2, 1, 1),
        (2, 1, 2, 1),
        (1, 2, 2, 1),
        (1, 1, 2, 2),
        (2, 2, 2, 1),
        (2, 2, 2, 2),
        (4, 1, 1, 2),
        (1, 4, 2, 3),
        (4, 2, 1, 4),
        (2, 4, 8, 1),
        (1, 1, 16, 2),
        (8, 8, 2, 4),
        (3, 2, 4, 5),
        (2, 3, 1, 1),
        (16, 24, 3, 2),
    )
]
every_grid = pytest.mark.parametrize("grid", GRIDS, ids=str)


def rows_of(rows: list[tuple[str, str, str, str, int, int]], grid: Grid) -> Counter[Moved]:
    """Rows of (pass, tensor, kind, axis, elements, bytes of an element), without those of axes that are not there."""
    there = {axis for axis in ("x", "y", "z", "data") if getattr(grid, axis) > 1}
    return Counter(
        Moved(when, tensor, kind, axis, elements, elements * width)
        for when, tensor, kind, axis, elements, width in rows
        if axis in there
    )


def linear(module: str, grid: Grid, *, again: bool = False) -> Counter[Moved]:
    """One linear layer: the table, with X and Y exchanged where the layer is transposed. With full checkpointing the
    forward stands twice; `again`: the develop branch, which gathers W in the backward too."""
    inputs, outputs = LINEAR[module]
    across, down = ("y", "x") if module in TRANSPOSED else ("x", "y")  # the axes that cut inputs and outputs
    gc, gr = getattr(grid, across), getattr(grid, down)
    weight, bias = f"{module}.weight", f"{module}.bias"
    whole = inputs * outputs // (gc * gr)
    out, back = grid.rows * outputs // gr, grid.rows * inputs // gc
    gathers = ("forward", "recompute", "backward") if again else ("forward", "recompute")
    return rows_of(
        [
            *((when, weight, "all_gather", "z", whole, BF16) for when in gathers),
            *((when, OUTPUT[module], "all_reduce", across, out, BF16) for when in ("forward", "recompute")),
            ("backward", INPUT_GRADIENT[module], "all_reduce", down, back, BF16),
            ("backward", weight, "reduce_scatter", "z", whole, BF16),
            ("step", weight, "all_reduce", "data", whole // grid.z, BF16),
            ("step", bias, "all_reduce", "z", outputs // gr, BF16),
            ("step", bias, "all_reduce", "data", outputs // gr, BF16),
        ],
        grid,
    )


def norm(name: str, grid: Grid, passes: tuple[str, ...] = ("forward", "recompute")) -> Counter[Moved]:
    """A LayerNorm over features that X cuts: per position two wide sums forward and two backward; its weight and bias
    are cut by X, and reduced over Z, then over data."""
    sums = 2 * grid.rows
    rows = [(when, f"{name}.moments", "all_reduce", "x", sums, FP32) for when in passes]
    rows.append(("backward", f"d.{name}.moments", "all_reduce", "x", sums, FP32))
    for part in ("weight", "bias"):
        rows += [("step", f"{name}.{part}", "all_reduce", axis, H // grid.x, BF16) for axis in ("z", "data")]
    return rows_of(rows, grid)


def table(module: str, grid: Grid) -> Counter[Moved]:
    """Embedding or head: W of V × H, the vocabulary over Y and features over X, stored over Z."""
    whole = V * H // (grid.x * grid.y)
    weight = f"{module}.weight"
    rows = [
        ("forward", weight, "all_gather", "z", whole, BF16),
        ("backward", weight, "all_gather", "z", whole, BF16),
        ("backward", weight, "reduce_scatter", "z", whole, BF16),
        ("step", weight, "all_reduce", "data", whole // grid.z, BF16),
    ]
    return rows_of(rows, grid)


def loss(grid: Grid) -> Counter[Moved]:
    """Logits over X; the largest logit of each row, and two sums, over Y; the gradient of the head's input over Y."""
    rows = [
        ("forward", "logits", "all_reduce", "x", grid.rows * V // grid.y, BF16),
        ("forward", "loss.top", "all_reduce", "y", grid.rows, FP32),
        ("forward", "loss.terms", "all_reduce", "y", 2 * grid.rows, FP32),
        ("backward", "d.final_norm", "all_reduce", "y", grid.rows * H // grid.x, BF16),
    ]
    return rows_of(rows, grid)


# ── the table ──


@every_grid
@pytest.mark.parametrize("again", [False, True], ids=["kept", "gathered again"])
def test_every_collective_of_a_layer_is_the_table_s_and_nothing_else_is(grid: Grid, again: bool) -> None:
    schedule = grid.schedule(gather_again=again)
    expected = Counter[Moved]()
    for module in LINEAR:
        expected += linear(module, grid, again=again)
    expected += norm("ln1", grid) + norm("ln2", grid)
    for layer in range(SHAPE.num_layers):
        for micro in range(MICROS):
            got = moved(schedule, layer, micro)
            if layer == 0:  # its input is the embedding's, of all vocabulary: one more sum, over Y
                assert got.pop(Moved("forward", "x", "all_reduce", "y", *_sent(grid.rows * H // grid.x)), 0) == (
                    grid.y > 1
                )
            assert got == expected


def _sent(elements: int) -> tuple[int, int]:
    return elements, elements * BF16


@every_grid
def test_embedding_head_and_loss_add_their_own_and_two_scalars(grid: Grid) -> None:
    schedule = grid.schedule()
    expected = table("embedding", grid) + table("head", grid) + loss(grid) + norm("final_norm", grid, ("forward",))
    live = "+".join(axis for axis in ("data", "z", "y", "x") if getattr(grid, axis) > 1 and axis != "data")
    if live:  # the data axis divides no gradient that the optimizer reads: each weight counts once as it is
        for scalar in ("overflow", "gradient_norm"):
            expected[Moved("forward", scalar, "all_reduce", live, 1, FP32)] += 1
    for micro in range(MICROS):
        assert moved(schedule, NO_LAYER, micro) == expected


def test_the_table_by_hand_for_qkv_and_dense_on_2x3x4x5() -> None:
    """m/(Gdata Gd) = 2·24 = 48 rows; qkv: W = 144·48/6 = 1152, O = 48·144/3 = 2304 over X, dI = 48·48/2 = 1152 over Y;
    dense, transposed: W = 48·48/6 = 384, O = 48·48/2 = 1152 over Y, dI = 48·48/3 = 768 over X."""
    got = moved(Grid(2, 3, 4, 5).schedule(), 1)
    for tensor, kind, axis, elements in (
        ("qkv.weight", "all_gather", "z", 1152),
        ("qkv.out", "all_reduce", "x", 2304),
        ("dense.weight", "all_gather", "z", 384),
        ("attention.out", "all_reduce", "y", 1152),
    ):
        for when in ("forward", "recompute"):
            assert got[Moved(when, tensor, kind, axis, *_sent(elements))] == 1, tensor
    for tensor, kind, axis, elements in (
        ("d.ln1", "all_reduce", "y", 1152),
        ("qkv.weight", "reduce_scatter", "z", 1152),
        ("d.context", "all_reduce", "x", 768),
        ("dense.weight", "reduce_scatter", "z", 384),
    ):
        assert got[Moved("backward", tensor, kind, axis, *_sent(elements))] == 1, tensor
    assert got[Moved("step", "qkv.weight", "all_reduce", "data", *_sent(288))] == 1


def test_without_checkpointing_the_forward_stands_once_and_the_backward_gathers_again() -> None:
    schedule = schedule_of(axonn(2, 2, 2), 8, checkpointing="none")
    got = moved(schedule, 0)
    assert not [row for row in got if row.when == "recompute"]
    gathers = [row.when for row in got.elements() if row.tensor == "qkv.weight" and row.kind == "all_gather"]
    assert sorted(gathers) == ["backward", "forward"]


def test_every_reduce_scatter_is_of_one_weight() -> None:
    """One call for each linear layer, as soon as its gradient is made, not DeepSpeed's buckets."""
    schedule = Grid(2, 2, 2, 2).schedule()
    calls = [op for _, op in schedule.roles[0].instances() if op.kind == "reduce_scatter"]
    assert all(len(op.reads) == 1 for op in calls)
    assert len(calls) == MICROS * (4 * SHAPE.num_layers + 2)


# ── placements and groups ──


@every_grid
def test_elements_of_input_weight_and_output_on_a_rank(grid: Grid) -> None:
    schedule = grid.schedule()

    def held(name: str) -> int:
        return schedule.tensors[name].local_elements(schedule.mesh)

    for module, (inputs, outputs) in LINEAR.items():
        gc, gr = (grid.y, grid.x) if module in TRANSPOSED else (grid.x, grid.y)
        assert held(INPUT[module]) == grid.rows * inputs // gc, module
        assert held(f"{module}.weight") == inputs * outputs // (grid.x * grid.y * grid.z), module
        assert held(OUTPUT[module]) == grid.rows * outputs // gr, module


@every_grid
def test_groups_are_consecutive_over_x_then_y_then_z_then_data(grid: Grid) -> None:
    """rank = ((data · Gd + z) · Gr + y) · Gc + x."""
    mesh = grid.schedule().mesh
    assert mesh.num_ranks == grid.num_ranks
    strides = {"x": 1, "y": grid.x, "z": grid.x * grid.y, "data": grid.x * grid.y * grid.z}
    for axis, stride in strides.items():
        size = getattr(grid, axis)
        starts = [rank for rank in range(grid.num_ranks) if rank // stride % size == 0]
        expected = [[start + i * stride for i in range(size)] for start in starts]
        assert sorted(mesh.groups((axis,)).tolist()) == expected


@pytest.mark.parametrize("grid", GRIDS, ids=str)
@pytest.mark.parametrize("node", [(8, 2), (4, 1), (4, 4)], ids=str)
def test_data_axes_within_nodes_make_the_same_data_groups(grid: Grid, node: tuple[int, int]) -> None:
    mesh = axonn(grid.x, grid.y, grid.z).mesh(grid.num_ranks, *node)
    stride = grid.x * grid.y * grid.z
    expected = [[start + i * stride for i in range(grid.data)] for start in range(stride)]
    assert sorted(mesh.groups(("data", "package", "gcd")).tolist()) == expected


def test_stages_stand_between_z_and_data() -> None:
    """rank = ((data · G_inter + stage) · Gd + z) · Gr · Gc + …: data groups have a stride of Gintra · G_inter."""
    mesh = axonn(2, 3, 2, pipeline=5).mesh(2 * 3 * 2 * 5 * 4, 1, 1)
    assert mesh.groups(("stage",))[0].tolist() == [0, 12, 24, 36, 48]
    assert mesh.groups(("data",))[0].tolist() == [0, 60, 120, 180]


@pytest.mark.parametrize(("ranks", "nearest"), [(12, "8 and 16"), (7, "8"), (100, "96 and 104")])
def test_a_grid_that_does_not_divide_the_ranks_is_refused_with_the_nearest(ranks: int, nearest: str) -> None:
    message = rf"^grid z 2 × y 2 × x 2 = 8 ranks does not divide {ranks} devices; .*divides: {nearest} devices$"
    with pytest.raises(InputError, match=message):
        axonn(2, 2, 2).mesh(ranks, 1, 1)


# ── other blocks ──


def test_a_parallel_residual_changes_no_linear_layer_s_collectives() -> None:
    grid = Grid(2, 2, 2, 2)
    shape = other(residual="parallel")
    got = moved(schedule_of(axonn(2, 2, 2), 16, shape=shape, micro_batch=SEQUENCES), 1)
    expected = Counter[Moved]()
    for module in LINEAR:
        expected += linear(module, grid)
    assert got == expected + norm("ln1", grid) + norm("ln2", grid)


def test_a_tied_table_is_gathered_for_each_use_and_its_gradients_meet() -> None:
    """Two gathers forward and two backward (embedding, head), two reduce-scatters into one accumulator."""
    schedule = schedule_of(axonn(2, 2, 2), 8, shape=other(tied=True))
    got = moved(schedule, NO_LAYER)
    mine = Counter((row.when, row.kind) for row in got.elements() if row.tensor == "embedding.weight")
    assert mine == {("forward", "all_gather"): 2, ("backward", "all_gather"): 2, ("backward", "reduce_scatter"): 2}
    assert "head.weight" not in schedule.tensors
