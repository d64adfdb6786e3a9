"""Every machine of the catalog loads, carries its sources, can be sent to another process and can be overridden."""

import pickle
import re
import tomllib
from pathlib import Path

import pytest

from simfrontier.errors import InputError
from simfrontier.machine import Machine, Provenance, catalog, catalog_name, load_machine
from simfrontier.machine.load import CATALOG
from simfrontier.machine.sources import sources_of

SHOWN = ", ".join(catalog()[:12])  # of what is allowed
KINDS = {"quoted", "measured", "fitted", "inferred", "assumed"}


def test_the_catalog_is_what_lies_in_its_folder() -> None:
    real = ("box", "frontier", "lassen", "lumi-g", "perlmutter", "perlmutter-80gb")
    of_runs = ("a100-40gb-node", "a100-node", "alps", "dgx-2", "eos", "grand-teton", "h100-node", "jean-zay-a100")
    more = ("h200-node", "jean-zay-v100", "mi250-node", "selene", "toy-cluster", "toy-pair", "toy-quad", "toy-tree")
    assert catalog() == tuple(sorted((*real, *of_runs, *more)))


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


def test_provenance_rows_carry_value_and_unit() -> None:
    rows = {row.key: row for row in load_machine("toy-cluster").provenance()}
    assert rows["link_classes.nic.bytes_per_s"] == Provenance(
        key="link_classes.nic.bytes_per_s", value=1e9, unit="bytes/s", kind="assumed", source="toy"
    )
    assert (rows["node.links"].value, rows["node.links"].unit) == (4, "entries")
    assert (rows["num_nodes"].value, rows["num_nodes"].unit) == (16, "count")
    assert (rows["device.hbm_share"].value, rows["device.hbm_share"].unit) == (1.0, "")


@pytest.mark.parametrize(("name", "num_devices"), [("toy-pair", 2), ("toy-quad", 4)])
def test_toys_of_one_node_have_no_network(name: str, num_devices: int) -> None:
    machine = load_machine(name)
    assert (machine.num_nodes, machine.num_devices, machine.dragonfly) == (1, num_devices, None)
    assert (machine.node.nic_of, machine.node.nic_device, machine.node.chains) == ((), (), ())
    with pytest.raises(AssertionError):
        machine.node.to_network(0)
    with pytest.raises(AssertionError):
        machine.node.from_network(0)


def test_toy_cluster_routes() -> None:
    # ring 0-1-2-3, packages (0, 1) and (2, 3), NICs on 1 and 3
    machine = load_machine("toy-cluster")

    def names(route: tuple[int, ...]) -> list[str]:
        return [machine.node.links[link].name for link in route]

    assert names(machine.node.route(0, 2)) == ["xgmi 0>1", "xgmi 1>2"]
    assert names(machine.node.route(2, 0)) == ["xgmi 2>1", "xgmi 1>0"]
    assert names(machine.node.route(0, 0)) == []
    assert names(machine.node.to_network(2)) == ["xgmi 2>3", "pcie 3>nic1", "nic1>net"]
    assert names(machine.node.from_network(1)) == ["net>nic0", "pcie nic0>1"]


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


def test_a_fitted_number_has_its_interval_until_it_is_set_otherwise(tmp_path: Path) -> None:
    given = 'kernel_gap_s = { value = 1e-6, kind = "fitted", source = "toy", low = 0.5e-6, high = 1e-6 }'
    text = (CATALOG / "toy-pair.toml").read_text(encoding="utf-8")
    path = tmp_path / "mine.toml"
    path.write_text(re.sub(r"kernel_gap_s = .*", given, text), encoding="utf-8")
    rows = {row.key: row for row in load_machine(str(path)).provenance()}
    assert rows["device.kernel_gap_s"].interval == (0.5e-6, 1e-6) and rows["device.hbm_bytes"].interval is None
    changed = {row.key: row for row in load_machine(str(path), {"device.kernel_gap_s": 2e-6}).provenance()}
    assert (changed["device.kernel_gap_s"].value, changed["device.kernel_gap_s"].interval) == (2e-6, None)


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


def test_a_number_of_a_base_is_not_set_without_a_source(tmp_path: Path) -> None:
    path = based(tmp_path, 'base = "perlmutter"\n[device]\nhbm_bytes = { value = 80e9 }\n')
    with pytest.raises(InputError) as caught:
        load_machine(path)
    assert str(caught.value) == f"{path}: device.hbm_bytes.kind: missing (and 1 more fault)"


@pytest.mark.parametrize(
    ("base", "message"),
    [
        ('"perlmuter"', 'got "perlmuter", which is no machine of the catalog; did you mean "perlmutter"?'),
        ("3", f"got 3, which is no machine of the catalog; allowed: {SHOWN}, and 10 more"),
        ("[]", f"got [], which is no machine of the catalog; allowed: {SHOWN}, and 10 more"),
    ],
)
def test_a_base_that_is_no_machine_of_the_catalog_is_refused(tmp_path: Path, base: str, message: str) -> None:
    path = based(tmp_path, f"base = {base}\n")
    with pytest.raises(InputError) as caught:
        load_machine(path)
    assert str(caught.value) == f"{path}: base: {message}"


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


