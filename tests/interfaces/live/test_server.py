"""The server of the live page: what it answers equals what a run prints, to this machine alone."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from simfrontier.inputs.scenario import load_scenario
from tests.interfaces.live.serving import Served, served
from tests.invoke import ROOT, TOY, invoke
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


def test_the_scenario_file_runs_to_the_same_numbers(live: Served, tmp_path: Path) -> None:
    link = {"training.grad_accum": "2"}
    file = tmp_path / "moved.toml"
    file.write_text(live.text("scenario.toml", link), encoding="utf-8")
    assert load_scenario(file).file.training.grad_accum == 2
    ran = invoke("run", file, "--no-sensitivity", "--no-page", "--json", "--out", tmp_path / "out")
    rates = {row["plan"]: nominal_rate(row) for row in json.loads(ran.out)}
    answered = {each["plan"]: each["nominal"] for each in live.answer(link)["plans"]}
    assert answered == pytest.approx(rates, rel=1e-12)


def test_only_this_machine_is_answered(live: Served) -> None:
    """Listening on the loopback address alone; and the page of another site that leads here by its name is refused."""
    [line] = [
        line.split()
        for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]
        if line.split()[1].endswith(f":{live.port:04X}") and line.split()[3] == "0A"  # listening
    ]
    assert line[1] == f"0100007F:{live.port:04X}"  # 127.0.0.1, the lowest byte first
    assert live.refusal("answer", host="evil.example")[0] == 400


@pytest.mark.parametrize("headers", [{"Sec-Fetch-Site": "cross-site"}, {"Origin": "http://evil.example"}])
def test_a_page_of_another_site_is_not_answered(live: Served, headers: dict[str, str]) -> None:
    assert live.asked("answer", headers)[0] == 403


@pytest.mark.parametrize("under_way", [False, pytest.param(True, marks=pytest.mark.long)])
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


def wait_for_any(processes: list[int]) -> bool:
    """Whether any still runs after some seconds."""
    deadline = time.monotonic() + 20
    while not are_gone(processes) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not are_gone(processes)
