"""The grids of Megatron-LM that are usual for a model, the smallest first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from simfrontier.core.workload import num_blocks

if TYPE_CHECKING:
    from simfrontier.inputs.scenario.added_keys import GridJob

USUAL_KEYS: Final = ("tensor", "pipeline", "layers")


def usual_grids(job: GridJob, devices: int) -> Iterator[Mapping[str, Any]]:
    """Yield grids by the rules of Narayanan et al. (arXiv 2104.04473, takeaways 1 and 2): tensor parallelism up to the
    devices of a node first, then pipeline stages, as few ranks as the model needs to fit, and data parallelism with all
    others. Degrees are powers of two; stages that do not divide the layers are as even as these allow."""
    layers, per_node = num_blocks(job.shape), job.machine.devices_per_node
    tensor = 1
    while 2 * tensor <= per_node and devices % (2 * tensor) == 0 and _heads(job) % (2 * tensor) == 0:
        yield {"tensor": tensor, "pipeline": 1, "layers": "equal"}
        tensor *= 2
    stages = 1
    while stages <= layers and devices % (tensor * stages) == 0:
        yield {"tensor": tensor, "pipeline": stages, "layers": "even" if layers % stages else "equal"}
        stages *= 2


def _heads(job: GridJob) -> int:
    """Return a number that tensor parallelism must divide: the heads of keys and values; of another model its width."""
    shape: Any = job.shape
    return int(getattr(shape, "kv_heads", None) or getattr(shape, "heads", None) or shape.hidden)
