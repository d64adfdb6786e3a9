"""A log of JSON objects, one in each line, read line by line: no more than a line of it is held."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from simfrontier.errors import InputError
from simfrontier.inputfile import open_input
from simfrontier.io import Node, json_of, reading
from simfrontier.limits import LINE, RANK_LOG, FileLimit


def objects_of(path: Path, title: str, limit: FileLimit = RANK_LOG) -> Iterator[Node | None]:
    """The object of every line that is not empty, None for a last line that is cut short, as where a job was killed;
    `title`, what the file should be, is for messages. Raises InputError: one line that names file, line and fault."""
    read = 0
    with reading(path, title), open_input(path) as file:
        for number in range(1, limit.most_bytes):
            line = file.readline(LINE.most + 2)
            if not line:
                return
            read += len(line)
            where = f"{path} line {number}"
            if fault := LINE.fault(len(line.rstrip(b"\r\n"))):
                raise InputError(fault, where=where)
            if read > limit.most_bytes:
                raise InputError(f"more than {limit.most_bytes:,} bytes; allowed: up to that", where=str(path))
            if not line.strip():
                continue
            try:
                yield _object(line, where, title)
            except InputError:
                if line.endswith((b"\n", b"}")) or number == 1:
                    raise
                yield None


def _object(line: bytes, where: str, title: str) -> Node:
    try:
        text = line.decode("utf-8").strip()
    except UnicodeDecodeError as error:
        raise InputError(f"not a {title}: byte {error.start} is not UTF-8 text", where=where) from None
    try:
        node = Node(json_of(text, where, title), where)
    except InputError as error:  # its line is the only one of that text
        raise InputError(error.what.removeprefix("line 1 "), where=where) from None
    if not isinstance(node.value, dict):
        node.wrong("a table")
    return node
