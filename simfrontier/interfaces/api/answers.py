"""Python functions that simulate steps, check and export schedules, search for plans, explain steps and validate
models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simfrontier.answers.accuracy import Validation, find_runs, runs_frame, validate_files, validate_shipped
from simfrontier.answers.explain import Explanation, explain as explanation
from simfrontier.answers.search import GridSearcher, TuningOutcome, Value, tune as search
from simfrontier.answers.study import schedule_of, simulated
from simfrontier.base.errors import InputError, nearest, shown, wrong
from simfrontier.base.workers import Local, Workers
from simfrontier.core.engine import Fidelity, SimulatedStep
from simfrontier.core.plan import own_families
from simfrontier.core.program import Finding, check as check_schedule, save
from simfrontier.inputs.measured import Setup
from simfrontier.inputs.scenario import Scenario
from simfrontier.interfaces.api import given
from simfrontier.interfaces.api.comparison import Comparison, num_simulations, view_of
from simfrontier.interfaces.api.scenarios import USUAL_PLANS, Plans, load, new_scenario
from simfrontier.interfaces.progress import asked

Progress = Callable[..., None] | bool | None

if TYPE_CHECKING:
    import pandas as pd


def simulate(
    scenario: Scenario | str | Path,
    plan: str | None = None,
    *,
    devices: int | None = None,
    fidelity: Fidelity | None = None,
    exact: bool = False,
) -> SimulatedStep:
    """Simulate one training step of one plan on a number of devices.

    The plan's schedule is built and checked first. The step is nominal: no variation between devices, no model errors,
    which `compare` adds.

    Args:
        scenario: what is trained where: a scenario of `load` or `new_scenario`, the path of a scenario file, or the
            name of a shipped one (`simfrontier list scenarios`).
        plan: name of one of the scenario's plans. Default: its first.
        devices: number of devices (GPUs; GCDs, the halves of an MI250X). Default: the scenario's largest.
        fidelity: how communication is simulated: "flow" (messages share links), "analytic" (no contention) or "chunk"
            (every message of a collective, up to 128 ranks). Default: the scenario's, usually "flow".
        exact: simulate every rank, instead of one for all that do the same. Slower, with the same result.

    Returns:
        A `SimulatedStep`: `.step_s` and `.compute_s` in seconds, `.fidelity`, and every operation with its times.

    Raises:
        InputError: for an invalid plan, size or fidelity; one line that says what is allowed.
        SimfrontierError: if no candidate of a plan that leaves options open fits into memory, or the check of the
            schedule fails.

    Example:
        >>> import simfrontier as sf
        >>> sf.simulate("toy", "zero3", devices=8).step_s
    """
    chosen = given.fidelity(fidelity)
    read = read_scenario(scenario)
    name, size = case_named(read, plan, devices)
    searcher = GridSearcher()
    read = searcher.resolved(read, (size,), (name,))
    built = searcher.schedule_cache.get(read, name, size)
    return simulated(read.of(name, size), built, chosen or read.file.run.fidelity, given.flag(exact, "exact"))


def compare(
    scenario: Scenario | str | Path,
    model: str | Mapping[str, Any] | None = None,
    plans: Plans | None = None,
    *,
    devices: int | Sequence[int] | None = None,
    nodes: int | Sequence[int] | None = None,
    batch: int | str | None = None,
    settings: given.Settings | None = None,
    fidelity: Fidelity | None = None,
    exact: bool = False,
    vary: bool = False,
    jobs: int = 1,
    progress: Progress = None,
) -> Comparison:
    """Simulate a training step of several parallelisation plans on several numbers of devices, and compare them.

    A plan says how the model and its training state are divided over the devices: ZeRO, FSDP, tensor, pipeline or
    expert parallelism. `compare` takes either a machine and a model, as in the example, or a scenario, which holds all
    that a comparison needs. In a notebook the result is displayed as a sentence, a table and a chart. A case (a plan
    at a size) takes from a tenth of a second to some seconds.

    Args:
        scenario: with `model`, the machine: a name (`sf.machines()`) or the path of a TOML file that describes yours.
            Without `model`, a scenario: the path of a scenario file, the name of a shipped one (`simfrontier list
            scenarios`), or one of `load` or `new_scenario`.
        model: what is trained: a name (`sf.models()`), or a dict of its sizes such as {"num_layers": 32, "hidden":
            4096, "heads": 32, "sequence": 2048, "vocabulary": 50304} (keys `model.…` of `sf.keys()`). A named model
            has a length of sequences, too; another: settings={"model.sequence": 8192}. Attention is fused and layers
            are recomputed unless the settings say otherwise.
        plans: text, list or dict; how training is parallelised: names (`sf.plans()`), grids in the words of launch
            scripts ("tp 8 pp 2; zero3": ranks of tensor, pipeline, context (cp) and expert (ep) parallelism, and vp,
            virtual stages of a rank; the rest is data parallel, with ZeRO-1), or a dict from a name of yours to the
            options of that plan. Default: six variants of ZeRO; of a scenario its own plans.
        devices: numbers of devices to simulate, one or several. A device is a GPU; on an MI250X it is a GCD, of which
            a GPU has two. Required with `model`, unless nodes are given; of a scenario its own by default.
        nodes: numbers of nodes of the machine, instead of `devices`, beside `model`.
        batch: the global batch, the same for all plans: sequences per step over all devices, or its tokens as a text
            ("4M": 4,000,000, moved by up to 5 % to sequences that all plans divide). Default: as usual for models of
            this size (`docs/defaults.md`); of a scenario its own.
        settings: dict of any other keys of a scenario (`sf.keys()`) with their values, such as {"training.micro_batch":
            2} (sequences of a device at once).
        fidelity: how communication is simulated: "flow" (messages share links), "analytic" (no contention) or "chunk"
            (every message of a collective, up to 128 devices). Default: the scenario's, usually "flow".
        exact: simulate every device, instead of one for all that do the same: slower, the same result, to check it.
        vary: simulate also what a scenario's file lists besides: other values of settings that are not known exactly,
            slow or failed components; and other software stacks. Slower.
        jobs: number of processes. 1: this one alone.
        progress: None, bool or function. None shows a bar in notebooks only; True shows one anywhere, False nowhere; a
            function is called with a short text after each case.

    Returns:
        A `Comparison`. `.verdict` is one sentence: the fastest plan and its lead. `.summary()` is a DataFrame with a
            row per plan and number of devices: `plan`, `devices`, `grid` (degrees of parallelism), `stack` (the
            training software usual for the plan, such as DeepSpeed; part of the difference between plans),
            `tokens_per_s_per_device` with its 90 % interval (`tokens_per_s_per_device_low`, `…_high`), `step_time_s`,
            `tflops_per_device` and `mfu` (of the model's own operations, without recomputation), `peak_memory_bytes` of
            a device and `memory_capacity_bytes`. `.frame()` has all columns, documented on the page "Columns": also
            `tokens_per_s` of all devices, `micro_batch`, `grad_accum`, `fits`, exposed communication in seconds, bytes
            sent. Values are medians over samples of what varies between runs; NaN where a plan does not fit into
            memory. Plans share most of the simulator's error, so intervals may overlap where the verdict is sure; it
            says "too close to call" where the lead is within the error of such leads. `.figure()` draws charts,
            `.to_html()` gives the whole page.

    Raises:
        InputError: for an unknown name or an impossible value; one line that says what is allowed.
        SimfrontierError: if no candidate of a plan that leaves options open (such as its grid) fits into memory, or
            the check of a schedule fails.

    Example:
        >>> import simfrontier as sf
        >>> study = sf.compare("frontier", "gpt-13b", ["zero3", "zero-topo"], devices=[8, 64])
        >>> study.verdict
        >>> study.summary()
        >>> sf.compare("frontier", "llama-3-70b", "zero3; tp 8 pp 2; tp 8 pp 2 vp 4", devices=128, batch="4M")
    """
    chosen = given.fidelity(fidelity)
    settings = given.settings(settings or {}, batch)
    if model is None:
        if counts := given.nodes(nodes):
            raise InputError(f"got {shown(list(counts))}; allowed: beside model; of a scenario devices", where="nodes")
        read = _read(scenario, plans, given.sizes(devices), settings)
    else:
        if isinstance(scenario, Scenario | Path):
            raise InputError("model: got one beside a scenario; allowed: beside the name of a machine")
        wanted = USUAL_PLANS if plans is None else plans
        read = new_scenario(scenario, model, wanted, devices=devices, nodes=nodes, settings=settings)
    exact, vary, processes = given.flag(exact, "exact"), given.flag(vary, "vary"), given.jobs(jobs)
    _refuse_jobs(read, processes)
    with asked(progress, "simulating", num_simulations(read, vary, vary)) as report:
        return Comparison(view=view_of(read, chosen, exact, vary, Local(jobs=processes), report, trouble=vary))


def read_scenario(scenario: Scenario | str | Path) -> Scenario:
    """Return the given scenario, or read it if a path is given."""
    return scenario if isinstance(scenario, Scenario) else load(scenario)


def case_named(scenario: Scenario, plan: str | None, devices: int | None) -> tuple[str, int]:
    """Return the name of a plan and a number of devices; the defaults are the scenario's first plan and its largest
    size. Raises InputError if the scenario has no plan of that name."""
    name = given.name(plan) or next(iter(scenario.plans))
    size = given.size(devices)
    if name not in scenario.plans:
        raise InputError(f"plan {name!r}: {nearest(name, tuple(scenario.plans))}")
    return name, max(scenario.file.run.devices) if size is None else size


def _read(
    scenario: Scenario | str | Path, plans: Plans | None, devices: tuple[int, ...], settings: given.Settings | None
) -> Scenario:
    if isinstance(plans, Mapping):
        raise InputError("plans: got tables beside a scenario; allowed: names of its plans, or of families")
    names = given.names(plans or ())
    if not isinstance(scenario, Scenario):
        return load(scenario, settings, names, devices)
    if names or devices or settings:
        raise InputError("plans, devices and settings are the scenario's own; allowed: give them to load()")
    return scenario


def _refuse_jobs(scenario: Scenario, jobs: int) -> None:
    """Raise InputError for several processes if the scenario uses plan families defined in this process only: worker
    processes do not know them."""
    own = [name for name, options in scenario.plans.items() if options.family in own_families()]
    if jobs > 1 and own:
        raise InputError(f"jobs: got {jobs}, but plan {own[0]!r} is of a family of this process; allowed: 1")


def check(
    scenario: Scenario | str | Path, plan: str | None = None, *, devices: int | None = None, memory: bool = True
) -> tuple[Finding, ...]:
    """Check the schedule of a plan for errors, without simulating it.

    Args:
        scenario: as in `simulate`.
        plan: name of one of the scenario's plans. Default: its first.
        devices: number of devices. Default: the scenario's largest.
        memory: compare the peak memory with the capacity of a device, too.

    Returns:
        The findings about placements, weight versions, sums of gradients, order of operations, deadlock and memory;
            empty if the check passes.
    """
    read = read_scenario(scenario)
    name, size = case_named(read, plan, devices)
    capacity = int(read.of(name, size).machine.device.hbm_bytes) if given.flag(memory, "memory") else None
    return tuple(check_schedule(schedule_of(read, name, size), capacity).findings)


def export(
    scenario: Scenario | str | Path, plan: str | None = None, *, devices: int | None = None, out: str | Path
) -> Path:
    """Write a plan's schedule as the JSON file that `simfrontier check` and `simfrontier-real` read.

    Args:
        scenario: as in `simulate`.
        plan: name of one of the scenario's plans. Default: its first.
        devices: number of devices. Default: the scenario's largest.
        out: path of the file.

    Returns:
        The path of the file.

    Raises:
        InputError: if it cannot be written.
    """
    read = read_scenario(scenario)
    name, size = case_named(read, plan, devices)
    path = given.path(out, "out", "the path of a file")
    save(schedule_of(read, name, size), path)
    return path


def tune(
    scenario: Scenario | str | Path,
    *,
    devices: int | None = None,
    pins: Mapping[str, Value | Sequence[Value]] | None = None,
    lossy: bool | None = None,
    max_error: float | None = None,
    simulate: int | None = None,
    jobs: int = 1,
    progress: Progress = None,
) -> TuningOutcome:
    """Search for the fastest plans for a scenario's machine, model and batch.

    Thousands of plans are estimated, the best of them simulated. Takes seconds to minutes.

    Args:
        scenario: as in `simulate`; its own plans are ignored.
        devices: number of devices. Default: the scenario's largest.
        pins: dimensions of the search with the values to which they are confined, such as {"tensor": [4, 8],
            "family": "megatron"}.
        lossy: try plans that compress messages, too. Default: as the scenario says, usually not.
        max_error: largest relative error of a gradient by compression.
        simulate: number of plans to simulate. Default: the scenario's.
        jobs: number of processes.
        progress: as in `compare`; a function is called with a stage, and how many of how many parts are done.

    Returns:
        A `TuningOutcome`: `.best` plan, `.why` in one sentence, `.plans`, and `.frame()`, a DataFrame with a row per
            plan, the fastest first, and the columns of `compare`.

    Raises:
        InputError: for an unknown dimension or value; one line that says what is allowed.

    Example:
        >>> import simfrontier as sf
        >>> scenario = sf.new_scenario("perlmutter", "llama-3-8b", devices=64)
        >>> sf.tune(scenario, pins={"family": "zero"}).frame()
    """
    if pins is not None and not isinstance(pins, Mapping):
        raise InputError(wrong(pins, 'a dict of dimensions, e.g. {"tensor": [4, 8]}'), where="pins")
    with asked(progress, "laying out the space of plans") as report:
        return search(
            read_scenario(scenario),
            devices=given.size(devices),
            pins=pins and {key: given.plain(value) for key, value in pins.items()},
            lossy=None if lossy is None else given.flag(lossy, "lossy"),
            max_error=given.number(max_error, "max_error", "0 to below 1"),
            simulate=None if simulate is None else given.count("simulate", simulate),
            place=Local(jobs=given.jobs(jobs)),
            progress=report,
        )


def explain(
    scenario: Scenario | str | Path,
    plan: str | None = None,
    *,
    devices: int | None = None,
    against: str | None = None,
    measured: float | None = None,
    fidelity: Fidelity | None = None,
    what_if: bool = True,
    jobs: int = 1,
    progress: Progress = None,
) -> Explanation:
    """Say where the time of a plan's step goes, what would help, and how it differs from another plan.

    Args:
        scenario: as in `simulate`.
        plan: name of the plan to explain. Default: the fastest, and `.ranking` compares all.
        devices: number of devices. Default: the scenario's largest.
        against: the plan to compare with. Default: the best other one. `"runs"`: the nearest published run instead, or
            the name of one, as in `runs`.
        measured: your own tokens per second and device, beside published runs.
        fidelity: as in `simulate`.
        what_if: simulate changes of settings that may help, too; most of the time goes there.
        jobs: number of processes.
        progress: as in `compare`; a function is called with a text, and how many simulations there are in all.

    Returns:
        An `Explanation`: `.frame()` has a row per part of the step (`spent`, the category; `kind` of operation, `axes`
            and `level` of the network; `seconds`, `share`, `calls`, `words`), `.changes_frame()` a row per simulated
            change with its saving and `settings`; `.against` is the comparison with the other plan, `.published` that
            with a published run, and `.published_frame()` has a row per difference with its `factor`.

    Raises:
        InputError: for an invalid plan, size or fidelity.
        SimfrontierError: if the plan does not fit into memory.

    Example:
        >>> import simfrontier as sf
        >>> sf.explain("toy", "zero3", devices=8).frame()[["words", "seconds", "share"]]
    """
    with asked(progress, "simulating") as report:
        return explanation(
            read_scenario(scenario),
            given.name(plan),
            devices=given.size(devices),
            against=given.name(against, "against"),
            measured=given.number(measured, "measured", "tokens per second and device, above 0"),
            fidelity=given.fidelity(fidelity),
            what_if=given.flag(what_if, "what_if"),
            place=Local(jobs=given.jobs(jobs)),
            progress=report if callable(progress) else lambda stage, total: report(stage, total=total),
        )


def runs(model: str | None = None, machine: str | None = None) -> pd.DataFrame:
    """List published training runs beside their predictions.

    Args:
        model: name of a model, or words of one, such as "llama-3-70b". Default: all.
        machine: name of a machine, or of its devices, such as "h100". Default: all.

    Returns:
        A DataFrame with a row per run: `run` (file and line), `model` (as its source writes it) and `shape` (its name
            in the catalog), `machine` and `stack` (that it is simulated with), `system` and `plan` (as the source
            writes them), `devices`, `batch` (sequences of a step), `sequence`, `precision`; `tokens_per_s_per_device`
            and `tflops_per_device` (the model's, without recomputation) as measured, `value` and `unit` as printed;
            `predicted`: tokens per second and device by a fit that has not seen the run's machine, with the ends of its
            90 % interval, `low` and `high`, and its `error` (predicted / measured - 1, of the rates); `source`.

    Raises:
        InputError: if there is no such run.

    Example:
        >>> import simfrontier as sf
        >>> sf.runs("llama-3-70b", "h100")[["run", "plan", "tokens_per_s_per_device", "predicted"]]
    """
    part = "a name or words of one, as in runs()"
    return runs_frame(find_runs(given.name(model, "model", part), given.name(machine, "machine", part)))


def validate(
    *files: str | Path, machine: str | None = None, library: str | None = None, cross: bool = False, jobs: int = 1
) -> Validation:
    """Compare predicted times of collectives with measured ones: the project's tables, or yours.

    Args:
        files: paths of files or folders: CSV, output of nccl-tests, rccl-tests or OSU, logs of NCCL's Inspector or of
            DeepSpeed's communication, dumps of PyTorch's flight recorder, Chrome traces of simfrontier-real. Default:
            the measured tables that come with simfrontier.
        machine: name of the machine, for logs that do not say it.
        library: name of the collective library, for logs that do not say it.
        cross: also predict every row of the project's tables by parameters fitted without the rows of the same number
            of devices (takes a minute).
        jobs: number of processes.

    Returns:
        A `Validation`. `.frame()` has a row per measured time: `table`, `place` in it, `measured_s` and `predicted_s`
            (NaN without a prediction, then `why`), `low_s` and `high_s` of its interval, `error` (predicted / measured
            − 1), and `use`: whether a fit has seen the row.

    Raises:
        InputError: for a file that cannot be read, or without a row that can be predicted.

    Example:
        >>> import simfrontier as sf
        >>> sf.validate().frame().groupby("table")["error"].median()
    """
    if not files:
        if machine is not None or library is not None:
            raise InputError("machine and library: are of files of your own; allowed: beside these")
        with Workers(Local(jobs=given.jobs(jobs))) as workers:
            return validate_shipped(cross, workers)
    paths = [given.path(file, "validate", 'paths of files, e.g. validate("a.csv", "b.log")') for file in files]
    return validate_files(paths, Setup(machine=machine, library=library), None)
