"""`simfrontier softmax`: measured times of softmax kernels as a table of ratios, JSON or a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from simfrontier.base.wholefile import MANIFEST, ensure_writable, filled, write_whole
from simfrontier.interfaces.cli.console import plain, print_json
from simfrontier.interfaces.report.render import said
from simfrontier.interfaces.report.results import rows_csv
from simfrontier_extras.softmax.page import TEMPLATES, softmax_rates_page
from simfrontier_extras.softmax.rates import IN_MEMORY, OTHERS, Rates, read_rates


def print_softmax(path: Path, out: Path | None, as_json: bool) -> bool:
    """Print the times of the algorithms by the length of a row, and write the page; return whether two passes are the
    fastest wherever a row is larger than the last cache. Raises InputError."""
    rates = read_rates(path)
    rows = [_row(rates, elements, starts) for elements, starts in rates.kinds]
    if out is not None:
        ensure_writable(out)
        with filled(out, MANIFEST) as new:
            write_whole(new / "index.html", softmax_rates_page(rates))
            write_whole(new / "results.csv", rows_csv(list(rows[0]), rows))
    if as_json:
        print_json(_document(rates, rows))
    else:
        _print(rates, rows, out)
    return rates.wins


def _row(rates: Rates, elements: int, starts: str) -> dict[str, Any]:
    return {
        "elements": elements,
        "starts": starts,
        "is_outside": rates.is_outside(elements, starts),
        **{f"{_key(name)}_s": rates.rates[elements, starts, name].median_s for name in IN_MEMORY},
        **{f"{_key(name)}_ratio": rates.ratio(elements, starts, name) for name in OTHERS},
    }


def _key(algorithm: str) -> str:
    return algorithm.replace("-", "_")


def _document(rates: Rates, rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "cpu": rates.cpu,
        "cache_bytes": rates.cache_bytes,
        "wins": rates.wins,
        "ratios": {each.algorithm: each.ratio for each in rates.against},
        "limits": {each.algorithm: each.limit for each in rates.against},
        "rows": rows,
    }


def _print(rates: Rates, rows: list[dict[str, Any]], out: Path | None) -> None:
    import pandas as pd

    short = {name: name.removeprefix("three-pass-") for name in IN_MEMORY}
    table = [
        {
            "elements": f"{row['elements']:,}",
            "row": "larger than the cache" if row["is_outside"] else row["starts"],
            **{f"{short[name]} ns": f"{1e9 * row[f'{_key(name)}_s'] / row['elements']:.3f}" for name in IN_MEMORY},
            **{f"{short[name]} ×": f"{row[f'{_key(name)}_ratio']:.3f}" for name in OTHERS},
        }
        for row in rows
    ]
    typer.echo(pd.DataFrame(table).to_string(index=False))
    for name, before in (("lead", ""), ("findings", "– ")):
        for sentence in said("softmax", name, rates, folder=TEMPLATES):
            typer.echo(plain(before + sentence))
    if out is not None:
        typer.echo(f"Written: {out / 'index.html'} (open it in a browser)")
