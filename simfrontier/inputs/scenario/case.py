"""A case: one plan of a scenario at one size, with the mesh, model and batch that follow from them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from simfrontier.base.errors import InputError
from simfrontier.core.machine import Machine, mesh_sizes
from simfrontier.core.plan import (
    MOST_MICRO_BATCHES,
    DdpOptions,
    Engine,
    Options,
    Plan,
    TensorOptions,
    engine_of,
    listed,
    make_plan,
    refuse_periods,
)
from simfrontier.core.program import Mesh
from simfrontier.core.workload import (
    Attention,
    Checkpointing,
    GptShape,
    Optimizer,
    Precision,
    Shape,
    Softmax,
    Workload,
    find_precision,
    neox_flops,
    num_blocks,
    workload_of,
)
from simfrontier.inputs.scenario.form import MeshTable, ScenarioFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One plan at one size. `micro_batch` is the number of sequences per data-parallel rank in a micro-batch,
    `grad_accum` the number of micro-batches per step, `samples` the number of sequences per step over all devices."""

    name: str
    devices: int
    options: Options
    mesh: Mesh
    plan: Plan
    shape: Shape
    batch_ranks: int
    micro_batch: int
    grad_accum: int
    checkpointing: Checkpointing
    checkpoint_every: int
    precision: Precision
    optimizer: Optimizer
    attention: Attention
    softmax: Softmax
    engine: Engine

    @property
    def samples(self) -> int:
        return self.micro_batch * self.grad_accum * self.batch_ranks

    @property
    def recomputes(self) -> bool:
        """True if the whole forward of checkpointed layers runs twice."""
        return self.checkpointing == "full"

    @property
    def recomputed_share(self) -> float:
        """Fraction of the layers whose forward runs twice."""
        if not self.recomputes:
            return 0.0
        layers = num_blocks(self.shape)
        return -(-layers // self.checkpoint_every) / layers

    @property
    def model_flops(self) -> float:
        """Floating-point operations of the model in a step, without recomputation."""
        return self.shape.step_flops(self.samples, recomputed=False)

    @property
    def hardware_flops(self) -> float:
        """Floating-point operations of the model in a step, with those that activation checkpointing repeats; as in
        `model_flops`, only half of the scores of causal attention count."""
        made, kept = replace(self, attention="fused"), replace(self, attention="fused", checkpointing="none")
        again = made.workload.matmul_flops - replace(kept, checkpoint_every=1).workload.matmul_flops
        return self.model_flops + self.grad_accum * again

    @property
    def neox_flops(self) -> float | None:
        """Floating-point operations of a step as GPT-NeoX counts them; None for a model that is not a GPT."""
        if not isinstance(self.shape, GptShape):
            return None
        return neox_flops(self.shape, self.samples, self.recomputes)

    @property
    def stages(self) -> int:
        """Number of pipeline stages: 1 without a pipeline."""
        return 1 if self.plan.pipeline is None else self.mesh[self.plan.pipeline.axis]

    @property
    def chunks(self) -> int:
        """Chunks (contiguous groups of layers) per pipeline stage."""
        return 1 if self.plan.pipeline is None else self.plan.pipeline.chunks

    @property
    def groups(self) -> tuple[tuple[range, ...], ...]:
        """Numbers of the layers of each stage, by chunk."""
        layers, pipeline = range(num_blocks(self.shape)), self.plan.pipeline
        if pipeline is None:
            return ((layers,),)
        groups, count = pipeline.groups(len(layers), self.stages), self.stages
        return tuple(
            tuple([groups[pipeline.number_of(stage, chunk, count)] for chunk in range(pipeline.chunks)])
            for stage in range(count)
        )

    @property
    def workload(self) -> Workload:
        """Graph of ops of one micro-batch over all ranks."""
        return self.workload_of(self.shape, self.micro_batch * self.batch_ranks)

    def workload_of(self, shape: Shape, batch: int) -> Workload:
        """Return the graph of ops of one micro-batch for another model shape and another batch."""
        return workload_of(
            shape,
            batch,
            self.checkpointing,
            self.precision,
            self.attention,
            self.softmax,
            self.checkpoint_every,
            self.optimizer,
        )


def case_of(
    name: str,
    options: Options,
    devices: int,
    file: ScenarioFile,
    shape: Shape,
    machine: Machine,
    batch: int | None = None,
) -> Case:
    """Return the case of a plan at a size of a scenario. `batch` is the number of sequences per step, used if the file
    sets neither this number nor the number of micro-batches. Raises InputError, with the nearest value that works, if
    the grid does not divide the devices, the model or the batch."""
    _refuse_family(options, shape)
    _refuse_statistics(options, shape)
    if isinstance(options, TensorOptions):
        options.refuse_shape(shape)
        options.refuse_attention(options.attention or file.model.attention)
    mesh = mesh_of(options, devices, file.mesh, machine)
    ranks = options.batch_ranks(mesh)
    _refuse_ranks(options, ranks, devices)
    micro_batch, grad_accum = _micro_batches(options, ranks, file, batch)
    checkpointing = options.checkpointing or file.model.checkpointing
    shape.refuse_step(grad_accum, file.model.precision, checkpointing)
    engine, every = file.engine, file.model.checkpoint_every if checkpointing == "full" else 1
    if isinstance(options, TensorOptions):
        if (stages := options.stages) is not None:
            refuse_periods(stages.groups(num_blocks(shape), options.pipeline), every)
        options.refuse_micro_batches(grad_accum)
        engine = engine_of(options, engine, ranks)
    else:
        engine = engine.on_ranks(ranks, 1)
    case = Case(
        name=name,
        devices=devices,
        options=options,
        mesh=mesh,
        plan=make_plan(name, options, mesh),
        shape=shape,
        batch_ranks=ranks,
        micro_batch=micro_batch,
        grad_accum=grad_accum,
        checkpointing=checkpointing,
        checkpoint_every=every,
        precision=precision_of(file),
        optimizer=file.model.optimizer,
        attention=options.attention or file.model.attention,
        softmax=options.softmax or file.model.softmax,
        engine=engine,
    )
    most = max(len(layers) for chunks in case.groups for layers in chunks)
    if options.offload_activations > most:
        text = (
            f"offload_activations = {options.offload_activations}; allowed: 0 to {most}, the layers in a row of a stage"
        )
        raise InputError(text)
    return case


def precision_of(file: ScenarioFile) -> Precision:
    """Return the data types of a scenario's model. Raises InputError."""
    model = file.model
    return find_precision(model.precision).keeping(model.gradients, model.master, model.moments)


def _refuse_family(options: Options, shape: Shape) -> None:
    if shape.families and options.family not in shape.families:
        allowed = " or ".join(f'"{family}"' for family in shape.families)
        raise InputError(f"model {shape.name}: got family = {options.family!r}; allowed: {allowed}")


def _refuse_ranks(options: Options, ranks: int, devices: int) -> None:
    """Raise InputError if the grid leaves another number of data-parallel ranks than the plan states."""
    stated = options.data_ranks
    if stated not in (None, ranks):
        raise InputError(
            f"data_ranks = {stated} (dp), and the grid leaves {ranks} of {devices} devices; "
            f"allowed: {ranks}, or {devices // ranks * stated} devices"
        )


def _refuse_statistics(options: Options, shape: Shape) -> None:
    """Raise InputError if a plan, or the plan on its data axes, overlaps the gathers of statistics although the model
    gathers none."""
    on_data = options.on_data
    if isinstance(on_data, DdpOptions) and on_data.overlap_statistics and not shape.gathers_statistics:
        raise InputError(f"overlap_statistics = true: {shape.name} gathers nothing for later steps; allowed: false")


def mesh_of(options: Options | None, devices: int, cut: MeshTable, machine: Machine) -> Mesh:
    """Return the mesh of a plan: that of its grid, or (node, package, gcd). Raises InputError that names the nearest
    sizes that work."""
    sizes = mesh_sizes(machine, devices, cut.devices_per_node, cut.devices_per_package)
    if not isinstance(options, TensorOptions):
        return Mesh(tuple(sizes.items()))
    per_node, per_package = cut.devices_per_node, cut.devices_per_package
    return options.mesh(devices, per_node or machine.devices_per_node, per_package or machine.devices_per_package)


def _micro_batches(options: Options, ranks: int, file: ScenarioFile, shared: int | None) -> tuple[int, int]:
    """Return (sequences per data-parallel rank in a micro-batch, micro-batches per step). `shared` is the number of
    sequences per step that is used if the file sets neither this number nor the number of micro-batches."""
    training = file.training
    own, grad_accum = options.micro_batch, options.grad_accum
    micro_batch = own or training.micro_batch
    batch = training.sequences or shared
    if batch is None:
        return micro_batch, grad_accum or training.grad_accum
    said = f"training.batch = {batch}" if training.sequences else f"a step of {batch} sequences, as other plans have,"
    said = f"a step of {batch} sequences ({training.batch})" if training.tokens else said
    if grad_accum is None:
        count = _divided(batch, said, ranks, "micro-batch", micro_batch)
        _refuse_many(count, micro_batch, said, ranks)
        return micro_batch, count
    count = _divided(batch, said, ranks, "micro-batches", grad_accum)
    if own not in (None, count):
        raise InputError(
            f"{said} over {ranks} data-parallel ranks in {grad_accum} micro-batches makes "
            f"micro_batch = {count}, got {own}; leave one of the two out"
        )
    return count, grad_accum


def _refuse_many(grad_accum: int, micro_batch: int, said: str, ranks: int) -> None:
    """Raise InputError for more micro-batches than can be simulated; each micro-batch is laid out separately."""
    if grad_accum <= MOST_MICRO_BATCHES:
        return
    samples = grad_accum * micro_batch  # of one rank in a step
    works = next(n for n in range(micro_batch, samples + 1) if samples % n == 0 and samples // n <= MOST_MICRO_BATCHES)
    raise InputError(
        f"{said} over {ranks} data-parallel ranks × micro-batch {micro_batch} makes {grad_accum} "
        f"micro-batches, allowed: up to {MOST_MICRO_BATCHES}; nearest that works: micro_batch = {works}"
    )


def _divided(batch: int, said: str, ranks: int, what: str, count: int) -> int:
    parts = ranks * count
    if batch % parts:
        near = [size for size in (batch // parts * parts, -(-batch // parts) * parts) if size]
        raise InputError(
            f"{said} does not divide over {ranks} data-parallel ranks × {what} {count} = {parts}; "
            f"nearest batches that do: {listed(near)}"
        )
    return batch // parts
