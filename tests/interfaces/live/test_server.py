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


@pytest.mark.parametrize(
    ("link", "settings"),
    [
        ({}, ()),
        ({"perturbation.slow": "0.5"}, ("perturbation.slow=[{device=0, factor=0.5}]",)),
    ],
)
def test_what_is_answered_is_what_a_run_gives(live: Served, link: dict[str, str], settings: tuple[str, ...]) -> None:
    """Every cell of a plan is the same number; the step that is drawn is the nominal one."""
    answer = live.answer({**link, "plan": "zeropp"})
    assert sorted(each["plan"] for each in answer["plans"]) == ["zero3", "zeropp"]
    for each in answer["plans"]:
        row = row_of(each["plan"], *settings)
        assert each["rate"] == pytest.approx(row["tokens_per_s_per_device"], rel=1e-12)
        for key in ("step_time_s", "mfu", "peak_memory_bytes", "memory_capacity_bytes"):
            assert each[key] == pytest.approx(row[key], rel=1e-12), key
        ends = row["tokens_per_s_per_device_low"], row["tokens_per_s_per_device_high"]
        assert (each["low"], each["high"]) == pytest.approx(ends, rel=1e-12)
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
    link = {"training.grad_accum": "2", "tp": "2"}
    file = tmp_path / "moved.toml"
    file.write_text(live.text("scenario.toml", link), encoding="utf-8")
    assert list(load_scenario(file).plans) == ["zero3", "zeropp", "grid"]
    ran = invoke("run", file, "--no-sensitivity", "--no-page", "--json", "--out", tmp_path / "out")
    rates = {row["plan"]: row["tokens_per_s_per_device"] for row in json.loads(ran.out)}
    answered = {each["plan"]: each["rate"] for each in live.answer(link)["plans"]}
    assert answered == pytest.approx(rates, rel=1e-12)


@pytest.mark.parametrize(
    ("link", "why"),
    [
        ({"tp": "3"}, "link: tp: got '3'; allowed: 1, 2, 4, 8, 16"),
        ({"training.batches": "2"}, 'link: training.batches: unknown key; did you mean "training.batch"?'),
        ({"plan": "grid", "tp": "16"}, "grid: "),
        ({"model.name": "llama"}, "link: model.name: got 'llama'; "),
    ],
)
def test_a_bad_request_is_refused_in_one_line(live: Served, link: dict[str, str], why: str) -> None:
    code, said = live.refusal("answer", link)
    [line] = json.loads(said)["error"].splitlines()
    assert code == 400 and line.startswith(why)


def test_the_grid_is_simulated_beside_the_plans_and_shown(live: Served) -> None:
    answer = live.answer({"tp": "2", "pp": "2", "training.batch": "32"})
    assert sorted(each["plan"] for each in answer["plans"]) == ["grid", "zero3", "zeropp"]
    [grid] = [each for each in answer["plans"] if each["plan"] == "grid"]
    assert (answer["shown"], answer["step"]["plan"], grid["grid"]) == ("grid", "grid", "tp 2 pp 2 dp 2")
    assert answer["own"]["training.batch"] == "32"


def test_a_model_and_a_machine_are_served_without_a_file() -> None:
    with served("--model=tiny", "--machine=toy-cluster", "--devices=8", "--plans=zero3; tp 2", "--batch=32") as started:
        answer = started.answer()
    assert sorted(each["plan"] for each in answer["plans"]) == ["tp2", "zero3"] and "32 sequences" in answer["work"]


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
