"""Faults of machine files, overrides, perturbations and lists of nodes: each class once, by key and what is allowed."""

from pathlib import Path

import pytest

from simfrontier.base.errors import InputError
from simfrontier.core.machine import (
    CATALOG,
    DegradedNic,
    Perturbation,
    SlowDevice,
    SlowNode,
    SlowPackage,
    Spread,
    Trouble,
    load_machine,
    mesh_sizes,
    read_topology,
)
from simfrontier.core.network import Fabric

TOY = '{ value = %s, kind = "assumed", source = "toy" }'
HBM = f"hbm_bytes = {TOY % '16e9'}"
SQUARE = "xgmi = [[0, 1], [1, 2], [2, 3], [3, 0]]"
ORDERS = "orders = [[0, 1, 2, 3], [3, 2, 1, 0]]"
SOURCE = 'kind = "assumed"\nsource = "toy"\n'
BUS = f"[node.bus]\n{SOURCE}"
UNUSED = f"[link_classes.more]\nbytes_per_s = {TOY % 1}\nshare = {TOY % 1}\n"


@pytest.mark.parametrize(
    ("machine", "old", "new", "words"),
    [
        ("toy-cluster", HBM, HBM.replace("}", ", low = 9, high = 1 }"), "got 9 to 1, allowed: around 1.6e+10"),
        ("toy-cluster", "matmul_flops_per_s = { value = 2e12", "matmul_flops_per_s = { value = 3e12", "at most dev"),
        ("toy-cluster", "per_package = { value = 2", "per_package = { value = 3", "a divisor of devices_per_node = 4"),
        ("toy-cluster", "num_nodes = { value = 16", "num_nodes = { value = 17", "num_nodes: got 17, allowed: at most"),
        ("toy-cluster", "num_nodes = { value = 16", "num_nodes = { value = 1", "not allowed in a machine of one node"),
        ("toy-cluster", "device = [1, 3]", "device = [0, 1]", "got [0, 1], allowed: devices 0..3, one NIC per package"),
        ("toy-cluster", SQUARE, SQUARE.replace("xgmi", "xgm"), 'needs link class "xgm", which is missing; did you mea'),
        ("toy-cluster", SQUARE, SQUARE.replace("xgmi", "nic"), 'got "nic", which never joins two devices'),
        ("toy-cluster", "[host]", f"{UNUSED}[host]", "link_classes.more: nothing in this machine uses it"),
        ("toy-cluster", SQUARE, SQUARE.replace("0]]", "0], [1, 0]]"), "got link [1, 0], allowed: two of the devices"),
        ("toy-cluster", SQUARE, "xgmi = [[0, 1], [2, 3]]", "node.links: device 2 cannot be reached from device 0"),
        ("toy-quad", ORDERS, "orders = [[0, 1, 2, 3]]", "allowed: every order in both directions"),
        ("toy-quad", ORDERS, "orders = [[0, 1, 2], [2, 1, 0]]", "allowed: each of the devices 0..3 once"),
        ("toy-quad", ORDERS, "orders = [[0, 2, 1, 3], [3, 1, 2, 0]]", "steps from 0 to 2, allowed: steps along a link"),
        ("a100-node", "[node.switch]", f"{BUS}[node.switch]", "got switch and bus; allowed: one of links, switch"),
        ("perlmutter-80gb", '"perlmutter"', '"mine.toml"', "which is based on this file; allowed: another one"),
    ],
)
def test_faults_of_files(tmp_path: Path, machine: str, old: str, new: str, words: str) -> None:
    text = (CATALOG / f"{machine}.toml").read_text(encoding="utf-8")
    assert old in text
    path = tmp_path / "mine.toml"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_machine(str(path))
    assert str(caught.value).startswith(f"{path}: ") and words in str(caught.value)


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"device.hbm_shar": 0.5}, 'not a number of this machine; did you mean "device.hbm_share"?'),
        ({"num_nodes": 2.5}, "num_nodes.value: got 2.5, allowed: a whole number"),
        ({"device.codecs.zpf.encode_bytes_per_s": 1.0}, 'did you mean "device.codecs.zfp.encode_bytes_per_s"?'),
        ({"device.matmul_forms.nn": 9.0}, "at most"),
    ],
)
def test_wrong_overrides(overrides: dict[str, float], words: str) -> None:
    with pytest.raises(InputError) as caught:
        load_machine("frontier", overrides)
    assert str(caught.value).startswith("frontier.toml, with overrides: ") and words in str(caught.value)


