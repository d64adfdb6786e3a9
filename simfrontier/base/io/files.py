"""Text files as documents: TOML, JSON and logs, read within size limits; documents written as TOML; files merged with
their base."""

from __future__ import annotations

import copy
import datetime
import json
import os
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Never

from simfrontier.base.errors import InputError, nearest, shown, wrong
from simfrontier.base.limits import DEPTH, FILE

DEEP: Final = "nested too deeply"
Document = dict[str, Any]
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
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_SOURCED: Final = {"value", "kind", "source"}


def read_toml(path: Path, title: str) -> dict[str, Any]:
    """Return the document in a TOML file; `title` names the expected content in error messages. Raises InputError."""
    return toml_of(text_of(path, title, "TOML file"), str(path))


def read_json(path: Path, title: str) -> Any:
    """Return the value in a JSON file; `title` names the expected content in error messages. Raises InputError."""
    return json_of(text_of(path, title), str(path), title)


def toml_of(text: str, where: str) -> dict[str, Any]:
    """Return the document in a TOML text; `where` is the file that it comes from, for error messages. Raises
    InputError."""
    try:
        return copy.deepcopy(_toml(text))
    except (ValueError, RecursionError) as error:
        raise InputError(f"not a TOML file: {_reason(error)}", where=where) from None


@lru_cache(maxsize=8)  # variations of a scenario read the same machine and library
def _toml(text: str) -> dict[str, Any]:
    """Return the document in a TOML text. Raises ValueError or RecursionError."""
    document = tomllib.loads(text)
    refuse_unfit(document)
    return document


def yaml_of(text: str, where: str) -> Any:
    """Return the value in a YAML text, of plain types; aliases are refused, since they may repeat a value without end.
    Raises InputError."""
    import yaml  # by one reader alone

    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, yaml.SafeLoader)):
            raise ValueError("it has aliases (*name), allowed: values")
        document = yaml.safe_load(text)
        refuse_unfit(document)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = getattr(error, "problem", None) or _reason(error)
        mark = getattr(error, "problem_mark", None)
        place = f"line {mark.line + 1} column {mark.column + 1}: " if mark else ""
        raise InputError(f"{place}not YAML: {reason}", where=where) from None
    return document


def json_of(text: str, where: str, title: str, number: Callable[[str], object] | None = None) -> Any:
    """Return the value in a JSON text; `where` and `title` are for error messages. `number` parses numbers with a
    fraction or an exponent (default: to a float), and may raise ValueError. NaN and Infinity are refused, as in the
    JSON standard. Raises InputError."""
    try:
        return json.loads(text, parse_float=number, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise InputError(f"line {error.lineno} column {error.colno}: not JSON: {error.msg}", where=where) from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"not a {title}: {_reason(error)}", where=where) from None


def _reason(error: Exception) -> str:
    return DEEP if isinstance(error, RecursionError) else str(error)


def no_fraction(text: str) -> Never:
    """Raise ValueError; used as `number` of `json_of` for files that may contain whole numbers only."""
    raise ValueError(f"got {text[:60]}, allowed: whole numbers alone (a trace has others)")


def refuse_unfit(value: object) -> None:
    """Raise ValueError if the value is nested too deeply or contains a date, which no file of simfrontier has."""
    waiting = [(value, 0)]
    while waiting:
        each, depth = waiting.pop()
        if depth > DEPTH:
            raise ValueError(f"{DEEP}; allowed: {DEPTH} levels")
        if isinstance(each, dict):
            waiting += [(inner, depth + 1) for inner in each.values()]
        elif isinstance(each, list):
            waiting += [(inner, depth + 1) for inner in each]
        elif isinstance(each, datetime.date | datetime.time):
            raise ValueError(f"got the date or time {each}, allowed: texts, numbers, true and false")


@contextmanager
def reading(path: Path, title: str) -> Iterator[None]:
    """Context manager: an OSError in the block is raised as an InputError that the file cannot be read; `title` names
    the expected content in the message."""
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot read this {title}: {error.strerror or error}", where=str(path)) from None


def text_of(path: Path, title: str, form: str = "") -> str:
    """Return the whole text of a file; `title` names the expected content in error messages, and `form` the file format
    (default: the title). Raises InputError."""
    try:
        with reading(path, title):
            return FILE.text(path)
    except UnicodeDecodeError as error:
        text = f"not a {form or title}: byte {error.start} is not UTF-8 text"
        raise InputError(text, where=str(path)) from None
    except ValueError as error:  # too large
        raise InputError(f"not a {form or title}: {error}", where=str(path)) from None


