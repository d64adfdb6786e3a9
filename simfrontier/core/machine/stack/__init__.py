"""Software stacks: properties of training engines and their kernels, read from TOML files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final

from simfrontier.base.io import SOURCED, AtLeastOne, NotNegative, Switch, Text, typed
from simfrontier.core.machine import AttentionKernel, Catalog, ExpertProducts, Machine, MatmulForms, NarrowType

CATALOG: Final = Path(__file__).parent / "catalog"
FILES: Final = Catalog(folder=CATALOG, what="stack")
PLAIN: Final = ("ddp", "zero1", "zero2", "zero3", "hsdp")  # families that are data parallel, without codes of their own
OF_DEVICE: Final = ("kernel_gap_s", "misaligned", "matmul_forms")  # keys of `kernels` that replace the device's
NONE: Final = "none"  # in a stack's place: kernels as fused as the model's graph, defaults of the scenario's keys

# The stack that people run plans of a family with, where a scenario names none. Plans of one's own are taken to be
# built on DeepSpeed as ZeRO++ and ZeRO-topo are, so that they are compared with these on equal terms.
USUAL: Final = {
    "ddp": "fsdp1-flash2",
    "zero1": "deepspeed",
    "zero2": "deepspeed",
    "zero3": "deepspeed",
    "zeropp": "deepspeed",
    "zero-topo": "deepspeed",
    "lattice": "deepspeed",
    "hsdp": "fsdp2",
    "megatron": "megatron-core",
    "axonn": "axonn",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StackKernels:
    """Properties of a stack's kernels. `attention`: which of the device's fused attention kernels the stack calls, if a
    model's attention is fused. `attention_keys`, `attention_features`, `pointwise_traffic`, `traffic_of`, `products`,
    `cast_bytes`, `sum_bytes`, `experts`, `pads_rows`, `masks`: see `machine.Kernels`. `persistent`: whether products
    are persistent kernels on devices whose library has such (`machine.Kernels`). `kernel_gap_s`, `misaligned`,
    `matmul_forms`: see `machine.Device`; present if this stack's host code or BLAS library performs differently from
    that of the machine's file."""

    attention: AttentionKernel | None = None
    attention_keys: Annotated[NotNegative, SOURCED] = 0.0
    attention_features: Annotated[NotNegative, SOURCED] = 0.0
    pointwise_traffic: Annotated[AtLeastOne, SOURCED] = 1.0
    traffic_of: Mapping[str, Annotated[AtLeastOne, SOURCED]] = field(default_factory=dict, hash=False)
    products: Mapping[str, Annotated[AtLeastOne, SOURCED]] = field(default_factory=dict, hash=False)
    cast_bytes: Mapping[NarrowType, Annotated[NotNegative, SOURCED]] = field(default_factory=dict, hash=False)
    sum_bytes: Mapping[str, Annotated[NotNegative, SOURCED]] = field(default_factory=dict, hash=False)
    experts: ExpertProducts = "one"
    pads_rows: Annotated[bool, Switch(), SOURCED] = False
    masks: Annotated[bool, Switch(), SOURCED] = False
    persistent: Annotated[bool, Switch(), SOURCED] = False
    kernel_gap_s: Annotated[NotNegative, SOURCED] | None = None
    misaligned: Annotated[NotNegative, SOURCED] | None = None
    matmul_forms: MatmulForms | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StackHost:
    """Properties of a stack's host code: the times of `machine.Host`, on the host processors of the machines."""

    hook_s: Annotated[NotNegative, SOURCED] | None = None
    experts_s: Annotated[NotNegative, SOURCED] = 0.0
    experts_backward_s: Annotated[NotNegative, SOURCED] = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StackMemory:
    """Memory use of a stack. `reserved_bytes`: device memory in bytes that holds no tensors of the schedule, but
    contexts, communicators' buffers and workspaces."""

    reserved_bytes: Annotated[NotNegative, SOURCED] = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """Software stack, read from a file, which may name another one as its `base` and then contains only the
    differences.

    `families`: plan families that usually run with this stack, where a scenario names no stack (empty: the stack is
    used only where a scenario names it). `gradients`: number type in which the stack accumulates gradients, by the
    model's number type, if they differ; `reduced`: the number type in which ranks reduce them, by the model's number
    type, if that is not the type in which they are accumulated; `engine`: defaults for keys of a scenario's `engine`
    table; `plans`: defaults for keys of plans, by plan family.
    """

    name: Text
    title: Text
    families: tuple[Text, ...] = ()
    kernels: StackKernels = StackKernels()
    host: StackHost | None = None
    memory: StackMemory = StackMemory()
    gradients: Mapping[str, str] = field(default_factory=dict, hash=False)
    reduced: Mapping[str, str] = field(default_factory=dict, hash=False)
    engine: Mapping[str, bool | int | float | str] = field(default_factory=dict, hash=False)
    plans: Mapping[str, Mapping[str, bool | int | float | str]] = field(default_factory=dict, hash=False)

    def under(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Return a scenario's document with this stack's defaults filled in for missing keys. Parts of a wrong type
        stay as they are; a later check refuses them."""
        plans, model, engine = document.get("plans"), document.get("model"), document.get("engine", {})
        out = dict(document)
        if isinstance(engine, dict):
            out["engine"] = {**self.engine, **engine}
        precision = model.get("precision") if isinstance(model, dict) else None
        if isinstance(model, dict) and isinstance(precision, str) and precision in self.gradients:
            out["model"] = {"gradients": self.gradients[precision], **model}
        if isinstance(plans, dict):
            every = {name: self.plan(table, name) for name, table in plans.items()}
            codec = self.reduced.get(precision) if isinstance(precision, str) else None
            out["plans"] = (
                every if codec is None else {name: _reducing(name, each, codec) for name, each in every.items()}
            )
        return out

    def plan(self, table: Any, name: str = "") -> Any:
        """Return a plan's table with this stack's defaults, also in the nested table of the plan on its data axes;
        `name` is the plan family if the table names none."""
        if isinstance(table, str):  # a family's name stands for its table
            return {"family": table, **self.plans[table]} if table in self.plans else table
        if not isinstance(table, dict):
            return table
        own = {**self.plans.get(str(table.get("family", name)), {}), **table}
        return {**own, "data": self.plan(own["data"])} if "data" in own else own

    def on(self, machine: Machine) -> Machine:
        """Return the machine as this stack uses it: with the stack's kernels and host times, and without the device
        memory that the stack reserves."""
        own, device, host = self.kernels, machine.device, machine.host
        changed = {key: part for key in OF_DEVICE if (part := getattr(own, key)) is not None}
        device = replace(device, hbm_bytes=max(0.0, device.hbm_bytes - self.memory.reserved_bytes), **changed)
        if self.host is not None:
            times = {each.name: getattr(self.host, each.name) for each in fields(self.host)}
            host = replace(host, **{name: time for name, time in times.items() if time is not None})
        kernels = replace(
            machine.kernels,
            attention=self._attention_of(machine),
            attention_keys=own.attention_keys,
            attention_features=own.attention_features,
            pointwise_traffic=own.pointwise_traffic,
            traffic_of=own.traffic_of,
            products=own.products,
            cast_bytes=own.cast_bytes,
            sum_bytes=own.sum_bytes,
            experts=own.experts,
            pads_rows=own.pads_rows,
            masks=own.masks,
            persistent=own.persistent and machine.device.persistent,
        )
        return replace(machine, device=device, host=host, kernels=kernels)

    def _attention_of(self, machine: Machine) -> float | None:
        """Return the rate of the fused attention that the stack calls, in flop/s; cuDNN's and PyTorch's are
        FlashAttention-2's where the machine's file has none. None: attention is as fast as ordinary matrix products."""
        known, called = machine.device.attention, self.kernels.attention
        instead = known.get("flash2") if called in ("cudnn", "sdpa") else None
        return None if called is None else known.get(called, instead)


def _reducing(name: str, table: Any, codec: str) -> Any:
    """Return the table of a plan, of family `name` if it names none, whose data axes reduce gradients in that type,
    where the table says no other; plans that are neither on grids nor plainly data parallel as they are."""
    whole = {"family": table} if isinstance(table, str) else table
    if not isinstance(whole, dict):
        return table
    if "data" in whole:
        return {**whole, "data": _reducing("", whole["data"], codec)}
    return {"gradient_codec": codec, **whole} if whole.get("family", name) in PLAIN else table


def stacks() -> tuple[str, ...]:
    """Return the names of the stacks in the catalog."""
    return FILES.names()


def usual_stack(family: str) -> Stack | None:
    """Return the name of the stack that plans of a family usually run with; None if unknown."""
    name = USUAL.get(family)
    return None if name is None else load_stack(name)


@cache
def stacks_of(family: str) -> tuple[str, ...]:
    """Return the names of the catalog's stacks with which plans of a family run."""
    return tuple(name for name in stacks() if family in load_stack(name).families)


def load_stack(name_or_path: str, others: tuple[str, ...] = ()) -> Stack:
    """Return a stack, given its name in the catalog or the path of a TOML file (any text with a "/" or ending in
    ".toml"). `others`: further names that the error message lists as allowed. Raises InputError."""
    path = FILES.path(name_or_path, others)
    return _shipped(path) if path.parent == CATALOG else _read(path)


def _read(path: Path) -> Stack:
    return typed(FILES.document(path), Stack, FILES.where(path))


_shipped = cache(_read)
