"""The errors that simfrontier raises on purpose, drawn as a tree.

SimfrontierError   anything that simfrontier itself has to say       exit 1
└── InputError     what the user gave cannot be used as it stands    exit 2

A message is one line that says what, where, what was got, what is allowed and the nearest valid name.
Anything else that comes up (AssertionError, ...) is a defect of simfrontier, not of its input.
"""

from collections.abc import Iterable
from difflib import get_close_matches

MAX_LISTED = 12


class SimfrontierError(Exception):
    """Base of all errors that simfrontier raises on purpose; `exit_code` is what the command line ends with."""

    exit_code = 1


class InputError(SimfrontierError):
    """A file, a name or a number that the user gave cannot be used; the message is one line."""

    exit_code = 2


def nearest(name: str, allowed: Iterable[str]) -> str:
    """What to say about a name that is not allowed: `did you mean "x"?`, or else the allowed names."""
    names = sorted(set(allowed))
    lowered: dict[str, str] = {}
    for candidate in names:
        lowered.setdefault(candidate.lower(), candidate)
    close = get_close_matches(name.lower(), list(lowered), n=1, cutoff=0.6)
    if close:
        return f'did you mean "{lowered[close[0]]}"?'
    if not names:
        return "nothing is allowed here"
    listed = ", ".join(names[:MAX_LISTED])
    more = f", and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return f"allowed: {listed}{more}"
