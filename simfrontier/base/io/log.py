"""The text of a job's log, and what its readers say of records that they leave out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from simfrontier.base.errors import InputError
from simfrontier.base.io.text import reading
from simfrontier.base.limits import FILE

LONGEST_PREFIX: Final = (
    200  # characters before a line, e.g. [prterun-frontier00001-12345@1,0][frontier00001:678]<stdout>:
)
MOST_PREFIXES: Final = 256  # of one log: each is tried at every line
# Lines that benchmarks and DeepSpeed print from their first column on.
_AT_START: Final = re.compile(
    r"#[ \t]*(?:OSU |Size |Using devices|nThread |Rank +[0-9]|size +count |nccl-tests |Collective test )"
    r"|Comm\. Op +Message Size"
)
_OF_A_ROW: Final = re.compile(r"\s*[0-9]+(?:\s+[0-9.]|[0-9.\s]*$)")  # which another line was glued to
_NUMBER: Final = re.compile(r"(?:\\ )*[0-9]+")  # of an escaped text, with the blanks that align it

# Escape sequences of terminals, and control characters other than tabs and ends of lines.
_CONTROL: Final = re.compile(
    "\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)?|[@-Z\\\\-_])|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
)


def log_text(path: Path, what: str) -> str:
    """Return the text of a log without what launchers and terminals add to it; bytes that are no UTF-8 become signs
    that stand for them. Raises InputError where it cannot be read; `what` it is, is for the message."""
    try:
        with reading(path, what):
            data = FILE.read(path)
    except ValueError as error:  # of its size
        raise InputError(f"cannot read this {what}: {error}", where=str(path)) from None
    return plain_log(data.decode("utf-8-sig", errors="replace"))


def plain_log(text: str) -> str:
    """Return a log without escape sequences, control characters and the prefixes that launchers write before every
    line: `[1,0]<stdout>:` (Open MPI, PRRTE), `0: ` (srun -l), `[0] ` (Hydra), a host's name, a time of day.

    Prefixes are found, not listed: what stands before a line that a benchmark prints from its first column on. The
    numbers in it (rank, time) may differ from line to line.
    """
    text = _CONTROL.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    prefixes = (_before(text, match.start()) for match in _AT_START.finditer(text))
    found = [pattern for pattern, _ in Counter(map(_pattern, filter(None, prefixes))).most_common(MOST_PREFIXES)]
    return re.sub(f"^(?:{'|'.join(sorted(found, reverse=True))})", "", text, flags=re.MULTILINE) if found else text


def _before(text: str, at: int) -> str:
    """What stands before a place in its line; empty where that is blank, too long for a prefix, or a row of numbers."""
    prefix = text[text.rfind("\n", 0, at) + 1 : at]
    return prefix if prefix.strip() and len(prefix) <= LONGEST_PREFIX and not _OF_A_ROW.match(prefix) else ""


def _pattern(prefix: str) -> str:
    """A regular expression for a prefix with any numbers; possessive, so that it takes linear time."""
    return _NUMBER.sub(lambda _: r" *+[0-9]++", re.escape(prefix))


def left_out(counts: Mapping[str, int], noun: str = "record") -> tuple[str, ...]:
    """Say how many records are left out, a sentence for each reason; `of ...` follows the noun without a colon."""
    return tuple(
        f"Left out: {count:,} {noun if count == 1 else noun + 's'}{' ' if why.startswith('of ') else ': '}{why}."
        for why, count in sorted(counts.items())
    )
