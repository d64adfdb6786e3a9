"""Tensors of a schedule under construction: values, states of weights, and buffers of moves."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from simfrontier.core.codecs import Codec
from simfrontier.core.dtypes import FLOATS, MOMENTS
from simfrontier.core.plan.layout import CutLayout
from simfrontier.core.plan.plan import Engine, Plan, WeightStates
from simfrontier.core.program import Mesh, Placement, Stage, Tensor, TensorRole, gathered_name, partial, value_name
from simfrontier.core.workload import EXPERTS, State, Value, Weight, Workload


@dataclass
class Tensors:
    """Collection of tensors by name. `sharded` are the names of the weights that must be gathered before an op can use
    them; `kept` names what backwards read from the host's memory, by layer, if stages have programs of their own."""

    workload: Workload
    plan: Plan
    mesh: Mesh
    engine: Engine
    layout: CutLayout
    by_name: dict[str, Tensor] = field(default_factory=dict)
    states: dict[str, WeightStates] = field(default_factory=dict)
    sharded: set[str] = field(default_factory=set)
    kept: Mapping[int, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.layout.kept:
            self.value(name)
        for weight in self.workload.weights.values():
            self._states_of(weight)
        for state in self.workload.states.values():
            self._kept_state(state)

    @cached_property
    def offloaded(self) -> frozenset[int]:
        """Numbers of the layers whose activations wait in the host's memory: the first ones of each group."""
        pipeline, layers = self.plan.pipeline, range(self.workload.num_layers)
        groups = (layers,) if pipeline is None else pipeline.groups(len(layers), self.mesh[pipeline.axis])
        return frozenset(layer for group in groups for layer in group[: self.plan.offloaded_layers])

    def __contains__(self, name: str) -> bool:
        return name in self.by_name

    def __getitem__(self, name: str) -> Tensor:
        return self.by_name[name]

    def declare(self, tensor: Tensor) -> None:
        """Add a tensor."""
        self.by_name[tensor.name] = tensor

    @property
    def copy_codec(self) -> Codec | None:
        """Codec of the second copies of weights; None if they have the model's own data type."""
        codec = self.plan.copy_codec
        return None if codec is None or codec.name == self.workload.precision.model else codec

    # ── values ──

    def value(
        self,
        name: str,
        placement: Placement | None = None,
        *,
        again: bool = False,
        stage: Stage | None = None,
        is_partial: bool = False,
        labels: tuple[str, ...] = (),
    ) -> str:
        """Declare a value in the placement in which it is stored, or in another `placement` (the one that a pass needs,
        or the partial one in which an op writes it), and return the tensor's name. `again` marks a recomputed value;
        `labels` are those of the op that needs or writes the value, if they differ from the value's own."""
        form = value_name(name, again, stage, is_partial)
        if form not in self.by_name:
            placed = self.layout.kept[name] if placement is None else placement
            value = self.workload.values[name]
            whole = self.workload.values[value.form_of] if value.form_of else value
            made = replace(_activation(value, whole.local, placed, self._digits(name)), dims=labels or value.dims)
            self.declare(as_form(made, name, again, stage, is_partial, value.form_of))
        return form

    def _digits(self, name: str) -> tuple[str, ...]:
        """Return the nesting of a value: if values are coded as a whole, the axes over which the sum of the value is
        scattered, provided that they divide its size."""
        hop, value, pipeline = self.plan.value_hop, self.workload.values[name], self.plan.pipeline
        if hop is None or not hop.scatters or value.persistent or value.dtype not in FLOATS:
            return ()
        outside = {*self.plan.axes, *(() if pipeline is None else (pipeline.axis,))}
        inside = tuple(axis for axis in self.mesh.live(self.mesh.names) if axis not in outside)
        return inside if math.prod(value.shape) % self.mesh.size((*self.plan.axes, *inside)) == 0 else ()

    # ── weights ──

    def _states_of(self, weight: Weight) -> None:
        raw, persistent = self.layout.gradient(weight), weight.num_elements <= self.engine.persistence_elements
        self.states[weight.name] = states = self.plan.states(weight, raw, persistent)
        home, accumulator, optimizer = (
            placement.on(self.mesh) for placement in (states.weight, states.accumulator, states.optimizer)
        )
        self._of_weight(weight, "", "weight", home, persistent=True, is_frozen=weight.is_frozen)
        if home.flat:
            self.sharded.add(weight.name)
            if states.copy is not None:  # what is whole is never gathered
                self._of_weight(weight, ".copy", "copy", states.copy, codec=self.copy_codec, persistent=True)
        if weight.is_frozen:
            return
        types = self.workload.precision
        self._of_weight(weight, ".grad", "accumulator", accumulator, types.gradients, persistent=True)
        is_orthogonal = self.workload.is_orthogonalised(weight)  # then it has one moment
        moments = types.moments if is_orthogonal else MOMENTS[types.moments]
        self._of_weight(weight, ".moments", "optimizer", optimizer, moments, persistent=True)
        self._of_weight(weight, ".master", "master", optimizer, types.master, persistent=True)
        if accumulator != raw:
            self._of_weight(weight, ".grad.raw", "gradient", raw, per_micro=True)
        if accumulator != optimizer:
            in_place = f"{weight.name}.grad" if accumulator.flat == optimizer.flat else None
            self._of_weight(weight, ".grad.reduced", "gradient", optimizer, types.gradients, shares=in_place)
        if home != optimizer:
            self._of_weight(weight, ".new", "gradient", optimizer)
        if self.workload.optimizer == "lamb":
            self._lamb(weight, optimizer)
        if is_orthogonal:
            self._muon(weight, optimizer)

    def _muon(self, weight: Weight, placement: Placement) -> None:
        """Declare the update of a matrix by its momentum, and the orthogonal one, each with whole matrices, too."""
        whole = Placement(tuple(shard for shard in placement.shards if weight.dims[shard[1]] == EXPERTS)).on(self.mesh)
        update, whole_update, orthogonal, step = ("update", "update.whole", "orthogonal", "orthogonal.own")
        own = self._of_weight(weight, f".{update}", "update", placement)
        made = self._of_weight(weight, f".{orthogonal}", "update", whole)
        if whole != own.placement:
            self.declare(replace(own, name=f"{weight.name}.{whole_update}", placement=whole, form_of=own.name))
            self.declare(replace(made, name=f"{weight.name}.{step}", placement=own.placement, form_of=made.name))

    def _lamb(self, weight: Weight, placement: Placement) -> None:
        """Declare LAMB's intermediate tensors: Adam's step before scaling, and the squared norms of this step and of
        the master weights, summed over all ranks with a part of the tensor."""
        wide = self.workload.precision.wide
        self._of_weight(weight, ".update", "update", placement, wide)
        divided = partial(placement.flat | {axis for axis, _ in placement.shards}).on(self.mesh)
        own = self._of_weight(weight, ".norms", "norms", divided, wide, shape=(2,), dims=(), nesting=())
        if divided.partial:
            self.declare(replace(own, name=f"{own.name}.total", placement=Placement(), form_of=own.name))

    def _of_weight(
        self, weight: Weight, suffix: str, role: TensorRole, placement: Placement, dtype: str = "", **other: Any
    ) -> Tensor:
        """Declare a tensor that belongs to a weight; by default it has the model's data type and a single instance for
        all micro-batches."""
        of_weight: dict[str, Any] = {
            "shape": weight.shape,
            "dims": weight.dims,
            "nesting": self._digits_of(weight, placement),
            "per_layer": weight.per_layer,
            "streams": weight.streams,
            "local": weight.local if weight.streams else None,
        }
        tensor = Tensor(
            name=weight.name + suffix,
            dtype=dtype or self.workload.precision.model,
            role=role,
            placement=placement.on(self.mesh),
            weight=weight.name,
            **of_weight | other,
        )
        self.declare(tensor)
        return tensor

    def _digits_of(self, weight: Weight, placement: Placement) -> tuple[str, ...]:
        """Return the nesting of a weight: the live axes over which it may be partitioned, which cut none of its
        dimensions (those of experts divide the samples, too)."""
        cut = {axis for axis, _ in placement.shards}
        return tuple(axis for axis in self.mesh.live(self.plan.nesting_of(weight)) if axis not in cut)

    def gathered(self, weight: Weight, stage: Stage, use: str) -> None:
        """Declare the gathered form of a weight that one pass uses: whole except for tensor-parallel shards."""
        suffix = gathered_name("", stage, use)
        if weight.name + suffix not in self.by_name:
            placement = Placement(self.states[weight.name].weight.shards)
            self._of_weight(weight, suffix, "gathered", placement, per_micro=True, pool="live", stage=stage)

    def optimizer_gradient(self, weight: Weight) -> str:
        """Return the name of the gradient that the optimizer reads."""
        reduced = f"{weight.name}.grad.reduced"
        return reduced if reduced in self.by_name else f"{weight.name}.grad"

    def norms(self, weight: Weight) -> str:
        """Return the name of the tensor of squared norms from which LAMB computes the scale of a weight's step."""
        return self.form_or_own(f"{weight.name}.norms", "total")

    def form_or_own(self, name: str, form: str) -> str:
        """Return the name of another form of a tensor; that of the tensor if it has no such form."""
        return f"{name}.{form}" if f"{name}.{form}" in self.by_name else name

    def _kept_state(self, state: State) -> None:
        """Declare a state of the model (not of the optimizer) that every rank stores whole."""
        self.declare(
            Tensor(
                name=state.name,
                shape=state.shape,
                dtype=self.workload.precision.model,
                role="constant" if state.fixed else "state",
                placement=Placement(),
                dims=state.dims,
                per_layer=state.per_layer,
                persistent=True,
                follows=state.follows or None,
                streams=state.streams,
                local=state.local if state.streams else None,
            )
        )


def as_form(like: Tensor, value: str, again: bool, stage: Stage | None, is_partial: bool, form_of: str = "") -> Tensor:
    """Return a copy of the tensor `like` that is declared as another form (placement, recomputed or partial version) of
    a value; `form_of` overrides the value of which it is a form."""
    name = value_name(value, again, stage, is_partial)
    return replace(
        like,
        name=name,
        form_of=form_of or (None if name == value else value),
        recomputes=value_name(value, False, stage, is_partial) if again else None,
        stage=stage,
    )


def _activation(value: Value, local: str, placement: Placement, nesting: tuple[str, ...]) -> Tensor:
    return Tensor(
        name=value.name,
        shape=value.shape,
        dtype=value.dtype,
        role="activation",
        placement=placement,
        dims=value.dims,
        nesting=nesting,
        per_layer=value.per_layer,
        per_micro=True,
        persistent=value.persistent,
        streams=value.streams,
        local=local if value.streams else None,
    )
