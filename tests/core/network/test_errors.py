"""Faults of links, pools and devices that are said to be degraded, and of shares of links: each class once."""

import numpy as np
import pytest

from simfrontier.base.errors import InputError
from simfrontier.core.collectives.algorithms.ring import ring_loads
from simfrontier.core.machine import load_machine
from simfrontier.core.network import Fabric
from tests.perturbed import perturbed

CLUSTER = load_machine("toy-cluster")


@pytest.mark.parametrize(
    ("machine", "wrong", "words"),
    [
        ("toy-cluster", {"slow": {20: 0.5}}, "slow device: got 20; this job has devices 0 to 19"),
        ("toy-cluster", {"slow": {0: 1.5}}, "device 0: got factor 1.5; allowed: 0 to 1"),
        ("toy-cluster", {"links": {(5, "xgmi 0>1"): 0.5}}, "link 'xgmi 0>1': got node 5; this job has nodes 0 to 4"),
        ("toy-cluster", {"links": {(0, "xgmi 0-1"): 0.5}}, "got 'xgmi 0-1'; did you mean \"xgmi 0>1\"?"),
        ("toy-cluster", {"pools": {(1, 4): 0.5}}, "got 1>4; allowed: two different groups of 0 to 3"),
        ("toy-tree", {"pools": {(0, 1): 0.5}}, "got 0>1; a fat tree has none; allowed: links of nodes"),
        ("frontier", {"pools": {(0, 1): 0.5}}, "got 0>1; this job has no global pools"),
    ],
)
def test_degraded_things_that_are_not_there(machine: str, wrong: dict[str, dict[object, float]], words: str) -> None:
    with pytest.raises(InputError) as caught:
        Fabric.build(load_machine(machine), 5, perturbed(**wrong))  # type: ignore[arg-type]
    assert words in str(caught.value)


def test_shares_of_links_that_are_not_there_or_nothing() -> None:
    fabric = Fabric.build(CLUSTER, 1)
    for shares, words in (({"nics": 0.5}, 'did you mean "nic"?'), ({"nic": 0.0}, "allowed: 0 < share <= 1")):
        with pytest.raises(InputError) as caught:
            ring_loads(fabric, np.arange(4)[None, :], shares)
        assert words in str(caught.value)