def _no_constant(text: str) -> Never:
    raise ValueError(f"{text} is not a number")


def frozen(document: object) -> Hashable:
    """Return a document as a hashable value: tables become sets of pairs, lists become tuples, and other values are
    paired with their types, so that 1, 1.0 and true differ."""
    if isinstance(document, Mapping):
        return frozenset((name, frozen(value)) for name, value in document.items())
    if isinstance(document, list | tuple):
        return tuple(map(frozen, document))
    assert isinstance(document, Hashable), f"{type(document).__name__} is nothing that a document has"
    return type(document), document


def flat(tables: Mapping[Any, Any], above: str = "") -> dict[str, Any]:
    """Return the values of nested tables by dotted key; tables are not among them."""
    out: dict[str, Any] = {}
    for key, value in tables.items():
        name = f"{above}{key}"
        out |= flat(value, f"{name}.") if isinstance(value, Mapping) else {name: value}
    return out


def headed(value: Any, title: str, form: str, version: int, where: str) -> dict[str, Any]:
    """Check the keys `format` and `version` of a document, and return its other keys. Raises InputError."""
    if not isinstance(value, dict):
        raise InputError(f"not a {title}: {wrong(value, 'a table')}", where=where)
    if value.get("format") != form:
        raise InputError(f"{wrong(value.get('format'), shown(form))}, of a {title}", where=where, key=("format",))
    got = value.get("version")
    if got != version or isinstance(got, bool):
        raise InputError(wrong(got, f"{version}, which this simfrontier reads"), where=where, key=("version",))
    return {name: part for name, part in value.items() if name not in ("format", "version")}


def on_base(
    document: Document,
    catalog: Path,
    names: Collection[str],
    what: str,
    *,
    folder: Path | None = None,
    settle: Callable[[Document, Document], Document] = lambda merged, _: merged,
    above: tuple[str, ...] = (),
) -> Document:
    """Return a document merged with its `base`, a file of the catalog (one of `names`): keys that the document omits
    come from the base, table by table; a number with a source is replaced as a whole, with its source. Raises
    InputError.

    `what`: the sort of file, for error messages. `folder`: the folder of the document's file; if given, the base may
    also be a user's own file, as a path relative to this folder that ends in .toml. `settle(merged, own)` returns the
    final document from the merged one and the document's own keys. `above`: paths of the files already based on this
    one, to detect cycles.
    """
    if "base" not in document:
        return document
    own = {key: part for key, part in document.items() if key != "base"}
    base = document["base"]
    path = catalog / f"{base}.toml"
    if folder is not None and isinstance(base, str) and base.endswith(".toml"):
        path = folder / base
    elif base not in names:
        text = f"got {shown(base)}, which is no {what} of the catalog; {nearest(str(base), names)}"
        raise InputError(text, key=("base",))
    if os.path.realpath(path) in above:
        raise InputError(f"got {shown(base)}, which is based on this file; allowed: another one", key=("base",))
    below = read_toml(path, f"{what} file")
    try:
        below = on_base(
            below,
            catalog,
            names,
            what,
            folder=folder and path.parent,
            settle=settle,
            above=(*above, os.path.realpath(path)),
        )
    except InputError as error:
        raise error.within(str(path)) from None
    return settle(_merged(below, own), own)


def _merged(base: Document, own: Document) -> Document:
    merged = dict(base)
    for key, part in own.items():
        tables = [each for each in (base.get(key), part) if isinstance(each, dict) and "source" not in each]
        merged[key] = _merged(base[key], part) if len(tables) == 2 else part
    return merged


def log_text(path: Path, what: str) -> str:
    """Return the text of a log without what launchers and terminals add to it; bytes that are not UTF-8 become
    replacement characters. `what` names the expected content in error messages. Raises InputError if the file cannot be
    read."""
    try:
        with reading(path, what):
            data = FILE.read(path)
    except ValueError as error:  # of its size
        raise InputError(f"cannot read this {what}: {error}", where=str(path)) from None
    return plain_log(data.decode("utf-8-sig", errors="replace"))


