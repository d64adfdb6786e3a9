"""`simfrontier topology`: what it prints, writes and refuses; a machine made of an XML runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simfrontier.scenario import load_scenario
from tests.invoke import ROOT, TOY, invoke, refusal
from tests.topology.samples import bare, dgx_a100, frontier, link, perlmutter

TOPOLOGY = """\
SwitchName=s0 Nodes=tux[00-05],tux9
SwitchName=s1 Nodes=tux[06-08,12]
SwitchName=t0 Switches=s[0-1]
"""
CIRCLE = "SwitchName=a Nodes=n1\nSwitchName=b Switches=a,c\nSwitchName=c Switches=b\n"


def written(tmp_path: Path, text: str, name: str = "node.xml") -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_frontiers_xml_in_words(tmp_path: Path) -> None:
    path = written(tmp_path, frontier())
    lines = invoke("topology", path).out.splitlines()
    assert lines[0] == f"{path}: version 2 (RCCL), 8 devices (gfx90a), 4 CPUs"
    assert lines[2] == "  0       0000:c1:00.0    3    16.0 GT/s PCIe x16, 31.51 GB/s"
    assert lines[-9:] == [
        "  4 links, 200 GB/s     0-1, 2-3, 4-5, 6-7",
        "  2 links, 100 GB/s     0-6, 2-4",
        "  1 link, 50 GB/s       0-2, 1-3, 1-5, 3-7, 4-6, 5-7",
        "NICs (a package is 2 devices):",
        "  0   hsn0          25 GB/s     on device 0 (PHB; as near to 1)",
        "  1   hsn1          25 GB/s     on device 2 (PHB; as near to 3)",
        "  2   hsn2          25 GB/s     on device 4 (PHB; as near to 5)",
        "  3   hsn3          25 GB/s     on device 6 (PHB; as near to 7)",
        "  4   bond0         125 MB/s    not used: slower, further, or a package's second",
    ]


def test_the_same_for_programs(tmp_path: Path) -> None:
    form = json.loads(invoke("topology", written(tmp_path, frontier()), "--json").out)
    assert {(*pair["devices"],): pair["count"] for pair in form["links"]}[0, 6] == 2
    assert sum(pair["count"] for pair in form["links"]) == 26
    assert [nic["device"] for nic in form["nics"]] == [0, 2, 4, 6, None] and form["devices_per_package"] == 2
    assert form["devices"][1]["busid"] == "0000:c6:00.0" and form["link_bytes_per_s"] == 50e9


def test_a_machine_made_of_an_xml_runs(tmp_path: Path) -> None:
    ran = invoke("topology", written(tmp_path, frontier()), "--base", "frontier", "--out", tmp_path / "mine.toml")
    assert ran.code == 0 and ran.out.endswith(f"Written to {tmp_path / 'mine.toml'}\n")
    assert "hsn0          25 GB/s     on device 1 (PHB; as near to 0)" in ran.out  # as on the base
    out = tmp_path / "out"
    name = f"machine.name={tmp_path / 'mine.toml'}"
    ran = invoke("run", TOY, "--set", name, "--plans", "zero3", "--devices", "16", "--no-page", "--out", out)
    assert ran.code == 0 and (out / "results.csv").exists(), ran


def test_a_machine_and_back_by_files(tmp_path: Path) -> None:
    """What is made of an XML goes out without saying its devices again: they are its base's."""
    path = written(tmp_path, perlmutter())
    assert invoke("topology", path, "--base", "perlmutter", "--out", tmp_path / "m.toml").code == 0
    ran = invoke("topology", tmp_path / "m.toml", "--out", tmp_path / "m.xml")
    assert ran.code == 0, ran
    before, after = (json.loads(invoke("topology", each, "--json").out) for each in (path, tmp_path / "m.xml"))
    assert before["links"] == after["links"] and [n["device"] for n in after["nics"]] == [0, 1, 2, 3]


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    for number in (1, 2):
        assert invoke("topology", "lumi-g", "--out", tmp_path / f"{number}.xml").code == 0
    assert (tmp_path / "1.xml").read_bytes() == (tmp_path / "2.xml").read_bytes()


