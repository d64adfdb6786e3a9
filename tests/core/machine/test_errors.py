"""Faults of machine files, overrides, perturbations and lists of nodes: each class once, by key and what is allowed."""

from pathlib import Path

import pytest

from simfrontier.base.errors import InputError
from simfrontier.core.machine import (
    DegradedNic,
    Perturbation,
    SlowDevice,
    SlowNode,
    SlowPackage,
    Spread,
    Trouble,
    load_machine,
    mesh_sizes,
)
from simfrontier.core.machine.job_nodes import expanded
from simfrontier.core.machine.load import CATALOG, MeasuredNumbers
from simfrontier.core.machine.slurm_topology import read_topology
from simfrontier.core.network import Fabric
from tests.invoke import refusal

TOY = '{ value = %s, kind = "assumed", source = "toy" }'
HBM = f"hbm_bytes = {TOY % '16e9'}"
SQUARE = "xgmi = [[0, 1], [1, 2], [2, 3], [3, 0]]"
ORDERS = "orders = [[0, 1, 2, 3], [3, 2, 1, 0]]"
SOURCE = 'kind = "assumed"\nsource = "toy"\n'
BUS = f"[node.bus]\n{SOURCE}"
TREE = f"""[fat_tree]
nodes_per_leaf = {TOY % 2}
num_leaves = {TOY % 8}
taper = {TOY % "1.0"}
"""
UNUSED = f"[link_classes.more]\nbytes_per_s = {TOY % 1}\nshare = {TOY % 1}\n"
CODEC = f"[device.codecs.int8]\nencode_bytes_per_s = {TOY % '1e9'}\n"