def plain_log(text: str) -> str:
    """Return a log without escape sequences, control characters and the prefixes that launchers write before every
    line: `[1,0]<stdout>:` (Open MPI, PRRTE), `0: ` (srun -l), `[0] ` (Hydra), a host's name, a time of day.

    Prefixes are detected, not listed: a prefix is the text before known output of a benchmark that normally starts in
    the first column. The numbers in a prefix (rank, time) may differ from line to line.
    """
    text = _CONTROL.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    prefixes = (_before(text, match.start()) for match in _AT_START.finditer(text))
    found = [pattern for pattern, _ in Counter(map(_prefix_pattern, filter(None, prefixes))).most_common(MOST_PREFIXES)]
    return re.sub(f"^(?:{'|'.join(sorted(found, reverse=True))})", "", text, flags=re.MULTILINE) if found else text


def _before(text: str, at: int) -> str:
    """Return the text between the start of a line and a position in it; empty if that text is blank, too long for a
    prefix, or a row of numbers."""
    prefix = text[text.rfind("\n", 0, at) + 1 : at]
    return prefix if prefix.strip() and len(prefix) <= LONGEST_PREFIX and not _OF_A_ROW.match(prefix) else ""


def _prefix_pattern(prefix: str) -> str:
    """Return a regular expression that matches a prefix with any numbers in it; its quantifiers are possessive, so that
    matching takes linear time."""
    return _NUMBER.sub(lambda _: r" *+[0-9]++", re.escape(prefix))


def left_out(counts: Mapping[str, int], noun: str = "record") -> tuple[str, ...]:
    """Return one sentence per reason on the number of omitted records. A reason that starts with `of ` follows the noun
    without a colon."""
    return tuple(
        f"Left out: {count:,} {noun if count == 1 else noun + 's'}{' ' if why.startswith('of ') else ': '}{why}."
        for why, count in sorted(counts.items())
    )


def toml_key(name: str) -> str:
    """Return a key as TOML text, quoted if necessary."""
    return name if _BARE.fullmatch(name) else _quoted(name)


def toml_number(value: float) -> str:
    """Return a number as TOML text of a float, even if its value is whole."""
    return repr(float(value))  # the shortest text that reads back as the same number: 1e-05, 0.012


def toml_value(value: Any) -> str:
    """Return a value as TOML text on one line, with exact numbers and inline tables. Raises TypeError for a type that
    TOML does not have."""
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return toml_number(value)
        case str():
            return _quoted(value)
        case Mapping():
            inside = ", ".join(f"{toml_key(name)} = {toml_value(part)}" for name, part in value.items())
            return f"{{ {inside} }}" if inside else "{}"
        case Sequence():
            return f"[{', '.join(map(toml_value, value))}]"
    raise TypeError(f"TOML has no {type(value).__name__}")


def _quoted(value: str) -> str:
    # A JSON string is a TOML basic string, but for DEL, which TOML wants escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def toml_document(
    document: Mapping[str, Any], remarks: Mapping[str, str] | None = None, width: int | None = None
) -> str:
    """Return a document as TOML text; a number with its source is written as an inline table. `remarks`: comments above
    tables and behind values, by dotted name. Lists longer than `width` characters are written with one element per
    line. Raises TypeError for a type that TOML does not have, such as None."""
    return "\n".join(_table_lines(document, (), remarks or {}, width)).strip("\n") + "\n"


def comment(words: str) -> str:
    """Return a text as comment lines, whatever characters it contains."""
    return "\n".join(
        f"# {line}".rstrip() for line in re.sub(r"[^\S\n]|[\x00-\x09\x0b-\x1f\x7f]", " ", words).split("\n")
    )


def _table_lines(
    table: Mapping[str, Any], path: tuple[str, ...], remarks: Mapping[str, str], width: int | None
) -> Iterator[str]:
    tables = {key: part for key, part in table.items() if isinstance(part, Mapping) and not part.keys() >= _SOURCED}
    plain = {key: value for key, value in table.items() if key not in tables}
    if path and (plain or not tables):
        yield ""
        if remark := remarks.get(".".join(path)):
            yield comment(remark)
        yield f"[{'.'.join(map(toml_key, path))}]"
    for key, value in plain.items():
        text = toml_value(value)
        if width is not None and isinstance(value, list) and len(text) > width:
            text = "\n".join(["[", *(f"    {toml_value(each)}," for each in value), "]"])
        remark = remarks.get(".".join((*path, key)))
        yield f"{toml_key(key)} = {text}" + (f"  {comment(remark)}" if remark else "")
    for key, value in tables.items():
        yield from _table_lines(value, (*path, key), remarks, width)
