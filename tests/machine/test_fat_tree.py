"""Fat trees in machine files: what their uplinks carry by hand, and files that do not fit together."""

from pathlib import Path

import pytest

from simfrontier.errors import InputError
from simfrontier.machine import FatTree, Machine, load_machine
from simfrontier.machine.load import CATALOG

TOY = '{ value = %s, kind = "assumed", source = "toy" }'
TREE = (CATALOG / "toy-tree.toml").read_text(encoding="utf-8")
FLY = (CATALOG / "toy-cluster.toml").read_text(encoding="utf-8")


def loaded(folder: Path, text: str, overrides: dict[str, float] | None = None) -> Machine:
    path = folder / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return load_machine(str(path), overrides)


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


def test_other_machines_have_no_tree() -> None:
    for name in ("frontier", "perlmutter", "toy-cluster", "box"):
        machine = load_machine(name)
        assert machine.fat_tree is None and "uplink" not in machine.link_classes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (FLY + TREE[TREE.index("[fat_tree]") :], "fat_tree: not allowed beside dragonfly, which joins the nodes"),
        (
            TREE.replace(f"num_leaves = {TOY % 4}", f"num_leaves = {TOY % 3}"),
            "num_nodes: got 8, allowed: at most 6 (fat_tree.num_leaves * fat_tree.nodes_per_leaf)",
        ),
        (
            TREE.replace(f"taper = {TOY % '4.0'}", f"taper = {TOY % '0.5'}"),
            "fat_tree.taper.value: got 0.5, allowed: at least 1 and at most 1e+30",
        ),
        (
            TREE.replace(f"nodes_per_leaf = {TOY % 2}", f"nodes_per_leaf = {TOY % 0}"),
            "fat_tree.nodes_per_leaf.value: got 0, allowed: at least 1 and at most 1048576",
        ),
        (TREE.replace("taper =", "tapper ="), 'fat_tree.tapper: unknown key; did you mean "taper"? (and 1 more fault)'),
        (TREE.replace("[fat_tree]", "[fattree]"), 'fattree: unknown key; did you mean "fat_tree"?'),
        (
            TREE.replace(
                "[host]", f"[link_classes.uplink]\nbytes_per_s = {TOY % '1e9'}\nshare = {TOY % '1.0'}\n[host]"
            ),
            "link_classes.uplink: nothing in this machine uses it; allowed: nic, pcie, xgmi",
        ),
        (
            TREE.replace("pairs.xgmi", "pairs.uplink"),
            'node.links.pairs.uplink: got "uplink", which never joins two devices',
        ),
        (
            (CATALOG / "toy-pair.toml").read_text(encoding="utf-8") + TREE[TREE.index("[fat_tree]") :],
            "fat_tree: not allowed in a machine of one node (num_nodes = 1)",
        ),
    ],
)
def test_what_does_not_fit_together_is_one_clear_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        loaded(tmp_path, text)
    assert str(caught.value) == f"{tmp_path}/mine.toml: {message}"
