"""`simfrontier schema`: JSON Schema of the TOML files that simfrontier reads, for editors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def schema(
    what: Annotated[
        str | None,
        typer.Argument(help="scenario, machine, library, stack, calibration or study (default: list the formats)"),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="file to write instead of printing; without a format: folder for all schemas"),
    ] = None,
) -> None:
    """Print the JSON Schema of a file format, for completion and checks in editors."""
    from simfrontier.base.wholefile import write_whole
    from simfrontier.interfaces.cli.json_schema import SCHEMAS, schema_text

    if what is None and out is not None:
        _write_all(out)
    elif what is None:
        width = max(map(len, SCHEMAS))
        for name, sentence in SCHEMAS.items():
            typer.echo(f"{name:<{width}}  {sentence}")
    elif out is None:
        typer.echo(schema_text(what), nl=False)
    else:
        write_whole(out, schema_text(what))
        typer.echo(f"Written to {out}")


def _write_all(folder: Path) -> None:
    """Write every schema into a folder. Raises InputError."""
    from simfrontier.base.wholefile import filled
    from simfrontier.interfaces.cli.json_schema import SCHEMAS, file_name, schema_text

    with filled(folder) as new:
        for name in SCHEMAS:
            (new / file_name(name)).write_text(schema_text(name), encoding="utf-8")
    for name in SCHEMAS:
        typer.echo(f"Written to {folder / file_name(name)}")
