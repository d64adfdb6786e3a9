"""Machines of the catalog: they load by name and path, carry their sources, and stand on a base or under overrides."""

import pickle
import re
from pathlib import Path

import pytest

from simfrontier.base.errors import InputError
from simfrontier.core.machine import CodecSpeeds, FatTree, catalog, catalog_name, load_machine
from simfrontier.core.machine.load import CATALOG

KINDS = {"quoted", "measured", "fitted", "inferred", "assumed"}


@pytest.mark.parametrize("name", catalog())
def test_every_catalog_file_loads_by_name_and_by_path(name: str) -> None:
    machine = load_machine(name)
    assert machine.name == name
    assert machine == load_machine(str(CATALOG / f"{name}.toml"))
    assert hash(machine) == hash(load_machine(name))
    assert pickle.loads(pickle.dumps(machine)) == machine


@pytest.mark.parametrize("name", catalog())
def test_every_number_of_a_file_is_in_the_provenance(name: str) -> None:
    table = load_machine(name).provenance()
    text = (CATALOG / f"{name}.toml").read_text(encoding="utf-8")
    if (base := re.search(r'^base = "(.*)"', text, re.MULTILINE)) is not None:
        below = load_machine(base.group(1)).sources
        assert len(re.findall(r"\bsource = ", text)) == sum(row not in below for row in table)
        return
    assert len(table) == len(re.findall(r"\bsource = ", text)) == len({row.key for row in table})
    assert all(row.kind in KINDS and row.source for row in table)
    if not name.startswith("toy"):
        assert all(len(row.source) > 10 for row in table)


def test_products_of_each_type_of_numbers_have_their_rate() -> None:
    """x / (x + 100) of 2, 1 and 0.5 Tflop/s; an edge of 100 gets half."""
    machine = load_machine("toy-pair")
    for dtype, peak in (("fp16", 2e12), ("bf16", 2e12), ("fp32", 1e12), ("fp64", 0.5e12)):
        assert machine.matmul(dtype).peak_flops_per_s == peak
        assert machine.matmul(dtype).rate(100, 100, 100) == pytest.approx(peak / 2, rel=1e-12)
    with pytest.raises(InputError) as caught:
        load_machine("frontier").matmul("fp64")
    assert str(caught.value) == (
        "machine frontier has no rate of matrix products of fp64 numbers (device.fp64); allowed: fp16, bf16, fp32"
    )


@pytest.mark.parametrize("name", catalog())
def test_no_rate_is_above_the_peak(name: str) -> None:
    device = load_machine(name).device
    assert max([device.matmul_flops_per_s, *device.attention.values()]) <= device.peak_flops_per_s
    for numbers in (device.fp32, device.fp8):
        assert numbers is None or numbers.matmul_flops_per_s <= numbers.peak_flops_per_s


def test_overrides_change_a_number_and_say_so() -> None:
    overrides = {"link_classes.nic.share": 0.5, "device.matmul_half_edge": 0, "dragonfly.nonminimal_share": 0.0}
    machine = load_machine("frontier", overrides)
    assert machine.link_classes["nic"].share == 0.5
    assert machine.device.matmul_rate(1, 1, 1) == machine.device.matmul_flops_per_s
    rows = {row.key: row for row in machine.provenance()}
    row = rows["link_classes.nic.share"]
    assert (row.value, row.kind, row.source) == (0.5, "assumed", "scenario override")
    untouched = {row.key: row for row in load_machine("frontier").provenance() if row.key not in overrides}
    assert {key: row for key, row in rows.items() if key not in overrides} == untouched


def based(tmp_path: Path, text: str) -> str:
    path = tmp_path / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_file_on_a_base_says_only_what_differs(tmp_path: Path) -> None:
    text = '[link_classes.nic]\nshare = { value = 0.5, kind = "measured", source = "toy" }\n'
    machine = load_machine(based(tmp_path, f'name = "mine"\nbase = "perlmutter-80gb"\n{text}'), {"host.hook_s": 0.0})
    assert (machine.name, machine.num_nodes, machine.host.hook_s) == ("mine", 256, 0.0)  # a base of a base
    nic = machine.link_classes["nic"]
    assert (nic.bytes_per_s, nic.share) == (25e9, 0.5)
    rows = {row.key: row for row in machine.provenance()}
    assert (rows["link_classes.nic.share"].kind, rows["link_classes.nic.bytes_per_s"].kind) == ("measured", "quoted")


PORT = """
[node.switch]
kind = "assumed"
source = "toy"
[link_classes.port]
bytes_per_s = { value = 200e9, kind = "quoted", source = "toy" }
share = { value = 0.7, kind = "quoted", source = "toy" }
"""
TREE = """
[fat_tree]
nodes_per_leaf = { value = 16, kind = "quoted", source = "toy" }
num_leaves = { value = 600, kind = "quoted", source = "toy" }
taper = { value = 1.0, kind = "quoted", source = "toy" }
"""
ALONE = '\nnum_nodes = { value = 1, kind = "quoted", source = "toy" }\n'
PAIRS = """
[node.links]
kind = "quoted"
source = "toy"
pairs = { xgmi4 = [[0, 1], [1, 2], [2, 3], [3, 4], [4, 5], [5, 6], [6, 7], [7, 0]] }
[node.rings]
kind = "quoted"
source = "toy"
orders = [[0, 1, 2, 3, 4, 5, 6, 7], [7, 6, 5, 4, 3, 2, 1, 0]]
[node.chains]
kind = "quoted"
source = "toy"
orders = [[0, 1, 2, 3, 4, 5, 6, 7], [7, 6, 5, 4, 3, 2, 1, 0]]
"""


