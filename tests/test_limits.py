"""Counts that would mean unbounded work are refused before it is done."""

from __future__ import annotations

from pathlib import Path

import pytest

from simfrontier.base.errors import InputError
from simfrontier.core.collectives import TRANSFERS, Recipe, lower
from simfrontier.core.collectives.algorithms import algorithm
from simfrontier.core.machine import load_machine
from simfrontier.core.machine.graph import routes
from simfrontier.core.machine.hardware import Link
from simfrontier.core.program.names import ALGORITHMS
from tests.invoke import ROOT


def test_counts_of_a_machine_have_a_limit(tmp_path: Path) -> None:
    text = (ROOT / "simfrontier" / "core" / "machine" / "catalog" / "toy-cluster.toml").read_text(encoding="utf-8")
    more = text.replace("devices_per_node = { value = 4", "devices_per_node = { value = 400", 1)
    (tmp_path / "m.toml").write_text(more, encoding="utf-8")
    with pytest.raises(InputError, match=r"got 400, allowed: .* 128"):
        load_machine(str(tmp_path / "m.toml"))


@pytest.mark.parametrize("name", sorted(name for name in ALGORITHMS if algorithm(name).collectives))
def test_transfers_are_counted_before_they_are_made(name: str) -> None:
    counted = 0
    for size in (2, 3, 4, 8, 12):
        for per_node in (1, 2, size):
            for kind in algorithm(name).collectives:
                recipe = Recipe(algorithm=name, orders=(tuple(range(size)),) * 2, per_node=per_node, slices=3)
                try:
                    made = len(lower(kind, recipe).transfers)
                except InputError:  # halving takes powers of two, and nodes hold as many each
                    continue
                assert made <= algorithm(name).num_transfers(kind, recipe), recipe
                counted += 1
    assert counted


def test_too_many_transfers_are_refused() -> None:
    recipe = Recipe(algorithm="ring", orders=(tuple(range(128)),) * 8, per_node=8, slices=4096)
    with pytest.raises(InputError, match=f"532,676,608 transfers; allowed: up to {TRANSFERS.most:,}"):
        lower("all_gather", recipe)


def test_routes_of_a_long_ladder_are_found() -> None:
    """63 rungs of two devices each: 2^62 shortest routes, of which the widest with the lowest ids is kept."""
    links = []
    for rung in range(63):
        for a in (2 * rung, 2 * rung + 1):
            for b in (2 * rung + 2, 2 * rung + 3):
                links.append(Link(name=f"{a}>{b}", src=a, dst=b, link_class="x", bytes_per_s=1.0 + b % 2))
    paths = routes(links, 128)
    way = [links[at] for at in paths[0][127]]
    assert [link.dst for link in way] == [*range(3, 127, 2), 127]
    assert [links[at].dst for at in paths[0][126]] == [*range(2, 127, 2)]  # as narrow as its last link in any case
