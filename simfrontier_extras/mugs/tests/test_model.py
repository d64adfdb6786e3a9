"""The graph of a Mugs step: parameters, operations and memory as they follow from the published shapes."""

from __future__ import annotations

import pytest

from simfrontier.core.workload import Workload, find_model
from simfrontier_extras.mugs.model import mugs
from simfrontier_extras.mugs.models import MugsShape

SIZES = {"s": "mugs-vit-s", "b": "mugs-vit-b", "l": "mugs-vit-l"}
MIB = 2**20


def shape_of(size: str) -> MugsShape:
    shape = find_model(SIZES[size])
    assert isinstance(shape, MugsShape)
    return shape


# ── parameters: sail-sg/mugs src/model.py, src/vision_transformer.py ──


@pytest.mark.parametrize(
    ("size", "backbone", "relation", "trained", "gradient_mb"),
    [
        ("s", 21_665_664, 1_774_464, 60_996_608, 244.0),
        ("b", 85_798_656, 7_087_872, 132_802_304, 531.2),
        ("l", 303_301_632, 12_596_224, 357_320_960, 1429.3),
    ],
)
def test_parameters(size: str, backbone: int, relation: int, trained: int, gradient_mb: float) -> None:
    """FP32 gradients have 4 bytes per trained parameter."""
    shape, work = shape_of(size), mugs(shape_of(size), 1)
    count = {
        name: weight.num_elements * (work.num_layers if weight.per_layer else 1)
        for name, weight in work.weights.items()
    }
    mine = [
        n for name, n in count.items() if not name.startswith(("relation/", "instance.", "group.", "cluster.", "last."))
    ]
    assert sum(mine) == backbone
    assert sum(n for name, n in count.items() if name.startswith("relation/")) == relation
    assert work.num_parameters == shape.num_parameters == trained
    assert round(4 * trained / 1e6, 1) == gradient_mb


def test_the_teacher_follows_all_but_the_predictors() -> None:
    work = mugs(shape_of("s"), 1)
    followed = {state.follows for state in work.states.values() if state.follows}
    assert set(work.weights) - followed == {
        f"{head}.predict.{n}.weight" for head in ("instance", "group") for n in (1, 2)
    }
    for state in work.states.values():
        if state.follows:
            weight = work.weights[state.follows]
            assert (state.shape, state.dims, state.per_layer) == (weight.shape, weight.dims, weight.per_layer)


# ── operations of one image ──


def backbone_gflop(work: Workload, stream: str) -> float:
    """Of the forward of a stream, per image: patches and layers."""
    mine = [op for op in work.layers[0].forward if op.name.startswith(f"{stream}/")]
    first = [op for op in work.embedding.forward if op.name.startswith(f"{stream}/")]
    return (work.num_layers * sum(op.flops for op in mine) + sum(op.flops for op in first)) / work.batch / 1e9


@pytest.mark.parametrize(
    ("size", "large", "small", "image"), [("s", 9.2, 1.62, 122), ("b", 35.1, 6.38, 472), ("l", 123.1, 22.5, 1661)]
)
def test_operations_per_image(size: str, large: float, small: float, image: int) -> None:
    """A forward of a crop of 224 and of 96 pixels; per image the teacher's forward of 2 large crops and three times the
    student's of 2 large and 10 small ones (its backward counts twice)."""
    work = mugs(shape_of(size), 4)
    assert round(backbone_gflop(work, "teacher") / 2, 1) == round(backbone_gflop(work, "global") / 2, 1) == large
    assert backbone_gflop(work, "local") / 10 == pytest.approx(small, rel=3e-3)
    student = backbone_gflop(work, "global") + backbone_gflop(work, "local")
    assert round(backbone_gflop(work, "teacher") + 3 * student) == image


# ── queues ──


def test_every_value_is_written_before_it_is_read() -> None:
    work = mugs(find_model("tiny-mugs"), 8)  # type: ignore[arg-type]
    written: set[tuple[str, int]] = {(value.name, 0) for value in work.values.values() if value.persistent}
    for ops, layer in (
        (work.embedding.forward, 0),
        (work.layers[0].forward, 0),
        (work.layers[0].forward, 1),
        (work.head.forward, 2),
        (work.head.backward, 2),
        (work.layers[0].backward, 1),
        (work.layers[0].backward, 0),
        (work.embedding.backward, 0),
    ):
        for op in ops:
            for name, shift in op.reads:
                home = layer + shift if work.values[name].per_layer else 0
                assert (name, home) in written, (op.name, name)
            written |= {(name, layer + shift if work.values[name].per_layer else 0) for name, shift in op.writes}
