"""`make bench`: how fast simfrontier itself is.

Work is timed inside a process, after its imports: done twice, the second time counted. Promised speeds are ratios to
the CPU time of what anybody would write first, timed in turn with them, so that they mean the same on any machine.
Printed, never asserted; the figure after "aim" is the bound that the project sets itself.

    python -m tests.bench [NAME]        all lines, or the CPU seconds of one piece of work
"""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from types import FunctionType

import simpy

import simfrontier as sf
from simfrontier.answers.study import BuiltSchedule, ScheduleCache, simulated
from simfrontier.base.extras import added
from simfrontier.core.machine import load_machine
from simfrontier.core.network import Fabric, fold
from simfrontier.inputs.scenario import Scenario
from tests.core.network.brute import six_patterns
from tests.real.profiled import replay_to_real_step
from tests.whatif import QUESTIONS, compared

ROOT = Path(__file__).resolve().parents[1]
SCENARIO = str(ROOT / "scenarios" / "frontier-20b.toml")
PIPELINE = str(ROOT / "scenarios" / "frontier-1t-3d.toml")
PLANS = ("zero3", "zeropp", "zero-topo")
SIZES = (8, 64, 384, 3072, 75264)
FIRST_ANSWER = (
    *("compare", "--model", "llama-3-70b", "--nodes", "16", "--batch", "4M"),
    *("--plans", "zero3; hsdp; tp 8 pp 2; tp 8 pp 2 vp 4"),
)
AS_TRAINED = {"model.precision": "bf16", "model.attention": "fused"}
RUNS = 5


# ── work ──


def naive_all_gather() -> None:
    """A ring all-gather of 384 ranks in SimPy, every message an event."""
    env = simpy.Environment()
    boxes = [simpy.Store(env) for _ in range(384)]

    def rank(number: int) -> simpy.events.ProcessGenerator:
        for _ in range(383):
            yield env.timeout(1e-5)
            yield boxes[(number + 1) % 384].put(1)
            yield boxes[number].get()

    for number in range(384):
        env.process(rank(number))
    env.run()


def step(plan: str, devices: int) -> None:
    """Load, build, check, price and simulate a step of the 20B."""
    sf.simulate(sf.load(SCENARIO, {}, (plan,), (devices,)))


@cache
def built() -> tuple[Scenario, BuiltSchedule]:
    """A scenario with another bandwidth, and its schedule, built and checked once."""
    slower = sf.load(SCENARIO, {"machine.overrides.link_classes.nic.bytes_per_s": 20e9}, ("zero3",), (384,))
    return slower, ScheduleCache().get(slower, "zero3", 384)


def other_numbers() -> None:
    """Price and simulate a schedule that is there."""
    scenario, schedule = built()
    simulated(scenario.of("zero3", 384), schedule, "flow")


def many_speeds(plan: str, devices: int, num_speeds: int) -> None:
    """A step of the 20B on devices of so many speeds, dealt out in turn."""
    speeds = [1.0 - 0.3 * number / num_speeds for number in range(num_speeds)]
    slow = [{"device": each, "factor": speeds[each % num_speeds]} for each in range(1, devices) if each % num_speeds]
    sf.simulate(sf.load(SCENARIO, {"perturbation.slow": slow}, (plan,), (devices,)))


def mixed_speeds(plan: str) -> None:
    """A step of the 20B on 384 devices of 30 speeds, which are mixed on all nodes."""
    speeds = random.Random(1).choices([1.0 - 0.01 * number for number in range(30)], k=384)
    slow = [{"device": each, "factor": speed} for each, speed in enumerate(speeds) if speed < 1.0]
    sf.simulate(sf.load(SCENARIO, {"perturbation.slow": slow}, (plan,), (384,)))


def calls_that_differ(devices: int) -> None:
    """A step of the 20B on devices and in calls that all differ."""
    spread = {"perturbation.spread": [{"name": "not-all-gpus-2022"}]}
    sf.simulate(sf.load(SCENARIO, spread, ("zero3",), (devices,)))


def folded(num_nodes: int) -> None:
    """Build the links of nodes of Frontier and fold six patterns on them."""
    fabric = Fabric.build(load_machine("frontier"), num_nodes)
    fold(fabric, six_patterns(fabric))


def pipeline(plan: str, chunks: int = 1) -> None:
    """A step of the 1T on 3,072 GCDs: 16 stages, 64 micro-batches."""
    cut = {} if chunks == 1 else {"plans.1f1b.order": "interleaved", "plans.1f1b.chunks": chunks}
    sf.simulate(sf.load(PIPELINE, cut, (plan,), (3072,)))


