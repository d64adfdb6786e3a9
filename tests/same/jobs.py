"""The commands whose outputs must stay the same, and the steps whose times must."""

from __future__ import annotations

from typing import Final

from simfrontier.base.extras import added
from tests.same.job import Job, Step, run

PERTURBED: Final = (
    "perturbation.slow=[{device=3, factor=0.5}, {device=6, factor=0.9}]",
    'perturbation.links=[{node=0, link="nic0>net", factor=0.4}]',
)

MAIN_JOB: Final = run("main job", "frontier-20b")
ONE_STEP: Final = run(
    "one ZeRO-3 step on 384",
    "frontier-20b",
    *("--plans", "zero3", "--devices", "384", "--no-sensitivity", "--no-page"),
    repeats=5,
)
TIMED: Final = (MAIN_JOB, ONE_STEP)

JOBS: Final = (
    *TIMED,
    run("toy", "toy"),
    run("toy, analytic", "toy", "--fidelity", "analytic", "--no-page"),
    run("toy, chunk", "toy", "--fidelity", "chunk", "--devices", "2,8", "--no-page"),
    run("10B", "frontier-10b", "--no-page", "--no-sensitivity"),
    run("1T in three dimensions", "frontier-1t-3d", "--no-page", "--no-sensitivity"),
    *(run(name, name, "--no-page") for name in ("compressed-3d", "cross-entropy", "softmax", "crosscheck")),
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
    *added("tests.same_jobs", Job),
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
    Step(name="cross-entropy one-gather", scenario="cross-entropy", plan="one-gather", devices=8),
    *added("tests.same_steps", Step),
)
