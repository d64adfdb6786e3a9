"""`crosscheck`: exit codes, refusals, and what it says, of simulated traces and of such made to look measured."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from simfrontier.trace import Span, Trace, read_perfetto, write_perfetto
from simfrontier.trace.links import LinkBytes, save_links
from simfrontier.trace.sweep import SweepPoint, save_sweep
from tests.facts import says
from tests.invoke import TOY, invoke, refusal
from tests.report.fabrics import table
from tests.trace.fakes import measured

SMALL = ("--min-bytes", "4kB")  # the toy's messages are small
PLANS = ("zero3", "zero-topo")


@pytest.fixture(scope="module")
def sim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("sim")
    assert invoke("export", TOY, "--plans", ",".join(PLANS), "--devices", "8", "--out", out).code == 0
    return out


Make = Callable[[Trace], Trace]


def real(sim: Path, folder: Path, make: Make = measured, plans: tuple[str, ...] = PLANS) -> Path:
    """A folder of traces made out of the simulated ones."""
    folder.mkdir()
    for plan in plans:
        write_perfetto(make(read_perfetto(sim / f"trace-{plan}.json")), folder / f"trace-{plan}.json")
    return folder


def test_traces_that_agree_end_with_0(sim: Path, tmp_path: Path) -> None:
    ran = invoke("crosscheck", sim, real(sim, tmp_path / "real"), *SMALL)
    assert (ran.code, ran.err) == (0, "")
    assert "Simulation and reality agree." in ran.out and "The plans rank alike" in ran.out
    assert max(map(len, ran.out.splitlines())) <= 100 and "\u00a0" not in ran.out


def test_a_simulation_agrees_with_itself(sim: Path) -> None:
    """Every ratio is 1; the folded trace stands for all ranks on both sides."""
    document = json.loads(invoke("crosscheck", sim, sim, *SMALL, "--json").out)
    assert document["agree"] and document["verdict"]["apart"] == 0.0 and document["verdict"]["ratio"] == 1.0
    assert {row["ratio"] for plan in document["plans"].values() for row in plan["deltas"]} == {1.0}
    assert [plan["num_ranks"] for plan in document["plans"].values()] == [8, 8]


def test_json_holds_what_the_console_says(sim: Path, tmp_path: Path) -> None:
    ran = invoke("crosscheck", sim, real(sim, tmp_path / "real"), *SMALL, "--json")
    document = json.loads(ran.out)
    assert (ran.code, ran.err) == (0, "") and document["agree"] is True
    assert set(document["plans"]) == set(PLANS)
    zero3 = document["plans"]["zero3"]
    assert zero3["step"]["ratio"] == pytest.approx(1.1, rel=0.02)
    assert zero3["notes"]["real"]["backend"] == "gloo" and zero3["notes"]["simulated"]["mode"] == "simulated"
    row = next(row for row in zero3["deltas"] if row["name"] == "weight_gather")
    assert row["axes"] == "node+package+gcd" and row["group_size"] == 8 and 0.98 < row["ratio"] < 1.11


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--tolerance", "0.01"), "do not agree: the time of collectives."),
        (("--min-bytes", "1TB"), "do not agree: no collective being large enough to judge by."),
        ((), "do not agree: no collective being large enough to judge by."),  # 1 MiB
    ],
)
def test_times_that_lie_apart_end_with_1(sim: Path, tmp_path: Path, options: tuple[str, ...], message: str) -> None:
    chosen = options if "--min-bytes" in options else (*options, *(SMALL if options else ()))
    ran = invoke("crosscheck", sim, real(sim, tmp_path / "real"), *chosen)
    assert (ran.code, ran.err) == (1, "") and message in " ".join(ran.out.split())


def test_plans_that_rank_otherwise_end_with_1(sim: Path, tmp_path: Path) -> None:
    """zero3 is simulated the faster; ten times slower it is the slower one. No tolerance is of help."""

    def slower(made: Trace) -> Trace:
        return measured(made, 10.0 if "zero3" in made.title else 1.0)

    ran = invoke("crosscheck", sim, real(sim, tmp_path / "real", slower), *SMALL, "--tolerance", "100")
    words = " ".join(ran.out.split())
    assert ran.code == 1 and says(words, "not agree", "order of the plans")
    assert says(words, "not rank alike", "simulated zero3, zero-topo", "real zero-topo, zero3")
    document = json.loads(invoke("crosscheck", sim, tmp_path / "real", *SMALL, "--json").out)
    assert (document["simulated_order"], document["real_order"]) == (["zero3", "zero-topo"], ["zero-topo", "zero3"])


def dropped(made: Trace) -> Trace:
    done = measured(made)
    return replace(done, spans=(done.spans[0][:-1], *done.spans[1:]))


def halved(made: Trace) -> Trace:
    def change(span: Span) -> Span:
        return replace(span, message_bytes=span.message_bytes / 2)

    return measured(made, change=change)


@pytest.mark.parametrize(("make", "message"), [(dropped, "the op: simulated"), (halved, "message_bytes: simulated ")])
def test_what_differs_is_named_and_ends_with_1(sim: Path, tmp_path: Path, make: Make, message: str) -> None:
    ran = invoke("crosscheck", sim, real(sim, tmp_path / "real", make), *SMALL)
    assert (ran.code, ran.err) == (1, "")
    assert message in ran.out and "did not run the same operations" in ran.out
    document = json.loads(invoke("crosscheck", sim, tmp_path / "real", *SMALL, "--json").out)
    assert document["agree"] is False and document["verdict"]["num_different"] > 0
    assert all(plan["differences"] for plan in document["plans"].values())


def test_other_schedules_are_refused(sim: Path) -> None:
    a, b = sim / "trace-zero3.json", sim / "trace-zero-topo.json"
    message = refusal("crosscheck", a, b)
    digests = [read_perfetto(path).digest[:16] for path in (a, b)]
    assert message == (
        f"{a}, {b}: zero3: the simulated schedule has the digest {digests[0]}, the real one {digests[1]}; allowed: two "
        "traces of one schedule"
    )


def test_two_files_are_one_plan(sim: Path, tmp_path: Path) -> None:
    made = real(sim, tmp_path / "real", plans=("zero3",))
    ran = invoke("crosscheck", sim / "trace-zero3.json", made / "trace-zero3.json", *SMALL)
    assert ran.code == 0 and "rank alike" not in ran.out


def test_plans_that_only_one_folder_has_are_said(sim: Path, tmp_path: Path) -> None:
    made = real(sim, tmp_path / "real", plans=("zero3",))
    (made / "trace-mine.json").write_text("not even looked at", encoding="utf-8")
    ran = invoke("crosscheck", sim, made, *SMALL)
    assert ran.code == 0
    assert "Only simulated, so not compared: zero-topo." in ran.out and "Only real, so not compared: mine." in ran.out


def test_folders_with_nothing_in_common(sim: Path, tmp_path: Path) -> None:
    message = refusal("crosscheck", sim, tmp_path)
    assert message == (
        f"no trace-PLAN.json is in both folders ({sim}: zero-topo, zero3; {tmp_path}: none); allowed: files of the "
        "same names"
    )


def test_a_folder_and_a_file_do_not_go_together(sim: Path) -> None:
    file = sim / "trace-zero3.json"
    for paths in ((sim, file), (file, sim)):
        message = refusal("crosscheck", *paths)
        assert message == f"{sim} is a folder and {file} a file; allowed: two folders, or two traces"


def test_what_is_not_there_or_no_trace(sim: Path, tmp_path: Path) -> None:
    assert refusal("crosscheck", tmp_path / "no", sim).startswith(f"{tmp_path}/no: no such file or folder; allowed: ")
    schedule = sim / "schedule-zero3.json"
    message = refusal("crosscheck", sim / "trace-zero3.json", schedule)
    assert message == f"{schedule}: otherData: missing"


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--tolerance", "0", "--tolerance: got 0.0; allowed: a share greater than 0, e.g. 0.25"),
        ("--tolerance", "nan", "--tolerance: got nan; allowed: a share greater than 0, e.g. 0.25"),
        ("--min-bytes", "1 MiBB", "--min-bytes: got '1 MiBB'; allowed: a number of bytes, e.g. 4096, 64kB, 1MiB"),
        ("--min-bytes", "-1", "--min-bytes: got '-1'; allowed: a number of bytes, e.g. 4096, 64kB, 1MiB"),
        ("--min-bytes", "", "--min-bytes: got ''; allowed: a number of bytes, e.g. 4096, 64kB, 1MiB"),
    ],
)
def test_options_that_are_no_numbers(sim: Path, option: str, value: str, message: str) -> None:
    assert refusal("crosscheck", sim, sim, option, value) == message


def test_the_page_goes_where_it_is_asked_for(sim: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "page"
    ran = invoke("crosscheck", sim, real(sim, tmp_path / "real"), *SMALL, "--out", out)
    assert ran.code == 0 and f"Written: {out}/index.html" in ran.out
    assert [path.name for path in out.iterdir()] == ["index.html"]


def test_a_folder_that_cannot_be_written_is_refused_first(sim: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    message = refusal("crosscheck", sim, sim, "--out", tmp_path / "file")
    assert message.startswith(f"--out {tmp_path}/file: cannot be written: Not a directory")


def test_a_refused_crosscheck_leaves_the_folder_as_it_was(sim: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    refusal("crosscheck", sim / "trace-zero3.json", sim / "trace-zero-topo.json", "--out", out)
    assert not out.exists()


# ── bytes per link and sweeps, where a fabric was emulated ──

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
    assert document["agree"] is True and document["links"]["said"].replace("\u00a0", " ") in words
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
    assert document["agree"] is False and document["verdict"]["exact"] and document["verdict"]["near"]
    page = (tmp_path / "page" / "index.html").read_text(encoding="utf-8")
    assert '<section id="links">' in page and "node 0 nic1&gt;net (nic), node 0 nic1 → net: " in page


def test_links_that_were_only_simulated_change_nothing_and_only_counted_ones_are_said(
    folders: tuple[Path, Path],
) -> None:
    sim, really = folders
    before = invoke("crosscheck", sim, really, *SMALL, "--json").out
    assert json.loads(before)["links"] is None and json.loads(before)["sweep"] is None
    count(sim, really, "zero3", lambda link: 2.0)
    (really / "links-zero3.json").rename(sim / "aside")
    assert invoke("crosscheck", sim, really, *SMALL, "--json").out == before
    (sim / "links-zero3.json").unlink()
    (sim / "aside").rename(really / "links-zero3.json")
    ran = invoke("crosscheck", sim, really, *SMALL)
    assert ran.code == 0 and "Bytes of links counted but not simulated, so not compared: zero3." in ran.out


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
    save_sweep(sweep, really / "sweep.json")
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
