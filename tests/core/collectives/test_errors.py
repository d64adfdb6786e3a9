"""Faults of libraries, calibrations, chosen algorithms and lowered schedules: each class once, by its key."""

import json
from pathlib import Path
from typing import Any

import pytest

from simfrontier.base.errors import InputError
from simfrontier.core.collectives import (
    Calibration,
    CallTable,
    LoweredSchedule,
    MeasuredPoint,
    Recipe,
    load_calibration,
    load_library,
    load_lowered,
    lower,
    save_lowered,
)
from simfrontier.core.collectives.calibration import to_toml
from simfrontier.core.collectives.load import CATALOG
from simfrontier.core.cost import EqualGroups
from simfrontier.core.machine import load_machine
from simfrontier.core.program.ir import CollectiveKind
from simfrontier.inputs.scenario import load_scenario
from tests.core.collectives.lowering_runs import recipe
from tests.core.engine.singles import single
from tests.invoke import TOY

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
    ("name", "overrides", "words"),
    [
        ("rccl", {"ring.bases_s": 1.0}, 'is not a number of this library; did you mean "ring.base_s"?'),
        ("gloo", {"algorithms": 1.0}, '"algorithms" is not a number of this library'),
        ("rcll", {}, 'library "rcll" is not in the catalog; did you mean "rccl"? (a file of your own: give its path'),
    ],
)
def test_wrong_overrides_and_names_of_libraries(name: str, overrides: dict[str, float], words: str) -> None:
    with pytest.raises(InputError) as caught:
        load_library(name, overrides)
    assert words in str(caught.value)


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
    ("library", "kind", "way", "words"),
    [
        ("rccl", "all_gather", "tree", 'got "tree", allowed: "library", "ring", "halving" or "two_level"'),
        ("rccl", "all_reduce", ["ring", "library"], '"library" leaves all to the library; allowed: "library" alone'),
        ("rccl", "al_reduce", "ring", 'al_reduce: unknown key; did you mean "all_reduce"?'),
        ("rccl", "all_gather", "two_level", 'got "two_level", but library rccl has no levels; allowed: library, ring'),
        ("rccl", "all_reduce", "halving", "recursive halving is modelled for calls alone, not for plans"),
        ("cray-mpich", "all_reduce", "tree", 'got "tree", but library cray-mpich has no tree; allowed: library, ring'),
    ],
)
def test_algorithms_that_a_scenario_cannot_choose(library: str, kind: str, way: Any, words: str) -> None:
    with pytest.raises(InputError) as caught:
        load_scenario(TOY, {"library.name": library, f"library.algorithms.{kind}": way})
    assert str(caught.value).startswith(f"{TOY}: library.algorithms.") and words in str(caught.value)


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


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": 2}, "version: got 2, allowed: 1, which this simfrontier reads"),
        ({"digest": "abc"}, 'digest: got "abc", allowed: 64 hexadecimal digits'),
        ({"recipe": []}, 'recipe: unknown key; did you mean "recipes"?'),
        ({"collectives": [[0, 2]]}, "collectives[0][1]: got 2, allowed: one of the 1 recipes, counted from 0"),
    ],
)
def test_faults_of_lowered_schedules(tmp_path: Path, change: dict[str, object], words: str) -> None:
    path = tmp_path / "lowered.json"
    save_lowered(LoweredSchedule(digest="0123456789abcdef" * 4, recipes=((recipe("ring", 3),),)), path)
    path.write_text(json.dumps(json.loads(path.read_text(encoding="ascii")) | change), encoding="ascii")
    with pytest.raises(InputError) as caught:
        load_lowered(path)
    assert str(caught.value).startswith(f"{path}: {words}")


def test_calls_that_a_library_does_not_carry() -> None:
    halving, frontier = load_library("recursive-halving-mpi4py"), load_machine("frontier")
    with pytest.raises(InputError, match="got groups of 24 devices, allowed: powers of two"):
        EqualGroups(frontier, 24).seconds(halving, "reduce_scatter", MIB)
    with pytest.raises(InputError, match="recursive halving is modelled for calls alone, not for plans; allowed:"):
        single("reduce_scatter", MIB, 16, library=halving)
    with pytest.raises(InputError, match="calls in two levels are not lowered to single messages; allowed: fidelity"):
        single("all_gather", MIB, 16, fidelity="chunk", library=load_library("hierarchical-mpi-rccl"))
