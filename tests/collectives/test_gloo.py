"""gloo: what its calls send, by the byte, and that it has neither trees nor a low-latency protocol."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from simfrontier.collectives import algorithm as algorithm_of, load_library
from simfrontier.collectives.chosen import allowed_algorithms
from simfrontier.collectives.library import GroupShape
from simfrontier.collectives.volume import sent_part
from simfrontier.errors import InputError
from simfrontier.schedule.ir import CollectiveKind
from tests.collectives.test_library import FILE

GLOO = load_library("gloo")
KINDS: tuple[CollectiveKind, ...] = ("all_gather", "reduce_scatter", "all_reduce", "all_to_all")


def group(size: int) -> GroupShape:
    return GroupShape(size=size, num_nodes=1, num_packages=size)


@pytest.mark.parametrize(
    ("kind", "num_ranks", "counted"),
    [  # bytes that a rank sends per byte of the message, from the counters of the loopback device
        *(("all_gather", 2, 0.501), ("all_gather", 4, 0.752), ("all_gather", 8, 0.877)),
        *(("all_reduce", 2, 1.002), ("all_reduce", 4, 1.503), ("all_reduce", 8, 1.753)),
        *(("reduce_scatter", 2, 1.002), ("reduce_scatter", 4, 1.503), ("reduce_scatter", 8, 1.753)),
        *(("all_to_all", 2, 0.501), ("all_to_all", 4, 0.752), ("all_to_all", 8, 0.877)),
    ],
)
def test_what_a_rank_sends_is_what_was_counted(kind: CollectiveKind, num_ranks: int, counted: float) -> None:
    (algorithm,) = allowed_algorithms(GLOO, kind, False, "library")
    assert float(sent_part(kind, algorithm, num_ranks)) == pytest.approx(counted, rel=0.003)  # headers are 0.2 %


def test_a_reduce_scatter_goes_around_twice() -> None:
    assert allowed_algorithms(GLOO, "reduce_scatter", False, "library") == ("ring_twice",)
    assert sent_part("reduce_scatter", "ring_twice", 8) == 2 * sent_part("reduce_scatter", "ring", 8) == Fraction(7, 4)
    # coded gradients cannot be summed on the way: they are sent directly
    assert allowed_algorithms(GLOO, "reduce_scatter", True, "library") == ("direct",)
    twice = algorithm_of("ring_twice").latency_s(GLOO, "reduce_scatter", 1e6, group(8), 1e9)
    assert twice == algorithm_of("ring").latency_s(GLOO, "all_reduce", 1e6, group(8), 1e9)


def test_a_ring_pays_every_hop() -> None:
    # no LL, and no part of a hop hidden: 2.74 ms + 7 hops of 1.34 ms, whatever the size; twice around: + 14
    for size in (1e3, 1e9):
        assert algorithm_of("ring").latency_s(GLOO, "all_gather", size, group(8), 1e9) == pytest.approx(
            12.12e-3, rel=1e-12
        )
        assert algorithm_of("ring").latency_s(GLOO, "all_reduce", size, group(8), 1e9) == pytest.approx(
            21.50e-3, rel=1e-12
        )


def test_there_are_no_trees() -> None:
    assert GLOO.tree is None and GLOO.ring_ll is None
    assert allowed_algorithms(GLOO, "all_reduce", False, "library") == ("ring",)
    with pytest.raises(InputError) as caught:
        allowed_algorithms(GLOO, "all_reduce", False, "tree")
    assert str(caught.value) == "all_reduce by tree: library gloo has no tree, allowed: ring"


def test_rccl_goes_by_what_it_did_before() -> None:
    rccl = load_library("rccl")
    assert {kind: allowed_algorithms(rccl, kind, False, "library") for kind in KINDS} == {
        "all_gather": ("ring",),
        "reduce_scatter": ("ring",),
        "all_reduce": ("ring", "tree"),
        "all_to_all": ("direct",),
    }
    assert "algorithms" not in {number.key for number in rccl.provenance()}


# ── library files ──

TREE = FILE[FILE.index("[tree]") : FILE.index("[direct]")]
LL = FILE[FILE.index("[ring_ll]") : FILE.index("[shares]")]
CHOICES = """
[algorithms]
kind = "assumed"
source = "test"
all_gather = ["ring"]
reduce_scatter = ["ring"]
all_reduce = ["ring"]
all_to_all = ["direct"]
"""


def test_a_library_without_trees_and_low_latency_says_its_algorithms(tmp_path: Path) -> None:
    path = tmp_path / "plain.toml"
    path.write_text(FILE.replace(TREE, "").replace(LL, "") + CHOICES, encoding="utf-8")
    library = load_library(str(path))
    assert (library.tree, library.ring_ll) == (None, None)
    numbers = {number.key: number for number in library.provenance()}
    assert (numbers["algorithms"].value, numbers["algorithms"].unit) == (4, "entries")
    # Simple only: 10 + 7 (14.5 - 0.005) us, where LL would have taken 24.18 us
    shape = GroupShape(size=8, num_nodes=2, num_packages=4)
    assert algorithm_of("ring").latency_s(library, "all_gather", 8e3, shape, 100e9) == pytest.approx(
        111.465e-6, rel=1e-12
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (FILE.replace(TREE, ""), "tree: missing, needed because all-reduces may go by tree by default"),
        (
            FILE.replace(TREE, "") + CHOICES.replace('all_reduce = ["ring"]', 'all_reduce = ["tree"]'),
            "tree: missing, needed because all-reduces may go by tree by algorithms.all_reduce",
        ),
        (
            FILE + CHOICES.replace('reduce_scatter = ["ring"]', 'reduce_scatter = ["tree"]'),
            'algorithms.reduce_scatter[0]: got "tree", allowed: "ring", "ring_twice" or "halving"',
        ),
        (FILE + CHOICES.replace('all_gather = ["ring"]\n', ""), "algorithms.all_gather: missing"),
        (
            FILE + CHOICES.replace('["direct"]', "[]"),
            "algorithms.all_to_all: got [], allowed: a list of at least 1",
        ),
    ],
)
def test_each_fault_of_the_algorithms_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_library(str(path))
    assert str(caught.value) == f"{path}: {message}"


def test_algorithms_are_no_number_to_override() -> None:
    with pytest.raises(InputError, match="'algorithms' is not a number of this library"):
        load_library("gloo", {"algorithms": 1.0})