def deepseek_v3(order: str) -> None:
    """A step of DeepSeek-V3 (671B) on 2,048 GPUs: 16 stages, groups of 64 experts, 64 micro-batches."""
    stages = {"pipeline": 16, "layers": "even", "order": order, **({"chunks": 2} if order == "dualpipev" else {})}
    plan = {"family": "megatron", **stages, "expert": 64, "data": "zero1"}
    settings = {"training.batch": 8192, **AS_TRAINED}
    sf.simulate(sf.new_scenario("h800-node", "deepseek-v3", {order: plan}, devices=2048, settings=settings))


def tune_experts() -> None:
    """Search the plans of Qwen3-30B-A3B on 64 GPUs."""
    plan = {"family": "megatron", "tensor": 2, "sequence_parallel": True, "expert": 8, "data": "zero1"}
    settings = {"training.batch": 512, **AS_TRAINED}
    sf.tune(sf.new_scenario("h100-node", "qwen3-30b-a3b", {"ep8": plan}, devices=64, settings=settings))


def messages(devices: int) -> None:
    """A step of 4 layers of the 20B, every message an event."""
    sf.simulate(sf.load(SCENARIO, {"model.num_layers": 4}, ("zero3",), (devices,)), fidelity="chunk")


WORK: Mapping[str, Callable[[], object]] = {
    "naive": naive_all_gather,
    **{f"{plan}-{size}": partial(step, plan, size) for plan in PLANS for size in SIZES},
    "other-numbers": other_numbers,
    **{f"speeds-{plan}": partial(many_speeds, plan, 384, 384) for plan in PLANS},
    **{f"mixed-{plan}": partial(mixed_speeds, plan) for plan in PLANS},
    "speeds-4096": partial(many_speeds, "zero3", 4096, 96),
    "differ-384": partial(calls_that_differ, 384),
    "fold-75264": partial(folded, 9408),
    "1f1b": partial(pipeline, "1f1b"),
    "sequence-parallel": partial(pipeline, "sequence-parallel"),
    "interleaved": partial(pipeline, "1f1b", 2),
    "explain-1f1b": lambda: sf.explain(PIPELINE, "1f1b", devices=3072),
    "tune-20b": lambda: sf.tune(SCENARIO, devices=384),
    "tune-experts": tune_experts,
    **{f"671b-{order}": partial(deepseek_v3, order) for order in ("1f1b", "dualpipev")},
    **{f"messages-{size}": partial(messages, size) for size in (16, 64, 128)},
}
ONCE = (
    "explain-1f1b",
    "tune-20b",
    "tune-experts",
    "671b-dualpipev",
    "messages-128",
)  # too long to do twice; counted the first time


# ── timing ──


def seconds_inside(name: str) -> float:
    """CPU seconds of some work in a process of its own, after its imports and, but for `ONCE`, done once before."""
    done = subprocess.run([sys.executable, "-m", "tests.bench", name], stdout=subprocess.PIPE, text=True, check=True)
    return float(done.stdout.split()[-1])


def ratio_line(what: str, name: str, aim: str) -> None:
    """Print how many times as long some work takes as the naive all-gather: the median of `RUNS`, timed in turn."""
    ratios = [seconds_inside(name) / seconds_inside("naive") for _ in range(RUNS)]
    sys.stdout.write(f"{what:<64} {statistics.median(ratios):7.3f} x the naive all-gather   aim {aim}\n")
    sys.stdout.flush()


def seconds_line(what: str, name: str, aim: str = "", runs: int = 3) -> None:
    """Print the median of the CPU seconds of some work."""
    seconds = statistics.median(seconds_inside(name) for _ in range(runs))
    sys.stdout.write(f"{what:<64} {seconds:7.2f} CPU s{f'   aim {aim}' if aim else ''}\n")
    sys.stdout.flush()


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


