"""`crosscheck`: exit codes, refusals, and what it says, of simulated traces and of such made to look measured."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from simfrontier.trace import Span, Trace, read_perfetto, write_perfetto
from tests.facts import says
from tests.invoke import TOY, invoke, refusal
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


def held(made: Trace) -> Trace:
    """A measured trace that holds four of its eight ranks."""
    real = measured(made, notes={"held_ranks": "0-3"})
    return replace(real, ranks=real.ranks[:4], members=real.members[:4], spans=real.spans[:4])


def test_traces_that_hold_some_ranks_are_compared_on_these(sim: Path, tmp_path: Path) -> None:
    folder = real(sim, tmp_path / "real", held)
    ran = invoke("crosscheck", sim, folder, *SMALL, "--out", tmp_path / "page")
    said = (
        "The real traces hold the operations of 4 of 8 ranks, and only these are compared; step times are of all ranks."
    )
    assert ran.code == 0 and said in " ".join(ran.out.split())
    assert said in (tmp_path / "page" / "index.html").read_text(encoding="utf-8").replace("\u00a0", " ")
    document = json.loads(invoke("crosscheck", sim, folder, *SMALL, "--json").out)
    zero3 = document["plans"]["zero3"]
    assert (zero3["num_ranks"], zero3["num_ranks_left_out"]) == (4, 4)


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
