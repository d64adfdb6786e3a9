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


def test_a_simulation_agrees_with_itself(sim: Path) -> None:
    """Every ratio is 1; the folded trace stands for all ranks on both sides."""
    document = json.loads(invoke("crosscheck", sim, sim, *SMALL, "--json").out)
    verdict = document["verdict"]
    assert (document["outcome"], verdict["apart"], verdict["ratio"]) == ("agree", 0.0, 1.0)
    assert {row["ratio"] for plan in document["plans"].values() for row in plan["deltas"]} == {1.0}
    assert [plan["num_ranks"] for plan in document["plans"].values()] == [8, 8]


def test_speeds_are_relative_to_the_plan_whose_real_steps_are_slowest(sim: Path, tmp_path: Path) -> None:
    """ZeRO-3 takes 9 times as long as simulated, the other 3 times: really 3 times as fast as simulated, relatively."""
    plans = json.loads(invoke("crosscheck", sim, real(sim, tmp_path / "r", slowed(9.0, 3.0)), "--json").out)["plans"]
    sim_s, real_s = ({plan: each["step"][f"{side}_s"] for plan, each in plans.items()} for side in ("sim", "real"))
    assert plans["zero3"]["speed"] == {"simulated": 1.0, "real": 1.0}
    assert plans["zero-topo"]["speed"] == {
        "simulated": sim_s["zero3"] / sim_s["zero-topo"],
        "real": real_s["zero3"] / real_s["zero-topo"],
    }
    assert plans["zero-topo"]["speed"]["real"] == pytest.approx(3 * plans["zero-topo"]["speed"]["simulated"], rel=0.1)


def slowed(zero3: float, others: float) -> Make:
    """So many times as long as simulated."""
    return lambda made: measured(made, zero3 if "zero3" in made.title else others)


def noisy(made: Trace) -> Trace:
    """Steps half of which lie within 0.4 of their median (allowed: 0.25)."""
    slow = measured(made, 3.0)
    return replace(slow, notes={**slow.notes, "step_median_s": "1.0", "step_iqr_s": "0.4"})


def still(made: Trace) -> Trace:
    """Without a step's spread nothing is known of noise, so that times are judged."""
    return measured(made, 3.0, notes={"step_iqr_s": ""})


@pytest.mark.parametrize(
    ("make", "options", "code", "outcome", "words"),
    [
        (measured, SMALL, 0, "agree", ("reality agree.", "rank alike")),
        # 1.3 times as long less up to a tenth: 0.17 to 0.3 apart, allowed 0.1 and 0.02 of noise
        (slowed(1.3, 1.3), (*SMALL, "--tolerance", "0.1"), 1, "differ", ("not agree", "the time of collectives")),
        # in another order: times of kilobytes say nothing of it, and no tolerance is of help with larger ones
        (slowed(90.0, 9.0), (), 0, "too small to judge", ("Too small to judge",)),
        (slowed(10.0, 1.0), (*SMALL, "--tolerance", "100"), 1, "differ", ("order of the plans", "not rank alike")),
        (noisy, SMALL, 0, "too noisy to judge", ("Too noisy to judge",)),
        (still, SMALL, 1, "differ", ("not agree",)),
    ],
    ids=["agree", "apart", "small", "ranks", "noisy", "still"],
)
def test_the_outcome_its_exit_code_and_its_words(
    make: Make, options: tuple[str, ...], code: int, outcome: str, words: tuple[str, ...], sim: Path, tmp_path: Path
) -> None:
    folders = sim, real(sim, tmp_path / "real", make)
    ran = invoke("crosscheck", *folders, *options)
    assert (ran.code, ran.err) == (code, "") and says(" ".join(ran.out.split()), *words), ran.out
    assert max(map(len, ran.out.splitlines())) <= 100 and "\u00a0" not in ran.out
    assert json.loads(invoke("crosscheck", *folders, *options, "--json").out)["outcome"] == outcome


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
