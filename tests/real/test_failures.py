"""Real runs that fail: one clear line, every rank gone within 30 s with an error, nothing half-written left."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from simfrontier.core.program import save
from simfrontier.core.trace import read_perfetto
from tests.invoke import TOY, invoke
from tests.real.ranks import ROOT, Ended, WarmRanks, run_ranks
from tests.real.schedules import EXACT, schedule

LIMIT_S = 30.0  # from the fault
FROM_START_S = LIMIT_S + 15.0  # where it is there from the start: four processes with torch, on a busy box


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Schedules of four ranks: `first` is quick, `long` is not; the same of two and of three, for the launcher, whose
    ranks each import torch."""
    folder = tmp_path_factory.mktemp("schedules")
    for words, sizes in (("", (2, 1, 2)), ("-of-two", (1, 1, 2)), ("-of-three", (3, 1, 1))):
        save(schedule(EXACT["ddp"], sizes, model="mlp"), folder / f"schedule-first{words}.json")
        save(schedule(EXACT["zero3"], sizes, grad_accum=12), folder / f"schedule-long{words}.json")
    return folder


def training(files: Path, *names: str, out: Path | None = None, more: tuple[str, ...] = ()) -> list[str]:
    paths = [str(files / f"schedule-{name}.json") for name in names]
    where = [] if out is None else ["--out", str(out), "--json", str(out / "trained.json")]
    return ["train", *paths, "--steps", "20", "--no-reference", "--timeout", "8", *where, *more]


def ended_badly(ended: Ended, message: str, code: int | None = None, lines: int | None = 1) -> None:
    """No rank outlasted the limit or ended well; what was said, in one line, without a traceback."""
    assert ended.orphans == (), ended.err
    assert all(each != 0 for each in ended.codes), ended.codes
    if code is not None:
        assert set(ended.codes) == {code}, ended.codes
    spoken = [line for line in ended.err.splitlines() if line.startswith("simfrontier-real: ")]
    assert any(re.search(message, line) for line in spoken), ended.err
    assert "Traceback" not in ended.err
    if lines is not None:
        assert len(ended.err.strip().splitlines()) == lines, ended.err


def wait_for(path: Path, limit_s: float = 60.0) -> None:
    """The first schedule's trace says that the ranks are at work on the second."""
    deadline = time.monotonic() + limit_s
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} does not appear"
        time.sleep(0.05)


def only_the_first_trace(out: Path, name: str = "trace-first.json") -> None:
    assert sorted(path.name for path in out.iterdir()) == [name]
    assert read_perfetto(out / name).step_s > 0


@pytest.mark.parametrize("victim", [2, 0])
def test_a_killed_rank_ends_all(files: Path, tmp_path: Path, victim: int) -> None:
    """In an op or at the barrier between two steps: where it strikes is chance. Rank 0 also holds the store that the
    others ask who speaks, so without it they may all speak."""
    ranks = WarmRanks.start([training(files, "first", "long", out=tmp_path)] * 4)
    wait_for(tmp_path / "trace-first.json")
    time.sleep(0.3)
    ranks.kill(victim)
    ended = ranks.wait(LIMIT_S)
    ended_badly(
        ended,
        r"(op \d+, .*|rank \d, between two steps): the connection to another rank broke \(it ended or was killed\)",
        lines=1 if victim else None,
    )
    assert ended.codes[victim] == -signal.SIGKILL
    assert all(each == 1 for rank, each in enumerate(ended.codes) if rank != victim), ended.codes
    only_the_first_trace(tmp_path)


def test_a_rank_with_another_schedule_is_named(files: Path, tmp_path: Path) -> None:
    other = training(files, "long", out=tmp_path)
    ended = run_ranks([training(files, "first", out=tmp_path)] * 2 + [other, other], FROM_START_S)
    ended_badly(
        ended,
        r"rank 2 reads another schedule than rank 0: long is [0-9a-f]{16}…, first on rank 0 is [0-9a-f]{16}…",
        code=2,
    )
    assert list(tmp_path.iterdir()) == []


