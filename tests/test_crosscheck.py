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
    assert (
        document["outcome"] == "agree" and document["verdict"]["apart"] == 0.0 and document["verdict"]["ratio"] == 1.0
    )
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
    assert (ran.code, ran.err, document["outcome"]) == (0, "", "agree")
    assert set(document["plans"]) == set(PLANS)
    zero3 = document["plans"]["zero3"]
    assert zero3["step"]["ratio"] == pytest.approx(1.1, rel=0.02)
    assert zero3["notes"]["real"]["backend"] == "gloo" and zero3["notes"]["simulated"]["mode"] == "simulated"
    row = next(row for row in zero3["deltas"] if row["name"] == "weight_gather")
    assert row["axes"] == "node+package+gcd" and row["group_size"] == 8 and 0.98 < row["ratio"] < 1.11


def test_times_that_lie_apart_end_with_1(sim: Path, tmp_path: Path) -> None:
    """1.3 times as long less up to a tenth: 0.17 to 0.3 apart, allowed 0.1 and 0.02 of noise."""
    folders = sim, real(sim, tmp_path / "real", lambda made: measured(made, 1.3))
    ran = invoke("crosscheck", *folders, *SMALL, "--tolerance", "0.1")
    assert (ran.code, ran.err) == (1, "") and "do not agree: the time of collectives." in " ".join(ran.out.split())


