"""File format of measured times of collectives: how its files are recognised, and how they are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from simfrontier.base.io import log_text, reading
from simfrontier.inputs.measured.reading import Reading, Setup

HEAD_BYTES: Final = 1 << 16  # holds the first keys of a JSON file and the first line of a table


class FileStart:
    """The beginning of a file, and, of a log, the whole text. Raises InputError where the file cannot be read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with reading(path, "file of measured times"), path.open("rb") as file:
            self.head = file.read(HEAD_BYTES)

    @cached_property
    def text(self) -> str:
        """The first `HEAD_BYTES` as text."""
        return self.head.decode("utf-8-sig", errors="replace").lstrip()

    @property
    def is_json(self) -> bool:
        """Whether it starts as a JSON object, or as a list of objects; a log may begin with a bracket, too."""
        return self.text.startswith("{") or (self.text.startswith("[") and self.text[1:].lstrip().startswith("{"))

    @cached_property
    def log(self) -> str:
        """The whole text of a log without launchers' prefixes; empty for JSON."""
        return "" if self.is_json else log_text(self.path, "file of measured times")

    @property
    def columns(self) -> set[str]:
        """Cells of the first line, as of a CSV table."""
        return {cell.strip().strip('"') for cell in self.text.partition("\n")[0].split(",")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One file format.

    Attributes:
        name: of the format.
        title: what such files are, for the message that lists all formats.
        recognises: whether a file that starts so is of this format.
        read: read the files of one job; raises InputError.
        per_rank: every rank of a job writes a file, and these are read together; else each file is read by itself.
    """

    name: str
    title: str
    recognises: Callable[[FileStart], bool]
    read: Callable[[Sequence[Path], Setup], Reading]
    per_rank: bool = False