@pytest.mark.parametrize(
    ("own", "classes"),
    [
        (PORT, {"port", "pcie", "nic", "global"}),  # a switch stands in the place of links and rings
        (TREE, {"xgmi4", "xgmi2", "xgmi1", "pcie", "nic", "uplink"}),  # a fat tree in that of the dragonfly
        (ALONE, {"xgmi4", "xgmi2", "xgmi1"}),  # a machine of one node has no network
        (PAIRS, {"xgmi4", "pcie", "nic", "global"}),
    ],
)
def test_what_a_file_replaces_of_its_base_is_not_inherited(tmp_path: Path, own: str, classes: set[str]) -> None:
    machine = load_machine(based(tmp_path, f'name = "mine"\ntitle = "mine"\nbase = "frontier"{own}'))
    assert set(machine.link_classes) == classes
    assert {row.key.split(".")[1] for row in machine.provenance() if row.key.startswith("link_classes")} == classes - {
        "uplink"
    }


def test_a_base_may_be_a_file_of_ones_own_beside_it(tmp_path: Path) -> None:
    based(tmp_path, f'name = "mine"\ntitle = "mine"\nbase = "frontier"{PORT}')
    path = tmp_path / "theirs.toml"
    path.write_text(f'name = "theirs"\nbase = "mine.toml"{ALONE}')
    machine = load_machine(str(path))
    assert (machine.name, machine.num_nodes, set(machine.link_classes)) == ("theirs", 1, {"port"})
    assert catalog_name(str(path)) == "frontier"


def test_overridden_bandwidth_reaches_the_links_and_the_dragonfly() -> None:
    machine = load_machine("frontier", {"link_classes.nic.bytes_per_s": 50e9, "link_classes.global.bytes_per_s": 1e9})
    assert {link.bytes_per_s for link in machine.node.links if link.link_class == "nic"} == {50e9}
    assert machine.dragonfly is not None
    assert machine.dragonfly.bytes_per_s == 1e9


PART = 'encode_bytes_per_s = { value = 1e9, kind = "measured", source = "toy" }\n'
ZFP = f"[device.codecs.zfp]\n{PART}{PART.replace('encode', 'decode')}"


def of_toy(folder: Path, more: str) -> str:
    path = folder / "mine.toml"
    toy = (CATALOG / "toy-pair.toml").read_text(encoding="utf-8")
    silent = re.sub(r"\[device\.codecs\.\w+\]\n(?:\w+ = .*\n)*", "", toy)
    path.write_text(silent + more, encoding="utf-8")
    return str(path)


def test_speeds_of_codecs_are_of_the_file_unless_overridden(tmp_path: Path) -> None:
    path = of_toy(tmp_path, ZFP)
    assert load_machine(path).device.codecs == {"zfp": CodecSpeeds(encode_bytes_per_s=1e9, decode_bytes_per_s=1e9)}
    changed = load_machine(path, {"device.codecs.zfp.decode_bytes_per_s": 5e8})
    assert changed.device.codecs["zfp"] == CodecSpeeds(encode_bytes_per_s=1e9, decode_bytes_per_s=5e8)
    kinds = {row.key: (row.kind, row.unit) for row in changed.provenance() if "codecs" in row.key}
    assert kinds == {
        "device.codecs.zfp.encode_bytes_per_s": ("measured", "bytes/s"),
        "device.codecs.zfp.decode_bytes_per_s": ("assumed", "bytes/s"),
    }


def test_uplinks_carry_what_the_nics_inject_over_the_taper() -> None:
    # 2 nodes of 2 NICs of 1 GB/s under a leaf, tapered 4:1
    machine = load_machine("toy-tree")
    assert machine.fat_tree == FatTree(nodes_per_leaf=2, num_leaves=4, taper=4.0, bytes_per_s=1e9)
    assert machine.dragonfly is None
    uplink = machine.link_classes["uplink"]
    assert (uplink.bytes_per_s, uplink.share) == (1e9, machine.link_classes["nic"].share)


def test_overrides_reach_the_uplinks() -> None:
    changed = load_machine(
        "toy-tree", {"fat_tree.taper": 2.0, "link_classes.nic.bytes_per_s": 3e9, "link_classes.nic.share": 0.5}
    )
    assert changed.fat_tree is not None and changed.fat_tree.bytes_per_s == 2 * 2 * 3e9 / 2
    uplink = changed.link_classes["uplink"]
    assert (uplink.bytes_per_s, uplink.share) == (6e9, 0.5)
