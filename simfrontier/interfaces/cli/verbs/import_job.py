"""`simfrontier import-job`: configuration files of a training job as a scenario."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Final

import typer

from simfrontier.base.wholefile import write_whole
from simfrontier.inputs.job_files import Wanted, import_job as job_of
from simfrontier.inputs.scenario import parse_setting
from simfrontier.interfaces.cli import options
from simfrontier.interfaces.cli.console import tell

LONGEST: Final = 400  # characters of a note: a log of Megatron-LM lists hundreds of fields


def import_job(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="files of one job: config.json (Hugging Face), arguments of Megatron-LM (script, log, dump), YAML of "
            "NeMo or GPT-NeoX, TOML of torchtitan, JSON of DeepSpeed"
        ),
    ],
    machine: Annotated[str, typer.Option(help="machine, e.g. lumi-g, or a machine's file")] = "frontier",
    devices: Annotated[int | None, typer.Option(min=1, help="number of devices (default: as the files say)")] = None,
    nodes: Annotated[int | None, typer.Option(min=1, help="number of nodes, instead of --devices")] = None,
    plans: Annotated[
        str | None, typer.Option(help="plans instead of the files', e.g. 'zero3; hsdp; tp 8 pp 2' (default: theirs)")
    ] = None,
    set_: options.Settings = None,
    out: Annotated[Path | None, typer.Option(help="scenario file to write, e.g. mine.toml (default: print it)")] = None,
) -> None:
    """Read configuration files of a training job and write the scenario that compare, run and explain take: what it
    took from which field, what it assumed, and what of the files no scenario expresses."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", out.stem if out else "imported").strip("-.") or "imported"
    wanted = Wanted(
        machine=machine,
        devices=devices,
        nodes=nodes,
        plans=plans,
        settings=dict(map(parse_setting, set_ or ())),
        name=name,
    )
    job = job_of(files, wanted)
    if out is None:
        typer.echo(job.text, nl=False)
        return
    write_whole(out, job.text)
    shape = job.scenario.shape
    tell(
        *(f"Read: {file.path} ({file.title})." for file in job.files),
        f"{shape.name}: {shape.num_parameters:,} parameters.",
        *(f"Assumed: {each}." for each in job.assumed),
        *(
            note if len(note) < LONGEST else f"{note[:LONGEST].rpartition(',')[0]} ... (all in {out})."
            for note in job.notes
        ),
        f"Written: {out}. Next: simfrontier compare {out}",
    )
