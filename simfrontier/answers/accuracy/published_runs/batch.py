"""The batch of a published run: sequences of its step and of a micro-batch, told in these, in tokens or in parts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from simfrontier.answers.accuracy.published_runs.rules import Told, Unknown
from simfrontier.base.errors import InputError
from simfrontier.core.plan import MOST_MICRO_BATCHES

KEPT: Final = 0.1  # share by which a batch may move so that the micro-batch stays as told


def training_of(
    said: Told, grid: Mapping[str, Any], devices: int, sequence: int, assumed: list[Unknown]
) -> tuple[dict[str, int], int, float]:
    """Batch and micro-batch, which are told in sequences or in tokens, of the step or of a device; the ranks among
    which the batch is divided; and how many such steps one of the run is."""
    known = said.table("training")
    inner = grid.get("tensor", 1) * grid.get("pipeline", 1) * grid.get("x", 1) * grid.get("y", 1)
    if devices % inner:
        raise InputError(f"plan: {_factors(grid)} = {inner} does not divide {devices} devices")
    ranks = devices // inner
    tokens = _batch_tokens(grid)
    if "batch" not in known and tokens is not None:
        known["batch"] = max(ranks, round(tokens / sequence / ranks) * ranks)
    if "batch" not in known and "batch_per_device" in grid:
        known["batch"] = grid["batch_per_device"] * devices
    if "tokens_per_device" in grid:
        known["micro_batch"] = max(1, grid["tokens_per_device"] // sequence)
        known["batch"] = known["micro_batch"] * ranks
    parts = ranks * grid.get("grad_accum", 0)
    if "micro_batch" not in known and "batch" in known and parts and known["batch"] % parts == 0:
        known["micro_batch"] = known["batch"] // parts
    if "micro_batch" not in known:
        known["micro_batch"] = 1
        assumed.append(Unknown(text="micro-batch: 1"))
    if "batch" not in known:
        known["batch"] = ranks * known["micro_batch"] * grid.get("grad_accum", 16)
        assumed.append(Unknown(text=f"batch: {known['batch']} sequences"))
    if known["batch"] % (ranks * known["micro_batch"]):
        _divide(known, ranks, assumed)
    pipeline = grid.get("pipeline", 1)
    most = ranks * known["micro_batch"] * max(1, MOST_MICRO_BATCHES // pipeline) * pipeline
    if known["batch"] <= most:
        return known, ranks, 1.0
    steps = known["batch"] / most
    return known | {"batch": most}, ranks, steps


def _factors(grid: Mapping[str, Any]) -> str:
    """The product by which devices are to divide, in words."""
    names = [name for name in ("tensor", "pipeline", "x", "y") if grid.get(name, 1) > 1]
    return " × ".join(names)


def _batch_tokens(grid: Mapping[str, Any]) -> float | None:
    """Tokens of a step, where the batch is told in them."""
    for key, factor in (("batch_mtokens", 1e6), ("batch_ktokens", 1e3), ("batch_tokens", 1.0)):
        if key in grid:
            return float(grid[key]) * factor
    return None


def _divide(known: dict[str, int], ranks: int, assumed: list[Unknown]) -> None:
    """A batch near the told one that divides: with the micro-batch as told where that moves it little."""
    per_rank = known["batch"] / ranks
    if per_rank < 1:
        raise InputError(f"batch = {known['batch']} over {ranks} data-parallel ranks: less than a sequence each")
    near = round(per_rank / known["micro_batch"]) * known["micro_batch"]
    if abs(near / per_rank - 1.0) > KEPT:
        known["micro_batch"] = math.gcd(round(per_rank), known["micro_batch"])
        near = round(per_rank / known["micro_batch"]) * known["micro_batch"]
    known["batch"] = near * ranks
    text = f"batch: {known['batch']} sequences, micro-batch {known['micro_batch']}, so that they divide"
    assumed.append(Unknown(text=text))
