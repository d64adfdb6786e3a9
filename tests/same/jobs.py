"""The commands whose outputs must stay the same, and the steps whose times must."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]

PERTURBED: Final = (
    "perturbation.slow=[{device=3, factor=0.5}, {device=6, factor=0.9}]",
    'perturbation.links=[{node=0, link="nic0>net", factor=0.4}]',
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One call of the command line. `{out}` in an argument stands for the job's own folder, in which it leaves files;
    standard output is kept beside them. `repeats`: how often it runs, so that its CPU seconds are a median."""

    name: str
    arguments: tuple[str, ...]
    repeats: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step that is simulated for its exact times: a plan of a scenario at a size, and how it is simulated."""

    name: str
    scenario: str
    plan: str
    devices: int
    fidelity: str = "flow"
    exact: bool = False
    settings: tuple[str, ...] = ()


def path_of(scenario: str) -> str:
    """Where the scenario of that name is, from the top of the checkout: with the core's, or in the folder of an
    extra."""
    name = f"{scenario}.toml"
    of_extra = ROOT.glob(f"simfrontier_extras/*/scenarios/{name}")
    return next((str(path.relative_to(ROOT)) for path in of_extra), f"scenarios/{name}")


def _run(name: str, scenario: str, *more: str, repeats: int = 1) -> Job:
    return Job(name=name, arguments=("run", path_of(scenario), "--out", "{out}", *more), repeats=repeats)


MAIN_JOB: Final = _run("main job", "frontier-20b")
ONE_STEP: Final = _run(
    "one ZeRO-3 step on 384",
    "frontier-20b",
    *("--plans", "zero3", "--devices", "384", "--no-sensitivity", "--no-page"),
    repeats=5,
)
TIMED: Final = (MAIN_JOB, ONE_STEP)

JOBS: Final = (
    *TIMED,
    _run("toy", "toy"),
    _run("toy, analytic", "toy", "--fidelity", "analytic", "--no-page"),
    _run("toy, chunk", "toy", "--fidelity", "chunk", "--devices", "2,8", "--no-page"),
    _run("10B", "frontier-10b", "--no-page", "--no-sensitivity"),
    _run("1T in three dimensions", "frontier-1t-3d", "--no-page", "--no-sensitivity"),
    _run("80B on Perlmutter", "axonn-perlmutter-80b", "--no-page", "--no-sensitivity"),
    _run("weak scaling", "axonn-frontier-weak-scaling", "--devices", "512,8192", "--no-page", "--no-sensitivity"),
    _run("Lassen", "lassen-neox-20b", "--devices", "96", "--no-page", "--no-sensitivity"),
    *(
        _run(name, name, "--no-page")
        for name in ("compressed-3d", "cross-entropy", "softmax", "crosscheck", "emulate", "mugs-vit-l")
    ),
    _run("mugs-vit-l-frontier", "mugs-vit-l-frontier", "--devices", "8,40", "--no-page"),
    Job(
        name="export at chunk",
        arguments=("export", "scenarios/toy.toml", "--devices", "8", "--fidelity", "chunk", "--out", "{out}"),
    ),
    Job(name="export of a pipeline", arguments=("export", "scenarios/compressed-3d.toml", "--out", "{out}")),
    Job(
        name="explain",
        arguments=("explain", "scenarios/toy.toml", "--plan", "zeropp", "--against", "zero3", "--json"),
    ),
    Job(
        name="tune",
        arguments=(
            *("tune", "scenarios/toy.toml", "--devices", "8", "--simulate", "6", "--jobs", "1"),
            *("--lossy", "--json", "--out", "{out}"),
        ),
    ),
    Job(name="validate", arguments=("validate", "--json")),
)

_TOY_PLANS: Final = ("zero3", "ddp", "zero1", "zero2", "hsdp", "zeropp", "zero-topo", "my-own")
_SMALL_PIPELINE: Final = ("model.num_layers=16", "training.grad_accum=8")

STEPS: Final = (
    *(Step(name=f"toy {plan}", scenario="toy", plan=plan, devices=16) for plan in _TOY_PLANS),
    *(Step(name=f"toy {plan}, exact", scenario="toy", plan=plan, devices=8, exact=True) for plan in _TOY_PLANS),
    *(
        Step(name=f"toy {plan}, {fidelity}", scenario="toy", plan=plan, devices=8, fidelity=fidelity)
        for plan in _TOY_PLANS
        for fidelity in ("analytic", "chunk")
    ),
    *(
        Step(name=f"toy {plan}, perturbed", scenario="toy", plan=plan, devices=16, settings=PERTURBED)
        for plan in ("zero3", "zeropp", "zero-topo")
    ),
    *(
        Step(name=f"20B {plan} on {devices}", scenario="frontier-20b", plan=plan, devices=devices)
        for plan in ("zero3", "zero1", "zeropp", "zero-topo")
        for devices in (64, 384)
    ),
    *(
        Step(
            name=f"1T {plan}{', exact' * exact}, {fidelity}",
            scenario="frontier-1t-3d",
            plan=plan,
            devices=256,
            fidelity=fidelity,
            exact=exact,
            settings=_SMALL_PIPELINE,
        )
        for plan in ("1f1b", "gpipe", "sequence-parallel")
        for fidelity, exact in (("flow", False), ("analytic", False), ("flow", True))
    ),
    *(
        Step(
            name=f"1T {name}, {fidelity}",
            scenario="frontier-1t-3d",
            plan="1f1b",
            devices=256,
            fidelity=fidelity,
            settings=(*_SMALL_PIPELINE, "plans.1f1b.pipeline=4", *settings),
        )
        for name, settings in (
            ("overlapping exchanges", ("plans.1f1b.overlap_exchange=true",)),
            ("interleaved", ("plans.1f1b.order=interleaved", "plans.1f1b.chunks=2")),
        )
        for fidelity in ("flow", "analytic")
    ),
    *(
        Step(name=f"compressed {plan}", scenario="compressed-3d", plan=plan, devices=8)
        for plan in ("plain", "naive-zfp", "MZHybrid")
    ),
    *(
        Step(name=f"Mugs {plan} on {devices}", scenario="mugs-vit-l", plan=plan, devices=devices)
        for plan in ("blocking", "overlapped")
        for devices in (8, 40)
    ),
    Step(name="80B megatron", scenario="axonn-perlmutter-80b", plan="megatron", devices=1024),
    Step(name="80B axonn", scenario="axonn-perlmutter-80b", plan="axonn", devices=1024),
    Step(name="cross-entropy one-gather", scenario="cross-entropy", plan="one-gather", devices=8),
)
