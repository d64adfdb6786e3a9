"""The search over grids: what is listed, in which order, and what cannot run."""

from __future__ import annotations

import pytest

from simfrontier.core.workload import MODELS, GptShape
from simfrontier_extras.axonn_model.formulas import Grid, Transformer, VersionName, load_bandwidths, transformer_of
from simfrontier_extras.axonn_model.ranking import Ranked, ranked

BATCH = 2048  # assumed; the batches of the published runs are not known


def transformer(name: str) -> Transformer:
    shape = MODELS[name]
    assert isinstance(shape, GptShape)
    return transformer_of(shape)


def best(entries: tuple[Ranked, ...]) -> list[tuple[int, int, int, int]]:
    return [entry.grid.sizes for entry in entries[:10]]


# ── golden orders ──


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (
            "axonn-a",
            [
                (1, 1, 1024, 1), (1, 1, 512, 2), (1, 1, 256, 4), (1, 1, 128, 8), (1, 1, 64, 16),
                (1, 2, 512, 1), (1, 4, 256, 1), (1, 4, 128, 2), (1, 2, 256, 2), (1, 4, 64, 4),
            ],
        ),
        (
            "axonn-b",
            [
                (2, 4, 32, 4), (4, 2, 32, 4), (2, 4, 16, 8), (4, 2, 16, 8), (1, 1, 128, 8),
                (2, 4, 64, 2), (4, 2, 64, 2), (1, 1, 256, 4), (2, 4, 8, 16), (4, 2, 8, 16),
            ],
        ),
    ],
)  # fmt: skip
def test_best_grids_of_80b_on_1024_a100(version: VersionName, expected: list[tuple[int, ...]]) -> None:
    entries = ranked(load_bandwidths(version, "perlmutter"), transformer("gpt-80b"), 1024, BATCH, min_tensor=64)
    assert best(entries) == expected


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (
            "axonn-a",
            [
                (1, 1, 512, 1), (1, 1, 256, 2), (1, 1, 128, 4), (1, 1, 64, 8), (1, 1, 32, 16),
                (1, 2, 256, 1), (1, 2, 128, 2), (1, 2, 64, 4), (1, 2, 32, 8), (2, 1, 256, 1),
            ],
        ),
        (
            "axonn-b",
            [
                (1, 1, 32, 16), (1, 1, 64, 8), (1, 1, 16, 32), (1, 2, 32, 8), (1, 2, 16, 16),
                (2, 1, 32, 8), (2, 1, 16, 16), (1, 2, 64, 4), (1, 2, 8, 32), (2, 1, 64, 4),
            ],
        ),
    ],
)  # fmt: skip
def test_best_grids_of_5b_on_512_gcds(version: VersionName, expected: list[tuple[int, ...]]) -> None:
    entries = ranked(load_bandwidths(version, "frontier"), transformer("gpt-5b"), 512, BATCH, min_tensor=4)
    assert best(entries) == expected


# ── what cannot run ──


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((16, 4, 1, 1), ""),
        ((128, 1, 1, 1), "hidden = 64 does not divide into X = 128"),
        ((1, 8, 1, 1), "heads = 4 does not divide into Y = 8"),
        ((64, 4, 32, 1), "a block of 64 x 192 weights does not divide into Z = 32"),
    ],
)
def test_a_grid_must_divide_the_model(sizes: tuple[int, int, int, int], message: str) -> None:
    x, y, z, data = sizes
    assert transformer("tiny").obstacle(Grid(x=x, y=y, z=z, data=data)) == message