@pytest.mark.parametrize(
    ("machine", "num_devices", "cut", "words"),
    [
        *(("frontier", *each) for each in ((0, (), "use 1"), (3, (), "use 2 or 4"), (75_265, (), "use 75264"))),
        ("toy-quad", 8, (), "8 devices are more than those of toy-quad (1 node of 4 devices), use 4"),
        ("box", 8, (3, 1), "allowed: a divisor of the 8 devices of box"),
        ("box", 8, (4, 3), "allowed: a divisor of the 8 devices of box"),
        ("box", 6, (4, 2), "6 devices do not fill whole nodes of box (2 nodes of 4 devices, as mesh cuts its 8"),
    ],
)
def test_numbers_of_devices_that_fill_no_nodes(
    machine: str, num_devices: int, cut: tuple[int, ...], words: str
) -> None:
    with pytest.raises(InputError) as caught:
        mesh_sizes(load_machine(machine), num_devices, *cut)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("key", "trouble", "words"),
    [
        ("packages", SlowPackage(package=4, factor=0.5), "package: got 4; this job has packages 0 to 3"),
        ("nodes", SlowNode(node=2, factor=0.5), "node: got 2; this job has nodes 0 to 1"),
        ("nics", DegradedNic(node=1, nic=2, factor=0.5), "NIC of node 1: got 2; a node has NICs 0 to 1"),
    ],
)
def test_degraded_components_that_are_not_there(key: str, trouble: Trouble, words: str) -> None:
    with pytest.raises(InputError) as caught:
        Fabric.build(load_machine("toy-cluster"), 2, Perturbation(**{key: (trouble,)}))
    assert str(caught.value) == f"perturbation: {words}"


def test_a_component_is_degraded_in_one_way_at_a_time() -> None:
    for slow, words in (
        ([SlowDevice(device=0, factor=0.5, from_s=1.0, until_s=0.5)], "allowed: after it begins at 1 s of step 0"),
        ([SlowDevice(device=0, factor=each) for each in (0.5, 0.6)], "got device 0 twice, allowed: every device once"),
    ):
        with pytest.raises(InputError) as caught:
            Perturbation(slow=tuple(slow)).refuse_wrong()
        assert words in str(caught.value)
    with pytest.raises(InputError, match=r"toy-pair has no network between nodes"):
        networks = Spread(of="networks", listed=(1.0,))
        Fabric.build(load_machine("toy-pair"), 1, Perturbation(spread=(networks,)))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("SwitchName=s4", "and either Nodes=... or Switches=..."),
        ("SwitchName=s0 Nodes=a", 'got switch "s0" twice (line 1)'),
        ("SwitchName=s4 Nodes=tux3", 'node "tux3" is below "s0" already'),
        ("SwitchName=t2 Switches=sx0", 'switch "sx0" has no line; did you mean "s0"?'),
    ],
)
def test_wrong_lines_of_a_topology(tmp_path: Path, line: str, words: str) -> None:
    path = tmp_path / "topology.conf"
    path.write_text(f"SwitchName=s0 Nodes=tux[0-5]\nSwitchName=t0 Switches=s0\n{line}\n", encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_topology(path)
    assert str(caught.value).startswith(f"{path}: line 3: ") and words in str(caught.value)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("DGX-B200", "b200-node"), ("dgx_b300", "b300-node"), ("mi300a", "el-capitan"), ("H200", "h200-node")],
)
def test_names_that_people_use_lead_to_the_machine(typed: str, meant: str) -> None:
    with pytest.raises(InputError, match=f'did you mean "{meant}"'):
        load_machine(typed)