def test_an_xml_says_what_in_it_is_made_up(tmp_path: Path) -> None:
    assert invoke("topology", "frontier", "--out", tmp_path / "f.xml").code == 0
    head = (tmp_path / "f.xml").read_text(encoding="utf-8").splitlines()[:3]
    assert head[1].startswith("<!-- Bus ids, CPUs and PCI bridges are made up") and head[2] == '<system version="2">'


@pytest.mark.parametrize("name", ["frontier", "perlmutter", "dgx-2"])
def test_what_is_written_has_what_nccls_parser_needs(tmp_path: Path, name: str) -> None:
    """By src/graph/topo.cc: attributes without a default."""
    from simfrontier.topology.xml_file import read_xml

    needed = {
        "system": {"version"},
        "cpu": {"numaid", "arch", "vendor", "familyid", "modelid"},
        "pci": {"busid", "class", "link_speed", "link_width"},
        "gpu": {"dev", "sm", "rank", "gdr"} | ({"gcn", "arch"} if name == "frontier" else set()),
        "nic": set[str](),
        "net": {"dev"},
        "nvlink": {"target", "count", "tclass"},
        "xgmi": {"target", "count", "tclass"},
    }
    assert invoke("topology", name, "--out", tmp_path / "t.xml").code == 0
    found = list(read_xml(tmp_path / "t.xml").walk())
    assert {element.name for element in found} == needed.keys() - {"nvlink" if name == "frontier" else "xgmi"}
    assert all(needed[element.name] <= element.attributes.keys() for element in found)
    assert all(len(value) <= 255 for element in found for value in element.attributes.values())


def test_ways_through_cpus_are_told(tmp_path: Path) -> None:
    assert (
        "Not in the XML: ways through CPUs, which NCCL knows by itself: 0-3, 1-2\n" in invoke("topology", "lassen").out
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (frontier(), "allowed with such devices (gfx90a): frontier, lumi-g, mi250-node"),
        (perlmutter(), "allowed with such devices (sm80): a100-40gb-node, a100-node, "),
        (
            bare([link(1, 6), link(0, 6)]).replace('sm="80"', 'sm="70"'),
            "allowed with such devices (sm70): dgx-2, jean-",
        ),
        (bare([link(1), link(0)]).replace('sm="80"', 'sm="60"'), "allowed: a100-40gb-node, a100-node, alps, "),
    ],
    ids=("frontier", "perlmutter", "devices", "none"),
)
def test_a_missing_base_is_told_with_those_that_fit(tmp_path: Path, text: str, said: str) -> None:
    message = refusal("topology", written(tmp_path, text), "--out", tmp_path / "m.toml")
    assert message.startswith("--base: missing: an XML has no speeds of devices") and said in message
    assert not (tmp_path / "m.toml").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("frontier", "--version", "1"),
            "--version: got 1, allowed: 2, which has xgmi elements, as gfx90a devices need",
        ),
        (("frontier", "--version", "3"), "--version: got '3'; allowed: less than or equal to 2"),
        (("frontier", "--arch", "gfx9a"), '--arch: got "gfx9a"; did you mean "gfx90a"?'),
        (
            ("frontier", "--base", "frontier"),
            "--base: got 'frontier' for frontier, a machine; allowed: --out, --arch, --version",
        ),
        (
            ("toy-quad",),
            "--arch: missing: what the devices of toy-quad are is not known; "
            "allowed: sm60, sm70, sm80, sm86, sm90, sm100, gfx908, gfx90a, gfx942, gfx950, none",
        ),
        (
            ("toy-quad", "--arch", "none"),
            "--version: missing, needed because --arch is none; allowed: 1 (NCCL) or 2 (RCCL)",
        ),
        (
            ("box", "--arch", "none", "--version", "1"),
            "devices of box share a bus; allowed: machines whose nodes have links or a switch",
        ),
        (
            ("frontierr",),
            'machine "frontierr" is not in the catalog; did you mean "frontier"? '
            "(a file of your own: give its path, ending in .toml)",
        ),
        (("nowhere.xml",), "nowhere.xml: cannot read this topology XML: No such file or directory"),
        (("nowhere.conf",), "nowhere.conf: cannot read this topology.conf: No such file or directory"),
        (
            ("topology.yaml",),
            "topology.yaml: topology.yaml of Slurm is not read; allowed: topology.conf (topology/tree), XML, TOML",
        ),
    ],
)
def test_what_is_refused(arguments: tuple[str, ...], said: str) -> None:
    assert refusal("topology", *arguments) == said or (
        said is None and "did you mean" in refusal("topology", *arguments)
    )


