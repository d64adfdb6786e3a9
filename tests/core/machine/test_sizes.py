"""Sizes of the mesh by the number of devices, and how `mesh` cuts a node otherwise."""

import pytest

from simfrontier.core.machine import load_machine, mesh_sizes


@pytest.mark.parametrize(
    ("name", "num_devices", "sizes"),
    [
        ("frontier", 1, (1, 1, 1)),
        ("frontier", 8, (1, 4, 2)),
        ("frontier", 384, (48, 4, 2)),
        ("frontier", 75264, (9408, 4, 2)),
        ("toy-quad", 4, (1, 2, 2)),
        ("toy-cluster", 8, (2, 2, 2)),
    ],
)
def test_full_products(name: str, num_devices: int, sizes: tuple[int, int, int]) -> None:
    known = mesh_sizes(load_machine(name), num_devices)
    assert known == dict(zip(("node", "package", "gcd"), sizes, strict=True))
    assert list(known) == ["node", "package", "gcd"]


@pytest.mark.parametrize(
    ("num_devices", "sizes"),
    [(8, (2, 2, 2)), (4, (1, 2, 2)), (2, (1, 1, 2)), (1, (1, 1, 1))],
)
def test_ranks_of_one_host_may_be_seen_as_nodes(num_devices: int, sizes: tuple[int, int, int]) -> None:
    known = mesh_sizes(load_machine("box"), num_devices, 4, 2)
    assert tuple(known.values()) == sizes
    assert mesh_sizes(load_machine("box"), 8) == {"node": 1, "package": 8, "gcd": 1}


def test_one_part_of_the_cut_may_be_given() -> None:
    assert mesh_sizes(load_machine("frontier"), 16, per_package=1) == {"node": 2, "package": 8, "gcd": 1}
    assert mesh_sizes(load_machine("frontier"), 16, per_node=4) == {"node": 4, "package": 2, "gcd": 2}
