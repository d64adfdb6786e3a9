"""XML that nobody has checked: every fault is one line with the number of the line, and costs no memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from simfrontier.errors import InputError
from simfrontier.topology import read_node
from tests.topology.samples import bare, frontier, link

PAIR = bare([link(1), link(0)])


def fault_of(tmp_path: Path, text: str | bytes) -> str:
    """What is said of a file, less its name."""
    path = tmp_path / "t.xml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(InputError) as caught:
        read_node(path)
    said = str(caught.value)
    assert said.startswith(f"{path}: ") and "\n" not in said
    return said.removeprefix(f"{path}: ")


def test_the_smallest_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "t.xml").write_text(PAIR, encoding="utf-8")
    assert read_node(tmp_path / "t.xml").links == {(0, 1): 1}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "line 1: not XML: no element found"),
        ("<system", "line 1: not XML: unclosed token"),
        ("\n<system version='1'></cpu>", "line 2: not XML: mismatched tag"),
        ("<system version='1' version='1'/>", "line 1: not XML: duplicate attribute"),
        ("<system version='1'/><system/>", "line 1: not XML: junk after document element"),
        ("<system version='&e;'/>", "line 1: not XML: undefined entity"),
        (
            '\n<!DOCTYPE s [<!ENTITY e "x">]>\n<system version="1"/>',
            "line 2: a document type is not read; allowed: elements alone",
        ),
        ("<?php x?><system/>", 'line 1: got the instruction "php", allowed: elements alone'),
        (
            "<system version='1'>\n hello </system>",
            'line 2: got the text "hello", allowed: elements with attributes alone',
        ),
        ("<!-- a\n<system/>", "line 1: this comment has no end -->"),
        (b"<system \xff/>", "not a topology XML: byte 8 is not UTF-8 text"),
    ],
)
def test_what_is_not_such_xml(tmp_path: Path, text: str | bytes, said: str) -> None:
    assert fault_of(tmp_path, text) == said


def test_depth_is_limited(tmp_path: Path) -> None:
    assert fault_of(tmp_path, "<a>" * 41) == "line 1: elements nested too deeply; allowed: 40 levels"


def test_comments_as_rccl_writes_them_are_passed_over_and_lines_still_count(tmp_path: Path) -> None:
    text = frontier().replace('count="4"', 'count="four"', 1)
    line = text[: text.index('"four"')].count("\n") + 1
    assert fault_of(tmp_path, text) == f'line {line}: count: got "four", allowed: a whole number from 1 to 1,000'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '<graphs version="1"/>',
            "line 1: got <graphs>, allowed: <system>, as NCCL_TOPO_DUMP_FILE writes it",
        ),
        ("<system/>", "line 1: <system> has no version; it has no attributes"),
        ('<system version="3"/>', 'line 1: version: got "3", allowed: 1 (NCCL) or 2 (RCCL)'),
        (
            '<system version="1"/>',
            "no gpu elements, and no pci elements of a GPU's class (0x03....); "
            "a file that NCCL_TOPO_DUMP_FILE wrote has a gpu element for each device",
        ),
        (PAIR.replace('numaid="0"', 'numa="0"'), 'line 1: <cpu> has no numaid; did you mean "numa"?'),
        (
            PAIR.replace("0000:01:00.0", "01:00.0", 1),
            'line 2: target: got "01:00.0", allowed: a PCI bus id, e.g. 0000:c1:00.0',
        ),
        (PAIR.replace('dev="1"', 'dev="0"'), 'line 3: dev: got "0" twice; allowed: every one once'),
        (PAIR.replace('sm="80"', 'sm="x"', 1), 'line 2: sm: got "x", allowed: a whole number from 0 to 10,000'),
        (PAIR.replace('sm="80"', 'sm="70"', 1), "line 3: got a device of sm80 beside one of sm70; allowed: all alike"),
        (
            bare([link(1, 2), link(0, 1)]),
            "line 2: 2 links from 0000:00:00.0 to 0000:01:00.0, and 1 back; allowed: as many both ways",
        ),
        (
            bare([link(1), ""]),
            "line 2: 1 links from 0000:00:00.0 to 0000:01:00.0, and 0 back; allowed: as many both ways",
        ),
        (
            PAIR.replace('0x030200"/>', '0x060400"/>', 1),
            'line 2: tclass: got "0x060400", allowed: 0x03.... (a device), 0x068000 (a switch) or 0x068001 (a CPU)',
        ),
        (bare([link(1), link(0)], version=2), "line 2: got <nvlink>, allowed: <xgmi>, as version is 2"),
        (
            '<system version="1"><cpu numaid="0" host_hash="0x1"/><cpu numaid="0" host_hash="0x2"/></system>',
            "CPUs of 2 hosts (host_hash); allowed: one node",
        ),
    ],
)
def test_xml_that_is_no_topology(tmp_path: Path, text: str, said: str) -> None:
    assert fault_of(tmp_path, text) == said


def test_so_many_devices_are_refused(tmp_path: Path) -> None:
    gpus = "".join(f'<pci busid="0000:{at:02x}:00.0"><gpu dev="{at}" sm="80"/></pci>' for at in range(129))
    said = fault_of(tmp_path, f'<system version="1"><cpu numaid="0">{gpus}</cpu></system>')
    assert said == "129 devices; allowed: up to 128"


def test_elements_that_nobody_knows_are_passed_over(tmp_path: Path) -> None:
    text = PAIR.replace("<gpu", "<bios><x/></bios><gpu").replace("<cpu", "<fan/><cpu")
    (tmp_path / "t.xml").write_text(text, encoding="utf-8")
    assert len(read_node(tmp_path / "t.xml").devices) == 2
