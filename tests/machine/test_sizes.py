"""Which numbers of devices fill a machine, and what is said about the others."""

import pytest

from simfrontier.errors import InputError
from simfrontier.machine import load_machine, mesh_sizes


@pytest.mark.parametrize(
    ("name", "num_devices", "sizes"),
    [
        ("frontier", 1, (1, 1, 1)),
        ("frontier", 2, (1, 1, 2)),
        ("frontier", 4, (1, 2, 2)),
        ("frontier", 8, (1, 4, 2)),
        ("frontier", 24, (3, 4, 2)),
        ("frontier", 384, (48, 4, 2)),
        ("frontier", 75264, (9408, 4, 2)),
        ("toy-quad", 4, (1, 2, 2)),
        ("toy-pair", 1, (1, 1, 1)),
        ("toy-cluster", 8, (2, 2, 2)),
    ],
)
def test_full_products(name: str, num_devices: int, sizes: tuple[int, int, int]) -> None:
    known = mesh_sizes(load_machine(name), num_devices)
    assert known == dict(zip(("node", "package", "gcd"), sizes, strict=True))
    assert list(known) == ["node", "package", "gcd"]


@pytest.mark.parametrize(
    ("num_devices", "use"),
    [
        *((0, "1"), (-4, "1"), (3, "2 or 4"), (5, "4 or 8"), (6, "4 or 8"), (9, "8 or 16"), (100, "96 or 104")),
        *((75263, "75256 or 75264"), (75265, "75264"), (1_000_000, "75264")),
    ],
)
def test_other_numbers_get_the_nearest_that_work(num_devices: int, use: str) -> None:
    with pytest.raises(InputError) as caught:
        mesh_sizes(load_machine("frontier"), num_devices)
    assert str(caught.value) == (
        f"devices: {num_devices} devices do not fill whole nodes of frontier (9408 nodes of 8 devices), use {use}"
    )


def test_a_machine_of_one_node_ends_there() -> None:
    with pytest.raises(InputError, match=r"use 4$"):
        mesh_sizes(load_machine("toy-quad"), 8)
