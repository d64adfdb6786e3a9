"""A machine file that is wrong: one line each, naming file, key, what was got and what is allowed."""

from pathlib import Path

import pytest

from simfrontier.errors import InputError
from simfrontier.machine import load_machine
from simfrontier.machine.load import CATALOG

TOY = '{ value = %s, kind = "assumed", source = "toy" }'


def message(tmp_path: Path, text: str) -> str:
    """What is said about a machine file with that text, less the file's name."""
    path = tmp_path / "mine.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_machine(str(path))
    phrase = str(caught.value)
    assert phrase.startswith(f"{path}: ")
    assert "\n" not in phrase
    return phrase.removeprefix(f"{path}: ")


def changed(name: str, old: str, new: str) -> str:
    text = (CATALOG / f"{name}.toml").read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{old!r} must be there once"
    return text.replace(old, new)


HBM = f"hbm_bytes = {TOY % '16e9'}"


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        (
            HBM,
            f"hbm_byte = {TOY % '16e9'}",
            'device.hbm_byte: unknown key; did you mean "hbm_bytes"? (and 1 more fault)',
        ),
        (HBM, "", "device.hbm_bytes: missing, give { value, kind, source }"),
        (HBM, "hbm_bytes = 16e9", "device.hbm_bytes: got 16000000000.0, allowed: a table { value, kind, source }"),
        (HBM, f"hbm_bytes = {TOY % 'nan'}", "device.hbm_bytes.value: got NaN, allowed: a finite number"),
        (HBM, f"hbm_bytes = {TOY % 'inf'}", "device.hbm_bytes.value: got Infinity, allowed: a finite number"),
        (
            HBM,
            f"hbm_bytes = {TOY % '-1.0'}",
            "device.hbm_bytes.value: got -1.0, allowed: more than 0 and at most 1e+30",
        ),
        (HBM, f"hbm_bytes = {TOY % '0'}", "device.hbm_bytes.value: got 0, allowed: more than 0 and at most 1e+30"),
        (HBM, f"hbm_bytes = {TOY % 'true'}", "device.hbm_bytes.value: got true, allowed: a number"),
        (
            HBM,
            "hbm_bytes = { value = '16 GB', kind = 'assumed', source = 'toy' }",
            'device.hbm_bytes.value: got "16 GB", allowed: a number',
        ),
        (
            HBM,
            'hbm_bytes = { value = 16e9, kind = "guessed", source = "toy" }',
            'device.hbm_bytes.kind: got "guessed", allowed: "quoted", "measured", "fitted", "inferred" or "assumed"',
        ),
        (HBM, 'hbm_bytes = { value = 16e9, kind = "assumed" }', "device.hbm_bytes.source: missing"),
        (
            HBM,
            'hbm_bytes = { value = 16e9, kind = "assumed", source = "" }',
            'device.hbm_bytes.source: got "", allowed: a text of at least 1 characters',
        ),
        (
            HBM,
            'hbm_bytes = { value = 16e9, kind = "fitted", source = "toy", low = 9, high = 1 }',
            "device.hbm_bytes: got 9 to 1, allowed: around 1.6e+10",
        ),
        (
            HBM,
            'hbm_bytes = { value = 16e9, kind = "fitted", source = "toy", low = 15e9, high = 15.9e9 }',
            "device.hbm_bytes: got 1.5e+10 to 1.59e+10, allowed: around 1.6e+10",
        ),
        (
            HBM,
            'hbm_bytes = { value = 16e9, kind = "fitted", source = "toy", low = 15e9 }',
            "device.hbm_bytes: got one end of an interval, allowed: low and high, or neither",
        ),
        (
            HBM,
            'hbm_bytes = { value = 16e9, kind = "fitted", source = "toy", high = 17e9 }',
            "device.hbm_bytes: got one end of an interval, allowed: low and high, or neither",
        ),
        (
            f"hbm_share = {TOY % '1.0'}",
            f"hbm_share = {TOY % '1.5'}",
            "device.hbm_share.value: got 1.5, allowed: more than 0 and at most 1",
        ),
        (
            f"num_compute_units = {TOY % '10'}",
            f"num_compute_units = {TOY % '10.0'}",
            "device.num_compute_units.value: got 10.0, allowed: a whole number",
        ),
        (
            f"kernel_gap_s = {TOY % '1e-6'}",
            f"kernel_gap_s = {TOY % '-1e-6'}",
            "device.kernel_gap_s.value: got -1e-06, allowed: at least 0 and at most 1e+30",
        ),
        (
            f"matmul_flops_per_s = {TOY % '2e12'}",
            f"matmul_flops_per_s = {TOY % '3e12'}",
            "device.matmul_flops_per_s: got 3e+12, allowed: at most device.peak_flops_per_s = 2e+12",
        ),
        (
            f"matmul_flops_per_s = {TOY % '1e12'}",
            f"matmul_flops_per_s = {TOY % '3e12'}",
            "device.fp32.matmul_flops_per_s: got 3e+12, allowed: at most device.fp32.peak_flops_per_s = 1e+12",
        ),
        (
            f"matmul_flops_per_s = {TOY % '5e11'}",
            "",
            "device.fp64.matmul_flops_per_s: missing, give { value, kind, source }",
        ),
        ("[device.fp64]", "[device.fp46]", 'device.fp46: unknown key; did you mean "fp64"?'),
        (
            f"devices_per_package = {TOY % '2'}",
            f"devices_per_package = {TOY % '3'}",
            "devices_per_package: got 3, allowed: a divisor of devices_per_node = 4",
        ),
        (
            f"num_nodes = {TOY % '16'}",
            f"num_nodes = {TOY % '17'}",
            "num_nodes: got 17, allowed: at most 16 (dragonfly.num_groups * dragonfly.nodes_per_group)",
        ),
        (
            f"num_nodes = {TOY % '16'}",
            f"num_nodes = {TOY % '1'}",
            "node.nics: not allowed in a machine of one node (num_nodes = 1)",
        ),
        (
            "device = [1, 3]",
            "devices = [1, 3]",
            'node.nics.devices: unknown key; did you mean "device"? (and 1 more fault)',
        ),
        (
            "device = [1, 3]",
            "device = [1, 4]",
            "node.nics.device: device 4 does not exist, allowed: 0..3",
        ),
        (
            "device = [1, 3]",
            "device = [0, 1]",
            "node.nics.device: NIC 1 on device 1 is the second NIC of package 0 (NIC 0 is the first), "
            "allowed: one NIC per package",
        ),
        ("device = [1, 3]", "device = [1]", "node.nics.device: package 1 has no NIC, allowed: one NIC per package"),
        (
            "pairs.xgmi = [[0, 1], [1, 2], [2, 3], [3, 0]]",
            "pairs.xgm = [[0, 1], [1, 2], [2, 3], [3, 0]]",
            'node.links needs link class "xgm", which is missing; did you mean "xgmi"?',
        ),
        (
            "pairs.xgmi = [[0, 1], [1, 2], [2, 3], [3, 0]]",
            "pairs.nic = [[0, 1], [1, 2], [2, 3], [3, 0]]",
            'node.links.pairs.nic: got "nic", which never joins two devices',
        ),
        (
            "[link_classes.pcie]",
            "[link_classes.pci]",
            'node.nics needs link class "pcie", which is missing; did you mean "pci"?',
        ),
        (
            "[host]",
            f"[link_classes.xgmi4]\nbytes_per_s = {TOY % '1'}\nshare = {TOY % '1.0'}\n\n[host]",
            'link_classes.xgmi4: nothing in this machine uses it; did you mean "xgmi"?',
        ),
        (
            "[3, 0]]",
            "[3, 0], [1, 0]]",
            "node.links.pairs.xgmi: link [1, 0] is there already (as xgmi), allowed: one entry per pair of devices",
        ),
        (
            "[3, 0]]",
            "[3, 4]]",
            "node.links.pairs.xgmi: link [3, 4]: device 4 does not exist, allowed: 0..3",
        ),
        (
            "[3, 0]]",
            "[3, -1]]",
            "node.links.pairs.xgmi: link [3, -1]: device -1 does not exist, allowed: 0..3",
        ),
        (
            "[3, 0]]",
            "[3, 3]]",
            "node.links.pairs.xgmi: link [3, 3] joins a device to itself, allowed: two different devices",
        ),
        (
            "[3, 0]]",
            "[3]]",
            "node.links.pairs.xgmi[3]: got [3], allowed: a list of at least 2",
        ),
        (
            "[[0, 1], [1, 2], [2, 3], [3, 0]]",
            "[[0, 1], [2, 3]]",
            "node.links: device 2 cannot be reached from device 0, allowed: every pair has a route",
        ),
        ("[dragonfly]", "[dragonfli]", 'dragonfli: unknown key; did you mean "dragonfly"?'),
    ],
)
def test_each_fault_of_a_file_is_one_clear_line(tmp_path: Path, old: str, new: str, text: str) -> None:
    assert message(tmp_path, changed("toy-cluster", old, new)) == text


