"""Faults of libraries, calibrations, chosen algorithms and lowered schedules: each class once, by its key."""

from pathlib import Path

import pytest

from simfrontier.base.errors import InputError
from simfrontier.core.collectives import (
    Calibration,
    CallTable,
    MeasuredPoint,
    Recipe,
    load_calibration,
    load_library,
    lower,
)
from simfrontier.core.collectives.calibration import to_toml
from simfrontier.core.collectives.load import CATALOG
from simfrontier.core.program.ir import CollectiveKind
from tests.core.collectives.lowering_runs import recipe

MIB = 2**20


@pytest.mark.parametrize(
    ("name", "old", "new", "words"),
    [
        ("rccl", "\nbase_s =", "\nbases_s =", 'bases_s: unknown key; did you mean "base_s"?'),
        ("rccl", "[tuning.ways.ring_simple]", "[tuning.ways.ring_sample]", "tuning.ways.ring_sample: unknown key"),
        ("gloo", 'all_to_all = ["direct"]', 'all_to_all = ["tree"]', 'algorithms.all_to_all[0]: got "tree", allowed:'),
        ("gloo", 'all_reduce = ["ring"]', 'all_reduce = ["tree"]', "tree: missing, needed because all-reduces may go"),
        ("hierarchical-mpi-rccl", '"rccl"', '"hierarchical-mpi-rccl"', "which has levels itself; allowed: a library"),
        ("hierarchical-mpi-rccl", '"cray-mpich"', '"recursive-halving-mpi4py"', "carries all_gather by halving; allow"),
    ],
)
def test_faults_of_library_files(tmp_path: Path, name: str, old: str, new: str, words: str) -> None:
    text = (CATALOG / f"{name}.toml").read_text(encoding="utf-8")
    assert old in text
    path = tmp_path / "mine.toml"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_library(str(path))
    assert str(caught.value).startswith(f"{path}: ") and words in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("nodes = 1", "nodes = 3", "calls[0].nodes: got 3, allowed: a divisor of ranks = 8"),
        ("bytes = 2000", "bytes = 1000", "calls[0].points[1].bytes: got 1000 after 1000, allowed: ascending sizes"),
    ],
)
def test_faults_of_calibrations(tmp_path: Path, old: str, new: str, words: str) -> None:
    points = tuple(MeasuredPoint(bytes=size, seconds=seconds) for size, seconds in ((1000, 0.5), (2000, 0.6)))
    table = CallTable(kind="all_gather", ranks=8, nodes=1, packages=8, points=points)
    text = to_toml(Calibration(title="t", where="here", when="2026", how="by hand", calls=(table,)))
    assert text.count(old) == 1
    path = tmp_path / "cal.toml"
    path.write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_calibration(path)
    assert str(caught.value).startswith(f"{path}: ") and words in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "how", "words"),
    [
        ("all_gather", recipe("tree", 4), "tree does not carry all_gather; allowed for it: ring, direct, halving"),
        ("all_gather", Recipe(algorithm="ring", orders=((0, 1), (0,)), per_node=1), "orders: allowed: one or more"),
        ("all_gather", Recipe(algorithm="ring", orders=((0, 1, 2),), per_node=2), "per_node: 2 does not divide"),
        ("all_gather", Recipe(algorithm="ring", orders=((0, 1, 2, 3), (0, 2, 1, 3)), per_node=2), "channels differ in"),
    ],
)
def test_recipes_that_cannot_be_lowered(kind: CollectiveKind, how: Recipe, words: str) -> None:
    with pytest.raises(InputError) as caught:
        lower(kind, how)
    assert words in str(caught.value)