@pytest.mark.parametrize(
    ("machine", "old", "new", "words"),
    [
        ("toy-cluster", "hbm_bytes =", "hbm_byte =", 'device.hbm_byte: unknown key; did you mean "hbm_bytes"?'),
        ("toy-cluster", HBM, "", "device.hbm_bytes: missing, give { value, kind, source }"),
        ("toy-cluster", HBM, "hbm_bytes = 16e9", "device.hbm_bytes: got 16000000000.0, allowed: a table"),
        ("toy-cluster", "16e9", "nan", "device.hbm_bytes.value: got NaN, allowed: a finite number"),
        ("toy-cluster", "16e9", "0", "device.hbm_bytes.value: got 0, allowed: more than 0"),
        ("toy-cluster", "16e9", "'16 GB'", 'device.hbm_bytes.value: got "16 GB", allowed: a number'),
        ("toy-cluster", '16e9, kind = "assumed"', '16e9, kind = "guessed"', 'kind: got "guessed", allowed: "quoted"'),
        ("toy-cluster", HBM, HBM.replace(', source = "toy"', ""), "device.hbm_bytes.source: missing"),
        ("toy-cluster", HBM, HBM.replace("}", ", low = 9, high = 1 }"), "got 9 to 1, allowed: around 1.6e+10"),
        ("toy-cluster", HBM, HBM.replace("}", ", low = 9 }"), "allowed: low and high, or neither"),
        ("toy-cluster", "hbm_share = { value = 1.0", "hbm_share = { value = 1.5", "more than 0 and at most 1"),
        (
            "toy-cluster",
            "matmul_flops_per_s = { value = 2e12",
            "matmul_flops_per_s = { value = 3e12",
            "at most device.p",
        ),
        ("toy-cluster", "per_package = { value = 2", "per_package = { value = 3", "a divisor of devices_per_node = 4"),
        (
            "toy-cluster",
            "num_nodes = { value = 16",
            "num_nodes = { value = 17",
            "num_nodes: got 17, allowed: at most 16",
        ),
        ("toy-cluster", "num_nodes = { value = 16", "num_nodes = { value = 1", "not allowed in a machine of one node"),
        (
            "toy-cluster",
            "device = [1, 3]",
            "device = [1, 4]",
            "node.nics.device: device 4 does not exist, allowed: 0..3",
        ),
        ("toy-cluster", "device = [1, 3]", "device = [0, 1]", "NIC 1 on device 1 is the second NIC of package 0"),
        ("toy-cluster", "device = [1, 3]", "device = [1]", "package 1 has no NIC, allowed: one NIC per package"),
        ("toy-cluster", SQUARE, SQUARE.replace("xgmi", "xgm"), 'needs link class "xgm", which is missing; did you mea'),
        ("toy-cluster", SQUARE, SQUARE.replace("xgmi", "nic"), 'got "nic", which never joins two devices'),
        ("toy-cluster", "[host]", f"{UNUSED}[host]", "link_classes.more: nothing in this machine uses it"),
        ("toy-cluster", SQUARE, SQUARE.replace("0]]", "0], [1, 0]]"), "link [1, 0] is there already (as xgmi)"),
        ("toy-cluster", SQUARE, SQUARE.replace("[3, 0]]", "[3, 3]]"), "link [3, 3] joins a device to itself"),
        ("toy-cluster", SQUARE, "xgmi = [[0, 1], [2, 3]]", "node.links: device 2 cannot be reached from device 0"),
        ("toy-quad", ORDERS, "orders = [[0, 1, 2, 3]]", "[0, 1, 2, 3] lacks its way back [3, 2, 1, 0]"),
        ("toy-quad", ORDERS, "orders = [[0, 1, 2], [2, 1, 0]]", "allowed: each of the devices 0..3 once"),
        ("toy-quad", ORDERS, "orders = [[0, 2, 1, 3], [3, 1, 2, 0]]", "steps from 0 to 2, allowed: steps along a link"),
        ("toy-pair", "[host]", f"{CODEC}[host]", "device.codecs.int8: got encode_bytes_per_s alone"),
        ("toy-pair", "[host]", "[hosts]", 'hosts: unknown key; did you mean "host"?'),
        ("toy-pair", "[host]", "[host", "not a TOML file"),
        ("toy-tree", "num_leaves = { value = 4", "num_leaves = { value = 3", "num_nodes: got 8, allowed: at most 6"),
        (
            "toy-tree",
            "taper = { value = 4.0",
            "taper = { value = 0.5",
            "fat_tree.taper.value: got 0.5, allowed: at leas",
        ),
        ("toy-cluster", "[dragonfly]", f"{TREE}[dragonfly]", "fat_tree: not allowed beside dragonfly"),
        ("box", "[link_classes.bus]", "[link_classes.buss]", 'node.bus needs link class "bus", which is missing'),
        ("a100-node", "[node.switch]", f"{BUS}[node.switch]", "not allowed beside node"),
        ("perlmutter-80gb", '"perlmutter"', '"perlmuter"', 'no machine of the catalog; did you mean "perlmutter"?'),
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


@pytest.mark.parametrize("part", ["node.nics", "node.chains"])
def test_several_nodes_need_nics_and_chains(tmp_path: Path, part: str) -> None:
    before, after = (CATALOG / "toy-cluster.toml").read_text(encoding="utf-8").split(f"[{part}]")
    (tmp_path / "mine.toml").write_text(before + after[after.index("\n[") :], encoding="utf-8")
    with pytest.raises(InputError, match=f"{part}: missing, needed because num_nodes is 16"):
        load_machine(str(tmp_path / "mine.toml"))


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"device.hbm_shar": 0.5}, 'not a number of this machine; did you mean "device.hbm_share"?'),
        ({"device.hbm_share": 2.0}, "device.hbm_share.value: got 2.0, allowed: more than 0 and at most 1"),
        ({"num_nodes": 2.5}, "num_nodes.value: got 2.5, allowed: a whole number"),
        ({"num_nodes": 9999}, "num_nodes: got 9999, allowed: at most 9472"),
        ({"device.codecs.zpf.encode_bytes_per_s": 1.0}, 'did you mean "device.codecs.zfp.encode_bytes_per_s"?'),
        ({"device.matmul_forms.tuned": 0.5}, "device.matmul_forms.tuned.value: got 0.5, allowed: 0 or 1"),
        ({"device.matmul_forms.nn": 9.0}, "at most"),
        ({"copies.routed_share": 1.5}, "copies.routed_share.value: got 1.5, allowed: more than 0 and at most 1"),
    ],
)
def test_wrong_overrides(overrides: dict[str, float], words: str) -> None:
    with pytest.raises(InputError) as caught:
        load_machine("frontier", overrides)
    assert str(caught.value).startswith("frontier.toml, with overrides: ") and words in str(caught.value)