def test_waits_that_one_rank_cannot_read_end_all(files: Path, tmp_path: Path) -> None:
    """Found when the ranks have joined and made their groups: those without a fault end with the same code."""
    replaying = ["replay", str(files / "schedule-first.json"), "--out", str(tmp_path / "out"), "--iterations", "1"]
    recorded = run_ranks([replaying] * 4, FROM_START_S)
    assert set(recorded.codes) == {0}, recorded.err
    waits = [tmp_path / "out", tmp_path / "out", tmp_path / "nowhere", tmp_path / "out"]
    ended = run_ranks([[*replaying, "--compute", "wait", "--waits", str(each)] for each in waits], FROM_START_S)
    ended_badly(ended, r"rank 2: .*nowhere/trace-first\.json: ", code=2)


def test_ranks_that_were_told_different_sizes_end(files: Path) -> None:
    arguments = training(files, "first", more=("--join-timeout", "6"))
    ended = run_ranks([arguments] * 4, FROM_START_S, sizes=[4, 4, 4, 5])
    ended_badly(ended, r"rank \d was started as one of [45], rank \d as one of [45]", lines=None)


def test_a_rank_that_never_comes_is_named(files: Path) -> None:
    arguments = training(files, "first", more=("--join-timeout", "8"))
    ended = run_ranks([arguments] * 3, FROM_START_S, sizes=[4, 4, 4])
    ended_badly(ended, r"of 4 ranks 3 came within 8 s; missing: 3", code=1)


def test_a_taken_port_is_named(files: Path) -> None:
    with socket.socket() as silent:  # a program that listens there and never answers
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        port = silent.getsockname()[1]
        ended = run_ranks([training(files, "first", more=("--join-timeout", "6"))], FROM_START_S, port=port, sizes=[4])
    ended_badly(ended, rf"port {port} of 127\.0\.0\.1 is taken; set MASTER_PORT to a free one", code=1)


HUGE = ("model.hidden=65536", "model.heads=64", "model.num_layers=25")  # 1.3e12 parameters of 16 bytes on each rank


def test_training_that_has_no_room_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "schedule-huge.json"
    settings = [word for setting in HUGE for word in ("--set", setting)]
    assert invoke("show", TOY, "--plan", "ddp", "--devices", "2", *settings, "--save", path).code == 0
    ended = run_ranks([["train", str(path), "--steps", "1"]] * 2, FROM_START_S)
    assert ended.codes == (2, 2) and ended.orphans == (), ended.err
    (line,) = ended.err.strip().splitlines()
    match = re.search(r"2 ranks on \S+ would hold at least ([\d,.]+) GB; allowed: what is free there, [\d,.]+ GB", line)
    assert match is not None and line.startswith(f"simfrontier-real: {path}: "), line
    assert float(match[1].replace(",", "")) > 40_000


# ── the launcher ──


def children_of(pid: int) -> list[int]:
    out = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            out += [int(text) for text in (task / "children").read_text().split()]
    return out