@pytest.mark.parametrize("options", [(), ("--min-bytes", "1TB")])  # by default 1 MiB
def test_messages_that_are_too_small_are_not_judged_and_end_with_0(
    sim: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    """Nine times slower, and the plans in another order: times of kilobytes say nothing of either."""

    def slower(made: Trace) -> Trace:
        return measured(made, 90.0 if "zero3" in made.title else 9.0)

    folders = sim, real(sim, tmp_path / "real", slower)
    ran = invoke("crosscheck", *folders, *options, "--out", tmp_path / "page")
    words = " ".join(ran.out.split())
    assert (ran.code, ran.err) == (0, "")
    assert f"Too small to judge: no message is of {'1 TB' if options else '1.05 MB'} or more, and times" in words
    assert "agree" not in words
    assert "Too small to judge" in (tmp_path / "page" / "index.html").read_text(encoding="utf-8")
    document = json.loads(invoke("crosscheck", *folders, *options, "--json").out)
    assert (document["outcome"], document["verdict"]["judged"]) == ("too small to judge", 0)


def test_steps_that_vary_too_much_are_not_judged_and_end_with_0(sim: Path, tmp_path: Path) -> None:
    """Three times slower than simulated, by steps half of which lie within 0.4 of their median (allowed: 0.25)."""

    def noisy(made: Trace) -> Trace:
        slow = measured(made, 3.0)
        return replace(slow, notes={**slow.notes, "step_median_s": "1.0", "step_iqr_s": "0.4"})

    folders = sim, real(sim, tmp_path / "real", noisy)
    ran = invoke("crosscheck", *folders, *SMALL, "--out", tmp_path / "page")
    words = " ".join(ran.out.split())
    assert (ran.code, ran.err) == (0, "")
    text = (
        "Too noisy to judge: the real steps vary by more than 25.0 % (zero-topo by 40.0 %, zero3 by 40.0 %); run on an "
        "idle machine."
    )
    assert text in words and "agree" not in words
    page = (tmp_path / "page" / "index.html").read_text(encoding="utf-8").replace("\u00a0", " ")
    assert text in page
    document = json.loads(invoke("crosscheck", *folders, *SMALL, "--json").out)
    assert (document["outcome"], document["verdict"]["noise"]) == ("too noisy to judge", 0.4)
    assert document["plans"]["zero3"]["step"]["real_spread"] == 0.4
    # Without a step's spread nothing is known of noise, so that times are judged.
    still = real(sim, tmp_path / "still", lambda made: measured(made, 3.0, notes={"step_iqr_s": ""}))
    assert invoke("crosscheck", sim, still, *SMALL).code == 1


def test_what_differs_ends_with_1_however_small_and_noisy(sim: Path, tmp_path: Path) -> None:
    """The noise is said first."""

    def noisy(made: Trace) -> Trace:
        less = dropped(made)
        return replace(less, notes={**less.notes, "step_median_s": "1.0", "step_iqr_s": "0.4"})

    folders = sim, real(sim, tmp_path / "real", noisy)
    for options in (SMALL, ()):
        ran = invoke("crosscheck", *folders, *options)
        words = " ".join(ran.out.split())
        assert ran.code == 1
        assert (
            "Simulation and reality did not run the same operations. – No time can be judged: the real steps vary by "
            "more than 25.0 % (zero-topo by 40.0 %, zero3 by 40.0 %); run on an idle machine. – Operations that differ"
        ) in words


def test_what_rests_on_no_calibration_is_said(sim: Path, tmp_path: Path) -> None:
    text = "The simulated times are those of toy-cluster, without a calibration by the machine that the real ones were"
    made = real(sim, tmp_path / "real")
    assert text in " ".join(invoke("crosscheck", sim, made, *SMALL).out.split())

    def calibrated(trace: Trace) -> Trace:
        return replace(trace, notes={**trace.notes, "calibration": "box.toml", "calibration_residual": "0.3"})

    known = real(sim, tmp_path / "known", calibrated)
    words = " ".join(invoke("crosscheck", known, made, *SMALL).out.split())
    assert "without a calibration" not in words
    assert "Too noisy to judge: two measurements of the calibration differ by 30.0 %; run on an idle machine." in words
    near = real(sim, tmp_path / "near", lambda made: measured(made, 1.4, notes={"calibration": "box.toml"}))
    words = " ".join(invoke("crosscheck", known, near, *SMALL, "--tolerance", "0.31").out.split())
    assert "allowed by less than the noise of 30.0 %; run on an idle machine." in words


def test_other_programs_are_said_to_be_the_noise(sim: Path, tmp_path: Path) -> None:
    """They took 0.4 of the processors: 0.4 of 0.6, 66.7 %."""
    busy = real(sim, tmp_path / "busy", lambda made: measured(made, notes={"others_share": "0.4"}))
    ran = invoke("crosscheck", sim, busy, "--min-bytes", "4kB")
    words = " ".join(ran.out.split())
    assert ran.code == 0, ran.err
    text = "Too noisy to judge: other programs took so much of the processors that real steps can be 66.7 % longer"
    assert f"{text}; run on an idle machine." in words


def test_bounds_are_said_on_the_console_and_on_the_page(sim: Path, tmp_path: Path) -> None:
    options = ("--min-bytes", "4kB", "--tolerance", "0.2", "--out", tmp_path / "page")
    ran = invoke("crosscheck", sim, real(sim, tmp_path / "real"), *options)
    words = " ".join(ran.out.split())
    text = (
        "Compared: all operations, which must be equal; the times of collectives of 4 kB or more, of which half must "
        "be within 20.0 % of the simulated ones; and, of several plans, which is faster. Times are judged where such "
        "collectives carry at least half of all bytes sent, and where noise is at most 20.0 %: how much the real steps "
        "of a plan vary (interquartile range, of the median), by how much other programs can have made them longer "
        "(from their share of the processors), and how far two measurements of the calibration lie apart. "
        "Times beyond 20.0 % by less than the noise are not judged either."
    )
    assert text in words
    assert text in (tmp_path / "page" / "index.html").read_text(encoding="utf-8").replace("\u00a0", " ")


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
    assert document["outcome"] == "differ" and document["verdict"]["num_different"] > 0
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
    assert message.startswith(f"{schedule}: otherData: missing")


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--tolerance", "-1", "--tolerance: got '-1'; allowed: greater than or equal to 0.000001"),
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
