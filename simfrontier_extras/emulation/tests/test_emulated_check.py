"""What an emulated run adds to a cross-check: bytes per link and sweeps, on the console, on the page and in JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from simfrontier.core.trace import LinkBytes, read_perfetto, save_links, write_perfetto
from simfrontier_extras.emulation.limits import EMULATED, EmulatedRun, SweepPoint, save_run
from tests.core.trace.fabrics import table
from tests.facts import says
from tests.invoke import invoke, refusal
from tests.test_crosscheck import PLANS, SMALL, real, sim as sim

Off = Callable[[LinkBytes], float]


@pytest.fixture
def folders(sim: Path, tmp_path: Path) -> tuple[Path, Path]:
    """A copy of the simulated folder, which may be written, and a real one."""
    mine = tmp_path / "sim"
    mine.mkdir()
    for plan in PLANS:
        write_perfetto(read_perfetto(sim / f"trace-{plan}.json"), mine / f"trace-{plan}.json")
    return mine, real(mine, tmp_path / "real")


def count(sim: Path, real: Path, plan: str, off: Off, digest: str = "") -> None:
    """Tables of links of both sides: the counted bytes are the simulated ones times `off`."""
    made = table(digest=read_perfetto(sim / f"trace-{plan}.json").digest)
    save_links(made, sim / f"links-{plan}.json")
    counted = tuple(replace(link, num_bytes=link.num_bytes * off(link)) for link in made.links)
    save_links(replace(made, links=counted, digest=digest or made.digest), real / f"links-{plan}.json")


def test_links_that_carry_what_was_simulated_agree(folders: tuple[Path, Path]) -> None:
    """72 of the 80 directions are judged: the last NIC of both nodes, four directions each, is idle."""
    for plan in PLANS:
        count(*folders, plan, lambda link: 1.02 if link.name == "node 1 xgmi 0>6" else 1.01)
    ran = invoke("crosscheck", *folders, *SMALL)
    words = " ".join(ran.out.split())
    assert (ran.code, ran.err) == (0, "") and "Simulation and reality agree." in words
    assert says(words, "All 144", "1 MB", "2 plans", "within 3.0 %", "node 1 xgmi 0>6 in zero-topo", "+2.0 %")
    document = json.loads(invoke("crosscheck", *folders, *SMALL, "--json").out)
    assert document["outcome"] == "agree" and document["links"]["said"].replace("\u00a0", " ") in words
    zero3 = document["links"]["plans"]["zero3"]
    assert (zero3["num_judged"], zero3["num_missed"], len(zero3["links"])) == (72, 0, 80)
    assert zero3["worst"]["name"] == "node 1 xgmi 0>6" and zero3["worst"]["ratio"] == pytest.approx(1.02)
    idle = next(link for link in zero3["links"] if link["name"] == "node 0 nic3>net")
    assert idle["ratio"] is None and not idle["judged"]


def test_a_link_that_is_off_ends_with_1(folders: tuple[Path, Path], tmp_path: Path) -> None:
    """The verdict on operations and times stands as it is; in one plan of two, one link carries 4 % too little."""
    count(*folders, "zero3", lambda link: 0.96 if link.name == "node 0 nic1>net" else 1.0)
    ran = invoke("crosscheck", *folders, *SMALL, "--out", tmp_path / "page")
    words = " ".join(ran.out.split())
    assert (ran.code, ran.err) == (1, "") and says(words, "not agree", "bytes of links")
    assert says(words, "Of 72", "1 MB", "1 carried", "3.0 % off", "node 0 nic1>net in zero3", "−4.0 %")
    document = json.loads(invoke("crosscheck", *folders, *SMALL, "--json").out)
    assert document["outcome"] == "differ" and document["verdict"]["exact"] and document["verdict"]["near"]
    page = (tmp_path / "page" / "index.html").read_text(encoding="utf-8")
    assert '<section id="links">' in page and "node 0 nic1&gt;net" in page


def test_links_of_another_schedule_are_refused(folders: tuple[Path, Path]) -> None:
    sim, really = folders
    count(sim, really, "zero3", lambda link: 1.0, digest="f" * 64)
    message = refusal("crosscheck", sim, really, *SMALL)
    digest = read_perfetto(sim / "trace-zero3.json").digest
    assert message == (
        f"{really}/links-zero3.json: the links are of the schedule {'f' * 16}, the trace beside them of {digest[:16]}; "
        "allowed: both of one schedule"
    )
    (really / "links-zero3.json").write_text("{}", encoding="utf-8")
    assert refusal("crosscheck", sim, really).startswith(f"{really}/links-zero3.json: digest: missing")


def test_a_sweep_beside_the_real_traces_is_said_and_does_not_decide(folders: tuple[Path, Path], tmp_path: Path) -> None:
    sim, really = folders
    sweep = [
        SweepPoint(collectives=way, kind="all_gather", group="world (16)", message_bytes=2e6, sim_s=0.1, real_s=r)
        for way, r in (("lowered", 0.15), ("native", 0.11))
    ]
    save_run(EmulatedRun(sweep=tuple(sweep)), really / EMULATED)
    ran = invoke("crosscheck", sim, really, *SMALL, "--out", tmp_path / "page")
    words = " ".join(ran.out.split())
    assert ran.code == 0
    lowered, native = ("lowered", "0 of 1", "10.0 %", "world (16)", "50.0 %"), ("native", "1 of 1", "20.0 %")
    assert says(words, "1 MiB", *lowered, *native)
    document = json.loads(invoke("crosscheck", sim, really, *SMALL, "--json").out)
    assert [(each["collectives"], each["near"]) for each in document["sweep"]["medians"]] == [
        ("lowered", False),
        ("native", True),
    ]
    assert '<section id="sweep">' in (tmp_path / "page" / "index.html").read_text(encoding="utf-8")
