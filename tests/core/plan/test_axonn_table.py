"""AxoNN's grids: what every linear layer communicates, in which group, counted from the schedule, is the table of the
authors' code (axonn-ai/axonn, intra_layer/fully_connected.py and communication.py)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest

from simfrontier.base.errors import InputError
from simfrontier.core.codecs import parse_codec
from simfrontier.core.program import Schedule, check
from simfrontier.core.workload import GptShape
from tests.core.plan.grids import NO_LAYER, SHAPE, Moved, axonn, moved, other, schedule_of

BF16, FP32 = 2, 4
SEQUENCES, MICROS = 2, 2  # of one rank of the batch in a micro-batch; micro-batches of a step
H, V, S = SHAPE.hidden, SHAPE.vocabulary, SHAPE.sequence
LINEAR = {"qkv": (H, 3 * H), "dense": (H, H), "h_to_4h": (H, 4 * H), "4h_to_h": (4 * H, H)}  # inputs and outputs
TRANSPOSED = ("dense", "4h_to_h")
OUTPUT = {"qkv": "qkv.out", "dense": "attention.out", "h_to_4h": "h_to_4h.out", "4h_to_h": "mlp.out"}
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


GRIDS = [Grid(*sizes) for sizes in ((1, 1, 1, 2), (2, 1, 2, 1), (2, 2, 2, 2), (1, 4, 2, 3), (3, 2, 4, 5), (8, 8, 2, 4))]
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


# ── the easy mode ──


def test_the_easy_mode_divides_linear_modules_alone_and_reduces_the_rest_over_all_ranks_at_once() -> None:
    """What axonn-ai/axonn moves under `auto_parallelize` and autocast: FP32 weights over Z, their gradients in BF16;
    `sync_gradients` reduces biases over Z and data, norms and embedding tables over the whole job."""
    grid = Grid(1, 1, 2, 3)
    schedule = schedule_of(
        axonn(z=2, mode="easy", gather_codec=parse_codec("fp32"), gather_again=True),
        grid.num_ranks,
        shape=other(positions="learned"),
        micros=MICROS,
        micro_batch=SEQUENCES,
    )
    assert check(schedule).is_clean
    expected = Counter[Moved]()
    for module in LINEAR:
        for row, count in linear(module, grid, again=True).items():
            width = FP32 if row.kind == "all_gather" else BF16
            expected[row._replace(num_bytes=row.elements * width)] += count
    for name in ("ln1", "ln2"):
        expected[Moved("step", f"{name}.weight", "all_reduce", "data+z", *_sent(H))] += 1
        for axis in ("z", "data"):  # as the biases of linear modules: a simplification
            expected[Moved("step", f"{name}.bias", "all_reduce", axis, *_sent(H))] += 1
    assert moved(schedule, layer=1) == expected
    ends = moved(schedule, NO_LAYER)
    assert ends[Moved("step", "embedding.weight", "all_reduce", "data+z", *_sent(V * H))] == 1
    assert ends[Moved("step", "positions.weight", "all_reduce", "data+z", *_sent(S * H))] == 1
    assert not any(row.tensor == "embedding.weight" and row.when != "step" for row in ends)
    assert ends[Moved("forward", "head.weight", "all_gather", "z", V * H, V * H * FP32)] == 1


@pytest.mark.parametrize(
    ("keys", "shape", "what"),
    [
        ({"x": 2}, SHAPE, "x = 1, y = 1"),
        ({"z": 2, "data": "zero1"}, SHAPE, '"ddp"'),
        ({"z": 2}, other(tied=True), "tied = false"),
    ],
)
def test_what_the_easy_mode_does_otherwise_is_refused(keys: dict[str, Any], shape: GptShape, what: str) -> None:
    with pytest.raises(InputError, match=what):
        axonn(mode="easy", **keys).refuse_shape(shape)


# ── placements and groups ──


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
