"""The verb `msccl`: the collective that an algorithm file computes, and its faults."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from simfrontier.base.extras import Verb

if TYPE_CHECKING:
    from simfrontier_extras.msccl.evaluate import Verdict
    from simfrontier_extras.msccl.program import Algo


def msccl(
    file: Annotated[Path, typer.Argument(help="MSCCL algorithm file (XML)")],
    json: Annotated[bool, typer.Option("--json", help="print everything as JSON")] = False,
) -> None:
    """Check whether an MSCCL algorithm file computes its collective and whether RCCL accepts it. Exit code 1 if not."""
    from json import dumps

    from simfrontier_extras.msccl.evaluate import verdict
    from simfrontier_extras.msccl.program import read_algo

    algo = read_algo(file)
    found = verdict(algo)
    text = dumps(_document(file, algo, found), indent=1) if json else "\n".join(_lines(file, algo, found))
    typer.echo(text)
    raise typer.Exit(0 if found.is_right and not found.refusals else 1)


def _document(path: Path, algo: Algo, found: Verdict) -> dict[str, Any]:
    from simfrontier_extras.msccl.program import COLL

    return {
        "file": str(path),
        "collective": COLL[algo.kind],
        "gpus": algo.ngpus,
        "protocol": algo.proto,
        "channels": algo.nchannels,
        "thread_blocks": len(algo.blocks),
        "steps": algo.num_steps,
        "chunks": algo.nchunksperloop,
        "in_place": True in algo.ways,
        "out_of_place": False in algo.ways,
        "min_bytes": algo.minBytes or 0,
        "max_bytes": algo.maxBytes,
        "is_right": found.is_right,
        "findings": list(found.findings),
        "right_up_to_bytes": found.up_to,
        "is_taken": not found.refusals,
        "refusals": list(found.refusals),
        "sent_chunks": list(found.sent_chunks),
        "sent_share": [chunks / algo.nchunksperloop for chunks in found.sent_chunks],
    }


def _lines(path: Path, algo: Algo, found: Verdict) -> list[str]:
    facts = _document(path, algo, found)
    size = (
        f"{facts['collective']} of {algo.ngpus} GPUs in {algo.nchunksperloop} chunks: {algo.nchannels} channels, "
        f"{facts['thread_blocks']} thread blocks, {algo.num_steps} steps, protocol {algo.proto}"
    )
    lines = [f"{path}: {size}"]
    if shares := facts["sent_share"]:
        least, most = min(shares), max(shares)
        share = f"{most:.4g}" if least == most else f"{least:.4g} to {most:.4g}"
        lines.append(f"Every GPU sends {share} times the message.")
    lines += [f"  {text}" for text in found.findings]
    ways = " and ".join("in place" if way else "out of place" for way in sorted(algo.ways, reverse=True))
    if found.up_to is not None:
        ways += f", for calls of up to {found.up_to:,} bytes"
    lines.append(f"Right, {ways}: it computes its collective." if found.is_right else "Wrong.")
    if found.refusals:
        lines += ["RCCL does not take this file:", *(f"  {text}" for text in found.refusals)]
    return lines


ADDS = (Verb(function=msccl, name="msccl"),)
