"""The command line of simfrontier-real; its ranks are started by torchrun, srun or `--ranks N`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from simfrontier.base.command_line import program, run_to_end
from simfrontier.base.errors import InputError
from simfrontier.base.extras import Verb, added
from simfrontier.base.optional import require
from simfrontier_real.options import (
    BackendOption,
    CollectivesOption,
    Device,
    DeviceOption,
    JoinOption,
    Precision,
    Ranks,
    Schedules,
    TimeoutOption,
    Unchecked,
    launch_ranks,
    parse_sizes,
    refuse_checkpoints,
    refuse_number,
    refuse_places,
    refuse_waits,
)
from simfrontier_real.ranks.device import device_kind

SIZES = "4KiB,64KiB,512KiB,1MiB,2MiB,4MiB,8MiB,16MiB"


app = program(
    "simfrontier-real",
    "Execute schedule files on real processes (gloo, NCCL, RCCL), one per rank, started "
    "by --ranks N, torchrun or srun.",
)


@app.command()
def replay(
    schedules: Schedules,
    out: Annotated[Path, typer.Option(help="folder for the traces: trace-NAME.json per schedule")],
    iterations: Annotated[int, typer.Option(min=1, help="timed steps; the trace holds medians")] = 10,
    warmup: Annotated[int, typer.Option(min=0, help="warm-up steps")] = 2,
    compute: Annotated[
        Literal["real", "wait", "none"],
        typer.Option(help="real, wait (for the simulated durations of --waits) or none"),
    ] = "real",
    waits: Annotated[
        Path | None, typer.Option(help="folder of simulated traces (trace-NAME.json) for --compute wait")
    ] = None,
    trace_ranks: Annotated[
        int | None,
        typer.Option(min=1, help="maximum number of ranks in a trace: whole hosts, evenly spread (default: all)"),
    ] = None,
    profile: Annotated[
        Path | None,
        typer.Option(help="folder for traces of PyTorch's profiler, one per rank, for simfrontier import"),
    ] = None,
    collectives: CollectivesOption = "native",
    backend: BackendOption = "gloo",
    device: DeviceOption = None,
    timeout: TimeoutOption = 60.0,
    join_timeout: JoinOption = 15.0,
    unchecked: Unchecked = False,
    ranks: Ranks = None,
) -> None:
    """Execute schedules with messages of the right sizes (with real compute also their codecs) and write a trace of
    each."""
    refuse_waits(compute, waits)
    refuse_places(out, None)
    if profile is not None:
        refuse_places(profile, None)
    device_kind(backend, device)
    launch_ranks(ranks, schedules)
    from simfrontier_real.ranks.session import session
    from simfrontier_real.replay.replay_session import ReplaySettings, replay_all

    plan = ReplaySettings(
        out=out,
        iterations=iterations,
        warmup=warmup,
        compute=compute,
        waits=waits,
        trace_ranks=trace_ranks,
        profile=profile,
    )
    with session(schedules, backend, not unchecked, join_timeout, timeout, collectives, device) as opened:
        replay_all(opened, plan)


@app.command()
def train(
    schedules: Schedules,
    steps: Annotated[int, typer.Option(min=1, help="optimizer steps")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="seed of weights and data")] = 0,
    learning_rate: Annotated[float, typer.Option(help="Adam's")] = 1e-3,
    epsilon: Annotated[
        float,
        typer.Option(
            help="Adam's epsilon; a smaller one amplifies rounding of gradients that are zero in exact arithmetic"
        ),
    ] = 1e-4,
    clip: Annotated[
        float, typer.Option(help="norm to which gradients are clipped; the small models never reach 1000")
    ] = 1000.0,
    loss_scale: Annotated[float, typer.Option(help="factor on the loss, for 16-bit gradients")] = 1.0,
    reference: Annotated[bool, typer.Option(help="compare with the unsharded model in one process")] = True,
    checkpoint: Annotated[
        Path | None, typer.Option(help="folder for checkpoints: step-NNNNNN per checkpoint, of one schedule")
    ] = None,
    every: Annotated[int, typer.Option(min=1, help="steps between checkpoints; the last step has one too")] = 5,
    keep: Annotated[int, typer.Option(min=1, help="number of the latest checkpoints to keep")] = 2,
    resume: Annotated[
        Path | None,
        typer.Option(
            help="resume from the newest complete checkpoint in this folder, by any plan of the same "
            "model on any number of ranks; --steps includes the steps before it",
            show_default=False,
        ),
    ] = None,
    start_if_none: Annotated[
        bool, typer.Option("--start-if-none", help="start from the beginning if --resume finds no complete checkpoint")
    ] = False,
    json: Annotated[Path | None, typer.Option(help="also write the results to this file")] = None,
    out: Annotated[Path | None, typer.Option(help="folder for traces of the steps: trace-NAME.json")] = None,
    collectives: CollectivesOption = "native",
    backend: BackendOption = "gloo",
    device: DeviceOption = None,
    timeout: TimeoutOption = 60.0,
    join_timeout: JoinOption = 15.0,
    unchecked: Unchecked = False,
    ranks: Ranks = None,
) -> None:
    """Train a small real model by schedules and compare the gradients of every step, losses and weights with the
    unsharded model. Exit code 1 if they differ by more than rounding, or more than the schedule's codecs and types
    explain."""
    refuse_number("--learning-rate", learning_rate)
    refuse_number("--epsilon", epsilon)
    refuse_number("--clip", clip)
    refuse_number("--loss-scale", loss_scale)
    refuse_places(out, json)
    refuse_places(checkpoint, None)
    require("real", "train")
    refuse_checkpoints(len(schedules), checkpoint, resume, start_if_none)
    device_kind(backend, device)
    launch_ranks(ranks, schedules)
    from simfrontier_real.ranks.session import session
    from simfrontier_real.train.checkpoints.run import CheckpointSettings
    from simfrontier_real.train.train_session import train_all
    from simfrontier_real.train.training_settings import Adam, TrainingSettings

    adam = Adam(learning_rate=learning_rate, epsilon=epsilon, clip=clip)
    training = TrainingSettings(steps=steps, seed=seed, adam=adam, loss_scale=loss_scale)
    checkpoints = CheckpointSettings(
        folder=checkpoint, every=every, keep=keep, resume=resume, start_if_none=start_if_none
    )
    with session(schedules, backend, not unchecked, join_timeout, timeout, collectives, device) as opened:
        good = train_all(opened, training, reference, json, out, checkpoints)
    raise typer.Exit(0 if good else 1)


@app.command()
def measure(
    out: Annotated[
        Path, typer.Option(help="calibration file (TOML) to write; a scenario names it as library.calibration")
    ],
    sizes: Annotated[str, typer.Option(help="message sizes, e.g. 4KiB,1MiB")] = SIZES,
    iterations: Annotated[int, typer.Option(min=3, help="repetitions; the file holds medians")] = 10,
    devices_per_package: Annotated[int, typer.Option(min=1, help="MI250X: 2")] = 1,
    precision: Annotated[Precision, typer.Option(help="of the matrix products: fp64, fp32, bf16, fp16")] = "fp32",
    backend: BackendOption = "gloo",
    device: DeviceOption = None,
    timeout: TimeoutOption = 60.0,
    join_timeout: JoinOption = 15.0,
    ranks: Ranks = None,
) -> None:
    """Measure collectives by kind, group and size, and local compute, and write a calibration for the simulator."""
    import datetime
    import sys

    if out.suffix != ".toml":
        raise InputError(f"--out: got {str(out)!r}; allowed: a name that ends in .toml")
    refuse_places(None, out)
    chosen = parse_sizes(sizes)
    device_kind(backend, device)
    launch_ranks(ranks)
    from simfrontier_real.measure.measure import MeasureSettings, measure
    from simfrontier_real.ranks.session import session

    plan = MeasureSettings(
        sizes=chosen,
        iterations=iterations,
        devices_per_package=devices_per_package,
        precision=precision,
    )
    command = "simfrontier-real " + " ".join(sys.argv[1:])
    with session([], backend, True, join_timeout, timeout, device=device) as opened:
        measure(opened, plan, out, datetime.date.today().isoformat(), command)


@app.command()
def rates(
    out: Annotated[
        Path, typer.Option(help="folder for products.csv and kernels.csv, which simfrontier validate reads")
    ],
    device: Annotated[
        Device, typer.Option(help="device to time: cpu (small sizes) or cuda (sizes of large models; AMD too)")
    ] = "cpu",
    machine: Annotated[
        str | None,
        typer.Option(
            help="name of the machine in the tables, e.g. h100-node (default: from the device's name)",
            show_default=False,
        ),
    ] = None,
    seconds: Annotated[
        float, typer.Option(min=1.0, help="time limit, after which nothing is started; what is left out is counted")
    ] = 300.0,
) -> None:
    """Time matrix products (bf16, fp16, tf32, fp32; squares and the models' shapes) and kernels (copies, softmax, layer
    norm, Adam, attention) on one device: medians of repeats with cold caches. Exit code 1 if some could not be
    timed."""
    import datetime

    kind = device_kind("gloo", device)
    refuse_places(out, None)
    require("real", "rates")
    from simfrontier_real.measure.rates import RateSettings, measure_rates

    when = datetime.date.today().isoformat()
    settings = RateSettings(kind=kind, out=out, machine=machine, seconds=seconds, when=when)
    raise typer.Exit(0 if measure_rates(settings, typer.echo) else 1)


@app.command()
def device(
    out: Annotated[Path | None, typer.Option(help="also write them to this file (JSON)")] = None,
) -> None:
    """Print what real runs depend on here: the device, its driver, and the versions of torch, CUDA or ROCm, and NCCL.
    Exit code 1 if a needed package is missing."""
    import json

    from simfrontier.base.wholefile import write_whole
    from simfrontier_real.measure.device_facts import device_facts, lines_of

    refuse_places(None, out)
    facts = device_facts()
    for line in lines_of(facts):
        typer.echo(line)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_whole(out, json.dumps(facts, indent=1) + "\n")
    raise typer.Exit(1 if facts["missing_packages"] else 0)


@app.command()
def gpu(
    out: Annotated[
        Path, typer.Option(help="folder for all results and summary.json; one of an earlier run is replaced")
    ] = Path("reports/gpu"),
    machine: Annotated[
        str | None,
        typer.Option(help="name of the machine in the tables of rates, e.g. h100-node", show_default=False),
    ] = None,
) -> None:
    """Run all checks of one GPU, in eight minutes: nccl with one rank; four ranks that share the GPU over gloo
    (training, and a cross-check with the simulation); times of products and kernels; the tests that need a GPU. Each
    step has a time limit, and none stops the others. Needs a checkout. Exit code 1 if a step fails or there is no
    GPU."""
    from simfrontier_real.measure.gpu import GpuRun, run_gpu

    raise typer.Exit(run_gpu(GpuRun(out=out, machine=machine), typer.echo))


for verb in added("real.verbs", Verb):
    app.command(verb.name, hidden=verb.hidden)(verb.function)


def main() -> None:
    """Run a command; errors of a run end it in `session`, errors before it here."""
    import os

    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")  # its errors reach us as exceptions
    run_to_end("simfrontier-real", app)