def test_options_of_the_other_sort_are_refused(tmp_path: Path) -> None:
    xml, conf = written(tmp_path, dgx_a100()), written(tmp_path, TOPOLOGY, "topology.conf")
    assert (
        refusal("topology", xml, "--arch", "sm80")
        == f"--arch: got 'sm80' for {xml}, a topology XML; allowed: --out, --base"
    )
    assert (
        refusal("topology", conf, "--out", "x") == f"--out: got 'x' for {conf}, Slurm's file of switches; allowed: none"
    )
    message = refusal("topology", xml, "--base", "perlmutter")
    assert message == "--base: of the machine file that --out names, which is missing"
    message = refusal("topology", xml, "--base", "perlmuter", "--out", tmp_path / "m.toml")
    assert message.startswith('machine "perlmuter" is not in the catalog; did you mean "perlmutter"?')


def test_files_are_known_by_their_first_sign(tmp_path: Path) -> None:
    assert invoke("topology", written(tmp_path, "\n" + frontier(), "dump")).out.startswith(str(tmp_path / "dump"))
    assert "3 levels" not in invoke("topology", written(tmp_path, TOPOLOGY, "slurm")).out
    assert "2 levels" in invoke("topology", written(tmp_path, TOPOLOGY, "slurm")).out


# ── Slurm ──


def test_slurms_switches_in_words(tmp_path: Path) -> None:
    path = written(tmp_path, TOPOLOGY, "topology.conf")
    assert invoke("topology", path).out.splitlines() == [
        f"{path}: 11 nodes, 2 levels",
        "  group_level = 0: 2 switches, 4 to 7 nodes below each",
        "  group_level = 1: 1 switch, 11 nodes below it",
        "",
        "# In a scenario, on a machine with groups (dragonfly) or leaves (fat tree):",
        "[nodes]",
        'topology = "topology.conf"  # looked for beside the scenario',
        "group_level = 0  # or up to 1: the switches that are the machine's groups",
        '# list = "tux[00-05,9]"  # the nodes of the job, e.g. those below the first switch',
    ]
    form = json.loads(invoke("topology", path, "--json").out)
    assert form["levels"][1] == {"group_level": 1, "switches": ["t0"], "nodes_below": [11]}


def test_the_keys_that_are_printed_are_those_of_a_scenario(tmp_path: Path) -> None:
    """Two groups of up to four nodes, as the toy machine has them."""
    conf = written(tmp_path, TOPOLOGY.replace("00-05],tux9", "00-03]"), "topology.conf")
    printed = invoke("topology", conf).out.partition("[nodes]")[2].replace("# list", "list")
    text = TOY.read_text(encoding="utf-8").partition("[plans.ddp]")[0]
    scenario = written(tmp_path, f"{text}\n[nodes]{printed}\n", "s.toml")
    job = load_scenario(scenario).machine.job_nodes
    assert job.names == ("tux00", "tux01", "tux02", "tux03") and job.group_of == (0, 0, 0, 0, 1, 1, 1, 1)


def test_switches_that_go_in_circles_end(tmp_path: Path) -> None:
    ran = invoke("topology", written(tmp_path, CIRCLE, "topology.conf"))
    assert ran.code == 0 and "3 levels" in ran.out


def test_the_page_shows_what_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "how-to" / "topology.md").read_text(encoding="utf-8")
    conf = TOPOLOGY.replace("00-05],tux9", "00-05,9]")
    written(tmp_path, frontier(), "frontier-node.xml")
    written(tmp_path, conf, "topology.conf")
    monkeypatch.chdir(tmp_path)
    for source in ("frontier-node.xml", "topology.conf"):
        assert invoke("topology", source).out in page
    assert invoke("topology", "frontier", "--out", "f.xml").code == 0
    head = (tmp_path / "f.xml").read_text(encoding="utf-8").splitlines(keepends=True)[:11]
    assert "".join(head) in page
