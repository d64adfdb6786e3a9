"""States of one rank in a checkpoint: rectangular boxes of whole tensors, which torch.distributed.checkpoint saves once
and reshards."""

from __future__ import annotations

import math
import pickle
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner, DefaultSavePlanner
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
)
from torch.distributed.checkpoint.planner import LoadPlan, ReadItem, SavePlan, TensorWriteData, WriteItem, WriteItemType
from torch.distributed.checkpoint.planner_helpers import create_read_items_for_chunk_list
from torch.distributed.checkpoint.state_dict_loader import load

from simfrontier.base.errors import InputError
from simfrontier.core.program import Mesh, Ref, SavedState, Schedule, Tensor, saved_states
from simfrontier_real.ops.arrays import Array, torch_backend
from simfrontier_real.ops.codecs import Encoded
from simfrontier_real.ops.layout import block_of, own_elements
from simfrontier_real.ops.programs import RankContext
from simfrontier_real.train.models import placed_copy

Box = tuple[tuple[int, ...], tuple[int, ...]]  # offsets, sizes


@dataclass(frozen=True, slots=True)
class HeldTensor:
    """Part of a whole tensor that a rank holds: the shape of the whole tensor, and views of the rank's values by the
    offset of each box in the whole tensor."""

    shape: torch.Size
    chunks: Mapping[torch.Size, torch.Tensor]


StateDict = dict[str, HeldTensor]


def whole(values: torch.Tensor) -> HeldTensor:
    """Return the description of a tensor that a rank holds completely."""
    return HeldTensor(values.size(), {torch.Size([0] * values.dim()): values})


def part(tensor: Tensor, mesh: Mesh, at: Mapping[str, int], line: torch.Tensor) -> HeldTensor:
    """Return the part of a tensor that the rank at coordinates `at` holds as a flat buffer, without padding."""
    block = block_of(tensor.shape, tensor.placement, mesh, at, tensor.name)
    shape = tuple(each.stop - each.start for each in block)
    own = own_elements(tensor, mesh, at)
    kept = own[own < math.prod(shape)]
    ends = [*(np.flatnonzero(np.diff(kept) != 1) + 1).tolist(), len(kept)] if len(kept) else []
    chunks: dict[torch.Size, torch.Tensor] = {}
    begin = 0  # of a contiguous run of elements in the line
    for end in ends:
        for offsets, box in _boxes(int(kept[begin]), int(kept[end - 1]) + 1, shape):
            place = torch.Size([each.start + offset for each, offset in zip(block, offsets, strict=True)])
            chunks[place] = line[begin : begin + math.prod(box)].view(box)
            begin += math.prod(box)
    return HeldTensor(torch.Size(tensor.shape), chunks)


def _boxes(first: int, last: int, shape: tuple[int, ...]) -> Iterator[Box]:
    """Split the elements `first` to `last` (in row-major order) of a block into boxes, in this order."""
    if len(shape) == 1:
        yield (first,), (last - first,)
        return
    row, inner = math.prod(shape[1:]), shape[1:]
    while first < last:
        number, begin = divmod(first, row)
        if begin == 0 and last - first >= row:
            rows = (last - first) // row
            yield (number, *(0 for _ in inner)), (rows, *inner)
            first += rows * row
            continue
        end = min(row, begin + last - first)
        for offsets, sizes in _boxes(begin, end, inner):
            yield (number, *offsets), (1, *sizes)
        first += end - begin


class ChunkSavePlanner(DefaultSavePlanner):
    """Save planner: each box of a `StateDict` is saved once, by the first rank that holds it."""

    def __init__(self) -> None:
        super().__init__(flatten_state_dict=False, flatten_sharded_tensors=False, dedup_save_to_lowest_rank=True)

    def create_local_plan(self) -> SavePlan:
        self.plan = SavePlan(
            [
                WriteItem(
                    index=MetadataIndex(name, offsets),
                    type=WriteItemType.SHARD,
                    tensor_data=TensorWriteData(
                        chunk=ChunkStorageMetadata(offsets, values.size()),
                        properties=TensorProperties.create_from_tensor(values),
                        size=held.shape,
                    ),
                )
                for name, held in self.state_dict.items()
                for offsets, values in held.chunks.items()
            ]
        )
        return self.plan

    def lookup_object(self, index: MetadataIndex) -> torch.Tensor:
        chunk: torch.Tensor = self.state_dict[index.fqn].chunks[index.offset]
        return chunk


class ChunkLoadPlanner(DefaultLoadPlanner):
    """Load planner: each box of a `StateDict` is filled from the saved boxes that overlap it."""

    def set_up_planner(
        self, state_dict: dict[str, Any], metadata: Metadata | None = None, is_coordinator: bool = False
    ) -> None:
        self.state_dict, self.metadata, self.is_coordinator = state_dict, metadata, is_coordinator

    def create_local_plan(self) -> LoadPlan:
        assert self.metadata is not None
        items: list[ReadItem] = []
        for name, held in self.state_dict.items():
            chunks = [ChunkStorageMetadata(offsets, values.size()) for offsets, values in held.chunks.items()]
            stored: Any = self.metadata.state_dict_metadata[name]
            items += create_read_items_for_chunk_list(name, stored, chunks)
        return LoadPlan(items)

    def lookup_tensor(self, index: MetadataIndex) -> torch.Tensor:
        chunk: torch.Tensor = self.state_dict[index.fqn].chunks[index.offset]
        return chunk


