"""Files that are no MSCCL algorithm are refused in one line; none is trusted."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from simfrontier.base.errors import InputError
from simfrontier_extras.msccl.evaluate import verdict
from simfrontier_extras.msccl.program import parse, xml_of
from simfrontier_extras.msccl.tests.made import made
from tests.invoke import invoke

FILE = xml_of(made(("ring", "all_reduce", 2, 2, 1)))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("<algo", "<algp", "f: is no XML: mismatched tag"),
        ("<algo", "<?xml version='1.0'?>\n<algo", "f: got an XML declaration or a document type, which RCCL's parser"),
        ('ngpus="2"', 'ngpus="3"', "f: ngpus: got 3, and 2 gpu elements; allowed: one for each of 0 to ngpus - 1"),
        ('type="rrcs"', 'type="rrsc"', 'f: gpu[0].tb[0].step[1].type: got "rrsc", allowed: "s", "r", "rcs", "rrs"'),
        ('cnt="1"', 'cnt="-1"', 'f: gpu[0].tb[0].step[0].cnt: got "-1", allowed: at least 0'),
        ('cnt="1"', 'cnt="600000"', "f: 600,005 chunks in all steps; allowed: up to 250,000"),
        (' s="1"', ' s="4"', "f: s: got another number; allowed: steps counted from 0"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(old: str, new: str, said: str) -> None:
    assert old in FILE
    with pytest.raises(InputError) as refused:
        parse(FILE.replace(old, new, 1).encode(), "f")
    assert str(refused.value).startswith(said)
    assert "\n" not in str(refused.value)


def test_attributes_that_rccl_does_not_read_are_passed_over() -> None:
    assert parse(FILE.replace("<algo ", '<algo redop="sum" ', 1).encode(), "f") == parse(FILE.encode(), "f")


def test_a_file_as_msccl_tools_write_it_is_checked_though_rccl_does_not_take_it(tmp_path: Path) -> None:
    path = tmp_path / "tools.xml"
    path.write_text(re.sub(' (outofplace|minBytes|maxBytes)="[0-9]*"', "", FILE))
    wrong = path.read_text().replace('type="rrcs"', 'type="rcs"')
    result = invoke("msccl", path)
    assert result.code == 1
    assert "Right, in place: it computes its collective." in result.out
    assert "RCCL does not take this file:\n  it lacks outofplace, minBytes, maxBytes" in result.out
    path.write_text(wrong)
    found = json.loads(invoke("msccl", "--json", path).out)
    assert (found["is_right"], found["is_taken"]) == (False, False)


def test_a_file_without_sizes_is_right_up_to_a_size(tmp_path: Path) -> None:
    # both send 5 chunks before they receive any, over a connection that holds two messages of 2 MiB: 3 chunks in one
    step = 'type="{}" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="5" depid="-1" deps="-1" hasdep="0"'
    gpus = "".join(
        f'<gpu id="{gpu}" i_chunks="5" o_chunks="5" s_chunks="0"><tb id="0" send="{1 - gpu}" recv="{1 - gpu}" chan="0">'
        f'<step s="0" {step.format("s")}/><step s="1" {step.format("rrc")}/></tb></gpu>'
        for gpu in (0, 1)
    )
    head = 'name="x" proto="Simple" nchannels="1" nchunksperloop="5" ngpus="2" coll="allreduce" inplace="0"'
    found = verdict(parse(f"<algo {head}>{gpus}</algo>".encode(), "f"))
    assert found.is_right and found.up_to == 5 * (2 * 1024 * 1024 // 3)
    (tmp_path / "x.xml").write_text(f"<algo {head}>{gpus}</algo>")
    assert "Right, out of place, for calls of up to 3,495,250 bytes: it" in invoke("msccl", tmp_path / "x.xml").out
