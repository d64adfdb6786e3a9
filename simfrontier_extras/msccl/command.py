"""`simfrontier msccl FILE`: what an algorithm file does, and what is wrong with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer

from simfrontier_extras.msccl.evaluate import Verdict, verdict
from simfrontier_extras.msccl.program import Algo
from simfrontier_extras.msccl.read import read_algo


def print_verdict(path: Path, as_json: bool) -> bool:
    """Print what a file does, whether it is right and whether RCCL takes it; whether both. Raises InputError for what
    is no such file."""
    algo = read_algo(path)
    found = verdict(algo)
    if as_json:
        typer.echo(json.dumps(_document(path, algo, found), indent=1))
    else:
        _print(path, algo, found)
    return found.is_right and found.is_taken


def _document(path: Path, algo: Algo, found: Verdict) -> dict[str, Any]:
    return {
        "file": str(path),
        "collective": algo.coll,
        "gpus": algo.size,
        "protocol": algo.protocol,
        "channels": algo.num_channels,
        "thread_blocks": algo.num_thread_blocks,
        "steps": algo.num_steps,
        "chunks": algo.chunks_per_loop,
        "in_place": algo.in_place,
        "out_of_place": algo.out_of_place,
        "min_bytes": algo.min_bytes,
        "max_bytes": algo.max_bytes,
        "is_right": found.is_right,
        "findings": list(found.findings),
        "right_up_to_bytes": found.up_to,
        "is_taken": found.is_taken,
        "refusals": list(found.refusals),
        "sent_chunks": list(found.sent_chunks),
        "sent_share": [chunks / algo.chunks_per_loop for chunks in found.sent_chunks],
    }


def _print(path: Path, algo: Algo, found: Verdict) -> None:
    size = (
        f"{algo.coll} of {algo.size} GPUs in {algo.chunks_per_loop} chunks: {algo.num_channels} channels, "
        f"{algo.num_thread_blocks} thread blocks, {algo.num_steps} steps, protocol {algo.protocol}"
    )
    typer.echo(f"{path}: {size}")
    if found.sent_chunks:
        least, most = min(found.sent_chunks) / algo.chunks_per_loop, max(found.sent_chunks) / algo.chunks_per_loop
        share = f"{most:.4g}" if least == most else f"{least:.4g} to {most:.4g}"
        typer.echo(f"Every GPU sends {share} times the message.")
    for text in found.findings:
        typer.echo(f"  {text}")
    ways = " and ".join(
        way for way, is_for in (("in place", algo.in_place), ("out of place", algo.out_of_place)) if is_for
    )
    if found.up_to is not None:
        ways += f", for calls of up to {found.up_to:,} bytes"
    typer.echo(f"Right, {ways}: it computes its collective." if found.is_right else "Wrong.")
    if not found.is_taken:
        typer.echo("RCCL does not take this file:")
    for text in found.refusals:
        typer.echo(f"  {text}")
