"""Parts of tensors as boxes of the whole, which torch.distributed.checkpoint saves once and reshards."""

from __future__ import annotations

import math
import pickle
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

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

from simfrontier.base.errors import InputError
from simfrontier.core.program import Mesh, Tensor
from simfrontier_real.ops.layout import block_of

Box = tuple[tuple[int, ...], tuple[int, ...]]  # offsets, sizes


@dataclass(frozen=True, slots=True)
class HeldTensor:
    """The part of a whole tensor that a rank holds: the shape of the whole, and views of what is held by the offsets of
    their boxes in it."""

    shape: torch.Size
    chunks: Mapping[torch.Size, torch.Tensor]


StateDict = dict[str, HeldTensor]


def whole(values: torch.Tensor) -> HeldTensor:
    """A tensor that is held as a whole."""
    return HeldTensor(values.size(), {torch.Size([0] * values.dim()): values})


def part(tensor: Tensor, mesh: Mesh, at: Mapping[str, int], line: torch.Tensor) -> HeldTensor:
    """What the rank at these coordinates holds of a tensor as a flat line, without the padding at its end.

    The placement cuts the tensor's dimensions first, which leaves a block. Its elements, row by row and padded, are a
    number of mixed radix, one digit for each axis of the nesting, of which `flat` axes fix theirs.
    """
    block = block_of(tensor.shape, tensor.placement, mesh, at, tensor.name)
    shape = tuple(each.stop - each.start for each in block)
    axes, count = mesh.live(tensor.nesting), math.prod(shape)
    sizes = [mesh[axis] for axis in axes]
    order = torch.arange(count + -count % math.prod(sizes)).reshape(*sizes, -1)
    own = order[tuple(at[axis] if axis in tensor.placement.flat else slice(None) for axis in axes)].reshape(-1)
    chunks: dict[torch.Size, torch.Tensor] = {}
    for begin, first, last in _runs(own, count):
        for offsets, box in _boxes(first, last, shape):
            place = torch.Size([each.start + offset for each, offset in zip(block, offsets, strict=True)])
            chunks[place] = line[begin : begin + math.prod(box)].view(box)
            begin += math.prod(box)
    return HeldTensor(torch.Size(tensor.shape), chunks)


def _runs(own: torch.Tensor, count: int) -> Iterator[tuple[int, int, int]]:
    """(place in the line, first element of the block, the one behind the last) of contiguous elements below `count`."""
    kept = own[own < count]
    ends = [*(torch.nonzero(kept.diff() != 1).reshape(-1) + 1).tolist(), len(kept)]
    begin = 0
    for end in ends:
        if end > begin:
            yield begin, int(kept[begin]), int(kept[end - 1]) + 1
        begin = end


def _boxes(first: int, last: int, shape: tuple[int, ...]) -> Iterator[Box]:
    """The elements from `first` to `last` of a block in row-major order as boxes, in that order."""
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
    """Saves every box of a `StateDict` once, by the first rank that holds it."""

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
    """Fills every box of a `StateDict` from whatever boxes were saved."""

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
    """Reads the files of a checkpoint; its metadata, which torch pickles, without running code from it."""

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
