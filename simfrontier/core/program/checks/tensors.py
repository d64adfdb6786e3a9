"""Rules of single tensors: each fits the mesh, matches the weight that it belongs to, and has the data type and
lifetime of its role."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import Final

from simfrontier.base.errors import InputError
from simfrontier.core.dtypes import INTEGERS, MOMENTS
from simfrontier.core.program.checks.layouts import of_layers, text_of
from simfrontier.core.program.finding import Fault, Findings
from simfrontier.core.program.ir import GRADIENT_ROLES, LASTING_ROLES, Collective, Schedule, Tensor
from simfrontier.core.program.kinds import is_copy, is_work, writes_indices, writes_mask
from simfrontier.core.program.names import in_streams
from simfrontier.core.program.placement import Placement

FLEETING: Final = frozenset(
    {"encoded", "scalar", "update", "norms", "token", "gradient"}
)  # written in every step before they are read
_EACH: Final = {two: one for one, two in MOMENTS.items()}  # the type of each moment
OF_NO_WEIGHT: Final = frozenset({"activation", "state", "constant", "scalar", "token"})
MASK: Final = "uint8"
WIDE: Final = {"fp64": "fp64", "fp32": "fp32", "fp16": "fp32", "bf16": "fp32"}  # weight type → type of sums
EITHER: Final = (*GRADIENT_ROLES, "encoded", "master", "optimizer")  # have the weight's type or the wide one

_PLURALS: Final = {"accumulator": "accumulators", "master": "masters", "optimizer": "optimizer states"}


def check_tensors(schedule: Schedule, findings: Findings) -> None:
    """Check that every tensor's placement, nesting and stacking are valid on the mesh."""
    for name, tensor in schedule.tensors.items():
        try:
            for axis in (*tensor.nesting, *tensor.stacked, *_axes_of(tensor.placement)):
                schedule.mesh[axis]
            size = tensor.local_bytes(schedule.mesh)
            _check_shared(schedule, tensor, size, findings)
        except InputError as error:
            findings.add("placements", f"tensor {name}", "all ranks", "a placement that the mesh allows", str(error))


def _check_shared(schedule: Schedule, tensor: Tensor, size: int, findings: Findings) -> None:
    """Check that a tensor that shares the memory of another tensor has the same size."""
    if tensor.shares is None:
        return
    home = schedule.tensors.get(tensor.shares)
    if home is None or home.local_bytes(schedule.mesh) != size:
        text = "which is not declared" if home is None else f"of {home.local_bytes(schedule.mesh)} bytes"
        findings.add(
            "placements", f"tensor {tensor.name}", "all ranks", f"to share {size} bytes", f"{tensor.shares}, {text}"
        )


def _axes_of(placement: Placement) -> tuple[str, ...]:
    return (*(axis for axis, _ in placement.shards), *placement.flat, *placement.partial_axes)


