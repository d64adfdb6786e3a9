"""Topology XMLs that cannot be used: one line each that says what, where, and what is allowed."""

from __future__ import annotations

from pathlib import Path

import pytest

from simfrontier.base.errors import InputError
from simfrontier.core.machine.topology import read_node
from tests.core.topology.samples import bare, link

PAIR = bare([link(1), link(0)])


def fault_of(folder: Path, text: str) -> str:
    path = folder / "t.xml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_node(path)
    said = str(caught.value)
    assert said.startswith(f"{path}: ") and "\n" not in said
    return said.removeprefix(f"{path}: ")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('<!DOCTYPE s [<!ENTITY e "x">]>\n<system version="1"/>', "a document type is not read"),
        ('<system version="3"/>', '<system version="3">: version: got "3", allowed: 1 (NCCL) or 2 (RCCL)'),
        (PAIR.replace('sm="80"', 'sm="70"', 1), "got a device of sm80 beside one of sm70; allowed: all alike"),
        (bare([link(1, 2), link(0, 1)]), "2 links from 0000:00:00.0 to 0000:01:00.0, and 1 back"),
        (bare([link(1), link(0)], version=2), "got <nvlink>, allowed: <xgmi>, as version is 2"),
    ],
)
def test_xml_that_is_no_topology(tmp_path: Path, text: str, said: str) -> None:
    assert said in fault_of(tmp_path, text)


def test_elements_that_nobody_knows_are_passed_over(tmp_path: Path) -> None:
    text = PAIR.replace("<gpu", "<bios><x/></bios><gpu").replace("<cpu", "<fan/><cpu")
    (tmp_path / "t.xml").write_text(text, encoding="utf-8")
    assert len(read_node(tmp_path / "t.xml").devices) == 2
