"""The server of the live page: what it answers equals what a run prints, to this machine alone."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from html import escape
from pathlib import Path

import pytest

from simfrontier.scenario import load_scenario
from tests.invoke import ROOT, TOY, invoke, refusal
from tests.live.serving import Served, served
from tests.processes import are_gone, workers_of

SIZE = "8"
MAIN = ROOT / "scenarios" / "frontier-20b.toml"


@pytest.fixture(scope="module")
def live() -> Iterator[Served]:
    with served(TOY, "--devices", SIZE, "--plans", "zero3,zeropp") as started:
        yield started


def row_of(plan: str, *settings: str) -> dict[str, float]:
    options = [part for each in settings for part in ("--set", each)]
    ran = invoke("run", TOY, "--plans", plan, "--devices", SIZE, "--no-sensitivity", "--no-page", "--json", *options)
    [row] = json.loads(ran.out)
    return dict(row)


def nominal_rate(row: dict[str, float]) -> float:
    """Tokens per second and device."""
    return row["tokens_per_s_nominal"] / row["devices"]


@pytest.mark.parametrize(
    ("link", "settings"),
    [
        ({}, ()),
        ({"training.grad_accum": "2"}, ("training.grad_accum=2",)),
        ({"engine.overlap": "false"}, ("engine.overlap=false",)),
        ({"perturbation.slow": "0.5"}, ("perturbation.slow=[{device=0, factor=0.5}]",)),
    ],
)
def test_what_is_answered_is_what_a_run_gives(live: Served, link: dict[str, str], settings: tuple[str, ...]) -> None:
    """Nominal rates, memory and the nominal step are equal but for rounding."""
    answer = live.answer({**link, "plan": "zeropp"})
    assert sorted(each["plan"] for each in answer["plans"]) == ["zero3", "zeropp"]
    for each in answer["plans"]:
        row = row_of(each["plan"], *settings)
        assert each["nominal"] == pytest.approx(nominal_rate(row), rel=1e-12)
        assert each["peak_bytes"] == row["peak_memory_bytes"]
        assert each["low"] <= each["rate"] <= each["high"] and sum(each["parts"]) == pytest.approx(1)
        if each["plan"] == "zeropp":
            step = answer["step"]
            assert step["plan"] == "zeropp" and step["step_us"] == pytest.approx(
                1e6 * row["step_time_nominal_s"], rel=1e-12
            )
            assert max(step["spans"]["end"]) <= step["step_us"] + 0.01
            held = [sum(kinds) for kinds in zip(*step["memory"]["held"], strict=True)]
            assert max(held) == pytest.approx(row["peak_memory_bytes"], abs=len(step["kinds"]))  # rounded to bytes


def test_the_fastest_is_shown_where_no_plan_is_chosen(live: Served) -> None:
    answer = live.answer()
    fastest = max(answer["plans"], key=lambda each: each["rate"])
    assert answer["step"]["plan"] == fastest["plan"] == answer["plans"][0]["plan"]
    assert answer["verdict"].startswith(f"On {SIZE} GCDs, {fastest['plan']} is the fastest of 2 plans with ")


def test_links_over_the_step_come_to_the_numbers_of_the_drawing(live: Served) -> None:
    """Every line of the drawing has its link over time, whose mean is the number of the line: to 0.1 %, as it says."""
    step = live.answer()["step"]
    assert step["links"]
    for name, used in step["links"].items():
        assert len(used) == step["num_parts"] and min(used) >= 0, name
        line = f'data-link="{escape(name)}"'
        assert line in step["drawing"]
        mean = 100 * sum(used) / step["num_parts"] / step["whole_link"]
        title = step["drawing"].partition(line)[2].partition("<title>")[2].partition("</title>")[0]
        shown = float(title.replace("\u00a0", " ").partition(" %")[0].rpartition(" ")[2])
        assert mean == pytest.approx(shown, abs=0.11), title


def test_a_link_that_cannot_be_is_one_line(live: Served) -> None:
    for path in ("answer", "scenario.toml"):
        code, said = live.refusal(path, {"engine.overlep": "false"})
        assert code == 422
        assert json.loads(said) == {"error": 'link: engine.overlep: unknown key; did you mean "engine.overlap"?'}


def test_the_scenario_file_runs_to_the_same_numbers(live: Served, tmp_path: Path) -> None:
    link = {"training.grad_accum": "2"}
    file = tmp_path / "moved.toml"
    file.write_text(live.text("scenario.toml", link), encoding="utf-8")
    assert load_scenario(file).file.training.grad_accum == 2
    ran = invoke("run", file, "--no-sensitivity", "--no-page", "--json", "--out", tmp_path / "out")
    rates = {row["plan"]: nominal_rate(row) for row in json.loads(ran.out)}
    answered = {each["plan"]: each["nominal"] for each in live.answer(link)["plans"]}
    assert answered == pytest.approx(rates, rel=1e-12)


def test_the_page_loads_nothing_from_elsewhere(live: Served) -> None:
    page = live.text()
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "<script src" not in page and "@import" not in page and "url(" not in page


def test_only_this_machine_is_answered(live: Served) -> None:
    """Listening on the loopback address alone; and the page of another site that leads here by its name is refused."""
    [line] = [
        line.split()
        for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]
        if line.split()[1].endswith(f":{live.port:04X}") and line.split()[3] == "0A"  # listening
    ]
    assert line[1] == f"0100007F:{live.port:04X}"  # 127.0.0.1, the lowest byte first
    assert live.refusal("answer", host="evil.example")[0] == 400


@pytest.mark.parametrize("path", ["", "answer", "scenario.toml"])
@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},  # another port of this machine
        {"Origin": "http://evil.example"},
        {"Origin": "http://evil.example", "Sec-Fetch-Site": "same-origin"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
    ],
)
def test_a_page_of_another_site_is_not_answered(live: Served, path: str, headers: dict[str, str]) -> None:
    code, _, said = live.asked(path, headers)
    assert code == 403 and len(said) < 100


def test_terminated_it_says_so() -> None:
    """By scancel or a time limit: that is not the end that whoever started it chose."""
    with served(TOY, "--devices", SIZE, "--plans", "zero3") as started:
        workers = workers_of(started.process.pid)
        started.process.send_signal(signal.SIGTERM)
        _, err = started.process.communicate(timeout=20)
        assert (started.process.returncode, err) == (143, "simfrontier: stopped\n")
        assert workers and not wait_for_any(workers)


def test_a_port_that_is_taken_is_one_line() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        message = refusal("serve", TOY, "--port", str(port), "--no-open")
    assert message == f"--port: got {port}: Address already in use; allowed: a free port, or 0 for any"


@pytest.mark.parametrize("under_way", [False, True])
def test_interrupted_it_ends_at_once_and_leaves_no_process(under_way: bool) -> None:
    """Also while an answer is made, which takes long: eight micro-batches of 20 billion parameters."""
    scenario = MAIN if under_way else TOY
    with served(scenario, "--plans", "zero3") as started, ThreadPoolExecutor() as threads:
        workers = workers_of(started.process.pid)
        started.answer()
        asked = threads.submit(started.answer, {"training.grad_accum": "8"}) if under_way else None
        time.sleep(0.2)
        begun_s = time.monotonic()
        started.process.send_signal(signal.SIGINT)
        _, err = started.process.communicate(timeout=20)
        assert (started.process.returncode, err) == (0, "")
        assert asked is None or asked.exception() is not None
    assert workers and not wait_for_any(workers) and time.monotonic() - begun_s < 15


def test_what_a_process_did_that_is_ended_from_outside_is_done_by_another() -> None:
    """Nobody hears of it: the same question is answered as ever."""
    with served(TOY, "--devices", SIZE, "--plans", "zero3") as started:
        before = started.answer()
        workers = workers_of(started.process.pid)
        assert len(workers) == 2
        for worker in workers:
            os.kill(worker, signal.SIGKILL)
        after = started.answer({"engine.overlap": "false"})
        assert after["moved"] == ["communication beside computation: off"]
        assert after["plans"][0]["nominal"] != before["plans"][0]["nominal"]
        assert set(workers_of(started.process.pid)).isdisjoint(workers)


def test_some_plans_of_a_scenario_that_compares_others_are_answered() -> None:
    """The main scenario names ratios of plans that are not served."""
    with served(MAIN, "--plans", "zero3,zeropp", "--devices", "8", "--set", "training.micro_batch=2") as started:
        answer = started.answer({"training.grad_accum": "2"})
        assert {each["plan"] for each in answer["plans"]} == {"zero3", "zeropp"} and answer["num_samples"] == 200
        assert answer["moved"] == ["accumulation steps: 2"] and "with training.micro_batch = 2." in started.text()


def test_grids_that_a_scenario_searches_for_are_found(tmp_path: Path) -> None:
    """As `run` finds them, at the last digit."""
    few = ("--plans", "axonn", "--devices", SIZE, "--set", "plans.axonn.search={values={x=[2,4], z=[1,2]}}")
    ran = invoke("run", TOY, *few, "--no-sensitivity", "--no-page", "--json", "--out", tmp_path)
    [row] = json.loads(ran.out)
    with served(TOY, *few) as started:
        [plan] = started.answer()["plans"]
    assert plan["nominal"] == pytest.approx(nominal_rate(row), rel=1e-12) and "x" in row["mesh"]


def wait_for_any(processes: list[int]) -> bool:
    """Whether any still runs after some seconds."""
    deadline = time.monotonic() + 20
    while not are_gone(processes) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not are_gone(processes)