def check_families(schedule: Schedule, findings: Findings) -> None:
    """Check the data type, lifetime and codec of every tensor, and the shape of every tensor that belongs to a
    weight."""
    types = [tensor.dtype for tensor in schedule.tensors.values() if tensor.role == "weight"]
    alike: dict[str, str] = {}  # role → type of its first tensor, if all must be equal
    for tensor in schedule.tensors.values():
        if tensor.role in _PLURALS:
            alike.setdefault(tensor.role, _EACH.get(tensor.dtype, tensor.dtype))
    ops = schedule.ops
    written = {ref.name for op in ops for ref in (*op.writes, *op.accumulates)}
    masks = {op.writes[-1].name for op in ops if writes_mask(op)}
    indices = {op.writes[0].name for op in ops if writes_indices(op)}
    computed = {ref.name for op in ops if is_work(op) for ref in op.writes} - indices
    for name, tensor in schedule.tensors.items():
        weight = tensor.weight
        faults = [
            *_lifetime(tensor, weight),
            *_coding(tensor),
            *_numbers(tensor, types, name in computed, name in masks),
        ]
        if tensor.role == "activation" and tensor.persistent and name in written:
            source = schedule.tensors.get(tensor.value)  # a form of a persistent input may be persistent
            if source is None or source is tensor or not source.persistent:
                faults.append(("a value that is written to end with the step", "it is persistent"))
        whole = schedule.tensors.get(tensor.value, tensor)
        if tensor.role not in ("encoded", whole.role):
            faults.append((f"to be a form of a tensor with role {tensor.role}", f"{whole.name}, role {whole.role}"))
        if weight is not None and tensor.role in OF_NO_WEIGHT:
            faults.append((f"a {tensor.role} of no weight", weight))
        if (named := in_streams(tensor.streams, tensor.quantity)) != (weight or tensor.value):
            faults.append((f"{weight or tensor.value}, as its streams and its name in them have it", named))
        if weight is not None:
            faults += _likeness(schedule, tensor, schedule.tensors[weight])
        if tensor.role == "weight" and tensor.dtype != types[0]:
            faults.append((f"the type of the other weights, {types[0]}", tensor.dtype))
        if tensor.role in alike and _EACH.get(tensor.dtype, tensor.dtype) != alike[tensor.role]:
            faults.append((f"the type of the other {_PLURALS[tensor.role]}, {alike[tensor.role]}", tensor.dtype))
        for expected, got in faults:
            findings.add("facts", f"tensor {name}", "all ranks", expected, got)
    for name, expected, got in _homes(schedule):
        findings.add("facts", f"tensor {name}", "all ranks", expected, got)


def _likeness(schedule: Schedule, tensor: Tensor, weight: Tensor) -> Iterator[Fault]:
    """Check that a tensor that belongs to a weight (a gradient, a master, …) has the shape, labels, nesting and layers
    of the weight, and its data type or the wider one. LAMB's norms have two numbers instead of the shape."""
    if tensor.per_layer != weight.per_layer:
        yield f"to be {of_layers(weight.per_layer)}, as {weight.name} is", of_layers(tensor.per_layer)
    wanted = [] if tensor.role == "norms" else [weight.dtype]
    if tensor.role in (*EITHER, "update", "norms"):
        wanted.append(WIDE.get(weight.dtype, weight.dtype))
    if tensor.role == "optimizer":
        wanted = [dtype for each in wanted if each in MOMENTS for dtype in (MOMENTS[each], each)]  # of two, or of one
    if tensor.dtype not in wanted:
        types = " or ".join(dict.fromkeys(wanted))
        yield f"type {types}, as {tensor.role} of {weight.name} in {weight.dtype}", tensor.dtype
    if tensor.role == "norms":
        if tensor.shape != (2,) or tensor.dims or tensor.nesting:
            yield f"two numbers, of {weight.name} and its update", text_of(tensor.shape)
        return
    live = schedule.mesh.live
    for aspect, own, its in (
        ("shape", tensor.shape, weight.shape),
        ("labels", tensor.dims, weight.dims),
        ("nesting", live(tensor.nesting), live(weight.nesting)),
    ):
        if own != its:
            yield f"the {aspect} of {weight.name}, {text_of(its)}", text_of(own)


def _lifetime(tensor: Tensor, weight: str | None) -> Iterator[Fault]:
    """Check that a tensor is persistent, and exists once per micro-batch, if and only if its role requires it."""
    role, is_gathered = tensor.role, tensor.role == "gathered" and weight is not None
    if role in LASTING_ROLES and not tensor.persistent:
        yield f"a {role} to be persistent", "it is not"
    if (role in FLEETING or is_gathered) and tensor.persistent:
        yield f"a {role} tensor that ends with the step", "it is persistent"
    if (role in LASTING_ROLES or role in ("scalar", "update", "norms")) and tensor.per_micro:
        yield f"a {role} that all micro-batches share", "one for every micro-batch"
    if role == "activation" and not tensor.per_micro:
        yield "a value of every micro-batch", "one that all share"
    if tensor.follows is not None and role != "state":
        yield f"a {role} that follows no weight; only a state does", f"it follows {tensor.follows}"
    if role in ("state", "constant") and tensor.follows is None and tensor.per_layer:
        yield f"a {role} {of_layers(False)}, as it follows no weight", of_layers(True)


