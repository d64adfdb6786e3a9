"""The errors that simfrontier raises on purpose, drawn as a tree.

SimfrontierError   anything that simfrontier itself has to say       exit 1
└── InputError     what the user gave cannot be used as it stands    exit 2

A message is one line that says what, where, what was got, what is allowed and the nearest valid name.
Anything else that comes up (AssertionError, ...) is a defect of simfrontier, not of its input.
"""

from bisect import bisect_left
from collections.abc import Iterable
from difflib import get_close_matches

from simfrontier.limits import COMPARED_CHARACTERS, COMPARED_NAMES

MAX_LISTED = 12
MAX_LISTED_CHARACTERS = 60  # of one of the names that are listed


class SimfrontierError(Exception):
    """Base of all errors that simfrontier raises on purpose; `exit_code` is what the command line ends with."""

    exit_code = 1


class InputError(SimfrontierError):
    """A file, a name or a number that the user gave cannot be used; the message is one line."""

    exit_code = 2


def nearest(name: str, allowed: Iterable[str]) -> str:
    """What to say about a name that is not allowed: `did you mean "x"?`, or else the allowed names.

    Only names of a usual length are compared, and of very many those nearest in the alphabet (see limits).
    """
    names = sorted(set(allowed))
    close = near(name, names)
    if close is not None:
        return f'did you mean "{close}"?'
    if not names:
        return "nothing is allowed here"
    listed = ", ".join(map(_cut, names[:MAX_LISTED]))
    more = f", and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return f"allowed: {listed}{more}"


def near(name: str, allowed: Iterable[str]) -> str | None:
    """The one of the allowed names that is most like a name, in whatever case; None where none is alike, or the name
    is longer than any that is compared."""
    if len(name) > COMPARED_CHARACTERS:
        return None
    lowered: dict[str, str] = {}
    for candidate in sorted(set(allowed)):
        if len(candidate) <= COMPARED_CHARACTERS:
            lowered.setdefault(candidate.lower(), candidate)
    known = sorted(lowered)
    if len(known) > COMPARED_NAMES:
        place = bisect_left(known, name.lower())
        first = min(max(0, place - COMPARED_NAMES // 2), len(known) - COMPARED_NAMES)
        known = known[first : first + COMPARED_NAMES]
    close = get_close_matches(name.lower(), known, n=1, cutoff=0.6)
    return lowered[close[0]] if close else None


def _cut(name: str) -> str:
    return name if len(name) <= MAX_LISTED_CHARACTERS else name[: MAX_LISTED_CHARACTERS - 3] + "..."
