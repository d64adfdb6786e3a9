"""The plan of a published run: the table that a scenario would have of its grid."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from simfrontier.answers.accuracy.published_runs.rules import Told, Unknown
from simfrontier.core.machine import load_machine

MOST_CHUNKS: Final = 4
OF_TENSOR: Final = ("sequence_parallel", "product_pieces")  # keys of a plan that need tensor parallelism
GROUPS: Final = ("gradient_codec", "qwz", "hpz", "qgz")  # keys of a plan that say how data axes communicate


def plan_of(
    grid: Mapping[str, Any],
    said: Told,
    model: Mapping[str, Any],
    training: Mapping[str, int],
    ranks: int,
    assumed: list[Unknown],
) -> dict[str, Any]:
    own = said.table("plan")
    data: dict[str, Any] = {"family": grid["data"]}
    if data["family"] == "hsdp" and "shard" in grid:
        machine = load_machine(said.table("machine")["name"])
        if grid["shard"] > machine.devices_per_node:
            data = {"family": "zero3"}
            assumed.append(Unknown(text=f"weights: divided over all ranks, not over {grid['shard']}"))
    quantised = ("qwz", "hpz", "qgz") if data["family"] == "zeropp" else ()
    data |= {key: value for key, value in own.items() if key == "gradient_codec" or key in quantised}
    tensor, pipeline = grid.get("tensor", 1), grid.get("pipeline", 1)
    of_grid = {key for key in own if key not in OF_TENSOR or (tensor > 1 and "x" not in grid)}
    rest = {key: value for key, value in own.items() if key in of_grid and key not in GROUPS}
    if "product_pieces" in rest:
        rest |= _in_pieces(rest["product_pieces"], model["sequence"] // tensor)
    if "x" in grid:
        axes = {axis: grid.get(axis, 1) for axis in "xyz"}
        return {"family": "axonn", **axes, "pipeline": pipeline, "data": data, **rest}
    if tensor == pipeline == 1:
        return data | rest
    plan: dict[str, Any] = {"family": "megatron", "tensor": tensor, "pipeline": pipeline, "data": data, **rest}
    if pipeline > 1 and grid.get("order") == "interleaved":
        micros = training["batch"] // (ranks * training["micro_batch"])
        chunks = _chunks(grid.get("chunks"), model["num_layers"] // pipeline)
        if micros % pipeline:
            assumed.append(Unknown(text="1F1B: the micro-batches do not divide by the stages, as interleaving asks"))
        elif chunks > 1:
            plan |= {"order": "interleaved", "chunks": chunks}
    return plan


def _in_pieces(asked: int, positions: int) -> dict[str, Any]:
    """Products in as many pieces as are asked for and the positions of a rank divide into; such plans cut the
    sequence."""
    pieces = math.gcd(asked, positions)
    return {"sequence_parallel": True, "product_pieces": pieces}


def _chunks(asked: int | None, layers: int) -> int:
    """Runs of layers of a stage: as many as are told or, where none are, up to four, that the layers divide into; the
    fewest above four where none up to four do."""
    most = MOST_CHUNKS if asked is None else asked
    fits = [n for n in range(2, layers + 1) if layers % n == 0]
    few = [n for n in fits if n <= most]
    return few[-1] if few else fits[0] if fits and asked is None else 1
