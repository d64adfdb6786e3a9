"""`simfrontier topology`: what it prints, writes and refuses; a machine made of an XML runs."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from simfrontier.inputs.scenario import load_scenario
from tests.core.topology.samples import frontier
from tests.invoke import ROOT, TOY, invoke

TOPOLOGY = """\
SwitchName=s0 Nodes=tux[00-05],tux9
SwitchName=s1 Nodes=tux[06-08,12]
SwitchName=t0 Switches=s[0-1]
"""


def written(tmp_path: Path, text: str, name: str = "node.xml") -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_machine_made_of_an_xml_runs(tmp_path: Path) -> None:
    ran = invoke("topology", written(tmp_path, frontier()), "--base", "frontier", "--out", tmp_path / "mine.toml")
    assert ran.code == 0 and ran.out.endswith(f"Written to {tmp_path / 'mine.toml'}\n")
    assert "hsn0          25 GB/s     on device 1 (PHB; as near to 0)" in ran.out  # as on the base
    out = tmp_path / "out"
    name = f"machine.name={tmp_path / 'mine.toml'}"
    ran = invoke("run", TOY, "--set", name, "--plans", "zero3", "--devices", "16", "--no-page", "--out", out)
    assert ran.code == 0 and (out / "results.csv").exists(), ran


@pytest.mark.parametrize("name", ["frontier", "perlmutter", "dgx-2"])
def test_what_is_written_has_what_nccls_parser_needs(tmp_path: Path, name: str) -> None:
    """By src/graph/topo.cc: attributes without a default."""
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
    found = list(ElementTree.parse(tmp_path / "t.xml").getroot().iter())
    assert {element.tag for element in found} == needed.keys() - {"nvlink" if name == "frontier" else "xgmi"}
    assert all(needed[element.tag] <= element.attrib.keys() for element in found)
    assert all(len(value) <= 255 for element in found for value in element.attrib.values())


# ── Slurm ──


def test_the_keys_that_are_printed_are_those_of_a_scenario(tmp_path: Path) -> None:
    """Two groups of up to four nodes, as the toy machine has them."""
    conf = written(tmp_path, TOPOLOGY.replace("00-05],tux9", "00-03]"), "topology.conf")
    printed = invoke("topology", conf).out.partition("[nodes]")[2].replace("# list", "list")
    text = TOY.read_text(encoding="utf-8").partition("[plans.ddp]")[0]
    scenario = written(tmp_path, f"{text}\n[nodes]{printed}\n", "s.toml")
    job = load_scenario(scenario).machine.job_nodes
    assert job.names == ("tux00", "tux01", "tux02", "tux03") and job.group_of == (0, 0, 0, 0, 1, 1, 1, 1)


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