_CLASSES: Final = {
    "torch.distributed.checkpoint.metadata": {
        *("Metadata", "TensorStorageMetadata", "ChunkStorageMetadata", "TensorProperties", "MetadataIndex"),
        *("StorageMeta", "_MEM_FORMAT_ENCODING"),
    },
    "torch.distributed.checkpoint.filesystem": {"_StorageInfo"},
    "torch.serialization": {"_get_layout"},
    "torch": {"Size", "float64", "float32", "float16", "bfloat16", "int64", "uint8"},
    "pathlib": {"PosixPath", "WindowsPath", "Path"},
}
"""What the metadata of a checkpoint is made of; nothing else is loaded from a file."""


class _MetadataUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if name not in _CLASSES.get(module.replace("pathlib._local", "pathlib"), ()):
            raise pickle.UnpicklingError(f"{module}.{name} does not belong in a checkpoint")
        return super().find_class(module, name)


class ChunkReader(FileSystemReader):
    """Reader of checkpoint files; it loads the metadata, which torch pickles, without executing code from it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._folder = folder

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        path = self._folder / ".metadata"
        try:
            with path.open("rb") as file:
                metadata: Metadata = _MetadataUnpickler(file).load()
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            raise InputError(f"cannot be read: {error}", where=str(path)) from None
        metadata.storage_meta = metadata.storage_meta or StorageMeta()
        metadata.storage_meta.load_id = self.load_id
        return metadata


Held = Array | Encoded


def name_of(tensor: Tensor, layer: int) -> str:
    """Return the name of a state in checkpoints, the same for every plan of a model: masters and moments are named
    after their weight."""
    named = tensor.weight if tensor.role in ("master", "optimizer") else tensor.name
    return f"{tensor.role}/{named}/{layer}"


def described_tensors(schedule: Schedule) -> dict[str, str]:
    """Return by name the type and shape of every state that is saved, which is the same for all plans of a model."""
    return {
        name_of(state.tensor, state.layer): f"{state.tensor.dtype} {' × '.join(map(str, state.tensor.shape))}"
        for state in saved_states(schedule)
        if state.tensor.role != "copy"
    }


def held_states(context: RankContext) -> list[SavedState]:
    """Return the states that a rank holds, among those that are saved in checkpoints."""
    touched = context.touched
    return [each for each in saved_states(context.schedule) if Ref(each.tensor.name, each.layer) in touched]


def state_dict(context: RankContext) -> StateDict:
    """Return the states that a rank saves."""
    out: StateDict = {}
    for state in held_states(context):
        held = context.buffers[Ref(state.tensor.name, state.layer)]
        if state.tensor.role != "copy":
            out |= _shared(context, state, held)
        if state.tensor.role == "copy" or context.schedule.codes_per_hop:
            out |= _own(context, state, held)
    return out


def restore(context: RankContext, folder: Path, is_same_schedule: bool) -> None:
    """Fill a rank's buffers from a checkpoint. Rank-specific values (copies of weights, and all states if per-hop
    coding lets copies diverge) are restored if the schedule is the same; otherwise copies are recreated from the
    weights."""
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
    """Return a rank's part of a state under its plan-independent name; for moments, one part per moment."""
    name, mesh = name_of(state.tensor, state.layer), context.schedule.mesh
    lines = {name: held}
    if state.tensor.role == "optimizer":
        lines = {f"{name}/{moment}": held[moment] for moment in range(len(held))}
    return {key: part(state.tensor, mesh, context.at, torch.as_tensor(line).reshape(-1)) for key, line in lines.items()}


def _own(context: RankContext, state: SavedState, held: Held) -> StateDict:
    """Return a state exactly as in this rank's buffer, under a rank-specific name."""
    name = f"rank-{context.rank:05}/{name_of(state.tensor, state.layer)}"
    parts = held.parts if isinstance(held, Encoded) else (held,)
    return {f"{name}/{number}": whole(torch.as_tensor(each)) for number, each in enumerate(parts)}


def _blank(held: Held) -> Held:
    """Return tensors of zeros with the types and shapes of a buffer."""
    if isinstance(held, Encoded):
        return Encoded(_blank(held.data), None if held.scales is None else _blank(held.scales))
    like = torch.as_tensor(held)
    return torch.zeros(like.shape, dtype=like.dtype, device=like.device)


def _placed(context: RankContext, held: Held) -> Held:
    """Return tensors as arrays of the rank's library, on its device."""
    if context.backend.is_torch:
        return held
    if isinstance(held, Encoded):
        return Encoded(_placed(context, held.data), None if held.scales is None else _placed(context, held.scales))
    return held.numpy()


def _whole_weight(context: RankContext, tensor: Tensor, ref: Ref, folder: Path) -> Array:
    """Return the whole weight of which a tensor is a copy, as a float64 numpy array."""
    assert tensor.weight is not None, f"{tensor.name} is of no weight"
    weight = context.schedule.tensors[tensor.weight]
    values = torch_backend().zeros(weight.shape, weight.dtype)
    _load({name_of(weight, ref.layer): whole(values)}, folder)
    return values.double().numpy()


def _load(wanted: Mapping[str, object], folder: Path) -> None:
    """Read the requested tensors from a checkpoint; each rank reads independently."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is disabled")
        load(dict(wanted), storage_reader=ChunkReader(folder), planner=ChunkLoadPlanner(), no_dist=True)
