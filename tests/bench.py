"""`make bench`: how fast simfrontier itself is: CPU seconds and memory of whole processes, median of several runs.

Printed, never asserted: machines differ. The figure after "aim" is the bound that the project sets itself on two cores.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import FunctionType

from simfrontier.extras import added
from tests.real.profiled import replay_to_real_step

ROOT = Path(__file__).resolve().parents[1]
SCENARIO = str(ROOT / "scenarios" / "frontier-20b.toml")
PIPELINE = str(ROOT / "scenarios" / "frontier-1t-3d.toml")
SIZES = (8, 64, 384, 3072, 75264)
CHUNK_SIZES = (16, 64, 128)
# What anybody would write first: a ring all-gather of 384 ranks in SimPy, every message an event. Speeds that are
# promised are ratios to its CPU time in the same run, so that they mean the same on any machine.
NAIVE_ALL_GATHER = """
import simpy
env = simpy.Environment()
boxes = [simpy.Store(env) for _ in range(384)]
def rank(i):
    for _ in range(383):
        yield env.timeout(1e-5)
        yield boxes[(i + 1) % 384].put(1)
        yield boxes[i].get()
for i in range(384):
    env.process(rank(i))
env.run()
"""


# Run by a process that is small: the peak memory of a process counts what whoever started it held then.
MEASURED = """
import os, sys
pid = os.fork()
if pid == 0:
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
_, status, usage = os.wait4(pid, 0)
print(status, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)
"""


def measure(arguments: list[str], program: tuple[str, ...] = ("-m", "simfrontier")) -> tuple[float, float]:
    """(user + system CPU seconds, peak MB) of one process of Python, by default `simfrontier`, its output thrown
    away."""
    command = [sys.executable, "-S", "-c", MEASURED, *program, *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    status, seconds, megabytes = done.stdout.split()
    if status != "0":
        raise SystemExit(f"bench: simfrontier {' '.join(arguments)} failed")
    return float(seconds), float(megabytes)


def median(arguments: list[str], runs: int = 5) -> tuple[float, float]:
    measure(arguments)  # files warm
    seconds, memory = zip(*(measure(arguments) for _ in range(runs)), strict=True)
    return statistics.median(seconds), max(memory)


def ratio_to_naive(what: str, arguments: list[str], aim: str, runs: int = 5) -> None:
    """Print how many times as long a call takes as the naive all-gather: the median of so many, run in turn."""
    naive = ("-c", NAIVE_ALL_GATHER)
    measure(arguments)
    ratios = [measure(arguments)[0] / measure([], naive)[0] for _ in range(runs)]
    sys.stdout.write(f"{what:<58} {statistics.median(ratios):7.2f} x the naive all-gather   aim {aim}\n")
    sys.stdout.flush()


def slowed(folder: Path, num_devices: int, num_speeds: int) -> str:
    """A scenario of one ZeRO-3 step of the 20B on devices of so many speeds, dealt out in turn."""
    speeds = [1.0 - 0.3 * number / num_speeds for number in range(num_speeds)]
    slow = [f"    {{ device = {each}, factor = {speeds[each % num_speeds]!r} }}," for each in range(num_devices)]
    text = f"""
