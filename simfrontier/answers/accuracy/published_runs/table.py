"""Tables of published training runs, with either of two sets of columns."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from simfrontier.base.errors import InputError, wrong
from simfrontier.inputs.measured import Line, columns_of, read_lines

COLUMNS: Final = (
    *("machine", "system", "model_shape", "plan", "devices", "batch", "seq", "micro_batch", "checkpointing"),
    *("precision", "value", "unit", "notes"),
)
GRID_COLUMNS: Final = (  # a grid in columns of its own
    *("source", "machine", "gpus", "model", "params_b", "precision", "global_batch", "seq", "tp", "pp", "cp", "ep"),
    *("dp", "vp", "micro_batch", "recompute", "optimizer_sharding", "metric", "value", "unit", "notes"),
)
_RENAMED: Final = {"gpus": "devices", "model": "model_shape", "global_batch": "batch", "recompute": "checkpointing"}
_DEGREES: Final = ("tp", "pp", "cp", "ep", "vp")
_NODES: Final = re.compile(r",? *(one node|\d+ nodes?( of \d+)?|\d+ node\(s\) of \d+)$")
_SOFTWARE: Final = re.compile(
    r"(torchtitan|MaxText|DeepSpeed|GPT-NeoX|LLM Foundry|nanotron|Levanter|xtuner)\b[^;,]*", re.I
)
VALUE: Final = "what was measured, a number above 0 in the row's unit"
_ABOUT: Final = re.compile(
    r"(?:about|approx\.?|ca\.?|~|≈)? ?([0-9][0-9,]*(?:\.[0-9]+)?) ?([kM]?) ?%?(?: ?(?:±|\+/-).*)?", re.IGNORECASE
)
_THOUSANDS: Final = {"": 1.0, "k": 1e3, "m": 1e6}
# Columns of counts, with what is allowed in them beside a text that says that the source does not tell.
_COUNTS: Final = {
    **dict.fromkeys(("devices", "gpus"), "a whole number of 1 or more, or nodes: 2x8, 16 nodes"),
    **dict.fromkeys(("batch", "global_batch"), "a whole number of sequences, tokens (4M tokens), or empty"),
    **dict.fromkeys(("seq", "micro_batch", "dp"), "a whole number of 1 or more, or empty"),
    **dict.fromkeys(_DEGREES, "a whole number of 1 or more, or empty"),
}
_ALONE: Final = re.compile(r"[-+~]?(?:[0-9][0-9,]*(?:\.[0-9]*)?(?:e[-+]?[0-9]+)?|nan|inf(?:inity)?)", re.IGNORECASE)
_COUNT: Final = re.compile(r"[+~]?(?=[0,]*[1-9])[0-9][0-9,]*(?:\.0*)?")
_OFF: Final = re.compile(r"0+")  # of a degree
_BELOW_ZERO: Final = re.compile(r"(?<!\w)[tpcedvm]p ?[=: ] ?-[0-9]+", re.IGNORECASE)
_NOT_TOLD: Final = re.compile(
    r"\W*|.*\b(?:not?|un\w+|none|n/?a|off|see|as|recipe|config\w*|default|auto\w*|var\w*|dynamic|max\w*|one|single|tbd)\b.*",
    re.IGNORECASE | re.DOTALL,
)
_REPOSITORY: Final = re.compile(
    r"(?P<repository>[\w.-]+/[\w.-]+)(?:@(?P<commit>[0-9a-f]{6,40}))?(?: main)?(?: \([^)]*\))?"
    r"(?: (?P<what>issue|pull request) (?P<thread>\d+)"
    r"| (?P<path>(?:[^\s@]*/[^\s@]+|[^\s@]+\.[a-z]+))(?:@(?P<of_path>[0-9a-f]{6,40}))?"
    r"(?: lines? (?P<first>\d+)(?:-(?P<last>\d+))?)?)?"
)
TABLES: Final = tuple(Path(__file__).parent / name for name in ("end_to_end.csv", "runs_2026.csv"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One published run: `value` is the measured number in the row's own `unit` (NaN: no number above 0); all other
    fields are texts of the source.

    `number`: index of the run among those read, from 0; `where`: file and line. `fault`: why the line is not a valid
    row.
    """

    number: int
    where: str
    value: float
    cells: Mapping[str, str]
    fault: str = ""

    def __getitem__(self, column: str) -> str:
        """Return the text of a column; empty where the table has no such column."""
        return self.cells.get(column, "")

    @property
    def line(self) -> str:
        """Name of the file, without its folder, and line."""
        return Path(self.where).name

    @property
    def unit(self) -> str:
        return self["unit"]

    @property
    def address(self) -> str | None:
        """Web address of the source, down to commit, file and lines where it tells them; None without any."""
        return address_of(self["source"])

    @property
    def model(self) -> str:
        """Name of the model, without its sizes."""
        return self["model_shape"].split(" L=")[0]

    @property
    def title(self) -> str:
        """Name of the run: machine, model, plan, devices."""
        return f"{self['machine']}: {', '.join(filter(None, (self.model, self['plan'])))}, {self['devices']} devices"