def test_a_link_class_of_a_file_that_nothing_uses_is_still_refused(tmp_path: Path) -> None:
    path = based(tmp_path, 'base = "frontier"\n' + PORT.partition("[link_classes")[2].join(["[link_classes", ""]))
    with pytest.raises(InputError, match="port: nothing in this machine uses it"):
        load_machine(path)


def test_a_base_may_be_a_file_of_ones_own_beside_it(tmp_path: Path) -> None:
    based(tmp_path, f'name = "mine"\ntitle = "mine"\nbase = "frontier"{PORT}')
    path = tmp_path / "theirs.toml"
    path.write_text(f'name = "theirs"\nbase = "mine.toml"{ALONE}')
    machine = load_machine(str(path))
    assert (machine.name, machine.num_nodes, set(machine.link_classes)) == ("theirs", 1, {"port"})
    assert catalog_name(str(path)) == "frontier"


@pytest.mark.parametrize(
    ("base", "message"),
    [
        ("mine.toml", 'mine.toml: base: got "mine.toml", which is based on this file; allowed: another one'),
        ("no.toml", "no.toml: cannot read this machine file: No such file or directory"),
        ("loop.toml", "loop.toml: cannot read this machine file: Too many levels of symbolic links"),
    ],
)
def test_a_base_that_leads_nowhere_is_refused(tmp_path: Path, base: str, message: str) -> None:
    (tmp_path / "loop.toml").symlink_to("loop.toml")
    path = based(tmp_path, f'base = "{base}"\n')
    with pytest.raises(InputError) as caught:
        load_machine(path)
    assert str(caught.value).endswith(f"{tmp_path}/{message}")


def test_overridden_bandwidth_reaches_the_links_and_the_dragonfly() -> None:
    machine = load_machine("frontier", {"link_classes.nic.bytes_per_s": 50e9, "link_classes.global.bytes_per_s": 1e9})
    assert {link.bytes_per_s for link in machine.node.links if link.link_class == "nic"} == {50e9}
    assert machine.dragonfly is not None
    assert machine.dragonfly.bytes_per_s == 1e9


def test_counts_may_be_overridden_by_whole_floats() -> None:
    machine = load_machine("frontier", {"num_nodes": 64.0})
    assert (machine.num_nodes, type(machine.num_nodes)) == (64, int)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            {"device.hbm_shar": 0.5},
            'frontier.toml, with overrides: "device.hbm_shar" is not a number of this machine; '
            'did you mean "device.hbm_share"?',
        ),
        (
            {"node.rings": 1},
            'frontier.toml, with overrides: "node.rings" is not a number of this machine; '
            "allowed: copies.between_nodes_sd, copies.eager_bytes_per_s, copies.eager_s, copies.engine_bytes_per_s, "
            "copies.in_node_sd, copies.libraries.cray-mpich.bytes_per_s, copies.libraries.cray-mpich.gap_s, "
            "copies.libraries.cray-mpich.half_bytes, copies.libraries.cray-mpich.rendezvous_bytes, "
            "copies.libraries.openmpi-ucx.bytes_per_s, copies.libraries.openmpi-ucx.gap_s, "
            "copies.libraries.openmpi-ucx.half_bytes, and 53 more",
        ),
        (
            {"device.hbm_share": 2.0},
            "frontier.toml, with overrides: device.hbm_share.value: got 2.0, allowed: more than 0 and at most 1",
        ),
        (
            {"host.hook_s": float("nan")},
            "frontier.toml, with overrides: host.hook_s.value: got NaN, allowed: a finite number",
        ),
        (
            {"num_nodes": 2.5},
            "frontier.toml, with overrides: num_nodes.value: got 2.5, allowed: a whole number",
        ),
        (
            {"num_nodes": 9999},
            "frontier.toml, with overrides: num_nodes: got 9999, allowed: at most 9472 "
            "(dragonfly.num_groups * dragonfly.nodes_per_group)",
        ),
    ],
)
def test_wrong_overrides_are_refused(overrides: dict[str, float], message: str) -> None:
    with pytest.raises(InputError) as caught:
        load_machine("frontier", overrides)
    assert str(caught.value) == message


def test_an_unknown_name_gets_the_nearest_one() -> None:
    with pytest.raises(InputError) as caught:
        load_machine("frontir")
    assert str(caught.value) == (
        'machine "frontir" is not in the catalog; did you mean "frontier"? '
        "(a file of your own: give its path, ending in .toml)"
    )


def test_a_file_of_ones_own_may_lie_anywhere(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text((CATALOG / "toy-pair.toml").read_text(encoding="utf-8"), encoding="utf-8")
    machine: Machine = load_machine(str(path))
    assert machine.name == tomllib.loads(path.read_text(encoding="utf-8"))["name"]


def test_a_table_of_tables_may_have_one_that_is_called_source() -> None:
    number = {"value": 2.0, "kind": "assumed", "source": "own choice"}
    result = list(sources_of({"shares": {"source": number}}, len))
    assert [(each.key, each.value) for each in result] == [("shares.source", 2.0)]
