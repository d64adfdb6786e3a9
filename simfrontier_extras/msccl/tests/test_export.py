"""`simfrontier export --format msccl` and `simfrontier msccl`: files of a plan's collectives, and what they do."""

from __future__ import annotations

import json
from pathlib import Path

from simfrontier_extras.msccl.program import read_algo
from tests.invoke import ROOT, TOY, invoke


def exported(folder: Path, plans: str, *options: str) -> str:
    made = invoke("export", TOY, "--plans", plans, "--format", "msccl", "--out", folder, *options)
    assert made.code == 0, made.err
    return made.out


def test_every_collective_of_a_plan_is_a_file(tmp_path: Path) -> None:
    told = exported(tmp_path, "zero3", "--devices", "8")
    files = sorted(tmp_path.glob("*.xml"))
    assert told.startswith(f"zero3 on 8: {len(files)} algorithm files, evaluated: right\n")
    assert [(read_algo(each).coll, read_algo(each).ngpus) for each in files] == [
        ("allgather", 8),
        ("reducescatter", 8),
        ("allreduce", 8),
    ]
    for each in files:
        assert read_algo(each).name == each.stem
        assert invoke("msccl", each).code == 0


def test_what_is_coded_at_every_hop_is_refused_where_nothing_is_left(tmp_path: Path) -> None:
    options = ("--plans", "naive-mpc", "--devices", "16", "--set", "plans.naive-mpc.compress_per_hop=true")
    made = invoke("export", ROOT / "scenarios/compressed-3d.toml", "--format", "msccl", "--out", tmp_path, *options)
    assert "each hop codes what it sends; MSCCL's steps send what is in memory" in made.out + made.err, made


def test_the_verb_says_what_a_file_does(tmp_path: Path) -> None:
    exported(tmp_path, "ddp", "--devices", "4")
    (file,) = tmp_path.glob("*.xml")
    told = invoke("msccl", file)
    assert told.code == 0 and told.out.endswith("Right, in place and out of place: it computes its collective.\n")
    document = json.loads(invoke("msccl", file, "--json").out)
    assert document["is_right"] is True and document["findings"] == []
    assert len(document["sent_share"]) == 4 and document["collective"] == "allreduce"


def test_a_wrong_file_ends_with_1_and_no_file_with_2(tmp_path: Path) -> None:
    exported(tmp_path, "zero3", "--devices", "4")
    file = next(tmp_path.glob("*allgather*"))
    wrong = tmp_path / "wrong.xml"
    wrong.write_text(file.read_text().replace('type="rcs"', 'type="rrcs"', 1))
    told = invoke("msccl", wrong)
    assert told.code == 1 and told.out.endswith("Wrong.\n")
    document = json.loads(invoke("msccl", wrong, "--json").out)
    assert document["is_right"] is False and document["findings"]
    assert invoke("msccl", TOY).code == 2
