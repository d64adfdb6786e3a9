"""Where the ops of a Mugs step take what they read: crops, flags, and the rows that enter the memories."""

from __future__ import annotations

import pytest

from simfrontier.workload import Workload, WorkOp, find_model
from simfrontier_extras.mugs.model import mugs
from simfrontier_extras.mugs.shape import MugsShape

IMAGES = 3


def work_of(model: str) -> Workload:
    shape = find_model(model)
    assert isinstance(shape, MugsShape)
    return mugs(shape, IMAGES)


def op_named(ops: tuple[WorkOp, ...], name: str) -> WorkOp:
    (op,) = (op for op in ops if op.name == name)
    return op


def values_read(op: WorkOp) -> list[str]:
    return [name for name, _ in op.reads]


def test_rows_for_the_memories_are_means_of_large_crops() -> None:
    """Of the student's and of the teacher's stream; then the row enters, the student's with its flag."""
    forward = work_of("tiny-mugs").head.forward
    for stream, source, entering in (
        ("student", "global", ["student/row", "flags"]),
        ("teacher", "teacher", ["teacher/row"]),
    ):
        pick = op_named(forward, f"{stream}/pick")
        assert values_read(pick) == [f"{source}/mean"]
        assert [name for name, _ in pick.writes] == [f"{stream}/row"]
        assert values_read(op_named(forward, f"{stream}/enqueue")) == entering


@pytest.mark.parametrize("stream", ["teacher", "global", "local"])
def test_every_stream_looks_at_crops_of_its_own(stream: str) -> None:
    """sail-sg/mugs src/multicropdataset.py: two crops for the teacher, drawn before the student's two large ones and
    small ones (copies of the teacher's only with vanilla_weak_augmentation). The teacher's make no gradient."""
    work = work_of("tiny-mugs")
    assert values_read(op_named(work.embedding.forward, f"{stream}/patch")) == [f"{stream}/pixels"]
    readers = {
        op.name for op in (*work.embedding.forward, *work.embedding.backward) if f"{stream}/pixels" in values_read(op)
    }
    trained = set() if stream == "teacher" else {f"{stream}/patch.wgrad"}
    assert readers == {f"{stream}/patch"} | trained


@pytest.mark.parametrize(
    ("model", "patches", "numbers", "local"),
    [("tiny-mugs", {"large": 16, "small": 4}, 48, 3), ("mugs-vit-l", {"large": 196, "small": 36}, 768, 10)],
)
def test_what_is_there_before_the_step(model: str, patches: dict[str, int], numbers: int, local: int) -> None:
    """Crops and flags alone. Of 3 images with 2 + 2 + 10 crops: 42 rows of patches. A patch of 16 pixels a side has
    3 × 16 × 16 = 768 numbers, a crop of 224 has 14 × 14 = 196 patches, one of 96 has 6 × 6 = 36; tiny-mugs: 16 and 8
    pixels in patches of 4, hence 16, 4 and 48, and 2 + 2 + 3 crops."""
    work = work_of(model)
    given = {name: (value.dims, value.shape) for name, value in work.values.items() if value.persistent}
    assert given == {
        "teacher/pixels": (("b", "n", "i"), (3 * 2, patches["large"], numbers)),
        "global/pixels": (("b", "n", "i"), (3 * 2, patches["large"], numbers)),
        "local/pixels": (("b", "n", "i"), (3 * local, patches["small"], numbers)),
        "flags": (("b",), (3,)),
    }
    rows = sum(shape[0] for name, (_, shape) in given.items() if name.endswith("/pixels"))
    assert rows == 3 * (2 + 2 + local)
