"""`crosscheck`: exit codes, refusals, and what it says, of simulated traces and of such made to look measured."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from simfrontier.core.trace import Span, Trace, read_perfetto, write_perfetto
from tests.core.trace.fakes import measured
from tests.facts import says
from tests.invoke import TOY, invoke, refusal

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


def test_times_that_lie_apart_end_with_1(sim: Path, tmp_path: Path) -> None:
    """1.3 times as long less up to a tenth: 0.17 to 0.3 apart, allowed 0.1 and 0.02 of noise."""
    folders = sim, real(sim, tmp_path / "real", lambda made: measured(made, 1.3))
    ran = invoke("crosscheck", *folders, *SMALL, "--tolerance", "0.1")
    assert (ran.code, ran.err) == (1, "") and "do not agree: the time of collectives." in " ".join(ran.out.split())


def test_messages_that_are_too_small_are_not_judged_and_end_with_0(sim: Path, tmp_path: Path) -> None:
    """Nine times slower, and the plans in another order: times of kilobytes say nothing of either."""

    def slower(made: Trace) -> Trace:
        return measured(made, 90.0 if "zero3" in made.title else 9.0)

    folders = sim, real(sim, tmp_path / "real", slower)
    ran = invoke("crosscheck", *folders)
    assert (ran.code, ran.err) == (0, "") and "Too small to judge" in ran.out and "agree" not in ran.out
    document = json.loads(invoke("crosscheck", *folders, "--json").out)
    assert (document["outcome"], document["verdict"]["judged"]) == ("too small to judge", 0)


def test_steps_that_vary_too_much_are_not_judged_and_end_with_0(sim: Path, tmp_path: Path) -> None:
    """Three times slower than simulated, by steps half of which lie within 0.4 of their median (allowed: 0.25)."""

    def noisy(made: Trace) -> Trace:
        slow = measured(made, 3.0)
        return replace(slow, notes={**slow.notes, "step_median_s": "1.0", "step_iqr_s": "0.4"})

    folders = sim, real(sim, tmp_path / "real", noisy)
    ran = invoke("crosscheck", *folders, *SMALL)
    assert (ran.code, ran.err) == (0, "") and "Too noisy to judge" in ran.out and "agree" not in ran.out
    document = json.loads(invoke("crosscheck", *folders, *SMALL, "--json").out)
    assert (document["outcome"], document["verdict"]["noise"]) == ("too noisy to judge", 0.4)
    assert document["plans"]["zero3"]["step"]["real_spread"] == 0.4
    # Without a step's spread nothing is known of noise, so that times are judged.
    still = real(sim, tmp_path / "still", lambda made: measured(made, 3.0, notes={"step_iqr_s": ""}))
    assert invoke("crosscheck", sim, still, *SMALL).code == 1


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
    assert all(read_perfetto(path).digest[:16] in message for path in (a, b))
