"""A node whose devices share one bus: every route is the bus, nothing has to be listed, and what is said of faults."""

from __future__ import annotations

from pathlib import Path

import pytest

from simfrontier.errors import InputError
from simfrontier.machine import load_machine, mesh_sizes
from simfrontier.machine.load import CATALOG, MeasuredNumbers
from tests.machine.test_faults import message

BOX = (CATALOG / "box.toml").read_text(encoding="utf-8")
BUS = BOX[BOX.index("[node.bus]") :]


def test_every_pair_of_devices_goes_over_the_bus() -> None:
    node = load_machine("box").node
    assert [(link.name, link.link_class, link.src, link.dst) for link in node.links] == [("bus", "bus", "bus", "bus")]
    assert {node.route(a, b) for a in range(8) for b in range(8) if a != b} == {(0,)}
    assert {node.route(a, a) for a in range(8)} == {()}
    assert node.rings == ((0, 1, 2, 3, 4, 5, 6, 7), (7, 6, 5, 4, 3, 2, 1, 0))
    assert node.has_bus and not load_machine("frontier").node.has_bus


def test_the_bus_has_a_source_and_a_capacity_that_can_be_set() -> None:
    machine = load_machine("box", {"link_classes.bus.bytes_per_s": 5e9})
    assert machine.node.links[0].bytes_per_s == 5e9
    rows = {row.key: row for row in machine.provenance()}
    assert (rows["node.bus"].value, rows["node.bus"].unit) == (1, "entries")


def test_nothing_of_the_box_is_claimed_to_be_measured() -> None:
    assert {row.kind for row in load_machine("box").provenance()} == {"assumed"}


def test_measured_numbers_win_over_the_file_and_overrides_over_them() -> None:
    measured = MeasuredNumbers(numbers={"host.hook_s": 3e-5, "device.hbm_bytes_per_s": 7e9}, source="here, today")
    machine = load_machine("box", {"host.hook_s": 1e-5}, measured)
    rows = {row.key: row for row in machine.provenance()}
    assert (machine.host.hook_s, machine.device.hbm_bytes_per_s) == (1e-5, 7e9)
    assert (rows["host.hook_s"].kind, rows["host.hook_s"].source) == ("assumed", "scenario override")
    hbm = rows["device.hbm_bytes_per_s"]
    assert (hbm.kind, hbm.source) == ("measured", "here, today")


def test_a_measured_number_that_is_not_there_is_one_line() -> None:
    with pytest.raises(InputError) as caught:
        load_machine("box", None, MeasuredNumbers(numbers={"host.hok_s": 1.0}, source="here"))
    assert str(caught.value) == (
        'box.toml, with a calibration: "host.hok_s" is not a number of this machine; did you mean "host.hook_s"?'
    )


LINKS = '[node.links]\nkind = "assumed"\nsource = "toy"\npairs.bus = [[0, 1]]\n'


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        (BUS, BUS + LINKS, "node.links: not allowed beside node.bus, which joins all devices"),
        (
            BUS,
            BUS + '[node.rings]\nkind = "assumed"\nsource = "toy"\norders = [[0, 1]]\n',
            "node.rings: not allowed beside node.bus, which joins all devices",
        ),
        (
            BUS,
            LINKS.replace("bus", "xgmi"),
            "node.rings: missing, needed because there is no node.switch or node.bus, which would join all devices",
        ),
        (
            BUS,
            "[node]\n",
            "node.links: missing, needed because there is no node.switch or node.bus, which would join all devices",
        ),
        (
            BUS,
            LINKS + '[node.rings]\nkind = "assumed"\nsource = "toy"\norders = [[0, 1]]\n',
            'node.links.pairs.bus: got "bus", which never joins two devices',
        ),
        (
            "[link_classes.bus]",
            "[link_classes.buss]",
            'node.bus needs link class "bus", which is missing; did you mean "buss"?',
        ),
        (BUS, BUS + "width = 3\n", "node.bus.width: unknown key; allowed: kind, source"),
    ],
)
def test_each_fault_of_a_bus_is_one_line(tmp_path: Path, old: str, new: str, text: str) -> None:
    assert BOX.count(old) == 1
    assert message(tmp_path, BOX.replace(old, new)) == text


# ── how ranks are cut ──


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


@pytest.mark.parametrize(
    ("num_devices", "per_node", "per_package", "text"),
    [
        (8, 3, 1, "mesh: got 3 devices per node and 1 per package, allowed: a divisor of the 8 devices of box, and a"),
        (8, 4, 3, "mesh: got 4 devices per node and 3 per package, allowed: a divisor of the 8 devices of box, and a"),
        (8, 16, 2, "mesh: got 16 devices per node and 2 per package, allowed: a divisor of the 8 devices of box, and"),
        (
            6,
            4,
            2,
            "devices: 6 devices do not fill whole nodes of box (2 nodes of 4 devices, as mesh cuts its 8 devices",
        ),
        (16, 4, 2, "devices: 16 devices do not fill whole nodes of box (2 nodes of 4 devices, as mesh cuts its 8 devi"),
    ],
)
def test_cuts_that_do_not_fit_are_one_line(num_devices: int, per_node: int, per_package: int, text: str) -> None:
    with pytest.raises(InputError) as caught:
        mesh_sizes(load_machine("box"), num_devices, per_node, per_package)
    assert str(caught.value).startswith(text)