def runs(pid: int) -> bool:
    """Whether a process is alive (not only waiting to be reaped)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def rank_of(pid: int) -> str:
    return re.search(rb"(?:^|\0)RANK=(\d+)\0", Path(f"/proc/{pid}/environ").read_bytes())[1].decode()  # type: ignore[index]


def launch(arguments: list[str], num_ranks: int = 2) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "simfrontier_real", *arguments, "--ranks", str(num_ranks)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


def test_the_launcher_ends_all_ranks_when_one_is_killed(files: Path, tmp_path: Path) -> None:
    launcher = launch(training(files, "first-of-three", "long-of-three", out=tmp_path), num_ranks=3)
    try:
        wait_for(tmp_path / "trace-first-of-three.json")
        ranks = children_of(launcher.pid)
        assert len(ranks) == 3
        os.kill(ranks[1], signal.SIGKILL)
        message, warned = launcher.communicate(timeout=LIMIT_S)
    finally:
        launcher.kill()
    assert launcher.returncode == 1
    assert re.search(
        r"^simfrontier-real: rank \d (was killed by signal 9 in step \d+|ended with 1); all 3 ranks are stopped$",
        warned,
        re.M,
    ), warned
    assert "Traceback" not in warned and message == ""
    assert not any(runs(pid) for pid in ranks)
    only_the_first_trace(tmp_path, "trace-first-of-three.json")


def test_the_launcher_gives_the_exit_code_of_the_rank_that_failed(files: Path) -> None:
    launcher = launch(training(files, "first-of-two", more=("--collectives", "lowered")))
    _, warned = launcher.communicate(timeout=FROM_START_S)
    assert launcher.returncode == 2, warned
    assert re.search(r"^simfrontier-real: .*lowered-first-of-two\.json: ", warned, re.M), warned
    assert re.search(r"^simfrontier-real: rank \d ended with 2; all 2 ranks are stopped$", warned, re.M), warned
    assert "Traceback" not in warned and len(warned.strip().splitlines()) == 2, warned


def test_the_launcher_refuses_a_schedule_for_other_ranks_before_it_starts_any(files: Path) -> None:
    launcher = launch(training(files, "first"))
    _, warned = launcher.communicate(timeout=FROM_START_S)
    assert launcher.returncode == 2, warned
    assert re.fullmatch(r"simfrontier-real: .*schedule-first\.json: is for 4 ranks .*, but 2 were started\n", warned)


# ── a rank that is stopped ──

TIMEOUT_S = 3.0
STOPPED_S = TIMEOUT_S + 15.0 + 6.0 + LIMIT_S  # torch's timeout, the tables of the other ranks, and a busy machine


def test_a_rank_that_is_stopped_in_a_step_ends_the_run(files: Path, tmp_path: Path) -> None:
    """Stopped at work, in an op or between two steps: where it strikes is chance."""
    more = ("--checkpoint", str(tmp_path), "--every", "4", "--timeout", str(TIMEOUT_S))
    launcher = launch(training(files, "long-of-two", more=more))
    ranks: list[int] = []
    try:
        wait_for(tmp_path / "step-000004" / "manifest.json")
        time.sleep(0.2)
        ranks = children_of(launcher.pid)
        (victim,) = [pid for pid in ranks if rank_of(pid) == "1"]
        os.kill(victim, signal.SIGSTOP)
        _, warned = launcher.communicate(timeout=STOPPED_S)
        assert launcher.returncode == 1 and "Traceback" not in warned
        assert re.search(r"rank 1 .*\(stopped, or lost with its host\)", warned), warned
        assert not any(runs(pid) for pid in ranks)
    finally:
        for pid in (launcher.pid, *ranks):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        launcher.communicate()


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel ends the ranks")
def test_ranks_end_with_a_launcher_that_is_killed_even_a_stopped_one(files: Path, tmp_path: Path) -> None:
    launcher = launch(training(files, "first-of-two", "long-of-two", out=tmp_path))
    wait_for(tmp_path / "trace-first-of-two.json")
    ranks = children_of(launcher.pid)
    os.kill(ranks[1], signal.SIGSTOP)
    launcher.kill()
    launcher.communicate()
    deadline = time.monotonic() + LIMIT_S
    while any(runs(pid) for pid in ranks):
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("victim", [1, pytest.param(0, marks=pytest.mark.long)])
def test_a_rank_that_is_stopped_between_two_steps_is_named(victim: int) -> None:
    ranks = WarmRanks.start([[str(victim), str(TIMEOUT_S)]] * 3, module="tests.real.stopped_ranks")
    try:
        others = [process for rank, process in enumerate(ranks.processes) if rank != victim]
        deadline = time.monotonic() + FROM_START_S + STOPPED_S
        while any(process.is_alive() for process in others):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert ranks.processes[victim].is_alive()
    finally:
        ranks.kill(victim)
        ended = ranks.wait(LIMIT_S)
    assert [code for rank, code in enumerate(ended.codes) if rank != victim] == [1] * 2
    message = f"rank {victim} does not come to the next step (stopped, or lost with its host); the run ends"
    assert f"simfrontier-real: {message}" in ended.err.splitlines(), ended.err
