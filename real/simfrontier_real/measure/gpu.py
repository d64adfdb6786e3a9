"""Checks on a single GPU within eight minutes: NCCL with one rank, gloo ranks that share the GPU, and tables of compute
rates. Each step has a time limit, so that a failing or hanging step does not prevent the others."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Literal

import simfrontier
from simfrontier.base.errors import InputError, SimfrontierError
from simfrontier.base.wholefile import write_whole
from simfrontier_real.options import refuse_places
from simfrontier_real.ranks.device import NO_GPU, has_gpu
from simfrontier_real.ranks.launch import StoppedError, signals

Verdict = Literal["passed", "failed", "too long", "not run"]
LEAST_S: Final = 1.0  # with less time left, a step is not begun
TAIL_BYTES: Final = 4096  # of a step's output, in which its last line is looked for


@dataclass(frozen=True, slots=True)
class CheckStep:
    """Command with a time limit in seconds. `shows` is the property that its success demonstrates; `needs` are the
    names of the steps whose results it reads: the step is skipped unless these have passed."""

    name: str
    limit_s: float
    shows: str
    command: tuple[str, ...]
    needs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """Outcome of a step: its verdict, its duration in seconds, the reason for not passing (`why`), and the exit `code`
    (minus the signal number if killed; None if the step was not run or exceeded its limit)."""

    name: str
    shows: str
    verdict: Verdict
    seconds: float
    code: int | None = None
    why: str = ""


def run_steps(
    steps: Sequence[CheckStep],
    logs: Path,
    environment: Mapping[str, str],
    limit_s: float,
    after: Callable[[Sequence[StepResult]], None] = lambda _: None,
) -> list[StepResult]:
    """Run all steps within `limit_s` seconds, with output to NAME.txt in `logs`; `after` is called after every step
    with all results so far. An exception during a step (such as a stop signal) ends the step and is re-raised."""
    logs.mkdir(parents=True, exist_ok=True)
    results: list[StepResult] = []
    end_s = time.monotonic() + limit_s
    for step in steps:
        passed = {result.name for result in results if result.verdict == "passed"}
        lacking = [name for name in step.needs if name not in passed]
        left_s = end_s - time.monotonic()
        if lacking or left_s < LEAST_S:
            why = f"needs {', '.join(lacking)}" if lacking else f"no time is left of {limit_s:g} s"
            result = StepResult(name=step.name, shows=step.shows, verdict="not run", seconds=0.0, why=why)
        else:
            result = _run(step, logs / f"{step.name}.txt", environment, min(step.limit_s, left_s))
        results.append(result)
        after(results)
    return results


def _run(step: CheckStep, log: Path, environment: Mapping[str, str], limit_s: float) -> StepResult:
    begin_s, code = time.monotonic(), None
    with log.open("w", encoding="utf-8") as out:
        print(f"$ {shlex.join(step.command)}", file=out, flush=True)
        with suppress(subprocess.TimeoutExpired):
            code = subprocess.run(
                step.command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=dict(environment),
                timeout=limit_s,
                check=False,
            ).returncode
    seconds = time.monotonic() - begin_s
    verdict: Verdict = "passed" if code == 0 else "too long" if code is None else "failed"
    why = _why(log, code, limit_s)
    return StepResult(name=step.name, shows=step.shows, verdict=verdict, seconds=seconds, code=code, why=why)


def _why(log: Path, code: int | None, limit_s: float) -> str:
    """Return the reason why a step has not passed, with the last line of its output."""
    if code == 0:
        return ""
    if code is None:
        ended = f"ended at its limit of {limit_s:.3g} s"
    else:
        ended = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
    lines = log.read_bytes()[-TAIL_BYTES:].decode("utf-8", errors="replace").strip().splitlines()
    return f"{ended}: {lines[-1]}" if len(lines) > 1 else ended


ROOT: Final = Path(simfrontier.__file__).resolve().parents[1]  # of the checkout, where scenarios and tests are
LIMIT_S: Final = 474.0  # for all steps; terminating a step may take 6 s more
RANKS: Final = 4  # ranks that share the GPU
SUMMARY, FACTS = "summary.json", "device.json"
_TESTS: Final = ("tests/real/test_nccl.py", "tests/real/test_gloo_cuda.py", "tests/real/test_rates.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuRun:
    """Settings of a GPU run: output folder, name of the machine in the tables (None: the device's name), and the
    checkout's folder with scenarios and tests."""

    out: Path
    machine: str | None = None
    root: Path = ROOT


def steps_of(run: GpuRun) -> list[CheckStep]:
    """Return the steps in their order. The limits of all steps but the last add up to at most `LIMIT_S`, so that each
    step has its full time regardless of the others; the last step, the tests, has the remaining time."""
    out, steps = run.out, [*_with_nccl(run), *_over_gloo(run)]
    machine = () if run.machine is None else ("--machine", run.machine)
    rates = _real("rates", "--device", "cuda", "--out", out / "rates", "--seconds", "72", *machine)
    steps.append(CheckStep("rates", 89, "times of products and kernels, as tables for simfrontier validate", rates))
    if find_spec("pytest") is not None and all((run.root / name).is_file() for name in _TESTS):
        shows = "the tests that need a GPU, the roofline of nccl's compute times among them"
        tests = (sys.executable, "-m", "pytest", "-q", *(str(run.root / name) for name in _TESTS))
        steps.append(CheckStep("tests", LIMIT_S, shows, tests))
    return steps


def _with_nccl(run: GpuRun) -> Iterator[CheckStep]:
    """Return the steps that query the device and run a single rank over nccl."""
    out, nccl, needs = run.out, ("--backend", "nccl", "--ranks", "1"), ("nccl-schedules",)
    plans = ("ddp", "zero3", "zero-topo")
    one = _schedules(out / "one", *plans)
    device = _real("device", "--out", out / FACTS)
    yield CheckStep("device", 40, "device, driver and versions; no package is missing", device)
    yield CheckStep("nccl-schedules", 10, "schedules of one rank", _export(run, "toy", "fp32", 1, plans, out / "one"))
    train = _real("train", *one, *nccl, "--json", out / "nccl-train.json", "--out", out / "real" / "nccl-train")
    yield CheckStep("nccl-train", 40, "nccl, one rank: training equals the unsharded model", train, needs)
    replay = _real("replay", *one, *nccl, "--out", out / "real" / "nccl-replay")
    yield CheckStep("nccl-replay", 30, "nccl, one rank: replays with real compute", replay, needs)
    shows = "nccl, one rank: what an op costs, copies and products in bf16, as a calibration"
    measure = _real("measure", *nccl, "--precision", "bf16", "--out", out / "nccl.toml")
    yield CheckStep("nccl-measure", 30, shows, measure)


def _over_gloo(run: GpuRun) -> Iterator[CheckStep]:
    """Return the steps with gloo ranks that share the GPU; messages are copied through host memory."""
    out, gloo = run.out, ("--backend", "gloo", "--device", "cuda", "--ranks", str(RANKS))
    plans, several = ("zero3", "hsdp", "zeropp", "zero-topo"), out / "several"
    files, grid, few = _schedules(several, *plans), _schedules(out / "grid", "plain"), ("--steps", "3")
    shows = f"schedules of {RANKS} ranks, and how their collectives are lowered"
    export = _export(run, "toy", "fp64", RANKS, plans, several, "--fidelity", "chunk")
    yield CheckStep("gloo-schedules", 10, shows, export)
    shows = "a schedule of two-way tensor parallelism and two stages"
    yield CheckStep("gloo-grid", 10, shows, _export(run, "compressed-3d", "fp64", RANKS, ("plain",), out / "grid"))
    shows = f"{RANKS} ranks on one GPU: training equals the unsharded model"
    places = ("--json", out / "gloo-train.json", "--out", out / "real" / "gloo-train")
    train = _real("train", *files, *grid, *gloo, *few, *places)
    yield CheckStep("gloo-train", 70, shows, train, ("gloo-schedules", "gloo-grid"))
    shows = "the same with collectives carried by explicit transfers"
    lowered = _real("train", *files, *gloo, *few, "--collectives", "lowered", "--json", out / "gloo-lowered.json")
    yield CheckStep("gloo-lowered", 45, shows, lowered, ("gloo-schedules",))
    shows = "collectives through the host's memory and local work, as a calibration"
    sizes = ("--sizes", "64KiB,1MiB,4MiB,16MiB", "--iterations", "5")
    yield CheckStep("gloo-measure", 35, shows, _real("measure", *gloo, *sizes, "--out", out / "gloo.toml"))
    calibrated, compared = ("--set", f"library.calibration={out / 'gloo.toml'}"), ("zero3", "zeropp", "zero-topo")
    simulated = _export(run, "crosscheck", "fp32", RANKS, compared, out / "simulated", *calibrated)
    yield CheckStep("gloo-simulate", 10, "three plans simulated on what was measured", simulated, ("gloo-measure",))
    shows = "the same schedules with real messages and real compute"
    times = ("--iterations", "3", "--warmup", "1", "--out", out / "real" / "crosscheck")
    replay = _real("replay", *_schedules(out / "simulated", *compared), *gloo, *times)
    yield CheckStep("gloo-replay", 45, shows, replay, ("gloo-simulate",))
    shows = "simulated against real: equal operations, order and bytes; times compared"
    check = _core("crosscheck", out / "simulated", out / "real" / "crosscheck", "--out", out / "crosscheck")
    yield CheckStep("crosscheck", 10, shows, check, ("gloo-replay",))


def _real(*arguments: object) -> tuple[str, ...]:
    return (sys.executable, "-m", "simfrontier_real", *map(str, arguments))


def _core(*arguments: object) -> tuple[str, ...]:
    return (sys.executable, "-m", "simfrontier", *map(str, arguments))


def _export(
    run: GpuRun, scenario: str, dtype: str, ranks: int, plans: Sequence[str], out: Path, *more: str
) -> tuple[str, ...]:
    path = run.root / "scenarios" / f"{scenario}.toml"
    how = ("--set", f"model.precision={dtype}", "--plans", ",".join(plans))
    return _core("export", path, *how, "--devices", str(ranks), "--out", out, *more)


def _schedules(folder: Path, *plans: str) -> tuple[Path, ...]:
    return tuple(folder / f"schedule-{plan}.json" for plan in plans)


# ── a run ──


def run_gpu(run: GpuRun, say: Callable[[str], None]) -> int:
    """Run all steps, write the summary after each step, and report the results; return the exit code, 0 if all steps
    passed. Raises, before any step, SimfrontierError if there is no GPU, and InputError if the output folder contains
    anything but an earlier run."""
    if not has_gpu():
        raise SimfrontierError(f"{NO_GPU}; nothing was run")
    if not (run.root / "scenarios").is_dir():
        raise InputError("no scenarios there; allowed: simfrontier in a checkout", where=str(run.root))
    make_room(run.out)
    return run_and_summarise(steps_of(run), run.out, say)


def run_and_summarise(
    steps: Sequence[CheckStep], out: Path, say: Callable[[str], None], limit_s: float = LIMIT_S
) -> int:
    """Run steps with output in a folder; print one line per step, then the summary; return the exit code."""
    results: list[StepResult] = []
    begin_s = time.monotonic()

    def after(done: Sequence[StepResult]) -> None:
        results[:] = done
        say(line_of(done[-1]))
        _write(out, results, len(steps), time.monotonic() - begin_s)

    _write(out, results, len(steps), 0.0)
    try:
        with signals():
            run_steps(steps, out / "logs", step_environment(os.environ), limit_s, after)
    except StoppedError as stopped:
        where = f" in step {steps[len(results)].name}" if len(results) < len(steps) else ""
        say(f"stopped by signal {stopped.number}{where}; results so far: {out}")
        return 128 + stopped.number
    num_passed = sum(result.verdict == "passed" for result in results)
    say(f"{num_passed} of {len(steps)} steps passed in {time.monotonic() - begin_s:.0f} s; results: {out}")
    return 0 if num_passed == len(steps) else 1


def line_of(result: StepResult) -> str:
    """Return the result of a step as one line of text."""
    return f"{result.name:<16}{result.seconds:>7.1f} s  {result.verdict:<9}  {result.why or result.shows}"


def make_room(out: Path) -> None:
    """Create the output folder, replacing an earlier run's. Raises InputError for a folder with other contents, or one
    that cannot be written."""
    refuse_places(out, None)
    if out.is_dir() and any(out.iterdir()) and not (out / SUMMARY).is_file():
        raise InputError("holds other files; allowed: a new folder, or one of an earlier run", where=f"--out {out}")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)


def step_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a step, in which output is unbuffered and simfrontier is imported from the same
    location as in this process."""
    places = [ROOT, Path(__file__).resolve().parents[2], *filter(None, [environment.get("PYTHONPATH")])]
    return {**environment, "PYTHONPATH": os.pathsep.join(map(str, places)), "PYTHONUNBUFFERED": "1"}


def _write(out: Path, results: Sequence[StepResult], num_steps: int, seconds: float) -> None:
    facts = json.loads((out / FACTS).read_text(encoding="utf-8")) if (out / FACTS).is_file() else None
    document = {
        "device": facts,
        "seconds": round(seconds, 3),
        "num_steps": num_steps,
        "steps": [asdict(result) for result in results],
    }
    write_whole(out / SUMMARY, json.dumps(document, indent=1) + "\n")
