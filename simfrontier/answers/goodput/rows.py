"""Goodput as rows: the columns of goodput.csv and of the JSON answer."""

from __future__ import annotations

from dataclasses import asdict
from typing import TypeAlias

from simfrontier.answers.goodput.yields import Goodput, Yield

Cell: TypeAlias = str | int | float | None


def goodput_rows(found: Goodput) -> list[dict[str, Cell]]:
    """A row per plan and size: times in seconds, checkpoints in bytes, shares of all time; cells that mean nothing are
    None."""
    return [_row(each) for each in found.yields]


def _row(each: Yield) -> dict[str, Cell]:
    step, fewer = each.step, each.fewer
    return {
        "plan": each.plan,
        "devices": step.devices,
        "nodes": step.nodes,
        "step_time_s": step.step_s,
        "tokens_per_step": step.tokens,
        "checkpoint_bytes": step.checkpoint.total,
        "checkpoint_bytes_per_rank": step.checkpoint.largest,
        "write_s": each.write_s,
        "read_s": each.read_s,
        "between_interruptions_s": each.between_s,
        "interval_s": each.interval_s,
        "interval_steps": each.interval_steps,
        **{f"share_{name}": share for name, share in asdict(each.shares).items()},
        "played_useful": each.played.useful,
        "played_error": each.played.error,
        "steps_per_day": each.steps_per_day,
        "tokens_per_day": each.tokens_per_day,
        "enough_spares": each.enough_spares,
        "fewer_devices": None if fewer is None else fewer.step.devices,
        "fewer_share": None if fewer is None else fewer.fewer_share,
        "fewer_tokens_per_day": each.fewer_tokens_per_day,
    }