name = "slowed-{num_devices}"
title = "{num_devices} GCDs of {num_speeds} speeds"
machine.name = "frontier"
model = {{ name = "gpt-neox-20b", checkpointing = "full" }}
run.devices = [{num_devices}]
plans.zero3 = {{}}
[perturbation]
slow = [
"""
    path = folder / f"slowed-{num_devices}.toml"
    path.write_text("\n".join([text, *slow, "]", ""]))
    return str(path)


def line(what: str, results: tuple[float, float], aim: str) -> None:
    sys.stdout.write(f"{what:<58} {results[0]:7.2f} CPU s {results[1]:7.0f} MB   aim {aim}\n")
    sys.stdout.flush()


def inside() -> None:
    """Parts of a run, in this process: a check, a digest, and folding the whole machine."""
    from simfrontier.schedule.checker import check
    from simfrontier.schedule.store import digest
    from tests.network.fold_timing import time_fold
    from tests.schedule.builders import frontier_20b
    from tests.whatif import QUESTIONS, compared

    for family in ("zero3", "zeropp"):
        schedule = frontier_20b(family)
        for what, work in (("check", check), ("digest", digest)):
            seconds = []
            for _ in range(5):
                begin = time.process_time()
                work(schedule)
                seconds.append(time.process_time() - begin)
            sys.stdout.write(
                f"{what} of a {family} schedule, 20B, 384 GCDs: {1e3 * statistics.median(seconds):.0f} CPU ms\n"
            )
    for name in ("zero3", "zero-topo"):
        asked = compared(QUESTIONS[name], num=1000, count=12, seed=1)
        each = 1000 / asked.answered_s
        sys.stdout.write(
            f"what-ifs of {name}, 20B, 384 GCDs: {each:,.0f} a CPU second of 1,000 from one simulated step, "
        )
        sys.stdout.write(f"{each * asked.exact_s:.0f} times as many as simulated one by one   aim 1,000\n")
    fold = time_fold(9408)
    total = fold.build_s + fold.fold_s + fold.columns_s
    sys.stdout.write(f"patterns and folding of {fold.num_devices:,} GCDs: {total:.2f} CPU s, ")
    sys.stdout.write(f"{fold.num_rank_classes} rank classes, {fold.num_link_classes} link classes\n\n")


def main() -> None:
    os.chdir(ROOT)
    inside()
    for bench in added("tests.bench", FunctionType):
        bench()
    with tempfile.TemporaryDirectory() as folder:
        one = ["run", SCENARIO, "--no-sensitivity", "--no-page", "--out", folder]
        page = ["run", SCENARIO, "--plans", "zero3", "--out", folder, "--devices"]
        ratio_to_naive("one ZeRO-3 step, 20B, 384 GCDs, with its page", [*page, "384"], "0.8")
        ratio_to_naive("the same without", [*one, "--plans", "zero3", "--devices", "384"], "0.8")
        ratio_to_naive("the same on 75,264 GCDs", [*one, "--plans", "zero3", "--devices", "75264"], "1.2")
        line("simfrontier --help", median(["--help"]), "0.4 s")
        line(
            "one ZeRO-3 step, 20B, 384 GCDs, flow",
            median([*one, "--plans", "zero3", "--devices", "384"]),
            "1.0 s, 250 MB",
        )
        for devices, speeds, aim in ((384, 384, "10 s"), (4096, 96, "5 s")):
            file = slowed(Path(folder), devices, speeds)
            what = f"one ZeRO-3 step, 20B, {devices:,} GCDs of {speeds} speeds"
            line(what, median(["run", file, "--no-sensitivity", "--no-page", "--out", folder], runs=3), aim)
        spread = ["--set", 'perturbation.spread=[{ name = "not-all-gpus-2022" }]']
        for devices, aim in (("384", "10 s"), ("4096", "120 s")):
            differ = ["run", SCENARIO, "--plans", "zero3", "--devices", devices, *spread, "--out", folder]
            line(f"one ZeRO-3 step, 20B, {int(devices):,} GCDs that all differ, with its page", measure(differ), aim)
        line("the main job with sensitivity and report", median(["run", SCENARIO, "--out", folder]), "20 s")
        for samples, aim in ((0, ""), (200, "60 s more than without samples")):
            what = f"its 54 runs alone, {samples} samples of each"
            line(what, median([*one, "--set", f"uncertainty.samples={samples}"], runs=3), aim)
        line("validate, every table and training run, left out", median(["validate"], runs=3), "60 s")
        line("validate --no-cross", median(["validate", "--no-cross"], runs=3), "30 s")
        sys.stdout.write("\npipelines, tensor grids and searches (build, check, digest and simulation):\n")
        rest = ["--no-sensitivity", "--no-page", "--out", folder]
        steps = ["run", PIPELINE, *rest, "--plans"]
        line("  1T, 3,072 GCDs: 16 stages, 64 micro-batches, tensor 8", median([*steps, "1f1b"], runs=3), "10 s")
        line("  the same, sequence-parallel", median([*steps, "sequence-parallel"], runs=3), "10 s")
        interleaved = ["--set", "plans.1f1b.order=interleaved", "--set", "plans.1f1b.chunks=2"]
        line("  the same, interleaved in two chunks", measure([*steps, "1f1b", *interleaved]), "10 s")
        line("  explain", measure(["explain", PIPELINE, "--plan", "1f1b", "--jobs", "1"]), "20 s")
        sys.stdout.write("\nsearches over plans, one process (aims are wall time on two cores):\n")
        for what, file, aim in (
            ("20B, 384 GCDs", SCENARIO, "60 s"),
            ("1T, 3,072 GCDs", PIPELINE, "180 s"),
        ):
            line(f"  tune: {what}", measure(["tune", file, "--jobs", "1", "--fresh", "--out", folder]), aim)
        sys.stdout.write("\none step, flow, by size (cost grows with classes, not ranks):\n")
        for plan in ("zero3", "zeropp", "zero-topo"):
            for size in SIZES:
                results = median([*one, "--plans", plan, "--devices", str(size)], runs=3)
                line(f"  {plan}, {size:,} GCDs", results, "30 s, 4000 MB" if size == SIZES[-1] else "")
        sys.stdout.write("\none ZeRO-3 step, every message an event, 4 layers (cost grows with messages):\n")
        chunk = [*one, "--plans", "zero3", "--fidelity", "chunk", "--set", "model.num_layers=4"]
        for size in CHUNK_SIZES:
            line(f"  {size:,} GCDs", median([*chunk, "--devices", str(size)], runs=3), "")
        ratio = statistics.median(replay_to_real_step(Path(tempfile.mkdtemp(dir=folder))) for _ in range(3))
        sys.stdout.write(f"\nthe replay of a profile of four gloo ranks: {ratio:.2f} x the step   aim 0.9 to 1.1\n")


if __name__ == "__main__":
    main()