def _numbers(tensor: Tensor, types: list[str], is_computed: bool, is_mask: bool) -> Iterator[Fault]:
    """Check the data type of a tensor: values have the type of the weights or the wider one, inputs may also be
    integers, and dropout masks are bytes."""
    if is_mask:
        if tensor.dtype != MASK:
            yield f"a mask of type {MASK}", tensor.dtype
        return
    if tensor.role == "token" and tensor.dtype != "token":
        yield "a token of type token", tensor.dtype
    if tensor.role not in ("activation", "scalar") or not types:
        return
    allowed = (
        [types[0], WIDE.get(types[0], types[0])] if tensor.role == "activation" else [WIDE.get(types[0], types[0])]
    )
    if tensor.dtype not in (*allowed, *(() if is_computed or tensor.role != "activation" else INTEGERS)):
        yield f"type {' or '.join(dict.fromkeys(allowed))}, beside weights in {types[0]}", tensor.dtype


def _coding(tensor: Tensor) -> Iterator[Fault]:
    if tensor.role == "encoded" and tensor.codec is None:
        yield "an encoded tensor with a codec", "none"
    if tensor.role not in ("encoded", "copy") and tensor.codec is not None:
        yield f"a {tensor.role} that is not coded", f"coded as {tensor.codec}"


# ── tensors in the memory of others ──


def _homes(schedule: Schedule) -> Iterator[tuple[str, str, str]]:
    """Check that a tensor shares the memory of another tensor only if it is the result of an in-place all-reduce of
    that tensor. Yields (tensor, expected, found)."""
    sharing = [tensor for tensor in schedule.tensors.values() if tensor.shares in schedule.tensors]
    makers = _makers(schedule) if sharing else {}
    homes: set[str] = set()
    for tensor in sharing:
        home = schedule.tensors[tensor.shares or ""]
        expected = f"to lie in the memory of what is all-reduced into it, for nothing else to use, not of {home.name}"
        if home.name in homes:
            yield tensor.name, f"{home.name} to hold one other tensor", "a second one"
        homes.add(home.name)
        chain, kinds, waiting = {tensor.name}, set[str](), [tensor.name]  # on the path of moves back to the home
        while waiting:
            for kind, source in makers.get(waiting.pop(), {("nothing", "")}):
                kinds.add(kind)
                if source != home.name and source not in chain:
                    chain.add(source)
                    waiting += [source] if source else []
        readers = [op for op in schedule.ops if any(ref.name == home.name for ref in op.reads)]
        others = [op for op in readers if chain.isdisjoint(ref.name for ref in op.writes)]
        if home.shares is not None or tensor.persistent:
            yield tensor.name, expected, f"{home.name} lies in {home.shares}" if home.shares else "it is persistent"
        elif "" in chain or not kinds & {"all_reduce", "reduce_scatter"}:
            yield tensor.name, expected, f"it is made of something else by {', '.join(sorted(kinds))}"
        elif others:
            yield tensor.name, expected, f"{others[0].kind} {others[0].name} reads {home.name}, too"


def _makers(schedule: Schedule) -> dict[str, set[tuple[str, str]]]:
    """Return for every tensor the kinds of the ops that write it, each with the source if the op moves data (empty if
    it computes)."""
    out: dict[str, set[tuple[str, str]]] = {}
    for op in schedule.ops:
        moves = isinstance(op, Collective) or is_copy(op)
        for source, target in zip_longest(op.reads if moves else (), op.writes):
            if target is not None:
                out.setdefault(target.name, set()).add((op.kind, "" if source is None else source.name))
    return out