ORDERS = "orders = [[0, 1, 2, 3], [3, 2, 1, 0]]"


@pytest.mark.parametrize(
    ("orders", "text"),
    [
        (
            "[[0, 1, 2, 3]]",
            "node.rings.orders: [0, 1, 2, 3] lacks its way back [3, 2, 1, 0], allowed: every order in both directions",
        ),
        ("[[0, 1, 2], [2, 1, 0]]", "node.rings.orders: got [0, 1, 2], allowed: each of the devices 0..3 once"),
        ("[[0, 1, 2, 7], [7, 2, 1, 0]]", "node.rings.orders: [0, 1, 2, 7]: device 7 does not exist, allowed: 0..3"),
        (
            "[[0, 2, 1, 3], [3, 1, 2, 0]]",
            "node.rings.orders: [0, 2, 1, 3] steps from 0 to 2, allowed: steps along a link",
        ),
        ("[]", "node.rings.orders: got [], allowed: a list of at least 1"),
        (
            "[[0, 1, 2, '3']]",
            'node.rings.orders[0][3]: got "3", allowed: a whole number',
        ),
    ],
)
def test_rings_that_cannot_be_are_refused(tmp_path: Path, orders: str, text: str) -> None:
    assert message(tmp_path, changed("toy-quad", ORDERS, f"orders = {orders}")) == text