def shipped_runs() -> tuple[Run, ...]:
    """Return the runs of the shipped tables."""
    return read_runs(*TABLES)


def read_runs(*paths: Path) -> tuple[Run, ...]:
    """Return the runs of CSV files, each of which has `COLUMNS` or `GRID_COLUMNS`. Raises InputError, one line, for a
    file that is no such table."""
    lines: list[Line] = []
    for path in paths:
        lines += read_lines(path, GRID_COLUMNS if _has_grid(path) else COLUMNS, uneven=True)
    return tuple(_run(number, line) for number, line in enumerate(lines))


def is_of_runs(path: Path) -> bool:
    """Return whether a CSV file has the columns of published runs rather than those of collectives."""
    return "model_shape" in columns_of(path) or _has_grid(path)


def _has_grid(path: Path) -> bool:
    return columns_of(path) >= {"model", "optimizer_sharding", "unit"}


def _run(number: int, line: Line) -> Run:
    try:
        value = line.above_zero("value", VALUE)
    except InputError:
        value = _about(line.cells["value"])
    cells = line.cells if "plan" in line.cells else _with_plan(line.cells)
    return Run(number=number, where=str(line.place), value=value, cells=cells, fault=line.uneven or _fault(line.cells))


def _fault(cells: Mapping[str, str]) -> str:
    """Return what is wrong with the first cell that should say a count and says none: a number that is no whole number
    of 1 or more, or a word that does not say that nothing is told. Empty if there is no such cell."""
    for column, allowed in _COUNTS.items():
        text = cells.get(column, "")
        if _ALONE.fullmatch(text):
            fits = bool(_COUNT.fullmatch(text) or (column in _DEGREES and _OFF.fullmatch(text)))
        else:
            has_number = re.search(r"[0-9]", text) and not re.match(r"-\s*[0-9]", text)
            fits = bool(has_number or _NOT_TOLD.fullmatch(text))
        if not fits:
            return f"{column}: {wrong(text, allowed)}"
    below = _BELOW_ZERO.search(cells.get("plan", ""))
    return f"plan: {wrong(below[0], 'degrees of 1 or more')}" if below else ""


def _with_plan(cells: Mapping[str, str]) -> dict[str, str]:
    """Return the cells of a row with `GRID_COLUMNS` under the names of `COLUMNS`: the plan's text from the degrees and
    the sharding, the machine's without its number of nodes, and as the system the source and the software with which
    the notes begin."""
    grid = ", ".join(f"{axis} {cells[axis]}" for axis in _DEGREES if cells[axis])
    software = _SOFTWARE.match(cells["notes"])
    own = {_RENAMED.get(column, column): text for column, text in cells.items() if column not in (*_DEGREES, "dp")}
    return own | {
        "machine": _NODES.sub("", cells["machine"]),
        "machine_as_told": cells["machine"],
        "system": cells["source"] if software is None else f"{cells['source']}; {software[0]}",
        "plan": ", ".join(filter(None, (grid, cells["optimizer_sharding"]))),
    }


def address_of(source: str) -> str | None:
    """Return the web address that a source's text begins with: of a site, of an issue or pull request, of lines of a
    file or of a folder of a repository at a commit; None without any."""
    if re.match(r"[\w-]+\.[\w.-]+/\S", source):
        return f"https://{source.split()[0]}"
    found = _REPOSITORY.match(source)
    if found is None:
        return None
    known, base = found.groupdict(default=""), f"https://github.com/{found['repository']}"
    if known["thread"]:
        return f"{base}/{'issues' if known['what'] == 'issue' else 'pull'}/{known['thread']}"
    path, commit = known["path"].rstrip(",;"), known["commit"] or known["of_path"] or "HEAD"
    if not path or "*" in path:
        return "/".join(filter(None, (base, "tree", commit, path.split("*")[0].rpartition("/")[0])))
    lines = f"#L{known['first']}" + (f"-L{known['last']}" if known["last"] else "") if known["first"] else ""
    return f"{base}/blob/{commit}/{path}{'?plain=1' if lines and path.endswith(('.md', '.mdx')) else ''}{lines}"


def _about(text: str) -> float:
    """Parse a number that may have thousands separators, an approximation sign, k or M, or a percent sign; NaN
    unless above 0."""
    found = _ABOUT.fullmatch(text)
    value = math.nan if found is None else float(found[1].replace(",", "")) * _THOUSANDS[found[2].lower()]
    return value if 0.0 < value < math.inf else math.nan