def test_machines_and_files_that_are_not_there(tmp_path: Path) -> None:
    for name, words in (
        ("frontir", 'machine "frontir" is not in the catalog; did you mean "frontier"?'),
        (f"{tmp_path}/none.toml", "cannot read this machine file: No such file or directory"),
        (f"{tmp_path}/", "cannot read this machine file: Is a directory"),
    ):
        with pytest.raises(InputError) as caught:
            load_machine(name)
        assert words in str(caught.value)
    with pytest.raises(InputError, match=r'with a calibration: "host\.hok_s" is not a number .* mean "host\.hook_s"'):
        load_machine("box", None, MeasuredNumbers(numbers={"host.hok_s": 1.0}, source="here"))
    with pytest.raises(InputError, match=r"frontier has no rate of matrix products of fp64 numbers .*bf16, fp32"):
        load_machine("frontier").matmul("fp64")


@pytest.mark.parametrize(
    ("machine", "num_devices", "cut", "words"),
    [
        *(("frontier", *each) for each in ((0, (), "use 1"), (3, (), "use 2 or 4"), (75_265, (), "use 75264"))),
        ("toy-quad", 8, (), "use 4"),
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
    ("spread", "words"),
    [
        ('{of="devices",distribution="norml",sd=0.1}', '[0].distribution: got "norml", allowed: "normal"'),
        ('{of="devices",distribution="normal",sd=-0.1}', "[0].sd: got -0.1, allowed: more than 0"),
        ('{of="devices",distribution="normal"}', '[0].sd: missing, needed because distribution = "normal"'),
        ('{name="not-all-gpu"}', '[0].name: got "not-all-gpu"; did you mean "not-all-gpus-2022"?'),
        ('{name="frontier-gcds",sd=0.1}', "[0].sd: not allowed beside name; allowed: seed"),
        ('{of="devices"}', "[0]: got none; allowed: one of name, distribution and table"),
        ('{name="frontier-gcds"},{name="not-all-gpus-2022"}', ": got devices twice"),
        ('{of="kernels",distribution="quantiles",quantiles=[[0.5,1.0],[0.4,1.1]]}', "got [0.4, 1.1] after [0.5, 1.0]"),
        ('{of="devices",table="no.csv"}', "[0].table: no.csv: cannot read this table: No such file or directory"),
    ],
)
def test_wrong_distributions(tmp_path: Path, spread: str, words: str) -> None:
    setting = f"perturbation.spread=[{spread}]"
    got = refusal("run", "scenarios/toy.toml", "--out", tmp_path / "out", "--set", setting)
    assert got.startswith("scenarios/toy.toml: perturbation.spread") and words in got


@pytest.mark.parametrize("text", ["", "a,,b", "a[", "a[1-2", "a[]", "a[b]", "a b", "a[[1]]"])
def test_texts_that_are_no_list_of_nodes(text: str) -> None:
    with pytest.raises(InputError, match=r"^got .*, allowed: names of nodes as Slurm writes them"):
        expanded(text)


def test_ranges_of_nodes_that_end_before_they_begin_or_never() -> None:
    with pytest.raises(InputError, match=r"got 5-3, allowed: the smaller number first$"):
        expanded("a[5-3]")
    with pytest.raises(InputError, match=r"nodes; allowed: up to 1,048,576"):
        expanded("a[0-9999]b[0-9999]")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("SwitchNam=s4 Nodes=a", '"SwitchNam": unknown key; did you mean "SwitchName"?'),
        ("SwitchName=s4", "allowed: either Nodes=... or Switches=..."),
        ("Nodes=a", "SwitchName=... is missing"),
        ("SwitchName=s4 Nodes=a Nodes=b", "got Nodes twice"),
        ("SwitchName=s0 Nodes=a", 'got switch "s0" twice (line 1)'),
        ("SwitchName=s4 Nodes=tux3", 'node "tux3" is below "s0" already'),
        ("SwitchName=t2 Switches=s0", 'switch "s0" is below "t0" already'),
        ("SwitchName=t2 Switches=sx0", 'switch "sx0" has no line; did you mean "s0"?'),
    ],
)
def test_wrong_lines_of_a_topology(tmp_path: Path, line: str, words: str) -> None:
    path = tmp_path / "topology.conf"
    path.write_text(f"SwitchName=s0 Nodes=tux[0-5]\nSwitchName=t0 Switches=s0\n{line}\n", encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_topology(path)
    assert str(caught.value).startswith(f"{path}: line 3: ") and words in str(caught.value)
