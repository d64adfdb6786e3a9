"""The states of one rank as a checkpoint holds them, and a rank's buffers out of any plan's checkpoint."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path

import torch
from torch.distributed.checkpoint.state_dict_loader import load

from simfrontier.core.program import Ref, SavedState, Schedule, Tensor, saved_states
from simfrontier_real.ops.arrays import Array, torch_backend
from simfrontier_real.ops.codecs import Encoded
from simfrontier_real.ops.programs import RankContext
from simfrontier_real.train.checkpoints.chunks import ChunkLoadPlanner, ChunkReader, StateDict, part, whole
from simfrontier_real.train.initial_states import placed_copy

Held = Array | Encoded


def name_of(tensor: Tensor, layer: int) -> str:
    """The name of a state, the same for every plan of a model: masters and moments are named by their weight."""
    named = tensor.weight if tensor.role in ("master", "optimizer") else tensor.name
    return f"{tensor.role}/{named}/{layer}"


def described_tensors(schedule: Schedule) -> dict[str, str]:
    """Type and shape of every state that all plans of a model save, by name."""
    return {
        name_of(state.tensor, state.layer): f"{state.tensor.dtype} {' × '.join(map(str, state.tensor.shape))}"
        for state in saved_states(schedule)
        if state.tensor.role != "copy"
    }


def held_states(context: RankContext) -> list[SavedState]:
    """The states that a rank holds, of those that a checkpoint has."""
    touched = context.touched
    return [each for each in saved_states(context.schedule) if Ref(each.tensor.name, each.layer) in touched]


def state_dict(context: RankContext) -> StateDict:
    """What a rank saves."""
    out: StateDict = {}
    for state in held_states(context):
        held = context.buffers[Ref(state.tensor.name, state.layer)]
        if state.tensor.role != "copy":
            out |= _shared(context, state, held)
        if state.tensor.role == "copy" or context.schedule.codes_per_hop:
            out |= _own(context, state, held)
    return out


def restore(context: RankContext, folder: Path, is_same_schedule: bool) -> None:
    """Fill a rank's buffers from a checkpoint. Values that ranks keep for themselves (copies of weights, and everything
    where codes per hop set copies apart) continue under the same schedule; else copies are made from the weights."""
    stored = ChunkReader(folder).read_metadata().state_dict_metadata
    wanted: StateDict = {}
    filled: dict[Ref, Held] = {}
    copies: list[tuple[Tensor, Ref]] = []
    for state in held_states(context):
        ref = Ref(state.tensor.name, state.layer)
        held = _blank(context.buffers[ref])
        own = _own(context, state, held)
        if is_same_schedule and own.keys() <= stored.keys():
            wanted |= own
        elif state.tensor.role == "copy":
            copies.append((state.tensor, ref))
            continue
        else:
            wanted |= _shared(context, state, held)
        filled[ref] = held
    _load(wanted, folder)
    for ref, held in filled.items():
        context.buffers[ref] = _placed(context, held)
    for tensor, ref in copies:
        context.buffers[ref] = placed_copy(context, tensor, _whole_weight(context, tensor, ref, folder))


def _shared(context: RankContext, state: SavedState, held: Array) -> StateDict:
    """A rank's part of a state by the name that all plans know; of moments one for each."""
    name, mesh = name_of(state.tensor, state.layer), context.schedule.mesh
    lines = (
        {name: held} if state.tensor.role != "optimizer" else {f"{name}/{moment}": held[moment] for moment in (0, 1)}
    )
    return {key: part(state.tensor, mesh, context.at, torch.as_tensor(line).reshape(-1)) for key, line in lines.items()}


def _own(context: RankContext, state: SavedState, held: Held) -> StateDict:
    """A state as this rank alone holds it, as it lies in its buffer."""
    name = f"rank-{context.rank:05}/{name_of(state.tensor, state.layer)}"
    parts = held.parts if isinstance(held, Encoded) else (held,)
    return {f"{name}/{number}": whole(torch.as_tensor(each)) for number, each in enumerate(parts)}


def _blank(held: Held) -> Held:
    """Tensors of zeros in the types and shapes of a buffer."""
    if isinstance(held, Encoded):
        return Encoded(_blank(held.data), None if held.scales is None else _blank(held.scales))
    like = torch.as_tensor(held)
    return torch.zeros(like.shape, dtype=like.dtype, device=like.device)


def _placed(context: RankContext, held: Held) -> Held:
    """Tensors as arrays of a rank's own library."""
    if context.backend.is_torch:
        return held
    if isinstance(held, Encoded):
        return Encoded(_placed(context, held.data), None if held.scales is None else _placed(context, held.scales))
    return held.numpy()


def _whole_weight(context: RankContext, tensor: Tensor, ref: Ref, folder: Path) -> Array:
    """The weight that a copy is of, as a float64 numpy array."""
    assert tensor.weight is not None, f"{tensor.name} is of no weight"
    weight = context.schedule.tensors[tensor.weight]
    values = torch_backend().zeros(weight.shape, weight.dtype)
    _load({name_of(weight, ref.layer): whole(values)}, folder)
    return values.double().numpy()


def _load(wanted: Mapping[str, object], folder: Path) -> None:
    """Fill what is wanted; every rank reads for itself."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is disabled")
        load(dict(wanted), storage_reader=ChunkReader(folder), planner=ChunkLoadPlanner(), no_dist=True)
