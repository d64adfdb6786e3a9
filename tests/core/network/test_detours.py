"""Routes around dead links: which loads move where, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from simfrontier.core.collectives import algorithm, load_library
from simfrontier.core.machine import DegradedLink, DegradedNic, DegradedPool, Perturbation, load_machine
from simfrontier.core.network import Fabric, Pattern, around_dead

RCCL = load_library("rccl")


def loads(fabric: Fabric, pattern: Pattern) -> dict[str, float]:
    """Payload by the name of the link, of links with a share of 1."""
    wires = slice(0, pattern.num_wire_loads)
    return {
        fabric.describe(link): weight
        for link, weight in zip(pattern.link[wires].tolist(), pattern.weight[wires].tolist(), strict=True)
    }


def both(machine: str, num_nodes: int, **dead: object) -> tuple[dict[str, float], dict[str, float], Pattern]:
    """What a ring over all devices loads, healthy and with dead things."""
    of = load_machine(machine)
    fabric = Fabric.build(of, num_nodes, Perturbation(**dead))  # type: ignore[arg-type]
    groups = np.arange(num_nodes * of.devices_per_node)[None]
    whole = dict.fromkeys(of.link_classes, 1.0)
    pattern = algorithm("ring").loads(fabric, groups, RCCL, whole)
    around = around_dead(fabric, pattern, whole)
    return loads(fabric, pattern), loads(fabric, around), around


def changed(before: dict[str, float], after: dict[str, float]) -> dict[str, tuple[float, float]]:
    names = {*before, *after}
    out = {name: (before.get(name, 0.0), after.get(name, 0.0)) for name in names}
    return {name: (was, now) for name, (was, now) in out.items() if abs(was - now) > 1e-12}


def test_a_dead_nic_hands_on_to_the_next_device_with_one() -> None:
    """GCD 1 sends by nic1 of GCD 3, over the xgmi link between the two; its own NIC's links carry nothing."""
    before, after, _ = both("frontier", 2, nics=(DegradedNic(node=0, nic=0, factor=0.0),))
    part = before["node 0 nic0>net"]
    assert changed(before, after) == {
        **{f"node 0 {name}": (part, 0.0) for name in ("pcie 1>nic0", "pcie nic0>1", "nic0>net", "net>nic0")},
        **{f"node 0 {name}": (part, 2 * part) for name in ("pcie 3>nic1", "pcie nic1>3", "nic1>net", "net>nic1")},
        **{
            f"node 0 {name}": (before[f"node 0 {name}"], pytest.approx(before[f"node 0 {name}"] + part))
            for name in ("xgmi 1>3", "xgmi 3>1")
        },
    }


def test_a_dead_link_between_devices_takes_the_shortest_way() -> None:
    """0>3, 3>2, 2>1 in the square of the toy."""
    before, after, around = both("toy-cluster", 1, links=(DegradedLink(node=0, link="xgmi 0>1", factor=0.0),))
    part = before["node 0 xgmi 0>1"]
    assert changed(before, after) == {
        "node 0 xgmi 0>1": (part, 0.0),
        **{f"node 0 xgmi {name}": (part, 2 * part) for name in ("0>3", "3>2", "2>1")},
    }
    assert around.peak.tolist() == [2 * part]


def test_a_dead_pool_goes_by_all_third_groups() -> None:
    """Of the toy's four groups two are left to go by from group 0 to group 1."""
    before, after, _ = both("toy-cluster", 16, pools=(DegradedPool(source=0, target=1, factor=0.0),))
    part = before["global 0>1"]
    assert changed(before, after) == {
        "global 0>1": (part, 0.0),
        **{
            name: (before[name], pytest.approx(before[name] + part / 2))
            for name in ("global 0>2", "global 2>1", "global 0>3", "global 3>1")
        },
    }


def test_without_another_way_the_load_stays() -> None:
    dead = tuple(DegradedNic(node=0, nic=nic, factor=0.0) for nic in (0, 1))
    before, after, _ = both("toy-cluster", 2, nics=dead)
    assert before == after
