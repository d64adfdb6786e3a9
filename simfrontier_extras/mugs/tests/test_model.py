"""The graph of a Mugs step: parameters, operations and memory as they follow from the published shapes."""

from __future__ import annotations

import math
import re

import pytest

from simfrontier.errors import InputError
from simfrontier.workload import Workload, WorkOp, find_model, workload_of
from simfrontier_extras.mugs.model import mugs
from simfrontier_extras.mugs.shape import MugsShape

SIZES = {"s": "mugs-vit-s", "b": "mugs-vit-b", "l": "mugs-vit-l"}
MIB = 2**20


def shape_of(size: str) -> MugsShape:
    shape = find_model(SIZES[size])
    assert isinstance(shape, MugsShape)
    return shape


def ops_of(work: Workload) -> list[WorkOp]:
    phases = (work.embedding, work.layer, work.head)
    return [op for phase in phases for op in (*phase.forward, *phase.backward)]


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
    assert sum(mine) == shape.backbone_parameters == backbone
    assert sum(n for name, n in count.items() if name.startswith("relation/")) == relation
    assert work.num_parameters == shape.num_parameters == trained
    assert round(4 * trained / 1e6, 1) == gradient_mb


@pytest.mark.parametrize(("size", "percent"), [("s", 61.6), ("b", 30.1), ("l", 11.6)])
def test_share_of_the_heads(size: str, percent: float) -> None:
    """Of what is trained, the heads hold what neither backbone nor relation block does; the last matrix is 65536 × 256
    = 16.8 M (67 MB)."""
    work = mugs(shape_of(size), 1)
    heads = sum(
        w.num_elements
        for name, w in work.weights.items()
        if name.startswith(("instance.", "group.", "cluster.", "last."))
    )
    assert round(100 * heads / work.num_parameters, 1) == percent
    assert work.weights["last.weight"].num_elements == 16_777_216


def test_lengths_of_prototypes_are_trained_for_s_and_b_only() -> None:
    for size, trained in (("s", True), ("b", True), ("l", False)):
        work = mugs(shape_of(size), 1)
        assert ("last.norm" in work.weights, "last.norm" in work.states) == (trained, not trained)
        assert work.states["teacher/last.norm"].follows == ("last.norm" if trained else "")


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
    mine = [op for op in work.layer.forward if op.name.startswith(f"{stream}/")]
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


@pytest.mark.parametrize(("size", "search"), [("s", 0.70), ("b", 1.41), ("l", 1.88)])
def test_operations_of_heads_and_queues(size: str, search: float) -> None:
    """Search: 14 crops × 65536 rows × d × 2. Contrast: 22 pairs × 65536 × 256 × 2 = 0.738 GF for each of two heads."""
    work = mugs(shape_of(size), 4)
    by_name = {op.name: op.flops / 4 / 1e9 for op in work.head.forward}
    assert by_name["student/similarity"] + by_name["teacher/similarity"] == pytest.approx(search, abs=0.006)
    assert by_name["instance.scores"] + by_name["group.scores"] == pytest.approx(1.476, abs=1e-3)
    heads = [op for op in work.head.forward if ".scores" not in op.name or "cluster" in op.name]
    mine = {
        stream: sum(op.flops for op in heads if op.name.startswith(f"{stream}/") and is_of_a_head(op))
        for stream in ("student", "teacher")
    }
    assert 2.8 <= round((mine["teacher"] + 3 * mine["student"]) / 4 / 1e9, 1) <= 3.1


def is_of_a_head(op: WorkOp) -> bool:
    return op.name.split("/", 1)[1].startswith(("instance.", "group.", "cluster."))


# ── queues ──


@pytest.mark.parametrize(("size", "memories_mib"), [("s", 576), ("b", 1152), ("l", 1536)])
def test_queues_and_memories(size: str, memories_mib: int) -> None:
    """256 × 65536 numbers each; both memories 3 × 65536 × d."""
    states = mugs(shape_of(size), 1).states
    for head in ("instance", "group"):
        assert 4 * math.prod(states[f"{head}.queue"].shape) == 64 * MIB
    assert 4 * sum(math.prod(s.shape) for name, s in states.items() if "memory" in name) == memories_mib * MIB


def test_the_queue_moves_after_all_that_reads_it() -> None:
    """No op reads a state after the op that writes it anew, in the whole step."""
    ops = ops_of(mugs(shape_of("s"), 1))
    for at, op in enumerate(ops):
        for state in op.written_states:
            assert all(state not in later.states for later in ops[at + 1 :]), state


def test_every_value_is_written_before_it_is_read() -> None:
    work = mugs(find_model("tiny-mugs"), 8)  # type: ignore[arg-type]
    written: set[tuple[str, int]] = {(value.name, 0) for value in work.values.values() if value.persistent}
    for ops, layer in (
        (work.embedding.forward, 0),
        (work.layer.forward, 0),
        (work.layer.forward, 1),
        (work.head.forward, 2),
        (work.head.backward, 2),
        (work.layer.backward, 1),
        (work.layer.backward, 0),
        (work.embedding.backward, 0),
    ):
        for op in ops:
            for name, shift in op.reads:
                home = layer + shift if work.values[name].per_layer else 0
                assert (name, home) in written, (op.name, name)
            written |= {(name, layer + shift if work.values[name].per_layer else 0) for name, shift in op.writes}


# ── what is refused ──


def test_bad_sizes() -> None:
    shape = shape_of("s")
    for changes, message in (
        ({"small": 90}, "model x: small = 90 does not divide into patches of 16"),
        ({"queue": 0}, "model x: queue = 0; allowed: 1 or more"),
        ({"global_crops": 3}, "model x: global_crops = 3; allowed: 2 (keys are of two views)"),
    ):
        given = {key: getattr(shape, key) for key in ("num_layers", "hidden", "heads", "source")} | changes
        with pytest.raises(InputError, match=re.escape(message)):
            MugsShape(name="x", **given)
    with pytest.raises(InputError, match=re.escape("model mugs-vit-s: batch = 0; allowed: 1 or more")):
        workload_of(shape, 0, "none")