def test_a_ring_may_start_anywhere_on_its_way_back(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(changed("toy-quad", ORDERS, "orders = [[0, 1, 2, 3], [1, 0, 3, 2]]"), encoding="utf-8")
    assert load_machine(str(path)).node.rings == ((0, 1, 2, 3), (1, 0, 3, 2))


def test_an_open_chain_has_one_way_back_only(tmp_path: Path) -> None:
    text = (CATALOG / "toy-cluster.toml").read_text(encoding="utf-8")
    head, tail = text.split("[node.chains]")
    tail = tail.replace(ORDERS, "orders = [[0, 1, 2, 3], [1, 0, 3, 2]]")
    assert message(tmp_path, f"{head}[node.chains]{tail}") == (
        "node.chains.orders: [0, 1, 2, 3] lacks its way back [3, 2, 1, 0], allowed: every order in both directions"
    )


@pytest.mark.parametrize("part", ["node.nics", "node.chains"])
def test_several_nodes_need_nics_and_chains(tmp_path: Path, part: str) -> None:
    before, after = (CATALOG / "toy-cluster.toml").read_text(encoding="utf-8").split(f"[{part}]")
    rest = after[after.index("\n[") :]
    assert message(tmp_path, before + rest) == f"{part}: missing, needed because num_nodes is 16"


def test_a_machine_without_a_dragonfly_is_a_flat_network(tmp_path: Path) -> None:
    text = (CATALOG / "toy-cluster.toml").read_text(encoding="utf-8")
    text = text[: text.index("[dragonfly]")]
    start, end = text.index("[link_classes.global]"), text.index("[node.links]")
    path = tmp_path / "mine.toml"
    path.write_text(text[:start] + text[end:], encoding="utf-8")
    assert load_machine(str(path)).dragonfly is None


def test_a_missing_table_names_what_it_holds(tmp_path: Path) -> None:
    text = (CATALOG / "toy-pair.toml").read_text(encoding="utf-8").replace("[host]", "[hosts]")
    assert message(tmp_path, text) == 'hosts: unknown key; did you mean "host"? (and 1 more fault)'
    text = text.replace(f"[hosts]\nhook_s = {TOY % '1e-6'}\n", "")
    assert message(tmp_path, text) == "host: missing, give { hook_s }"


def test_files_that_are_not_toml_or_not_there(tmp_path: Path) -> None:
    assert message(tmp_path, "a = ") == "not a TOML file: Invalid value (at end of document)"
    with pytest.raises(InputError) as caught:
        load_machine(str(tmp_path / "none.toml"))
    assert str(caught.value) == f"{tmp_path}/none.toml: cannot read this machine file: No such file or directory"
    with pytest.raises(InputError) as caught:
        load_machine(f"{tmp_path}/")
    assert str(caught.value) == f"{tmp_path}: cannot read this machine file: Is a directory"
    (tmp_path / "latin.toml").write_bytes(b'title = "\xe9"')
    with pytest.raises(InputError, match=r"latin\.toml: not a TOML file: byte 9 is not UTF-8 text"):
        load_machine(str(tmp_path / "latin.toml"))


def test_a_file_nested_too_deeply_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "deep.toml"
    path.write_text("a = " + "[" * 20_000 + "]" * 20_000)
    with pytest.raises(InputError) as caught:
        load_machine(str(path))
    assert str(caught.value) == f"{path}: not a TOML file: nested too deeply"