def measure(arguments: list[str]) -> tuple[float, float]:
    """(user + system CPU seconds, peak MB) of one process of `simfrontier`, its output thrown away."""
    command = [sys.executable, "-S", "-c", MEASURED, "-m", "simfrontier", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    status, seconds, megabytes = done.stdout.split()
    if status != "0":
        raise SystemExit(f"bench: simfrontier {' '.join(arguments)} failed")
    return float(seconds), float(megabytes)


def median(arguments: list[str], runs: int = RUNS) -> tuple[float, float]:
    """The median CPU seconds and the largest peak MB of so many processes, after one that warms the files up."""
    measure(arguments)
    seconds, memory = zip(*(measure(arguments) for _ in range(runs)), strict=True)
    return statistics.median(seconds), max(memory)


def line(what: str, results: tuple[float, float], aim: str) -> None:
    """Print a whole process."""
    sys.stdout.write(f"{what:<64} {results[0]:7.2f} CPU s {results[1]:7.0f} MB   aim {aim}\n")
    sys.stdout.flush()


# ── lines ──


def what_ifs(name: str) -> None:
    """Print how many step times one pass gives in a CPU second, and how far they are off."""
    asked = compared(QUESTIONS[name], num=2000, count=22, seed=1)
    alike = abs(asked.errors[~asked.is_unlike])
    sys.stdout.write(
        f"2,000 variations of {name}, 20B, 384 GCDs, by one pass: {2000 / asked.answered_s:,.0f} a CPU second   aim "
        f"2,000; off by {100 * alike.mean():.2f} % on average, {100 * alike.max():.2f} % at most\n"
    )
    sys.stdout.flush()


def main() -> None:
    os.chdir(ROOT)
    ratio_line("one ZeRO-3 step, 20B, 384 GCDs", "zero3-384", "0.21")
    ratio_line("the same schedule with other numbers", "other-numbers", "0.05")
    ratio_line("one ZeRO-3 step, 20B, 75,264 GCDs", "zero3-75264", "0.65")
    for name in ("zero3", "zero-topo"):
        what_ifs(name)
    seconds_line("patterns and folding of 75,264 GCDs", "fold-75264")
    for plan in PLANS:
        for size in SIZES:
            seconds_line(f"{plan}, 20B, {size:,} GCDs", f"{plan}-{size}")
    for plan in PLANS:
        seconds_line(f"{plan}, 20B, 384 GCDs of 384 speeds", f"speeds-{plan}", "10 s", runs=1)
        seconds_line(f"{plan}, 20B, 384 GCDs of 30 speeds, mixed", f"mixed-{plan}", "10 s", runs=1)
    seconds_line("zero3, 20B, 4,096 GCDs of 96 speeds", "speeds-4096", "10 s", runs=1)
    seconds_line("zero3, 20B, 384 GCDs, all calls differ", "differ-384", "10 s", runs=1)
    seconds_line("1T, 3,072 GCDs: 16 stages, 64 micro-batches, tensor 8", "1f1b")
    seconds_line("the same, sequence-parallel", "sequence-parallel")
    seconds_line("the same, interleaved in two chunks", "interleaved", runs=1)
    seconds_line("explain of its 1f1b", "explain-1f1b", runs=1)
    seconds_line("671B with experts, 2,048 GPUs: 16 stages, 64 micro-batches", "671b-1f1b", "10 s", runs=1)
    seconds_line("the same, DualPipeV", "671b-dualpipev", "10 s", runs=1)
    seconds_line("tune: 20B, 384 GCDs", "tune-20b", runs=1)
    seconds_line("tune: 30B with experts, 64 GPUs", "tune-experts", "60 s", runs=1)
    line("the first answer: 70B, 128 GCDs, 4 plans, whole process", median([*FIRST_ANSWER], runs=3), "5 s")
    for size in (16, 64, 128):
        seconds_line(f"zero3, 4 layers of the 20B, {size} GCDs, every message an event", f"messages-{size}", runs=1)
    sys.stdout.write("\n")
    for bench in added("tests.bench", FunctionType):
        bench()
    with tempfile.TemporaryDirectory() as folder:
        line("simfrontier --help", median(["--help"]), "0.4 s")
        line("the main job with sensitivity and report", median(["run", SCENARIO, "--out", folder], runs=3), "20 s")
        ratio = statistics.median(replay_to_real_step(Path(tempfile.mkdtemp(dir=folder))) for _ in range(3))
    sys.stdout.write(f"the replay of a profile of four gloo ranks: {ratio:.2f} x the step   aim 0.9 to 1.1\n")


def time_one(name: str) -> None:
    """Print the CPU seconds of some work."""
    if name not in ONCE:
        WORK[name]()
    begin = time.process_time()
    WORK[name]()
    sys.stdout.write(f"{time.process_time() - begin}\n")


if __name__ == "__main__":
    main() if len(sys.argv) == 1 else time_one(sys.argv[1])
